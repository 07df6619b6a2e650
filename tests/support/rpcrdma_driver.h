// Drives a Requester on virtual time, without a network: what its tests share.
//
// Driver takes the actions and answers those that a fabric would answer at once (on_sent, on_revoked); a test
// that wants to answer by itself switches that off. Whatever was given out is kept for the test to look at,
// and checked on the way: Receives are there before the Send that needs them, nothing completes while its
// memory is exposed, and no handle is left abandoned whose call holds no credit. The server's part is a
// test's own: it reads a Call with CallView and answers with ReplyMaker.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "rpcrdma/requester.h"
#include "support/fake_memory.h"
#include "xdr/decoder.h"

namespace nfsrdma::rpcrdma::testing {

using namespace std::chrono_literals;

inline Octets octets(std::initializer_list<int> values) {
  Octets out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

/// Bytes that differ from place to place.
inline Octets pattern(std::size_t size, unsigned seed = 1) {
  Octets out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>((i * 7 + seed * 31 + 3) & 0xff);
  return out;
}

/// vector::insert() at the end makes g++ 12 warn of what it does not do.
inline void append(Octets& to, ConstBytes bytes) {
  const std::size_t at = to.size();
  to.resize(at + bytes.size());
  if (!bytes.empty()) std::memcpy(&to[at], bytes.data(), bytes.size());
}

/// A Send, as the server sees it.
struct CallView {
  CallId cookie = 0;
  Octets bytes;
  rdma_msg header;
  std::size_t header_size = 0;
  [[nodiscard]] std::uint32_t xid() const { return header.rdma_xid; }
  [[nodiscard]] ConstBytes payload() const { return ConstBytes(bytes).subspan(header_size); }
};

/// What was answered to a Call of the server's.
struct AnswerView {
  BackwardId cookie = 0;
  Octets bytes;
  rdma_msg header;
  HeaderFault fault = HeaderFault::none;
  std::size_t header_size = 0;
  ConstBytes borrowed;  ///< the bytes as they were given out
  [[nodiscard]] ConstBytes payload() const { return ConstBytes(bytes).subspan(header_size); }
};

/// A Call of the server's: RDMA_MSG without chunks, until told otherwise.
struct BackwardMaker {
  rdma_msg header;
  Octets payload;

  explicit BackwardMaker(std::uint32_t xid, std::uint32_t credits = 4, std::size_t arguments = 24) {
    header.rdma_xid = xid;
    header.rdma_credit = credits;
    xdr::Buffer buffer;
    // xid, CALL, version 2 of RPC, program, version, procedure, AUTH_NONE twice
    for (const std::uint32_t word : {xid, 0U, 2U, 0x40000000U, 1U, 1U, 0U, 0U, 0U, 0U}) {
      xdr::store_u32(buffer.extend(4), word);
    }
    payload.assign(buffer.bytes().begin(), buffer.bytes().end());
    append(payload, pattern(arguments, xid % 100));
  }
  [[nodiscard]] Octets bytes() const {
    xdr::Buffer buffer;
    encode(header, buffer);
    Octets out(buffer.bytes().begin(), buffer.bytes().end());
    append(out, payload);
    return out;
  }
};

/// An accepted RPC Reply to a backward Call, its xid yet to be filled in, `size` bytes in all.
inline xdr::Message backward_reply(std::size_t size = 40) {
  xdr::Message message;
  std::byte* at = message.stream.extend(size);
  const Octets filling = pattern(size, 3);
  std::memcpy(at, filling.data(), size);
  xdr::store_u32(at, 0xffffffff);
  for (std::size_t i = 1; i < 6; ++i) xdr::store_u32(at + 4 * i, i == 1 ? 1 : 0);
  return message;
}

/// What the server sends back: the header echoes the Call's chunks, unused, until told otherwise.
struct ReplyMaker {
  static constexpr std::size_t kRpcHeader = 24;  ///< of an accepted RPC Reply
  rdma_msg header;
  Octets payload;

  explicit ReplyMaker(const CallView& call, std::uint32_t credits = 32) {
    header.rdma_xid = call.xid();
    header.rdma_credit = credits;
    header.rdma_writes = emptied(call.header.rdma_writes);
    header.has_rdma_reply = call.header.has_rdma_reply;
    for (RemoteSegment one : call.header.rdma_reply) {
      one.length = 0;
      header.rdma_reply.push_back(one);
    }
    payload = rpc_reply(call.xid());
  }
  /// An accepted RPC Reply with `results` as its results.
  static Octets rpc_reply(std::uint32_t xid, ConstBytes results = {}) {
    xdr::Buffer buffer;
    for (const std::uint32_t word : {xid, 1U, 0U, 0U, 0U, 0U}) xdr::store_u32(buffer.extend(4), word);
    Octets out(buffer.bytes().begin(), buffer.bytes().end());
    append(out, results);
    return out;
  }
  static WriteList emptied(const WriteList& list) {
    WriteList out;
    for (std::size_t i = 0; i < list.size(); ++i) {
      out.add_chunk();
      for (RemoteSegment one : list[i]) {
        one.length = 0;
        out.add_segment(one);
      }
    }
    return out;
  }
  /// Sets the lengths of Write chunk `index` as if `total` bytes had been written there.
  ReplyMaker& fill(const CallView& call, std::size_t index, std::uint64_t total) {
    WriteList changed;
    for (std::size_t i = 0; i < header.rdma_writes.size(); ++i) {
      changed.add_chunk();
      for (std::size_t k = 0; k < header.rdma_writes[i].size(); ++k) {
        RemoteSegment one = header.rdma_writes[i][k];
        if (i == index) one.length = portion(call.header.rdma_writes[i][k].length, total);
        changed.add_segment(one);
      }
    }
    header.rdma_writes = changed;
    return *this;
  }
  /// Makes it a Long Reply of `total` bytes.
  ReplyMaker& long_reply(const CallView& call, std::uint64_t total) {
    header.proc = rdma_proc::RDMA_NOMSG;
    payload.clear();
    for (std::size_t k = 0; k < header.rdma_reply.size(); ++k) {
      header.rdma_reply[k].length = portion(call.header.rdma_reply[k].length, total);
    }
    return *this;
  }
  [[nodiscard]] Octets bytes() const {
    xdr::Buffer buffer;
    encode(header, buffer);
    Octets out(buffer.bytes().begin(), buffer.bytes().end());
    append(out, payload);
    return out;
  }

 private:
  static std::uint32_t portion(std::uint32_t room, std::uint64_t& total) {
    const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, total));
    total -= here;
    return here;
  }
};

