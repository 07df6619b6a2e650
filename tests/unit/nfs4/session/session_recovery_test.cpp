// How a session is had, comes back and is given up, with a scripted server (RFC 8881 2.4, 2.10, 18.35 to 18.37,
// 18.50, 18.51). What it comes to in a whole client: session_test.cpp, exactly_once_test.cpp.
#include "nfs4/session/session_recovery.h"

#include <string_view>
#include <utility>

#include "support/scripted_call_layer.h"
#include "wire/nfs4/attributes.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;
using Way = ScriptedCallLayer::Way;

struct NobodyCalled final : CallbackHandler {
  nfsstat4 recall(const Recall& /*recall*/) override { return NFS4_OK; }
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& /*file*/) override { return std::nullopt; }
  void recall_any(std::uint32_t /*keep*/, const bitmap4& /*types*/) override {}
  void recall_slot(slotid4 /*target*/) override {}
  void notify_lock(const nfs_fh4& /*file*/, const lock_owner4& /*owner*/) override {}
};

/// Nobody else can say what the client says.
struct TamperProof final : security::Flavor {
  security::Voucher vouch(const security::Caller& /*caller*/) override { return {credential, nullptr}; }
  [[nodiscard]] std::string_view name_of(security::Mark /*mark*/) const override { return "proof"; }
  [[nodiscard]] bool is_tamper_proof() const override { return true; }
  const rpc::Credential credential = rpc::Credential::none();
};

SessionOptions recovery_options(std::shared_ptr<security::Flavor> flavor) {
  SessionOptions options;
  options.flavor = std::move(flavor);
  options.slots = 8;
  options.callback_slots = 2;
  options.owner_id = "me";
  options.verifier[0] = std::byte{5};
  return options;
}

struct Beginning {
  ScriptedCallLayer calls;
  rpc::Channel channel{calls.loop(), {}, {}};  // never connected: what is sent goes to the script
  SessionOptions options;
  engine::Modifications modifications;
  engine::ServerCounters counters;
  SlotQueue slots{calls.loop(), counters};
  Lanes lanes{calls, channel, 2, [](rpc::Channel&, rpcrdma::BackwardId, fabric::ConstBytes) {}};
  NobodyCalled nobody;
  CallbackService backchannel{nobody, {}};
  Crossings crossings;
  Handshake handshake{{calls, lanes, slots, backchannel, options, crossings}};
  Lease lease{calls};
  nfs4::ClientState state{calls, lease, modifications, counters, false, [](bool) {}};
  SessionRecovery recovery{{calls, handshake, state, slots, lease, counters, 20s}};

  const ScriptedCallLayer::Last last{calls};
  explicit Beginning(std::shared_ptr<security::Flavor> flavor = nullptr)
      : options(recovery_options(std::move(flavor))) {
    calls.facts_of_part = &handshake.facts();
  }

