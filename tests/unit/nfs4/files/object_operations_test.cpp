// Operations on handles against the test server: what they do, what comes along in the same COMPOUND, on
// whose behalf they are made, and what happens where something fails in the middle.
#include "nfs4/files/object_operations.h"

#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

}  // namespace

TEST_CASE("objects: what a path leads to, in one COMPOUND") {
  Scene m;
  m.server.add_file("/real/dir/file", "text");
  m.server.add_symlink("/link", "real/dir");
  EngineClient& c = m.connect();
  m.server.clear_calls();
  const auto find = [&](const char* path) {
    return c.run(c.engine.find(nullptr, engine::Path::parse(path)->spot()));
  };
  auto found = find("/real/dir");
  REQUIRE(ok(found));
  CHECK(m.server.calls().size() == 1);
  CHECK(found->attributes->type == FileType::directory);
  CHECK(find("/link")->attributes->type == FileType::symlink);
  CHECK(errno_of(find("/link/file")) == ELOOP);
  CHECK(errno_of(find("/nothing")) == ENOENT);
  CHECK(find("/nothing/x").error().peer() == "/nothing/x");
}

TEST_CASE("objects: lookup gives object and directory in one COMPOUND, also where there is no such name") {
  Scene m;
  m.server.add_file("/a", "text");
  EngineClient& c = m.connect();
  m.server.clear_calls();
  auto found = c.run(c.engine.lookup(user(7), c.root, "a"));
  REQUIRE(ok(found));
  REQUIRE(found->object);
  CHECK(found->object->attributes->size == 4);
  CHECK(found->object->handle == c.handle("/a"));
  REQUIRE(found->directory);
  CHECK(found->directory->type == FileType::directory);
  m.server.clear_calls();
  auto missing = c.run(c.engine.lookup(user(7), c.root, "b"));
  REQUIRE(ok(missing));
  CHECK_FALSE(missing->object);
  REQUIRE(missing->directory);
  CHECK(missing->directory->change == found->directory->change);
  CHECK(m.server.calls().size() == 1);
  CHECK(errno_of(c.run(c.engine.lookup(nullptr, c.handle("/a"), "x"))) == ENOTDIR);
  m.server.answer(OP_LOOKUP, NFS4ERR_ACCESS);
  CHECK(errno_of(c.run(c.engine.lookup(nullptr, c.root, "a"))) == EACCES);
  m.server.answer(OP_GETATTR, NFS4ERR_IO, 1, 1);
  CHECK(errno_of(c.run(c.engine.lookup(nullptr, c.root, "a"))) == EIO);
  auto bare = c.run(c.engine.lookup(nullptr, c.root, "a", false));
  REQUIRE(ok(bare));
  CHECK(bare->object->handle == c.handle("/a"));
  CHECK_FALSE(bare->object->attributes);
}

TEST_CASE("objects: the parent") {
  Scene m;
  m.server.add_directory("/a/b");
  EngineClient& c = m.connect();
  auto up = c.run(c.engine.parent(nullptr, c.handle("/a/b")));
  REQUIRE(ok(up));
  CHECK(up->handle == c.handle("/a"));
  CHECK(errno_of(c.run(c.engine.parent(nullptr, c.root))) == ENOENT);
}

// As Linux has it (nfs_access_calc_mask).
TEST_CASE("objects: W_OK wants MODIFY and EXTEND of a file, and DELETE as well of a directory") {
  Scene m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  const nfs_fh4 file = c.handle("/f");
  for (std::uint32_t granted = 0; granted < 0x40; ++granted) {
    CAPTURE(granted);
    m.server.on_server([granted](Responder& at) { at.state.habits.most_granted = granted; });
    constexpr std::uint32_t kFile = ACCESS4_MODIFY | ACCESS4_EXTEND, kDirectory = kFile | ACCESS4_DELETE;
    const auto of_file = c.run(c.engine.access(nullptr, file, W_OK));
    const auto of_directory = c.run(c.engine.access(nullptr, c.root, W_OK));
    REQUIRE(ok(of_file));
    REQUIRE(ok(of_directory));
    CHECK((of_file->granted == W_OK) == ((granted & kFile) == kFile));
    CHECK((of_directory->granted == W_OK) == ((granted & kDirectory) == kDirectory));
  }
}

