// The memory that a peer may access: STags, the kind of access that each one allows, and how much of the
// memory has been written.
//
// Ownership. A Region borrows its memory; the table owns the entry. The caller that exposes memory keeps it
// valid until the entry is gone; after remove() nothing here holds the address any more. STags are drawn from
// the given random source, which in the product is the kernel's (RFC 8166 8.1.2: unpredictable). They are
// never 0 and are unique in the table. A table belongs to one connection, so an STag means nothing on another
// (8.1.1).
//
// Tagged offsets count from 0 at the start of each region. Bounds are checked by arithmetic that cannot wrap: check() is
// asked for each RDMA Write and RDMA Read of the peer (stream_in.cpp).
// A reference to a Region stays valid until its entry is removed. Confined to the connection's thread.
//
// Own code because std::unordered_map allocates for each entry, and divides to find one. STags are random
// already, so their low bits choose the bucket here, and entries are reused.
//
// withdraw() takes the memory away from an entry and keeps the entry: its STag, bounds and use stay known
// until remove(), but its address does not. Accesses to a withdrawn region are checked like those to any
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "fabric/fabric.h"

namespace nfsrdma::fabric::iwarp {

enum class Use : std::uint8_t {
  remote_read,   ///< the peer's RDMA Read Requests may name it
  remote_write,  ///< the peer's RDMA Writes may name it
  read_sink,     ///< only the answer to our own RDMA Read may be placed there
};

struct Region {
  std::uint32_t stag = 0;
  Use use = Use::remote_read;
  Bytes memory;            ///< empty once it is withdrawn
  std::size_t length = 0;  ///< size of the memory, also after it is withdrawn
  bool withdrawn = false;  ///< the peer may still name the region, but it has no memory any more
  /// Everything below this offset has possibly been placed. The memory above it was never written through
  /// this region, so the stream may use that memory as the target of a prediction (stream.h).
  std::size_t high_water = 0;
};

/// Why an access is refused, in the order in which it is checked.
enum class Denial : std::uint8_t { unknown_stag, wrong_use, offset_wraps, out_of_bounds };

class RegionTable {
 public:
  using Random = std::function<std::uint32_t()>;
  /// The largest size of an entry, so that its length fits a segment's 32 bits with room to spare.
  static constexpr std::size_t max_length = std::size_t{1} << 30;

  explicit RegionTable(Random random) : random_(std::move(random)), buckets_(kFirstBuckets) {}

  /// `memory.size()` is at most max_length.
  Region& add(Bytes memory, Use use);
  /// Adds a region under the given STag, which must not be 0 and must not be in the table.
  Region& add(std::uint32_t stag, Bytes memory, Use use);
  bool remove(std::uint32_t stag);
  /// Forgets where the memory is; the region must not be withdrawn yet.
  void withdraw(Region& region);
  void clear();

  [[nodiscard]] Region* find(std::uint32_t stag) {
    Entry* entry = buckets_[bucket(stag)];
    while (entry != nullptr && entry->region.stag != stag) entry = entry->next;
    return entry == nullptr ? nullptr : &entry->region;
  }

  /// Finds the region, and checks that `length` octets at `offset` are inside it and that it allows `use`.
  struct Checked {
    Region* region = nullptr;
    std::optional<Denial> refusal;
  };
  [[nodiscard]] Checked check(std::uint32_t stag, std::uint64_t offset, std::uint64_t length, Use use);

  /// Octets of large targets that have not been placed yet. More than 0 means that bulk data is to be
  /// expected.
  [[nodiscard]] std::size_t bulk_awaited() const { return awaited_; }
  /// Octets of all targets that have not been placed yet: the upper bound of what the peer may still send
  /// into them.
  [[nodiscard]] std::size_t awaited() const { return all_awaited_; }
  /// Notes that everything below `end` of `region` has been placed.
  void placed(Region& region, std::size_t end) {
    if (end <= region.high_water) return;
    if (is_target(region)) all_awaited_ -= end - region.high_water;
    if (is_bulk(region)) awaited_ -= end - region.high_water;
    region.high_water = end;
  }

 private:
  /// Regions of at least this size count as bulk: from this size on, a system call to receive in place costs
  /// less than the copy that it saves.
  static constexpr std::size_t bulk = 32 * 1024;
  [[nodiscard]] static bool is_bulk(const Region& region) {
    return is_target(region) && region.length >= bulk;
  }
  [[nodiscard]] static bool is_target(const Region& region) {
    return region.use != Use::remote_read && !region.withdrawn;
  }
  [[nodiscard]] static std::size_t still_awaited(const Region& region) {
    return is_bulk(region) ? missing(region) : 0;
  }

  [[nodiscard]] static std::size_t missing(const Region& region) {
    return is_target(region) ? region.length - region.high_water : 0;
  }

  struct Entry {
    Region region;
    Entry* next = nullptr;  // the next entry of the bucket, or of the list of free entries
  };
  static constexpr std::size_t kFirstBuckets = 128;  // a power of two, like all later sizes
  [[nodiscard]] std::size_t bucket(std::uint32_t stag) const { return stag & (buckets_.size() - 1); }
  void grow();

  Random random_;
  std::deque<Entry> entries_;  // a deque, because entries must not move
  std::vector<Entry*> buckets_;
  Entry* free_ = nullptr;
  std::size_t count_ = 0;
  std::size_t awaited_ = 0;
  std::size_t all_awaited_ = 0;
};

}  // namespace nfsrdma::fabric::iwarp
