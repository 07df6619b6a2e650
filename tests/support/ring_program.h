// A program's end of a ring, as bare as a test wants it: it may write whatever it likes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "fuse/ring_request.h"

namespace nfsrdma::testing {

class RingProgram {
 public:
  RingProgram(fuse::RingBounds wanted, std::shared_ptr<std::byte> shared)
      : bounds(wanted), memory(std::move(shared)) {}

  [[nodiscard]] ring_header& header() const { return *reinterpret_cast<ring_header*>(memory.get()); }
  [[nodiscard]] ring_slot& slot(unsigned number) const {
    return reinterpret_cast<ring_slot*>(memory.get() + RING_SLOTS_AT)[number];
  }
  [[nodiscard]] char* data(std::uint64_t at) const {
    return reinterpret_cast<char*>(memory.get() + bounds.data_at() + at);
  }
  [[nodiscard]] std::string text(std::uint64_t at, std::size_t size) const { return {data(at), size}; }

  /// Each slot has a part of the data of its own.
  static constexpr std::uint64_t kPart = 64U << 10;
  void fill(unsigned number, std::uint32_t operation, std::uint32_t file, std::uint64_t offset,
            std::uint32_t length, std::uint32_t flags = 0) const {
    ring_slot& to = slot(number);
    to.operation = operation;
    to.file = file;
    to.offset = offset;
    to.length = length;
    to.buffer = number * kPart;
    to.flags = flags;
    std::atomic_ref(to.state).store(RING_UNDER_WAY);
  }
  void submit(unsigned number) const {
    std::atomic_ref(header().submitted[number / 64]).fetch_or(std::uint64_t{1} << number % 64);
  }
  void write(unsigned number, std::uint32_t file, std::uint64_t offset, const std::string& text,
             std::uint32_t flags = 0) const {
    std::memcpy(data(number * kPart), text.data(), text.size());
    fill(number, RING_WRITE, file, offset, static_cast<std::uint32_t>(text.size()), flags);
    submit(number);
  }
  void read(unsigned number, std::uint32_t file, std::uint64_t offset, std::uint32_t length,
            std::uint32_t flags = 0) const {
    fill(number, RING_READ, file, offset, length, flags);
    submit(number);
  }
  /// Whether it was told of, which it is once.
  [[nodiscard]] bool take(unsigned number) const {
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    return (std::atomic_ref(header().completed[number / 64]).fetch_and(~bit) & bit) != 0;
  }
  [[nodiscard]] bool is_done(unsigned number) const {
    return std::atomic_ref(slot(number).state).load() == RING_DONE;
  }
  [[nodiscard]] int result(unsigned number) const { return slot(number).result; }
  [[nodiscard]] bool daemon_sleeps() const { return std::atomic_ref(header().daemon_sleeps).load() != 0; }

  const fuse::RingBounds bounds;
  const std::shared_ptr<std::byte> memory;
};

/// Memory of this process alone.
inline std::shared_ptr<std::byte> plain_ring_memory(const fuse::RingBounds& bounds) {
  auto* const all = new (std::align_val_t(RING_PAGE)) std::byte[bounds.size()]();
  return {all, [](std::byte* old) { ::operator delete[](old, std::align_val_t(RING_PAGE)); }};
}

}  // namespace nfsrdma::testing