  async::TimePoint deadline() { return calls.loop().now() + 60s; }
  void exchanged(clientid4 client, sequenceid4 sequence = 1) {
    REQUIRE(calls.next().what == "EXCHANGE_ID");
    EXCHANGE_ID4resok ok;
    ok.eir_clientid = client;
    ok.eir_sequenceid = sequence;
    calls.answer(Script().ok<op::EXCHANGE_ID>(ok));
  }
  static CREATE_SESSION4resok session(unsigned number) {
    CREATE_SESSION4resok ok;
    ok.csr_sessionid[0] = static_cast<std::byte>(number);
    ok.csr_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
    ok.csr_fore_chan_attrs = {0, 1U << 20, 1U << 20, 4096, 16, 4, {}};
    ok.csr_back_chan_attrs = {0, 4096, 4096, 0, 8, 2, {}};
    return ok;
  }
  void created(unsigned number) {
    REQUIRE(calls.next().what == "CREATE_SESSION");
    calls.answer(Script().ok<op::CREATE_SESSION>(session(number)));
  }
  void completed() {
    REQUIRE(calls.next().what == "RECLAIM_COMPLETE");
    CHECK(calls.next().way == Way::in_recovery);
    calls.answer(Script().ok<op::RECLAIM_COMPLETE>());
  }
  static Script& add_limits(Script& script, std::uint32_t lease_seconds) {
    WireAttributes attributes;
    attributes.lease_time = lease_seconds;
    attributes.maxread = 65536;
    GETATTR4resok ok;
    ok.obj_attributes = encode_attributes(attributes, bitmap_of({FATTR4_LEASE_TIME, FATTR4_MAXREAD}));
    return script.ok<op::PUTROOTFH>().ok<op::GETATTR>(ok);
  }
  void limits(std::uint32_t lease_seconds = 30) {
    REQUIRE(calls.next().what == "GETATTR");
    Script script;
    calls.answer(add_limits(script, lease_seconds));
  }
  /// Answers the first call of a session.
  void introduced(std::uint32_t lease_seconds = 30) {
    REQUIRE(calls.next().what == "RECLAIM_COMPLETE");
    CHECK(calls.next().way == Way::in_recovery);
    Script script;
    script.ok<op::RECLAIM_COMPLETE>();
    calls.answer(add_limits(script, lease_seconds));
  }
  void begin() {
    calls.phase_now = CallLayer::Phase::beginning;
    auto done = handshake.begin(deadline());
    calls.start(done);
    exchanged(7);
    created(1);
    introduced();
    REQUIRE(done.done());
    CHECK(done.await_resume());
    calls.phase_now = CallLayer::Phase::open;
    calls.forget();
    lease.renewed(lease.now());
  }
  void destroyed(nfsstat4 session = NFS4_OK) { calls.answer(Script().refuse<op::DESTROY_SESSION>(session)); }
};

}  // namespace

TEST_CASE("handshake: client id, session, and one COMPOUND of RECLAIM_COMPLETE and the server's limits") {
  Beginning m;
  auto done = m.handshake.begin(m.deadline());
  m.calls.start(done);
  const auto client = m.calls.next_arguments<op::EXCHANGE_ID>();
  CHECK(client.eia_clientowner.co_verifier == m.options.verifier);
  CHECK(client.eia_clientowner.co_ownerid.value.size() == 2);
  m.exchanged(7, 42);
  const auto asked = m.calls.next_arguments<op::CREATE_SESSION>();
  CHECK(asked.csa_clientid == 7);
  CHECK(asked.csa_sequence == 42);
  CHECK(asked.csa_flags == CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  CHECK(asked.csa_fore_chan_attrs.ca_maxrequests == 8);
  CHECK(asked.csa_back_chan_attrs.ca_maxrequests == 2);
  m.created(1);
  CHECK_FALSE(m.handshake.keeps_client());
  m.introduced();
  CHECK(m.handshake.keeps_client());
  CHECK(m.calls.all() == "EXCHANGE_ID CREATE_SESSION RECLAIM_COMPLETE");
  REQUIRE(done.done());
  CHECK(done.await_resume());
  const SessionFacts& facts = m.handshake.facts();
  CHECK(facts.minor_version == 2);
  CHECK(facts.epoch == 1);
  CHECK(facts.slots == 4);  // the server's are fewer
  CHECK(m.slots.table().size() == 4);
  CHECK(facts.max_operations == 16);
  CHECK(facts.lease_seconds == 30);
  CHECK(facts.max_read == 65536);
  CHECK(facts.max_write == ~0ULL);
  CHECK(facts.backchannel);
}

TEST_CASE("handshake: an older server is asked for an older minor version, unless that is fixed") {
  for (const bool fixed : {false, true}) {
    Beginning m;
    m.options.minor_version_fixed = fixed;
    auto done = m.handshake.begin(m.deadline());
    m.calls.start(done);
    m.calls.answer(Script().refuse<op::EXCHANGE_ID>(NFS4ERR_MINOR_VERS_MISMATCH));
    if (!fixed) {
      CHECK(m.handshake.facts().minor_version == 1);
      m.calls.answer(Script().refuse<op::EXCHANGE_ID>(NFS4ERR_MINOR_VERS_MISMATCH));
    }
    REQUIRE(done.done());
    CHECK_FALSE(done.await_resume());
  }
}

TEST_CASE(
    "handshake: a server that forgets the client before the session has begun is asked again, in time") {
  Beginning m;
  auto done = m.handshake.begin(m.calls.loop().now() + 250ms);
  m.calls.start(done);
  m.exchanged(7);
  m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_STALE_CLIENTID));
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(101ms);
  m.exchanged(8);
  CHECK(m.handshake.facts().epoch == 2);
  m.created(1);
  m.calls.answer(Script().refuse<op::RECLAIM_COMPLETE>(NFS4ERR_BADSESSION));
  m.calls.answer(Script().refuse<op::RECLAIM_COMPLETE>(NFS4ERR_BADSESSION));
  REQUIRE(done.done());
  CHECK(done.await_resume().error().kind() == ErrorKind::timeout);
}