TEST_CASE("objects: attributes, access, space, symbolic links") {
  Scene m;
  m.server.add_file("/a", "text");
  m.server.add_symlink("/l", "where/to");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  CHECK(c.run(c.engine.attributes(nullptr, a))->size == 4);
  auto set = c.run(c.engine.set_attributes(nullptr, a, mode(0600), nullptr));
  REQUIRE(ok(set));
  CHECK(set->mode == 0600U);
  SetAttributes times;
  times.accessed = Time{5, 6};
  times.modified_now = true;
  times.uid = 12;
  auto timed = c.run(c.engine.set_attributes(nullptr, a, times, nullptr));
  REQUIRE(ok(timed));
  CHECK(timed->accessed == Time{5, 6});
  CHECK(timed->owner == "12");
  auto rights = c.run(c.engine.access(nullptr, a, R_OK | X_OK));
  REQUIRE(ok(rights));
  CHECK(rights->granted == R_OK);
  CHECK(rights->type == FileType::regular);
  auto space = c.run(c.engine.space(nullptr, c.root));
  REQUIRE(ok(space));
  CHECK(space->space.total == 1'000'000);
  CHECK(space->space.files_free == 900);
  CHECK(*c.run(c.engine.read_link(nullptr, c.handle("/l"))) == "where/to");
  CHECK(c.run(c.engine.read_link(nullptr, a)).error().status() == NFS4ERR_WRONG_TYPE);
  // The SETATTR was done, whatever its GETATTR says.
  m.server.answer(OP_GETATTR, NFS4ERR_DELAY);
  const auto turn = c.run(writing::take_turn(nullptr, c.loop.now(), "SETATTR"));
  REQUIRE(ok(turn));
  auto blind = c.run(c.engine.set_with_stateid(nullptr, a, {}, mode(0640), *turn));
  REQUIRE(ok(blind));
  CHECK_FALSE(*blind);
  CHECK(c.run(c.engine.attributes(nullptr, a))->mode == 0640U);
}

TEST_CASE("objects: every operation is made with its caller's credential") {
  Scene m;
  m.server.add_file("/a", "text");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  m.server.clear_calls();
  const Caller one = user(1000, 1000, {4, 24, 27});
  const Caller other = user(1001);
  CHECK(ok(c.run(c.engine.attributes(one, a))));
  CHECK(ok(c.run(c.engine.attributes(other, a))));
  CHECK(ok(c.run(c.engine.attributes(nullptr, a))));
  CHECK(ok(c.run(c.engine.make_directory(one, c.root, "d", 0755))));
  const auto calls = m.server.calls();
  REQUIRE(calls.size() == 4);
  CHECK(is_of(calls[0].credential, one));
  CHECK(is_of(calls[1].credential, other));
  CHECK_FALSE(is_of(calls[2].credential, one));
  CHECK_FALSE(is_of(calls[2].credential, other));
  CHECK(is_of(calls[3].credential, one));
}

TEST_CASE("objects: directories, links and nodes are made in one round trip, attributes and all") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.clear_calls();
  auto made = c.run(c.engine.make_directory(nullptr, c.root, "d", 0700));
  REQUIRE(ok(made));
  CHECK(m.server.calls().size() == 1);
  CHECK(made->object.attributes->type == FileType::directory);
  CHECK(made->object.attributes->mode == 0700U);
  CHECK(made->directory->change == c.run(c.engine.attributes(nullptr, c.root))->change);
  auto link = c.run(c.engine.make_symlink(nullptr, made->object.handle, "l", "to/where"));
  REQUIRE(ok(link));
  CHECK(*c.run(c.engine.read_link(nullptr, link->object.handle)) == "to/where");
  auto fifo = c.run(c.engine.make_node(nullptr, made->object.handle, "f", FileType::fifo, {}, 0600));
  REQUIRE(ok(fifo));
  CHECK(fifo->object.attributes->type == FileType::fifo);
  for (const FileType type : {FileType::socket, FileType::character, FileType::block}) {
    const std::string name = "n" + std::to_string(static_cast<int>(type));
    auto node = c.run(c.engine.make_node(nullptr, made->object.handle, name, type, {8, 1}, 0600));
    REQUIRE(ok(node));
    CHECK(node->object.attributes->type == type);
  }
  CHECK(errno_of(c.run(c.engine.make_directory(nullptr, c.root, "d", 0700))) == EEXIST);
  CHECK_FALSE(c.run(c.engine.make_node(nullptr, c.root, "r", FileType::regular, {}, 0600)));
}

TEST_CASE("objects: what was made is there, even if the operations behind it fail") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.answer(OP_GETFH, NFS4ERR_DELAY);
  auto made = c.run(c.engine.make_directory(nullptr, c.root, "d", 0700));
  REQUIRE(ok(made));
  CHECK(made->object.handle == c.handle("/d"));
  CHECK(made->object.attributes->type == FileType::directory);
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  m.server.answer(OP_RESTOREFH, NFS4ERR_IO);
  made = c.run(c.engine.make_directory(nullptr, c.root, "e", 0700));
  REQUIRE(ok(made));
  CHECK_FALSE(made->directory);
}

