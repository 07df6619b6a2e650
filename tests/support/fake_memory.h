// The memory and the fabric of a Requester in its tests: hands out handles that it never uses again, knows which of them
// live, and does at once what a fabric does that way, if it is told to.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "rpcrdma/requester.h"

namespace nfsrdma::rpcrdma::testing {

using Octets = std::vector<std::byte>;

class FakeMemory : public Exposer {
 public:
  struct Region {
    Bytes bytes;
    fabric::Reach reach;
  };
  std::map<std::uint32_t, Region> live;
  std::set<std::uint32_t> ever;
  std::uint32_t next_handle = 0x1000;
  std::size_t segment_size = ~std::size_t{0};
  int fail_after = -1;  ///< that many exposures succeed, then one fails
  /// Where it is set, Sends go there and memory is taken back at once, without actions.
  std::function<void(ConstBytes message)> at_once;

  Status expose(Bytes memory, fabric::Reach reach, std::vector<RemoteSegment>& to) override {
    if (fail_after == 0) return Error(ErrorKind::local, ENOMEM, "register", "", "no more of it");
    if (fail_after > 0) --fail_after;
    for (std::size_t at = 0; at < memory.size(); at += std::min(segment_size, memory.size() - at)) {
      const Bytes piece = memory.subspan(at, std::min(segment_size, memory.size() - at));
      const std::uint32_t handle = next_handle++;
      live.emplace(handle, Region{piece, reach});
      ever.insert(handle);
      to.push_back(
          {handle, static_cast<std::uint32_t>(piece.size()), reinterpret_cast<std::uintptr_t>(piece.data())});
    }
    return {};
  }
  [[nodiscard]] std::size_t segments_for(std::size_t length) const override {
    return length == 0 ? 0 : (length - 1) / segment_size + 1;
  }
  bool send_copy(ConstBytes message) override {
    if (!at_once) return false;
    at_once(message);
    return true;
  }
  bool revoke_now(std::span<const RemoteSegment> segments) override {
    if (!at_once) return false;
    for (const RemoteSegment& one : segments) live.erase(one.handle);
    return true;
  }
  /// The peer's RDMA Write and RDMA Read; false if it may not.
  bool write(const RemoteSegment& to, ConstBytes bytes) {
    const auto found = live.find(to.handle);
    if (found == live.end() || found->second.reach != fabric::Reach::remote_write) return false;
    if (bytes.size() > found->second.bytes.size()) return false;
    std::memcpy(found->second.bytes.data(), bytes.data(), bytes.size());
    return true;
  }
  [[nodiscard]] std::optional<Octets> read(const RemoteSegment& from) const {
    const auto found = live.find(from.handle);
    if (found == live.end() || found->second.reach != fabric::Reach::remote_read) return std::nullopt;
    const Bytes exposed = found->second.bytes;
    const std::uint64_t skipped = from.offset - reinterpret_cast<std::uintptr_t>(exposed.data());
    if (skipped > exposed.size() || from.length > exposed.size() - skipped) return std::nullopt;
    const Bytes bytes = exposed.subspan(static_cast<std::size_t>(skipped), from.length);
    return Octets(bytes.begin(), bytes.end());
  }
};

}  // namespace nfsrdma::rpcrdma::testing
