#include "support/nfs_responder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "wire/nfs2/acl.h"

namespace nfsrdma::testing {

using namespace nfs4;
using fabric::ConstBytes;
using fabric::RemoteSegment;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

/// A Call on its way through the server; lives until its Reply has left.
struct Responder::Work {
  rdma_msg header;
  std::vector<Octets> fetched;  // one for each Read segment
  std::size_t to_fetch = 0;
  Octets inline_part;
  Octets message;                          // the whole RPC Call
  std::size_t body = 0;                    // where its COMPOUND starts, or a procedure's arguments
  std::optional<std::uint32_t> procedure;  // of NFSv3
  Principal who;
  std::optional<ToyGuard::Pass> pass;
  std::weak_ptr<Peer> peer;  // gone with its connection: what was begun is executed all the same
  SeenCall seen;
  bool keep_answer = false;  // until release()
  std::unique_ptr<Execution> execution;
  std::unique_ptr<Answer> answer;
  Octets payload, sent;
};

namespace {

constexpr std::size_t kReceiveSize = 4096;
constexpr std::uint32_t kCallbackCredits = 1;
constexpr std::uint32_t kSpareReceives = 4;  // for a client that is over its credits, so that it is noticed

/// Puts the Read chunks where they belong (RFC 8166 3.4.5, 3.5.3).
Octets assemble(const rdma_msg& header, const Octets& inline_part, const std::vector<Octets>& fetched) {
  Octets out = inline_part;
  const auto append = [](Octets& to, const Octets& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (std::size_t i = 0; i < fetched.size();) {
    const std::uint32_t position = header.rdma_reads[i].position;
    Octets chunk;
    for (; i < fetched.size() && header.rdma_reads[i].position == position; ++i) {
      append(chunk, fetched[i]);
    }
    if (position == 0) {
      out = std::move(chunk);
      continue;
    }
    chunk.resize(xdr::padded(chunk.size()));
    if (position > out.size()) return {};
    out.insert(out.begin() + position, chunk.begin(), chunk.end());
  }
  return out;
}

void add_words(Octets& to, std::initializer_list<std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    to.resize(to.size() + 4);
    xdr::store_u32(&to[to.size() - 4], word);
  }
}

void add_bytes(Octets& to, ConstBytes bytes) {
  const std::size_t at = to.size();
  to.resize(at + bytes.size());
  if (!bytes.empty()) std::memcpy(&to[at], bytes.data(), bytes.size());
}

}  // namespace

/// One connection: takes Calls, executes them in their order, answers.
struct Responder::Peer : fabric::Handler, std::enable_shared_from_this<Peer> {
  Peer(Responder& server_in, unsigned number_in) : server(server_in), number(number_in) {}

  Responder& server;
  const unsigned number;
  std::unique_ptr<fabric::Connection> connection;
  std::uint32_t reply_threshold = rpcrdma::kDefaultThreshold;
  std::uint32_t unanswered = 0;
  std::uint64_t next_cookie = 1;
  std::map<std::uint64_t, std::shared_ptr<Work>> fetching;
  std::map<std::uint64_t, std::shared_ptr<Work>> sending;
  std::map<std::uint64_t, Octets> calling;
  bool gone = false;

