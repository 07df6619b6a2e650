// The operations on an open file, each as one call of the C interface. File makes blocking and started calls
// of them; calling.h describes the mechanism.
//
// Thread-safety: pure functions. Nothing in namespace api_detail is part of the interface.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "nfsrdma/calling.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/types.h"

namespace nfsrdma::api_detail {

inline auto read_operation(nfsrdma_file* file, std::span<std::byte> data, std::uint64_t offset) {
  return Operation(
      Nothing{},
      [=](Nothing&, How how) {
        return nfsrdma_pread(file, data.data(), data.size(), offset, how.call, how.error);
      },
      AsNumber<std::size_t>{});
}

inline auto read_with_holes_operation(nfsrdma_file* file, std::span<std::byte> data, std::uint64_t offset) {
  return Operation(
      sized<nfsrdma_holes>(),
      [=](nfsrdma_holes& holes, How how) {
        return nfsrdma_pread_holes(file, data.data(), data.size(), offset, &holes, how.call, how.error);
      },
      AsValue{[](const nfsrdma_holes& holes, std::int64_t count) {
        return Stretch{static_cast<std::size_t>(count), holes.has_holes != 0, holes.hole_ends};
      }});
}

/// Returns the parts of a vectored transfer as the C interface takes them.
template <class Byte>
std::vector<iovec> c_parts(std::span<const std::span<Byte>> parts) {
  std::vector<iovec> out;
  out.reserve(parts.size());
  for (const std::span<Byte> part : parts) {
    // A write only reads from the memory; struct iovec has no const form.
    out.push_back({const_cast<std::byte*>(part.data()), part.size()});  // NOLINT
  }
  return out;
}

inline auto read_parts_operation(nfsrdma_file* file, std::span<const std::span<std::byte>> parts,
                                 std::uint64_t offset) {
  return Operation(
      c_parts(parts),
      [=](const std::vector<iovec>& list, How how) {
        return nfsrdma_preadv(file, list.data(), list.size(), offset, how.call, how.error);
      },
      AsNumber<std::size_t>{});
}

inline std::uint32_t write_flags(Stability stability) {
  return stability == Stability::on_disk ? static_cast<std::uint32_t>(NFSRDMA_ON_DISK) : 0U;
}

/// Returns a reference for nfsrdma_pwrite_kept, which release_keeper() gives up.
inline void* kept(const std::shared_ptr<const void>& keeper) {
  return new std::shared_ptr<const void>(keeper);
}
inline void release_keeper(void* reference) {
  delete static_cast<std::shared_ptr<const void>*>(reference);
}

/// Without a `keeper` the library copies the data.
inline auto write_operation(nfsrdma_file* file, std::span<const std::byte> data, std::uint64_t offset,
                            Stability stability, std::shared_ptr<const void> keeper = nullptr) {
  return Operation(
      std::move(keeper),
      [=, flags = write_flags(stability)](const std::shared_ptr<const void>& owner, How how) {
        if (owner == nullptr)
          return nfsrdma_pwrite(file, data.data(), data.size(), offset, flags, how.call, how.error);
        return nfsrdma_pwrite_kept(file, data.data(), data.size(), offset, flags, &release_keeper,
                                   kept(owner), how.call, how.error);
      },
      AsNumber<std::size_t>{});
}

inline auto write_parts_operation(nfsrdma_file* file, std::span<const std::span<const std::byte>> parts,
                                  std::uint64_t offset, Stability stability) {
  return Operation(
      c_parts(parts),
      [=, flags = write_flags(stability)](const std::vector<iovec>& list, How how) {
        return nfsrdma_pwritev(file, list.data(), list.size(), offset, flags, how.call, how.error);
      },
      AsNumber<std::size_t>{});
}

inline auto sync_operation(nfsrdma_file* file) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_sync(file, how.call, how.error); }, AsStatus{});
}