TEST_CASE("handshake: RECLAIM_COMPLETE may have been said before, and a lease time has to be told") {
  Beginning m;
  auto done = m.handshake.begin(m.deadline());
  m.calls.start(done);
  m.exchanged(7);
  m.created(1);
  m.calls.answer(Script().refuse<op::RECLAIM_COMPLETE>(NFS4ERR_COMPLETE_ALREADY));
  CHECK_FALSE(m.handshake.keeps_client());
  // The server has executed nothing behind it, so the rest is asked for separately.
  m.calls.answer(Script().refuse<op::RECLAIM_COMPLETE>(NFS4ERR_COMPLETE_ALREADY));
  CHECK(m.handshake.keeps_client());
  m.limits(0);
  REQUIRE(done.done());
  CHECK(done.await_resume().error().kind() == ErrorKind::protocol);
}

TEST_CASE("handshake: what the server refuses in the first call is asked again by itself") {
  Beginning m;
  auto done = m.handshake.begin(m.deadline());
  m.calls.start(done);
  m.exchanged(7);
  m.created(1);
  m.calls.answer(Script().ok<op::RECLAIM_COMPLETE>().refuse<op::PUTROOTFH>(NFS4ERR_DELAY));
  CHECK(m.handshake.keeps_client());
  m.limits();
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.calls.all() == "EXCHANGE_ID CREATE_SESSION RECLAIM_COMPLETE GETATTR");
}

TEST_CASE("handshake: CREATE_SESSION is made again with the same id where there was no answer, or DELAY") {
  Beginning m;
  m.begin();
  nfsstat4 status = NFS4_OK;
  auto done = m.handshake.create_session(m.deadline(), status);
  m.calls.start(done);
  const auto sequence = m.calls.next_arguments<op::CREATE_SESSION>().csa_sequence;
  m.calls.fail(ErrorKind::cancelled, ECANCELED);  // its connection has ended, and there are others
  CHECK(m.calls.next_arguments<op::CREATE_SESSION>().csa_sequence == sequence);
  m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_DELAY));
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(51ms);
  CHECK(m.calls.next_arguments<op::CREATE_SESSION>().csa_sequence == sequence);
  m.created(2);
  REQUIRE(done.done());
  CHECK(m.handshake.facts().session_id == m.session(2).csr_sessionid);
  auto failing = m.handshake.create_session(m.deadline(), status);
  m.calls.start(failing);
  CHECK(m.calls.next_arguments<op::CREATE_SESSION>().csa_sequence == sequence + 1);
  m.calls.fail();
  REQUIRE(failing.done());
  CHECK_FALSE(failing.await_resume());
  CHECK(status == NFS4_OK);
}

TEST_CASE("S23 handshake: each step is made again where a server in trouble refuses it, not without end") {
  for (const nfsstat4 status : {NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE, NFS4ERR_IO}) {
    Beginning m;
    auto done = m.handshake.begin(m.deadline());
    m.calls.start(done);
    m.calls.answer(Script().refuse<op::EXCHANGE_ID>(status));
    m.calls.pass(2s);
    m.exchanged(7);
    m.calls.answer(Script().refuse<op::CREATE_SESSION>(status));
    m.calls.pass(2s);
    m.created(1);
    m.calls.answer(Script().refuse<op::RECLAIM_COMPLETE>(status));
    m.calls.pass(2s);
    m.completed();
    m.calls.answer(Script().ok<op::PUTROOTFH>().refuse<op::GETATTR>(status));
    m.calls.pass(2s);
    m.limits();
    REQUIRE(done.done());
    CHECK(done.await_resume());
  }
  Beginning m;
  auto done = m.handshake.begin(m.deadline());
  m.calls.start(done);
  int tries = 0;
  for (; !done.done() && tries < 100; ++tries) {
    m.calls.answer(Script().refuse<op::EXCHANGE_ID>(NFS4ERR_SERVERFAULT));
    m.calls.pass(2s);
  }
  CHECK(tries == 1 + Retries::kMostTroubled);
  REQUIRE(done.done());
  CHECK(done.await_resume().error().status() == NFS4ERR_SERVERFAULT);
}

