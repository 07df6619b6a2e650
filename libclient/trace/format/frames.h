// The frames of a trace: InfiniBand over Ethernet (RoCE, version 1), which tshark dissects down to NFS.
//
//   Ethernet | GRH 40: the two addresses | BTH 12: operation, queue pair | more headers | payload | pad | ICRC 4
//
// No wire has carried these frames. No program can capture the frames of a verbs device, and a trace is to read the
// same on both fabrics, so the recorder makes a frame of each Send, RDMA Write and RDMA Read. RoCE was chosen by
// trial with tshark 4.0. Its frames have no length field that bounds them, it reads an XDR item's fill bytes
// behind an RDMA Write (which it misses for iWARP), and it takes the ends of a connection from the frames of
// the Communication Manager, which also have the private data (RFC 8797).
//
// IPv4 addresses are mapped ones (::ffff:192.0.2.1). Checksums are zero.
//
// A frame that is kept in part. The size that the packet claims is 65,536 times n larger than what is kept,
// because tshark keeps that size in 16 bits when it looks whether the payload is there. It then says "packet
// size limited during capture", not "malformed".
//
// Numbers are big-endian. Decoding is bounded by the bytes given. Thread-safety: values.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fabric/fabric.h"
#include "trace/format/pcapng.h"

namespace nfsrdma::trace {

using Gid = std::array<std::byte, 16>;
[[nodiscard]] Gid gid_of(const sockaddr_storage& address);
/// "192.0.2.1" for a mapped address, else as IPv6.
[[nodiscard]] std::string text_of(const Gid& gid);

/// BTH operations of a reliable connection, and the datagram of the Communication Manager.
enum class Opcode : std::uint8_t {
  send = 0x04,
  rdma_write = 0x0a,
  read_request = 0x0c,
  read_response = 0x10,
  send_invalidate = 0x17,
  datagram = 0x64,
};

/// The two ends of a connection: [0] is the client.
struct Ends {
  std::array<Gid, 2> addresses{};
  std::array<std::uint32_t, 2> queue_pairs{};
  std::uint16_t port = 0;      ///< of the server
  std::uint64_t exchange = 0;  ///< a number for the Communication Manager, another one for each connection
};

/// Most bytes of RDMA data in one frame. Every frame stays below 64 KiB.
inline constexpr std::size_t kPiece = 32768;
/// Private data that fits the Communication Manager's request (behind the addresses) and reply.
inline constexpr std::size_t kRequestRoom = 56, kReplyRoom = 196;

/// A frame that is to be written.
struct Draft {
  bool to_server = true;
  Opcode opcode = Opcode::send;
  std::uint32_t psn = 0;
  fabric::RemoteSegment target;   ///< rdma_write, read_request
  std::uint32_t invalidated = 0;  ///< send_invalidate
  ConstBytes payload;
  /// Bytes that the payload has behind those given, and that are not kept.
  std::uint64_t cut = 0;
};
/// Replaces `out` by the frame. Returns the size that the packet is to claim.
std::uint32_t encode(const Ends& ends, const Draft& draft, Octets& out);

/// The messages of the Communication Manager, by the number of their attribute.
enum class Setup : std::uint16_t { request = 0x10, reply = 0x13, ready = 0x14, disconnect = 0x15 };
/// Replaces `out` by the frame. Private data that does not fit is cut.
std::uint32_t encode(const Ends& ends, Setup kind, ConstBytes private_data, Octets& out);

/// A frame that was read.
struct Frame {
  Gid from{}, to{};
  std::uint32_t queue_pair = 0;  ///< of the receiver
  Opcode opcode = Opcode::send;
  fabric::RemoteSegment target;
  std::optional<std::uint32_t> invalidated;
  ConstBytes payload;  ///< what is kept of it, without pad
  bool whole = true;   ///< nothing of the payload was cut
};
/// Returns nothing for another kind of frame, and for one whose headers are not all there.
[[nodiscard]] std::optional<Frame> parse_frame(ConstBytes bytes, std::uint32_t original_size);

struct SetupMessage {
  Setup kind = Setup::request;
  std::uint64_t exchange = 0;
  std::uint32_t queue_pair = 0;  ///< of the sender; with disconnect, of the receiver
  ConstBytes private_data;       ///< request and reply; with the zeros that fill it up
};
[[nodiscard]] std::optional<SetupMessage> parse_setup(const Frame& frame);

}  // namespace nfsrdma::trace
