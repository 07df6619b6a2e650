// Which access the server has for an open file, in whatever order the Replies come that tell (RFC 8881 8.2.2,
// 9.10, 18.16, 18.18).
//
// Each OPEN adds to the access that a state has, each OPEN_DOWNGRADE replaces it, and each of them brings the
// state's next seqid. Their Replies may overtake each other:
//
//     sent              executed      seqid   Replies come
//     OPEN for WRITE    first         2       last
//     OPEN for READ     second        3       first
//     OPEN_DOWNGRADE    third, READ   4       second: what is left is READ; the WRITE of seqid 2 went with it
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace nfsrdma::nfs4 {

class AccessOrder {
 public:
  /// OPEN brought this seqid. `access`: OPEN4_SHARE_ACCESS_READ, _WRITE or _BOTH.
  void opened(std::uint32_t seqid, std::uint32_t access) {
    const std::int64_t at = place_of(seqid);
    if (downgraded_ && at <= *downgraded_) return;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      if ((access & bit(i)) != 0 && (!opened_[i] || *opened_[i] < at)) opened_[i] = at;
    }
  }
  /// OPEN_DOWNGRADE brought this seqid, and left this access.
  void downgraded(std::uint32_t seqid, std::uint32_t access) {
    const std::int64_t at = place_of(seqid);
    if (downgraded_ && at <= *downgraded_) return;
    downgraded_ = at;
    left_ = access;
    for (auto& one : opened_) {
      if (one && *one <= at) one.reset();
    }
  }
  /// What the server has, as far as its Replies have come.
  [[nodiscard]] std::uint32_t access() const {
    std::uint32_t out = left_;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      if (opened_[i]) out |= bit(i);
    }
    return out;
  }

 private:
  static constexpr std::uint32_t bit(std::size_t index) { return 1U << index; }
  /// A seqid counted on beyond its 32 bits, from the latest that is known. (One that is left out where they
  /// wrap around changes no order.)
  std::int64_t place_of(std::uint32_t seqid) {
    if (!latest_) latest_ = seqid;
    const std::int64_t at =
        *latest_ + static_cast<std::int32_t>(seqid - static_cast<std::uint32_t>(*latest_));
    if (at > *latest_) latest_ = at;
    return at;
  }

  std::optional<std::int64_t> latest_;
  std::array<std::optional<std::int64_t>, 2> opened_;  ///< READ, WRITE: by an OPEN behind the downgrade
  std::optional<std::int64_t> downgraded_;
  std::uint32_t left_ = 0;
};

}  // namespace nfsrdma::nfs4