/// An RPC Call whose stream is `size` bytes: an xid that is yet to be filled in, CALL, and some pattern.
inline Call plain_call(std::size_t size = 64) {
  Call call;
  std::byte* at = call.message.stream.extend(size);
  const Octets filling = pattern(size, 9);
  std::memcpy(at, filling.data(), size);
  std::memset(at, 0, std::min<std::size_t>(size, 8));
  call.reply_max_inline = call.reply_max_reduced = 100;
  return call;
}

/// A call as READ makes it: one result of at most destination.size() bytes.
inline Call read_call(Bytes destination) {
  Call call = plain_call(128);
  call.results.push_back({destination, false});
  call.reply_max_reduced = 128;
  call.reply_max_inline = 128 + xdr::padded(destination.size());
  return call;
}

/// A call as WRITE makes it: `before` bytes, the data's count and the data, `after` bytes.
inline Call write_call(std::size_t before, ConstBytes data, std::size_t after) {
  Call call = plain_call(before);
  xdr::Encoder encoder(call.message);
  encoder.eligible(data);
  encoder.fixed(pattern(after, 5));
  return call;
}

/// Protects arguments and results as well, as Kerberos' integrity and privacy do, and changes nothing.
struct Cover final : Seal {
  Result<const xdr::Message*> seal(const xdr::Message& message) override { return &message; }
  [[nodiscard]] bool covers_data() const override { return true; }
};

class Driver {
 public:
  static constexpr std::uint32_t kFirstXid = 0x10203040;

  explicit Driver(const Config& with = {}, std::uint32_t first_xid = kFirstXid)
      : config(with), requester(with, memory, first_xid, "server"), first_xid_(first_xid) {}

  Config config;
  FakeMemory memory;
  Requester requester;
  TimePoint now = TimePoint(1000h);

  // what was given out and not looked at yet
  std::vector<CallView> sent;
  std::vector<Complete> completed;
  std::vector<Notice> notices;
  std::vector<Revoke> revokes;
  std::vector<Forget> forgets;
  std::vector<Error> closes;
  std::vector<Connect> connects;
  std::vector<Deliver> delivered;
  std::vector<AnswerView> answers;

  // how the fabric behaves
  bool answer_sends = true;
  bool answer_answers = true;
  bool answer_revokes = true;
  bool revoke_works = true;
  bool answer_closes = true;

