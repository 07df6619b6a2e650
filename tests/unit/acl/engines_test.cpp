// Access control lists through the engines, and as extended attributes of a mount.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "acl/octets.h"
#include "support/mounted.h"
#include "support/v3_fixture.h"

namespace nfsrdma::acl {
namespace {

using namespace testing;
using engine::Spot;

PosixAce ace_of(AclTag tag, std::uint32_t permissions, std::uint32_t id = 0) {
  return {tag, id, permissions};
}
PosixAcl mode_list(std::uint32_t mode) {
  return {ace_of(AclTag::owner, (mode >> 6U) & 7U), ace_of(AclTag::owning_group, (mode >> 3U) & 7U),
          ace_of(AclTag::other, mode & 7U)};
}
/// With a user of its own.
PosixAcl named_list() {
  return {ace_of(AclTag::owner, 6), ace_of(AclTag::user, 4, 1000), ace_of(AclTag::owning_group, 4),
          ace_of(AclTag::mask, 4), ace_of(AclTag::other, 0)};
}

void serve_acls(Scene3& s) {
  s.habits([](Habits& habits) { habits.has_acls = true; });
}

/// The test runs for each.
unsigned either_version() {
  unsigned version = 3;
  SUBCASE("v3") {}
  SUBCASE("v2") {
    version = 2;
  }
  return version;
}

}  // namespace

TEST_CASE(
    "acl: over NFSv3 and v2 both lists go and come, and a mask that only the wire needs does not show") {
  Scene3 s(either_version());
  serve_acls(s);
  s.server.add_file("/f", "text");
  const auto file = s.get(s.engine->find(s.who, Spot(std::nullopt, {"f"}))).handle;
  CHECK(s.engine->acl_form() == engine::Engine::AclForm::posix);
  const auto plain = std::get<PosixAcls>(s.get(s.engine->get_acl(s.who, file)));
  CHECK(plain.access == mode_list(0644));
  CHECK(plain.inherited.empty());

  PosixAcls lists;
  lists.access = named_list();
  const std::uint64_t before = s.get(s.engine->attributes(s.who, file)).change;
  CHECK(ok(s.run(s.engine->set_acl(s.who, file, lists))));
  CHECK(std::get<PosixAcls>(s.get(s.engine->get_acl(s.who, file))) == lists);
  CHECK(s.get(s.engine->attributes(s.who, file)).change != before);
  CHECK(s.get(s.engine->has_acls(s.who, file)));

  const auto directory = s.get(s.engine->make_directory(s.who, s.root, "d", 0755)).object.handle;
  lists.access = mode_list(0750);
  lists.inherited = named_list();
  CHECK(ok(s.run(s.engine->set_acl(s.who, directory, lists))));
  CHECK(std::get<PosixAcls>(s.get(s.engine->get_acl(s.who, directory))) == lists);
  CHECK(errno_of(s.run(s.engine->set_acl(s.who, directory, Nfs4Acl()))) == EOPNOTSUPP);
}

TEST_CASE("acl: a server without NFSACL is asked once") {
  Scene3 s(either_version());
  for (int i = 0; i < 2; ++i) {
    CHECK(s.error(s.engine->get_acl(s.who, s.root)) == EOPNOTSUPP);
    CHECK(!s.get(s.engine->has_acls(s.who, s.root)));
  }
  const auto& calls = s.engine->counters().calls;
  const auto counted = std::ranges::find(calls, std::string_view("GETACL"), &engine::CallCounters::what);
  REQUIRE(counted != calls.end());
  CHECK(counted->round_trip.count() == 1);
}

TEST_CASE("acl: over NFSv4 the attribute goes and comes as it is") {
  MountedEngine m;
  m.server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
  m.server.add_file("/f", "text");
  m.mount();
  EngineClient& c = *m.client;
  const auto file = c.handle("/f");
  const Nfs4Acl list{{0, 0, 0x1601bf, "OWNER@"}, {1, 0x40, 2, "staff@example.org"}};
  CHECK(ok(c.run(c.engine.set_acl(m.who, file, list))));
  CHECK(std::get<Nfs4Acl>(*c.run(c.engine.get_acl(m.who, file))) == list);
  CHECK(errno_of(c.run(c.engine.set_acl(m.who, file, PosixAcls()))) == EOPNOTSUPP);

  const fs::Entry entry = m.lookup("f");
  CHECK(m.get(m.files->get_xattr(m.who, entry.inode, "system.nfs4_acl")) == acl::nfs4_octets(list));
  CHECK(m.error(m.files->get_xattr(m.who, entry.inode, "system.posix_acl_access")) == EOPNOTSUPP);
  CHECK(m.get(m.files->list_xattrs(m.who, entry.inode)) == std::vector<std::string>{"system.nfs4_acl"});
  const Nfs4Acl other{{0, 0, 1, "EVERYONE@"}};
  CHECK(ok(c.run(m.files->set_xattr(m.who, entry.inode, "system.nfs4_acl", acl::nfs4_octets(other), 0))));
  CHECK(std::get<Nfs4Acl>(*c.run(c.engine.get_acl(m.who, file))) == other);
  CHECK(errno_of(c.run(m.files->remove_xattr(m.who, entry.inode, "system.nfs4_acl"))) == EOPNOTSUPP);
}

TEST_CASE("acl: a server's file system without lists, over NFSv4") {
  MountedEngine m;
  m.server.add_file("/f", "text");
  m.mount();
  const fs::Entry entry = m.lookup("f");
  CHECK(m.error(m.files->get_xattr(m.who, entry.inode, "system.nfs4_acl")) == EOPNOTSUPP);
  CHECK(m.get(m.files->list_xattrs(m.who, entry.inode)).empty());
}

TEST_CASE("acl: the extended attributes of a mount of NFSv3") {
  Scene3 s;
  serve_acls(s);
  const auto root = s.get(s.engine->find(s.who, Spot(s.root)));
  const std::shared_ptr<engine::Engine> engine(std::shared_ptr<void>(), &*s.engine);
  fs::FileSystem files(engine, fs::CacheOptions(), root);
  std::vector<std::uint64_t> doubted;
  files.on_doubt([&doubted](std::uint64_t inode) { doubted.push_back(inode); });
  const auto directory = s.get(files.make_directory(s.who, fs::Inodes::kRoot, "d", 0755));
  const std::uint64_t id = directory.inode;
  const std::string access = "system.posix_acl_access", inherited = "system.posix_acl_default";

  CHECK(s.error(files.get_xattr(s.who, id, access)) == ENODATA);
  CHECK(s.error(files.get_xattr(s.who, id, inherited)) == ENODATA);
  CHECK(s.error(files.get_xattr(s.who, id, "system.nfs4_acl")) == EOPNOTSUPP);
  CHECK(s.get(files.list_xattrs(s.who, id)).empty());

  CHECK(ok(s.run(files.set_xattr(s.who, id, access, acl::posix_octets(named_list()), 0))));
  CHECK(doubted == std::vector{id});
  CHECK(ok(s.run(files.set_xattr(s.who, id, inherited, acl::posix_octets(mode_list(0700)), 0))));
  CHECK(s.get(files.get_xattr(s.who, id, access)) == acl::posix_octets(named_list()));
  CHECK(s.get(files.get_xattr(s.who, id, inherited)) == acl::posix_octets(mode_list(0700)));
  CHECK(s.get(files.list_xattrs(s.who, id)) == std::vector{access, inherited});
  CHECK(errno_of(s.run(files.set_xattr(s.who, id, access, std::vector<std::byte>(3), 0))) == EINVAL);

  CHECK(ok(s.run(files.remove_xattr(s.who, id, access))));
  CHECK(ok(s.run(files.remove_xattr(s.who, id, inherited))));
  CHECK(s.get(files.list_xattrs(s.who, id)).empty());
}

TEST_CASE("acl: without its access list an object has the mode that the list's mask says") {
  Scene3 s;
  serve_acls(s);
  const auto root = s.get(s.engine->find(s.who, Spot(s.root)));
  const std::shared_ptr<engine::Engine> engine(std::shared_ptr<void>(), &*s.engine);
  fs::FileSystem files(engine, fs::CacheOptions(), root);
  const std::uint64_t d = s.get(files.make_directory(s.who, fs::Inodes::kRoot, "d", 0755)).inode;
  const PosixAcl list{{AclTag::owner, 0, 7},
                      {AclTag::user, 1000, 4},
                      {AclTag::owning_group, 0, 7},
                      {AclTag::mask, 0, 5},
                      {AclTag::other, 0, 1}};
  const std::string access = "system.posix_acl_access";
  CHECK(ok(s.run(files.set_xattr(s.who, d, access, posix_octets(list), 0))));
  CHECK(ok(s.run(files.remove_xattr(s.who, d, access))));
  const auto handle = s.get(s.engine->find(s.who, Spot(std::nullopt, {"d"}))).handle;
  const auto left = std::get<PosixAcls>(s.get(s.engine->get_acl(s.who, handle)));
  CHECK(left.access == PosixAcl{{AclTag::owner, 0, 7}, {AclTag::owning_group, 0, 5}, {AclTag::other, 0, 1}});
}

}  // namespace nfsrdma::acl
