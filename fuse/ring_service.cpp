#include "fuse/ring_service.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace nfsrdma::fuse {
namespace {

/// Budget of one turn: a request counts as one, and as one more for each kBytesOfOne bytes that are copied.
constexpr unsigned kMostBegun = 32;
constexpr std::uint32_t kBytesOfOne = 256U << 10;

constexpr std::uint32_t kPlaceBits = 16;
constexpr std::uint32_t kPlaces = (1U << kPlaceBits) - 1;
static_assert(RingService::kMostFiles <= kPlaces);

unsigned cost_of(const RingRequest& request) {
  return request.operation == RING_WRITE ? 1 + request.length / kBytesOfOne : 1;
}

int code_of(const Error& error) {
  return error.kind() == ErrorKind::timeout ? ETIMEDOUT
         : error.errno_value() != 0         ? error.errno_value()
                                            : EIO;
}

}  // namespace

RingService::RingService(async::Loop& loop, fs::FileSystem& files, std::function<bool()> apart)
    : loop_(loop), files_(files), apart_(std::move(apart)), less_busy_(loop) {}

RingService::~RingService() {
  *alive_ = false;
  if (hook_ != 0) loop_.remove_end_of_turn(hook_);
}

// ---- rings and files ----

RingService::RingId RingService::add(const RingBounds& bounds, std::shared_ptr<std::byte> memory,
                                     std::function<void()> wake, std::function<void()> broken) {
  auto served = std::make_shared<Served>(bounds, std::move(memory));
  served->wake = std::move(wake);
  served->broken = std::move(broken);
  rings_.emplace(++last_, std::move(served));
  ++counters_.made;
  counters_.now = rings_.size();
  if (hook_ == 0) hook_ = loop_.at_end_of_turn([this] { end_of_turn(); });
  post_work();
  return last_;
}

void RingService::remove(RingId id) {
  const auto at = rings_.extract(id);
  if (!at) return;
  at.mapped()->files.clear();
  at.mapped()->numbers.clear();
  counters_.now = rings_.size();
  if (rings_.empty()) loop_.remove_end_of_turn(std::exchange(hook_, 0));
}

int RingService::refusal(const fs::OpenHandle& file) const {
  if (file.closing) return EBADF;
  // With a write-back cache only the kernel knows how large a file is.
  if (files_.kernel_gathers() && (file.flags & O_ACCMODE) != O_RDONLY) return EOPNOTSUPP;
  return 0;
}

std::optional<std::uint32_t> RingService::attach(RingId id, const Handle& file) {
  const auto at = rings_.find(id);
  if (at == rings_.end()) return std::nullopt;
  Served& served = *at->second;
  if (const auto known = served.numbers.find(file.get()); known != served.numbers.end()) return known->second;
  std::uint32_t place = 0;
  if (!served.free.empty()) {
    place = served.free.back();
    served.free.pop_back();
  } else if (served.files.size() < kMostFiles) {
    place = static_cast<std::uint32_t>(served.files.size());
    served.files.push_back({nullptr, place});
  } else {
    return std::nullopt;
  }
  Served::File& one = served.files[place];
  one.handle = file;
  one.number += 1U << kPlaceBits;
  served.numbers.emplace(file.get(), one.number);
  ++counters_.attached;
  return one.number;
}

RingService::Handle RingService::find(const Served& served, std::uint32_t number) {
  const std::uint32_t place = number & kPlaces;
  if (place >= served.files.size() || served.files[place].number != number) return nullptr;
  return served.files[place].handle;
}

async::Soon<> RingService::part(Handle file) {
  for (const auto& [id, served] : rings_) {
    const auto number = served->numbers.extract(file.get());
    if (!number) continue;
    const std::uint32_t place = number.mapped() & kPlaces;
    served->files[place].handle = nullptr;
    served->free.push_back(place);
  }
  if (!busy_.contains(file.get())) return {};
  return wait_until_idle(std::move(file));
}

/// Ends when no ring has a request under way on the file.
async::Task<void> RingService::wait_until_idle(Handle file) {
  while (busy_.contains(file.get())) (void)co_await less_busy_.wait_until(async::TimePoint::max());
}

// ---- turns ----

void RingService::post_work() {
  if (std::exchange(posted_, true)) return;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    posted_ = false;
    work();
  });
}

void RingService::end_of_turn() {
  bool more = false;
  std::vector<ServedRef> broken;
  for (const auto& [id, served] : rings_) {
    if (served->ring.publish()) {
      ++counters_.wakes;
      served->wake();
    }
    if (!served->ring.collect()) {
      broken.push_back(served);
    } else if ((under_way_ < kMostUnderWay && served->ring.has_pending()) || served->ring.sleep()) {
      more = true;
    }
  }
  counters_.broken += broken.size();
  for (const ServedRef& one : broken) one->broken();
  if (more) post_work();
}

