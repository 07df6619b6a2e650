// Programs of several clients that do whatever they like to a few shared files, and go on whatever they are told.
//
// An AnyWorker has several files open at a time, with any flags of open(2), some of them for minutes; it reads, writes,
// appends, truncates, punches, allocates, seeks, copies, locks, syncs, renames, links, removes and lists at random. What it is
// told is judged by oracles (file_oracle.h, name_oracle.h), which all workers share as Commons: the simulation sees what no
// single program can.
//
// On some clients a model of the kernel (kernel_model.h) stands between them and the file layer: there they also have mappings.
// On the others every read(2) and fstat(2) asks the file layer.
//
// row: F1 F4 F10 F13 F23 S14 S16 S25
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/coverage.h"
#include "sim/file_oracle.h"
#include "sim/job.h"
#include "sim/kernel_model.h"
#include "sim/name_oracle.h"

namespace nfsrdma::sim {

/// What all AnyWorkers of a world know.
struct Commons {
  explicit Commons(const Findings& findings);
  Commons(const Commons&) = delete;
  Commons& operator=(const Commons&) = delete;

  /// By the file's handle on the server; made where it was not known.
  FileOracle& file(const std::string& key);
  NameOracle& name(const std::string& name) { return names.at(name); }
  /// Called when the client was killed.
  void kill(FileOracle::Client client);

  struct Lock {
    FileOracle::Client client = 0;
    std::uint64_t owner = 0;
    std::string file;
    LockRange range;
    bool write = false;
    Tick released = 0;  ///< when its holder began to release it; 0: it has it
  };
  OracleClock clock;
  const Findings& findings;
  std::map<std::string, std::unique_ptr<FileOracle>> files;
  std::map<std::string, NameOracle> names;
  std::set<std::string> unnamed;  ///< files that have lost a name
  std::vector<Lock> locks;
  /// How many descriptors of the file each client has.
  std::map<std::string, std::map<FileOracle::Client, unsigned>> opens;
  Coverage coverage;
  std::set<FileOracle::Client> lost_state;  ///< clients that the server has taken state from
  std::uint64_t members = 0, records = 0;
};

class AnyWorker final : public Job {
 public:
  AnyWorker(SimClient& client, std::string name, std::string mounted, std::uint64_t seed, unsigned operations,
            Findings& findings, Commons& commons);
  async::Task<void> run() override;
  void check() override;
  void killed() override;

 private:
  using Operation = OracleClock::Operation;
  using Outcome = FileOracle::Outcome;
  /// One open(2).
  struct Open {
    std::shared_ptr<fs::OpenHandle> handle;
    std::uint64_t inode = 0;
    int flags = 0;
    std::string key;
    Tick opened = 0;
    std::uint64_t restarts = 0;  ///< of the server, by then
    [[nodiscard]] bool reads() const;
    [[nodiscard]] bool writes() const;
  };
  using OpenRef = std::shared_ptr<Open>;
  struct Named {
    std::string name;
    NameOracle::ChangeId change = 0;
  };

  async::Task<void> one_operation();
  async::Task<void> rest();
  async::Task<void> on_open_file(OpenRef file);
  async::Task<void> open();
  async::Task<Result<fs::OpenedFile>> open_by_name(std::string name, int flags, std::uint64_t* inode);
  async::Task<void> read(OpenRef file);
  async::Task<Result<std::string>> read_some(OpenRef file, std::uint64_t offset, std::size_t most);
  async::Task<void> load(OpenRef file);
  async::Task<void> store(OpenRef file);
  async::Task<void> write(OpenRef file);
  async::Task<void> stat(OpenRef file);
  async::Task<void> truncate(OpenRef file);
  async::Task<void> allocate(OpenRef file, bool punches);
  async::Task<void> seek(OpenRef file);
  async::Task<void> copy(OpenRef from, OpenRef to);
  async::Task<void> lock(OpenRef file);
  async::Task<void> unlock();
  async::Task<void> sync(OpenRef file);
  async::Task<void> close(OpenRef file);
  async::Task<void> rename();
  async::Task<void> link();
  async::Task<void> remove();
  async::Task<void> list();
  async::Task<void> look_once_more();

  void last_close_failed(const Error& error) override;
  [[nodiscard]] KernelModel* kernel() const { return client_.kernel(); }
  void forget(std::uint64_t inode);
  /// Says that something is wrong, if it is.
  void judge(const std::string& verdict, const Open& file);
  /// Whether the program may get this error in this climate, for a file with this key or none; if not it is said.
  bool may_fail(const char* what, const Error& error, const std::string& key);
  [[nodiscard]] Outcome outcome_of(const Status& done) const;
  [[nodiscard]] Outcome outcome_of(const Error& error) const;
  [[nodiscard]] FileOracle& oracle(const Open& file) { return commons_.file(file.key); }
  [[nodiscard]] FileOracle::Client client() const { return client_.host().number() - 1; }
  [[nodiscard]] FileOracle::Who who() const { return {client(), name_}; }
  void granted(const Open& file, const LockRequest& request, Tick begun);
  void count(Coverage::Operation operation, const Open& file, std::uint64_t size);
  void count_whole(Coverage::Operation operation, const Open& file);
  void count_name(Coverage::Operation operation) {
    commons_.coverage.count(operation, 0, 0, Coverage::kPlain);
  }
  void keep_open(const OpenRef& file);
  [[nodiscard]] OpenRef any_open(bool reads, bool writes);
  [[nodiscard]] std::string any_name();
  [[nodiscard]] std::uint64_t a_size(const Open& file);
  [[nodiscard]] std::uint64_t any_offset(const Open& file);
  [[nodiscard]] std::size_t any_size();
  [[nodiscard]] std::string fresh_octets(std::size_t size);

  Commons& commons_;
  const std::uint64_t owner_;  // of locks
  bool has_lock_ = false;
  unsigned restarts_to_await_ = 4;
  std::vector<OpenRef>* open_ = nullptr;  // belongs to run(), whose frame goes before the file system does
};

}  // namespace nfsrdma::sim
