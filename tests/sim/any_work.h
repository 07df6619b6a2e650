// Programs of several clients that do whatever they like to a few shared files, and go on whatever they are told.
//
// An AnyWorker has several files open at a time, with any flags of open(2), some of them for minutes; it reads, writes,
// appends, truncates, sets times, punches, allocates, seeks, copies, locks, syncs, renames, links, removes and lists at
// random. What it is told is judged by oracles (file_oracle.h, name_oracle.h), which all workers share as Commons
// (any_commons.h).
//
// any_work.cpp draws the operations, judges errors and looks at the end; any_opens.cpp, any_data.cpp, any_locks.cpp and
// any_names.cpp carry out one kind of them each.
//
// On some clients a model of the kernel (kernel_model.h) stands between them and the file layer: there they also have mappings.
// Some of their reads and writes go past it, as those of a ring do. On the others every read(2) and fstat(2) asks the file layer.
//
// row: F1 F4 F10 F13 F23 S14 S16 S25
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/any_commons.h"
#include "sim/kernel_model.h"

namespace nfsrdma::sim {

class AnyWorker final : public Job {
 public:
  AnyWorker(SimClient& client, std::string name, std::string mounted, std::uint64_t seed, unsigned operations,
            Findings& findings, Commons& commons);
  async::Task<void> run() override;
  void check() override;
  void killed() override;

 private:
  static constexpr std::uint64_t kFurthest = 120'000;  ///< where a write may begin
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

  async::Task<void> one_operation();
  async::Task<void> rest();
  async::Task<void> on_open_file(OpenRef file);
  async::Task<void> open();
  /// Returns the open file, or null where it could not be opened.
  async::Task<OpenRef> open(std::string name, int flags);
  async::Task<void> read(OpenRef file);
  async::Task<void> read(OpenRef file, std::uint64_t offset, std::size_t most);
  [[nodiscard]] bool goes_past_kernel();
  /// `past`: past the kernel.
  async::Task<Result<std::string>> read_some(OpenRef file, std::uint64_t offset, std::size_t most, bool past);
  async::Task<Status> write_some(OpenRef file, std::uint64_t offset, std::string octets, bool past);
  async::Task<void> load(OpenRef file);
  async::Task<void> load(OpenRef file, std::uint64_t offset);
  async::Task<void> lengthen_and_map();
  async::Task<void> store(OpenRef file);
  async::Task<void> write(OpenRef file);
  async::Task<void> write(OpenRef file, std::uint64_t offset, std::size_t size);
  async::Task<void> stripes();
  async::Task<void> stat(OpenRef file);
  async::Task<Result<std::uint64_t>> set_attributes(OpenRef file, SetAttributes changes, bool by_handle);
  async::Task<void> truncate(OpenRef file);
  async::Task<void> touch(OpenRef file);
  async::Task<void> allocate(OpenRef file, bool punches);
  async::Task<void> seek(OpenRef file);
  async::Task<void> copy(OpenRef from, OpenRef to);
  async::Task<void> lock(OpenRef file);
  async::Task<void> unlock();
  async::Task<void> sync(OpenRef file);
  async::Task<void> close(OpenRef file);
  void forget_names(const std::vector<std::string>& names);
  async::Task<void> rename();
  async::Task<void> link();
  async::Task<void> remove();
  async::Task<void> list();
  async::Task<void> look_once_more();

  void last_close_failed(const Error& error) override;
  /// Says that something is wrong, if it is.
  void judge(const std::string& verdict, const Open& file);
  /// Whether the program may get this error in this climate, for a file with this key or none; if not it is said.
  bool may_fail(const char* what, const Error& error, const std::string& key);
  [[nodiscard]] Outcome outcome_of(const Status& done) const;
  [[nodiscard]] Outcome outcome_of(const Error& error) const;
  [[nodiscard]] FileOracle& oracle(const Open& file) { return commons_.file(file.key); }
  [[nodiscard]] FileOracle::Client client() const { return client_.host().number() - 1; }
  [[nodiscard]] FileOracle::Who who() const { return {client(), name_}; }
  void end_locks(const std::string& key, const LockRange& range, Tick released);
  void granted(const Open& file, const LockRequest& request, Tick begun);
  void count(Coverage::Operation operation, const Open& file, std::uint64_t size, bool past = false);
  void count_whole(Coverage::Operation operation, const Open& file);
  void count_name(Coverage::Operation operation) {
    commons_.coverage.count(operation, 0, 0, Coverage::kPlain);
  }
  void keep_open(const OpenRef& file);
  std::map<std::string, FileOracle::ChangeId> end_cut(const std::optional<Commons::CutRef>& cut);
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
