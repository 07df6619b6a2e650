// Where the server wants another flavour from some directory on: which one is chosen, by whom it is asked for, and that
// everything below is asked about with it (RFC 8881 2.6).
#include "nfs4/state/crossing.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>

#include "security/choice.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/toy_mechanism.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::testing {
namespace {

using Flavors = std::vector<Security>;
using nfs4::nfs_fh4;

/// A server whose export /x wants other flavours than what is above it: /x/d/f and /y/g.
struct Places : Scene {
  explicit Places(Flavors below = {Security::krb5i}, Flavors above = {Security::sys}) {
    server.on_server([&](Responder& responder) {
      ServerState& state = responder.state;
      state.flavors[0] = std::move(above);
      state.flavors[state.make_export("/x").file_system] = std::move(below);
    });
    server.add_file("/x/d/f", "below");
    server.add_file("/y/g", "above");
  }

  /// A client that may use these.
  EngineClient& connect_with(Flavors permitted, std::optional<Security> standard = Security::sys) {
    auto& c = client.emplace(server, "engine", nfs4::SessionOptions(), [&](async::Loop& loop) {
      const auto make = [this, &loop](Security one) { return flavor(loop, one); };
      if (permitted.size() == 1) return make(permitted.front());
      std::shared_ptr<security::Flavor> out =
          std::make_shared<security::Choice>(loop, permitted, standard, make);
      return out;
    });
    server.clear_calls();
    return c;
  }
  std::shared_ptr<security::Flavor> flavor(async::Loop& loop, Security one) {
    auto sys = std::make_shared<security::Sys>("test", security::Identity());
    if (one == Security::sys) return sys;
    auto mechanism = std::make_shared<ToyMechanism>(static_cast<std::uint64_t>(one) * 100, sys);
    if (refused == one) mechanism->refuse_next();
    return std::make_shared<gss::Gss>(loop, static_cast<gss::Service>(one), std::move(mechanism), "server",
                                      [this](const std::string& text) { told += text + "\n"; });
  }
  /// What the calls came with since the last time, each once for those of one kind in a row.
  Flavors seen() {
    Flavors out;
    for (const SeenCall& one : server.calls()) {
      if (out.empty() || out.back() != one.security) out.push_back(one.security);
    }
    server.clear_calls();
    return out;
  }

  std::optional<Security> refused;
  std::string told;
};

const Flavors kAll{Security::krb5p, Security::krb5i, Security::krb5, Security::sys};
constexpr Security kSys = Security::sys, kInt = Security::krb5i;

security::Mark mark(Security one) {
  return static_cast<security::Mark>(static_cast<unsigned>(one) + 1);
}

}  // namespace

TEST_CASE("crossing: a path leads into another flavour, and is remembered") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  const nfs_fh4 file = c.handle("/x/d/f");
  CHECK(file.mark == mark(kInt));
  CHECK(m.server.count(nfs4::OP_SECINFO) == 1);
  // The walk, what is wanted there, and the rest of it with that.
  CHECK(m.seen() == Flavors{kSys, kInt});
  CHECK(c.handle("/x/d").mark == mark(kInt));
  CHECK(m.seen() == Flavors{kInt});
  CHECK(c.handle("/y/g").mark == 0);
  CHECK(m.seen() == Flavors{kSys});
  CHECK(m.server.count(nfs4::OP_SECINFO) == 0);
}

TEST_CASE("crossing: what is done below is done with the directory's flavour") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  const nfs_fh4 top = c.handle("/x");
  m.seen();
  auto made = c.run(c.engine.make_directory(nullptr, top, "new", 0755));
  REQUIRE(ok(made));
  CHECK(made->object.handle.mark == mark(kInt));
  REQUIRE(ok(c.run(c.engine.attributes(nullptr, made->object.handle))));
  auto file = c.run(c.files.open_at(nullptr, made->object.handle, "file", nfs4::OPEN4_SHARE_ACCESS_BOTH,
                                    engine::Engine::Creation()));
  REQUIRE(ok(file));
  CHECK(ok(c.run(c.files.close(std::move(file->file)))));
  auto page = c.run(c.engine.list(nullptr, top, 0, {}));
  REQUIRE(ok(page));
  REQUIRE(page->entries.size() == 2);
  CHECK(page->entries[0].handle->mark == mark(kInt));
  CHECK(ok(c.run(c.engine.rename(nullptr, top, "new", top, "old", std::nullopt))));
  CHECK(m.seen() == Flavors{kInt});
}

TEST_CASE("crossing: by handles, into an export and out of it") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  auto page = c.run(c.engine.list(nullptr, c.root, 0, {}));
  REQUIRE(ok(page));
  CHECK_FALSE(page->entries[0].handle);
  auto there = c.run(c.engine.lookup(nullptr, c.root, "x"));
  REQUIRE(ok(there));
  REQUIRE(there->object);
  CHECK(there->object->handle.mark == mark(kInt));
  CHECK(there->object->attributes->type == FileType::directory);
  m.seen();
  auto again = c.run(c.engine.parent(nullptr, there->object->handle));
  REQUIRE(ok(again));
  CHECK(again->handle == c.root);
  CHECK(again->handle.mark == 0);
  // A name that is not there is no reason to ask for flavours.
  CHECK_FALSE(c.run(c.engine.lookup(nullptr, c.root, "z"))->object);
}

