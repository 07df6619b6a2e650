// The binding of NFSv3 and of what goes beside it to RPC-over-RDMA (RFC 8267 3), as the engine's own Calls show it:
// what is provided for Replies that have no bound of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "support/v3_fixture.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;
using nfs4::OP_GETATTR;
using nfs4::OP_READDIR;

constexpr std::uint64_t kEnvelope = 512;  // the RPC header, and rounding

std::uint64_t room_of_last(Scene3& s, nfs4::nfs_opnum4 op) {
  std::uint64_t out = 0;
  for (const SeenCall& call : s.server.calls()) {
    if (call.has(op)) out = call.reply_chunk;
  }
  s.server.clear_calls();
  return out;
}

}  // namespace

TEST_CASE("U4 READDIR and READDIRPLUS are provided for by their counts") {
  for (const bool plus : {true, false}) {
    CAPTURE(plus);
    Scene3 s;
    s.habits([plus](Habits& habits) { habits.lists_with_attributes = plus; });
    s.server.add_file("/f", "text");
    (void)s.get(s.engine->list(s.who, s.root, 0, {}));
    const std::uint64_t room = room_of_last(s, OP_READDIR);
    const std::uint64_t count = s.engine->limits().page;  // FSINFO's dtpref
    CHECK(room >= count);
    CHECK(room <= count + kEnvelope);
  }
}

TEST_CASE("U4 GETACL is provided 32 KiB at least, and where that is too little as much as READ may bring") {
  for (const unsigned version : {2U, 3U}) {
    Scene3 of(version);
    of.habits([](Habits& habits) { habits.has_acls = true; });
    CHECK(ok(of.run(of.engine->get_acl(of.who, of.root))));
    CHECK(room_of_last(of, OP_GETATTR) >= 32U << 10);
  }

  Scene3 s;
  s.habits([](Habits& habits) { habits.has_acls = true; });
  s.server.on_server([](Responder& responder) { responder.play(Responder::Trick::err_chunk, OP_GETATTR); });
  CHECK(ok(s.run(s.engine->get_acl(s.who, s.root))));
  const std::uint64_t bounded = xdr::bounds<nfs3::GETACL3res>.max;
  CHECK(room_of_last(s, OP_GETATTR) >= std::min<std::uint64_t>(bounded, s.engine->limits().most_read));

  // No more than that.
  s.server.on_server([](Responder& responder) {
    for (int i = 0; i < 2; ++i) responder.play(Responder::Trick::err_chunk, OP_GETATTR);
  });
  CHECK(s.error(s.engine->get_acl(s.who, s.root)) == EREMOTEIO);
}

}  // namespace nfsrdma::nfs3
