#include "sim/team_work.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/fast_read.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kDigits = 8;   // of a counter
constexpr std::size_t kRecord = 32;  // bytes

std::string number(std::uint64_t value) {
  std::string out = std::to_string(value);
  return std::string(kDigits - out.size(), '0') + out;
}

/// What is not there yet counts as zero.
std::uint64_t value_of(const std::string& text) {
  std::uint64_t out = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') out = out * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return out;
}

std::string note_name(const std::string& worker) {
  return "note." + worker;
}

std::string note_text(const std::string& worker, std::uint64_t version) {
  return lines_of(worker + " v" + std::to_string(version), 50 + version * 7919 % 6000);
}

std::uint64_t version_of(const std::string& text) {
  const auto at = text.find(" v");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 2, nullptr, 10);
}

std::string ticket_name(unsigned number) {
  return "ticket." + std::to_string(number);
}

}  // namespace

TeamWorker::TeamWorker(SimClient& client, std::string name, std::string mounted, std::uint64_t seed,
                       unsigned operations, Findings& findings, Board& board)
    : Job(client, std::move(name), std::move(mounted), seed, operations, findings),
      board_(board),
      owner_(++board.members) {}

async::Task<void> TeamWorker::run() {
  // It was killed while it was its turn. Nothing of the old instance is under way any more.
  if (board_.turn == this) board_.turn = nullptr;
  const bool prepared = co_await enter("team", true);
  if (!prepared) co_return;
  while (left_ > 0) {
    co_await one_operation();
    co_await end_operation();
  }
  co_await list();
  co_await released();
  leave();
  done_ = true;
}

async::Task<void> TeamWorker::one_operation() {
  const std::uint64_t drawn = random_.below(20);
  // The others replace and remove files that others have open.
  const std::uint64_t kind = findings_.files_outlive_names ? drawn : drawn % 10;
  if (kind < 5) co_return co_await count();
  if (kind < 10) co_return co_await append();
  if (kind < 13) co_return co_await publish();
  if (kind < 17) co_return co_await read_note();
  if (kind < 19) co_return co_await draw_ticket();
  co_return co_await list();
}

/// Says so, unless it is to be expected: of a file whose lock the server has given away, or of a full disk.
/// What was begun is not confirmed then.
bool TeamWorker::failed(const char* what, const Error& error, bool locked) {
  if (locked && findings_.lost_state(client_) && error.errno_value() == EIO) return true;
  if (is_full(error)) return true;
  wrong(what, error);
  return false;
}

/// Nothing, and said, if it is not there.
async::Task<TeamWorker::File> TeamWorker::open(std::string name, int flags) {
  File out;
  const bool creates = (flags & O_CREAT) != 0;
  auto opened = co_await open_by_name(name, flags, {creates, 0}, &out.inode);
  if (opened)
    out.handle = opened->handle;
  else if (creates)
    failed("open with O_CREAT", opened.error(), false);
  else
    wrong("open", opened.error());
  co_return out;
}

async::Task<bool> TeamWorker::write(File file, std::string text, std::uint64_t offset) {
  async::Memory memory = loop().memory().take(text.size());
  std::memcpy(memory.data.get(), text.data(), text.size());
  const std::span<const std::byte> data(memory.data.get(), text.size());
  auto done = co_await fs().write(file.handle, std::move(memory), data, offset);
  if (!done) failed("write", done.error(), true);
  co_return static_cast<bool>(done);
}

/// In the way of a mount's reads that are one READ of the server's (fuse/plain_reads.h); begin_plain_read() has said yes.
async::Task<Result<std::string>> TeamWorker::read_plainly(File file, std::uint64_t offset, std::size_t most) {
  const async::Memory memory = loop().memory().take(most);
  auto fast = co_await engine::FastReadWait(*file.handle->file(), {memory.data.get(), most}, offset);
  Result<std::size_t> got = fast.count;
  if (fast.rest) got = co_await std::move(*fast.rest);
  fs().end_plain_read(*file.handle, got ? *got : 0);
  if (!got) co_return got.error();
  co_return std::string(reinterpret_cast<const char*>(memory.data.get()), *got);
}

async::Task<Result<std::string>> TeamWorker::read_some(File file, std::uint64_t offset, std::size_t most) {
  if (random_.one_in(2) && fs().begin_plain_read(*file.handle, offset, most))
    co_return co_await read_plainly(file, offset, most);
  auto got = co_await fs().read(file.handle, offset, most);
  if (!got) co_return got.error();
  std::string out;
  for (const iovec& piece : got->pieces) out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  co_return out;
}