TEST_CASE("handshake: a session that is too small is none, and the one before stays") {
  const auto too_small = [](auto change) {
    Beginning m;
    m.begin();
    nfsstat4 status = NFS4_OK;
    auto done = m.handshake.create_session(m.deadline(), status);
    m.calls.start(done);
    CREATE_SESSION4resok ok = m.session(2);
    change(ok.csr_fore_chan_attrs);
    m.calls.answer(Script().ok<op::CREATE_SESSION>(ok));
    CHECK(m.calls.next_arguments<op::DESTROY_SESSION>().dsa_sessionid == m.session(2).csr_sessionid);
    m.destroyed();
    REQUIRE(done.done());
    CHECK(done.await_resume().error().kind() == ErrorKind::protocol);
    CHECK(m.handshake.facts().session_id == m.session(1).csr_sessionid);
  };
  too_small([](channel_attrs4& fore) { fore.ca_maxrequests = 0; });
  too_small([](channel_attrs4& fore) { fore.ca_maxoperations = 7; });
  too_small([](channel_attrs4& fore) { fore.ca_maxrequestsize = 4095; });
  too_small([](channel_attrs4& fore) { fore.ca_maxresponsesize = 4095; });
}

TEST_CASE("handshake: the end is DESTROY_SESSION and DESTROY_CLIENTID; what is gone already is as wanted") {
  for (const bool gone : {false, true}) {
    Beginning m;
    m.begin();
    auto done = m.handshake.end(m.deadline());
    m.calls.start(done);
    CHECK(m.calls.next_arguments<op::DESTROY_SESSION>().dsa_sessionid == m.session(1).csr_sessionid);
    m.destroyed(gone ? NFS4ERR_BADSESSION : NFS4_OK);
    CHECK(m.calls.next_arguments<op::DESTROY_CLIENTID>().dca_clientid == 7);
    m.calls.answer(Script().refuse<op::DESTROY_CLIENTID>(gone ? NFS4ERR_STALE_CLIENTID : NFS4_OK));
    REQUIRE(done.done());
    CHECK(done.await_resume());
  }
}

TEST_CASE(
    "handshake: a client id that has state of ours which nobody knows goes by another instance of the "
    "client") {
  Beginning m;
  m.begin();
  auto done = m.handshake.end(m.deadline());
  m.calls.start(done);
  m.destroyed();
  m.calls.answer(Script().refuse<op::DESTROY_CLIENTID>(NFS4ERR_CLIENTID_BUSY));
  CHECK(m.calls.next_arguments<op::EXCHANGE_ID>().eia_clientowner.co_verifier != m.options.verifier);
  m.exchanged(8);
  m.created(2);
  m.destroyed();
  CHECK(m.calls.next_arguments<op::DESTROY_CLIENTID>().dca_clientid == 8);
  m.calls.answer(Script().ok<op::DESTROY_CLIENTID>());
  REQUIRE(done.done());
  CHECK(done.await_resume());
}

