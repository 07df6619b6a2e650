// Names in the public API: open directories, renaming and linking from one to another, nodes, rights, owners, extended
// attributes, lists.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "ids/system_names.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

std::unique_ptr<Directory> open_directory(Names& names, const std::string& path) {
  auto directory = names.open_directory(path);
  if (!directory) FAIL(directory.error().text());
  return std::move(*directory);
}

std::set<std::string> names_in(Names& directory, const std::string& path) {
  std::set<std::string> out;
  CHECK(ok(directory.list(path, [&](const DirectoryEntry& entry) { return out.insert(entry.name).second; })));
  return out;
}

}  // namespace

TEST_CASE("api: paths that begin in an open directory") {
  Mounted m;
  m.server.add_file("/a/b/file", "text");
  m.server.add_file("/a/other", "more");
  m.server.add_symlink("/a/b/up", "../other");
  Client& client = m.connect();
  auto directory = open_directory(client, "/a/b");
  m.server.clear_calls();
  CHECK(directory->stat("file")->size == 4);
  CHECK(m.server.calls().size() == 1);
  CHECK(directory->stat("")->type == FileType::directory);
  CHECK(directory->stat("up")->size == 4);
  CHECK(directory->stat("../other")->size == 4);
  CHECK(directory->stat("/a/b/file")->size == 4);
  CHECK(names_in(*directory, ".") == std::set<std::string>{"file", "up"});
  CHECK(names_in(*directory, "..") == std::set<std::string>{"b", "other"});
  auto file = directory->open("file", OpenMode::read);
  REQUIRE(ok(file));
  CHECK(Mounted::read_all(**file) == "text");
  CHECK(ok((*file)->close()));
  CHECK(ok(directory->make_directory("sub", 0700)));
  CHECK(names_in(client, "/a/b") == std::set<std::string>{"file", "up", "sub"});
  auto above = open_directory(*directory, "..");
  CHECK(above->stat("b/file")->size == 4);
  CHECK(errno_of(directory->open_directory("file")) == ENOTDIR);
  CHECK(errno_of(directory->open_directory("none")) == ENOENT);
}

TEST_CASE("api: an open directory is what it is, however it is called, and until it is removed") {
  Mounted m;
  m.server.add_file("/a/dir/file", "text");
  Client& client = m.connect();
  auto directory = open_directory(client, "/a/dir");
  CHECK(ok(client.rename("/a", "/z")));
  CHECK(directory->stat("file")->size == 4);
  CHECK(ok(directory->symlink("file", "link")));
  CHECK(*client.read_link("/z/dir/link") == "file");
  CHECK(ok(directory->remove_file("file")));
  CHECK(ok(directory->remove_file("link")));
  CHECK(ok(client.remove_directory("/z/dir")));
  CHECK(errno_of(directory->stat("file")) == ESTALE);
  CHECK(errno_of(directory->make_directory("x", 0700)) == ESTALE);
}

TEST_CASE("api: rename and link from one directory to another") {
  Mounted m;
  m.server.add_file("/from/file", "text");
  m.server.add_file("/to/x", "");
  Client& client = m.connect();
  auto from = open_directory(client, "/from");
  auto to = open_directory(client, "/to");
  CHECK(ok(from->rename("file", *to, "moved")));
  CHECK(to->stat("moved")->size == 4);
  CHECK(ok(to->link("moved", *from, "again")));
  CHECK(from->stat("again")->links == 2);
  CHECK(ok(to->rename("moved", client, "/root")));
  CHECK(ok(client.rename("root", *from, "home")));
  CHECK(from->stat("home")->size == 4);
  auto stranger = Client::connect(m.server.target(), &m.notices);
  REQUIRE(ok(stranger));
  CHECK(errno_of(from->rename("home", **stranger, "x")) == EXDEV);
  CHECK(errno_of(from->link("home", **stranger, "x")) == EXDEV);
}

TEST_CASE("api: nodes are made, and nothing that is not one") {
  Mounted m;
  Client& client = m.connect();
  CHECK(ok(client.make_node("/fifo", FileType::fifo, 0600)));
  CHECK(client.stat("/fifo")->type == FileType::fifo);
  CHECK(ok(client.make_node("/device", FileType::character, 0644, 5, 1)));
  CHECK(client.stat("/device")->device_major == 5);
  CHECK(client.stat("/device")->device_minor == 1);
  CHECK(errno_of(client.make_node("/file", FileType::regular, 0644)) == EINVAL);
  CHECK(errno_of(client.make_node("/fifo", FileType::fifo, 0600)) == EEXIST);
}