async::Task<std::optional<std::string>> TeamWorker::read(File file, std::uint64_t offset, std::size_t most) {
  std::string out;
  while (out.size() < most) {
    auto got = co_await read_some(file, offset + out.size(), most - out.size());
    if (!got) {
      // Whoever has it open while it is replaced may lose it, where the server forgets what has no name.
      if (got.error().errno_value() != ESTALE) failed("read", got.error(), true);
      co_return std::nullopt;
    }
    if (got->empty()) break;
    out += *got;
  }
  co_return out;
}

async::Task<bool> TeamWorker::lock(File file, LockRange range) {
  const LockRequest request{owner_, true, range};
  // Some give up after a while, as with alarm(2), and ask again at once.
  for (bool hurried = random_.one_in(6); hurried; hurried = random_.one_in(2)) {
    auto wait = std::make_shared<locking::LockWait>(loop());
    const async::Loop::TimerId alarm =
        loop().at(loop().now() + random_.between(Duration{}, 2s), [wait] { wait->cancel(); });
    auto locked = co_await fs().lock(file.handle, request, wait);
    if (!wait->cancelled()) loop().cancel(alarm);
    if (locked) co_return true;
    const bool given_up = locked.error().errno_value() == EINTR;
    if (!given_up) {
      failed("lock in a hurry", locked.error(), true);
      co_return false;
    }
  }
  auto wait = std::make_shared<locking::LockWait>(loop());
  auto locked = co_await fs().lock(file.handle, request, std::move(wait));
  if (!locked) failed("lock", locked.error(), true);
  co_return static_cast<bool>(locked);
}

async::Task<bool> TeamWorker::unlock(File file, LockRange range) {
  auto unlocked = co_await fs().unlock(file.handle, owner_, range);
  if (!unlocked) failed("unlock", unlocked.error(), true);
  co_return static_cast<bool>(unlocked);
}

async::Task<bool> TeamWorker::shut(File file) {
  auto flushed = co_await fs().flush(file.handle, owner_);
  if (!flushed) failed("close", flushed.error(), true);
  auto closed = co_await release(std::move(file.handle), file.inode);
  const bool good = flushed && closed;
  co_return good;
}

/// One that was read and has been replaced may be gone for the server.
void TeamWorker::last_close_failed(const Error& error) {
  if (error.errno_value() != ESTALE) failed("the last close", error, true);
}

/// F13, S16: what is read under the lock is no older than what others have confirmed before.
async::Task<void> TeamWorker::count() {
  const std::size_t which = random_.below(Board::kCounters);
  Board::Counter& counter = board_.counters[which];
  begin("count", std::to_string(which));
  const File file = co_await open("counters", O_RDWR | O_CREAT);
  if (!file) co_return;
  const LockRange range{which * Board::kStride, Board::kStride};
  bool good = co_await lock(file, range);
  if (good) {
    const std::uint64_t confirmed = counter.confirmed;
    auto text = co_await read(file, range.offset, kDigits);
    good = text.has_value();
    const std::uint64_t value = value_of(text.value_or(""));
    if (good && value < confirmed) {
      wrong("it is " + std::to_string(value) + ", and " + std::to_string(confirmed) + " were counted");
    }
    if (good && value > counter.begun) wrong("it is " + std::to_string(value) + ", which nobody has written");
    // Some take their time, for longer than a restart of the server does.
    if (good && long_holds_ > 0 && random_.one_in(15)) {
      --long_holds_;
      co_await loop().sleep_for(random_.between(Duration{}, 40s));
    }
    if (good) {
      ++counter.begun;
      std::string next = number(value + 1);
      good = co_await write(file, std::move(next), range.offset);
    }
    const bool unlocked = co_await unlock(file, range);
    good = good && unlocked;
  }
  const bool closed = co_await shut(file);
  if (good && closed) ++counter.confirmed;
}