TEST_CASE(
    "S8 handshake: a connection leads to the server where owner, minor id, scope and client id are the "
    "same") {
  Beginning m;
  EXCHANGE_ID4resok told;
  told.eir_clientid = 7;
  told.eir_sequenceid = 1;
  told.eir_server_owner.so_major_id.value.assign(1, std::byte{1});
  told.eir_server_owner.so_minor_id = 2;
  told.eir_server_scope.value.assign(1, std::byte{3});
  auto known = m.handshake.exchange_id(m.deadline());
  m.calls.start(known);
  m.calls.answer(Script().ok<op::EXCHANGE_ID>(told));
  REQUIRE(known.done());
  const auto leads = [&](const EXCHANGE_ID4resok& there) {
    auto asked = m.handshake.leads_to_server(m.channel, m.deadline());
    m.calls.start(asked);
    CHECK(m.calls.next().over == &m.channel);
    CHECK(m.calls.next_arguments<op::EXCHANGE_ID>().eia_clientowner.co_verifier == m.options.verifier);
    m.calls.answer(Script().ok<op::EXCHANGE_ID>(there));
    REQUIRE(asked.done());
    const auto answer = asked.await_resume();
    REQUIRE(answer);
    return *answer;
  };
  CHECK(leads(told));
  EXCHANGE_ID4resok other = told;
  other.eir_server_owner.so_major_id.value.assign(1, std::byte{9});
  CHECK_FALSE(leads(other));
  other = told;
  other.eir_server_owner.so_minor_id = 9;
  CHECK_FALSE(leads(other));
  other = told;
  other.eir_server_scope.value.assign(1, std::byte{9});
  CHECK_FALSE(leads(other));
  // A clone of the server gives another client id, as the server itself would after a restart: not a verdict.
  other = told;
  other.eir_clientid = 8;
  auto strange = m.handshake.leads_to_server(m.channel, m.deadline());
  m.calls.start(strange);
  m.calls.answer(Script().ok<op::EXCHANGE_ID>(other));
  REQUIRE(strange.done());
  CHECK(strange.await_resume().error().status() == NFS4ERR_STALE_CLIENTID);
  // What another server says of itself is not taken for this one's.
  CHECK(leads(told));
  CHECK(m.handshake.facts().epoch == 1);
  auto refused = m.handshake.leads_to_server(m.channel, m.deadline());
  m.calls.start(refused);
  m.calls.answer(Script().refuse<op::EXCHANGE_ID>(NFS4ERR_CLID_INUSE));
  REQUIRE(refused.done());
  CHECK(refused.await_resume().error().kind() == ErrorKind::server);
}

TEST_CASE(
    "handshake: a server may protect what it was asked to or less, and is asked without for anything else") {
  const auto exchange = [](auto change) {
    Beginning m(std::make_shared<TamperProof>());
    auto done = m.handshake.exchange_id(m.deadline());
    m.calls.start(done);
    const auto asked = m.calls.next_arguments<op::EXCHANGE_ID>();
    const state_protect_ops4* const ops = asked.eia_state_protect.get<SP4_MACH_CRED>();
    REQUIRE(ops != nullptr);
    EXCHANGE_ID4resok ok;
    ok.eir_clientid = 7;
    ok.eir_state_protect.emplace<SP4_MACH_CRED>() = *ops;
    change(*ok.eir_state_protect.get<SP4_MACH_CRED>());
    m.calls.answer(Script().ok<op::EXCHANGE_ID>(ok));
    const bool taken = done.done();
    if (!taken) {
      CHECK(m.calls.next_arguments<op::EXCHANGE_ID>().eia_state_protect.tag() == SP4_NONE);
      m.exchanged(7);
    }
    REQUIRE(done.done());
    CHECK(done.await_resume());
    CHECK(m.handshake.facts().protects_state == taken);
    return taken;
  };
  CHECK(exchange([](state_protect_ops4&) {}));
  CHECK(exchange([](state_protect_ops4& ops) { ops.spo_must_enforce.value[1] = 0; }));
  CHECK_FALSE(exchange([](state_protect_ops4& ops) { ops.spo_must_enforce.value[0] |= 1U << OP_CLOSE; }));
}

