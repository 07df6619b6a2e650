// CLOSEs that leave together: how long one stands, what is not sent, and which answer is whose.
#include "nfs4/state/close_batch.h"

#include <doctest/doctest.h>

#include <chrono>
#include <deque>

#include "support/mounted.h"
#include "support/nfs_responder.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma::nfs4 {
namespace {

using testing::file_handle;
using testing::Script;
using testing::ScriptedCallLayer;
using testing::stateid_of;

struct Closes {
  using Answer = Result<std::optional<nfsstat4>>;
  struct One {
    explicit One(async::Task<Answer> t) : task(std::move(t)) {}
    async::Task<Answer> task;
    bool wanted = true;
    std::optional<stateid4> delegation;
    bool returned = false;
  };
  Closes() { calls.facts_now.max_operations = 64; }
  void close(unsigned i, const Caller& caller = nullptr, bool urgent = false, security::Mark mark = 0) {
    CloseBatch::Closing what;
    what.urgent = urgent;
    what.file = file_handle(i);
    what.file.mark = mark;
    what.stateid.seqid = i;
    what.caller = caller;
    const std::size_t at = ones.size();
    what.wanted = [this, at] { return ones[at].wanted; };
    what.delegation = [this, at] { return ones[at].delegation; };
    what.on_returned = [this, at] { ones[at].returned = true; };
    ones.emplace_back(batch.close(std::move(what)));
    calls.start(ones.back().task);
  }
  void hold_time() {
    calls.pass(CloseBatch::kHold);
    calls.settle();
  }
  static Script closed(unsigned count) {
    Script out;
    for (unsigned i = 0; i < count; ++i) out.ok<op::PUTFH>().ok<op::CLOSE>(stateid4());
    return out;
  }
  /// NFS4_OK and so on; -1: it was not wanted, -2: it has not ended, -3: an Error.
  int answer(std::size_t i) {
    async::Task<Answer>& task = ones[i].task;
    if (!task.done()) return -2;
    const Answer got = task.await_resume();
    if (!got) return -3;
    return *got ? static_cast<int>(**got) : -1;
  }

  ScriptedCallLayer calls;
  CloseBatch batch{calls};
  std::deque<One> ones;
  const ScriptedCallLayer::Last last{calls};
};

}  // namespace

TEST_CASE("close batch: those that come within some milliseconds leave together") {
  Closes c;
  for (unsigned i = 1; i <= 3; ++i) c.close(i);
  CHECK(c.calls.waiting() == 0);
  c.hold_time();
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(3));
  c.calls.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(c.answer(i) == NFS4_OK);
  CHECK(c.calls.waiting() == 0);
}

TEST_CASE("close batch: enough of them do not wait, nor does one that somebody waits for") {
  Closes c;
  unsigned count = 1;
  SUBCASE("enough") {
    count = CloseBatch::kMost;
    for (unsigned i = 1; i <= count; ++i) c.close(i);
  }
  SUBCASE("waited for") {
    c.close(1);
    c.batch.hurry();
    c.calls.settle();
  }
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(count));
  c.calls.settle();
  CHECK(c.answer(0) == NFS4_OK);
}

TEST_CASE("close batch: a refusal is that one's alone, and those behind it are sent again") {
  Closes c;
  for (unsigned i = 1; i <= 3; ++i) c.close(i);
  c.hold_time();
  c.calls.answer(Closes::closed(1).ok<op::PUTFH>().refuse<op::CLOSE>(NFS4ERR_OLD_STATEID));
  c.calls.settle();
  CHECK(c.answer(0) == NFS4_OK);
  CHECK(c.answer(1) == NFS4ERR_OLD_STATEID);
  CHECK(c.answer(2) == -2);
  REQUIRE(c.calls.waiting() == 1);
  CHECK(c.calls.next_arguments<op::CLOSE>().open_stateid.seqid == 3);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(2) == NFS4_OK);
}