/// F1: under a lock of the whole file, or in turns without one.
async::Task<void> TeamWorker::append() {
  const bool locks = random_.one_in(2);
  if (!locks && board_.turn != nullptr) co_return;
  std::string record = name_ + " #" + std::to_string(++last_record_) + " ";
  record.resize(kRecord - 1, '.');
  record += '\n';
  begin("append", record.substr(0, record.find('.')));
  if (!locks) board_.turn = this;
  const File file = co_await open("log", O_WRONLY | O_APPEND | O_CREAT);
  bool good = static_cast<bool>(file);
  const LockRange all;
  if (good && locks) good = co_await lock(file, all);
  // Those who lock do not know of those who take turns: the others wait for them.
  const bool writes = good && (!locks || board_.turn == nullptr);
  if (writes) {
    if (locks) board_.turn = this;
    board_.records[record] = false;
    // Where the kernel believes the end to be is of no account.
    good = co_await write(file, record, random_.below(1000));
    // Behind close(2) of a file that nobody else may see the data may still be under way. Where that may be lost with the
    // lease, whoever hands the turn on has to see to it.
    if (good && ((!locks && findings_.leases_end) || random_.one_in(2))) {
      auto synced = co_await fs().sync(file.handle);
      if (!synced) good = failed("fsync", synced.error(), true) && false;
    }
  }
  if (good && locks) good = co_await unlock(file, all);
  if (file) {
    const bool closed = co_await shut(file);
    good = good && closed;
  }
  if (board_.turn == this) board_.turn = nullptr;
  if (good && writes) board_.records[record] = true;
}

/// Whoever looks for it finds it, the old one or the new one, whole.
async::Task<void> TeamWorker::publish() {
  Board::Note& note = board_.notes[name_];
  const std::uint64_t version = ++note.begun;
  const std::string fresh = "new." + name_;
  begin("publish", std::to_string(version));
  const File file = co_await open(fresh, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) co_return;
  std::string text = note_text(name_, version);
  bool good = co_await write(file, std::move(text), 0);
  const bool closed = co_await shut(file);
  good = good && closed;
  if (!good) co_return;
  auto renamed = co_await fs().rename(kOwn, directory_, fresh, directory_, note_name(name_));
  if (!renamed) {
    // The data may be lost with the lease behind close(2): then its name must not be there.
    failed("rename", renamed.error(), true);
    co_return;
  }
  // F25: the data is there when its name is, whatever close(2) left under way.
  const std::string expected = note_text(name_, version);
  const auto there = on_server(note_name(name_));
  if (there != expected) wrong("its name is on the server: " + difference(expected, there.value_or("")));
  note.confirmed = version;
}

