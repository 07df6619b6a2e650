#include "fs/write_behind.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "async/all.h"
#include "async/buggify.h"

namespace nfsrdma::fs {
namespace {

/// Writes below this size are copied in order to be gathered.
constexpr std::size_t kGatherBelow = 64U << 10;
constexpr std::uint32_t kLeastPiece = 512;
constexpr auto kGatherFor = std::chrono::milliseconds(10);

/// Writes one piece, and keeps the file alive for a task that may outlive its caller. `label` is the file's
/// name in errors. If `times` is not null, the piece is all of the data, it is written stably, and `after` is not null.
async::Task<Status> write_piece(ServerFileRef file, std::string label, async::Memory memory,
                                std::span<const std::byte> data, std::uint64_t offset, Stability stability,
                                std::optional<Attributes>* after, Counters& counters,
                                WriteBehind::Times* times = nullptr) {
  ++counters.server_writes;
  Result<std::size_t> count = 0;
  if (times == nullptr) {
    count = co_await file->write(data, std::move(memory), offset, stability, after);
  } else {
    auto both = co_await file->write_and_set_times(data, std::move(memory), offset, times->changes, after);
    if (both && both->times_are_set) times->after = *after;
    count = both ? Result(both->count) : both.error();
  }
  if (!count) co_return count.error();
  counters.server_bytes_written += *count;
  if (*count == data.size()) co_return Status();
  // The program may already have the answer that all of its data is written.
  co_return Error(
      ErrorKind::server, EFBIG, "WRITE", std::move(label),
      "the file has reached the largest size that the server allows; data written beyond it is lost");
}

/// Copies `data` if it uses much less than its memory, because the memory may have to be held for long.
void fit(async::MemoryPool& pool, async::Memory& memory, std::span<const std::byte>& data) {
  if (memory.data && data.size() >= memory.size / 4 * 3) return;
  async::Memory copy = pool.take(data.size());
  std::copy(data.begin(), data.end(), copy.data.get());
  data = {copy.data.get(), data.size()};
  memory = std::move(copy);
}

}  // namespace

WriteBehind::WriteBehind(async::Loop& loop, Freshness& freshness, Counters& counters, std::uint32_t wsize)
    : loop_(loop),
      freshness_(freshness),
      counters_(counters),
      wsize_(wsize),
      window_(wsize),
      less_behind_(loop) {}

WriteBehind::~WriteBehind() {
  loop_.drop(sending_task_);
}

// ---- writing ----

async::Task<Status> WriteBehind::write(std::shared_ptr<OpenHandle> file, async::Memory memory, Bytes data,
                                       std::uint64_t offset, How how) {
  Inode& inode = file->inode();
  const bool stable = how.stable || inode.writes.errors().failing();
  const bool through = stable || file->direct || async::buggify(loop_);
  counters_.writes_behind += through ? 0 : 1;
  if (!through && add_to_gathered(file, data, offset, how)) co_return Status();
  const Pending pending = inode.writes.begin(offset, data.size(), how.append);
  freshness_.changed(inode);
  if (inode.writes.any_before(pending)) co_await wait_for_turn(inode, pending);
  if (through) {
    co_return co_await write_through(file, std::move(memory), data, pending,
                                     stable ? Stability::on_disk : Stability::unstable);
  }
  if (too_much_behind(data.size())) co_await wait_for_room(data.size());
  send_behind(file, std::move(memory), data, pending);
  co_return Status();
}

/// Waits for the earlier writes that touch the range of this one, because it might overtake them.
async::Task<void> WriteBehind::wait_for_turn(Inode& inode, Pending pending) {
  while (inode.writes.any_before(pending)) {
    const auto gathered = gathered_.find(&inode);
    const bool ours = gathered != gathered_.end() && gathered->second.pending->number < pending->number &&
                      gathered->second.pending->touches(pending->offset, pending->end);
    if (ours) {
      send_gathered(inode);  // the write may have ended at once
    } else {
      co_await inode.settled.wait_until(async::TimePoint::max());
    }
  }
}

bool WriteBehind::too_much_behind(std::size_t size) const {
  return behind_ != 0 && (behind_ + size > window_.bytes() || async::buggify(loop_));
}

async::Task<void> WriteBehind::wait_for_room(std::size_t size) {
  ++counters_.behind_waits;
  while (too_much_behind(size)) {
    if (gathered_.empty()) {
      co_await less_behind_.wait_until(async::TimePoint::max());
    } else {
      while (!gathered_.empty()) send_gathered(*gathered_.begin()->first);
    }
  }
}

async::Task<Status> WriteBehind::write_through(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                               Bytes data, Pending pending, Stability stability) {
  Inode& inode = file->inode();
  if (stability == Stability::unstable) fit(loop_.memory(), memory, data);
  auto done = co_await send_write(file, std::move(memory), data, pending->offset, stability);
  ended(inode, pending, static_cast<bool>(done));
  co_return done;
}

void WriteBehind::send_behind(const std::shared_ptr<OpenHandle>& file, async::Memory memory, Bytes data,
                              Pending pending) {
  accept(file->inode(), pending, data.size());
  if (data.size() < kGatherBelow && !async::buggify(loop_)) return gather(file, data, pending);
  fit(loop_.memory(), memory, data);
  loop_.spawn(write_behind(file, std::move(memory), data, pending, Stability::unstable));
}

void WriteBehind::accept(Inode& inode, Pending pending, std::size_t size) {
  inode.writes.accept(pending);
  behind_ += size;
  // Bytes that were read ahead while this write waited are older than it.
  freshness_.changed(inode);
}

void WriteBehind::ended(Inode& inode, Pending pending, bool written) {
  if (written) {
    freshness_.changed(inode);
  } else {
    // The next append must not leave a hole where one has failed, so the server has to report the end.
    freshness_.others_may_have_changed(inode);
  }
  inode.writes.end(pending, written, inode.attributes.changed());
}

async::Task<void> WriteBehind::write_behind(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                            Bytes data, Pending pending, Stability stability,
                                            std::shared_ptr<Times> times) {
  Inode& inode = file->inode();
  const bool on_disk = stability == Stability::on_disk;
  std::optional<Attributes> after;
  const Freshness::Sent sent = freshness_.sending(inode, on_disk);
  const async::TimePoint begun = loop_.now();
  const bool full = behind_ > window_.bytes() / 2;
  window_.began(data.size(), begun);
  auto done = co_await send_write(file, std::move(memory), data, pending->offset, stability,
                                  sent.asks ? &after : nullptr, times.get());
  if (done) {
    window_.ended(data.size(), full, loop_.now() - begun, loop_.now());
  } else {
    window_.failed(data.size(), loop_.now());
  }
  ended(inode, pending, static_cast<bool>(done));
  if (!done) {
    lost(inode, done.error());
  } else if (times && times->after) {
    // written() does not take times that are earlier than known ones, as the program may have set.
    if (inode.writes.empty()) freshness_.is_as_written(inode, *after, sent.asked);
  } else if (after) {
    freshness_.written(inode, sent, *after, on_disk && inode.writes.empty());
  }
  behind_ -= data.size();
  less_behind_.notify_all();
}

async::Task<Status> WriteBehind::send_write(std::shared_ptr<OpenHandle> file, async::Memory memory,
                                            Bytes data, std::uint64_t offset, Stability stability,
                                            std::optional<Attributes>* after, Times* times) {
  const std::size_t most = async::buggify(loop_) ? kLeastPiece : wsize_;
  if (data.size() <= most) {
    co_return co_await write_piece(file->file(), file->inode().label, std::move(memory), data, offset,
                                   stability, after, counters_, times);
  }
  std::vector<async::Task<Status>> pieces;
  for (std::size_t at = 0; at < data.size(); at += most) {
    const auto length = std::min<std::size_t>(data.size() - at, most);
    pieces.push_back(write_piece(file->file(), file->inode().label, memory, data.subspan(at, length),
                                 offset + at, stability, nullptr, counters_));
  }
  const auto results = co_await async::all(loop_, std::move(pieces));
  for (const Status& result : results) {
    if (!result) co_return result;
  }
  co_return Status();
}

// ---- gathering ----

/// Adds the write to the data that the file has gathered. Returns false if that is not possible.
bool WriteBehind::add_to_gathered(const std::shared_ptr<OpenHandle>& file, Bytes data, std::uint64_t offset,
                                  How how) {
  const auto found = gathered_.find(&file->inode());
  if (found == gathered_.end()) return false;
  Gathered& gathered = found->second;
  const std::size_t most = wsize_;
  if (gathered.file != file || offset != gathered.pending->end || gathered.data.size() + data.size() > most ||
      too_much_behind(data.size()) ||
      file->inode().writes.any_other(gathered.pending, offset, offset + data.size())) {
    return false;
  }
  gathered.data.insert(gathered.data.end(), data.begin(), data.end());
  file->inode().writes.extend(gathered.pending, data.size(), how.append);
  accept(file->inode(), gathered.pending, data.size());
  if (gathered.data.size() == most) send_gathered(file->inode());
  return true;
}

void WriteBehind::gather(const std::shared_ptr<OpenHandle>& file, Bytes data, Pending pending) {
  send_gathered(file->inode());  // data of another place, or of another open file
  Gathered& gathered = gathered_[&file->inode()];
  gathered.file = file;
  gathered.data.assign(data.begin(), data.end());
  gathered.pending = pending;
  gathered.begun = loop_.now();
  if (!sending_old_) sending_task_ = loop_.spawn(send_old_gathered());
}

void WriteBehind::send_gathered(Inode& inode, Stability stability, std::shared_ptr<Times> times) {
  auto found = gathered_.extract(&inode);
  if (!found) return;
  Gathered& gathered = found.mapped();
  const auto whole = std::make_shared<std::vector<std::byte>>(std::move(gathered.data));
  const Bytes data(*whole);
  async::Memory memory{{whole, whole->data()}, whole->capacity()};
  loop_.spawn(write_behind(std::move(gathered.file), std::move(memory), data, gathered.pending, stability,
                           std::move(times)));
}

/// Returns how gathered data is sent if no more is expected: a single write is sent as a stable WRITE, which needs no COMMIT.
Stability WriteBehind::stability_of_last(const Inode& inode, const ServerFile& file) {
  const bool is_all = inode.writes.answered() == 1 && !file.has_unstable_data();
  return is_all ? Stability::on_disk : Stability::unstable;
}

async::Task<void> WriteBehind::send_old_gathered() {
  sending_old_ = true;
  while (!gathered_.empty()) {
    co_await loop_.sleep_for(kGatherFor);
    const auto old = loop_.now() - kGatherFor;
    std::vector<Inode*> due;
    for (const auto& [inode, gathered] : gathered_) {
      if (gathered.begun <= old) due.push_back(inode);
    }
    for (Inode* inode : due) send_gathered(*inode);
  }
  sending_old_ = false;
}

// ---- appending ----

/// Tasks that want the same end wait for it, first come first served.
async::Task<Result<std::uint64_t>> WriteBehind::place_append(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  const auto placing = inode.writes.placing();
  while (inode.writes.is_finding_end()) co_await inode.settled.wait_until(async::TimePoint::max());
  if (inode.writes.any_append() && inode.attributes.is_current()) co_return inode.end();
  const auto finding = inode.writes.finding_end();
  co_return co_await ask_end(std::move(file));
}

async::Task<Result<std::uint64_t>> WriteBehind::ask_end(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  for (;;) {
    const std::uint64_t as_of = freshness_.count();
    auto now = co_await file->file()->attributes();
    if (!now) co_return now.error();
    freshness_.learn(inode, *now, as_of);
    if (!inode.attributes.resized_since(inode.attributes.newest()->as_of)) co_return inode.end();
  }
}

// ---- waiting ----

async::Soon<> WriteBehind::settle(Inode& inode) {
  return settle(inode, inode.writes.last_number());
}

/// Sends what is gathered of the writes with numbers up to `last`. Returns whether all of them have ended.
bool WriteBehind::has_settled(Inode& inode, std::uint64_t last) {
  const auto gathered = gathered_.find(&inode);
  if (gathered != gathered_.end() && gathered->second.pending->first <= last) send_gathered(inode);
  return !inode.writes.any_answered(last, 0, ~std::uint64_t{0});
}

async::Soon<> WriteBehind::settle(Inode& inode, std::uint64_t last) {
  if (has_settled(inode, last)) return {};
  return wait_until_settled(inode, last);
}

async::Task<void> WriteBehind::wait_until_settled(Inode& inode, std::uint64_t last) {
  while (!has_settled(inode, last)) co_await inode.settled.wait_until(async::TimePoint::max());
}

bool WriteBehind::may_set_times(Inode& inode, const Caller& caller) const {
  const auto gathered = gathered_.find(&inode);
  if (gathered == gathered_.end()) return false;
  const OpenHandle& file = *gathered->second.file;
  return stability_of_last(inode, *file.file()) == Stability::on_disk && is_same(caller, file.caller());
}

async::Soon<> WriteBehind::settle_last(Inode& inode, std::shared_ptr<Times> times) {
  const auto gathered = gathered_.find(&inode);
  if (gathered != gathered_.end())
    send_gathered(inode, stability_of_last(inode, *gathered->second.file->file()), std::move(times));
  return settle(inode);
}

bool WriteBehind::may_read_at_once(const Inode& inode, std::uint64_t from, std::uint64_t to) {
  return inode.writes.empty() && !inode.writes.is_placing() &&
         !inode.writes.any(inode.writes.last_number(), from, to);
}

async::Task<void> WriteBehind::settle_range(Inode& inode, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t last = inode.writes.last_number();
  while (inode.writes.any(last, from, to)) {
    const auto gathered = gathered_.find(&inode);
    if (gathered != gathered_.end() && gathered->second.pending->touches(from, to)) {
      send_gathered(inode);  // it may have ended at once
    } else {
      co_await inode.settled.wait_until(async::TimePoint::max());
    }
  }
}

async::Task<void> WriteBehind::settle_for_read(Inode& inode, std::uint64_t from, std::uint64_t to) {
  while (inode.writes.is_placing()) co_await inode.settled.wait_until(async::TimePoint::max());
  const std::uint64_t last = inode.writes.last_number();
  co_await settle(inode, last);
  while (inode.writes.any(last, from, to)) co_await inode.settled.wait_until(async::TimePoint::max());
}

/// Ends when one of the writes that are under way has ended.
async::Task<void> WriteBehind::one_settled(Inode& inode) {
  send_gathered(inode);
  const std::uint64_t before = inode.writes.ended();
  while (inode.writes.ended() == before && !inode.writes.empty()) {
    co_await inode.settled.wait_until(async::TimePoint::max());
  }
}

// ---- making safe ----

/// Commits through all open files of the inode, because data that was written through others has to be safe,
/// too. `file` comes first.
async::Soon<Status> WriteBehind::commit_all(std::shared_ptr<OpenHandle> file,
                                            std::optional<Attributes>* after) {
  std::vector<ServerFileRef> others;
  for (const OpenHandle* handle : file->inode().open) {
    if (handle != file.get() && handle->file()->has_unstable_data()) others.push_back(handle->file());
  }
  if (others.empty()) return file->file()->commit(after);
  return commit_with(std::move(file), std::move(others), after);
}

async::Task<Status> WriteBehind::commit_with(std::shared_ptr<OpenHandle> file,
                                             std::vector<ServerFileRef> others,
                                             std::optional<Attributes>* after) {
  Status done = co_await file->file()->commit(after);
  for (const ServerFileRef& other : others) {
    if (!other->has_unstable_data()) continue;
    auto committed = co_await other->commit(nullptr);
    if (done) done = std::move(committed);
  }
  co_return done;
}

async::Task<Status> WriteBehind::save(std::shared_ptr<OpenHandle> file) {
  Inode& inode = file->inode();
  send_gathered(inode, stability_of_last(inode, *file->file()));
  co_await settle(inode);
  const std::uint64_t as_of = inode.attributes.changed();
  const Freshness::Asked asked = freshness_.asking(inode);
  std::optional<Attributes> after;
  auto committed = co_await commit_all(file, &after);
  if (!committed) co_return committed;
  // The kernel's pages show what this mount wrote, so the next open need not drop them, unless some data was
  // lost.
  if (inode.writes.errors().failing() || inode.attributes.is_saved() || inode.attributes.changed() != as_of)
    co_return Status();
  if (!after) {
    auto now = co_await file->file()->attributes();
    if (now) after = std::move(*now);
  }
  if (inode.attributes.changed() == as_of && after) freshness_.is_as_written(inode, *after, asked);
  co_return Status();
}

/// RFC 8881 10.3.2: data written under a lock is on stable storage before the lock is released. It may have
/// been written through any of the inode's open files, whichever user opened it.
async::Task<Status> WriteBehind::make_safe(std::shared_ptr<OpenHandle> file) {
  co_await settle(file->inode());
  co_return co_await commit_all(file, nullptr);
}

// ---- errors ----

void WriteBehind::lost(Inode& inode, const Error& error) {
  inode.writes.errors().add(error);
  inode.attributes.cache(std::nullopt);
  freshness_.resized(inode);
  if (lost_) lost_(inode);
}

Status WriteBehind::told_at_fsync(OpenHandle& file, Status saved) {
  auto done = file.errors.at_fsync();
  if (done) done = std::move(saved);
  if (done) file.inode().writes.errors().went_well();
  return done;
}

Status WriteBehind::told_at_close(OpenHandle& file, std::uint64_t lock_owner, Status saved) {
  auto late = file.errors.at_close(lock_owner);
  if (!late) return late;
  if (saved) file.inode().writes.errors().went_well();
  return saved;
}

}  // namespace nfsrdma::fs
