// An established iWARP connection: any bytes from the peer, in any cuts, while memory is exposed.
//
// Input: flags, cuts of what is received, cuts of what is sent, what is revoked or abandoned and after how
// many bytes, how
// many bytes came along with the handshake; then the peer's bytes. Handles are 1, 2, 3 … in the order of
// `Field`, so that a seed can name them. With `mend` the FPDUs' CRCs and message numbers are made right
// first, which lets mutations get past them.
//
// Checked: plan() names no memory that the peer may not write; what is not writable, no longer exposed, or
// between the regions never changes; work completes once, and nothing after the end; what goes out is whole
// FPDUs with right CRCs, and a Read Response of a region that was revoked meanwhile still carries the old
// bytes.
#include "fabric/iwarp/stream.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "fabric/iwarp/crc32c.h"
#include "fuzz.h"

using namespace nfsrdma::fabric;
using namespace nfsrdma::fabric::iwarp;
using namespace nfsrdma;

namespace {

enum Flags : unsigned {
  crc = 1,
  responder = 2,
  mend = 4,
  reads = 8,
  sends = 16,
  busy_events = 32,
  small = 64,
  early_close = 128
};

constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};
constexpr std::byte kSourceByte{'R'};
constexpr std::byte kScribble{0xee};

/// A piece of memory, its place in the arena, and whether the peer may write to it now.
struct Field {
  std::size_t size;
  enum Kind { write, read, sink } kind;
  std::size_t at = 0;
  bool exposed = false;
  bool abandoned = false;                ///< not exposed, and the peer may still name it
  std::optional<std::byte> frozen = {};  ///< what each of its bytes has to be from now on
};
constexpr std::size_t kReceiveSize = 2048;

class Peer final : public Stream::Events {
 public:
  explicit Peer(unsigned flags) : flags_(flags), stream_(*this, [next = 0U]() mutable { return ++next; }) {
    std::size_t total = kGuard;
    for (Field& field : fields_) {
      field.at = total;
      total += field.size + kGuard;
    }
    arena_.assign(total, kGuardByte);
    for (Field& field : fields_) {
      set(bytes(field), field.kind == Field::read ? kSourceByte : std::byte{0});
      if (field.kind != Field::sink) {
        const auto segments = stream_.expose(
            bytes(field), field.kind == Field::read ? Reach::remote_read : Reach::remote_write);
        FUZZ_CHECK(segments.size() == 1 && segments[0].handle == handle(field));
        field.exposed = true;
      } else if ((flags & reads) != 0) {
        stream_.post_rdma_read(bytes(field), {0x99, static_cast<std::uint32_t>(field.size), 0}, post());
        field.exposed = true;
      }
      if (field.kind == Field::read) field.frozen = kSourceByte;
      if (!field.exposed) field.frozen = std::byte{0};
    }
    for (int i = 0; i < 12; ++i) stream_.post_receive(ReceiveBuffer(kReceiveSize));
    if ((flags & sends) != 0) post_sends();
    stream_.start({.crc = (flags & crc) != 0,
                   .responder = (flags & responder) != 0,
                   .ird = 4,
                   .ord = 2,
                   .mulpdu = (flags & small) != 0 ? min_mulpdu : 1442,
                   .peer = "peer"});
  }

  void on_message(ReceiveBuffer buffer, std::optional<std::uint32_t> invalidated) override {
    FUZZ_CHECK(!stream_.failure() && !closed_ && buffer.message().size() <= kReceiveSize);
    if (invalidated) {
      Field* field = find(*invalidated);
      FUZZ_CHECK(field != nullptr && (field->exposed || field->abandoned) && field->kind != Field::sink);
      field->abandoned = false;
      gone(*field);
    }
    stream_.post_receive(std::move(buffer));
    if ((flags_ & busy_events) == 0) return;
    if (++messages_ % 4 == 0) revoke(messages_ / 4);
    if (messages_ < 8) post_sends();
  }
  void on_completed(std::uint64_t cookie) override {
    FUZZ_CHECK(!stream_.failure() && !closed_);
    FUZZ_CHECK(cookies_.contains(cookie) && !cookies_[cookie]);
    cookies_[cookie] = true;
    // A completed RDMA Read's memory is ours again.
    for (Field& field : fields_) {
      if (field.kind == Field::sink && field.exposed && handle_cookie_[handle(field)] == cookie) gone(field);
    }
  }

  void revoke(std::size_t which) {
    Field& field = fields_[which % fields_.size()];
    if (field.kind == Field::sink || stream_.failure()) return;
    switch (which / fields_.size() % 3) {
      case 0:
        stream_.revoke(handle(field));
        field.abandoned = false;
        break;
      case 1:
        stream_.abandon(handle(field));
        field.abandoned = field.exposed || field.abandoned;
        break;
      case 2:
        stream_.forget(handle(field));
        field.abandoned = false;
        return;
    }
    if (field.exposed) gone(field);
  }