  void post_receives(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) connection->post_receive(fabric::ReceiveBuffer(kReceiveSize));
  }
  void on_established(const fabric::Established&) override {}

  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t>) override {
    connection->post_receive(fabric::ReceiveBuffer(kReceiveSize));
    auto work = std::make_shared<Work>();
    const auto decoded = rpcrdma::decode(buffer.message(), work->header);
    if (decoded.fault != rpcrdma::HeaderFault::none)
      return server.state.problem("a transport header that is none");
    if (work->header.proc != rdma_proc::RDMA_MSG && work->header.proc != rdma_proc::RDMA_NOMSG) {
      return server.state.problem("a requester sends RDMA_MSG and RDMA_NOMSG only");
    }
    const ConstBytes payload = buffer.message().subspan(decoded.size);
    if (work->header.proc == rdma_proc::RDMA_MSG && payload.size() >= 8 && xdr::load_u32(&payload[4]) == 1) {
      return take_answer(work->header, payload);
    }
    if (++unanswered > server.credits) server.state.problem("more Calls than credits");
    add_bytes(work->inline_part, payload);
    work->fetched.resize(work->header.rdma_reads.size());
    work->to_fetch = work->fetched.size();
    if (work->to_fetch == 0) return take(work);
    for (std::size_t i = 0; i < work->fetched.size(); ++i) {
      const RemoteSegment& from = work->header.rdma_reads[i].target;
      work->fetched[i].resize(from.length);
      fetching[next_cookie] = work;
      connection->post_rdma_read(work->fetched[i], from, next_cookie++);
    }
  }

  void on_completed(std::uint64_t cookie) override {
    sending.erase(cookie);
    calling.erase(cookie);
    const auto found = fetching.find(cookie);
    if (found == fetching.end()) return;
    const auto work = found->second;
    fetching.erase(found);
    if (--work->to_fetch == 0) take(work);
  }

  void on_closed(const Error&) override { leave(); }

  void drop() {
    if (gone) return;
    connection->close();
    leave();
  }
  void leave() {
    if (gone) return;
    gone = true;
    server.state.on_connection_lost(number);
    server.callbacks.on_lost(number);
    // Not from inside the connection's own callback. The server may be gone by then.
    server.loop_.post([self = shared_from_this()] { self->connection.reset(); });
    std::erase(server.peers_, shared_from_this());
  }

  /// The whole Call is there.
  void take(const std::shared_ptr<Work>& work) {
    work->message = assemble(work->header, work->inline_part, work->fetched);
    const ToyGuard::Verdict verdict = server.guard.open(work->message, work->pass);
    if (!verdict.wrong.empty()) return server.state.problem(verdict.wrong);
    if (verdict.drops) return;
    if (!verdict.garbage.empty()) return refuse_call(work, verdict.garbage);
    // AUTH_ERROR.
    if (verdict.auth_stat != 0) return refuse_call(work, {1, 1, 1, verdict.auth_stat});
    xdr::Decoder in(work->message);
    std::uint32_t xid = 0, direction = 0, rpc = 0, program = 0, version = 0, procedure = 0, flavor = 0,
                  verifier = 0;
    ConstBytes body, verifier_body;
    if (!in.u32(xid) || !in.u32(direction) || !in.u32(rpc) || !in.u32(program) || !in.u32(version) ||
        !in.u32(procedure) || !in.u32(flavor) || !in.opaque(400, body) || !in.u32(verifier) ||
        !in.opaque(400, verifier_body)) {
      return server.state.problem("an RPC header that is none");
    }
    const bool acls =
        program == nfs3::NFSACL_PROGRAM && (version == nfs3::NFSACL_V3 || version == nfs2::NFSACL_V2);
    if (xid != work->header.rdma_xid || direction != 0 || rpc != 2 || (program != NFS4_PROGRAM && !acls)) {
      return server.state.problem("an RPC header with wrong values");
    }
    if (acls && !server.state.habits.has_acls) return refuse_program(work);
    if (acls) procedure += ServerState::kNfsacl;
    if (version < server.lowest_version || version > server.highest_version) return refuse_version(work);
    if (version == 3) work->procedure = procedure;
    if (version == 2) work->procedure = ServerState::kVersion2 + procedure;
    server.credential.clear();
    add_words(server.credential, {flavor, static_cast<std::uint32_t>(body.size())});
    add_bytes(server.credential, body);
    if (procedure == 0) {
      work->answer = std::make_unique<Answer>();
      if (!server.is_frozen()) return reply(work);
      server.frozen_.emplace_back([work, &all = server] { all.reply(work); });
      return;
    }
    work->body = work->message.size() - in.remaining();
    work->seen.xid = xid;
    work->seen.connection = number;
    work->seen.credential.assign(reinterpret_cast<const char*>(server.credential.data()),
                                 server.credential.size());
    const rpcrdma::WriteList& offered = work->header.rdma_writes;
    for (std::size_t i = 0; i < offered.size(); ++i) {
      work->seen.write_chunks.push_back(rpcrdma::chunk_length(offered[i]));
    }
    for (const auto& one : work->header.rdma_reads) work->seen.read_positions.push_back(one.position);
    if (work->pass) work->seen.security = static_cast<Security>(work->pass->service);
    work->seen.reply_chunk = rpcrdma::chunk_length(work->header.rdma_reply);
    work->who = Principal::of(server.credential);
    work->peer = weak_from_this();
    // Which operations are in it, for the tricks; execution decodes again.
    if (work->procedure) {
      work->seen.ops = {ServerState::operation_of(*work->procedure)};
    } else {
      ServerState::look(xdr::Decoder(ConstBytes(work->message).subspan(work->body)), work->seen);
    }
    if (const auto trick = server.next_trick(work->seen, false)) {
      server.note(*work);
      if (*trick == Trick::drop_before) return drop();
      return refuse(work, *trick);
    }
    const bool hold = server.holding_ && is_in(*server.holding_, work->seen);
    if (hold && !server.hold_executes_) {
      server.kept_.push_back(work);
      return;
    }
    work->keep_answer = hold;
    server.begin(work);
  }

  /// PROG_MISMATCH.
  void refuse_version(const std::shared_ptr<Work>& work) {
    refuse_call(work, {1, 0, 0, 0, 2, server.lowest_version, server.highest_version});
  }
  /// PROG_UNAVAIL.
  void refuse_program(const std::shared_ptr<Work>& work) { refuse_call(work, {1, 0, 0, 0, 1}); }
  void refuse_call(const std::shared_ptr<Work>& work, const std::vector<std::uint32_t>& words) {
    rdma_msg header;
    header.rdma_xid = work->header.rdma_xid;
    header.rdma_credit = server.credits;
    header.rdma_writes = returned(work->header.rdma_writes, {});
    header.has_rdma_reply = work->header.has_rdma_reply;
    header.rdma_reply = work->header.rdma_reply;
    for (RemoteSegment& one : header.rdma_reply) one.length = 0;
    add_words(work->payload, {header.rdma_xid});
    for (const std::uint32_t word : words) add_words(work->payload, {word});
    send(work, header);
  }
  /// RDMA_ERROR, or an RPC Reply that says GARBAGE_ARGS.
  void refuse(const std::shared_ptr<Work>& work, Trick what) {
    rdma_msg header;
    header.rdma_xid = work->header.rdma_xid;
    header.rdma_credit = server.credits;
    if (what == Trick::err_chunk) {
      header.proc = rdma_proc::RDMA_ERROR;
      header.err = rpcrdma::rpc_rdma_errcode::ERR_CHUNK;
    } else {
      header.rdma_writes = returned(work->header.rdma_writes, {});
      header.has_rdma_reply = work->header.has_rdma_reply;
      header.rdma_reply = work->header.rdma_reply;
      for (RemoteSegment& one : header.rdma_reply) one.length = 0;
      add_words(work->payload, {header.rdma_xid, 1, 0, 0, 0, 4});
    }
    send(work, header);
  }

  /// The Write list of a Reply: what was offered, with the lengths that were written.
  static rpcrdma::WriteList returned(const rpcrdma::WriteList& offered,
                                     const std::vector<std::size_t>& lengths) {
    rpcrdma::WriteList out;
    for (std::size_t i = 0; i < offered.size(); ++i) {
      std::size_t left = i < lengths.size() ? lengths[i] : 0;
      out.add_chunk();
      for (RemoteSegment one : offered[i]) {
        one.length = static_cast<std::uint32_t>(std::min<std::size_t>(one.length, left));
        left -= one.length;
        out.add_segment(one);
      }
    }
    return out;
  }

  void write(ConstBytes bytes, std::span<const RemoteSegment> chunk) {
    for (const RemoteSegment& to : chunk) {
      const std::size_t count = std::min<std::size_t>(bytes.size(), to.length);
      if (count != 0) connection->post_rdma_write(bytes.first(count), to, next_cookie++);
      bytes = bytes.subspan(count);
    }
  }

  void reply(const std::shared_ptr<Work>& work) {
    rdma_msg header;
    header.rdma_xid = work->header.rdma_xid;
    header.rdma_credit = server.credits;
    const rpcrdma::WriteList& offered = work->header.rdma_writes;
    std::vector<std::size_t> lengths;
    const auto misplacement = server.next_misplacement(work->seen);
    const bool is_long = misplacement == Misplacement::left_inline_long;
    const bool reduces = !is_long && misplacement != Misplacement::left_inline;
    add_words(work->payload, {header.rdma_xid, 1, 0, 0, 0, 0});
    const xdr::Message& results = work->answer->message;
    std::size_t from = 0, chunk = 0;
    for (const xdr::Item& item : results.items) {
      if (!server.state.habits.skips_empty_results) {
        const auto before = static_cast<std::size_t>(&item - results.items.data());
        const auto empty = static_cast<std::size_t>(std::ranges::count(work->answer->empty_results, before));
        chunk += empty;
        lengths.resize(lengths.size() + empty, 0);
      }
      add_bytes(work->payload, results.stream.bytes().subspan(from, item.stream_offset - from));
      from = item.stream_offset;
      const auto is_among = [number = &item - results.items.data()](const std::vector<std::size_t>& list) {
        return std::ranges::count(list, static_cast<std::size_t>(number)) != 0;
      };
      if (is_among(work->answer->kept_inline)) {
        add_bytes(work->payload, item.data);
        work->payload.resize(work->payload.size() + xdr::padding(item.data.size()));
        continue;
      }
      if (reduces && chunk < offered.size() && !offered[chunk].empty()) {
        if (work->pass && work->pass->service != gss::Service::none)
          server.state.problem("a Write chunk for a result that cannot travel by itself");
        if (rpcrdma::chunk_length(offered[chunk]) < item.data.size()) {
          // Linux: NFS4ERR_IO.
          const bool is_ours =
              server.state.habits.skips_empty_results && !work->answer->empty_results.empty();
          if (!is_ours) server.state.problem("a Write chunk too small for its result");
          return refuse_chunk(work);
        }
        write(item.data, offered[chunk]);
        lengths.push_back(item.data.size());
        if (is_among(work->answer->doubled))
          work->payload.resize(work->payload.size() + xdr::padded(item.data.size()), std::byte{0xee});
      } else {
        add_bytes(work->payload, item.data);
        work->payload.resize(work->payload.size() + xdr::padding(item.data.size()));
        lengths.push_back(0);
      }
      ++chunk;
    }
    add_bytes(work->payload, results.stream.bytes().subspan(from));
    if (server.on_reply) server.on_reply(work->seen, work->payload);
    if (work->pass) server.guard.seal(work->payload, *work->pass);
    if (misplacement == Misplacement::filled_for_none) {
      lengths.resize(std::max<std::size_t>(lengths.size(), 1));
      lengths[0] = 8;
    }
    header.rdma_writes = returned(offered, lengths);
    header.has_rdma_reply = work->header.has_rdma_reply;
    header.rdma_reply = work->header.rdma_reply;
    if (is_long || rpcrdma::encoded_size(header) + work->payload.size() > reply_threshold) {
      if (!header.has_rdma_reply || rpcrdma::chunk_length(header.rdma_reply) < work->payload.size()) {
        // RFC 8267 4.2.1: of NFSv4.0 it may ask again.
        if (!work->seen.unbounded || work->seen.minor != 0) {
          const std::uint64_t room = header.has_rdma_reply ? rpcrdma::chunk_length(header.rdma_reply) : 0;
          server.state.problem("no Reply chunk for a Reply of " + std::to_string(work->payload.size()) +
                               " bytes, but " + std::to_string(room));
        }
        return refuse_chunk(work);
      }
      write(work->payload, header.rdma_reply);
      std::size_t left = work->payload.size();
      for (RemoteSegment& one : header.rdma_reply) {
        one.length = static_cast<std::uint32_t>(std::min<std::size_t>(one.length, left));
        left -= one.length;
      }
      header.proc = rdma_proc::RDMA_NOMSG;
    } else {
      for (RemoteSegment& one : header.rdma_reply) one.length = 0;
    }
    send(work, header);
  }
  void refuse_chunk(const std::shared_ptr<Work>& work) {
    work->payload.clear();
    refuse(work, Trick::err_chunk);
  }

  void send(const std::shared_ptr<Work>& work, const rdma_msg& header) {
    xdr::Buffer bytes;
    rpcrdma::encode(header, bytes);
    add_bytes(work->sent, bytes.bytes());
    if (header.proc == rdma_proc::RDMA_MSG) add_bytes(work->sent, work->payload);
    const ConstBytes piece = work->sent;
    fabric::SendWork send_work;
    send_work.cookie = next_cookie++;
    send_work.pieces = {&piece, 1};
    --unanswered;
    sending[send_work.cookie] = work;
    connection->post_send(send_work);
  }

  // ---- the backward direction (RFC 8167) ----

  void call(std::uint32_t xid, const Octets& message) {
    rdma_msg header;
    header.rdma_xid = xid;
    header.rdma_credit = kCallbackCredits;
    xdr::Buffer bytes;
    rpcrdma::encode(header, bytes);
    fabric::SendWork send_work;
    send_work.cookie = next_cookie++;
    Octets& whole = calling[send_work.cookie];
    add_bytes(whole, bytes.bytes());
    add_bytes(whole, message);
    const ConstBytes piece = whole;
    send_work.pieces = {&piece, 1};
    connection->post_send(send_work);
    connection->flush();
  }
  void take_answer(const rdma_msg& header, ConstBytes message) {
    if (!header.rdma_reads.empty() || !header.rdma_writes.empty() || header.has_rdma_reply) {
      server.state.problem("an answer with chunks in the backward direction");
    }
    if (header.rdma_credit == 0) server.state.problem("an answer that grants no credit");
    server.callbacks.on_reply(number, header.rdma_xid, message);
  }
};

