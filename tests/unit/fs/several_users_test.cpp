// A mount for several users: the server judges each of them, whatever others have looked up.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "fs/search_rights.h"
#include "support/engine_fixture.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;
using nfsrdma::testing::user;
using plain::Plain;

CacheOptions for_several() {
  CacheOptions out;
  out.several_users = true;
  return out;
}

/// A directory "d" with a file "f" and a file "g".
struct Several : Plain {
  explicit Several(CacheOptions options = for_several()) : Plain(options) {
    engine->tells = true;
    engine->nodes[2].type = FileType::directory;
    engine->nodes[2].mode = 0755;
    engine->nodes[3].mode = 0644;
    engine->nodes[4].mode = 0644;
    engine->nodes.at(1).names = {{"d", 2}};
    engine->nodes.at(2).names = {{"f", 3}, {"g", 4}};
  }
  Entry look_up(const Caller& who, std::uint64_t directory, const std::string& name) {
    return get(files->lookup(who, directory, name));
  }
  [[nodiscard]] bool asked(const char* what) { return take_calls().find(what) != std::string::npos; }

  const Caller root = user(0), alice = user(1000), bob = user(1001);
};

}  // namespace

TEST_CASE("F28 a name that one user has looked up is the server's to tell another") {
  Several s;
  const std::uint64_t d = s.look_up(s.root, Inodes::kRoot, "d").inode;
  const Entry f = s.look_up(s.root, d, "f");
  // The kernel would let everybody through a name that it may believe.
  CHECK(f.name_valid == Seconds(0));
  CHECK(f.attributes_valid > Seconds(0));
  s.take_calls();
  s.engine->fail("lookup", EACCES);
  CHECK(s.error(s.files->lookup(s.bob, d, "f")) == EACCES);
  CHECK(*s.engine->callers.at("lookup") == *s.bob);
  // A refusal is not kept, and what the server grants him it has not granted others.
  CHECK(s.look_up(s.bob, d, "f").inode == f.inode);
  s.engine->fail("lookup", EACCES);
  CHECK(s.error(s.files->lookup(s.alice, d, "f")) == EACCES);
}

TEST_CASE(
    "F28 whom the server has let walk through a directory is told of it without asking the server again") {
  Several s;
  const Entry first = s.look_up(s.alice, Inodes::kRoot, "d");
  const std::uint64_t f = s.look_up(s.alice, first.inode, "f").inode;
  s.take_calls();
  const Entry again = s.look_up(s.alice, Inodes::kRoot, "d");
  CHECK(s.take_calls().empty());
  CHECK(again.inode == first.inode);
  CHECK(again.attributes.file_id == first.attributes.file_id);
  CHECK(again.name_valid == Seconds(0));
  // Each is a lookup that the kernel forgets.
  s.files->forget(first.inode, 1);
  CHECK(s.files->holdings().inodes == 3);
  SUBCASE("until this mount changes the rights of the directory that the name is in") {
    SetAttributes changes;
    changes.mode = 0700;
    (void)s.get(s.files->set_attributes(s.alice, Inodes::kRoot, changes, nullptr));
    s.take_calls();
    (void)s.look_up(s.alice, Inodes::kRoot, "d");
    CHECK(s.asked("lookup"));
  }
  SUBCASE("until the name is taken away here") {
    CHECK(s.error(s.files->rename(s.alice, Inodes::kRoot, "d", Inodes::kRoot, "e")) == 0);
    s.take_calls();
    CHECK(s.look_up(s.alice, Inodes::kRoot, "d").inode == 0);
    CHECK(s.asked("lookup"));
  }
  SUBCASE("until the name is found to lead elsewhere") {
    s.engine->nodes.at(2).names["f"] = 4;
    CHECK(s.error(s.files->open(s.alice, f, O_RDONLY)) == ESTALE);
    CHECK(s.look_up(s.alice, first.inode, "f").inode != f);
  }
}