/// F10: what a name means now; and a file that is open is itself to its end.
async::Task<void> TeamWorker::read_note() {
  std::vector<std::string> authors;
  for (const auto& [author, note] : board_.notes) {
    if (note.confirmed != 0) authors.push_back(author);
  }
  if (authors.empty()) co_return;
  const std::string author = authors[random_.below(authors.size())];
  const std::uint64_t confirmed = board_.notes[author].confirmed;
  begin("read the note of", author);
  const File file = co_await open(note_name(author), O_RDONLY);
  if (!file) co_return;
  const std::uint64_t begun = board_.notes[author].begun;
  if (random_.one_in(3)) co_await loop().sleep_for(random_.between(Duration{}, 300ms));
  auto text = co_await read(file, 0, 100'000);
  if (text) {
    const std::uint64_t version = version_of(*text);
    if (version < confirmed || version > begun) {
      wrong("it has version " + std::to_string(version) + ", and " + std::to_string(confirmed) +
            " was confirmed before");
    }
    const std::string expected = note_text(author, version);
    if (*text != expected) wrong("its content is another: " + difference(expected, *text));
  }
  (void)co_await shut(file);
}

/// S1, S10: of those who make a name with O_EXCL one has made it, and knows.
async::Task<void> TeamWorker::draw_ticket() {
  unsigned which = board_.tickets.empty() ? 1 : board_.tickets.rbegin()->first;
  if (board_.tickets[which].tried.contains(name_)) ++which;
  Board::Ticket& ticket = board_.tickets[which];
  ticket.tried.insert(name_);
  ticket.in_doubt.insert(name_);
  begin("draw ticket", std::to_string(which));
  auto made = co_await fs().create(kOwn, directory_, ticket_name(which), 0644, O_WRONLY | O_CREAT | O_EXCL);
  if (!made) {
    ticket.in_doubt.erase(name_);
    if (made.error().errno_value() != EEXIST) {
      failed("create", made.error(), false);
    } else if (ticket.winner.empty() && ticket.in_doubt.empty()) {
      wrong("somebody has it, and nobody does");
    }
    co_return;
  }
  if (!ticket.winner.empty()) wrong("it is " + ticket.winner + "'s already");
  ticket.winner = name_;
  File file;
  file.handle = made->handle;
  file.inode = made->entry.inode;
  const bool wrote = co_await write(file, name_, 0);
  const bool closed = co_await shut(std::move(file));
  // Behind close(2) the data may be lost with the lease.
  if (wrote && closed && !findings_.leases_end) ticket.in_doubt.erase(name_);
}

/// F8: what is there all the while is listed once.
async::Task<void> TeamWorker::list() {
  begin("list", "team");
  std::set<std::string> there;
  for (const auto& [which, ticket] : board_.tickets) {
    if (!ticket.winner.empty()) there.insert(ticket_name(which));
  }
  const auto before = board_.notes;
  auto opened = co_await fs().open_directory(kOwn, directory_, 0);
  if (!opened) {
    wrong("opendir", opened.error());
    co_return;
  }
  const auto handle = *opened;
  std::multiset<std::string> got;
  std::uint64_t cookie = 0;
  for (;;) {
    auto page = co_await fs().list(handle, cookie);
    if (!page) {
      wrong("list", page.error());
      co_return;
    }
    if (page->empty()) break;
    for (const fs::Listed& one : *page) {
      got.insert(one.name);
      cookie = one.cookie;
    }
  }
  // One that is replaced meanwhile may be missed, or listed twice.
  for (const auto& [author, note] : before) {
    const Board::Note& now = board_.notes[author];
    if (note.confirmed != 0 && note.begun == note.confirmed && now.begun == note.begun)
      there.insert(note_name(author));
  }
  for (const std::string& name : there) {
    if (got.count(name) != 1) wrong(name + " is listed " + std::to_string(got.count(name)) + " times");
  }
}

// ---- the end ----

void TeamWorker::check() {
  doing_ = "at the end";
  const auto note = board_.notes.find(name_);
  if (note != board_.notes.end() && note->second.confirmed != 0) {
    const auto text = on_server(note_name(name_));
    const std::uint64_t version = version_of(text.value_or(""));
    if (version < note->second.confirmed || version > note->second.begun || text != note_text(name_, version))
      wrong("its note is not what was published");
  }
  if (owner_ != 1) return;  // one speaks for all
  check_counters(on_server("counters").value_or(""));
  check_log(on_server("log").value_or(""));
  for (const auto& [which, ticket] : board_.tickets) {
    const auto text = on_server(ticket_name(which));
    if (!ticket.winner.empty() && !text) wrong(ticket_name(which) + " is not on the server");
    if (ticket.winner.empty() && ticket.in_doubt.empty() && text) wrong(ticket_name(which) + " is nobody's");
    if (text && !ticket.in_doubt.contains(ticket.winner) && text != ticket.winner && !ticket.winner.empty())
      wrong(ticket_name(which) + " says \"" + *text + "\" and is " + ticket.winner + "'s");
  }
}

void TeamWorker::check_counters(const std::string& counters) {
  for (std::size_t i = 0; i < Board::kCounters; ++i) {
    const std::size_t at = std::min(i * Board::kStride, counters.size());
    const std::uint64_t value = value_of(counters.substr(at, kDigits));
    const Board::Counter& counter = board_.counters[i];
    if (value < counter.confirmed || value > counter.begun) {
      wrong("counter " + std::to_string(i) + " is " + std::to_string(value) + " on the server, of " +
            std::to_string(counter.confirmed) + " confirmed and " + std::to_string(counter.begun) + " begun");
    }
  }
}

void TeamWorker::check_log(const std::string& log) {
  if (findings_.disk_fills) return check_records_in(log);
  std::map<std::string, unsigned> found;
  for (std::size_t at = 0; at < log.size(); at += kRecord) ++found[log.substr(at, kRecord)];
  // What a killed client had not brought to the disk is lost when the server restarts, and its place is not.
  const std::string hole(kRecord, '\0');
  const bool in_doubt = std::ranges::any_of(board_.records, [](const auto& one) { return !one.second; });
  for (const auto& [text, times] : found) {
    if (text == hole && in_doubt) continue;
    if (!board_.records.contains(text))
      wrong("the log has a record that nobody wrote: " + difference(hole, text));
    if (times != 1) wrong("the log has " + std::to_string(times) + " times " + text);
  }
  for (const auto& [text, confirmed] : board_.records) {
    if (confirmed && !found.contains(text)) wrong("the log has lost " + text);
  }
}

/// A disk that was full may have taken a part of a record, after which the others do not stand in their
/// places.
void TeamWorker::check_records_in(const std::string& log) {
  for (const auto& [text, confirmed] : board_.records) {
    const auto at = log.find(text);
    if (at == std::string::npos && confirmed) wrong("the log has lost " + text);
    if (at != std::string::npos && log.find(text, at + 1) != std::string::npos)
      wrong("the log has more than once " + text);
  }
}

}  // namespace nfsrdma::sim