TEST_CASE("handshake: state protection that a server refuses is not asked for again; other errors stand") {
  for (const nfsstat4 status :
       {NFS4ERR_INVAL, NFS4ERR_NOTSUPP, NFS4ERR_BADXDR, NFS4ERR_SERVERFAULT, NFS4ERR_CLID_INUSE}) {
    CAPTURE(static_cast<unsigned>(status));
    Beginning m(std::make_shared<TamperProof>());
    auto done = m.handshake.exchange_id(m.deadline());
    m.calls.start(done);
    m.calls.answer(Script().refuse<op::EXCHANGE_ID>(status));
    // A server in trouble is asked some times for the same before it is taken to mean the protection.
    while (m.calls.waiting() == 0 && !done.done()) {
      m.calls.pass(2s);
      REQUIRE(m.calls.waiting() == 1);
      if (m.calls.next_arguments<op::EXCHANGE_ID>().eia_state_protect.tag() == SP4_NONE) break;
      m.calls.answer(Script().refuse<op::EXCHANGE_ID>(status));
    }
    if (status != NFS4ERR_CLID_INUSE) {
      REQUIRE(m.calls.waiting() == 1);
      CHECK(m.calls.next_arguments<op::EXCHANGE_ID>().eia_state_protect.tag() == SP4_NONE);
      m.exchanged(7);
    }
    REQUIRE(done.done());
    CHECK(done.await_resume().has_value() == (status != NFS4ERR_CLID_INUSE));
  }
}

TEST_CASE("handshake: a server that tells a limit of no bytes tells none") {
  Beginning m;
  m.begin();
  auto done = m.handshake.fetch_limits(m.deadline());
  m.calls.start(done);
  WireAttributes attributes;
  attributes.lease_time = 30;
  attributes.maxread = 0;
  attributes.maxwrite = 0;
  GETATTR4resok ok;
  ok.obj_attributes =
      encode_attributes(attributes, bitmap_of({FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE}));
  m.calls.answer(Script().ok<op::PUTROOTFH>().ok<op::GETATTR>(ok));
  REQUIRE(done.done());
  CHECK(done.await_resume());
  CHECK(m.handshake.facts().max_read == ~0ULL);
  CHECK(m.handshake.facts().max_write == ~0ULL);
}

TEST_CASE("handshake: a restart under the same client id begins another epoch") {
  Beginning m;
  m.begin();
  for (const bool wanted : {false, true}) {
    (void)m.handshake.want_reclaim(wanted);
    const auto before = m.handshake.facts().epoch;
    auto done = m.handshake.exchange_id(m.deadline());
    m.calls.start(done);
    m.exchanged(7);
    CHECK(m.handshake.facts().epoch == before + (wanted ? 1 : 0));
  }
  CHECK(m.handshake.want_reclaim(false));
  CHECK_FALSE(m.handshake.want_reclaim(false));
}

TEST_CASE("recovery: a client id that the server still knows needs but another session") {
  Beginning m;
  m.begin();
  m.recovery.start("gone", false);
  m.recovery.start("gone", false);
  CHECK(m.recovery.under_way());
  CHECK(m.counters.recoveries == 1);
  auto ended = m.recovery.ended(m.deadline());
  m.calls.start(ended);
  m.created(2);
  CHECK(m.calls.next_arguments<op::DESTROY_SESSION>().dsa_sessionid == m.session(1).csr_sessionid);
  // The old one is destroyed when what hangs in it has ended, which nobody waits for.
  CHECK_FALSE(m.recovery.under_way());
  REQUIRE(ended.done());
  CHECK(ended.await_resume());
  m.destroyed(NFS4ERR_BADSESSION);
  CHECK(m.calls.all() == "CREATE_SESSION DESTROY_SESSION");
  CHECK(m.calls.notices.size() == 2);
}

