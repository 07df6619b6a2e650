// An engine that is no NFSv4: a tree in memory that gives nothing unasked. Unless `tells` says otherwise no
// attributes come along and names are listed without handles; nobody delegates, and what NFSv4.2 added is not
// there. `calls` is what was asked for, in order, each operation by the name that the test's calls below
// take.
//
// A listing goes on with the verifier of its first page only (EINVAL).
//
// Calls are answered at once and succeed, unless a test says otherwise before they come.
#pragma once

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "fs/inodes.h"

namespace nfsrdma::fs::plain {

template <class T>
using Answer = async::Task<Result<T>>;

class PlainEngine final : public Engine, public engine::Promises {
 public:
  struct Node {
    FileType type = FileType::regular;
    std::uint32_t mode = 0;
    std::string content;
    std::map<std::string, std::uint64_t> names;
    std::map<std::string, std::uint64_t>
        cookies;  ///< of the names that were ever listed: they stay as they are
    std::uint64_t change = 1;
    std::uint64_t filesystem = 7;
  };
  class File;

  /// The nodes begin with the root, number 1. What is made takes the numbers from 2.
  PlainEngine(async::Loop& loop, std::string& calls);

  // ---- what a test does to calls: "read", "write", "commit", "attributes", "set", "lookup", "link", … ----

  /// Keeps the calls of this name from being executed.
  void hold(const std::string& what) { gates_[what]; }
  /// Executes them and keeps the answer: of read, write, attributes, set, lookup and link.
  void hold_answer(const std::string& what) { hold(what + kAnswer); }
  /// Ends hold() and hold_answer().
  void release(const std::string& what);
  /// Lets the one go that has waited longest.
  void release_one(const std::string& what);
  /// How many calls are being held; those of hold_answer("write") are counted by held("write answer").
  [[nodiscard]] std::size_t held(const std::string& what) const;
  /// Refuses the next ones.
  void fail(const std::string& what, int code, unsigned times = 1);
  /// The next one gets no answer; link, remove and rename may have been executed all the same.
  void lose(const std::string& what, bool executed);
  /// Called at the beginning of each call, before it is held or fails.
  std::function<void(const std::string&)> on_call;
  std::map<std::string, Caller> callers;  ///< who asked last for an operation of this name

  // ---- the tree, and how it is told of ----

  std::map<std::uint64_t, Node> nodes;
  std::uint64_t locker = 0;   ///< the owner of the one lock that there is, 0: nobody
  bool grants_waits = false;  ///< whoever waits for the lock has it at once; else nobody ever gets it: EINTR
  bool tells = false;    ///< attributes come along where they can, and handles with names that are listed
  bool writable = true;  ///< access() says so
  std::size_t page_size = 1000;  ///< names in a page
  engine::WriteBackOwner* keeps = nullptr;
  std::uint64_t owed = 0;              ///< max_size_for_deferred_close(), of every file
  std::uint64_t end_in_doubt = 0;      ///< of every open file
  std::chrono::seconds delegation{0};  ///< every file is delegated for so long; 0: none is
  /// Whether open_and_read() reads; else it only opens.
  bool reads_first = false;
  std::uint64_t client_is = 0xc11e47;         ///< client_number()
  std::size_t circle = 0;                     ///< of so many names, in which a listing ends; 0: it has an end
  std::uint64_t largest = ~std::uint64_t{0};  ///< no file gets larger; of a write what fits is written

  static FileHandle handle(std::uint64_t id);
  static std::uint64_t id_of(const FileHandle& handle);
  [[nodiscard]] std::uint32_t links(std::uint64_t id) const;

  // ---- Engine ----