Responder::Responder(async::Loop& loop, std::uint64_t seed)
    : state([&loop] { return loop.now(); }, seed),
      callbacks(state, [this](unsigned connection, std::uint32_t xid,
                              const Octets& message) { return call(connection, xid, message); }),
      loop_(loop) {
  // Not from inside the execution that leads to it: the answer goes first.
  state.call_waiter = [this](clientid4 client, const CB_NOTIFY_LOCK4args& args) {
    post([this, client, args] {
      callbacks.add(client, [args](test::CallbackCall& call) { call.add<cb_op::CB_NOTIFY_LOCK>(args); }, {});
    });
  };
  state.call_copier = [this](std::uint64_t copy) {
    after(state.habits.copy_takes, [this, copy] { end_copy(copy); });
  };
  state.call_holder = [this](std::uint64_t delegation) { post([this, delegation] { demand(delegation); }); };
  state.ask_holder = [this](std::uint64_t delegation) { post([this, delegation] { ask(delegation); }); };
}

Responder::~Responder() {
  *alive_ = false;
  drop_connections();
}

void Responder::after(Duration delay, std::function<void()> fn) {
  loop_.at(loop_.now() + delay, [alive = alive_, fn = std::move(fn)] {
    if (*alive) fn();
  });
}

void Responder::post(std::function<void()> fn) {
  loop_.post([alive = alive_, fn = std::move(fn)] {
    if (*alive) fn();
  });
}