TEST_CASE("objects: a lost Reply is recovered, and nothing is done twice") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.drop_after(OP_CREATE);
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "d", 0700))));
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  m.server.drop_after(OP_RENAME);
  CHECK(ok(c.run(c.engine.rename(nullptr, c.root, "d", c.root, "e", std::nullopt))));
  CHECK(m.server.succeeded(OP_RENAME) == 1);
  m.server.drop_after(OP_REMOVE);
  CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "e", Engine::Removed::file))));
  CHECK(m.server.succeeded(OP_REMOVE) == 1);
}

TEST_CASE("objects: BADSESSION in the middle") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.forget_sessions();
  CHECK(ok(c.run(c.engine.make_directory(nullptr, c.root, "d", 0700))));
  m.server.restart();
  CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "d", Engine::Removed::file))));
}

TEST_CASE("objects: remove, rename and link tell what became of the directories") {
  Scene m;
  m.server.add_file("/d/a", "text");
  m.server.add_directory("/e");
  EngineClient& c = m.connect();
  const nfs_fh4 d = c.handle("/d"), e = c.handle("/e"), a = c.handle("/d/a");
  m.server.clear_calls();
  auto moved = c.run(c.engine.rename(nullptr, d, "a", e, "b", std::nullopt));
  REQUIRE(ok(moved));
  CHECK(m.server.calls().size() == 1);
  const auto change_of = [&](const nfs_fh4& of) { return c.run(c.engine.attributes(nullptr, of))->change; };
  CHECK(moved->source->change == change_of(d));
  CHECK(moved->target->change == change_of(e));
  CHECK(moved->source->file_id != moved->target->file_id);
  auto linked = c.run(c.engine.link(nullptr, a, d, "again"));
  REQUIRE(ok(linked));
  CHECK(linked->object.handle == a);
  CHECK(linked->object.attributes->links == 2U);
  CHECK(linked->directory->change == change_of(d));
  auto removed = c.run(c.engine.remove(nullptr, d, "again", Engine::Removed::file));
  REQUIRE(ok(removed));
  CHECK((*removed)->change == change_of(d));
  CHECK(errno_of(c.run(c.engine.remove(nullptr, d, "again", Engine::Removed::file))) == ENOENT);
  CHECK(errno_of(c.run(c.engine.remove(nullptr, c.root, "e", Engine::Removed::file))) == ENOTEMPTY);
  CHECK(errno_of(c.run(c.engine.rename(nullptr, d, "x", e, "y", std::nullopt))) == ENOENT);
}

TEST_CASE("objects: directories are read page by page, with handles") {
  Scene m;
  for (int i = 0; i < 2000; ++i) m.server.add_file("/dir/name" + std::to_string(i), "");
  EngineClient& c = m.connect();
  const nfs_fh4 dir = c.handle("/dir");
  std::set<std::string> names;
  std::uint64_t cookie = 0;
  ListVerifier verifier{};
  int pages = 0;
  for (bool eof = false; !eof; ++pages) {
    auto page = c.run(c.engine.list(nullptr, dir, cookie, verifier));
    REQUIRE(ok(page));
    REQUIRE(pages < 100);
    for (const auto& entry : page->entries) {
      CHECK(entry.attributes.type == FileType::regular);
      CHECK(entry.handle);
      names.insert(entry.name);
      cookie = entry.cookie;
    }
    verifier = page->verifier;
    eof = page->eof;
  }
  CHECK(names.size() == 2000);
  CHECK(pages > 2);
  m.server.add_directory("/empty");
  auto page = c.run(c.engine.list(nullptr, c.handle("/empty"), 0, {}));
  REQUIRE(ok(page));
  CHECK(page->eof);
  CHECK(page->entries.empty());
  m.server.answer(OP_READDIR, NFS4ERR_NOT_SAME);
  CHECK(c.run(c.engine.list(nullptr, dir, cookie, verifier)).error().status() == NFS4ERR_NOT_SAME);
}

TEST_CASE("objects: each time is set as it was asked for, and the group beside the owner") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  SetAttributes changes;
  changes.modified = Time{7, 8};
  changes.accessed_now = true;
  changes.uid = 12;
  changes.gid = 34;
  const auto first = c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr));
  REQUIRE(ok(first));
  CHECK(first->modified == Time{7, 8});
  CHECK(first->accessed.seconds > 1000);
  CHECK(first->uid == 12U);
  CHECK(first->gid == 34U);
  changes = SetAttributes();
  changes.accessed = Time{5, 6};
  const auto second = c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr));
  REQUIRE(ok(second));
  CHECK(second->accessed == Time{5, 6});
  CHECK(second->modified == Time{7, 8});
}