TEST_CASE("recovery: a session without a backchannel ends the delegations of the one before") {
  Beginning m;
  m.begin();
  const auto open = open_of(1, m.calls);
  m.state.opens.hold(open);
  m.state.delegations.take(*open, read_delegation(101));
  m.recovery.start("gone", false);
  CREATE_SESSION4resok ok = m.session(2);
  SUBCASE("it has one") {
    CHECK(ok.csr_flags == CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  }
  SUBCASE("it has none") {
    ok.csr_flags = 0;
  }
  m.calls.answer(Script().ok<op::CREATE_SESSION>(ok));
  m.destroyed(NFS4ERR_BADSESSION);
  CHECK(m.handshake.facts().backchannel == (ok.csr_flags != 0));
  CHECK((open->delegation() != nullptr) == (ok.csr_flags != 0));
  if (ok.csr_flags == 0) {
    REQUIRE(m.calls.waiting() == 1);
    CHECK(m.calls.next_arguments<op::DELEGRETURN>().deleg_stateid == stateid_of(101, 0));
    m.calls.answer(Script().ok<op::PUTFH>().ok<op::DELEGRETURN>());
  }
  m.state.opens.release(*open);
}

TEST_CASE("recovery: none before the session is open, and none while it ends") {
  for (const auto phase : {CallLayer::Phase::beginning, CallLayer::Phase::ending}) {
    Beginning m;
    m.calls.phase_now = phase;
    m.recovery.start("gone", false);
    CHECK_FALSE(m.recovery.under_way());
    CHECK(m.calls.all().empty());
  }
}

TEST_CASE("recovery: a server that knows nothing any more: opens are reclaimed before RECLAIM_COMPLETE") {
  Beginning m;
  m.begin();
  const auto open = open_of(1, m.calls);
  m.state.opens.hold(open);
  m.recovery.start("gone", false);
  m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_STALE_CLIENTID));
  m.exchanged(8);
  m.created(2);
  CHECK(m.calls.all() == "CREATE_SESSION EXCHANGE_ID CREATE_SESSION OPEN");
  OPEN4resok ok;
  ok.stateid = stateid_of(11);
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::OPEN>(ok));
  m.completed();
  m.limits(9);
  CHECK_FALSE(m.recovery.under_way());
  CHECK(open->epoch == 2);
  m.calls.pass(3100ms);  // the lease is another one
  CHECK(m.calls.next().what == "SEQUENCE");
  m.calls.fail();
}

TEST_CASE(
    "recovery: a client id that the server has forgotten is another one, under the same number as well") {
  Beginning m;
  m.begin();
  const auto open = open_of(1, m.calls);
  m.state.opens.hold(open);
  m.recovery.start("gone", false);
  m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_STALE_CLIENTID));
  m.exchanged(7);
  m.created(1);  // as the one before was called
  CHECK(m.calls.all() == "CREATE_SESSION EXCHANGE_ID CREATE_SESSION OPEN");
  CHECK(m.calls.next_arguments<op::OPEN>().claim.tag() == CLAIM_PREVIOUS);
  OPEN4resok ok;
  ok.stateid = stateid_of(11);
  m.calls.answer(Script().ok<op::PUTFH>().ok<op::OPEN>(ok));
  m.completed();
  m.limits();
  CHECK_FALSE(m.recovery.under_way());
  CHECK(open->epoch == 2);
}

TEST_CASE("recovery: where no csa_sequence suits the server the client becomes another instance of itself") {
  Beginning m;
  m.begin();
  m.recovery.start("gone", false);
  verifier4 said = m.options.verifier;
  EXCHANGE_ID4resok same;
  same.eir_clientid = 7;
  same.eir_sequenceid = 99;
  same.eir_flags = EXCHGID4_FLAG_CONFIRMED_R;
  for (int i = 0; i < 40 && said == m.options.verifier; ++i) {
    if (m.calls.waiting() == 0) m.calls.pass(5s);
    if (m.calls.next().what == "CREATE_SESSION") {
      m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_SEQ_MISORDERED));
      continue;
    }
    said = m.calls.next_arguments<op::EXCHANGE_ID>().eia_clientowner.co_verifier;
    if (said == m.options.verifier) m.calls.answer(Script().ok<op::EXCHANGE_ID>(same));
  }
  CHECK(said != m.options.verifier);
  m.exchanged(8, 5);
  CHECK(m.calls.next_arguments<op::CREATE_SESSION>().csa_sequence == 5);
  m.created(2);
  m.completed();
  m.limits();
  CHECK_FALSE(m.recovery.under_way());
  CHECK(m.handshake.facts().epoch == 2);
  CHECK(m.calls.waiting() == 0);  // the lease is not due yet
}

TEST_CASE("recovery: slots that are lost while a session is made have another one made") {
  Beginning m;
  m.begin();
  (void)m.handshake.want_reclaim(true);
  m.recovery.start("the server restarted", false);
  m.exchanged(7);
  m.created(2);
  m.destroyed();
  for (int i = 0; i < 4; ++i) m.slots.take_now()->retire();
  m.completed();
  m.limits();
  CHECK(m.recovery.under_way());
  m.created(3);
  m.destroyed();
  CHECK_FALSE(m.recovery.under_way());
  CHECK(m.slots.table().retired() == 0);
}