// ---- connections ----

void Responder::accept(std::unique_ptr<fabric::Incoming> incoming) {
  auto peer = std::make_shared<Peer>(*this, ++connections);
  std::optional<rpcrdma::PrivateData> mine;
  if (announce) mine = rpcrdma::PrivateData{false, send_size, receive_size};
  const auto theirs = rpcrdma::find_private_data(incoming->private_data());
  peer->reply_threshold = rpcrdma::negotiate(mine, theirs).call_threshold;
  std::vector<std::byte> private_data;
  if (mine) {
    const auto bytes = rpcrdma::encode(*mine);
    private_data.assign(bytes.begin(), bytes.end());
  }
  auto connection = incoming->accept(std::move(private_data), *peer);
  if (!connection) return;
  peer->connection = std::move(*connection);
  peer->post_receives(credits + kSpareReceives);
  peers_.push_back(std::move(peer));
}

void Responder::drop_connections() {
  for (const auto& peer : std::vector(peers_)) peer->drop();
}

void Responder::drop_connection(unsigned number) {
  for (const auto& peer : std::vector(peers_)) {
    if (peer->number == number) peer->drop();
  }
}

void Responder::restart(Duration grace) {
  drop_connections();
  // What is under way is never finished: its boot is over.
  parked_.clear();
  stalled_.clear();
  frozen_.clear();
  callbacks.forget();
  guard.forget();
  state.restart(grace);
}