TEST_CASE("close batch: one that the server puts off is the first of the next COMPOUND, which waits for it") {
  Closes c;
  for (unsigned i = 1; i <= 3; ++i) c.close(i);
  c.ones[1].delegation = stateid_of(50);
  c.hold_time();
  SUBCASE("itself") {
    c.calls.answer(Closes::closed(1).ok<op::PUTFH>().refuse<op::CLOSE>(NFS4ERR_DELAY));
  }
  SUBCASE("its file") {
    c.calls.answer(Closes::closed(1).refuse<op::PUTFH>(NFS4ERR_DELAY));
  }
  c.calls.settle();
  CHECK(c.answer(0) == NFS4_OK);
  CHECK(c.answer(1) == -2);
  REQUIRE(c.calls.waiting() == 1);
  CHECK(c.calls.next_arguments<op::CLOSE>().open_stateid.seqid == 2);
  c.calls.answer(Closes::closed(1).ok<op::DELEGRETURN>().ok<op::PUTFH>().ok<op::CLOSE>(stateid4()));
  c.calls.settle();
  CHECK(c.ones[1].returned);
  for (std::size_t i = 1; i < 3; ++i) CHECK(c.answer(i) == NFS4_OK);
}

TEST_CASE("close batch: one that is urgent goes at once, and takes the others along") {
  Closes c;
  c.close(1);
  CHECK(c.calls.waiting() == 0);
  c.close(2, nullptr, true);
  c.calls.settle();
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(2));
  c.calls.settle();
  for (std::size_t i = 0; i < 2; ++i) CHECK(c.answer(i) == NFS4_OK);
}

TEST_CASE("close batch: a file that is gone on the server is that one's refusal, too") {
  Closes c;
  for (unsigned i = 1; i <= 2; ++i) c.close(i);
  c.hold_time();
  c.calls.answer(Script().refuse<op::PUTFH>(NFS4ERR_STALE));
  c.calls.settle();
  CHECK(c.answer(0) == NFS4ERR_STALE);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(1) == NFS4_OK);
}

TEST_CASE("close batch: a delegation goes with its file") {
  Closes c;
  for (unsigned i = 1; i <= 3; ++i) c.close(i);
  for (std::size_t i = 0; i < 2; ++i) c.ones[i].delegation = stateid_of(static_cast<unsigned>(50 + i));
  c.hold_time();
  CHECK(c.calls.all() == "CLOSE");
  Script script = Closes::closed(1);
  SUBCASE("each is taken") {
    script.ok<op::DELEGRETURN>().ok<op::PUTFH>().ok<op::CLOSE>(stateid4()).ok<op::DELEGRETURN>();
    c.calls.answer(std::move(script.ok<op::PUTFH>().ok<op::CLOSE>(stateid4())));
    c.calls.settle();
    CHECK(c.ones[0].returned);
  }
  SUBCASE("one is refused: its file is closed, and those behind it are sent again") {
    c.calls.answer(std::move(script.refuse<op::DELEGRETURN>(NFS4ERR_BAD_STATEID)));
    c.calls.settle();
    CHECK(c.answer(0) == NFS4_OK);
    CHECK_FALSE(c.ones[0].returned);
    CHECK(c.answer(1) == -2);
    CHECK(c.calls.next_arguments<op::CLOSE>().open_stateid.seqid == 2);
    c.calls.answer(Closes::closed(1).ok<op::DELEGRETURN>().ok<op::PUTFH>().ok<op::CLOSE>(stateid4()));
    c.calls.settle();
  }
  CHECK(c.ones[1].returned);
  CHECK_FALSE(c.ones[2].returned);
  CHECK(c.answer(1) == NFS4_OK);
  CHECK(c.answer(2) == NFS4_OK);
  CHECK(c.calls.waiting() == 0);
}

TEST_CASE(
    "S24 close batch: a delegation goes back that another has replaced while its file was being closed") {
  testing::Scene m;
  for (const char* path : {"/f", "/g"}) m.server.add_file(path, "text");
  m.server.set_delegations(true);
  m.server.on_server([](testing::Responder& server) { server.state.habits.delegates_twice = true; });
  testing::EngineClient& c = m.connect();
  c.session.close_batch().hold();
  const Caller who = testing::user(1);
  const auto open = [&](const char* name) {
    auto task = c.open(who, c.root, name, OPEN4_SHARE_ACCESS_READ);
    c.start(task);
    REQUIRE(c.turn_until([&] { return task.done(); }));
    return std::move(task.await_resume()->file);
  };
  OpenRef f = open("f"), g = open("g");
  REQUIRE(m.server.delegations() == 2);
  m.server.hold(OP_CLOSE, false);
  m.server.answer(OP_CLOSE, NFS4ERR_OLD_STATEID);
  auto close_f = c.files.close(std::move(f)), close_g = c.files.close(std::move(g));
  c.start(close_f);
  c.start(close_g);
  REQUIRE(c.turn_until([&] { return m.server.held() == 1; }));
  g = open("g");
  CHECK(m.server.delegations() == 3);
  auto close_again = c.files.close(std::move(g));
  c.start(close_again);
  m.server.release();
  REQUIRE(c.turn_until([&] { return close_f.done() && close_g.done() && close_again.done(); }));
  CHECK(c.turn_until([&] { return m.server.delegations() == 0; }));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("close batch: what is not wanted any more is not sent") {
  Closes c;
  for (unsigned i = 1; i <= 2; ++i) c.close(i);
  c.ones[0].wanted = false;
  c.hold_time();
  CHECK(c.answer(0) == -1);
  CHECK(c.calls.next_arguments<op::CLOSE>().open_stateid.seqid == 2);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(1) == NFS4_OK);
}