TEST_CASE("recovery: a server that wants a reclaim is not asked for a session alone; its old one goes") {
  Beginning m;
  m.begin();
  (void)m.handshake.want_reclaim(true);
  m.recovery.start("the server restarted", false);
  m.exchanged(7);
  m.created(2);
  CHECK(m.calls.next_arguments<op::DESTROY_SESSION>().dsa_sessionid == m.session(1).csr_sessionid);
  m.destroyed();
  m.completed();
  m.calls.fail();  // the limits stay as they were
  CHECK_FALSE(m.recovery.under_way());
  CHECK_FALSE(m.handshake.want_reclaim(false));
  CHECK(m.handshake.facts().lease_seconds == 30);
}

TEST_CASE("recovery: what fails is tried again, from where it makes sense, until it is done") {
  Beginning m;
  m.begin();
  m.recovery.start("gone", false);
  m.calls.fail();
  CHECK(m.calls.all() == "CREATE_SESSION");  // nothing was learnt of the client id
  REQUIRE(m.recovery.last_error());
  auto late = m.recovery.ended(m.calls.loop().now() + 50ms);
  m.calls.start(late);
  m.calls.pass(90ms);
  REQUIRE(late.done());
  CHECK_FALSE(late.await_resume());
  m.calls.pass(11ms);
  m.calls.answer(Script().refuse<op::CREATE_SESSION>(NFS4ERR_STALE_CLIENTID));
  m.exchanged(8);
  m.created(2);
  m.calls.fail();  // RECLAIM_COMPLETE
  m.calls.pass(201ms);
  // It has yet to be said under this client id: EXCHANGE_ID first.
  m.exchanged(8);
  m.created(3);
  m.destroyed();
  m.completed();
  m.limits();
  CHECK_FALSE(m.recovery.under_way());
  CHECK_FALSE(m.recovery.last_error());
}

TEST_CASE("recovery: where the session works what is under way may end first, for some time") {
  Beginning m;
  m.begin();
  auto use = m.slots.take_now();
  m.recovery.start("a new one is wanted", true);
  m.calls.settle();
  CHECK(m.calls.all().empty());
  use->answered();
  m.calls.settle();
  m.created(2);
  m.destroyed();
  auto stuck = m.slots.take_now();
  m.recovery.start("a new one is wanted", true);
  m.calls.pass(9900ms);
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(200ms);
  m.created(3);
  CHECK_FALSE(m.recovery.under_way());
  // The old session has the answer to what is still under way.
  auto old_ended = m.recovery.old_ended(m.deadline());
  m.calls.start(old_ended);
  CHECK(m.calls.waiting() == 0);
  SUBCASE("the answer comes") {
    m.calls.pass(19s);
    CHECK(m.calls.waiting() == 0);
    stuck->answered();
    m.calls.settle();
  }
  SUBCASE("the server never answers") {
    m.calls.pass(19900ms);
    CHECK(m.calls.waiting() == 0);
    m.calls.pass(200ms);
  }
  CHECK(m.calls.next_arguments<op::DESTROY_SESSION>().dsa_sessionid == m.session(2).csr_sessionid);
  CHECK_FALSE(old_ended.done());
  m.destroyed();
  REQUIRE(old_ended.done());
  CHECK(old_ended.await_resume());
}

TEST_CASE("recovery: a session that is gone is destroyed without waiting for what was under way in it") {
  Beginning m;
  m.begin();
  auto use = m.slots.take_now();
  m.recovery.start("gone", false);
  m.created(2);
  m.destroyed(NFS4ERR_BADSESSION);
  CHECK(m.slots.table().left_over() == 1);
  CHECK_FALSE(m.recovery.under_way());
}

TEST_CASE("recovery: a session of which too few slots are left is replaced") {
  Beginning m;
  m.begin();
  for (int i = 0; i < 4 && !m.recovery.under_way(); ++i) m.slots.take_now()->retire();
  CHECK(m.recovery.under_way());
  m.created(2);
  m.destroyed();
  CHECK_FALSE(m.recovery.under_way());
  CHECK(m.slots.table().retired() == 0);
}

}  // namespace nfsrdma
