// Thousands of calls against a server that does everything wrong, on virtual time, from a seed.
//
// The server drops, delays, reorders and repeats its answers, sends garbage and answers to nobody, returns
// chunks that were never offered, grants zero or little, invalidates handles, breaks connections and refuses
// them. The device may fail to take memory back, or never say whether it did. It calls, too, well and badly,
// with xids of its own and with those of the client's Calls, sometimes more often than it may. Then it
// behaves, and everything that is still waiting must end. What must hold all the while:
//   - each call completes exactly once, and one with a deadline by then;
//   - never more Calls out than min(asked, granted), one before the first grant;
//   - a Receive for every Call that is out;
//   - nothing of a call's memory can be reached once it has completed;
//   - a Receive for each backward credit beside those;
//   - each backward Call that is answered is answered once, on its connection, as it deserves;
//   - what a completed READ says was placed is what the server placed for that call.
// The driver checks the third, fourth and fifth at each action. A failure names its seed.
#include <algorithm>
#include <deque>
#include <functional>
#include <random>

#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

enum class Fault {
  none,
  drop,
  repeat,
  stranger,
  garbage,
  wrong_chunks,
  error,
  disconnect,
  zero_grant,
  kinds
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed), driver_(config(seed)) {
    driver_.answer_revokes = driver_.answer_closes = driver_.answer_answers = false;
    driver_.memory.segment_size = 700 + seed % 5000;
    if (seed % 5 < 2) driver_.at_once();
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) {
      after(milliseconds(3000), [this] { submit(); });
      after(milliseconds(60000), [this] { call_back(); });
    }
    play(60s);
    behaves_ = true;
    play(400s);
    CHECK(driver_.requester.pending() == 0);
    CHECK(waiting_.empty());
    CHECK(completed_ == calls);
    CHECK(driver_.memory.live.empty());
    call_back_once_more();
  }
  [[nodiscard]] std::uint64_t stale_answers() const { return stale_answers_; }
  [[nodiscard]] const Facts& facts() const { return driver_.requester.facts(); }

 private:
  struct Waiting {
    Octets destination;
    Octets data;
    TimePoint deadline;
  };

  /// What a backward Call must be answered with, if it is.
  enum class Due { reply, err_chunk, err_vers, nothing };

  static Config config(std::uint64_t seed) {
    Config config;
    config.credits_wanted = 4 + static_cast<std::uint32_t>(seed % 29);
    config.reply_timeout = 20s;
    config.revoke_timeout = 2s;
    config.remote_invalidation = seed % 3 == 0;
    config.backward_credits = static_cast<std::uint32_t>(seed % 4) * 2;
    return config;
  }

  std::uint64_t roll(std::uint64_t below) { return random_() % below; }
  Duration milliseconds(std::uint64_t below) { return std::chrono::milliseconds(roll(below)); }

  void after(Duration delay, std::function<void()> what) {
    events_.emplace(driver_.now + delay, std::move(what));
  }
  /// What happens on this connection, if it is still this one by then.
  void on_connection(Duration delay, std::function<void()> what) {
    after(delay, [this, epoch = epoch_, what = std::move(what)] {
      if (epoch == epoch_) what();
    });
  }

  void play(Duration time) {
    const TimePoint end = driver_.now + time;
    while (driver_.now < end) {
      TimePoint next = std::min(end, driver_.now + 1s);
      if (!events_.empty()) next = std::min(next, std::max(driver_.now, events_.begin()->first));
      next = std::min(next, std::max(driver_.now, driver_.requester.next_deadline().value_or(next)));
      driver_.pass(next - driver_.now);
      look();
      if (events_.empty() || events_.begin()->first > driver_.now) continue;
      auto event = events_.extract(events_.begin());
      event.mapped()();
      look();
    }
  }

  /// Answers what the requester did.
  void look() {
    if (driver_.requester.connected()) REQUIRE(driver_.receives >= driver_.unanswered.size());
    for (const Connect& one : std::exchange(driver_.connects, {})) connecting(one);
    for (CallView& call : std::exchange(driver_.sent, {})) serve(std::move(call));
    for (const Revoke& revoke : std::exchange(driver_.revokes, {})) revoking(revoke);
    for (const Error& why : std::exchange(driver_.closes, {})) {
      static_cast<void>(why);
      on_connection(milliseconds(20), [this] { break_connection(); });
    }
    for (const Complete& done : std::exchange(driver_.completed, {})) completed(done);
    for (const Deliver& call : std::exchange(driver_.delivered, {})) delivered(call);
    for (const AnswerView& answer : std::exchange(driver_.answers, {})) answered(answer);
    driver_.notices.clear();
    if (driver_.completed.empty() && driver_.sent.empty() && driver_.answers.empty()) return;
    look();
  }

  void submit() {
    const Octets data = pattern(1 + roll(9000), static_cast<unsigned>(roll(100)));
    Waiting waiting;
    Call call;
    switch (roll(5)) {
      case 0:
        call = plain_call(64 + 4 * roll(50));
        break;
      case 1:
        call = plain_call(64 + 4 * roll(2000));
        break;
      case 2:
        writes_.push_back(data);  // stays for good: simpler than knowing when it may go
        call = write_call(100 + 4 * roll(500), writes_.back(), 8);
        break;
      case 3:
        call = plain_call();
        call.reply_max_inline = call.reply_max_reduced = roll(6000);
        break;
      default:
        waiting.destination.resize(1 + roll(9000));
        waiting.data = waiting.destination;
        call = read_call(waiting.destination);
        if (roll(4) == 0) call.reply_max_reduced = 3000;
    }
    call.health_check = roll(10) == 0;
    call.deadline = roll(2) == 0 ? TimePoint::max() : driver_.now + milliseconds(20000);
    waiting.deadline = call.deadline;
    const CallId id = driver_.requester.submit(std::move(call), driver_.now);
    REQUIRE(waiting_.emplace(id, std::move(waiting)).second);
    driver_.run();
    if (roll(8) == 0) after(milliseconds(500), [this, id] { driver_.cancel(id); });
  }

  void completed(const Complete& done) {
    const auto found = waiting_.find(done.id);
    REQUIRE_MESSAGE(found != waiting_.end(), "completed twice");
    // Memory that is being taken back may hold a completion up a little.
    CHECK(driver_.now <= later(found->second.deadline));
    REQUIRE(done.reply.has_value() == (done.failure == Failure::none));
    REQUIRE(done.error.has_value() == (done.failure != Failure::none));
    if (done.reply && !done.reply->placements.empty() && done.reply->placements[0].placed != 0) {
      const std::size_t placed = done.reply->placements[0].placed;
      const Waiting& waiting = found->second;
      CHECK(std::equal(waiting.destination.begin(),
                       waiting.destination.begin() + static_cast<std::ptrdiff_t>(placed),
                       written_[done.id].begin()));
    }
    ++completed_;
    written_.erase(done.id);
    waiting_.erase(found);
  }
  [[nodiscard]] TimePoint later(TimePoint deadline) const {
    return deadline == TimePoint::max() ? deadline : deadline + driver_.config.revoke_timeout + 100ms;
  }

  void connecting(const Connect&) {
    after(milliseconds(50), [this] {
      if (!behaves_ && roll(4) == 0) {
        driver_.connect_fails();
        return;
      }
      ++epoch_;
      known_grant_ = 0;
      due_.clear();
      const auto size = [this] { return static_cast<std::uint32_t>(1024 * (1 + roll(8))); };
      driver_.connect(roll(4) == 0 ? std::nullopt : std::optional(sizes(size(), size(), roll(2) == 0)));
    });
  }

  void break_connection() {
    ++epoch_;
    known_grant_ = 0;
    due_.clear();
    driver_.disconnect();
  }

  void revoking(const Revoke& revoke) {
    if (!behaves_ && roll(200) == 0) return;  // it never completes
    const bool works = behaves_ || roll(200) != 0;
    on_connection(milliseconds(5), [this, revoke, works] {
      driver_.revoke_works = works;
      driver_.answer(revoke);
      driver_.revoke_works = true;
      driver_.run();
    });
  }

  void serve(CallView call) {
    const std::uint32_t limit = known_grant_ == 0 ? 1 : std::min(known_grant_, driver_.config.credits_wanted);
    REQUIRE_MESSAGE(driver_.unanswered.size() <= limit, "more Calls out than granted");
    const auto fault = behaves_ || roll(5) != 0
                           ? Fault::none
                           : static_cast<Fault>(roll(static_cast<std::uint64_t>(Fault::kinds)));
    const Duration delay = milliseconds(roll(20) == 0 ? 4000 : 30);
    on_connection(delay, [this, call = std::move(call), fault] { answer(call, fault); });
  }

  void answer(const CallView& call, Fault fault) {
    ReplyMaker reply(call, 1 + static_cast<std::uint32_t>(roll(40)));
    place(call, reply);
    switch (fault) {
      case Fault::drop:
        return;
      case Fault::disconnect:
        break_connection();
        return;
      case Fault::garbage:
        garbage(reply);
        return;
      case Fault::stranger:
        reply.header.rdma_xid ^= 0x40000000;
        receive(reply.bytes());
        return;
      case Fault::zero_grant:
        reply.header.rdma_credit = 0;
        break;
      case Fault::wrong_chunks:
        reply.header.rdma_writes.add_chunk();
        break;
      case Fault::error:
        reply.header.proc = rdma_proc::RDMA_ERROR;
        reply.payload.clear();
        break;
      case Fault::none:
      case Fault::repeat:
      case Fault::kinds:
        break;
    }
    deliver(call, reply, fault != Fault::wrong_chunks);
    if (fault == Fault::repeat) receive(reply.bytes());
  }

  /// `sound`: of a Reply that is not, the requester takes no grant.
  void deliver(const CallView& call, const ReplyMaker& reply, bool sound) {
    std::optional<std::uint32_t> invalidate;
    if (driver_.requester.facts().remote_invalidation && !call.header.rdma_writes.empty() &&
        !call.header.rdma_writes[0].empty() &&
        driver_.memory.live.contains(call.header.rdma_writes[0][0].handle)) {
      invalidate = call.header.rdma_writes[0][0].handle;
    }
    if (sound) known_grant_ = std::max(reply.header.rdma_credit, 1U);
    driver_.unanswered.erase(call.xid());
    receive(reply.bytes(), invalidate);
  }

  /// The RDMA Writes in front of a Reply. None if the call's memory has been taken back.
  void place(const CallView& call, ReplyMaker& reply) {
    if (call.header.rdma_writes.empty() || call.header.rdma_writes[0].empty()) return;
    const std::size_t length = 1 + roll(chunk_length(call.header.rdma_writes[0]));
    const Octets data = pattern(length, static_cast<unsigned>(roll(1000)));
    std::size_t at = 0;
    for (const RemoteSegment& one : call.header.rdma_writes[0]) {
      const std::size_t here = std::min<std::size_t>(one.length, length - at);
      if (here != 0 && !driver_.memory.write(one, ConstBytes(data).subspan(at, here))) return;
      at += here;
    }
    written_[call.cookie] = data;
    reply.fill(call, 0, length);
  }

  void garbage(const ReplyMaker& reply) {
    Octets bytes = reply.bytes();
    switch (roll(3)) {
      case 0:
        bytes.resize(roll(kMinHeader));
        break;
      case 1:
        xdr::store_u32(&bytes[4], 2 + static_cast<std::uint32_t>(roll(100)));
        break;
      default:
        xdr::store_u32(&bytes[16], 2 + static_cast<std::uint32_t>(roll(100)));
    }
    receive(bytes);
  }

  // ---- the server calls ----

  void call_back() {
    if (!driver_.requester.connected()) return;
    const bool within = due_.size() < driver_.config.backward_credits;
    if (!within && roll(20) != 0) return;
    // One of ours that is out, or one of its own.
    std::uint32_t xid = 0x7000 + static_cast<std::uint32_t>(roll(1000));
    if (!driver_.unanswered.empty() && roll(2) == 0) xid = *driver_.unanswered.begin();
    if (due_.contains(xid)) return;  // RFC 8167 2.4: unique among those under way in its direction
    BackwardMaker call(xid, static_cast<std::uint32_t>(roll(3)), 4 * roll(100));
    Due due = Due::reply;
    Octets bytes = call.bytes();
    const std::uint64_t kind = behaves_ ? 9 : roll(10);
    if (kind == 0) {
      call.header.rdma_reads = {{64, {1, 100, 2}}};
      bytes = call.bytes();
      due = Due::err_chunk;
    } else if (kind == 1) {
      call.header.proc = rdma_proc::RDMA_NOMSG;
      call.header.rdma_reads = {{0, {1, 100, 2}}};
      call.header.has_rdma_reply = roll(2) == 0;
      if (call.header.has_rdma_reply) call.header.rdma_reply = {{3, 5000, 4}};
      call.payload.clear();
      bytes = call.bytes();
      due = Due::err_chunk;
    } else if (kind == 2) {
      xdr::store_u32(&bytes[4], 2);
      due = Due::err_vers;
    } else if (kind == 3) {
      xdr::store_u32(&bytes[12 + 4 * roll(4)], 9);
      due = Due::err_chunk;
    } else if (kind == 4) {
      bytes.resize(roll(kMinHeader + 8));
      due = Due::nothing;
    }
    if (due == Due::nothing) {
      receive(bytes);
      return;
    }
    if (!behaves_ && roll(100) == 0 && !driver_.memory.live.empty()) {
      receive(bytes, driver_.memory.live.begin()->first);
      REQUIRE_MESSAGE(!driver_.requester.connected(), "a backward Call invalidated a handle");
      return;
    }
    due_[xid] = due;
    receive(bytes);
    if (driver_.delivered.empty() && driver_.answers.empty()) {
      due_.erase(xid);
      REQUIRE_MESSAGE((!within || !driver_.requester.connected()), "a Call within its credits was dropped");
    }
  }

  void delivered(const Deliver& call) {
    REQUIRE(call.message.size() >= 40);
    const std::uint32_t xid = xdr::load_u32(call.message.data());
    const auto found = due_.find(xid);
    REQUIRE(found != due_.end());
    REQUIRE(found->second == Due::reply);
    const BackwardId id = call.id;
    if (!behaves_ && roll(20) == 0) {
      found->second = Due::err_chunk;
      driver_.requester.decline(id);
      return;
    }
    const bool too_large = !behaves_ && roll(10) == 0;
    if (too_large) found->second = Due::err_chunk;
    // After its connection may have gone.
    after(milliseconds(roll(10) == 0 ? 5000 : 20), [this, id, too_large, epoch = epoch_] {
      if (epoch != epoch_) ++stale_answers_;
      const std::size_t before = driver_.answers.size();
      driver_.answer(id, backward_reply(too_large ? 9000 : 24 + 4 * roll(200)));
      REQUIRE_MESSAGE((epoch == epoch_ || driver_.answers.size() == before), "answered another connection");
    });
  }

  void answered(const AnswerView& answer) {
    const auto found = due_.find(answer.header.rdma_xid);
    REQUIRE_MESSAGE(found != due_.end(), "an answer to nothing, or the second one");
    switch (found->second) {
      case Due::reply:
        REQUIRE(answer.header.proc == rdma_proc::RDMA_MSG);
        REQUIRE(xdr::load_u32(answer.payload().data()) == answer.header.rdma_xid);
        break;
      case Due::err_chunk:
        REQUIRE(answer.header.proc == rdma_proc::RDMA_ERROR);
        REQUIRE(answer.header.err == rpc_rdma_errcode::ERR_CHUNK);
        break;
      case Due::err_vers:
        REQUIRE(answer.fault == HeaderFault::bad_version);
        break;
      case Due::nothing:
        FAIL("an answer to what nobody could read");
    }
    due_.erase(found);
    REQUIRE(std::ranges::equal(answer.borrowed, answer.bytes));
    on_connection(milliseconds(20), [this, answer] {
      REQUIRE(std::ranges::equal(answer.borrowed, answer.bytes));
      driver_.requester.on_answer_sent(answer.cookie);
    });
  }

  /// Whatever has been, a server that behaves is answered.
  void call_back_once_more() {
    driver_.hold(true);
    play(20s);
    REQUIRE(driver_.requester.connected());
    CHECK(due_.empty());
    const std::uint64_t before = facts().backward_replies;
    for (std::uint32_t i = 0; i < driver_.config.backward_credits; ++i) {
      due_[i] = Due::reply;
      receive(BackwardMaker(i).bytes());
    }
    play(20s);
    CHECK(due_.empty());
    CHECK(facts().backward_replies == before + driver_.config.backward_credits);
  }

  void receive(const Octets& bytes, std::optional<std::uint32_t> invalidated = std::nullopt) {
    if (driver_.receives == 0) {  // what a fabric would do
      break_connection();
      return;
    }
    driver_.receive(bytes, invalidated);
  }

  std::mt19937_64 random_;
  Driver driver_;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::map<CallId, Waiting> waiting_;
  std::map<CallId, Octets> written_;
  std::deque<Octets> writes_;
  std::map<std::uint32_t, Due> due_;  // backward Calls of this connection, by xid
  std::uint64_t stale_answers_ = 0;
  std::uint32_t known_grant_ = 0;  // what the requester was last told
  unsigned epoch_ = 0;
  bool behaves_ = false;
  int completed_ = 0;
};

}  // namespace

TEST_CASE("rpcrdma simulation: 200 seeds of 300 calls against a server that does everything wrong") {
  Facts total;
  std::uint64_t stale_answers = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Simulation simulation(seed);
    simulation.run(300);
    const Facts& facts = simulation.facts();
    total.replies += facts.replies;
    total.retransmissions += facts.retransmissions;
    total.reconnects += facts.reconnects;
    total.discarded += facts.discarded;
    total.long_calls += facts.long_calls;
    total.reduced_calls += facts.reduced_calls;
    total.reply_chunks_offered += facts.reply_chunks_offered;
    total.backward_calls += facts.backward_calls;
    total.backward_replies += facts.backward_replies;
    total.backward_refused += facts.backward_refused;
    stale_answers += simulation.stale_answers();
  }
  // It was not idle.
  CHECK(total.replies > 20000);
  for (const std::uint64_t count :
       {total.retransmissions, total.reconnects, total.discarded, total.long_calls, total.reduced_calls,
        total.reply_chunks_offered, total.backward_calls, total.backward_replies, total.backward_refused}) {
    CHECK(count > 1000);
  }
  CHECK(stale_answers > 10);
}

}  // namespace nfsrdma::rpcrdma::testing
