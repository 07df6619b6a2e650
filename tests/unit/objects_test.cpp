// Operations on handles against the test server: what they do, what comes along in the same COMPOUND, on
// whose behalf they are made, and what happens where something fails in the middle.
#include "nfs4/objects.h"

#include <cerrno>
#include <set>

#include "support/engine_fixture.h"

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
    return c.run(c.objects.find(nullptr, engine::Path::parse(path)->spot(), some_attributes()));
  };
  auto found = find("/real/dir");
  REQUIRE(ok(found));
  CHECK(m.server.calls().size() == 1);
  CHECK(found->attributes.type == NF4DIR);
  CHECK(find("/link")->attributes.type == NF4LNK);
  CHECK(errno_of(find("/link/file")) == ELOOP);
  CHECK(errno_of(find("/nothing")) == ENOENT);
  CHECK(find("/nothing/x").error().peer() == "/nothing/x");
}

TEST_CASE("objects: lookup gives node and directory in one COMPOUND, also where there is no such name") {
  Scene m;
  m.server.add_file("/a", "text");
  EngineClient& c = m.connect();
  m.server.clear_calls();
  auto found = c.run(c.objects.lookup(user(7), c.root, "a", both()));
  REQUIRE(ok(found));
  REQUIRE(found->node);
  CHECK(found->node->attributes.size == 4);
  CHECK(found->node->handle == c.handle("/a"));
  REQUIRE(found->directory);
  CHECK(found->directory->type == NF4DIR);
  m.server.clear_calls();
  auto missing = c.run(c.objects.lookup(user(7), c.root, "b", both()));
  REQUIRE(ok(missing));
  CHECK_FALSE(missing->node);
  REQUIRE(missing->directory);
  CHECK(missing->directory->change == found->directory->change);
  CHECK(m.server.calls().size() == 1);
  CHECK(errno_of(c.run(c.objects.lookup(nullptr, c.handle("/a"), "x", both()))) == ENOTDIR);
  m.server.answer(OP_LOOKUP, NFS4ERR_ACCESS);
  CHECK(errno_of(c.run(c.objects.lookup(nullptr, c.root, "a", both()))) == EACCES);
  m.server.answer(OP_GETATTR, NFS4ERR_IO, 1, 1);
  CHECK(errno_of(c.run(c.objects.lookup(nullptr, c.root, "a", both()))) == EIO);
  auto bare = c.run(c.objects.lookup(nullptr, c.root, "a", {}));
  REQUIRE(ok(bare));
  CHECK(bare->node->handle == c.handle("/a"));
}

TEST_CASE("objects: lookup_parent") {
  Scene m;
  m.server.add_directory("/a/b");
  EngineClient& c = m.connect();
  auto up = c.run(c.objects.lookup_parent(nullptr, c.handle("/a/b"), some_attributes()));
  REQUIRE(ok(up));
  CHECK(up->handle == c.handle("/a"));
  CHECK(errno_of(c.run(c.objects.lookup_parent(nullptr, c.root, {}))) == ENOENT);
}

TEST_CASE("objects: attributes, access, space, symbolic links") {
  Scene m;
  m.server.add_file("/a", "text");
  m.server.add_symlink("/l", "where/to");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  CHECK(c.run(c.objects.attributes(nullptr, a, some_attributes()))->size == 4);
  auto set = c.run(c.objects.set_attributes(nullptr, a, {}, mode(0600), some_attributes()));
  REQUIRE(ok(set));
  CHECK(set->mode == 0600U);
  SetAttributes times;
  times.accessed = Time{5, 6};
  times.modified_now = true;
  times.uid = 12;
  auto timed = c.run(c.objects.set_attributes(nullptr, a, {}, times, some_attributes()));
  REQUIRE(ok(timed));
  CHECK(timed->time_access == nfstime4{5, 6});
  CHECK(timed->owner->value == "12");
  auto granted = c.run(c.objects.access(nullptr, a, ACCESS4_READ | ACCESS4_EXECUTE, some_attributes()));
  REQUIRE(ok(granted));
  CHECK(granted->access == ACCESS4_READ);
  CHECK(granted->attributes.size == 4);
  auto space = c.run(c.objects.space(nullptr, c.root));
  REQUIRE(ok(space));
  CHECK(space->space_total == 1'000'000);
  CHECK(space->files_free == 900);
  CHECK(*c.run(c.objects.read_link(nullptr, c.handle("/l"))) == "where/to");
  CHECK(c.run(c.objects.read_link(nullptr, a)).error().status() == NFS4ERR_WRONG_TYPE);
  // The SETATTR was done, whatever its GETATTR says.
  m.server.answer(OP_GETATTR, NFS4ERR_DELAY);
  auto blind = c.run(c.objects.set_attributes(nullptr, a, {}, mode(0640), some_attributes()));
  REQUIRE(ok(blind));
  CHECK_FALSE(blind->mode);
  CHECK(c.run(c.objects.attributes(nullptr, a, some_attributes()))->mode == 0640U);
}

