#include "support/nfs_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "async/loop.h"
#include "fabric/iwarp/listener.h"
#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "support/loopback.h"
#include "support/nfs_server_callbacks.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

using namespace nfs4;
using fabric::ConstBytes;
using fabric::RemoteSegment;
using rpcrdma::rdma_msg;
using rpcrdma::rdma_proc;

namespace {

constexpr std::size_t kReceiveSize = 4096;
constexpr std::uint32_t kCallbackCredits = 1;
constexpr std::uint32_t kSpareReceives = 4;  // for a client that is over its credits, so that it is noticed

enum class Trick : std::uint8_t { drop_before, drop_after, err_chunk, garbage_args };

/// A Call on its way through the server; lives until its Reply has left.
struct Work {
  rdma_msg header;
  std::vector<Octets> fetched;  // one for each Read segment
  std::size_t to_fetch = 0;
  Octets inline_part;
  Octets message;        // the whole RPC Call
  std::size_t body = 0;  // where its COMPOUND starts
  bool executed = false;
  SeenCall seen;
  std::unique_ptr<Answer> answer;
  Octets payload, sent;
};

/// Puts the Read chunks where they belong (RFC 8166 3.4.5, 3.5.3).
Octets assemble(const Work& work) {
  Octets out = work.inline_part;
  const auto append = [](Octets& to, const Octets& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (std::size_t i = 0; i < work.fetched.size();) {
    const std::uint32_t position = work.header.rdma_reads[i].position;
    Octets chunk;
    for (; i < work.fetched.size() && work.header.rdma_reads[i].position == position; ++i) {
      append(chunk, work.fetched[i]);
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

class NfsServer::Impl {
 public:
  Impl();
  ~Impl();

  /// Runs `fn` on the server's thread and gives what it gives.
  template <class F>
  auto on_thread(F fn) {
    using T = std::invoke_result_t<F>;
    std::packaged_task<T()> task(std::move(fn));
    auto result = task.get_future();
    {
      const std::lock_guard lock(mutex);
      queue.emplace_back([&task] { task(); });
    }
    [[maybe_unused]] const int told = ::eventfd_write(wake, 1);
    return result.get();
  }

  void listen();
  void drop_connections();
  void release();
  bool call(unsigned connection, std::uint32_t xid, const Octets& message);
  std::optional<nfsstat4> answered(const std::function<CallbackQueue::Added()>& begin,
                                   std::chrono::milliseconds most);
  CallbackQueue::Added begin_recall(const std::string& path);
  std::string locks(const std::string& path);

  // constant once the thread runs
  std::atomic<std::uint16_t> port{0};

  // the server thread's
  struct Peer;
  ServerState state;
  CallbackQueue callbacks{state, [this](unsigned connection, std::uint32_t xid, const Octets& message) {
                            return call(connection, xid, message);
                          }};
  std::vector<SeenCall> seen;
  Octets credential;
  std::uint32_t credits = 64;
  bool announce = true;
  std::chrono::milliseconds delay{0};
  std::vector<std::pair<Trick, nfs_opnum4>> tricks;
  std::optional<nfs_opnum4> holding;
  bool hold_executes = true;
  std::vector<std::pair<std::weak_ptr<Peer>, std::shared_ptr<Work>>> kept;
  unsigned connections = 0;
  std::vector<std::shared_ptr<Peer>> peers;

 private:
  void run();
  void accept(std::unique_ptr<fabric::iwarp::Incoming> incoming);

  async::Loop loop;
  std::unique_ptr<fabric::iwarp::Listener> listener;
  int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mutex;  // guards queue, stop
  std::vector<std::function<void()>> queue;
  bool stop = false;
  std::thread thread;
  friend class NfsServer;
};

/// One connection: takes Calls, executes them in their order, answers.
struct NfsServer::Impl::Peer : fabric::Handler, std::enable_shared_from_this<Peer> {
  Peer(Impl& server_in, unsigned number_in) : server(server_in), number(number_in) {}

  Impl& server;
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
    // Not from inside the connection's own callback.
    server.loop.post([this, self = shared_from_this()] {
      connection.reset();
      std::erase(server.peers, self);
    });
    server.callbacks.on_lost(number);
  }

  /// The whole Call is there.
  void take(const std::shared_ptr<Work>& work) {
    work->message = assemble(*work);
    xdr::Decoder in(work->message);
    std::uint32_t xid = 0, direction = 0, rpc = 0, program = 0, version = 0, procedure = 0, flavor = 0,
                  verifier = 0;
    ConstBytes body, verifier_body;
    if (!in.u32(xid) || !in.u32(direction) || !in.u32(rpc) || !in.u32(program) || !in.u32(version) ||
        !in.u32(procedure) || !in.u32(flavor) || !in.opaque(400, body) || !in.u32(verifier) ||
        !in.opaque(400, verifier_body)) {
      return server.state.problem("an RPC header that is none");
    }
    if (xid != work->header.rdma_xid || direction != 0 || rpc != 2 || program != NFS4_PROGRAM ||
        version != 4) {
      return server.state.problem("an RPC header with wrong values");
    }
    server.credential.clear();
    add_words(server.credential, {flavor, static_cast<std::uint32_t>(body.size())});
    add_bytes(server.credential, body);
    if (procedure == 0) {
      work->answer = std::make_unique<Answer>();
      return reply(work);
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
    work->seen.reply_chunk = rpcrdma::chunk_length(work->header.rdma_reply);
    look(*work);
    for (auto trick = server.tricks.begin(); trick != server.tricks.end(); ++trick) {
      if (trick->first == Trick::drop_after || !work->seen.has(trick->second)) continue;
      const Trick what = trick->first;
      server.tricks.erase(trick);
      server.seen.push_back(work->seen);
      if (what == Trick::drop_before) return drop();
      return refuse(work, what);
    }
    const bool hold = server.holding && (*server.holding == OP_ILLEGAL || work->seen.has(*server.holding));
    if (hold && !server.hold_executes) {
      server.kept.emplace_back(weak_from_this(), work);
      return;
    }
    execute(work);
    if (hold && !gone) {
      server.kept.emplace_back(weak_from_this(), work);
      return;
    }
    finish(work);
  }

  /// Which operations are in it, for the tricks; execution decodes again.
  static void look(Work& work) {
    xdr::Decoder in(ConstBytes(work.message).subspan(work.body));
    ServerState::look(in, work.seen);
  }

  void execute(const std::shared_ptr<Work>& work) {
    work->executed = true;
    xdr::Decoder in(ConstBytes(work->message).subspan(work->body));
    work->answer = server.state.compound(in, work->message.size(), work->seen);
    work->seen.replayed = work->answer && work->answer->replayed;
    work->seen.at = std::chrono::steady_clock::now();
    server.seen.push_back(work->seen);
    if (!work->answer) return;
    if (work->seen.has(OP_CREATE_SESSION) || work->seen.has(OP_BIND_CONN_TO_SESSION)) {
      server.loop.post([this, self = shared_from_this()] { server.callbacks.pump(); });  // behind the Reply
    }
    for (auto trick = server.tricks.begin(); trick != server.tricks.end(); ++trick) {
      if (trick->first != Trick::drop_after || !work->seen.has(trick->second)) continue;
      server.tricks.erase(trick);
      return drop();
    }
  }

  void finish(const std::shared_ptr<Work>& work) {
    if (gone) return;
    if (!work->executed) execute(work);
    if (gone) return;
    if (!work->answer) return refuse(work, Trick::garbage_args);
    if (server.delay.count() == 0) return reply(work);
    server.loop.at(server.loop.now() + server.delay, [self = weak_from_this(), work] {
      if (const auto peer = self.lock(); peer && !peer->gone) peer->reply(work);
    });
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
    add_words(work->payload, {header.rdma_xid, 1, 0, 0, 0, 0});
    const xdr::Message& results = work->answer->message;
    std::size_t from = 0, chunk = 0;
    for (const xdr::Item& item : results.items) {
      add_bytes(work->payload, results.stream.bytes().subspan(from, item.stream_offset - from));
      from = item.stream_offset;
      if (chunk < offered.size() && !offered[chunk].empty()) {
        if (rpcrdma::chunk_length(offered[chunk]) < item.data.size()) {
          server.state.problem("a Write chunk too small for its result");
          return refuse_chunk(work);
        }
        write(item.data, offered[chunk]);
        lengths.push_back(item.data.size());
      } else {
        add_bytes(work->payload, item.data);
        work->payload.resize(work->payload.size() + xdr::padding(item.data.size()));
        lengths.push_back(0);
      }
      ++chunk;
    }
    add_bytes(work->payload, results.stream.bytes().subspan(from));
    header.rdma_writes = returned(offered, lengths);
    header.has_rdma_reply = work->header.has_rdma_reply;
    header.rdma_reply = work->header.rdma_reply;
    if (rpcrdma::encoded_size(header) + work->payload.size() > reply_threshold) {
      if (!header.has_rdma_reply || rpcrdma::chunk_length(header.rdma_reply) < work->payload.size()) {
        server.state.problem("no Reply chunk for a Reply of " + std::to_string(work->payload.size()) +
                             " bytes");
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

NfsServer::Impl::Impl() {
  loop.watch(wake, EPOLLIN, [this](std::uint32_t) {
    eventfd_t count = 0;
    [[maybe_unused]] const int taken = ::eventfd_read(wake, &count);
    std::vector<std::function<void()>> batch;
    {
      const std::lock_guard lock(mutex);
      batch.swap(queue);
    }
    for (const auto& fn : batch) fn();
  });
  state.call_waiter = [this](clientid4 client, const CB_NOTIFY_LOCK4args& args) {
    loop.post([this, client, args] {
      (void)callbacks.add(client,
                          [args](test::CallbackCall& call) { call.add<cb_op::CB_NOTIFY_LOCK>(args); });
    });
  };
  listen();
  thread = std::thread([this] { run(); });
}

NfsServer::Impl::~Impl() {
  on_thread([this] {
    stop = true;
    return 0;
  });
  thread.join();
  for (const auto& peer : std::vector(peers)) peer->drop();
  loop.turn(loop.now());
  loop.turn(loop.now());
  listener.reset();
  loop.unwatch(wake);
  ::close(wake);
}

void NfsServer::Impl::run() {
  while (!stop) loop.turn(async::TimePoint::max());
}

void NfsServer::Impl::listen() {
  auto made = fabric::iwarp::Listener::listen(
      loop, loopback(port),
      [this](std::unique_ptr<fabric::iwarp::Incoming> incoming) { accept(std::move(incoming)); });
  if (!made) {
    std::fprintf(stderr, "test server: %s\n", made.error().text().c_str());
    std::abort();
  }
  listener = std::move(*made);
  port = listener->port();
}

void NfsServer::Impl::accept(std::unique_ptr<fabric::iwarp::Incoming> incoming) {
  auto peer = std::make_shared<Peer>(*this, ++connections);
  std::optional<rpcrdma::PrivateData> mine;
  if (announce) mine = rpcrdma::PrivateData{false, kReceiveSize, kReceiveSize};
  const auto theirs = rpcrdma::find_private_data(incoming->private_data());
  peer->reply_threshold = rpcrdma::negotiate(mine, theirs).call_threshold;
  fabric::iwarp::AcceptOptions options;
  if (mine) {
    const auto bytes = rpcrdma::encode(*mine);
    options.private_data.assign(bytes.begin(), bytes.end());
  }
  auto connection = incoming->accept(options, *peer);
  if (!connection) return;
  peer->connection = std::move(*connection);
  peer->post_receives(credits + kSpareReceives);
  peers.push_back(std::move(peer));
}

void NfsServer::Impl::drop_connections() {
  for (const auto& peer : std::vector(peers)) peer->drop();
}

void NfsServer::Impl::release() {
  holding.reset();
  auto all = std::move(kept);
  kept.clear();
  for (const auto& [weak, work] : all) {
    if (const auto peer = weak.lock(); peer && !peer->gone) peer->finish(work);
  }
}

bool NfsServer::Impl::call(unsigned connection, std::uint32_t xid, const Octets& message) {
  const auto found = std::ranges::find_if(
      peers, [&](const auto& peer) { return peer->number == connection && !peer->gone; });
  if (found == peers.end()) return false;
  (*found)->call(xid, message);
  return true;
}

CallbackQueue::Added NfsServer::Impl::begin_recall(const std::string& path) {
  const Inode* inode = state.find(path);
  CB_RECALL4args args;
  args.stateid = state.stateid_of(~0ULL, 1);
  args.fh = handle_of(inode != nullptr ? inode->id : 0);
  clientid4 client = 0;
  for (const auto& [number, one] : state.delegations) {
    if (inode == nullptr || one.inode != inode->id) continue;
    args.stateid = state.stateid_of(number, 1);
    client = one.client;
  }
  return callbacks.add(client, [args](test::CallbackCall& call) { call.add<cb_op::CB_RECALL>(args); });
}

std::string NfsServer::Impl::locks(const std::string& path) {
  const Inode* inode = state.find(path);
  std::vector<LockPiece> all;
  for (const auto& [number, one] : state.locks) {
    if (inode == nullptr || one.client == 0 || one.inode != inode->id) continue;
    all.insert(all.end(), one.pieces.begin(), one.pieces.end());
  }
  std::ranges::sort(all, {}, [](const LockPiece& one) { return std::pair(one.begin, one.end); });
  std::string out;
  for (const LockPiece& piece : all) {
    out += (out.empty() ? "" : " ") + std::to_string(piece.begin) + "-" +
           (piece.end == ~0ULL ? "" : std::to_string(piece.end)) + (piece.write ? "w" : "r");
  }
  return out;
}

/// The waiting is the caller's thread's.
std::optional<nfsstat4> NfsServer::Impl::answered(const std::function<CallbackQueue::Added()>& begin,
                                                  std::chrono::milliseconds most) {
  auto added = on_thread(begin);
  const bool in_time = added.status.wait_for(most) == std::future_status::ready;
  on_thread([&] { callbacks.drop(added.ticket); });
  if (!in_time) return std::nullopt;
  return added.status.get();
}

// ---- the public face: everything on the server's thread ----

NfsServer::NfsServer() : impl_(std::make_unique<Impl>()) {}
NfsServer::~NfsServer() = default;

std::uint16_t NfsServer::port() const {
  return impl_->port;
}

Target NfsServer::target(const std::string& options) const {
  Target target{"127.0.0.1", "/", {}};
  target.options.port = port();
  target.options.timeout = std::chrono::seconds(5);
  if (const auto done = target.options.set_all(options); !done) {
    std::fprintf(stderr, "test options: %s\n", done.error().text().c_str());
    std::abort();
  }
  return target;
}

// Every knob and every question runs on the server's thread.
#define ON_SERVER(...) return impl_->on_thread([&] { __VA_ARGS__; })

void NfsServer::add_file(const std::string& path, const std::string& data) {
  ON_SERVER(Inode& inode = impl_->state.make(path, NF4REG); inode.data = inode.stable = data; ++inode.change);
}
void NfsServer::add_directory(const std::string& path) {
  ON_SERVER((void)impl_->state.make(path, NF4DIR));
}
void NfsServer::add_symlink(const std::string& path, const std::string& text) {
  ON_SERVER(impl_->state.make(path, NF4LNK).data = text);
}
void NfsServer::add_extent(const std::string& path, std::uint64_t begin, std::uint64_t end) {
  ON_SERVER(impl_->state.make(path, NF4REG).extents[begin] = end);
}
std::optional<std::string> NfsServer::content(const std::string& path) const {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            return inode != nullptr ? std::optional(inode->data) : std::nullopt);
}
std::optional<std::string> NfsServer::stable_content(const std::string& path) const {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            return inode != nullptr ? std::optional(inode->stable) : std::nullopt);
}

void NfsServer::set_slots(std::uint32_t slots) {
  ON_SERVER(impl_->state.slots = slots);
}
void NfsServer::set_limits(std::uint32_t max_request, std::uint32_t max_response,
                           std::uint32_t max_operations) {
  ON_SERVER(impl_->state.max_request = max_request; impl_->state.max_response = max_response;
            impl_->state.max_operations = max_operations);
}
void NfsServer::set_newest_minor(std::uint32_t minor) {
  ON_SERVER(impl_->state.newest_minor = minor);
}
void NfsServer::set_lease(std::uint32_t seconds) {
  ON_SERVER(impl_->state.lease = seconds);
}
void NfsServer::set_credits(std::uint32_t credits) {
  ON_SERVER(impl_->credits = credits);
}
void NfsServer::set_announce(bool announce) {
  ON_SERVER(impl_->announce = announce);
}

void NfsServer::set_delegations(bool on) {
  ON_SERVER(impl_->state.delegate_reads = on);
}
void NfsServer::set_backchannel(bool on) {
  ON_SERVER(impl_->state.backchannel = on);
}
std::optional<nfsstat4> NfsServer::recall(const std::string& path, std::chrono::milliseconds most) {
  return impl_->answered([&] { return impl_->begin_recall(path); }, most);
}
std::future<nfsstat4> NfsServer::start_recall(const std::string& path) {
  ON_SERVER(return impl_->begin_recall(path).status);
}
std::optional<nfsstat4> NfsServer::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  const CB_RECALL_ANY4args args{objects_to_keep, types};
  const auto build = [&](test::CallbackCall& call) { call.add<cb_op::CB_RECALL_ANY>(args); };
  return impl_->answered([&] { return impl_->callbacks.add(0, build); }, kCallbackTime);
}
std::optional<nfsstat4> NfsServer::recall_slot(std::uint32_t target_highest_slot) {
  const auto build = [&](test::CallbackCall& call) {
    call.add<cb_op::CB_RECALL_SLOT>({target_highest_slot});
  };
  set_target_highest_slot(target_highest_slot);
  return impl_->answered([&] { return impl_->callbacks.add(0, build); }, kCallbackTime);
}
std::optional<nfsstat4> NfsServer::null_callback() {
  return impl_->answered([&] { return impl_->callbacks.add_null(); }, kCallbackTime);
}
void NfsServer::lose_backchannels() {
  ON_SERVER(for (auto& [id, session] : impl_->state.sessions) session.backchannels.clear());
}
void NfsServer::revoke(const std::string& path) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            for (auto& [number, one] : impl_->state.delegations) {
              if (inode != nullptr && one.inode == inode->id) one.revoked = true;
            });
}

void NfsServer::lock(const std::string& path, std::uint64_t begin, std::uint64_t end, bool write) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            if (inode != nullptr) impl_->state.lock_locally(inode->id, {begin, end, write}));
}
void NfsServer::unlock(const std::string& path) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            if (inode != nullptr) impl_->state.unlock_locally(inode->id));
}
void NfsServer::set_notify_locks(bool on) {
  ON_SERVER(impl_->state.notify_locks = on);
}
std::string NfsServer::locks(const std::string& path) const {
  ON_SERVER(return impl_->locks(path));
}
std::size_t NfsServer::lock_states() const {
  ON_SERVER(return static_cast<std::size_t>(
      std::ranges::count_if(impl_->state.locks, [](const auto& entry) { return entry.second.client != 0; })));
}
void NfsServer::set_synchronous_copies(bool on) {
  ON_SERVER(impl_->state.synchronous_copies = on);
}
void NfsServer::set_unstable_copies(bool on) {
  ON_SERVER(impl_->state.unstable_copies = on);
}
void NfsServer::set_gap(bool on) {
  ON_SERVER(impl_->state.gap = on);
}
void NfsServer::set_circular_listings(bool on) {
  ON_SERVER(impl_->state.circular_listings = on);
}
void NfsServer::set_careless_close(bool on) {
  ON_SERVER(impl_->state.careless_close = on);
}
void NfsServer::set_xattrs_at_once(std::uint32_t most) {
  ON_SERVER(impl_->state.xattrs_at_once = most);
}