TEST_CASE("api: access asks for what a right is made of") {
  Mounted m;
  m.server.add_file("/dir/file", "");
  Client& client = m.connect();
  SetAttributes changes;
  changes.mode = 0444;
  CHECK(ok(client.set_attributes("/dir/file", changes)));
  m.server.add_symlink("/link", "dir/file");
  CHECK(*client.access("/dir/file", R_OK | W_OK | X_OK) == R_OK);
  CHECK(*client.access("/link", R_OK | W_OK) == R_OK);
  CHECK(*client.access("/dir", R_OK | W_OK | X_OK) == (R_OK | W_OK | X_OK));
  CHECK(*client.access("/dir", W_OK) == W_OK);
  changes.mode = 0555;
  CHECK(ok(client.set_attributes("/dir", changes)));
  CHECK(*client.access("/dir", R_OK | W_OK | X_OK) == (R_OK | X_OK));
}

TEST_CASE("api: a server that takes no numbers for owners is told their names") {
  Mounted m;
  m.server.add_file("/file", "");
  m.server.on_server([](Responder& responder) { responder.state.habits.owners_by_name = true; });
  Client& client = m.connect();
  SetAttributes changes;
  changes.uid = changes.gid = 0;
  CHECK(ok(client.set_attributes("/file", changes)));
  auto told = client.stat("/file");
  REQUIRE(told);
  CHECK(told->owner == "root@" + ids::local_nfs_domain());
  CHECK(told->group == "root@" + ids::local_nfs_domain());
  auto file = client.open("/file", OpenMode::write);
  REQUIRE(file);
  CHECK(ok((*file)->set_attributes(changes)));
  changes.uid = 4'000'000'000;  // has no name here
  CHECK(errno_of(client.set_attributes("/file", changes)) == EINVAL);
  CHECK(errno_of((*file)->set_attributes(changes)) == EINVAL);
}

TEST_CASE("api: extended attributes") {
  Mounted m;
  m.server.add_file("/file", "");
  m.server.add_symlink("/link", "file");
  Client& client = m.connect();
  CHECK(ok(client.set_xattr("/link", "color", bytes("blue"))));
  const auto color = client.get_xattr("/file", "color");
  REQUIRE(ok(color));
  CHECK(std::ranges::equal(*color, bytes("blue")));
  CHECK(errno_of(client.set_xattr("/file", "color", bytes("red"), XattrMode::create)) == EEXIST);
  CHECK(errno_of(client.set_xattr("/file", "size", bytes("9"), XattrMode::replace)) == ENODATA);
  CHECK(ok(client.set_xattr("/file", "size", {})));
  CHECK(client.get_xattr("/file", "size")->empty());
  auto names = client.list_xattrs("/file");
  REQUIRE(ok(names));
  std::ranges::sort(*names);
  CHECK(*names == std::vector<std::string>{"color", "size"});
  CHECK(ok(client.remove_xattr("/file", "color")));
  CHECK(errno_of(client.get_xattr("/file", "color")) == ENODATA);
  CHECK(errno_of(client.remove_xattr("/file", "color")) == ENODATA);
}

TEST_CASE("api: a list ends where it is told to, and calls may be made from inside of it") {
  Mounted m;
  for (int i = 0; i < 50; ++i) m.server.add_file("/d/" + std::to_string(i), std::string(7, 'x'));
  Client& client = m.connect();
  std::set<std::string> seen;
  const Status some = client.list("/d", [&](const DirectoryEntry& entry) {
    CHECK(client.stat("/d/" + entry.name)->size == 7);
    CHECK(ok(client.remove_file("/d/" + entry.name)));
    return seen.insert(entry.name).second && seen.size() < 20;
  });
  CHECK(ok(some));
  CHECK(seen.size() == 20);
  std::size_t left = 0;
  const Status rest = client.list("/d", [&](const DirectoryEntry& entry) {
    CHECK_FALSE(seen.contains(entry.name));
    return ++left != 0;
  });
  CHECK(ok(rest));
  CHECK(left == 30);
}

}  // namespace nfsrdma
