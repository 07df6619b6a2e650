// A CallLayer (nfs4/compound/call_layer.h) whose server is the test: for parts of a session by themselves, on
// virtual time.
//
//     ScriptedCallLayer calls;
//     Leftovers leftovers(calls, opens, outstanding);
//     const ScriptedCallLayer::Last last(calls);
//     leftovers.close_in_background(file, stateid);
//     CHECK(calls.next_arguments<op::CLOSE>().open_stateid == stateid);    // of the oldest call that waits
//     calls.answer(Script().ok<op::PUTFH>().ok<op::CLOSE>());
//
// A call waits until it is answered or failed, the oldest first. Phase, facts and recovery are what the test
// says they are; what the part asks for in their place is written down.
//
// Confined to one thread.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/until.h"
#include "nfs4/compound/call_layer.h"
#include "nfs4/state/open_state.h"
#include "sim/simulation.h"

namespace nfsrdma::testing {

/// A Reply, result by result. Its status is that of the last one.
class Script {
 public:
  template <class Op>
  Script& add(const typename Op::Res& res) {
    xdr::Message message;
    xdr::Encoder out(message);
    out.u32(Op::number);
    xdr::encode(out, res);
    const auto bytes = message.stream.bytes();
    results_.insert(results_.end(), bytes.begin(), bytes.end());
    status_ = nfs4::status_of(res);
    ++count_;
    return *this;
  }
  template <class Op>
  Script& ok() {
    return refuse<Op>(nfs4::NFS4_OK);
  }
  /// `body`: what the result holds beside NFS4_OK.
  template <class Op, class Body>
  Script& ok(Body body) {
    return add<Op>(Op::Res::template of<nfs4::NFS4_OK>(std::move(body)));
  }
  template <class Op>
  Script& refuse(nfs4::nfsstat4 status) {
    typename Op::Res res{};
    nfs4::set_status(res, status);
    return add<Op>(res);
  }
  /// The result cannot be decoded: it is not there.
  Script& and_nothing() {
    ++count_;
    return *this;
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    xdr::Message message;
    rpc::ReplyHeader accepted;
    accepted.refusal = rpc::Refusal::none;
    rpc::begin_reply(message, 1, accepted);
    xdr::Encoder out(message);
    out.u32(static_cast<std::uint32_t>(status_));
    out.u32(0);  // no tag
    out.u32(count_);
    out.fixed(results_);
    const auto all = message.stream.bytes();
    return {all.begin(), all.end()};
  }

 private:
  std::vector<std::byte> results_;
  nfs4::nfsstat4 status_ = nfs4::NFS4_OK;
  std::uint32_t count_ = 0;
};

class ScriptedCallLayer final : public nfs4::CallLayer {
 public:
  enum class Way : std::uint8_t { normal, in_recovery, alone };
  struct Asked {
    std::string what;
    Way way = Way::normal;
    security::Mark mark = 0;
    rpc::Channel* over = nullptr;
    async::TimePoint deadline;
    std::uint64_t epoch = 0;
    std::vector<std::byte> bytes;
    std::optional<Result<Script>> outcome;
  };

  ScriptedCallLayer() : ScriptedCallLayer(nullptr) {}
  /// On a host of somebody else's simulation.
  explicit ScriptedCallLayer(sim::Host& host) : ScriptedCallLayer(&host) {}

  /// To be destroyed before the parts, which the tasks use: no call and no task may be left by then.
  class Last {
   public:
    explicit Last(ScriptedCallLayer& calls) : calls_(calls) {}
    ~Last() {
      CHECK(calls_.waiting_.empty());
      CHECK(calls_.background_.empty());
      calls_.background_.drop();
    }
    Last(const Last&) = delete;
    Last& operator=(const Last&) = delete;

   private:
    ScriptedCallLayer& calls_;
  };