TEST_CASE("objects: what is no symbolic link is EINVAL, however the server says so") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EINVAL);
  for (const nfsstat4 status : {NFS4ERR_INVAL, NFS4ERR_NOTSUPP}) {
    CAPTURE(status);
    m.server.answer(OP_READLINK, status);
    CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EINVAL);
  }
  m.server.answer(OP_READLINK, NFS4ERR_ACCESS);
  CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EACCES);
}

TEST_CASE("objects: a link is made although the server gives no attributes behind it") {
  for (const unsigned skipped : {0U, 1U}) {  // the directory's, the file's
    CAPTURE(skipped);
    Scene m;
    m.server.add_file("/f", "text");
    EngineClient& c = m.connect();
    const nfs_fh4 handle = c.handle("/f");
    m.server.answer(OP_GETATTR, NFS4ERR_DELAY, 1, skipped);
    auto made = c.run(c.engine.link(nullptr, handle, c.root, "new"));
    REQUIRE(ok(made));
    CHECK(made->object.handle == handle);
    CHECK_FALSE(made->object.attributes);
    CHECK(m.server.content("/new") == "text");
  }
}

TEST_CASE("xattrs: set, get, list over pages, remove") {
  Scene m;
  m.server.add_file("/a", "");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  const std::vector<std::byte> value(3000, std::byte{7});
  const std::uint64_t before = c.run(c.engine.attributes(nullptr, a))->change;
  CHECK(ok(c.run(c.engine.set_xattr(nullptr, a, "one", value, XattrMode::create))));
  CHECK(c.run(c.engine.attributes(nullptr, a))->change > before);
  CHECK(*c.run(c.engine.get_xattr(nullptr, a, "one")) == value);
  CHECK(errno_of(c.run(c.engine.set_xattr(nullptr, a, "one", value, XattrMode::create))) == EEXIST);
  CHECK(errno_of(c.run(c.engine.set_xattr(nullptr, a, "two", value, XattrMode::replace))) == ENODATA);
  const std::vector<std::byte> largest(65536, std::byte{9});
  CHECK(ok(c.run(c.engine.set_xattr(nullptr, a, "large", largest, XattrMode::either))));
  CHECK(*c.run(c.engine.get_xattr(nullptr, a, "large")) == largest);
  const std::vector<std::byte> larger(65537);
  CHECK(c.run(c.engine.set_xattr(nullptr, a, "x", larger, XattrMode::either)).error().status() ==
        NFS4ERR_XATTR2BIG);
  m.server.set_xattrs_at_once(3);
  for (int i = 0; i < 10; ++i) {
    CHECK(ok(c.run(c.engine.set_xattr(nullptr, a, "n" + std::to_string(i), {}, XattrMode::either))));
  }
  m.server.clear_calls();
  auto names = c.run(c.engine.list_xattrs(nullptr, a));
  REQUIRE(ok(names));
  CHECK(names->size() == 12);
  CHECK(m.server.count(OP_LISTXATTRS) == 4);
  CHECK(ok(c.run(c.engine.remove_xattr(nullptr, a, "one"))));
  CHECK(errno_of(c.run(c.engine.get_xattr(nullptr, a, "one"))) == ENODATA);
  CHECK(errno_of(c.run(c.engine.remove_xattr(nullptr, a, "one"))) == ENODATA);
}

TEST_CASE("xattrs: none in NFSv4.1") {
  Scene m;
  m.server.set_newest_minor(1);
  EngineClient& c = m.connect();
  m.server.clear_calls();
  CHECK(c.run(c.engine.list_xattrs(nullptr, c.root)).error().status() == NFS4ERR_NOTSUPP);
  CHECK(c.run(c.engine.get_xattr(nullptr, c.root, "x")).error().status() == NFS4ERR_NOTSUPP);
  CHECK(m.server.calls().empty());
}

TEST_CASE("xattrs: a list that is longer than any program can take does not fill the memory") {
  Scene m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  m.server.on_server([](Responder& responder) {
    Inode* const inode = responder.state.find("/f");
    for (unsigned i = 1000; i < 2000; ++i) inode->xattrs[std::string(240, 'n') + std::to_string(i)].clear();
  });
  const auto names = c.run(c.engine.list_xattrs(nullptr, c.handle("/f")));
  CHECK(errno_of(names) == E2BIG);
  CHECK(m.server.count(OP_LISTXATTRS) <= 3);
}

}  // namespace nfsrdma
