// Row U8, for NFSv4.0 as for the versions with sessions: a COMPOUND is a gamble if it changes something and its answer may have
// any length, because the answer may then be lost.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <utility>

#include "nfs4/compound/compound.h"
#include "support/engine_fixture.h"

namespace nfsrdma::testing {

/// `scene`: with an NfsServer that has the file "/f" of "text", and to which `client` is connected.
template <class Scene, class Client>
void check_that_gambles_are_refused(Scene& scene, Client& client) {
  using namespace nfs4;
  scene.server.clear_calls();
  const auto call = [&](bool changes, bool unbounded) {
    Compound compound = client.session.begin("both");
    compound.template add<op::PUTFH>({client.root});
    if (changes) compound.template add<op::REMOVE>({{"f"}});
    compound.template add<op::GETATTR>({bitmap_of({unbounded ? FATTR4_ACL : FATTR4_SIZE})});
    return client.run(client.session.call(std::move(compound)));
  };
  const auto refused = call(true, true);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind() == ErrorKind::usage);
  CHECK(refused.error().errno_value() == EINVAL);
  CHECK(scene.server.calls().empty());
  CHECK(scene.server.content("/f") == "text");
  CHECK(ok(call(false, true)));
  CHECK(ok(call(true, false)));
  CHECK(scene.server.calls().size() == 2);
}

}  // namespace nfsrdma::testing