/// Runs as a posted function, so it comes before the hooks that send what this turn has queued.
void RingService::work() {
  unsigned budget = kMostBegun;
  std::vector<ServedRef> turns;
  for (auto at = rings_.upper_bound(turn_); at != rings_.end(); ++at) turns.push_back(at->second);
  for (auto at = rings_.begin(); at != rings_.upper_bound(turn_); ++at) turns.push_back(at->second);
  if (const auto next = rings_.upper_bound(turn_); next != rings_.end()) {
    turn_ = next->first;
  } else {
    turn_ = rings_.empty() ? 0 : rings_.begin()->first;
  }
  std::vector<ServedRef> broken;
  std::erase_if(turns, [&](const ServedRef& served) {
    const bool whole = served->ring.collect();
    if (!whole) broken.push_back(served);
    return !whole;
  });
  for (bool any = true; any && budget != 0;) {
    any = false;
    for (const ServedRef& served : turns) any = work_on(served, budget) || any;
  }
  counters_.broken += broken.size();
  for (const ServedRef& one : broken) one->broken();
}

bool RingService::work_on(const ServedRef& served, unsigned& budget) {
  if (budget == 0 || under_way_ >= kMostUnderWay) return false;
  const auto job = served->ring.begin();
  if (!job) return false;
  budget -= std::min(budget, cost_of(job->request));
  start(served, *job);
  return true;
}

void RingService::refuse(const ServedRef& served, const Ring::Job& job, int code) {
  ++counters_.refused;
  served->ring.answer(job, -code, 0);
}

void RingService::start(const ServedRef& served, const Ring::Job& job) {
  const RingRequest& request = job.request;
  if (const int code = judge(request, served->ring.bounds()); code != 0) return refuse(served, job, code);
  if (request.operation == RING_NOTHING) return served->ring.answer(job, 0, 0);
  Handle file = find(*served, request.file);
  if (!file) return refuse(served, job, EBADF);
  const fs::Access access = file->file()->access();
  const bool allowed = request.operation == RING_READ    ? access != fs::Access::write
                       : request.operation == RING_WRITE ? access != fs::Access::read
                                                         : true;
  if (!allowed) return refuse(served, job, EBADF);
  if (request.length == 0 && request.operation != RING_SYNC)
    return served->ring.answer(job, 0, request.offset);
  loop_.spawn(request.operation == RING_READ    ? read(served, job, std::move(file))
              : request.operation == RING_WRITE ? write(served, job, std::move(file))
                                                : sync(served, job, std::move(file)));
}

// ---- requests ----

RingService::Busy::Busy(RingService& service, const fs::OpenHandle* file) : service_(service), file_(file) {
  ++service_.under_way_;
  ++service_.busy_[file_];
}

RingService::Busy::~Busy() {
  --service_.under_way_;
  const auto at = service_.busy_.find(file_);
  if (--at->second != 0) return;
  service_.busy_.erase(at);
  service_.less_busy_.notify_all();
}

void RingService::failed(const ServedRef& served, const Ring::Job& job, const Error& error) {
  ++counters_.failed;
  served->ring.answer(job, -code_of(error), 0);
}

async::Task<void> RingService::read(ServedRef served, Ring::Job job, Handle file) {
  const Busy busy(*this, file.get());
  fs::FileSystem::DirectRead how;
  how.ahead = job.request.has(RING_AHEAD);
  ++counters_.reads;
  const std::span<std::byte> target = served->ring.data_of(job.request);
  const bool apart = apart_();
  async::Memory memory = apart ? loop_.memory().take(target.size()) : served->ring.memory();
  const std::span<std::byte> data = apart ? std::span(memory.data.get(), target.size()) : target;
  auto got = co_await files_.read_direct(std::move(file), memory, data, job.request.offset, how);
  if (!got) {
    failed(served, job, got.error());
    co_return;
  }
  if (apart) std::memcpy(target.data(), data.data(), *got);
  counters_.bytes_read += *got;
  served->ring.answer(job, static_cast<std::int32_t>(*got), job.request.offset);
}

async::Task<void> RingService::write(ServedRef served, Ring::Job job, Handle file) {
  const Busy busy(*this, file.get());
  const std::span<const std::byte> from = served->ring.data_of(job.request);
  async::Memory memory = loop_.memory().take(from.size());
  std::memcpy(memory.data.get(), from.data(), from.size());
  const std::span<const std::byte> data(memory.data.get(), from.size());
  int flags = file->flags & (O_SYNC | O_DSYNC);
  if (job.request.has(RING_STABLE)) flags |= O_DSYNC;
  if (job.request.has(RING_APPEND)) flags |= O_APPEND;
  ++counters_.writes;
  auto where =
      co_await files_.write_direct(std::move(file), std::move(memory), data, job.request.offset, flags);
  if (!where) {
    failed(served, job, where.error());
    co_return;
  }
  counters_.bytes_written += data.size();
  served->ring.answer(job, static_cast<std::int32_t>(data.size()), *where);
}

async::Task<void> RingService::sync(ServedRef served, Ring::Job job, Handle file) {
  const Busy busy(*this, file.get());
  ++counters_.syncs;
  auto done = co_await files_.sync_past(std::move(file));
  if (!done) {
    failed(served, job, done.error());
    co_return;
  }
  served->ring.answer(job, 0, 0);
}

}  // namespace nfsrdma::fuse