TEST_CASE("objects: every operation is made with its caller's credential") {
  Scene m;
  m.server.add_file("/a", "text");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  m.server.clear_calls();
  const Caller one = user(1000, 1000, {4, 24, 27});
  const Caller other = user(1001);
  CHECK(ok(c.run(c.objects.attributes(one, a, some_attributes()))));
  CHECK(ok(c.run(c.objects.attributes(other, a, some_attributes()))));
  CHECK(ok(c.run(c.objects.attributes(nullptr, a, some_attributes()))));
  CHECK(ok(c.run(c.objects.make_directory(one, c.root, "d", mode(0755), both()))));
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
  auto made = c.run(c.objects.make_directory(nullptr, c.root, "d", mode(0700), both()));
  REQUIRE(ok(made));
  CHECK(m.server.calls().size() == 1);
  CHECK(made->node.attributes.type == NF4DIR);
  CHECK(made->node.attributes.mode == 0700U);
  CHECK(made->directory.info.after == made->directory.attributes->change);
  auto link = c.run(c.objects.make_symlink(nullptr, made->node.handle, "l", "to/where", {}, both()));
  REQUIRE(ok(link));
  CHECK(*c.run(c.objects.read_link(nullptr, link->node.handle)) == "to/where");
  auto fifo = c.run(c.objects.make_node(nullptr, made->node.handle, "f", NF4FIFO, {}, mode(0600), both()));
  REQUIRE(ok(fifo));
  CHECK(fifo->node.attributes.type == NF4FIFO);
  for (const nfs_ftype4 type : {NF4SOCK, NF4CHR, NF4BLK}) {
    auto node = c.run(c.objects.make_node(nullptr, made->node.handle, "n" + std::to_string(type), type,
                                          {8, 1}, mode(0600), both()));
    REQUIRE(ok(node));
    CHECK(node->node.attributes.type == type);
  }
  CHECK(errno_of(c.run(c.objects.make_directory(nullptr, c.root, "d", mode(0700), both()))) == EEXIST);
  CHECK_FALSE(c.run(c.objects.make_node(nullptr, c.root, "r", NF4REG, {}, {}, both())));
}

TEST_CASE("objects: what was made is there, even if the operations behind it fail") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.answer(OP_GETFH, NFS4ERR_DELAY);
  auto made = c.run(c.objects.make_directory(nullptr, c.root, "d", mode(0700), both()));
  REQUIRE(ok(made));
  CHECK(made->node.handle == c.handle("/d"));
  CHECK(made->node.attributes.type == NF4DIR);
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  m.server.answer(OP_RESTOREFH, NFS4ERR_IO);
  made = c.run(c.objects.make_directory(nullptr, c.root, "e", mode(0700), both()));
  REQUIRE(ok(made));
  CHECK_FALSE(made->directory.attributes);
  CHECK(made->directory.info.after != 0);
}

TEST_CASE("objects: a lost Reply is had again, and nothing is done twice") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.drop_after(OP_CREATE);
  CHECK(ok(c.run(c.objects.make_directory(nullptr, c.root, "d", mode(0700), both()))));
  CHECK(m.server.succeeded(OP_CREATE) == 1);
  m.server.drop_after(OP_RENAME);
  CHECK(ok(c.run(c.objects.rename(nullptr, c.root, "d", c.root, "e", some_attributes()))));
  CHECK(m.server.succeeded(OP_RENAME) == 1);
  m.server.drop_after(OP_REMOVE);
  CHECK(ok(c.run(c.objects.remove(nullptr, c.root, "e", some_attributes()))));
  CHECK(m.server.succeeded(OP_REMOVE) == 1);
}

TEST_CASE("objects: BADSESSION in the middle") {
  Scene m;
  EngineClient& c = m.connect();
  m.server.forget_sessions();
  CHECK(ok(c.run(c.objects.make_directory(nullptr, c.root, "d", mode(0700), both()))));
  m.server.restart();
  CHECK(ok(c.run(c.objects.remove(nullptr, c.root, "d", some_attributes()))));
}

TEST_CASE("objects: remove, rename and link tell what became of the directories") {
  Scene m;
  m.server.add_file("/d/a", "text");
  m.server.add_directory("/e");
  EngineClient& c = m.connect();
  const nfs_fh4 d = c.handle("/d"), e = c.handle("/e"), a = c.handle("/d/a");
  m.server.clear_calls();
  auto moved = c.run(c.objects.rename(nullptr, d, "a", e, "b", some_attributes()));
  REQUIRE(ok(moved));
  CHECK(m.server.calls().size() == 1);
  CHECK(moved->source.attributes->change == moved->source.info.after);
  CHECK(moved->target.attributes->change == moved->target.info.after);
  CHECK(moved->source.attributes->fileid != moved->target.attributes->fileid);
  auto linked = c.run(c.objects.link(nullptr, a, d, "again", both()));
  REQUIRE(ok(linked));
  CHECK(linked->object->numlinks == 2U);
  CHECK(linked->directory.attributes->change == linked->directory.info.after);
  auto removed = c.run(c.objects.remove(nullptr, d, "again", some_attributes()));
  REQUIRE(ok(removed));
  CHECK(removed->info.after == removed->attributes->change);
  CHECK(errno_of(c.run(c.objects.remove(nullptr, d, "again", {}))) == ENOENT);
  CHECK(errno_of(c.run(c.objects.remove(nullptr, c.root, "e", {}))) == ENOTEMPTY);
  CHECK(errno_of(c.run(c.objects.rename(nullptr, d, "x", e, "y", {}))) == ENOENT);
}

