// What the programs of several clients do to the same files, and what each of them may rely upon: counters
// under locks, a log that all append to, notes that are replaced while others read them, and names that only
// one of them can make.
//
// What they have done is on a Board, which stands for what the programs could tell each other behind the
// server's back. A thing is confirmed when its close() (or rename() …) has said yes; what was begun and is
// not confirmed may be there or not: its client was killed, or an error said so.
//
// row: F1 F5 F10 F13 S1 S10 S11 S15 S16 S17 S27
#pragma once

#include <array>
#include <map>
#include <set>

#include "sim/job.h"

namespace nfsrdma::sim {

class TeamWorker;

struct Board {
  static constexpr std::size_t kCounters = 3;
  static constexpr std::size_t kStride = 16;  // from one counter to the next, in bytes
  struct Counter {
    std::uint64_t begun = 0, confirmed = 0;
  };
  std::array<Counter, kCounters> counters;
  std::map<std::string, bool> records;  ///< of the log, and whether they are confirmed
  struct Note {
    std::uint64_t begun = 0, confirmed = 0;  // versions
  };
  std::map<std::string, Note> notes;
  struct Ticket {
    std::string winner;
    std::set<std::string> tried, in_doubt;
  };
  std::map<unsigned, Ticket> tickets;
  const TeamWorker* turn = nullptr;  ///< whose turn it is to append without a lock
  unsigned members = 0;
};

class TeamWorker final : public Job {
 public:
  TeamWorker(SimClient& client, std::string name, std::string mounted, std::uint64_t seed,
             unsigned operations, Findings& findings, Board& board);
  async::Task<void> run() override;
  void check() override;

 private:
  /// One open(2). The kernel knows the inode as long as it has it open.
  struct File {
    std::shared_ptr<fs::OpenHandle> handle;
    std::uint64_t inode = 0;
    explicit operator bool() const { return handle != nullptr; }
  };

  async::Task<void> one_operation();
  async::Task<void> count();
  async::Task<void> append();
  async::Task<void> publish();
  async::Task<void> read_note();
  async::Task<void> draw_ticket();
  async::Task<void> list();

  async::Task<File> open(std::string name, int flags);
  async::Task<bool> write(File file, std::string text, std::uint64_t offset);
  async::Task<Result<std::string>> read_plainly(File file, std::uint64_t offset, std::size_t most);
  async::Task<Result<std::string>> read_some(File file, std::uint64_t offset, std::size_t most);
  async::Task<std::optional<std::string>> read(File file, std::uint64_t offset, std::size_t most);
  async::Task<bool> lock(File file, LockRange range);
  async::Task<bool> unlock(File file, LockRange range);
  async::Task<bool> shut(File file);
  void last_close_failed(const Error& error) override;
  bool failed(const char* what, const Error& error, bool locked);
  void check_counters(const std::string& counters);
  void check_log(const std::string& log);
  void check_records_in(const std::string& log);

  Board& board_;
  const std::uint64_t owner_;  // of locks
  unsigned long_holds_ = 3;    // of locks, which are left to be done
  unsigned last_record_ = 0;
};

}  // namespace nfsrdma::sim