  async::Loop& loop() override { return loop_; }
  std::uint64_t client_number() const override { return client_is; }
  const ServerCounters& counters() const override { return counters_; }
  ServerHoldings holdings() const override { return {}; }
  async::Task<Status> ping() override;
  Answer<Object> find(Caller caller, Spot spot) override;
  Answer<Object> parent(Caller caller, FileHandle directory) override;
  Answer<Attributes> attributes(Caller caller, FileHandle object) override;
  Answer<Attributes> set_attributes(Caller caller, FileHandle object, SetAttributes changes,
                                    ServerFileRef file) override;
  Answer<Rights> access(Caller caller, Spot spot, unsigned wanted) override;
  Answer<std::string> read_link(Caller caller, Spot spot) override;
  Answer<Space> space(Caller caller, Spot spot) override;
  Answer<Made> make_directory(Caller caller, Spot directory, std::string name, std::uint32_t mode) override;
  Answer<Made> make_symlink(Caller caller, Spot directory, std::string name, std::string text) override;
  Answer<Made> make_node(Caller caller, Spot directory, std::string name, FileType type, Device device,
                         std::uint32_t mode) override;
  Answer<Made> link(Caller caller, Spot object, Spot directory, std::string name) override;
  Answer<std::optional<Attributes>> remove(Caller caller, Spot directory, std::string name,
                                           Removed what) override;
  Answer<Renamed> rename(Caller caller, Spot from, std::string old_name, Spot to, std::string new_name,
                         std::optional<FileHandle> object) override;
  Answer<Page> list(Caller caller, Spot directory, std::uint64_t cookie, ListVerifier verifier) override;
  Answer<std::vector<std::byte>> get_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  Answer<std::vector<std::string>> list_xattrs(Caller caller, FileHandle object) override;
  Answer<Opened> open(Caller caller, FileHandle file, std::string label, Access access,
                      std::optional<Place> found_at) override;
  Answer<Opened> open_and_read(Caller caller, FileHandle file, std::string label,
                               std::optional<Place> found_at, std::span<std::byte> into) override;
  Answer<Opened> open_at(Caller caller, Spot directory, std::string name, Access access,
                         std::optional<Creation> creation) override;
  async::Task<Status> close(ServerFileRef file) override;
  Answer<std::uint64_t> copy(ServerFileRef from, std::uint64_t from_offset, ServerFileRef to,
                             std::uint64_t to_offset, std::uint64_t count) override;
  std::uint64_t modifications(const FileHandle& object) const override;
  std::uint64_t modifications_after_call(const FileHandle& object) const override {
    return modifications(object) + 1;
  }
  engine::Promises& promises() override { return *this; }
  bool delegated(const FileHandle& /*file*/) const override { return delegation != std::chrono::seconds(0); }
  std::chrono::seconds delegated_for() const override { return delegation; }
  void on_lost_data(std::function<void(const FileHandle&, const Error&)> sink) override;
  void write_back_owner(engine::WriteBackOwner* who) override { keeps = who; }
  std::uint64_t max_size_for_deferred_close(const FileHandle& /*file*/) const override { return owed; }
  std::size_t open_files() const override { return open_; }
  std::size_t uncommitted_bytes() const override { return 0; }

 private:
  static constexpr const char* kAnswer = " answer";
  struct Gate {
    std::size_t came = 0, let = 0;
  };
  struct Failure {
    Error error;
    bool executed = false;
  };
  void log(const std::string& what);
  /// A call has come: how it is to fail, if it is to. Awaited by those that can be held or fail.
  async::Task<std::optional<Failure>> begin(std::string what, Caller caller = nullptr);
  async::Task<void> answer(const std::string& what) { return pass(what + kAnswer); }
  async::Task<void> pass(std::string gate);
  std::optional<Failure> take_failure(const std::string& what);
  /// The number of the node there.
  Result<std::uint64_t> walk(const Spot& spot) const;
  Result<Node*> walk_to_directory(const Spot& spot);
  Attributes describe(std::uint64_t id) const;
  Result<Made> make(const Spot& directory, const std::string& name, FileType type, std::uint32_t mode);
  Opened opened(Object object, Access access);

  async::Loop& loop_;
  std::string& calls_;
  async::Event opened_;
  std::map<std::string, Gate> gates_;
  std::map<std::string, std::deque<Failure>> failures_;
  std::function<void(const FileHandle&, const Error&)> lost_data_;
  const ServerCounters counters_;
  std::uint64_t last_ = 1;
  std::size_t open_ = 0;
};

}  // namespace nfsrdma::fs::plain