TEST_CASE("crossing: nothing is moved between the two") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  const nfs_fh4 below = c.handle("/x/d"), above = c.handle("/y");
  CHECK(errno_of(c.run(c.engine.rename(nullptr, below, "f", above, "f", std::nullopt))) == EXDEV);
  CHECK(errno_of(c.run(c.engine.rename(nullptr, above, "g", below, "g", std::nullopt))) == EXDEV);
  CHECK(errno_of(c.run(c.engine.link(nullptr, c.handle("/y/g"), below, "g"))) == EXDEV);
}

TEST_CASE("crossing: an open by path") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  engine::Spot spot(std::nullopt, {"x", "d"});
  auto opened = c.run(c.files.open_at(nullptr, spot, "f", nfs4::OPEN4_SHARE_ACCESS_READ, std::nullopt));
  REQUIRE(ok(opened));
  CHECK(opened->object.handle.mark == mark(kInt));
  std::array<std::byte, 16> data;
  auto read = c.run(opened->file->read(data, 0));
  REQUIRE(ok(read));
  CHECK(*read == 5);
  CHECK(ok(c.run(c.files.close(std::move(opened->file)))));
  CHECK(m.seen() == Flavors{kSys, kInt});
}

TEST_CASE("crossing: which one is chosen") {
  SUBCASE("the strongest that is offered, where the options say nothing") {
    Places m({kSys, Security::krb5, kInt});
    EngineClient& c = m.connect_with(kAll);
    // Nobody has to ask there: it takes what is in use.
    CHECK(c.handle("/x").mark == 0);
    REQUIRE(ok(c.run(nfs4::negotiate(c.session, {"x"}))));
    CHECK(c.handle("/x").mark == mark(kInt));
    CHECK(c.session.crossings().target() == mark(kInt));
    CHECK(c.handle("/y").mark == 0);
  }
  SUBCASE("the one that is liked best") {
    Places m({Security::krb5p, kInt, Security::krb5});
    CHECK(m.connect_with({Security::krb5, kInt, kSys}).handle("/x").mark == mark(Security::krb5));
  }
  SUBCASE("the next, where there is no ticket for the first; nobody is told") {
    Places m({Security::krb5p, kInt});
    m.refused = Security::krb5p;
    CHECK(m.connect_with(kAll).handle("/x").mark == mark(kInt));
    CHECK(m.told == "");
  }
  SUBCASE("what the client uses anyway has no mark") {
    Places m({kSys, Security::krb5});
    m.refused = Security::krb5;
    EngineClient& c = m.connect_with(kAll);
    REQUIRE(ok(c.run(nfs4::negotiate(c.session, {"x"}))));
    CHECK(c.handle("/x").mark == 0);
  }
  SUBCASE("another one, where the server cannot do what it offers") {
    Places m({Security::krb5p, kInt});
    EngineClient& c = m.connect_with(kAll);
    // What it could not make anything of is sent twice again.
    for (int i = 0; i < 3; ++i) m.server.garbage_args(nfs4::OP_GETFH);
    auto found = c.run(nfs4::cross_to(c.session, nullptr, c.root, "x"));
    REQUIRE(ok(found));
    CHECK(found->mark == mark(kInt));
  }
}

TEST_CASE("crossing: nothing that could be chosen") {
  Places m;
  SUBCASE("one flavour only") {
    EngineClient& c = m.connect_with({kSys});
    auto found = c.run(c.engine.find(nullptr, engine::Spot(std::nullopt, {"x", "d"})));
    REQUIRE_FALSE(found);
    CHECK(found.error().errno_value() == EPERM);
    CHECK(found.error().peer() == "/x/d");
    CHECK(found.error().message().find("sec=krb5i") != std::string::npos);
    CHECK(c.run(c.engine.lookup(nullptr, c.root, "x")).error().errno_value() == EPERM);
  }
  SUBCASE("not the right ones") {
    EngineClient& c = m.connect_with({Security::krb5p, kSys});
    auto found = c.run(c.engine.find(nullptr, engine::Spot(std::nullopt, {"x"})));
    REQUIRE_FALSE(found);
    CHECK(found.error().message().find("sec=krb5i") != std::string::npos);
  }
  SUBCASE("no ticket") {
    m.refused = kInt;
    EngineClient& c = m.connect_with(kAll);
    auto found = c.run(c.engine.find(nullptr, engine::Spot(std::nullopt, {"x"})));
    REQUIRE_FALSE(found);
    CHECK(found.error().errno_value() == EACCES);
    // Nothing else suffers.
    CHECK(ok(c.run(c.engine.find(nullptr, engine::Spot(std::nullopt, {"y"})))));
    // And it is found when there is one.
    CHECK(c.handle("/x").mark == mark(kInt));
  }
}

TEST_CASE("crossing: the root itself wants another flavour") {
  Places m({kInt}, {Security::krb5, kInt});
  SUBCASE("and gets it") {
    EngineClient& c = m.connect_with(kAll);
    CHECK(c.root.mark == mark(kInt));
    CHECK(c.handle("/y/g").mark == mark(kInt));
    CHECK(m.seen() == Flavors{kInt});
  }
}

TEST_CASE("crossing: a place whose handle is gone is walked to again") {
  Places m;
  EngineClient& c = m.connect_with(kAll);
  CHECK(c.handle("/x/d").mark == mark(kInt));
  m.seen();
  m.server.answer(nfs4::OP_PUTFH, nfs4::NFS4ERR_STALE);
  CHECK(c.handle("/x/d").mark == mark(kInt));
  CHECK(m.seen() == Flavors{kInt, kSys, kInt});
}

}  // namespace nfsrdma::testing
