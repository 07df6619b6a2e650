// The pure Requester on virtual time: the input is a script of what its user, the fabric, the server and the
// clock do. Calls of several shapes are made: inline, with a Read chunk, with Write chunks, with a Reply
// chunk, long.
//
// Input: how the fabric behaves, when exposing fails, credits, sizes; then steps, one opcode and its operands
// each (Harness::step). Messages come raw, or mended: with the xid and the handles of a call that is under
// way. The server calls, too, where the input gives it credits: well, or with a byte changed anywhere, with
// an xid of its own or with that of a call that is under way.
//
// Checked: each call completes once, and all do by the end; what completes has no memory exposed, and no byte
// beside its targets was touched; nothing that it borrowed is looked at later (it is freed); Receives are
// there before the Sends, and for backward Calls at all times; Sends and answers keep to the threshold and
// their bytes until on_sent(); what is forgotten was abandoned; each answer goes to a message of this
// connection; answers do not pile up; time never stands still.
#include "rpcrdma/requester.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "fuzz.h"
#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"
#include "support/fake_memory.h"
#include "xdr/xdr.h"

using namespace nfsrdma;
using namespace nfsrdma::rpcrdma;
using namespace std::chrono_literals;

namespace {

enum Fabric : unsigned {
  sends_at_once = 1,
  revokes_at_once = 2,
  closes_at_once = 4,
  small_segments = 8,
  expose_fails = 16,
  remote_invalidation = 32,
  silent = 64,
  connects_at_once = 128,
  does_at_once = 256,
};

bool overlap(ConstBytes a, ConstBytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

class Memory final : public testing::FakeMemory {
 public:
  [[nodiscard]] const Region* nth(std::size_t n) const {
    return live.empty() ? nullptr
                        : &std::next(live.begin(), static_cast<std::ptrdiff_t>(n % live.size()))->second;
  }
  std::optional<std::uint32_t> nth_handle(std::size_t n) const {
    if (live.empty()) return std::nullopt;
    return std::next(live.begin(), static_cast<std::ptrdiff_t>(n % live.size()))->first;
  }
};

class Harness {
 public:
  Harness(unsigned behaviour, const Config& config)
      : behaviour_(behaviour), config_(config), requester_(config, memory_, kFirstXid, "server") {
    if ((behaviour_ & does_at_once) == 0) return;
    memory_.at_once = [this](ConstBytes message) {
      note_sent(xdr::load_u32(message.data()) - kFirstXid + 1, message);
    };
  }

  Memory& memory() { return memory_; }

  void step(fuzz::Script& script) {
    switch (script.u8() % 20) {
      case 0:
      case 1:
        submit(script);
        break;
      case 2:
        if (const auto id = nth_call(script.u8())) requester_.cancel(*id, now_);
        break;
      case 3:
        connected(script.u8());
        break;
      case 4:
        connect_failed(script.u8() % 4 == 0);
        break;
      case 5:
        disconnected();
        break;
      case 6:
        raw_message(script);
        break;
      case 7:
        mended_message(script);
        break;
      case 8:
        good_reply(script);
        break;
      case 9:
        rdma_write(script);
        break;
      case 10:
        answer_sends();
        break;
      case 11:
        answer_revokes(script.u8() % 8 != 0);
        break;
      case 12:
        pass(std::chrono::milliseconds(1U << (script.u8() % 18)));
        break;
      case 13:
        requester_.connect(now_);
        break;
      case 14:
        answer_close();
        break;
      case 15:
        error_reply(script);
        break;
      case 16:
        backward_call(script);
        break;
      case 17:
        answer_backward(script);
        break;
      case 18:
        answers_sent(script.u8());
        break;
      case 19:
        requester_.hold(script.u8() % 2 != 0, now_);
        break;
    }
    drain();
  }

  void finish() {
    requester_.shut_down(now_);
    drain();
    for (const auto& [id, xid] : delivered_) requester_.answer(id, backward_reply(64));
    requester_.hold(true, now_);
    drain();
    for (int turn = 0; turn < 4 && requester_.pending() != 0; ++turn) {
      answer_sends();
      answer_revokes(true);
      answer_close();
      drain();
    }
    answer_close();
    drain();
    FUZZ_CHECK(requester_.pending() == 0 && calls_.empty());
    FUZZ_CHECK(link_ == Link::down && memory_.live.empty());
    // A late answer or the clock wakes nothing.
    pass(1h);
    FUZZ_CHECK(link_ == Link::down);
  }

 private:
  static constexpr std::uint32_t kFirstXid = 0x10203040;
  static constexpr std::size_t kGuard = 32;
  static constexpr std::byte kGuardByte{0xa5};
  enum class Link : std::uint8_t { down, connecting, up, closing };

  /// What a call borrows, on the heap by itself so that a use after its completion is seen.
  struct Owned {
    std::vector<fuzz::Octets> targets;  ///< with a guard on both sides
    std::vector<fuzz::Octets> items;
    std::vector<fuzz::Octets> items_before;
    // of its Send on this connection
    bool sent = false;
    bool answered = false;
    rdma_msg header;
  };
  struct PostedSend {
    CallId cookie;
    ConstBytes bytes;
    fuzz::Octets copy;
  };
  struct PostedAnswer {
    BackwardId cookie;
    ConstBytes bytes;
    fuzz::Octets copy;
  };
  static Bytes inside(fuzz::Octets& target) {
    return Bytes(target).subspan(kGuard, target.size() - 2 * kGuard);
  }

  // ---- the user ----

  void submit(fuzz::Script& script) {
    if (calls_.size() >= 40) return;
    const unsigned shape = script.u8();
    const std::size_t length = script.u8();
    auto owned = std::make_unique<Owned>();
    Call call;
    const std::size_t head = shape % 8 == 1 ? 40 + length * 40 : 40 + length % 64 * 4;
    std::memset(call.message.stream.extend(head), 0, head);
    call.reply_max_inline = call.reply_max_reduced = 200;
    const auto target = [&](std::size_t size, bool wanted_inline) {
      fuzz::Octets& bytes = owned->targets.emplace_back(size + 2 * kGuard, kGuardByte);
      call.results.push_back({inside(bytes), wanted_inline});
      call.reply_max_inline += xdr::padded(size);
      if (wanted_inline) call.reply_max_reduced += xdr::padded(size);
    };
    const auto item = [&](std::size_t size) {
      fuzz::Octets& bytes = owned->items.emplace_back(size, std::byte{'w'});
      xdr::Encoder out(call.message);
      out.eligible(bytes);
      out.u32(7);
    };
    owned->items.reserve(2);
    switch (shape % 8) {
      case 0:
      case 1:
        break;
      case 2:
        target(length * 16, false);
        break;
      case 3:
        item(length * 32);
        break;
      case 4:
        item(length * 16);
        target(length * 8, false);
        break;
      case 5:
        target(length * 4, true);
        target(length * 16, false);
        break;
      case 6:
        call.reply_max_inline = call.reply_max_reduced = 200 + length * 64;
        break;
      case 7:
        target(length * 16, true);
        break;
    }
    if ((shape & 8U) != 0) call.deadline = now_ + std::chrono::milliseconds(length * 100);
    call.health_check = (shape & 16U) != 0;
    owned->items_before = owned->items;
    const CallId id = requester_.submit(std::move(call), now_);
    FUZZ_CHECK(id != 0 && !calls_.contains(id) && !ever_.contains(id));
    ever_.insert(id);
    calls_.emplace(id, std::move(owned));
    // Sent from inside submit(), before its id was known here.
    for (const auto& [sent, bytes] : std::exchange(early_, {})) {
      FUZZ_CHECK(sent == id);
      note_sent(sent, bytes);
    }
  }
  std::optional<CallId> nth_call(std::size_t n) const {
    if (calls_.empty()) return std::nullopt;
    return std::next(calls_.begin(), static_cast<std::ptrdiff_t>(n % calls_.size()))->first;
  }

  // ---- the fabric ----

  void connected(unsigned announced) {
    if (link_ != Link::connecting) return;
    link_ = Link::up;
    fuzz::Octets data;
    if (announced != 0) {
      const auto octets = encode(
          PrivateData{announced % 2 != 0, 1024 * (1 + announced / 2 % 8), 1024 * (1 + announced / 16 % 8)});
      data.assign(octets.begin(), octets.end());
    }
    requester_.on_connected(data, now_);
  }
  void connect_failed(bool permanent) {
    if (link_ != Link::connecting) return;
    link_ = Link::down;
    requester_.on_connect_failed(Error(ErrorKind::connection, ECONNREFUSED, "connect", "server", "refused"),
                                 permanent, now_);
  }
  void disconnected() {
    if (link_ == Link::up || link_ == Link::closing) gone();
  }
  void answer_close() {
    if (link_ == Link::closing) gone();
  }
  void gone() {
    link_ = Link::down;
    memory_.live.clear();
    receives_ = 0;
    sends_.clear();
    answers_.clear();
    answered_ = messages_ = 0;
    came_.clear();
    abandoned_.clear();
    revokes_.clear();
    for (auto& [id, call] : calls_) call->sent = call->answered = false;
    requester_.on_disconnected(Error(ErrorKind::connection, ECONNRESET, "receive", "server", "reset"), now_);
  }
  void answer_sends() {
    while (!sends_.empty()) {
      const PostedSend send = std::move(sends_.front());
      sends_.pop_front();
      FUZZ_CHECK(std::ranges::equal(send.bytes, send.copy));
      requester_.on_sent(send.cookie, now_);
    }
  }
  void answer_revokes(bool good) {
    std::vector<Revoke> all;
    all.swap(revokes_);
    for (const Revoke& one : all) {
      if (link_ != Link::up) return;
      if (good) {
        for (const RemoteSegment& segment : one.segments) memory_.live.erase(segment.handle);
      }
      requester_.on_revoked(one.cookie, good, now_);
      drain();
    }
  }
  void deliver(ConstBytes message, std::size_t invalidate) {
    if (link_ != Link::up) return;
    if (receives_ == 0) return disconnected();  // a Send without a Receive breaks the connection
    --receives_;
    fabric::ReceiveBuffer buffer(config_.receive_size);
    const std::size_t length = std::min<std::size_t>(message.size(), config_.receive_size);
    if (length != 0) std::memcpy(buffer.storage().data(), message.data(), length);
    buffer.set_length(length);
    ++messages_;
    if (length >= 4) {
      came_.insert(xdr::load_u32(message.data()));
      for (auto& [id, call] : calls_) {
        if (call->sent && call->header.rdma_xid == xdr::load_u32(message.data())) call->answered = true;
      }
    }
    std::optional<std::uint32_t> handle;
    if (invalidate != 0) handle = memory_.nth_handle(invalidate);
    if (handle) memory_.live.erase(*handle);
    requester_.on_received(std::move(buffer), handle, now_);
  }

  // ---- the server ----

  const Owned* sent_call(std::size_t n) const {
    std::vector<const Owned*> sent;
    for (const auto& [id, call] : calls_) {
      if (call->sent) sent.push_back(call.get());
    }
    return sent.empty() ? nullptr : sent[n % sent.size()];
  }
  void send_reply(const rdma_msg& header, ConstBytes payload, std::size_t invalidate) {
    xdr::Buffer message;
    encode(header, message);
    if (!payload.empty()) std::memcpy(message.extend(payload.size()), payload.data(), payload.size());
    deliver(message.bytes(), invalidate);
  }
  void raw_message(fuzz::Script& script) {
    const std::size_t invalidate = script.u8();
    const std::size_t length = script.u16();
    deliver(script.take(length), invalidate);
  }
  void mended_message(fuzz::Script& script) {
    const Owned* call = sent_call(script.u8());
    const std::size_t invalidate = script.u8();
    const std::size_t length = script.u16();
    const ConstBytes message = script.take(length);
    rdma_msg header;
    const Decoded decoded = decode(message, header);
    if (call == nullptr || decoded.fault != HeaderFault::none) return deliver(message, invalidate);
    const rdma_msg& offered = call->header;
    header.rdma_xid = offered.rdma_xid;
    WriteList writes;
    for (std::size_t i = 0; i < header.rdma_writes.size(); ++i) {
      writes.add_chunk();
      for (std::size_t k = 0; k < header.rdma_writes[i].size(); ++k) {
        RemoteSegment one = header.rdma_writes[i][k];
        if (i < offered.rdma_writes.size() && k < offered.rdma_writes[i].size())
          mend(one, offered.rdma_writes[i][k]);
        writes.add_segment(one);
      }
    }
    header.rdma_writes = writes;
    for (std::size_t k = 0; k < std::min(header.rdma_reply.size(), offered.rdma_reply.size()); ++k) {
      mend(header.rdma_reply[k], offered.rdma_reply[k]);
    }
    fuzz::Octets payload(message.begin() + static_cast<std::ptrdiff_t>(decoded.size), message.end());
    if (payload.size() >= 4) xdr::store_u32(payload.data(), header.rdma_xid);
    send_reply(header, payload, invalidate);
  }
  static void mend(RemoteSegment& one, const RemoteSegment& offered) {
    one.handle = offered.handle;
    one.offset = offered.offset;
  }
  /// As a server answers: results in their chunks, in the stream, or all of it in the Reply chunk.
  void good_reply(fuzz::Script& script) {
    const Owned* call = sent_call(script.u8());
    std::uint64_t fill = script.u16();
    const std::uint8_t credits = script.u8();
    const std::size_t invalidate = script.u8();
    if (call == nullptr) return;
    rdma_msg header = call->header;
    header.proc = rdma_proc::RDMA_MSG;
    header.rdma_credit = credits;
    header.rdma_reads.clear();
    fuzz::Octets payload(24);
    xdr::store_u32(payload.data(), header.rdma_xid);
    xdr::store_u32(&payload[4], 1);
    WriteList writes;
    for (std::size_t i = 0; i < header.rdma_writes.size(); ++i) {
      writes.add_chunk();
      std::uint32_t total = 0;
      for (RemoteSegment one : header.rdma_writes[i]) {
        one.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(fill, one.length));
        fill -= one.length;
        total += one.length;
        writes.add_segment(one);
      }
      payload.resize(payload.size() + 4);
      xdr::store_u32(&payload[payload.size() - 4], total);
    }
    header.rdma_writes = writes;
    if (!header.has_rdma_reply) return send_reply(header, payload, invalidate);
    header.proc = rdma_proc::RDMA_NOMSG;
    payload.resize(std::max(payload.size(), static_cast<std::size_t>(fill % 4096)));
    ConstBytes rest(payload);
    for (RemoteSegment& one : header.rdma_reply) {
      const ConstBytes part = rest.first(std::min<std::size_t>(rest.size(), one.length));
      const auto region = memory_.live.find(one.handle);
      if (region != memory_.live.end() && !part.empty()) {
        std::memcpy(region->second.bytes.data(), part.data(), part.size());
      }
      one.length = static_cast<std::uint32_t>(part.size());
      rest = rest.subspan(part.size());
    }
    send_reply(header, {}, invalidate);
  }
  // ---- the server calls ----

  void backward_call(fuzz::Script& script) {
    const std::uint8_t kind = script.u8();
    const std::uint8_t place = script.u8();
    const std::uint8_t value = script.u8();
    const std::size_t invalidate = kind >= 0xf0 ? 1 + place : 0;
    rdma_msg header;
    header.rdma_xid = 0x20000000 + ++backward_xid_;
    if (const Owned* call = sent_call(place); call != nullptr && kind % 2 == 0) {
      header.rdma_xid = call->header.rdma_xid;
    }
    header.rdma_credit = value;
    if (kind % 16 / 2 == 1) header.rdma_reads = {{64, {1, 2, 3}}};
    if (kind % 16 / 2 == 2) header.has_rdma_reply = true;
    fuzz::Octets payload(40 + 4 * (value % 32U));
    xdr::store_u32(payload.data(), header.rdma_xid);
    xdr::store_u32(&payload[8], 2);
    if (kind % 16 / 2 == 3) {
      header.proc = rdma_proc::RDMA_NOMSG;
      header.rdma_reads = {{0, {1, 2, 3}}};
      payload.clear();
    }
    xdr::Buffer message;
    encode(header, message);
    if (!payload.empty()) std::memcpy(message.extend(payload.size()), payload.data(), payload.size());
    if (kind % 16 / 2 == 4) message.data()[place % message.size()] = static_cast<std::byte>(value);
    deliver(message.bytes(), invalidate);
  }
  static xdr::Message backward_reply(std::size_t size) {
    xdr::Message reply;
    std::memset(reply.stream.extend(size), 0, size);
    xdr::store_u32(reply.stream.data() + 4, 1);
    return reply;
  }
  void answer_backward(fuzz::Script& script) {
    const std::uint8_t which = script.u8();
    const std::uint8_t size = script.u8();
    if (delivered_.empty()) return;
    const auto one = std::next(delivered_.begin(), which % static_cast<int>(delivered_.size()));
    const BackwardId id = one->first;
    if (size % 8 != 7) delivered_.erase(one);  // else it may be answered once more
    if (size % 8 == 6) return requester_.decline(id);
    requester_.answer(id, backward_reply(size % 8 == 5 ? 20000 : 24 + 4 * std::size_t{size}));
  }
  void answers_sent(std::size_t most) {
    for (; most != 0 && !answers_.empty(); --most) {
      const PostedAnswer answer = std::move(answers_.front());
      answers_.pop_front();
      FUZZ_CHECK(std::ranges::equal(answer.bytes, answer.copy));
      requester_.on_answer_sent(answer.cookie);
    }
  }

  void error_reply(fuzz::Script& script) {
    const Owned* call = sent_call(script.u8());
    if (call == nullptr) return;
    rdma_msg header;
    header.rdma_xid = call->header.rdma_xid;
    header.rdma_credit = 5;
    header.proc = rdma_proc::RDMA_ERROR;
    header.err = script.u8() % 2 == 0 ? rpc_rdma_errcode::ERR_CHUNK : rpc_rdma_errcode::ERR_VERS;
    send_reply(header, {}, 0);
  }
  void rdma_write(fuzz::Script& script) {
    const Memory::Region* region = memory_.nth(script.u8());
    const std::uint8_t value = script.u8();
    if (region == nullptr || region->reach != fabric::Reach::remote_write) return;
    std::memset(region->bytes.data(), value, region->bytes.size());
  }

  // ---- the clock ----

  void pass(Duration by) {
    const TimePoint until = now_ + by;
    for (int turns = 0;; ++turns) {
      FUZZ_CHECK(turns < 20000);
      const auto next = requester_.next_deadline();
      if (!next || *next > until) break;
      now_ = std::max(now_, *next);
      requester_.on_time(now_);
      drain();
    }
    now_ = until;
    requester_.on_time(now_);
    drain();
  }

  // ---- what the requester wants ----

  void drain() {
    for (int turns = 0; auto action = requester_.poll(); ++turns) {
      FUZZ_CHECK(turns < 100000);
      std::visit([this](auto& one) { take(one); }, *action);
    }
    FUZZ_CHECK(requester_.pending() == calls_.size());
    FUZZ_CHECK(requester_.connected() == (link_ == Link::up));
    if (link_ == Link::up) FUZZ_CHECK(receives_ >= config_.backward_credits);
    // Without calls, and with nothing being taken back, nothing is exposed.
    if (calls_.empty() && revokes_.empty() && link_ == Link::up) FUZZ_CHECK(memory_.live.empty());
  }
  void take(Connect&) {
    FUZZ_CHECK(link_ == Link::down);
    link_ = Link::connecting;
    if ((behaviour_ & connects_at_once) != 0) connected(0);
  }
  void take(PostReceives& action) {
    FUZZ_CHECK(link_ == Link::up && action.count > 0);
    receives_ += action.count;
    FUZZ_CHECK(receives_ <= config_.credits_wanted + config_.backward_credits + 8);
  }
  void take(Send& action) {
    FUZZ_CHECK(calls_.contains(action.cookie));
    note_sent(action.cookie, action.bytes);
    sends_.push_back({action.cookie, action.bytes, {action.bytes.begin(), action.bytes.end()}});
    if ((behaviour_ & sends_at_once) != 0) answer_sends();
  }
  void note_sent(CallId id, ConstBytes bytes) {
    FUZZ_CHECK(link_ == Link::up);
    if (!calls_.contains(id)) return early_.push_back({id, {bytes.begin(), bytes.end()}});
    Owned& call = *calls_[id];
    FUZZ_CHECK(!call.sent);
    FUZZ_CHECK(bytes.size() <= requester_.facts().call_threshold);
    const Decoded decoded = decode(bytes, call.header);
    FUZZ_CHECK(decoded.fault == HeaderFault::none && call.header.proc <= rdma_proc::RDMA_NOMSG);
    FUZZ_CHECK(call.header.rdma_credit == config_.credits_wanted);
    for (const RemoteSegment& one : segments(call.header)) FUZZ_CHECK(memory_.live.contains(one.handle));
    call.sent = true;
    call.answered = false;
    const auto unanswered = static_cast<std::size_t>(std::ranges::count_if(
        calls_, [](const auto& one) { return one.second->sent && !one.second->answered; }));
    FUZZ_CHECK(receives_ >= unanswered + config_.backward_credits);
  }
  void take(SendAnswer& action) {
    FUZZ_CHECK(link_ == Link::up && config_.backward_credits != 0);
    FUZZ_CHECK(action.bytes.size() >= kMinHeader && action.bytes.size() <= requester_.facts().call_threshold);
    const auto word = [&](std::size_t index) { return xdr::load_u32(&action.bytes[4 * index]); };
    FUZZ_CHECK(came_.contains(word(0)) && word(2) == config_.backward_credits);
    const auto proc = static_cast<rdma_proc>(word(3));
    FUZZ_CHECK(proc == rdma_proc::RDMA_MSG || proc == rdma_proc::RDMA_ERROR);
    if (proc == rdma_proc::RDMA_MSG) FUZZ_CHECK(word(7) == word(0) && word(8) == 1);
    for (const PostedAnswer& one : answers_) FUZZ_CHECK(one.cookie != action.cookie);
    answers_.push_back({action.cookie, action.bytes, {action.bytes.begin(), action.bytes.end()}});
    FUZZ_CHECK(answers_.size() <= 2 * std::size_t{config_.backward_credits} + 4);
    FUZZ_CHECK(++answered_ <= messages_);
  }
  void take(Deliver& action) {
    FUZZ_CHECK(link_ == Link::up && config_.backward_credits != 0 && action.id != 0);
    FUZZ_CHECK(action.message.size() >= 8 && xdr::load_u32(&action.message[4]) == 0);
    const ConstBytes whole = action.buffer.message();
    FUZZ_CHECK(action.message.data() + action.message.size() == whole.data() + whole.size());
    FUZZ_CHECK(delivered_.emplace(action.id, xdr::load_u32(action.message.data())).second);
  }
  void take(Revoke& action) {
    FUZZ_CHECK(link_ == Link::up && !action.segments.empty() && calls_.contains(action.cookie));
    for (const RemoteSegment& segment : action.segments) {
      if (action.abandoned) FUZZ_CHECK(abandoned_.insert(segment.handle).second);
    }
    revokes_.push_back(std::move(action));
    if ((behaviour_ & revokes_at_once) == 0) return;
    const Revoke one = std::move(revokes_.back());
    revokes_.pop_back();
    for (const RemoteSegment& segment : one.segments) memory_.live.erase(segment.handle);
    requester_.on_revoked(one.cookie, true, now_);
  }
  void take(Forget& action) {
    FUZZ_CHECK(link_ == Link::up && !action.segments.empty());
    for (const RemoteSegment& segment : action.segments) FUZZ_CHECK(abandoned_.erase(segment.handle) == 1);
  }
  void take(Close&) {
    FUZZ_CHECK(link_ == Link::up || link_ == Link::connecting);
    link_ = Link::closing;
    if ((behaviour_ & closes_at_once) != 0) gone();
  }
  void take(Notice& action) { FUZZ_CHECK(!action.text.empty()); }
  void take(Complete& action) {
    FUZZ_CHECK(calls_.contains(action.id));
    FUZZ_CHECK((action.failure == Failure::none) == action.reply.has_value());
    FUZZ_CHECK((action.failure == Failure::none) != action.error.has_value());
    Owned& call = *calls_[action.id];
    for (const auto& [handle, region] : memory_.live) {
      for (fuzz::Octets& target : call.targets) FUZZ_CHECK(!overlap(region.bytes, target));
      for (const fuzz::Octets& item : call.items) FUZZ_CHECK(!overlap(region.bytes, item));
    }
    if (call.sent) {
      for (const RemoteSegment& one : segments(call.header)) FUZZ_CHECK(!memory_.live.contains(one.handle));
    }
    if (action.reply) check_reply(*action.reply, call);
    FUZZ_CHECK(call.items == call.items_before);
    for (fuzz::Octets& target : call.targets) {
      const auto is_guard = [](std::byte b) { return b == kGuardByte; };
      FUZZ_CHECK(std::ranges::all_of(Bytes(target).first(kGuard), is_guard));
      FUZZ_CHECK(std::ranges::all_of(Bytes(target).last(kGuard), is_guard));
    }
    calls_.erase(action.id);
  }
  static void check_reply(const Reply& reply, Owned& call) {
    FUZZ_CHECK(reply.placements.size() == call.targets.size());
    for (std::size_t i = 0; i < reply.placements.size(); ++i) {
      const Bytes target = inside(call.targets[i]);
      FUZZ_CHECK(reply.placements[i].destination.data() == target.data());
      FUZZ_CHECK(reply.placements[i].destination.size() == target.size());
      FUZZ_CHECK(reply.placements[i].placed <= target.size());
    }
    FUZZ_CHECK(reply.message.size() >= 8 && xdr::load_u32(reply.message.data()) == call.header.rdma_xid);
    xdr::Decoder in(reply.message, reply.placements);
    if (rpc::read_reply(in).refusal != rpc::Refusal::none) return;
    for (fuzz::Octets& target : call.targets) {
      xdr::DdpOpaque<> result;
      if (!xdr::decode(in, result)) return;
      FUZZ_CHECK(result.data.empty() || target.size() == 2 * kGuard ||
                 result.data.data() == inside(target).data());
    }
    in.finish();
  }
  static std::vector<RemoteSegment> segments(const rdma_msg& header) {
    std::vector<RemoteSegment> all(header.rdma_reply);
    for (const xdr_read_chunk& one : header.rdma_reads) all.push_back(one.target);
    for (const RemoteSegment& one : header.rdma_writes.segments()) all.push_back(one);
    return all;
  }

  const unsigned behaviour_;
  const Config config_;
  Memory memory_;
  Requester requester_;
  TimePoint now_ = TimePoint(1000h);
  Link link_ = Link::down;
  std::uint32_t receives_ = 0;
  std::map<CallId, std::unique_ptr<Owned>> calls_;
  std::set<CallId> ever_;
  std::vector<std::pair<CallId, fuzz::Octets>> early_;  // Sends of the call that is being submitted
  std::deque<PostedSend> sends_;
  // the other direction
  std::uint32_t backward_xid_ = 0;
  std::map<BackwardId, std::uint32_t> delivered_;  // and the xid; perhaps of an earlier connection
  std::deque<PostedAnswer> answers_;
  std::set<std::uint32_t> came_;             // xids of all messages that came on this connection
  std::size_t answered_ = 0, messages_ = 0;  // on this connection
  std::vector<Revoke> revokes_;
  std::set<std::uint32_t> abandoned_;  // handles that the server may still use
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 4096);
  unsigned behaviour = script.u8();
  const std::uint8_t fail_after = script.u8();
  const std::uint8_t credits = script.u8();
  const std::uint8_t sizes = script.u8();
  if (sizes / 64 % 2 != 0) behaviour |= does_at_once;
  Config config;
  config.credits_wanted = 1U + credits % 16;
  config.reserved_credits = credits / 16 % 4;
  config.backward_credits = credits / 64 * 2U;
  config.send_size = 1024 * (1U + sizes % 8);
  config.receive_size = 1024 * (1U + sizes / 8 % 8);
  config.announce = (behaviour & silent) == 0;
  config.remote_invalidation = (behaviour & remote_invalidation) != 0;

  Harness harness(behaviour, config);
  if ((behaviour & small_segments) != 0) harness.memory().segment_size = 200;
  if ((behaviour & expose_fails) != 0) harness.memory().fail_after = fail_after;
  while (!script.empty()) harness.step(script);
  harness.finish();
  return 0;
}