bool Responder::call(unsigned connection, std::uint32_t xid, const Octets& message) {
  const auto found = std::ranges::find_if(
      peers_, [&](const auto& peer) { return peer->number == connection && !peer->gone; });
  if (found == peers_.end()) return false;
  (*found)->call(xid, message);
  return true;
}

// ---- from a request to its answer ----

/// Takes a request in: it has its slot from here on, and is executed at once or later.
void Responder::begin(const std::shared_ptr<Work>& work) {
  if (is_frozen()) {
    frozen_.emplace_back([this, work] { begin(work); });
    return;
  }
  const ConstBytes body = ConstBytes(work->message).subspan(work->body);
  work->execution = work->procedure ? state.begin3(body, *work->procedure, work->who, work->seen)
                                    : state.begin(body, work->message.size(), work->who, work->seen);
  if (work->execution->stage == Execution::Stage::dropped) {
    if (const auto peer = work->peer.lock()) --peer->unanswered;
    return;
  }
  if (work->execution->stage == Execution::Stage::parked) {
    parked_.push_back(work);
    return;
  }
  if (work->execution->stage != Execution::Stage::ready) return finish(work);
  if (stalling_ && is_in(*stalling_, work->seen)) {
    stalled_.push_back(work);
    return;
  }
  const Duration stall = stall_of(work->seen);
  if (stall == Duration::zero()) return finish(work);
  after(stall, [this, work] { finish(work); });
}