  std::uint32_t receives = 0;          ///< posted and free
  std::set<std::uint32_t> unanswered;  ///< xids sent on this connection, by the server's count
  std::map<CallId, std::vector<RemoteSegment>> exposed;  ///< by the headers sent
  std::map<std::uint32_t, CallId> abandoned;             ///< handles that the server may still use

  /// From now on the fabric does at once what it can.
  void at_once() {
    memory.at_once = [this](ConstBytes message) { take_send(id_of(message), message); };
  }
  /// Takes actions until there are none.
  void run() {
    while (std::optional<Action> action = requester.poll()) {
      std::visit([this](auto& one) { take(one); }, *action);
    }
    if (config.backward_credits != 0 && requester.connected()) {
      REQUIRE_MESSAGE(receives >= unanswered.size() + config.backward_credits,
                      "no Receive for a Call that the server may make");
    }
    std::set<CallId> holders;
    for (const auto& [handle, id] : abandoned) holders.insert(id);
    REQUIRE_MESSAGE(holders.size() <= requester.in_flight(), "abandoned for good");
  }
  void answer(BackwardId id, const xdr::Message& reply = backward_reply()) {
    requester.answer(id, reply);
    run();
  }
  void hold(bool on) {
    requester.hold(on, now);
    run();
  }
  CallId submit(Call call) {
    const CallId id = requester.submit(std::move(call), now);
    run();
    return id;
  }
  void cancel(CallId id) {
    requester.cancel(id, now);
    run();
  }
  /// Lets time pass, with on_time() when the requester wants it.
  void pass(Duration by) {
    const TimePoint until = now + by;
    for (int turns = 0;; ++turns) {
      REQUIRE_MESSAGE(turns < 100000, "the requester wants to be woken again and again");
      const std::optional<TimePoint> next = requester.next_deadline();
      if (!next || *next > until) break;
      now = std::max(now, *next);
      requester.on_time(now);
      run();
    }
    now = until;
    requester.on_time(now);
    run();
  }
  /// Answers a Connect. `peer`: what the server announces, nothing by default.
  void connect(const std::optional<PrivateData>& peer = std::nullopt) {
    Octets data;
    if (peer) {
      const auto encoded = encode(*peer);
      data.assign(encoded.begin(), encoded.end());
    }
    connect_with(data);
  }
  void connect_with(ConstBytes data) {
    requester.on_connected(data, now);
    run();
  }
  void connect_fails(bool permanent = false, const char* why = "connection refused") {
    requester.on_connect_failed(Error(ErrorKind::connection, ECONNREFUSED, "connect", "server", why),
                                permanent, now);
    run();
  }
  void disconnect(const char* why = "reset by peer") {
    disconnect(Error(ErrorKind::connection, ECONNRESET, "receive", "server", why));
  }
  void disconnect(const Error& why) {
    lose_connection();
    requester.on_disconnected(why, now);
    run();
  }
  void receive(ConstBytes bytes, std::optional<std::uint32_t> invalidated = std::nullopt) {
    REQUIRE_MESSAGE(receives > 0, "no Receive was posted for this message");
    --receives;
    fabric::ReceiveBuffer buffer(std::max<std::size_t>(config.receive_size, bytes.size()));
    std::memcpy(buffer.storage().data(), bytes.data(), bytes.size());
    buffer.set_length(bytes.size());
    if (invalidated) memory.live.erase(*invalidated);
    requester.on_received(std::move(buffer), invalidated, now);
    run();
  }
  void reply(const ReplyMaker& maker, std::optional<std::uint32_t> invalidated = std::nullopt) {
    unanswered.erase(maker.header.rdma_xid);
    receive(maker.bytes(), invalidated);
  }
  /// A connection with `credits` granted by the answer to one call.
  void establish(std::uint32_t credits = 32, const std::optional<PrivateData>& peer = std::nullopt) {
    submit(plain_call());
    connect(peer);
    reply(ReplyMaker(take_sent(), credits));
    REQUIRE(completed.size() == 1);
    completed.clear();
    connects.clear();
  }
  /// The next of each that was not looked at.
  CallView take_sent() { return take_first(sent); }
  Complete take_completed() { return take_first(completed); }
  Deliver take_delivered() { return take_first(delivered); }
  AnswerView take_answer() { return take_first(answers); }
  template <class T>
  static T take_first(std::vector<T>& from) {
    REQUIRE_FALSE(from.empty());
    T first = std::move(from.front());
    from.erase(from.begin());
    return first;
  }
  [[nodiscard]] std::size_t count(Notice::Kind kind) const {
    std::size_t n = 0;
    for (const Notice& one : notices) n += one.kind == kind ? 1 : 0;
    return n;
  }

