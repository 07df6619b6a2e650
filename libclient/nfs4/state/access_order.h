// Computes which access (OPEN4_SHARE_ACCESS_*) the server has granted for an open file, in whatever order the
// Replies to OPEN and OPEN_DOWNGRADE arrive (RFC 8881 8.2.2, 9.10, 18.16, 18.18).
//
// Each OPEN adds to the access of a state, each OPEN_DOWNGRADE replaces it, and each of them returns the next
// seqid of the state. A Reply may overtake an earlier one:
//
//     sent              executed      seqid   Reply arrives
//     OPEN for WRITE    first         2       last
//     OPEN for READ     second        3       first
//     OPEN_DOWNGRADE    third, READ   4       second
//
// After all three Replies the access is READ, because the downgrade with seqid 4 took away
// the WRITE of seqid 2.
//
// Pure: no I/O, no clock. May be used in any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace nfsrdma::nfs4 {

class AccessOrder {
 public:
  /// Records that an OPEN for `access` (OPEN4_SHARE_ACCESS_READ, _WRITE or _BOTH) was
  /// answered with this seqid.
  void opened(std::uint32_t seqid, std::uint32_t access) {
    const std::int64_t at = place_of(seqid);
    if (downgraded_ && at <= *downgraded_) return;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      if ((access & bit(i)) != 0 && (!opened_[i] || *opened_[i] < at)) opened_[i] = at;
    }
  }
  /// Records that an OPEN_DOWNGRADE to `access` was answered with this seqid.
  void downgraded(std::uint32_t seqid, std::uint32_t access) {
    const std::int64_t at = place_of(seqid);
    if (downgraded_ && at <= *downgraded_) return;
    downgraded_ = at;
    left_ = access;
    for (auto& one : opened_) {
      if (one && *one <= at) one.reset();
    }
  }
  /// Returns the access that the server has granted, according to the Replies that have arrived so far.
  [[nodiscard]] std::uint32_t access() const {
    std::uint32_t out = left_;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      if (opened_[i]) out |= bit(i);
    }
    return out;
  }

 private:
  static constexpr std::uint32_t bit(std::size_t index) { return 1U << index; }
  /// Extends a seqid beyond its 32 bits, counting from the latest one that is known. (Seqids leave out 0 when
  /// they wrap around, which changes no order.)
  std::int64_t place_of(std::uint32_t seqid) {
    if (!latest_) latest_ = seqid;
    const std::int64_t at =
        *latest_ + static_cast<std::int32_t>(seqid - static_cast<std::uint32_t>(*latest_));
    if (at > *latest_) latest_ = at;
    return at;
  }

  std::optional<std::int64_t> latest_;
  /// Places of the latest OPENs for READ and for WRITE since the last downgrade; none if
  /// there is no such OPEN.
  std::array<std::optional<std::int64_t>, 2> opened_;
  std::optional<std::int64_t> downgraded_;
  std::uint32_t left_ = 0;
};

}  // namespace nfsrdma::nfs4