/// Executes it, whether or not anybody is left to be answered.
void Responder::finish(const std::shared_ptr<Work>& work) {
  if (work->execution->boot != state.boot) return;
  if (is_frozen()) {
    frozen_.emplace_back([this, work] { finish(work); });
    return;
  }
  const auto execution = std::exchange(work->execution, nullptr);
  if (state.gives_up(*execution)) return begin(work);
  work->answer = state.finish(*execution);
  work->seen.replayed = work->answer && work->answer->replayed;
  note(*work);
  // Behind the answer.
  if (work->seen.has(OP_CREATE_SESSION) || work->seen.has(OP_BIND_CONN_TO_SESSION)) {
    post([this] { callbacks.pump(); });
  }
  deliver(work);
  unpark(*execution);
}

void Responder::deliver(const std::shared_ptr<Work>& work) {
  const auto peer = work->peer.lock();
  if (!peer || peer->gone) return;
  if (!work->answer) return peer->refuse(work, Trick::garbage_args);
  if (next_trick(work->seen, true)) return peer->drop();
  if (work->keep_answer) {
    kept_.push_back(work);
    return;
  }
  reply(work);
}

void Responder::reply(const std::shared_ptr<Work>& work) {
  const auto answer = [work] {
    if (const auto peer = work->peer.lock(); peer && !peer->gone) peer->reply(work);
  };
  if (reply_delay == Duration::zero()) return answer();
  after(reply_delay, answer);
}

