// For the tests of the iWARP stream: two Streams wired together in memory, and FPDUs written by hand.
//
// An End records what its stream reports. carry() moves bytes from one to the other in random cuts, on both
// sides: fewer iovecs, short sends, short receives, one octet at a time if so asked.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "fabric/iwarp/crc32c.h"
#include "fabric/iwarp/stream.h"

namespace nfsrdma::fabric::iwarp::testing {

inline std::vector<std::byte> noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

inline Stream::Config stream_config(bool crc, std::size_t mulpdu, bool responder = false) {
  Stream::Config out;
  out.crc = crc;
  out.mulpdu = mulpdu;
  out.responder = responder;
  return out;
}

struct End : Stream::Events {
  struct Message {
    std::vector<std::byte> bytes;
    std::optional<std::uint32_t> invalidated;
  };
  explicit End(unsigned seed, Stream::Config config = {})
      : stream(*this,
               [source = std::mt19937(seed)]() mutable { return static_cast<std::uint32_t>(source()); }) {
    config.peer = "peer:1";
    stream.start(std::move(config));
  }
  void on_message(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override {
    const auto view = buffer.message();
    messages.push_back({{view.begin(), view.end()}, invalidated});
    if (repost) stream.post_receive(std::move(buffer));
    if (on_event) on_event();
  }
  void on_completed(std::uint64_t cookie) override {
    completed.push_back(cookie);
    if (on_event) on_event();
  }
  void receives(std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) stream.post_receive(ReceiveBuffer(size));
  }
  void send(ConstBytes bytes, std::uint64_t cookie, std::optional<std::uint32_t> invalidate = {}) {
    const ConstBytes pieces[] = {bytes.first(bytes.size() / 3), {}, bytes.subspan(bytes.size() / 3)};
    stream.post_send(
        {.cookie = cookie, .pieces = pieces, .invalidate = invalidate, .solicited = cookie % 2 == 0});
  }
  /// Takes up to `limit` octets of what the stream wants to send.
  std::vector<std::byte> take(std::size_t limit, std::size_t entries = 64) {
    std::vector<iovec> iov(entries);
    const Stream::Plan plan = stream.fill(iov, std::max<std::size_t>(limit, 1));
    std::vector<std::byte> out;
    for (std::size_t i = 0; i < plan.count; ++i) {
      const auto* from = static_cast<const std::byte*>(iov[i].iov_base);
      out.insert(out.end(), from, from + iov[i].iov_len);
    }
    out.resize(std::min(out.size(), limit));
    stream.sent(out.size());
    return out;
  }
  std::vector<std::byte> take_all() {
    std::vector<std::byte> out;
    for (;;) {
      const auto part = take(1 << 20, 1000);
      if (part.empty()) return out;
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  /// Delivers up to `limit` octets; returns how many the plan took.
  std::size_t give(ConstBytes bytes, std::size_t limit = SIZE_MAX) {
    std::array<iovec, Stream::max_plan> iov{};
    const Stream::Plan plan = stream.plan(iov);
    const std::size_t count = std::min({plan.bytes, bytes.size(), limit});
    std::size_t done = 0;
    for (std::size_t i = 0; i < plan.count && done < count; ++i) {
      const std::size_t part = std::min(iov[i].iov_len, count - done);
      std::memcpy(iov[i].iov_base, bytes.data() + done, part);
      done += part;
    }
    stream.received(count);
    return count;
  }
  void give_all(ConstBytes bytes) {
    while (!bytes.empty()) {
      const std::size_t taken = give(bytes);
      if (taken == 0) return;  // the stream has ended
      bytes = bytes.subspan(taken);
    }
  }

  std::vector<Message> messages;
  std::vector<std::uint64_t> completed;
  std::function<void()> on_event;
  bool repost = false;
  Stream stream;
};

/// Moves bytes both ways until nothing moves any more. `most`: the largest cut.
inline void carry(End& a, End& b, std::mt19937& random, std::size_t most) {
  struct Way {
    End& from;
    End& to;
    std::deque<std::byte> wire;
  };
  Way ways[] = {{a, b, {}}, {b, a, {}}};
  const auto cut = [&] { return 1 + random() % most; };
  for (int idle = 0; idle < 3; ++idle) {
    for (Way& way : ways) {
      if (way.wire.size() < 4 * most) {
        const auto sent = way.from.take(cut(), 1 + random() % 40);
        way.wire.insert(way.wire.end(), sent.begin(), sent.end());
        if (!sent.empty()) idle = -1;
      }
      if (way.wire.empty() || way.to.stream.failure()) continue;
      idle = -1;
      const std::size_t limit = std::min(cut(), way.wire.size());
      const std::vector<std::byte> part(way.wire.begin(),
                                        way.wire.begin() + static_cast<std::ptrdiff_t>(limit));
      const std::size_t taken = way.to.give(part);
      way.wire.erase(way.wire.begin(), way.wire.begin() + static_cast<std::ptrdiff_t>(taken));
    }
  }
}

/// One FPDU, complete and right as far as the header is.
inline std::vector<std::byte> fpdu(const DdpHeader& header, ConstBytes payload, bool crc = false) {
  const std::size_t ulpdu = header.size() + payload.size();
  std::vector<std::byte> out(fpdu_size(ulpdu));
  store_be(out.data(), static_cast<std::uint16_t>(ulpdu));
  encode(header, out.data() + fpdu_length_size);
  std::ranges::copy(payload, out.begin() + static_cast<std::ptrdiff_t>(fpdu_length_size + header.size()));
  if (crc) store_crc(&out[out.size() - 4], crc32c(0, std::span(out).first(out.size() - 4)));
  return out;
}

inline bool all_are(std::span<const std::byte> octets, int value) {
  return std::ranges::all_of(octets, [value](std::byte one) { return one == std::byte(value); });
}

inline DdpHeader tagged(Opcode opcode, std::uint32_t stag, std::uint64_t to, bool last) {
  DdpHeader h;
  h.tagged = true;
  h.last = last;
  h.opcode = opcode;
  h.stag = stag;
  h.to = to;
  return h;
}

inline DdpHeader untagged(Opcode opcode, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo = 0,
                          bool last = true, std::uint32_t stag = 0) {
  DdpHeader h;
  h.last = last;
  h.opcode = opcode;
  h.stag = stag;
  h.qn = qn;
  h.msn = msn;
  h.mo = mo;
  return h;
}

}  // namespace nfsrdma::fabric::iwarp::testing
