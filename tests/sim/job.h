// A program on a mount in the simulation: what every kind of work has in common.
//
// Confined to the simulation's thread. Its coroutines die with its client, when that is killed; run() begins
// again on the next instance of the client, and goes on with what was left.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/client.h"

namespace nfsrdma::sim {

/// What went wrong, for whoever looks at the end, and what may happen in this climate.
struct Findings {
  std::vector<std::string> wrong;
  std::uint64_t operations = 0;
  std::uint64_t restarts = 0;        ///< of the server, and failovers, so far
  std::vector<std::string> exports;  ///< names in the root
  bool calm = true;                  ///< nothing is in the way of a call
  bool disk_fills = false;           ///< ENOSPC and EDQUOT are answers to be expected
  bool leases_end = false;           ///< the outcome of a call may stay unknown
  bool has_v42 = true;               ///< extended attributes, and space that is made and taken away
  bool files_outlive_names = true;   ///< while another client has them open
  bool clients_die = false;          ///< what a killed client had confirmed to nobody may be there, or not
  bool data_is_lost = false;         ///< the server may lose what is not on its disk
  /// A file that was made with O_EXCL is surely the program's own: not so where the server knows no exclusive creation and a
  /// call was sent twice (nfs3/outcome.cpp).
  bool creates_exclusively = true;
  bool delegations_exclude = false;  ///< the server lets nobody open what another client has a delegation on
  bool closes_promise = true;        ///< what close(2) has confirmed stays so, whatever comes behind it
  /// The handles of the files that programs are setting the size of by truncate(2), which has no descriptor.
  std::multiset<std::string> truncated;
  /// Whether what was closed has to be on the server: nobody was promised that others do not see it before.
  std::function<bool(const std::string& path)> is_owed;
  /// Has the server want a delegation for writing back soon, if it does such things.
  std::function<void(const std::string& path)> recall;
  /// What the server has under a path.
  std::function<std::optional<std::string>(const std::string& path)> on_server;
  /// Whether the times of the file hold the verifier of the exclusive create that made it, by the octets of its handle.
  std::function<bool(const std::string& handle)> keeps_verifier;
  /// Whether the server has taken locks from it, which EIO says.
  std::function<bool(const SimClient& client)> lost_state;
  /// Whether a client has a delegation for writing on the file, by the octets of its handle, or may believe that it has.
  std::function<bool(const std::string& handle)> delegated;
};

class Job {
 public:
  /// `mounted`: the name of the export where it works; "" is the root's.
  Job(SimClient& client, std::string name, std::string mounted, std::uint64_t seed, unsigned operations,
      Findings& findings)
      : client_(client),
        name_(std::move(name)),
        mounted_(std::move(mounted)),
        random_(seed),
        left_(operations),
        findings_(findings) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Does its operations, looks at everything once more, and ends.
  virtual async::Task<void> run() = 0;
  /// Everybody has ended, and the clients, too: what the server must have now.
  virtual void check() = 0;
  /// The server has got a delegation for writing back.
  virtual void delegation_returned() {}
  /// Its client is being killed. Its coroutines go right behind that.
  virtual void killed() {}

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What it does, for a report of one that does not end.
  [[nodiscard]] const std::string& doing() const { return doing_; }

 protected:
  void wrong(const std::string& what);
  void wrong(const std::string& what, const Error& error);
  /// The disk is, and may be in this climate.
  [[nodiscard]] bool is_full(const Error& error) const {
    return findings_.disk_fills && (error.errno_value() == ENOSPC || error.errno_value() == EDQUOT);
  }
  struct Opening {
    bool believed_absent = false;  ///< the kernel does not look for the name before it creates it
    std::uint32_t thread = 0;      ///< that opens it
  };
  /// open(2) as the kernel does it: a lookup, then the inode that the name leads to; and the name again if that is gone by
  /// then. `inode` is set on success.
  async::Task<Result<fs::OpenedFile>> open_by_name(std::string name, int flags, Opening how,
                                                   std::uint64_t* inode);
  /// One lookup of the inode is not needed any more. A kernel keeps inodes for as long as it likes.
  void forget(std::uint64_t inode);
  [[nodiscard]] KernelModel* kernel() const { return client_.kernel(); }
  /// The last close of what close(2) has confirmed, as the kernel has it: nobody waits for it, mostly.
  async::Task<Status> release(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode);
  virtual void last_close_failed(const Error& error) = 0;
  async::Task<void> released();
  /// Where it works from now on, made if need be. False: there is none, which has been said.
  async::Task<bool> enter(std::string directory, bool shared);
  void leave();
  /// The root of an export; 0: it is not there, which has been said.
  async::Task<std::uint64_t> root_of(std::string mounted);
  /// What the server has under a name there.
  [[nodiscard]] std::optional<std::string> on_server(const std::string& name) const;
  [[nodiscard]] std::string path_of(const std::string& name) const;
  void begin(const char* what, const std::string& name);
  /// Counts it, and rests now and then.
  async::Task<void> end_operation();
  [[nodiscard]] fs::FileSystem& fs() { return client_.files(); }
  [[nodiscard]] async::Loop& loop() { return client_.host().loop(); }

  SimClient& client_;
  const std::string name_, mounted_;
  Random random_;
  unsigned left_;  // operations
  Findings& findings_;
  std::string doing_;
  std::string directory_name_;
  std::uint64_t root_ = fs::Inodes::kRoot, directory_ = 0;
  bool done_ = false;

 private:
  async::Task<Status> release_now(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode);
  async::Task<void> release_in_background(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode);

  unsigned releasing_ = 0;
};

/// The session's own credential.
inline const fs::Caller kOwn;

/// One of the names of files that are known with their contents; "" if there is none.
[[nodiscard]] std::string any_name(const std::map<std::string, std::string>& files, Random& random);

/// The octets of the handle that the server gave the open file, by which Findings know it.
[[nodiscard]] std::string key_of(const fs::OpenHandle& file);

/// Lines that say whose they are and where they stand: the fewest that have `size` bytes.
[[nodiscard]] std::string lines_of(const std::string& owner, std::size_t size);

/// The same, cut to `size`.
[[nodiscard]] std::string text_of(const std::string& owner, std::size_t size);

/// Where two texts begin to differ, with what is there.
[[nodiscard]] std::string difference(const std::string& expected, const std::string& got);

}  // namespace nfsrdma::sim