inline auto close_operation(nfsrdma_file* file) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_close(file, how.call, how.error); }, AsStatus{});
}

inline auto attributes_operation(nfsrdma_file* file) {
  return Operation(
      AttributesRoom(),
      [=](AttributesRoom& room, How how) { return nfsrdma_fstat(file, room.ready(), how.call, how.error); },
      AsValue{[](const AttributesRoom& room, std::int64_t) { return room.value(); }});
}

inline auto set_attributes_operation(nfsrdma_file* file, const SetAttributes& changes) {
  return Operation(
      c_changes(changes),
      [=](const nfsrdma_changes& wanted, How how) {
        return nfsrdma_fset_attributes(file, &wanted, how.call, how.error);
      },
      AsStatus{});
}

inline auto next_extent_operation(nfsrdma_file* file, std::uint64_t offset) {
  return Operation(
      sized<nfsrdma_extent>(),
      [=](nfsrdma_extent& extent, How how) {
        return nfsrdma_next_extent(file, offset, &extent, how.call, how.error);
      },
      AsValue{[](const nfsrdma_extent& extent, std::int64_t found) {
        std::optional<Extent> out;
        if (found != 0) out = Extent{extent.offset, extent.length, extent.is_hole != 0};
        return out;
      }});
}

inline auto seek_operation(nfsrdma_file* file, std::uint64_t offset, bool hole) {
  return Operation(
      std::uint64_t{0},
      [=](std::uint64_t& at, How how) {
        return nfsrdma_seek(file, offset, hole ? 1 : 0, &at, how.call, how.error);
      },
      AsValue{[](std::uint64_t at, std::int64_t found) {
        return found != 0 ? std::optional(at) : std::optional<std::uint64_t>();
      }});
}

inline auto allocate_operation(nfsrdma_file* file, std::uint64_t offset, std::uint64_t length) {
  return Operation(
      Nothing{},
      [=](Nothing&, How how) { return nfsrdma_allocate(file, offset, length, how.call, how.error); },
      AsStatus{});
}

inline auto deallocate_operation(nfsrdma_file* file, std::uint64_t offset, std::uint64_t length) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_punch(file, offset, length, how.call, how.error); },
      AsStatus{});
}

inline auto copy_operation(nfsrdma_file* source, std::uint64_t source_offset, nfsrdma_file* file,
                           std::uint64_t offset, std::uint64_t count) {
  return Operation(
      Nothing{},
      [=](Nothing&, How how) {
        return nfsrdma_copy(source, source_offset, file, offset, count, how.call, how.error);
      },
      AsNumber<std::uint64_t>{});
}

inline auto lock_operation(nfsrdma_file* file, const LockRequest& request, std::chrono::milliseconds most) {
  return Operation(
      c_lock(request.owner, request.range, request.write),
      [=](const nfsrdma_lock& lock, How how) {
        return nfsrdma_lock_range(file, &lock, most.count(), how.call, how.error);
      },
      AsStatus{});
}

inline auto unlock_operation(nfsrdma_file* file, std::uint64_t owner, const LockRange& range) {
  return Operation(
      c_lock(owner, range, false),
      [=](const nfsrdma_lock& lock, How how) {
        return nfsrdma_unlock_range(file, &lock, how.call, how.error);
      },
      AsStatus{});
}

inline auto test_lock_operation(nfsrdma_file* file, const LockRequest& request) {
  struct Locks {
    nfsrdma_lock wanted, holder;
  };
  return Operation(
      Locks{c_lock(request.owner, request.range, request.write), sized<nfsrdma_lock>()},
      [=](Locks& locks, How how) {
        return nfsrdma_test_lock(file, &locks.wanted, &locks.holder, how.call, how.error);
      },
      AsValue{[](const Locks& locks, std::int64_t found) {
        return found != 0 ? std::optional(lock_holder_from(locks.holder)) : std::optional<LockHolder>();
      }});
}

}  // namespace nfsrdma::api_detail
