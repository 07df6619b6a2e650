#include "fuse/daemon_ring.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <utility>

namespace nfsrdma::fuse {
namespace {

constexpr unsigned kWordBits = 64;

std::uint64_t bit_of(unsigned slot) {
  return std::uint64_t{1} << slot % kWordBits;
}

void wake_waiters(std::uint32_t& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void RingBytes::add(std::uint32_t user, std::uint64_t bytes) {
  by_user_[user] += bytes;
  all_ += bytes;
}

void RingBytes::remove(std::uint32_t user, std::uint64_t bytes) {
  const auto at = by_user_.find(user);
  at->second -= bytes;
  if (at->second == 0) by_user_.erase(at);
  all_ -= bytes;
}

std::uint64_t RingBytes::of(std::uint32_t user) const {
  const auto at = by_user_.find(user);
  return at == by_user_.end() ? 0 : at->second;
}

RingMemory make_ring_memory(const RingBounds& bounds, std::uint32_t user, std::shared_ptr<RingBytes> held) {
  RingMemory out;
  const int fd = ::memfd_create("nfsrdma-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return out;
  const std::size_t size = bounds.size();
  void* mapped = MAP_FAILED;
  if (::ftruncate(fd, static_cast<off_t>(size)) == 0 &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (mapped == MAP_FAILED) {
    const int code = errno;
    ::close(fd);
    errno = code;
    return out;
  }
  held->add(user, bounds.bytes);
  out.bytes = {static_cast<std::byte*>(mapped),
               [size, user, data = bounds.bytes, held = std::move(held)](std::byte* memory) {
                 if (!held->keeps_pages) ::madvise(memory, size, MADV_REMOVE);
                 ::munmap(memory, size);
                 held->remove(user, data);
               }};
  out.descriptor = fd;
  return out;
}

Ring::Ring(const RingBounds& bounds, std::shared_ptr<std::byte> memory)
    : bounds_(bounds), memory_(std::move(memory)) {
  for (unsigned i = 0; i < bounds_.slots; ++i) there_[i / kWordBits] |= bit_of(i);
  header().version = RING_VERSION;
  header().slots = bounds_.slots;
  header().data_at = bounds_.data_at();
  header().bytes = bounds_.bytes;
}

bool Ring::collect() {
  for (std::size_t i = 0; i < RING_WORDS; ++i) {
    const std::atomic_ref submitted(header().submitted[i]);
    if (submitted.load(std::memory_order_relaxed) == 0) continue;
    const std::uint64_t taken = submitted.exchange(0, std::memory_order_acquire);
    if ((taken & (~there_[i] | pending_[i] | under_way_[i])) != 0) return false;
    pending_[i] |= taken;
  }
  return true;
}

bool Ring::has_pending() const {
  std::uint64_t any = 0;
  for (const std::uint64_t word : pending_) any |= word;
  return any != 0;
}

std::optional<Ring::Job> Ring::begin() {
  // The search begins behind the last slot that was begun, and goes around to the lower bits of the same
  // word.
  for (std::size_t i = 0; i <= RING_WORDS; ++i) {
    const std::size_t word = (next_ / kWordBits + i) % RING_WORDS;
    std::uint64_t bits = pending_[word];
    if (i == 0) bits &= ~std::uint64_t{0} << next_ % kWordBits;
    if (bits == 0) continue;
    const auto number =
        static_cast<unsigned>(word * kWordBits) + static_cast<unsigned>(std::countr_zero(bits));
    pending_[word] &= ~bit_of(number);
    under_way_[word] |= bit_of(number);
    next_ = (number + 1) % RING_MOST_SLOTS;
    return Job{number, read_request(slot(number))};
  }
  return std::nullopt;
}

void Ring::answer(const Job& job, std::int32_t result, std::uint64_t where) {
  ring_slot& to = slot(job.slot);
  const std::size_t word = job.slot / kWordBits;
  std::atomic_ref(to.result).store(result, std::memory_order_relaxed);
  std::atomic_ref(to.where).store(where, std::memory_order_relaxed);
  under_way_[word] &= ~bit_of(job.slot);
  if (!job.request.has(RING_ALONE)) answered_[word] |= bit_of(job.slot);
  const std::uint32_t before = std::atomic_ref(to.state).exchange(RING_DONE, std::memory_order_acq_rel);
  if (before == RING_WAITED_FOR) wake_waiters(to.state);
}

bool Ring::publish() {
  bool any = false;
  unsigned there = 0;
  for (std::size_t i = 0; i < RING_WORDS; ++i) {
    const std::uint64_t bits = std::exchange(answered_[i], 0);
    any = any || bits != 0;
    const std::atomic_ref completed(header().completed[i]);
    const std::uint64_t before = bits == 0 ? completed.load() : completed.fetch_or(bits);
    there += static_cast<unsigned>(std::popcount(before | bits));
  }
  if (!any) return false;
  const std::atomic_ref waits(header().program_waits);
  const std::uint32_t wanted = waits.load();
  if (wanted == 0 || there < (wanted & ~RING_BY_FUTEX)) return false;
  const std::uint32_t waited = waits.exchange(0);
  if ((waited & RING_BY_FUTEX) == 0) return waited != 0;
  wake_waiters(header().program_waits);
  return false;
}

bool Ring::sleep() {
  std::atomic_ref(header().daemon_sleeps).store(1);
  for (std::size_t i = 0; i < RING_WORDS; ++i) {
    if (std::atomic_ref(header().submitted[i]).load() != 0) return true;
  }
  return false;
}

std::span<std::byte> Ring::data_of(const RingRequest& request) const {
  return {memory_.get() + bounds_.data_at() + request.buffer, request.length};
}

}  // namespace nfsrdma::fuse
