#include "trace/format/frames.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace nfsrdma::trace {
namespace {

constexpr std::size_t kEthernetSize = 14, kGrhSize = 40, kBthSize = 12, kChecksum = 4;
constexpr std::size_t kHeaders = kEthernetSize + kGrhSize + kBthSize;
constexpr std::size_t kAckSize = 4, kInvalidateSize = 4, kDatagramSize = 8, kTargetSize = 16;
constexpr std::uint16_t kRoce = 0x8915;
constexpr std::uint8_t kNextHeader = 0x1B, kHopLimit = 64;
constexpr std::uint32_t kManagerQueuePair = 1, kManagerKey = 0x80010000;
constexpr std::uint16_t kDefaultPartition = 0xffff;
constexpr std::uint32_t kNumberMask = 0xffffff;  // of a queue pair, and of a packet sequence number
/// tshark keeps a packet's size in 16 bits.
constexpr std::uint64_t kSizeWrap = 65536;

constexpr std::size_t kMappedPrefix = 12;  // of an IPv4 address in a Gid

/// Returns whether the address is an IPv4 address, mapped.
bool is_mapped(const Gid& gid) {
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  return std::all_of(gid.begin(), gid.begin() + 10, is_zero) && gid[10] == std::byte{0xff} &&
         gid[11] == std::byte{0xff};
}

// ---- numbers ----

template <class T>
void put_be(Octets& to, T value) {
  for (std::size_t i = sizeof value; i-- > 0;) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}
void put_bytes(Octets& to, ConstBytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}
void put_zeros(Octets& to, std::size_t count) {
  to.resize(to.size() + count);
}
template <class T>
T get_be(ConstBytes from, std::size_t at) {
  T out = 0;
  for (std::size_t i = 0; i < sizeof out; ++i)
    out = static_cast<T>(out << 8 | std::to_integer<T>(from[at + i]));
  return out;
}

// ---- the parts of a frame ----

void put_ethernet(Octets& to, bool to_server) {
  // Locally administered addresses: 02:00:00:00:00:01 is this side.
  constexpr std::uint16_t kClient = 1, kServer = 2;
  for (const std::uint16_t end : {to_server ? kServer : kClient, to_server ? kClient : kServer}) {
    put_be(to, std::uint32_t{0x02000000});
    put_be(to, end);
  }
  put_be(to, kRoce);
}

/// `size` is that of what follows the GRH.
void put_route(Octets& to, const Gid& from, const Gid& destination, std::size_t size) {
  put_be(to, std::uint32_t{0x60000000});
  put_be(to, static_cast<std::uint16_t>(std::min<std::size_t>(size, UINT16_MAX)));
  put_be(to, kNextHeader);
  put_be(to, kHopLimit);
  put_bytes(to, from);
  put_bytes(to, destination);
}

void put_transport(Octets& to, const Draft& draft, std::uint32_t queue_pair, std::size_t pad) {
  constexpr std::uint8_t kMigrated = 0x40;
  put_be(to, static_cast<std::uint8_t>(draft.opcode));
  put_be(to, static_cast<std::uint8_t>(kMigrated | pad << 4));
  put_be(to, kDefaultPartition);
  put_be(to, queue_pair & kNumberMask);
  put_be(to, draft.psn & kNumberMask);
}

constexpr std::size_t extension_size(Opcode opcode) {
  switch (opcode) {
    case Opcode::send:
      return 0;
    case Opcode::send_invalidate:
      return kInvalidateSize;
    case Opcode::read_response:
      return kAckSize;
    case Opcode::datagram:
      return kDatagramSize;
    case Opcode::rdma_write:
    case Opcode::read_request:
      return kTargetSize;
  }
  return 0;
}

void put_extension(Octets& to, const Draft& draft) {
  switch (draft.opcode) {
    case Opcode::send:
      break;
    case Opcode::send_invalidate:
      put_be(to, draft.invalidated);
      break;
    case Opcode::read_response:
      put_be(to, std::uint32_t{0});
      break;
    case Opcode::datagram:
      put_be(to, kManagerKey);
      put_be(to, kManagerQueuePair);
      break;
    case Opcode::rdma_write:
    case Opcode::read_request:
      put_be(to, draft.target.offset);
      put_be(to, draft.target.handle);
      put_be(to, draft.target.length);
      break;
  }
}

bool is_known(std::uint8_t opcode) {
  constexpr std::array kKnown{Opcode::send,          Opcode::rdma_write,      Opcode::read_request,
                              Opcode::read_response, Opcode::send_invalidate, Opcode::datagram};
  return std::ranges::find(kKnown, static_cast<Opcode>(opcode)) != kKnown.end();
}

// ---- the Communication Manager ----

constexpr std::size_t kManagementHeader = 24, kManagementBody = 232;
constexpr std::size_t kRequestFixed = 140, kReplyFixed = 36, kAddressPart = 36;
constexpr std::uint8_t kReads = 16;  // in flight, in each direction

void put_management_header(Octets& to, const Ends& ends, Setup kind) {
  put_be(to, std::uint32_t{0x01070203});  // version, class "communication management", its version, Send
  put_be(to, std::uint32_t{0});
  put_be(to, ends.exchange);
  put_be(to, static_cast<std::uint16_t>(kind));
  put_be(to, std::uint16_t{0});
  put_be(to, std::uint32_t{0});
}

/// The numbers by which the two ends name the connection.
std::uint32_t id_of(const Ends& ends, unsigned end) {
  return ends.queue_pairs[end];
}

void put_private(Octets& to, ConstBytes data, std::size_t room) {
  put_bytes(to, data.first(std::min(data.size(), room)));
}

/// InfiniBand Architecture 12.6.5, with the private data of the RDMA IP CM Service (annex A11).
void put_request(Octets& to, const Ends& ends, ConstBytes private_data) {
  constexpr std::uint64_t kServiceOfTcp = 0x01060000;
  put_be(to, id_of(ends, 0));
  put_be(to, std::uint32_t{0});
  put_be(to, kServiceOfTcp | ends.port);
  put_be(to, ends.exchange);  // in the place of the adapter's GUID
  put_zeros(to, 8);
  put_be(to, ends.queue_pairs[0] << 8 | kReads);
  put_be(to, std::uint32_t{kReads});
  put_be(to, std::uint32_t{0x80});  // reliable connection
  put_be(to, std::uint32_t{0});
  put_be(to, kDefaultPartition);
  put_be(to, std::uint16_t{0x57f0});      // path MTU of 4096, seven retries, fifteen attempts
  put_be(to, std::uint32_t{0xffffffff});  // local identifiers: none on Ethernet
  put_bytes(to, ends.addresses[0]);
  put_bytes(to, ends.addresses[1]);
  put_zeros(to, 4);
  put_be(to, std::uint32_t{0x00400000});  // hop limit
  put_zeros(to, 44);                      // no alternate path
  const bool is_ipv4 = is_mapped(ends.addresses[1]);
  put_be(to, static_cast<std::uint16_t>(is_ipv4 ? 0x40 : 0x60));  // version 0 of the service, version of IP
  put_be(to, std::uint16_t{0});                                   // the client's port is not known
  for (const Gid& address : ends.addresses) {
    const std::size_t zeros = is_ipv4 ? kMappedPrefix : 0;
    put_zeros(to, zeros);
    put_bytes(to, ConstBytes(address).subspan(zeros));
  }
  put_private(to, private_data, kRequestRoom);
}

void put_reply(Octets& to, const Ends& ends, ConstBytes private_data) {
  put_be(to, id_of(ends, 1));
  put_be(to, id_of(ends, 0));
  put_be(to, std::uint32_t{0});
  put_be(to, ends.queue_pairs[1] << 8);
  put_zeros(to, 8);
  put_be(to, std::uint32_t{kReads << 24 | kReads << 16});
  put_be(to, ~ends.exchange);
  put_private(to, private_data, kReplyRoom);
}

void put_ids(Octets& to, const Ends& ends, Setup kind) {
  put_be(to, id_of(ends, 0));
  put_be(to, id_of(ends, 1));
  if (kind == Setup::disconnect) put_be(to, ends.queue_pairs[1] << 8);
}

}  // namespace