void NfsServer::answer(nfs_opnum4 op, nfsstat4 status, unsigned times, unsigned skip) {
  ON_SERVER(impl_->state.rules.push_back({op, status, times, skip}));
}
void NfsServer::drop_before(nfs_opnum4 op) {
  ON_SERVER(impl_->tricks.emplace_back(Trick::drop_before, op));
}
void NfsServer::drop_after(nfs_opnum4 op) {
  ON_SERVER(impl_->tricks.emplace_back(Trick::drop_after, op));
}
void NfsServer::err_chunk(nfs_opnum4 op) {
  ON_SERVER(impl_->tricks.emplace_back(Trick::err_chunk, op));
}
void NfsServer::garbage_args(nfs_opnum4 op) {
  ON_SERVER(impl_->tricks.emplace_back(Trick::garbage_args, op));
}
void NfsServer::hold(nfs_opnum4 op, bool execute) {
  ON_SERVER(impl_->holding = op; impl_->hold_executes = execute);
}
void NfsServer::release() {
  ON_SERVER(impl_->release());
}
std::size_t NfsServer::held() const {
  ON_SERVER(return impl_->kept.size());
}
void NfsServer::set_reply_delay(std::chrono::milliseconds delay) {
  ON_SERVER(impl_->delay = delay);
}
void NfsServer::set_short_reads(std::uint32_t most) {
  ON_SERVER(impl_->state.short_reads = most);
}
void NfsServer::set_short_writes(std::uint32_t most) {
  ON_SERVER(impl_->state.short_writes = most);
}
void NfsServer::set_stable_writes(bool stable) {
  ON_SERVER(impl_->state.stable_writes = stable);
}
void NfsServer::set_target_highest_slot(std::uint32_t slot) {
  ON_SERVER(impl_->state.target_highest = slot);
}
void NfsServer::set_sequence_flags(std::uint32_t flags, unsigned times) {
  ON_SERVER(impl_->state.flags = flags; impl_->state.flags_times = times);
}
void NfsServer::set_no_sequence_hint(bool on) {
  ON_SERVER(impl_->state.no_sequence_hint = on);
}
void NfsServer::restart(std::chrono::milliseconds grace) {
  ON_SERVER(impl_->drop_connections(); impl_->state.restart(grace));
}
void NfsServer::forget_sessions() {
  ON_SERVER(impl_->state.sessions.clear());
}
void NfsServer::forget_stateids() {
  ON_SERVER(impl_->state.opens.clear(); impl_->state.delegations.clear();
            std::erase_if(impl_->state.locks, [](const auto& entry) { return entry.second.client != 0; }));
}
void NfsServer::drop_connections() {
  ON_SERVER(impl_->drop_connections());
}
void NfsServer::drop_connection(unsigned number) {
  ON_SERVER(for (const auto& peer : std::vector(impl_->peers)) {
    if (peer->number == number) peer->drop();
  });
}
void NfsServer::stop_listening() {
  ON_SERVER(impl_->listener.reset());
}
void NfsServer::go_away() {
  ON_SERVER(impl_->listener.reset(); impl_->drop_connections());
}
void NfsServer::come_back() {
  ON_SERVER(impl_->listen());
}

