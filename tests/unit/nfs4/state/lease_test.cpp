// The lease by itself: when it is renewed, and how long it lasts (RFC 8881 8.3).
#include "nfs4/state/lease.h"

#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using namespace std::chrono_literals;

struct Leased {
  ScriptedCallLayer calls;
  Lease lease{calls};
  const ScriptedCallLayer::Last last{calls};
  Leased() {
    calls.facts_now.lease_seconds = 30;
    lease.renewed(lease.now());
  }
};

}  // namespace

TEST_CASE("lease: a SEQUENCE is sent when nothing else was for a third of it") {
  Leased m;
  m.lease.arm();
  m.calls.pass(9900ms);
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(200ms);
  REQUIRE(m.calls.waiting() == 1);
  CHECK(m.calls.next().what == "SEQUENCE");
  CHECK(m.calls.next().deadline > m.calls.loop().now() + 29s);
  CHECK(m.calls.next().deadline <= m.calls.loop().now() + 30s);
  // One at a time; and the next after it has ended, whatever became of it.
  m.calls.pass(11s);
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
  m.calls.pass(11s);
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
}

TEST_CASE("lease: calls that are made anyway renew it") {
  Leased m;
  m.lease.arm();
  for (int i = 0; i < 8; ++i) {
    m.calls.pass(8s);
    m.lease.renewed(m.lease.now());
  }
  CHECK(m.calls.waiting() == 0);
  m.calls.pass(10100ms);
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
}

TEST_CASE("lease: no renewal once it was stopped, or where the session ends") {
  Leased m;
  m.lease.arm();
  m.lease.stop();
  m.calls.pass(60s);
  CHECK(m.calls.waiting() == 0);
  m.lease.arm();
  m.calls.phase_now = CallLayer::Phase::ending;
  m.calls.pass(60s);
  m.lease.renew_now();
  CHECK(m.calls.waiting() == 0);
}

TEST_CASE("lease: it lasts from when the SEQUENCE was sent, however late the answer came") {
  Leased m;
  CHECK(m.lease.lasts());
  const Lease::Sent sent = m.lease.now();
  m.calls.pass(20s);
  m.lease.renewed(sent);
  m.calls.pass(9900ms);
  CHECK(m.lease.lasts());
  m.calls.pass(200ms);
  CHECK_FALSE(m.lease.lasts());
}

TEST_CASE("lease: an older SEQUENCE's answer that comes last does not shorten it") {
  Leased m;
  const Lease::Sent first = m.lease.now();
  m.calls.pass(10s);
  m.lease.renewed(m.lease.now());
  m.lease.renewed(first);
  m.calls.pass(25s);
  CHECK(m.lease.lasts());
}

TEST_CASE("lease: it ends while the machine sleeps") {
  Leased m;
  m.calls.host().sleep();
  m.calls.pass(31s);
  m.calls.host().wake();
  CHECK_FALSE(m.lease.lasts());
}

TEST_CASE("lease: a renewal at once, one at a time") {
  Leased m;
  m.lease.renew_now();
  m.lease.renew_now();
  CHECK(m.calls.waiting() == 1);
  m.calls.answer(Script().ok<op::PUTFH>());
  m.lease.renew_now();
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
}

TEST_CASE("lease: a shorter one, after another server has come up, is renewed sooner") {
  Leased m;
  m.lease.arm();
  m.calls.facts_now.lease_seconds = 6;
  m.lease.arm();
  m.calls.pass(2100ms);
  CHECK(m.calls.waiting() == 1);
  m.calls.fail();
}

}  // namespace nfsrdma
