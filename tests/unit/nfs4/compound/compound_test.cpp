// What a caller takes out of the Reply to a COMPOUND, and what it does not believe (nfs4/compound/compound.h;
// RFC 8881 15.1.1.3, 16.2).
#include "nfs4/compound/compound.h"

#include <doctest/doctest.h>

#include <utility>

#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct AnsweredCompound {
  ScriptedCallLayer calls;
  const ScriptedCallLayer::Last last{calls};
  CompoundReply reply(const Script& script) {
    auto task = calls.call(calls.begin("LOOKUP"));
    calls.start(task);
    calls.answer(script);
    return std::move(*task.await_resume());
  }
  ErrorKind kind_of(const CompoundReply& reply) { return calls.error_of(reply, "LOOKUP", "x").kind(); }
};

}  // namespace

TEST_CASE("compound: a result of another operation than the one asked for is a Reply at fault") {
  AnsweredCompound m;
  auto reply = m.reply(Script().ok<op::PUTFH>().ok<op::LOOKUP>().ok<op::LOOKUPP>());
  CHECK(reply.take<op::PUTFH>());
  CHECK_FALSE(reply.take<op::LOOKUPP>());
  CHECK(reply.failed_status() == NFS4_OK);
  CHECK(m.kind_of(reply) == ErrorKind::protocol);
  CHECK_FALSE(reply.take<op::LOOKUPP>());  // nor is what stands behind it believed
}

TEST_CASE("compound: a Reply that is good and says less than was asked for, or is cut short, is at fault") {
  AnsweredCompound m;
  for (const bool promised : {false, true}) {
    auto script = Script().ok<op::PUTFH>();
    if (promised) script.and_nothing();
    auto reply = m.reply(script);
    CHECK(reply.status() == NFS4_OK);
    CHECK(reply.take<op::PUTFH>());
    CHECK_FALSE(reply.take<op::LOOKUP>());
    CHECK(reply.failed_status() == NFS4_OK);
    CHECK(m.kind_of(reply) == ErrorKind::protocol);
  }
}

TEST_CASE(
    "compound: behind an operation that was refused there is nothing more, and its status is the error's") {
  AnsweredCompound m;
  auto reply = m.reply(Script().ok<op::PUTFH>().refuse<op::LOOKUP>(NFS4ERR_NOENT));
  CHECK(reply.executed() == 2);
  CHECK(reply.take<op::PUTFH>());
  CHECK_FALSE(reply.take<op::LOOKUP>());
  CHECK_FALSE(reply.take<op::LOOKUPP>());
  CHECK(reply.failed_status() == NFS4ERR_NOENT);
  CHECK(m.kind_of(reply) == ErrorKind::server);
}

}  // namespace nfsrdma
