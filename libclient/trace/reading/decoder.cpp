#include "trace/reading/decoder.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "rpc/message.h"
#include "rpcrdma/private_data.h"
#include "trace/format/assembly.h"
#include "xdr/encoder.h"

namespace nfsrdma::trace {
namespace {

using fabric::RemoteSegment;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

constexpr std::uint32_t kRpcsecGss = 6;
constexpr std::uint32_t kIntegrity = 2, kPrivacy = 3;
/// Memory in which placed results are looked for; larger ones are not decoded.
constexpr std::uint64_t kMostPlaced = 16U << 20;

/// Returns the comment without its mark; empty if this project's recorder has not written it.
std::string_view own_comment(const Packet& packet) {
  constexpr std::string_view kMark = "nfsrdma: ";
  const std::string_view all = packet.comment;
  return all.starts_with(kMark) ? all.substr(kMark.size()) : std::string_view();
}
/// Returns the number behind "key=" in the comment.
std::optional<std::uint64_t> fact(std::string_view comment, std::string_view key) {
  const std::size_t at = comment.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = comment.substr(at + key.size());
  std::uint64_t out = 0;
  const auto done = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return done.ec == std::errc{} ? std::optional(out) : std::nullopt;
}

/// The two addresses, whichever way the frame goes.
std::pair<Gid, Gid> peers_of(const Frame& frame) {
  return {std::min(frame.from, frame.to), std::max(frame.from, frame.to)};
}

/// A text from the file, for a terminal.
std::string clean(std::string_view text) {
  std::string out(text.substr(0, 1024));
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return out;
}

ChunkSum sum_of(std::uint32_t chunks, std::span<const RemoteSegment> segments) {
  ChunkSum out{chunks, static_cast<std::uint32_t>(segments.size()), 0};
  for (const RemoteSegment& segment : segments) out.bytes += segment.length;
  return out;
}

/// Fills in what the transport header says.
void take_header(const rdma_msg& header, Event& out) {
  out.xid = header.rdma_xid;
  out.credits = header.rdma_credit;
  std::optional<std::uint32_t> position;
  for (const rpcrdma::xdr_read_chunk& chunk : header.rdma_reads) {
    ChunkSum& to = chunk.position == 0 ? out.long_call : out.reads;
    to.chunks += position != chunk.position ? 1 : 0;
    position = chunk.position;
    ++to.segments;
    to.bytes += chunk.target.length;
  }
  out.writes = sum_of(static_cast<std::uint32_t>(header.rdma_writes.size()), header.rdma_writes.segments());
  if (header.has_rdma_reply) out.reply_chunk = sum_of(1, header.rdma_reply);
}

std::string refusal_text(const rpc::ReplyHeader& header) {
  constexpr std::array kNames{"OK",           "no RPC reply", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL",
                              "GARBAGE_ARGS", "SYSTEM_ERR",   "RPC_MISMATCH", "AUTH_ERROR"};
  std::string out = kNames.at(static_cast<std::size_t>(header.refusal));
  if (header.refusal == rpc::Refusal::authentication) out += " " + std::to_string(header.detail);
  return out;
}

/// Returns the service of a credential: what protects arguments and results.
std::uint32_t protection_of(const rpc::CallHeader& call) {
  if (call.flavor != kRpcsecGss) return 0;
  xdr::Decoder in(call.credential);
  std::uint32_t version = 0, procedure = 0, number = 0, service = 0;
  return in.u32(version) && in.u32(procedure) && in.u32(number) && in.u32(service) ? service : 0;
}
/// Moves to the arguments or results inside the protection. Returns false if they are encrypted.
bool open_protection(std::uint32_t protection, xdr::Decoder& in) {
  std::uint32_t skipped = 0;
  if (protection == kIntegrity) return in.u32(skipped) && in.u32(skipped);
  return protection != kPrivacy;
}

void take_body(Body body, Event& out) {
  out.protocol = std::move(body.protocol);
  out.procedure = std::move(body.procedure);
  out.operations = std::move(body.operations);
  out.status = std::move(body.status);
  out.failed = body.failed;
  out.data_bytes = body.data_bytes;
  out.cut = out.cut || !body.complete;
}

}  // namespace

// ---- the file ----

void Decoder::add(ConstBytes bytes) {
  blocks_.add(bytes);
  while (const auto packet = blocks_.next()) {
    ++packets_;
    take(*packet);
  }
}

void Decoder::finish() {
  for (auto& [name, end] : ends_) {
    for (const bool to_server : {false, true}) flush(*end.connection, to_server);
  }
}

void Decoder::take(const Packet& packet) {
  const auto frame = parse_frame(packet.bytes, packet.original_size);
  if (!frame) return;
  if (const auto setup = parse_setup(*frame)) return take_setup(packet, *frame, *setup);
  if (frame->opcode == Opcode::datagram) return;
  const ConstBytes message = frame->payload;
  const bool is_send = frame->opcode == Opcode::send || frame->opcode == Opcode::send_invalidate;
  // RDMA Writes, and requests for RDMA Reads, go to the client.
  bool to_server = frame->opcode == Opcode::read_response;
  if (is_send) {
    rdma_msg header;
    const std::size_t size = rpcrdma::decode(message, header).size;
    to_server = header.rdma_reads.empty()
                    ? message.size() >= size + 8 && xdr::load_u32(message.data() + size + 4) == 0
                    : true;
  }
  const End end = end_of(*frame, to_server);
  if (!end.connection) return;
  if (is_send) return take_send(packet, *frame, end);
  if (frame->opcode == Opcode::rdma_write) take_piece(*end.connection, frame->target, message);
  if (frame->opcode == Opcode::read_request) end.connection->reading = frame->target;
  if (frame->opcode == Opcode::read_response) take_response(*end.connection, *frame);
}

// ---- connections ----

std::shared_ptr<Decoder::Connection> Decoder::make_connection(const Frame& frame) {
  auto out = std::make_shared<Connection>();
  out->number = ++connections_;
  out->peers = peers_of(frame);
  return out;
}

/// Returns the end that the frame goes to. Without a set-up, the addresses stand for the connection.
Decoder::End Decoder::end_of(const Frame& frame, bool is_call) {
  const auto known = ends_.find({frame.to, frame.queue_pair});
  if (known != ends_.end() && known->second.is_certain) return known->second;
  if (known != ends_.end()) return {known->second.connection, is_call, false};
  if (ends_.size() >= kMostConnections) return {};
  End made{nullptr, is_call, false};
  for (const auto& [name, other] : ends_) {
    if (!other.is_certain && other.connection->peers == peers_of(frame)) made.connection = other.connection;
  }
  if (!made.connection) made.connection = make_connection(frame);
  ends_[{frame.to, frame.queue_pair}] = made;
  return made;
}

void Decoder::begin_connection(const Packet& packet, const Frame& frame, const SetupMessage& setup) {
  End& client = ends_[{frame.from, setup.queue_pair}];
  if (client.connection && client.is_certain) return;  // the set-up was repeated, at the beginning of a file
  client = {make_connection(frame), false, true};
  client.connection->exchange = setup.exchange;
  Event event;
  event.kind = EventKind::connecting;
  event.time_ns = packet.time_ns;
  event.connection = client.connection->number;
  event.text = clean(own_comment(packet));
  if (event.text.empty()) event.text = "connecting to " + text_of(frame.to);
  sink_(event);
}

/// Returns the connection that a message of the Communication Manager is about.
std::shared_ptr<Decoder::Connection> Decoder::find_connection(const Frame& frame,
                                                              const SetupMessage& setup) const {
  std::shared_ptr<Connection> out;
  for (const auto& [name, end] : ends_) {
    if (!end.is_certain || end.connection->peers != peers_of(frame)) continue;
    if (end.connection->exchange == setup.exchange) return end.connection;
    // Other programs use another number for each exchange.
    if (setup.kind == Setup::disconnect && name.second == setup.queue_pair) out = end.connection;
  }
  return out;
}

void Decoder::take_setup(const Packet& packet, const Frame& frame, const SetupMessage& setup) {
  if (setup.kind == Setup::request) {
    if (ends_.size() < kMostConnections) begin_connection(packet, frame, setup);
    return;
  }
  const auto connection = find_connection(frame, setup);
  if (!connection) return;
  if (setup.kind == Setup::disconnect) return end_connection(packet, connection);
  if (setup.kind != Setup::reply) return;
  End& server = ends_[{frame.from, setup.queue_pair}];
  if (server.connection && server.is_certain) return;
  server = {connection, true, true};
  tell_connected(packet, *connection, setup);
}

void Decoder::tell_connected(const Packet& packet, const Connection& connection, const SetupMessage& setup) {
  Event event;
  event.kind = EventKind::connected;
  event.time_ns = packet.time_ns;
  event.connection = connection.number;
  event.text = clean(own_comment(packet));
  if (const auto sizes = rpcrdma::find_private_data(setup.private_data)) {
    event.text += "; the server receives messages of up to " + std::to_string(sizes->receive_size) +
                  " bytes and sends up to " + std::to_string(sizes->send_size);
  }
  sink_(event);
}

void Decoder::end_connection(const Packet& packet, const std::shared_ptr<Connection>& connection) {
  for (const bool to_server : {false, true}) flush(*connection, to_server);
  const auto begin = pending_.lower_bound({connection->number, 0, false});
  const auto end = pending_.lower_bound({connection->number + 1, 0, false});
  for (auto at = begin; at != end; ++at) {
    if (orphans_.size() < kMostPending)
      orphans_[{std::get<1>(at->first), std::get<2>(at->first)}] = at->second;
  }
  pending_.erase(begin, end);
  std::erase_if(ends_, [&](const auto& one) { return one.second.connection == connection; });
  Event event;
  event.kind = EventKind::disconnected;
  event.time_ns = packet.time_ns;
  event.connection = connection->number;
  event.text = clean(own_comment(packet));
  sink_(event);
}

// ---- pieces ----

void Decoder::take_piece(Connection& connection, const RemoteSegment& target, ConstBytes bytes) {
  if (connection.piece_bytes + bytes.size() > kMostPieces) return;
  Piece& piece = connection.pieces[target.handle];
  if (piece.bytes.empty()) piece.offset = target.offset;
  if (target.offset != piece.offset + piece.bytes.size()) return;
  piece.bytes.insert(piece.bytes.end(), bytes.begin(), bytes.end());
  connection.piece_bytes += bytes.size();
}

void Decoder::take_response(Connection& connection, const Frame& frame) {
  take_piece(connection, connection.reading, frame.payload);
  auto& held = connection.held[1];
  if (!held) return;
  const auto is_there = [&](const rpcrdma::xdr_read_chunk& chunk) {
    const auto piece = connection.pieces.find(chunk.target.handle);
    return piece != connection.pieces.end() && piece->second.bytes.size() >= chunk.target.length;
  };
  if (std::ranges::all_of(held->header.rdma_reads, is_there)) flush(connection, true);
}

/// Tells a message that was held, with the pieces of it that have come.
void Decoder::flush(Connection& connection, bool to_server) {
  auto held = std::exchange(connection.held[to_server ? 1 : 0], std::nullopt);
  if (!held) return;
  const MemoryOf memory_of = [&](const RemoteSegment& segment) -> ConstBytes {
    const auto piece = connection.pieces.find(segment.handle);
    return piece != connection.pieces.end() && piece->second.offset == segment.offset
               ? ConstBytes(piece->second.bytes)
               : ConstBytes();
  };
  const Whole whole = to_server ? whole_call(held->header, held->inline_part, kMostPieces, memory_of)
                                : whole_reply(held->header, kMostPieces, memory_of);
  held->event.cut = held->event.cut || whole.missing() != 0;
  tell(connection, held->event, held->header, whole.bytes().subspan(rpcrdma::kMinHeader));
}

// ---- messages ----

void Decoder::take_send(const Packet& packet, const Frame& frame, const End& end) {
  Connection& connection = *end.connection;
  rdma_msg header;
  const rpcrdma::Decoded decoded = rpcrdma::decode(frame.payload, header);
  if (completes_held(connection, end.is_server, frame, header, decoded.size)) return;
  flush(connection, end.is_server);
  const std::string_view comment = own_comment(packet);
  Event event;
  event.time_ns = packet.time_ns;
  event.connection = connection.number;
  event.to_server = end.is_server;
  event.invalidates = frame.invalidated.has_value();
  event.size = fact(comment, "message=").value_or(frame.payload.size());
  event.cut = !frame.whole && event.size > frame.payload.size();
  if (decoded.fault != rpcrdma::HeaderFault::none) {
    event.text = "a message whose transport header cannot be decoded";
    sink_(event);
    return;
  }
  take_header(header, event);
  const ConstBytes rest = frame.payload.subspan(decoded.size);
  const bool is_long_reply = !end.is_server && header.proc == rdma_proc::RDMA_NOMSG;
  if (header.rdma_reads.empty() && !is_long_reply) return tell(connection, event, header, rest);
  connection.held[end.is_server ? 1 : 0] = Held{event, header, Octets(rest.begin(), rest.end())};
  const bool is_there =
      is_long_reply && event.reply_chunk.bytes != 0 &&
      std::ranges::all_of(header.rdma_reply, [&](const RemoteSegment& segment) {
        const auto piece = connection.pieces.find(segment.handle);
        return piece != connection.pieces.end() && piece->second.bytes.size() >= segment.length;
      });
  if (is_there) flush(connection, false);
}

/// Returns true if the frame has a message put together that was held, and tells it.
bool Decoder::completes_held(Connection& connection, bool to_server, const Frame& frame,
                             const rdma_msg& header, std::size_t header_size) {
  auto& held = connection.held[to_server ? 1 : 0];
  const bool is_plain = header_size == rpcrdma::kMinHeader && header.proc == rdma_proc::RDMA_MSG;
  if (!held || !is_plain || held->header.rdma_xid != header.rdma_xid) return false;
  Held whole = *std::exchange(held, std::nullopt);
  whole.event.cut = whole.event.cut || !frame.whole;
  tell(connection, whole.event, whole.header, frame.payload.subspan(header_size));
  return true;
}

void Decoder::tell(Connection& connection, Event& event, const rdma_msg& header, ConstBytes body) {
  connection.pieces.clear();
  connection.piece_bytes = 0;
  if (header.proc == rdma_proc::RDMA_ERROR) {
    event.kind = EventKind::error;
    event.backward = event.to_server;
    event.failed = true;
    event.status = header.err == rpcrdma::rpc_rdma_errcode::ERR_VERS ? "ERR_VERS" : "ERR_CHUNK";
    take_pending(connection, event);
    sink_(event);
    return;
  }
  constexpr std::size_t kDirectionEnd = 8;
  if (body.size() < kDirectionEnd) {
    event.text = "a message without an RPC header";
    sink_(event);
    return;
  }
  xdr::Decoder in(body);
  const bool is_call = xdr::load_u32(body.data() + 4) == 0;
  event.kind = is_call ? EventKind::call : EventKind::reply;
  event.backward = event.to_server != is_call;
  if (is_call) {
    tell_call(connection, event, in);
  } else {
    tell_reply(connection, event, header, in);
  }
  sink_(event);
}

void Decoder::tell_call(Connection& connection, Event& event, xdr::Decoder& in) {
  const rpc::CallHeader call = rpc::read_call(in);
  if (call.verdict.refusal != rpc::Refusal::none) {
    event.kind = EventKind::strange;
    event.text = "an RPC Call whose header cannot be decoded";
    return;
  }
  PendingCall pending;
  pending.called = {call.program, call.version, call.procedure, event.backward};
  pending.time_ns = event.time_ns;
  pending.protection = protection_of(call);
  pending.peers = connection.peers;
  if (open_protection(pending.protection, in)) {
    take_body(arguments_of(pending.called, in), event);
  } else {
    xdr::Decoder nothing({});
    take_body(arguments_of({call.program, call.version, 0, event.backward}, nothing), event);
    event.procedure = "encrypted";
  }
  pending.protocol = event.protocol;
  keep_pending(connection, event, pending);
}

void Decoder::keep_pending(const Connection& connection, Event& event, PendingCall call) {
  const auto earlier = orphans_.find({event.xid, event.backward});
  if (earlier != orphans_.end() && earlier->second.peers == call.peers &&
      earlier->second.called.procedure == call.called.procedure) {
    event.sends = call.sends = earlier->second.sends + 1;
    orphans_.erase(earlier);
  }
  if (pending_.size() >= kMostPending) pending_.erase(pending_.begin());
  pending_[{connection.number, event.xid, event.backward}] = call;
}

std::optional<Decoder::PendingCall> Decoder::take_pending(const Connection& connection, Event& event) {
  const auto found = pending_.find({connection.number, event.xid, event.backward});
  if (found == pending_.end()) return std::nullopt;
  PendingCall out = found->second;
  pending_.erase(found);
  event.sends = out.sends;
  // A hostile file may have any times.
  const std::uint64_t longest = std::numeric_limits<std::int64_t>::max();
  if (event.time_ns >= out.time_ns && event.time_ns - out.time_ns <= longest)
    event.round_trip = std::chrono::nanoseconds(event.time_ns - out.time_ns);
  return out;
}

/// Returns memory for the results that were placed, so that xdr::Decoder finds them outside of the message.
std::span<const xdr::Placement> Decoder::placements(const rdma_msg& header) {
  placements_.clear();
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < header.rdma_writes.size(); ++i)
    most = std::max(most, rpcrdma::chunk_length(header.rdma_writes[i]));
  if (most > kMostPlaced) return {};
  if (scratch_.size() < most) scratch_.resize(most);
  for (std::size_t i = 0; i < header.rdma_writes.size(); ++i) {
    const auto placed = static_cast<std::uint32_t>(rpcrdma::chunk_length(header.rdma_writes[i]));
    // A chunk that was not used has its data in the stream.
    placements_.push_back({xdr::Bytes(scratch_).first(placed), placed != 0, placed});
  }
  return placements_;
}

void Decoder::tell_reply(Connection& connection, Event& event, const rdma_msg& header, xdr::Decoder& in) {
  const rpc::ReplyHeader reply = rpc::read_reply(in);
  const auto call = take_pending(connection, event);
  event.status = refusal_text(reply);
  event.failed = reply.refusal != rpc::Refusal::none;
  if (!call) {
    event.text = "its Call is not in the trace";
    return;
  }
  const bool is_readable = !event.failed && open_protection(call->protection, in);
  xdr::Decoder results(is_readable ? in.rest() : ConstBytes(), placements(header));
  Called called = call->called;
  if (!is_readable) called.procedure = 0;
  const std::string verdict = event.status;
  const bool refused = event.failed;
  take_body(results_of(called, results), event);
  if (!is_readable && call->protection == kPrivacy) event.procedure = "encrypted";
  event.protocol = call->protocol;  // the Call alone has the minor version
  if (event.status.empty()) event.status = verdict;
  event.failed = event.failed || refused;
}

}  // namespace nfsrdma::trace