/// Retransmissions that waited for what has its answer now.
void Responder::unpark(const Execution& done) {
  if (parked_.empty()) return;
  std::vector<std::shared_ptr<Work>> woken;
  std::erase_if(parked_, [&](const auto& work) {
    const bool same = work->execution->session == done.session && work->execution->slot == done.slot;
    if (same) woken.push_back(work);
    return same;
  });
  for (const auto& work : woken) begin(work);
}

void Responder::note(Work& work) {
  if (work.answer) {
    work.seen.status = static_cast<nfsstat4>(xdr::load_u32(work.answer->message.stream.bytes().data()));
  }
  if (on_call) on_call(work.seen);
  if (keeps_calls) calls.push_back(work.seen);
}

// ---- faults ----

bool Responder::is_in(nfs_opnum4 op, const SeenCall& seen) {
  return op == OP_ILLEGAL || seen.has(op);
}

std::optional<Responder::Trick> Responder::next_trick(const SeenCall& seen, bool executed) {
  const auto found = std::ranges::find_if(tricks_, [&](const auto& one) {
    return (one.first == Trick::drop_after) == executed && seen.has(one.second);
  });
  if (found == tricks_.end()) return std::nullopt;
  const Trick trick = found->first;
  tricks_.erase(found);
  return trick;
}

std::optional<Responder::Misplacement> Responder::next_misplacement(const SeenCall& seen) {
  const auto found =
      std::ranges::find_if(misplacements_, [&](const auto& one) { return is_in(one.second, seen); });
  if (found == misplacements_.end()) return std::nullopt;
  const Misplacement how = found->first;
  misplacements_.erase(found);
  return how;
}

void Responder::hold(nfs_opnum4 op, bool execute) {
  holding_ = op;
  hold_executes_ = execute;
}

void Responder::release() {
  holding_.reset();
  stalling_.reset();
  const auto kept = std::exchange(kept_, {});
  const auto stalled = std::exchange(stalled_, {});
  for (const auto& work : kept) go_on(work);
  for (const auto& work : stalled) finish(work);
}

void Responder::release_first() {
  if (kept_.empty()) return;
  const auto work = kept_.front();
  kept_.erase(kept_.begin());
  go_on(work);
}

/// With what hold() kept.
void Responder::go_on(const std::shared_ptr<Work>& work) {
  const auto peer = work->peer.lock();
  if (!peer || peer->gone) return;
  if (work->answer) {
    reply(work);
  } else {
    begin(work);
  }
}

void Responder::stall(nfs_opnum4 op, Duration time) {
  stalls_.push_back({op, time});
}

Responder::Duration Responder::stall_of(const SeenCall& seen) {
  Duration most{0};
  std::erase_if(stalls_, [&](const Stall& one) {
    const bool meant = is_in(one.op, seen);
    if (meant) most = std::max(most, one.time);
    return meant;
  });
  const Habits& habits = state.habits;
  if (!state.chance.percent(habits.stall_percent)) return most;
  const auto longest = static_cast<std::uint64_t>(habits.longest_stall.count());
  return std::max<Duration>(most, std::chrono::milliseconds(1 + state.chance.below(longest)));
}

void Responder::freeze(Duration time) {
  frozen_until_ = std::max(frozen_until_, loop_.now() + time);
  after(time, [this] {
    if (!is_frozen()) thaw();  // else for longer since
  });
}

void Responder::thaw() {
  frozen_until_ = loop_.now();
  const auto waiting = std::exchange(frozen_, {});
  for (const auto& fn : waiting) fn();
}

// ---- the server's Calls ----