TEST_CASE(
    "F28 an entry that is known is told at once, without a task, and only to whom the server lets look") {
  Several s;
  const std::uint64_t d = s.look_up(s.alice, Inodes::kRoot, "d").inode;
  const std::uint64_t f = s.look_up(s.alice, d, "f").inode;
  CHECK(s.look_up(s.alice, d, "none").inode == 0);
  s.take_calls();
  const auto known = s.files->known_entry(s.alice, d, "f");
  REQUIRE(known);
  CHECK(known->inode == f);
  CHECK(known->name_valid == Seconds(0));
  CHECK(known->attributes_valid > Seconds(0));
  const auto none = s.files->known_entry(s.alice, d, "none");
  REQUIRE(none);
  CHECK(none->inode == 0);
  CHECK_FALSE(s.files->known_entry(s.bob, d, "f"));
  CHECK_FALSE(s.files->known_entry(s.bob, d, "none"));
  CHECK_FALSE(s.files->known_entry(s.alice, d, "g"));
  CHECK_FALSE(s.files->known_entry(s.alice, d, "."));
  CHECK_FALSE(s.files->known_entry(s.alice, d, ".."));
  CHECK_FALSE(s.files->known_entry(s.alice, 12345, "f"));
  CHECK(s.take_calls().empty());
  // It counts as a lookup.
  s.files->forget(f, 1);
  CHECK(s.files->holdings().inodes == 3);
  s.files->forget(f, 1);
  CHECK(s.files->holdings().inodes == 2);
}

TEST_CASE("F28 attributes are known until their time is over, and not while the file is written") {
  Several s;
  const std::uint64_t d = s.look_up(s.root, Inodes::kRoot, "d").inode;
  const std::uint64_t f = s.look_up(s.root, d, "f").inode;
  s.take_calls();
  const auto known = s.files->known_attributes(f);
  REQUIRE(known);
  CHECK(known->attributes.file_id == 3);
  CHECK_FALSE(s.files->known_attributes(12345));
  const OpenedFile file = s.get(s.files->open(s.root, f, O_RDWR));
  (void)s.get(s.files->attributes(s.root, f));
  REQUIRE(s.files->known_attributes(f));
  s.engine->hold("write");
  s.write(file, "abc", 0);
  CHECK_FALSE(s.files->known_attributes(f));
  CHECK_FALSE(s.files->known_entry(s.root, d, "f"));
  s.engine->release("write");
  s.turn();
  (void)s.get(s.files->attributes(s.root, f));
  REQUIRE(s.files->known_attributes(f));
  s.world.pass(std::chrono::minutes(2));
  CHECK_FALSE(s.files->known_attributes(f));
}

TEST_CASE("F28 a directory that nobody has walked through is there only if the server says so now") {
  Several s;
  CHECK(s.look_up(s.alice, Inodes::kRoot, "d").inode != 0);
  // mkdir(2) of another machine's lock directory looks the name up, and fails where that is there.
  s.engine->nodes.at(1).names.clear();
  CHECK(s.look_up(s.alice, Inodes::kRoot, "d").inode == 0);
}

TEST_CASE("F28 a name that is not there is believed for a moment, by whom the server lets look") {
  Several s;
  const std::uint64_t d = s.look_up(s.alice, Inodes::kRoot, "d").inode;
  const Entry none = s.look_up(s.alice, d, "none");
  CHECK(none.inode == 0);
  CHECK(none.name_valid == Seconds(0));
  s.take_calls();
  CHECK(s.look_up(s.alice, d, "none").inode == 0);
  CHECK(s.take_calls().empty());
  s.engine->fail("lookup", EACCES);
  CHECK(s.error(s.files->lookup(s.bob, d, "none")) == EACCES);
  // This mount may have made it since.
  (void)s.get(s.files->make_directory(s.alice, d, "none", 0755));
  CHECK(s.look_up(s.alice, d, "none").inode != 0);
}