  /// Delivers up to `limit` bytes as a socket would.
  std::size_t give(fuzz::ConstOctets input, std::size_t limit) {
    std::array<iovec, Stream::max_plan> iov;  // NOLINT: plan() fills it
    const Stream::Plan plan = stream_.plan(iov);
    FUZZ_CHECK(plan.count > 0 && plan.count <= iov.size() && plan.bytes > 0);
    const std::size_t count = std::min({plan.bytes, input.size(), limit});
    std::size_t done = 0;
    std::size_t sum = 0;
    for (std::size_t i = 0; i < plan.count; ++i) {
      check_target(static_cast<std::byte*>(iov[i].iov_base), iov[i].iov_len);
      sum += iov[i].iov_len;
      const std::size_t part = std::min(iov[i].iov_len, count - done);
      if (part != 0) std::memcpy(iov[i].iov_base, input.data() + done, part);
      done += part;
    }
    FUZZ_CHECK(sum == plan.bytes);
    stream_.received(count);
    ended();
    return count;
  }
  void inject(fuzz::ConstOctets input) {
    stream_.inject(input);
    ended();
  }

  /// Takes what goes out; false when there was nothing.
  bool take(std::size_t limit) {
    std::array<iovec, 16> iov;  // NOLINT: fill() fills it
    const Stream::Plan plan = stream_.fill(iov, std::min<std::size_t>(limit, 65536));
    FUZZ_CHECK((plan.count == 0) == (plan.bytes == 0));
    if (plan.count == 0) return false;
    std::size_t left = std::min(plan.bytes, limit);
    const std::size_t count = left;
    for (std::size_t i = 0; i < plan.count && left > 0; ++i) {
      const std::size_t part = std::min(iov[i].iov_len, left);
      const auto* from = static_cast<const std::byte*>(iov[i].iov_base);
      const std::size_t at = output_.size();
      output_.resize(at + part);
      std::memcpy(&output_[at], from, part);
      left -= part;
    }
    stream_.sent(count);
    FUZZ_CHECK(output_.size() < (32U << 20));
    return true;
  }

  void close() {
    stream_.close();
    closed_ = true;
    ended();
    FUZZ_CHECK(stream_.failure() || !stream_.wants_to_send());  // a Terminate still goes out
  }
  [[nodiscard]] bool failed() const { return stream_.failure().has_value(); }

  void check_end() {
    check_memory();
    check_output();
  }
  void check_memory() {
    std::size_t at = 0;
    for (Field& field : fields_) {
      FUZZ_CHECK(is_all(Bytes(arena_).subspan(at, field.at - at), kGuardByte));
      at = field.at + field.size;
      FUZZ_CHECK(!field.frozen || is_all(bytes(field), *field.frozen));
    }
    FUZZ_CHECK(is_all(Bytes(arena_).subspan(at), kGuardByte));
  }