// ---- addresses ----

Gid gid_of(const sockaddr_storage& address) {
  Gid out{};
  if (address.ss_family == AF_INET6) {
    std::memcpy(out.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, out.size());
  } else if (address.ss_family == AF_INET) {
    out[10] = out[11] = std::byte{0xff};
    std::memcpy(out.data() + kMappedPrefix, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  return out;
}

std::string text_of(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_ipv4 = is_mapped(gid);
  const std::byte* const from = gid.data() + (is_ipv4 ? kMappedPrefix : 0);
  const char* const out = ::inet_ntop(is_ipv4 ? AF_INET : AF_INET6, from, text.data(), text.size());
  return out != nullptr ? out : "?";
}

// ---- writing ----

std::uint32_t encode(const Ends& ends, const Draft& draft, Octets& out) {
  out.clear();
  const unsigned to = draft.to_server ? 1 : 0;
  const bool whole = draft.cut == 0;
  const std::size_t pad = whole ? (0 - draft.payload.size()) % 4 : 0;
  const std::size_t tail = whole ? pad + kChecksum : 0;
  put_ethernet(out, draft.to_server);
  put_route(out, ends.addresses[1 - to], ends.addresses[to],
            kBthSize + extension_size(draft.opcode) + draft.payload.size() + tail);
  const std::uint32_t queue_pair =
      draft.opcode == Opcode::datagram ? kManagerQueuePair : ends.queue_pairs[to];
  put_transport(out, draft, queue_pair, pad);
  put_extension(out, draft);
  put_bytes(out, draft.payload);
  put_zeros(out, tail);
  if (whole) return static_cast<std::uint32_t>(out.size());
  constexpr std::uint64_t kMost = UINT32_MAX / kSizeWrap - 1;
  const std::uint64_t wraps = std::min((draft.cut + kChecksum + kSizeWrap - 1) / kSizeWrap, kMost);
  return static_cast<std::uint32_t>(out.size() + wraps * kSizeWrap);
}

std::uint32_t encode(const Ends& ends, Setup kind, ConstBytes private_data, Octets& out) {
  Octets payload;
  put_management_header(payload, ends, kind);
  if (kind == Setup::request) put_request(payload, ends, private_data);
  if (kind == Setup::reply) put_reply(payload, ends, private_data);
  if (kind == Setup::ready || kind == Setup::disconnect) put_ids(payload, ends, kind);
  payload.resize(kManagementHeader + kManagementBody);
  Draft draft;
  draft.to_server = kind != Setup::reply;
  draft.opcode = Opcode::datagram;
  draft.payload = payload;
  return encode(ends, draft, out);
}

// ---- reading ----

std::optional<Frame> parse_frame(ConstBytes bytes, std::uint32_t original_size) {
  if (bytes.size() < kHeaders || get_be<std::uint16_t>(bytes, 12) != kRoce) return std::nullopt;
  const ConstBytes route = bytes.subspan(kEthernetSize, kGrhSize);
  const ConstBytes transport = bytes.subspan(kEthernetSize + kGrhSize, kBthSize);
  const auto opcode = get_be<std::uint8_t>(transport, 0);
  if (get_be<std::uint8_t>(route, 6) != kNextHeader || !is_known(opcode)) return std::nullopt;
  Frame out;
  std::ranges::copy(route.subspan(8, 16), out.from.begin());
  std::ranges::copy(route.subspan(24, 16), out.to.begin());
  out.queue_pair = get_be<std::uint32_t>(transport, 4) & kNumberMask;
  out.opcode = static_cast<Opcode>(opcode);
  out.whole = original_size <= bytes.size();
  const std::size_t pad = get_be<std::uint8_t>(transport, 1) >> 4 & 3;
  const std::size_t extension = extension_size(out.opcode);
  const std::size_t around = kHeaders + extension + (out.whole ? pad + kChecksum : 0);
  if (bytes.size() < around) return std::nullopt;
  const ConstBytes more = bytes.subspan(kHeaders, extension);
  if (out.opcode == Opcode::send_invalidate) out.invalidated = get_be<std::uint32_t>(more, 0);
  if (extension == kTargetSize) {
    out.target = {get_be<std::uint32_t>(more, 8), get_be<std::uint32_t>(more, 12),
                  get_be<std::uint64_t>(more, 0)};
  }
  out.payload = bytes.subspan(kHeaders + extension, bytes.size() - around);
  return out;
}

std::optional<SetupMessage> parse_setup(const Frame& frame) {
  constexpr std::size_t kSize = kManagementHeader + kManagementBody;
  constexpr std::uint8_t kCommunicationClass = 7;
  const ConstBytes bytes = frame.payload;
  if (frame.opcode != Opcode::datagram || bytes.size() < kSize) return std::nullopt;
  if (get_be<std::uint8_t>(bytes, 1) != kCommunicationClass) return std::nullopt;
  SetupMessage out;
  out.kind = static_cast<Setup>(get_be<std::uint16_t>(bytes, 16));
  out.exchange = get_be<std::uint64_t>(bytes, 8);
  const ConstBytes body = bytes.subspan(kManagementHeader, kManagementBody);
  if (out.kind == Setup::request) {
    out.queue_pair = get_be<std::uint32_t>(body, 32) >> 8;
    out.private_data = body.subspan(kRequestFixed + kAddressPart, kRequestRoom);
  } else if (out.kind == Setup::reply) {
    out.queue_pair = get_be<std::uint32_t>(body, 12) >> 8;
    out.private_data = body.subspan(kReplyFixed, kReplyRoom);
  } else if (out.kind == Setup::disconnect) {
    out.queue_pair = get_be<std::uint32_t>(body, 8) >> 8;
  } else if (out.kind != Setup::ready) {
    return std::nullopt;
  }
  return out;
}

}  // namespace nfsrdma::trace