std::vector<SeenCall> NfsServer::calls() const {
  ON_SERVER(return impl_->seen);
}
void NfsServer::clear_calls() {
  ON_SERVER(impl_->seen.clear(); impl_->state.seen_ops.clear(); impl_->state.good_ops.clear();
            impl_->state.seen_opens.clear());
}
unsigned NfsServer::count(nfs_opnum4 op) const {
  ON_SERVER(return impl_->state.seen_ops[op]);
}
unsigned NfsServer::succeeded(nfs_opnum4 op) const {
  ON_SERVER(return impl_->state.good_ops[op]);
}
std::optional<EXCHANGE_ID4args> NfsServer::last_exchange_id() const {
  ON_SERVER(return impl_->state.last_exchange_id);
}
std::optional<CREATE_SESSION4args> NfsServer::last_create_session() const {
  ON_SERVER(return impl_->state.last_create_session);
}
std::vector<OPEN4args> NfsServer::opens() const {
  ON_SERVER(return impl_->state.seen_opens);
}
std::string NfsServer::credential() const {
  ON_SERVER(
      return std::string(reinterpret_cast<const char*>(impl_->credential.data()), impl_->credential.size()));
}
std::size_t NfsServer::open_connections() const {
  ON_SERVER(return impl_->peers.size());
}
unsigned NfsServer::connections() const {
  ON_SERVER(return impl_->connections);
}
std::size_t NfsServer::open_states() const {
  ON_SERVER(return impl_->state.opens.size());
}
std::size_t NfsServer::delegations() const {
  ON_SERVER(return impl_->state.delegations.size());
}
std::size_t NfsServer::backchannels() const {
  ON_SERVER(std::set<unsigned> all; for (const auto& [id, session] : impl_->state.sessions)
                                        all.insert(session.backchannels.begin(), session.backchannels.end());
            return all.size());
}
std::size_t NfsServer::sessions() const {
  ON_SERVER(return impl_->state.sessions.size());
}
std::size_t NfsServer::clients() const {
  ON_SERVER(return impl_->state.clients.size());
}
std::string NfsServer::problems() const {
  ON_SERVER(return impl_->state.problems);
}

}  // namespace nfsrdma::testing