 private:
  // Library calls, because loops are slow under the sanitizers.
  static void set(Bytes bytes, std::byte value) {
    std::memset(bytes.data(), std::to_integer<int>(value), bytes.size());
  }
  static bool is_all(ConstBytes bytes, std::byte value) {
    return bytes.empty() ||
           (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }
  Bytes bytes(const Field& field) { return Bytes(arena_).subspan(field.at, field.size); }
  std::uint32_t handle(const Field& field) { return static_cast<std::uint32_t>(&field - fields_.data() + 1); }
  Field* find(std::uint32_t handle) { return handle - 1 < fields_.size() ? &fields_[handle - 1] : nullptr; }
  std::uint64_t post() {
    const std::uint64_t cookie = cookies_.size() + 1;
    cookies_[cookie] = false;
    handle_cookie_[static_cast<std::uint32_t>(cookie + 5)] =
        cookie;  // the sinks are posted first, as handles 6 to 8
    return cookie;
  }
  void post_sends() {
    static const fuzz::Octets payload(5000, std::byte{'s'});
    const ConstBytes all(payload);
    const ConstBytes pieces[] = {all.first(100), all.first(0), all.subspan(100, 1900), all.first(1)};
    stream_.post_send(
        {.cookie = post(), .pieces = std::span(pieces).first(1), .invalidate = {}, .solicited = false});
    stream_.post_send({.cookie = post(), .pieces = pieces, .invalidate = 7, .solicited = true});
    stream_.post_send({.cookie = post(), .pieces = {}, .invalidate = {}, .solicited = true});
    stream_.post_rdma_write(all, {0x77, 5000, 1U << 20}, post());
  }
  /// The peer may not reach it any more: its owner writes to it at once.
  void gone(Field& field) {
    field.exposed = false;
    set(bytes(field), kScribble);
    field.frozen = kScribble;
  }
  /// A stream that has ended exposes nothing.
  void ended() {
    if (!stream_.failure() && !closed_) return;
    for (Field& field : fields_) {
      if (field.exposed) gone(field);
    }
  }
  void check_target(const std::byte* at, std::size_t length) {
    if (at + length <= arena_.data() || at >= arena_.data() + arena_.size()) return;
    const bool allowed = std::ranges::any_of(fields_, [&](const Field& field) {
      const Bytes own = bytes(field);
      return field.exposed && field.kind != Field::read && at >= own.data() &&
             at + length <= own.data() + own.size();
    });
    FUZZ_CHECK(allowed);
  }
  void check_output() {
    fuzz::ConstOctets rest(output_);
    while (!rest.empty()) {
      // After the peer's Terminate, or our close(), an FPDU may be left in its middle.
      const bool may_be_cut =
          closed_ || (stream_.failure() && stream_.failure()->kind() == ErrorKind::connection);
      if (rest.size() < fpdu_length_size) {
        FUZZ_CHECK(may_be_cut);
        return;
      }
      const std::size_t ulpdu = load_be<std::uint16_t>(rest.data());
      const std::size_t whole = fpdu_size(ulpdu);
      if (rest.size() < whole) {
        FUZZ_CHECK(may_be_cut);
        return;
      }
      const DdpHeader header = decode_ddp(rest.data() + fpdu_length_size);
      FUZZ_CHECK(ulpdu >= header.size());
      const fuzz::ConstOctets payload = rest.subspan(fpdu_length_size + header.size(), ulpdu - header.size());
      if (header.opcode == Opcode::read_response) {
        FUZZ_CHECK(is_all(payload, kSourceByte));
      }
      if ((flags_ & crc) != 0) {
        FUZZ_CHECK(load_crc(&rest[whole - fpdu_crc_size]) == crc32c(0, rest.first(whole - fpdu_crc_size)));
      }
      rest = rest.subspan(whole);
    }
  }

  const unsigned flags_;
  std::array<Field, 8> fields_{{{40000, Field::write},
                                {512, Field::write},
                                {4096, Field::write},
                                {4096, Field::read},
                                {64, Field::read},
                                {40000, Field::sink},
                                {1000, Field::sink},
                                {1, Field::sink}}};
  fuzz::Octets arena_;
  std::map<std::uint64_t, bool> cookies_;
  std::map<std::uint32_t, std::uint64_t> handle_cookie_;
  fuzz::Octets output_;
  std::size_t messages_ = 0;
  bool closed_ = false;
  Stream stream_;
};

/// Right CRCs, and right message numbers for Sends and Read Requests.
void make_right(fuzz::Octets& input, bool with_crc) {
  std::array<std::uint32_t, queue_count> msn{1, 1, 1};
  for (std::size_t at = 0; at + fpdu_length_size <= input.size();) {
    const std::size_t ulpdu = load_be<std::uint16_t>(&input[at]);
    const std::size_t whole = fpdu_size(ulpdu);
    if (whole > input.size() - at || ulpdu < ddp_untagged_size) return;
    DdpHeader header = decode_ddp(&input[at + fpdu_length_size]);
    if (!header.tagged && header.qn < queue_count) {
      header.msn = msn[header.qn];
      if (header.last) ++msn[header.qn];
      encode(header, &input[at + fpdu_length_size]);
    }
    if (with_crc) {
      store_crc(&input[at + whole - fpdu_crc_size],
                crc32c(0, fuzz::ConstOctets(input).subspan(at, whole - fpdu_crc_size)));
    }
    at += whole;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 16384);
  const unsigned flags = script.u8();
  fuzz::Cuts in(script.u8());
  fuzz::Cuts out(script.u8());
  const std::size_t revoked = script.u8();  // 0: nothing
  const std::size_t revoke_after = script.u16();
  const std::size_t injected = script.u8();
  fuzz::Octets input(script.rest().begin(), script.rest().end());
  if ((flags & mend) != 0) make_right(input, (flags & crc) != 0);

  Peer peer(flags);
  fuzz::ConstOctets rest(input);
  const auto first = rest.first(std::min(injected, rest.size()));
  peer.inject(first);
  rest = rest.subspan(first.size());
  std::size_t seen = first.size();
  bool done = revoked == 0;
  while (!rest.empty() && !peer.failed()) {
    const std::size_t count = peer.give(rest, in.next());
    FUZZ_CHECK(count > 0);
    rest = rest.subspan(count);
    seen += count;
    if (!done && seen >= revoke_after) {
      peer.revoke(revoked);
      done = true;
    }
    peer.take(out.next());
  }
  if ((flags & early_close) != 0) peer.close();
  // In larger pieces: an FPDU is laid out, and its CRC taken, once for each.
  while (peer.take(std::max<std::size_t>(out.next(), 500))) {
  }
  peer.check_end();
  return 0;
}