TEST_CASE("F28 a name that was made is there, though the kernel has forgotten the directory meanwhile") {
  Several s;
  const Entry d = s.look_up(s.alice, Inodes::kRoot, "d");
  CHECK(s.look_up(s.alice, d.inode, "none").inode == 0);
  const Entry made = s.get(s.files->make_directory(s.alice, d.inode, "none", 0755));
  s.files->forget(made.inode, 1);
  s.files->forget(d.inode, 1);
  // The directory has its number again, and nothing is known any more of what was changed in it.
  CHECK(s.look_up(s.alice, Inodes::kRoot, "d").inode == d.inode);
  (void)s.look_up(s.alice, d.inode, "f");
  CHECK(s.look_up(s.alice, d.inode, "none").inode == made.inode);
}

TEST_CASE("F28 a listing of one user's tells another nothing") {
  Several s;
  const std::uint64_t d = s.look_up(s.root, Inodes::kRoot, "d").inode;
  const auto listing = s.get(s.files->open_directory(s.root, d, O_DIRECTORY));
  const auto names = s.get(s.files->list(listing, 0));
  CHECK(s.files->entry_of(*listing, names.front()).name_valid == Seconds(0));
  s.take_calls();
  s.engine->fail("lookup", EACCES);
  CHECK(s.error(s.files->lookup(s.bob, d, names.front().name)) == EACCES);
  // Nor does it tell the same user, who may list and has not been let look names up.
  s.engine->fail("lookup", EACCES);
  CHECK(s.error(s.files->lookup(s.root, d, names.back().name)) == EACCES);
}

TEST_CASE("F28 what may only be run is not read, and what may only be read is not run") {
  Several s;
  const std::uint64_t d = s.look_up(s.alice, Inodes::kRoot, "d").inode;
  const std::uint64_t f = s.look_up(s.alice, d, "f").inode;
  s.take_calls();
  const auto open = [&](int flags) { return s.error(s.files->open(s.alice, f, flags)); };
  CHECK(open(O_RDONLY) == 0);
  CHECK_FALSE(s.asked("access"));
  s.engine->fail("access", EACCES);
  CHECK(open(O_RDONLY | FileSystem::kForExecution) == EACCES);
  CHECK(open(O_RDONLY | FileSystem::kForExecution) == 0);
  s.engine->nodes.at(3).mode = 0711;
  s.engine->fail("access", EACCES);
  CHECK(open(O_RDONLY) == EACCES);
  CHECK(open(O_RDONLY) == 0);  // by a list, or since he is somebody else to the server
  CHECK(open(O_WRONLY) == 0);
}

TEST_CASE("F28 a mount of one user's own has the kernel believe names") {
  Several s(CacheOptions{});
  const std::uint64_t d = s.look_up(s.alice, Inodes::kRoot, "d").inode;
  CHECK(s.look_up(s.alice, d, "f").name_valid > Seconds(0));
  s.take_calls();
  (void)s.look_up(s.alice, d, "f");
  CHECK(s.asked("lookup"));
}

TEST_CASE("F28 search rights: of so many users, for so long, and until the directory changes") {
  SearchRights rights;
  const async::TimePoint now{};
  const Caller who = user(7), same = user(7), other = user(8);
  rights.granted(who, now + 1s);
  CHECK(rights.has(same, now));
  CHECK_FALSE(rights.has(other, now));
  CHECK_FALSE(rights.has(nullptr, now));
  CHECK_FALSE(rights.has(who, now + 1s));
  rights.handle_change({5, 0});
  CHECK_FALSE(rights.has(who, now));
  rights.granted(who, now + 1s);
  rights.handle_change({5, 0});
  CHECK(rights.has(who, now));
  for (std::uint32_t i = 0; i < SearchRights::kMost; ++i) rights.granted(user(100 + i), now + 1s);
  CHECK_FALSE(rights.has(who, now));
  CHECK(rights.has(user(100), now));
}

}  // namespace nfsrdma::fs