TEST_CASE("objects: directories are read page by page, with handles") {
  Scene m;
  for (int i = 0; i < 500; ++i) m.server.add_file("/dir/name" + std::to_string(i), "");
  EngineClient& c = m.connect();
  const nfs_fh4 dir = c.handle("/dir");
  std::set<std::string> names;
  nfs_cookie4 cookie = 0;
  verifier4 verifier{};
  int pages = 0;
  bitmap4 wanted = bitmap_of({FATTR4_TYPE, FATTR4_RDATTR_ERROR, FATTR4_FILEHANDLE, FATTR4_FILEID});
  for (bool eof = false; !eof; ++pages) {
    auto page = c.run(c.objects.read_directory(nullptr, dir, cookie, verifier, wanted, 10'000));
    REQUIRE(ok(page));
    REQUIRE(pages < 100);
    for (const auto& entry : page->entries) {
      CHECK(entry.attributes.type == NF4REG);
      CHECK(entry.attributes.filehandle);
      names.insert(entry.name);
      cookie = entry.cookie;
    }
    verifier = page->verifier;
    eof = page->eof;
  }
  CHECK(names.size() == 500);
  CHECK(pages > 2);
  m.server.add_directory("/empty");
  auto page = c.run(c.objects.read_directory(nullptr, c.handle("/empty"), 0, {}, wanted, 10'000));
  REQUIRE(ok(page));
  CHECK(page->eof);
  CHECK(page->entries.empty());
  m.server.answer(OP_READDIR, NFS4ERR_NOT_SAME);
  CHECK(c.run(c.objects.read_directory(nullptr, dir, cookie, verifier, wanted, 10'000)).error().status() ==
        NFS4ERR_NOT_SAME);
}

TEST_CASE("xattrs: set, get, list over pages, remove") {
  Scene m;
  m.server.add_file("/a", "");
  EngineClient& c = m.connect();
  const nfs_fh4 a = c.handle("/a");
  const std::vector<std::byte> value(3000, std::byte{7});
  auto set = c.run(c.objects.set_xattr(nullptr, a, "one", value, SETXATTR4_CREATE));
  REQUIRE(ok(set));
  CHECK(set->after > set->before);
  CHECK(*c.run(c.objects.get_xattr(nullptr, a, "one")) == value);
  CHECK(errno_of(c.run(c.objects.set_xattr(nullptr, a, "one", value, SETXATTR4_CREATE))) == EEXIST);
  CHECK(errno_of(c.run(c.objects.set_xattr(nullptr, a, "two", value, SETXATTR4_REPLACE))) == ENODATA);
  const std::vector<std::byte> largest(65536, std::byte{9});
  CHECK(ok(c.run(c.objects.set_xattr(nullptr, a, "large", largest, SETXATTR4_EITHER))));
  CHECK(*c.run(c.objects.get_xattr(nullptr, a, "large")) == largest);
  const std::vector<std::byte> larger(65537);
  CHECK(c.run(c.objects.set_xattr(nullptr, a, "x", larger, SETXATTR4_EITHER)).error().status() ==
        NFS4ERR_XATTR2BIG);
  m.server.set_xattrs_at_once(3);
  for (int i = 0; i < 10; ++i) {
    CHECK(ok(c.run(c.objects.set_xattr(nullptr, a, "n" + std::to_string(i), {}, SETXATTR4_EITHER))));
  }
  m.server.clear_calls();
  auto names = c.run(c.objects.list_xattrs(nullptr, a));
  REQUIRE(ok(names));
  CHECK(names->size() == 12);
  CHECK(m.server.count(OP_LISTXATTRS) == 4);
  CHECK(ok(c.run(c.objects.remove_xattr(nullptr, a, "one"))));
  CHECK(errno_of(c.run(c.objects.get_xattr(nullptr, a, "one"))) == ENODATA);
  CHECK(errno_of(c.run(c.objects.remove_xattr(nullptr, a, "one"))) == ENODATA);
}

TEST_CASE("xattrs: none in NFSv4.1") {
  Scene m;
  m.server.set_newest_minor(1);
  EngineClient& c = m.connect();
  m.server.clear_calls();
  CHECK(c.run(c.objects.list_xattrs(nullptr, c.root)).error().status() == NFS4ERR_NOTSUPP);
  CHECK(c.run(c.objects.get_xattr(nullptr, c.root, "x")).error().status() == NFS4ERR_NOTSUPP);
  CHECK(m.server.calls().empty());
}

}  // namespace nfsrdma