  // ---- the test's side ----
  Phase phase_now = Phase::open;
  nfs4::SessionFacts facts_now;
  const nfs4::SessionFacts* facts_of_part = nullptr;  ///< in place of them
  bool recovers = false;
  std::vector<std::string> notices;
  std::vector<std::pair<std::string, bool>> recoveries;  ///< start_recovery(why, works)

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// The names of all calls so far, with blanks between them.
  [[nodiscard]] std::string all() const { return all_; }
  void forget() { all_.clear(); }
  /// The oldest call that waits.
  [[nodiscard]] const Asked& next() const {
    REQUIRE(!waiting_.empty());
    return *waiting_.front();
  }
  /// The arguments of one operation of it.
  template <class Op>
  [[nodiscard]] typename Op::Args next_arguments() const {
    return arguments<Op>(next());
  }
  void answer(const Script& script) { settle_first(script); }
  void fail(ErrorKind kind = ErrorKind::timeout, int errno_value = ETIMEDOUT) {
    settle_first(Error(kind, errno_value, next().what, "server", "scripted"));
  }
  /// Recovery has ended.
  void recovered() {
    recovers = false;
    recovered_.notify_all();
    settle();
  }
  /// Runs what is due now.
  void settle() {
    loop().end_turn();
    while (world().step(world().now())) {
    }
  }
  void pass(sim::Duration time) { world().run_for(time); }
  template <class T>
  void start(async::Task<T>& task) {
    task.handle().resume();
    settle();
  }
  [[nodiscard]] sim::Host& host() { return host_; }

  // ---- Calls ----
  using CallLayer::begin;
  using CallLayer::call;
  [[nodiscard]] Phase phase() const override { return phase_now; }
  [[nodiscard]] const nfs4::SessionFacts& facts() const override {
    return facts_of_part != nullptr ? *facts_of_part : facts_now;
  }
  [[nodiscard]] async::Loop& loop() override { return host_.loop(); }
  [[nodiscard]] async::Tasks& background() override { return background_; }
  [[nodiscard]] async::TimePoint default_deadline() override {
    return loop().now() + std::chrono::seconds(60);
  }
  [[nodiscard]] const std::string& server() const override { return channel_.server(); }
  void notice(const std::string& text) override { notices.push_back(text); }
  [[nodiscard]] bool recovering() const override { return recovers; }
  void start_recovery(const char* why, bool works) override { recoveries.emplace_back(why, works); }
  async::Task<bool> ready(async::TimePoint deadline) override {
    return async::until(recovered_, deadline, [this] { return !recovers; });
  }
  nfs4::Compound begin(const char* what, const nfs4::Caller& /*caller*/, security::Mark mark) override {
    return {channel_.take_message(), {credential_, nullptr}, 2, what, true, mark};
  }
  nfs4::Compound begin_alone(const char* what) override {
    return {channel_.take_message(), {credential_, nullptr}, 2, what, false};
  }
  async::Task<Result<nfs4::CompoundReply>> call(nfs4::Compound&& compound,
                                                async::TimePoint deadline) override {
    return ask(Way::normal, nullptr, compound, deadline);
  }
  async::Task<Result<nfs4::CompoundReply>> call_in_recovery(nfs4::Compound&& compound,
                                                            async::TimePoint deadline) override {
    return ask(Way::in_recovery, nullptr, compound, deadline);
  }
  async::Task<Result<nfs4::CompoundReply>> call_over(rpc::Channel& channel, nfs4::Compound& compound,
                                                     async::TimePoint deadline) override {
    return ask(Way::alone, &channel, compound, deadline);
  }

 private:
  explicit ScriptedCallLayer(sim::Host* host)
      : own_(host == nullptr ? std::make_unique<sim::Simulation>(1) : nullptr),
        host_(host != nullptr ? *host : own_->add_host("client")),
        channel_(host_.loop(), named("server"), {}),
        background_(host_.loop()),
        answered_(host_.loop()),
        recovered_(host_.loop()) {}
  static rpc::ChannelOptions named(const char* name) {
    rpc::ChannelOptions options;
    options.server = name;
    return options;
  }
  [[nodiscard]] sim::Simulation& world() { return host_.simulation(); }

