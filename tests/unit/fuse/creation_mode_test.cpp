// The mode of what is made: what the umask takes, and where a directory has an access control list that is inherited.
#include "fuse/creation_mode.h"

#include <doctest/doctest.h>

#include <memory>

#include "acl/octets.h"
#include "support/mounted.h"
#include "support/v3_fixture.h"

namespace nfsrdma::fuse {
namespace {

using namespace testing;

PosixAcl default_list() {
  return {{AclTag::owner, 0, 7}, {AclTag::owning_group, 0, 5}, {AclTag::other, 0, 0}};
}

/// A directory on a server with access control lists, over NFSv4.
struct Making : MountedEngine {
  void mount() {
    server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
    server.add_directory("/d");
    MountedEngine::mount();
    d = lookup("d").inode;
    server.clear_calls();
  }
  async::Task<std::uint32_t> asking(std::uint32_t mode, std::uint32_t umask) {
    return modes.of(*files, client->loop, who, d, mode, umask);
  }
  std::uint32_t of(std::uint32_t mode, std::uint32_t umask) { return client->run(asking(mode, umask)); }
  /// One that all have all rights by, with these flags.
  void set_list(std::uint32_t flags) {
    const Nfs4Acl list{{0, flags, 0x1601bf, "EVERYONE@"}};
    const auto set = client->run(files->set_xattr(who, d, "system.nfs4_acl", acl::nfs4_octets(list), 0));
    CHECK(ok(set));
  }

  CreationMode modes;
  std::uint64_t d = 0;
};

}  // namespace

TEST_CASE("F16 creation mode: the umask counts, unless the directory has a default list") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.has_acls = true; });
  const auto root = s.get(s.engine->find(s.who, engine::Spot(s.root)));
  const std::shared_ptr<engine::Engine> engine(std::shared_ptr<void>(), &*s.engine);
  fs::FileSystem files(engine, fs::CacheOptions(), root);
  const std::uint64_t d = s.get(files.make_directory(s.who, fs::Inodes::kRoot, "d", 0755)).inode;
  CreationMode modes;
  modes.believe_for(5s);
  const auto of = [&](std::uint32_t mode, std::uint32_t umask) {
    return s.run(modes.of(files, s.loop, s.who, d, mode, umask));
  };
  (void)s.asked();
  CHECK(of(0644, 0022) == 0644);
  CHECK(s.asked().empty());  // there is nothing to be taken away
  CHECK(of(0666, 0022) == 0644);
  CHECK_FALSE(s.asked().empty());
  CHECK(of(02777, 0077) == 02700);
  CHECK(s.asked().empty());  // believed for a while

  const std::string inherited = "system.posix_acl_default";
  CHECK(ok(s.run(files.set_xattr(s.who, d, inherited, acl::posix_octets(default_list()), 0))));
  modes.forget(d);
  CHECK(of(0666, 0022) == 0666);
  // Somebody else takes the list away, which is seen when the time is over.
  CHECK(ok(s.run(files.remove_xattr(s.who, d, inherited))));
  s.pass(4900ms);
  CHECK(of(0666, 0022) == 0666);
  s.pass(200ms);
  CHECK(of(0666, 0022) == 0644);
}

TEST_CASE(
    "F16 creation mode: an access list says nothing of it, nor does an NFSv4 list that is not inherited") {
  Making m;
  m.mount();
  CHECK(m.of(0666, 0022) == 0644);
  for (const std::uint32_t flags : {0x0U, 0x1U, 0x2U, 0x40U}) {
    CAPTURE(flags);
    m.set_list(flags);
    m.modes.forget(m.d);
    const bool is_inherited = (flags & 0x3U) != 0;  // RFC 8881 6.2.1.4: by files, by directories
    CHECK(m.of(0666, 0022) == (is_inherited ? 0666U : 0644U));
  }
}

TEST_CASE("F16 creation mode: what was asked for before a list was set is not believed behind that") {
  Making m;
  m.mount();
  m.server.hold(nfs4::OP_GETATTR);
  auto before = m.asking(0666, 0022);
  m.client->start(before);
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
  m.modes.forget(m.d);
  m.server.release();
  REQUIRE(m.client->turn_until([&] { return before.done(); }));
  CHECK(before.await_resume() == 0644);
  m.set_list(0x3);
  CHECK(m.of(0666, 0022) == 0666);
}

}  // namespace nfsrdma::fuse