TEST_CASE("close batch: each user's leave by themselves") {
  Closes c;
  const auto user = std::make_shared<security::Identity>();
  c.close(1);
  c.close(2, user);
  c.hold_time();
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(0) == NFS4_OK);
  CHECK(c.answer(1) == -2);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(1) == NFS4_OK);
}

TEST_CASE("close batch: so do those of files that another flavour vouches for") {
  Closes c;
  c.close(1);
  c.close(2, nullptr, false, 3);
  c.hold_time();
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(0) == NFS4_OK);
  CHECK(c.answer(1) == -2);
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(1) == NFS4_OK);
}

TEST_CASE("close batch: those that come later have a time of their own") {
  Closes c;
  for (unsigned i = 1; i <= 2; ++i) {
    c.close(i);
    CHECK(c.calls.waiting() == 0);
    c.hold_time();
    REQUIRE(c.calls.waiting() == 1);
    c.calls.answer(Closes::closed(1));
    c.calls.settle();
    CHECK(c.answer(i - 1) == NFS4_OK);
  }
  // Also where the others had to hurry.
  c.close(3);
  c.calls.pass(CloseBatch::kHold / 2);
  c.batch.hurry();
  c.calls.settle();
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(1));
  c.close(4);
  c.calls.pass(CloseBatch::kHold / 2 + std::chrono::milliseconds(1));
  CHECK(c.calls.waiting() == 0);
  c.hold_time();
  REQUIRE(c.calls.waiting() == 1);
  c.calls.answer(Closes::closed(1));
  c.calls.settle();
  CHECK(c.answer(3) == NFS4_OK);
}

TEST_CASE("close batch: no answer is everybody's, and a session's limit is kept") {
  Closes c;
  SUBCASE("no answer") {
    for (unsigned i = 1; i <= 2; ++i) c.close(i);
    c.hold_time();
    c.calls.fail();
    c.calls.settle();
    CHECK(c.answer(0) == -3);
    CHECK(c.answer(1) == -3);
  }
  SUBCASE("two at a time") {
    c.calls.facts_now.max_operations = 6;  // with room for a delegation
    for (unsigned i = 1; i <= 3; ++i) c.close(i);
    c.hold_time();
    c.calls.answer(Closes::closed(2));
    c.calls.settle();
    CHECK(c.answer(1) == NFS4_OK);
    CHECK(c.answer(2) == -2);
    c.calls.answer(Closes::closed(1));
    c.calls.settle();
    CHECK(c.answer(2) == NFS4_OK);
  }
}

TEST_CASE("close batch: who does not wait any more hears of no answer, nor of his delegation") {
  Closes c;
  c.close(1);
  c.close(2);
  c.ones[0].delegation = stateid_of(50);
  c.hold_time();
  REQUIRE(c.calls.waiting() == 1);
  c.ones.clear();
  c.calls.answer(Closes::closed(1).ok<op::DELEGRETURN>().ok<op::PUTFH>().ok<op::CLOSE>(stateid4()));
  c.calls.settle();
  CHECK(c.calls.waiting() == 0);
}

TEST_CASE("close batch: one that nobody waits for any more is not sent, and at the end each goes at once") {
  Closes c;
  SUBCASE("abandoned") {
    c.close(1);
    c.ones.clear();
    c.hold_time();
    CHECK(c.calls.waiting() == 0);
  }
  SUBCASE("ending") {
    c.calls.phase_now = ScriptedCallLayer::Phase::ending;
    c.close(1);
    REQUIRE(c.calls.waiting() == 1);
    c.calls.answer(Closes::closed(1));
    c.calls.settle();
    CHECK(c.answer(0) == NFS4_OK);
  }
}

}  // namespace nfsrdma::nfs4