  async::Task<Result<nfs4::CompoundReply>> ask(Way way, rpc::Channel* over, nfs4::Compound& compound,
                                               async::TimePoint deadline) {
    if (!compound.is_wanted()) return not_wanted(compound.what());
    auto asked = std::make_shared<Asked>();
    asked->what = compound.what();
    asked->way = way;
    asked->mark = compound.mark();
    asked->over = over;
    asked->deadline = deadline;
    const auto bytes = compound.message().stream.bytes();
    asked->bytes.assign(bytes.begin(), bytes.end());
    return wait_for(std::move(asked));
  }
  static async::Task<Result<nfs4::CompoundReply>> not_wanted(const char* what) {
    co_return Error(ErrorKind::cancelled, EINTR, what, "server", "not wanted any more");
  }
  async::Task<Result<nfs4::CompoundReply>> wait_for(std::shared_ptr<Asked> asked) {
    asked->epoch = epoch();
    all_ += (all_.empty() ? "" : " ") + asked->what;
    waiting_.push_back(asked);
    while (!asked->outcome) (void)co_await answered_.wait_until(async::TimePoint::max());
    if (!*asked->outcome) co_return asked->outcome->error();
    const std::vector<std::byte> bytes = (*asked->outcome)->bytes();
    rpcrdma::Reply reply;
    reply.long_reply = std::make_unique<std::byte[]>(bytes.size());
    std::ranges::copy(bytes, reply.long_reply.get());
    reply.message = {reply.long_reply.get(), bytes.size()};
    nfs4::CompoundReply out(channel_, std::move(reply));
    CHECK(out.begin(nullptr, asked->what.c_str(), server()));
    out.set_epoch(asked->epoch);
    co_return out;
  }
  void settle_first(Result<Script> outcome) {
    REQUIRE(!waiting_.empty());
    waiting_.front()->outcome = std::move(outcome);
    waiting_.pop_front();
    answered_.notify_all();
    settle();
  }
  /// SEQUENCE and PUTFH may stand before it.
  template <class Op>
  static typename Op::Args arguments(const Asked& asked) {
    typename Op::Args args{};
    xdr::Decoder in(asked.bytes);
    (void)rpc::read_call(in);
    xdr::ConstBytes tag;
    std::uint32_t minor_version = 0, count = 0, number = 0;
    bool good = in.opaque(64, tag) && in.u32(minor_version) && in.u32(count);
    for (; good && in.u32(number) && number != Op::number; --count) {
      nfs4::SEQUENCE4args sequence;
      nfs4::PUTFH4args file;
      good = count > 1 && (number == nfs4::OP_SEQUENCE ? xdr::decode(in, sequence)
                                                       : number == nfs4::OP_PUTFH && xdr::decode(in, file));
    }
    if (!good || number != Op::number || !xdr::decode(in, args))
      FAIL("no " << Op::name << " in " << asked.what);
    return args;
  }

  const std::unique_ptr<sim::Simulation> own_;
  sim::Host& host_;
  rpc::Channel channel_;  // never connected: messages come from there
  const rpc::Credential credential_ = rpc::Credential::none();
  async::Tasks background_;
  async::Event answered_, recovered_;
  std::deque<std::shared_ptr<Asked>> waiting_;
  std::string all_;
};

inline nfs4::nfs_fh4 file_handle(unsigned number) {
  nfs4::nfs_fh4 out;
  out.length = 8;
  out.bytes[0] = static_cast<std::byte>(number);
  return out;
}

inline nfs4::stateid4 stateid_of(unsigned number, std::uint32_t seqid = 1) {
  nfs4::stateid4 out;
  out.seqid = seqid;
  out.other[0] = static_cast<std::byte>(number);
  return out;
}

/// An open file; its stateid has the same number.
inline std::shared_ptr<nfs4::Open> open_of(unsigned number, const nfs4::CallLayer& calls) {
  auto out = std::make_shared<nfs4::Open>();
  out->file = file_handle(number);
  out->stateid = stateid_of(number);
  out->access = nfs4::OPEN4_SHARE_ACCESS_READ;
  out->path = "file" + std::to_string(number);
  out->epoch = calls.epoch();
  return out;
}

inline nfs4::open_delegation4 read_delegation(unsigned number, bool recall = false) {
  nfs4::open_read_delegation4 read;
  read.stateid = stateid_of(number);
  read.recall = recall;
  return nfs4::open_delegation4::of<nfs4::OPEN_DELEGATE_READ>(read);
}

}  // namespace nfsrdma::testing