CallbackQueue::Ticket Responder::recall(const std::string& path, Done done) {
  const Inode* inode = state.find(path);
  CB_RECALL4args args;
  args.stateid = state.stateid_of(~0ULL, 1);
  args.fh = handle_of(inode != nullptr ? inode->id : 0);
  clientid4 client = 0;
  for (const auto& [number, one] : state.delegations) {
    if (inode == nullptr || one.inode != inode->id) continue;
    args.stateid = state.stateid_of(number, one.seqid);
    client = one.client;
  }
  return callbacks.add(
      client, [args](test::CallbackCall& call) { call.add<cb_op::CB_RECALL>(args); }, std::move(done));
}

void Responder::end_copy(std::uint64_t copy) {
  if (!state.copies.contains(copy)) return;  // cancelled, or forgotten
  state.end_copy(copy);
  if (!state.habits.tells_of_copies) return;
  const CopyState& one = state.copies.at(copy);
  CB_OFFLOAD4args args;
  args.coa_fh = handle_of(one.to);
  args.coa_stateid = state.stateid_of(copy, 1);
  if (*one.ended == NFS4_OK) {
    write_response4& written = args.coa_offload_info.emplace<NFS4_OK>();
    written.wr_count = one.copied;
    written.wr_committed = state.habits.unstable_copies ? UNSTABLE4 : FILE_SYNC4;
    written.wr_writeverf = state.write_verifier();
  } else {
    args.coa_offload_info.select(*one.ended);
  }
  callbacks.add(
      one.client, [args](test::CallbackCall& call) { call.add<cb_op::CB_OFFLOAD>(args); },
      [this, copy](nfsstat4 status) {
        if (status == NFS4_OK) state.copies.erase(copy);
      });
}

CallbackQueue::Ticket Responder::recall_any(clientid4 client, std::uint32_t objects_to_keep,
                                            const bitmap4& types, Done done) {
  const CB_RECALL_ANY4args args{objects_to_keep, types};
  return callbacks.add(
      client, [args](test::CallbackCall& call) { call.add<cb_op::CB_RECALL_ANY>(args); }, std::move(done));
}

CallbackQueue::Ticket Responder::recall_slot(clientid4 client, std::uint32_t target_highest_slot, Done done) {
  state.target_highest = target_highest_slot;
  return callbacks.add(
      client,
      [target_highest_slot](test::CallbackCall& call) {
        call.add<cb_op::CB_RECALL_SLOT>({target_highest_slot});
      },
      std::move(done));
}

/// Who does not know the stateid may not have the answer to its OPEN yet, and is asked again.
void Responder::demand(std::uint64_t delegation) {
  const auto found = state.delegations.find(delegation);
  if (found == state.delegations.end() || found->second.revoked != Revoked::no) return;
  if (!found->second.recalled) found->second.recalled = loop_.now();
  CB_RECALL4args args;
  args.stateid = state.stateid_of(delegation, found->second.seqid);
  args.fh = handle_of(found->second.inode);
  callbacks.add(
      found->second.client, [args](test::CallbackCall& call) { call.add<cb_op::CB_RECALL>(args); },
      [this, delegation](nfsstat4 status) {
        if (status != NFS4_OK) after(kRecallAgain, [this, delegation] { demand(delegation); });
      });
}

void Responder::ask(std::uint64_t delegation) {
  const auto found = state.delegations.find(delegation);
  if (found == state.delegations.end() || found->second.revoked != Revoked::no) return;
  found->second.asked = state.inodes.at(found->second.inode).change;
  const CB_GETATTR4args args{handle_of(found->second.inode), bitmap_of({FATTR4_CHANGE, FATTR4_SIZE})};
  const auto told = std::make_shared<std::optional<fattr4>>();
  callbacks.add(
      found->second.client, [args](test::CallbackCall& call) { call.add<cb_op::CB_GETATTR>(args); },
      [told](test::CallbackResults& results) {
        CB_GETATTR4res res;
        if (results.take<cb_op::CB_GETATTR>(res) == NFS4_OK) *told = res.get<NFS4_OK>()->obj_attributes;
      },
      [this, delegation, told](nfsstat4 /*status*/) {
        if (!state.hear_of(delegation, *told)) demand(delegation);
      });
}

}  // namespace nfsrdma::testing