 private:
  void take(Connect& action) { connects.push_back(action); }
  void take(PostReceives& action) { receives += action.count; }
  [[nodiscard]] CallId id_of(ConstBytes message) const {
    return xdr::load_u32(message.data()) - first_xid_ + 1;
  }
  void take(Send& action) {
    take_send(action.cookie, action.bytes);
    if (answer_sends) requester.on_sent(action.cookie, now);
  }
  void take_send(CallId cookie, ConstBytes bytes) {
    CallView view{cookie, Octets(bytes.begin(), bytes.end()), {}, 0};
    const Decoded decoded = decode(view.bytes, view.header);
    REQUIRE(decoded.fault == HeaderFault::none);
    view.header_size = decoded.size;
    REQUIRE_MESSAGE(view.bytes.size() <= requester.facts().call_threshold, "over the call threshold");
    REQUIRE_MESSAGE(view.header.proc != rdma_proc::RDMA_ERROR, "a requester never sends that");
    unanswered.insert(view.xid());
    REQUIRE_MESSAGE(receives >= unanswered.size(), "a Call without a Receive for its Reply");
    exposed[cookie] = segments_of(view.header);
    for (const RemoteSegment& one : exposed[cookie]) REQUIRE(memory.live.contains(one.handle));
    sent.push_back(std::move(view));
  }
  void take(SendAnswer& action) {
    REQUIRE(config.backward_credits != 0);
    REQUIRE_MESSAGE(action.bytes.size() <= requester.facts().call_threshold, "over the call threshold");
    AnswerView view{.cookie = action.cookie,
                    .bytes = Octets(action.bytes.begin(), action.bytes.end()),
                    .header = {},
                    .borrowed = action.bytes};
    const Decoded decoded = decode(view.bytes, view.header);
    view.fault = decoded.fault;
    view.header_size = decoded.size;
    REQUIRE(view.header.rdma_credit == config.backward_credits);
    answers.push_back(std::move(view));
    if (answer_answers) requester.on_answer_sent(action.cookie);
  }
  void take(Deliver& action) {
    REQUIRE(config.backward_credits != 0);
    delivered.push_back(std::move(action));
  }
  void take(Revoke& action) {
    for (const RemoteSegment& one : action.segments) {
      if (action.abandoned) abandoned.emplace(one.handle, action.cookie);
    }
    revokes.push_back(action);
    if (!answer_revokes) return;
    answer(action);
  }
  void take(Forget& action) {
    for (const RemoteSegment& one : action.segments) {
      REQUIRE_MESSAGE(abandoned.erase(one.handle) == 1, "forgets what was not abandoned");
    }
    forgets.push_back(action);
  }
  void take(Close& action) {
    closes.push_back(action.why);
    if (!answer_closes) return;
    lose_connection();
    requester.on_disconnected(action.why, now);
  }
  void take(Complete& action) {
    for (const RemoteSegment& one : exposed[action.id]) {
      REQUIRE_MESSAGE(!memory.live.contains(one.handle), "completed while its memory is exposed");
    }
    exposed.erase(action.id);
    completed.push_back(std::move(action));
  }
  void take(Notice& action) { notices.push_back(std::move(action)); }

 public:
  void answer(const Revoke& action) {
    if (revoke_works) {
      for (const RemoteSegment& one : action.segments) memory.live.erase(one.handle);
    }
    requester.on_revoked(action.cookie, revoke_works, now);
  }
  void lose_connection() {
    memory.live.clear();
    abandoned.clear();
    receives = 0;
    unanswered.clear();
  }
  static std::vector<RemoteSegment> segments_of(const rdma_msg& header) {
    std::vector<RemoteSegment> all;
    for (const xdr_read_chunk& one : header.rdma_reads) all.push_back(one.target);
    for (const RemoteSegment& one : header.rdma_writes.segments()) all.push_back(one);
    for (const RemoteSegment& one : header.rdma_reply) all.push_back(one);
    return all;
  }

 private:
  const std::uint32_t first_xid_;
};

/// The results in a Reply that was taken, behind its RPC header.
inline xdr::Decoder decoder_of(const Complete& done) {
  REQUIRE(done.reply);
  return xdr::Decoder(done.reply->message.subspan(ReplyMaker::kRpcHeader), done.reply->placements);
}

inline PrivateData sizes(std::uint32_t send, std::uint32_t receive, bool remote_invalidation = false) {
  return {remote_invalidation, send, receive};
}

}  // namespace nfsrdma::rpcrdma::testing
