// Names in the file layer: what a failed rename leaves, what a page of a directory may still say, which file
// an open by name opens, whose rights count, and which numbers are given out.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include "support/mounted.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using nfsrdma::testing::user;
using plain::ok;
using plain::Plain;
using plain::PlainEngine;

struct OnServer : nfsrdma::testing::MountedEngine {
  std::shared_ptr<OpenHandle> open(std::uint64_t inode, int flags) {
    return get(files->open(who, inode, flags)).handle;
  }
  /// Nothing is kept for its delegation any more.
  void end() {
    client->run([](FileSystem& all) -> async::Task<bool> {
      co_await all.closed();
      co_return true;
    }(*files));
  }
};

/// A file that is open, "target", and another one, "source".
struct Replacing : Plain {
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& [name, id] : engine->nodes.at(1).names) out.insert(name);
    return out;
  }
  std::uint64_t id_of(const std::string& name) const { return engine->nodes.at(1).names.at(name); }
  int rename() { return error(files->rename(remover, Inodes::kRoot, "source", Inodes::kRoot, "target")); }
  int remove() { return error(files->remove_file(remover, Inodes::kRoot, "target")); }
  void open() {
    source = create("source");
    target = create("target");
    write(target, "old", 0);
    CHECK(ok(loop.run(files->flush(target.handle, 0))));
    source_id = id_of("source");
    target_id = id_of("target");
    CHECK(ok(loop.run(files->close(source.handle))));
    take_calls();
  }
  void close() { CHECK(ok(loop.run(files->close(target.handle)))); }
  /// The server will not answer the next RENAME. Whether it executes it: subcases.
  bool lose_rename() {
    bool executed = false;
    SUBCASE("executed") {
      executed = true;
    }
    SUBCASE("not executed") {}
    engine->lose("rename", executed);
    return executed;
  }

  const Caller remover = user(7);
  OpenedFile source, target;
  std::uint64_t source_id = 0, target_id = 0;
  const std::set<std::string> both{"source", "target"};
};

}  // namespace

// ---- F5: renaming, removing ----

TEST_CASE("F5 a rename that fails over an open target leaves the target alone") {
  unsigned renames = 0;  // counted by the engine, for as long as this case lasts
  Replacing r;
  r.open();
  int expected = 0;
  SUBCASE("the server refuses") {
    for (const int code : {EACCES, EXDEV, ENOTEMPTY}) {
      r.engine->fail("rename", code);
      CHECK(r.rename() == code);
      CHECK(r.names() == r.both);
    }
    r.engine->fail("rename", expected = EISDIR);
  }
  SUBCASE("there is no source") {
    r.engine->nodes.at(1).names.erase("source");
    expected = ENOENT;
  }
  SUBCASE("the server makes no links, and refuses") {
    r.engine->fail("link", EOPNOTSUPP);
    r.engine->on_call = [&](const std::string& what) {
      if (what == "rename" && ++renames == 2) r.engine->fail("rename", EACCES);
    };
    expected = EACCES;
  }
  SUBCASE("in a sticky directory") {
    SetAttributes changes;
    changes.mode = 01777;
    (void)r.get(r.files->set_attributes(nullptr, Inodes::kRoot, changes, nullptr));
    r.engine->fail("rename", expected = EPERM);
    r.take_calls();
  }
  CHECK(r.rename() == expected);
  const auto left = r.names();
  CHECK(left.contains("target"));
  CHECK(left.size() == (expected == ENOENT ? 1 : 2));
  CHECK(r.id_of("target") == r.target_id);
  CHECK(r.calls.find(expected == EPERM ? "link" : "nothing") == std::string::npos);
  r.close();
  CHECK(r.names() == left);
}

TEST_CASE("F5 a name that is replaced is never absent, and the open file lives until its close") {
  Replacing r;
  r.open();
  r.engine->on_call = [&](const std::string& /*what*/) { CHECK(r.names().contains("target")); };
  CHECK(r.rename() == 0);
  CHECK(r.names().size() == 2);  // with the hidden one
  CHECK(r.id_of("target") == r.source_id);
  CHECK(r.read(r.target, 10) == "old");
  r.close();
  CHECK(r.names() == std::set<std::string>{"target"});
  CHECK(r.id_of("target") == r.source_id);
}

TEST_CASE("F5 a file that is being opened is not replaced without a hidden name") {
  Replacing r;
  r.open();
  r.close();
  std::string gone;
  SUBCASE("by rename") {
    gone = "rename";
  }
  SUBCASE("by remove") {
    gone = "remove";
  }
  r.engine->hold("open");
  auto opening = r.files->open(nullptr, r.target.entry.inode, O_RDONLY);
  r.start(opening);
  CHECK(r.engine->held("open") == 1);
  auto leaving = gone == "rename"
                     ? r.files->rename(r.remover, Inodes::kRoot, "source", Inodes::kRoot, "target")
                     : r.files->remove_file(r.remover, Inodes::kRoot, "target");
  r.start(leaving);
  CHECK(r.names() == r.both);
  r.engine->release("open");
  r.turn();
  REQUIRE(leaving.done());
  CHECK(ok(leaving.await_resume()));
  REQUIRE(opening.done());
  auto opened = opening.await_resume();
  REQUIRE(opened);
  CHECK(r.names().size() == 2);  // with the hidden one
  CHECK(r.read(*opened, 10) == "old");
  CHECK(ok(r.loop.run(r.files->close(opened->handle))));
  CHECK(r.names() == std::set<std::string>{gone == "rename" ? "target" : "source"});
}

TEST_CASE("F5 while a file is replaced nobody begins to open it") {
  Replacing r;
  r.open();
  r.close();
  r.engine->hold("rename");
  auto leaving = r.files->rename(r.remover, Inodes::kRoot, "source", Inodes::kRoot, "target");
  r.start(leaving);
  CHECK(r.engine->held("rename") == 1);
  r.take_calls();
  auto opening = r.files->open(nullptr, r.target.entry.inode, O_RDONLY);
  r.start(opening);
  CHECK_FALSE(opening.done());
  CHECK(r.calls.find("open") == std::string::npos);
  r.engine->release("rename");
  r.turn();
  REQUIRE(leaving.done());
  CHECK(ok(leaving.await_resume()));
  // The server says what has become of it.
  CHECK(opening.done());
  CHECK(r.calls.find("open") != std::string::npos);
}

TEST_CASE("F5 a replaced file that is closed while it is renamed leaves no hidden name") {
  Replacing r;
  r.open();
  r.engine->on_call = [&](const std::string& what) {
    if (what != "rename") return;
    r.engine->on_call = nullptr;
    r.loop.spawn([](FileSystem& files, OpenedFile file) -> async::Task<void> {
      (void)co_await files.close(file.handle);
    }(*r.files, r.target));
  };
  CHECK(r.rename() == 0);
  CHECK(r.names() == std::set<std::string>{"target"});
}

TEST_CASE("F5 a rename whose answer is lost loses neither of the files") {
  Replacing r;
  r.open();
  const bool executed = r.lose_rename();
  CHECK(r.rename() == ETIMEDOUT);
  CHECK(r.read(r.target, 10) == "old");
  CHECK(r.engine->links(r.target_id) != 0);
  r.close();
  CHECK(r.names() == (executed ? std::set<std::string>{"target"} : r.both));
  CHECK(r.id_of("target") == (executed ? r.source_id : r.target_id));
}

TEST_CASE("F5 without links a rename whose answer is lost, or that cannot be undone, keeps the old file") {
  Replacing r;
  r.open();
  r.engine->fail("link", EOPNOTSUPP);
  unsigned renames = 0;
  SUBCASE("lost") {
    r.engine->on_call = [&](const std::string& what) {
      if (what == "rename" && ++renames == 2) r.engine->lose("rename", false);
    };
    CHECK(r.rename() == ETIMEDOUT);
  }
  SUBCASE("somebody else takes the name") {
    r.engine->on_call = [&](const std::string& what) {
      if (what != "rename" || ++renames != 2) return;
      r.engine->nodes.at(1).names["target"] = 99;
      r.engine->nodes[99].content = "theirs";
      r.engine->fail("rename", EACCES);
    };
    CHECK(r.rename() == EACCES);
    CHECK(r.id_of("target") == 99);
  }
  r.close();
  CHECK(r.engine->links(r.target_id) == 1);
  CHECK(r.id_of("source") == r.source_id);
}

TEST_CASE("F5 a rename of two links of one open file does nothing") {
  Replacing r;
  r.open();
  r.engine->nodes.at(1).names["source"] = r.target_id;
  CHECK(r.rename() == 0);
  CHECK(r.calls.find("link") == std::string::npos);
  r.close();
  CHECK(r.engine->links(r.target_id) == 1);
}

TEST_CASE("F5 a remove that fails has changed nothing") {
  Replacing r;
  r.open();
  SUBCASE("of an open file") {
    r.engine->fail("rename", EACCES);
  }
  SUBCASE("of an open file that cannot be looked up") {
    r.engine->fail("lookup", EACCES);
  }
  SUBCASE("of a file") {
    r.close();
    r.engine->fail("remove", EACCES);
    CHECK(r.remove() == EACCES);
    CHECK(r.names() == r.both);
    return;
  }
  CHECK(r.remove() == EACCES);
  CHECK(r.names() == r.both);
  r.close();
  CHECK(r.names() == r.both);
}

TEST_CASE("F5 a remove whose answer is lost hides the file or leaves it, and leaves no litter") {
  Replacing r;
  r.open();
  const bool executed = r.lose_rename();
  CHECK(r.remove() == ETIMEDOUT);
  CHECK(r.read(r.target, 10) == "old");
  if (!executed) {
    // Who tries again hides it now.
    CHECK(r.remove() == 0);
    CHECK(r.engine->links(r.target_id) == 1);
  }
  r.close();
  CHECK(r.names() == std::set<std::string>{"source"});
}

TEST_CASE("F5 the hidden name goes by the rights of who removed the file") {
  Replacing r;
  r.open();
  SUBCASE("removed") {
    CHECK(r.remove() == 0);
  }
  SUBCASE("replaced") {
    CHECK(r.rename() == 0);
  }
  r.close();
  CHECK(r.engine->callers.at("remove") == r.remover);
}

TEST_CASE("F5 where the directory that is mounted is sticky, that is known from the beginning") {
  async::Loop loop;
  std::string calls;
  const auto engine = std::make_shared<PlainEngine>(loop, calls);
  engine->nodes[1].mode = 01777;
  const auto root = loop.run(engine->find(nullptr, Spot()));
  REQUIRE(root);
  FileSystem files(engine, CacheOptions(), *root);
  const auto make = [&](const std::string& name) {
    return loop.run(files.create(nullptr, Inodes::kRoot, name, 0644, O_RDWR | O_CREAT));
  };
  const auto source = make("source"), target = make("target");
  REQUIRE(source);
  REQUIRE(target);
  calls.clear();
  CHECK(ok(loop.run(files.rename(nullptr, Inodes::kRoot, "source", Inodes::kRoot, "target"))));
  CHECK(calls.find("link") == std::string::npos);  // which its maker might not be let remove
  CHECK(engine->nodes.at(1).names.size() == 2);    // with the hidden one
  for (const auto& file : {target->handle, source->handle}) CHECK(ok(loop.run(files.close(file))));
  CHECK(engine->nodes.at(1).names.size() == 1);
  loop.drop_tasks();
}

// ---- F8: listing ----

namespace {

struct ListingScene : Plain {
  explicit ListingScene(CacheOptions options = {}) : Plain(options) { engine->tells = true; }
  void make(const std::string& name) { CHECK(ok(loop.run(files->close(create(name).handle)))); }
  /// As the kernel does where it has never heard of it.
  void forget(const std::string& name) { files->forget(inode(name), 1000); }
  std::uint64_t inode(const std::string& name) {
    return get(files->lookup(nullptr, Inodes::kRoot, name)).inode;
  }
  void list() {
    directory = get(files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
    names = get(files->list(directory, 0));
  }
  Listed listed(const std::string& name) const {
    const auto at = std::ranges::find(names, name, &Listed::name);
    REQUIRE(at != names.end());
    return *at;
  }
  Entry entry(const std::string& name) { return files->entry_of(*directory, listed(name)); }
  bool gone(const std::string& name) { return FileSystem::is_gone(*directory, listed(name)); }

  std::shared_ptr<DirectoryHandle> directory;
  std::span<const Listed> names;
};

}  // namespace

TEST_CASE("F8 a page does not revive names that this mount has removed, renamed or made since") {
  ListingScene l;
  for (const char* name : {"a", "b", "c"}) l.make(name);
  l.list();
  SUBCASE("nothing happened") {
    CHECK(l.entry("b").inode != 0);
    CHECK_FALSE(l.gone("b"));
  }
  SUBCASE("removed") {
    CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "b")) == 0);
    l.forget("a");
    CHECK(l.entry("b").inode == 0);
    CHECK(l.gone("b"));
    CHECK_FALSE(l.gone("a"));
  }
  SUBCASE("removed while it was open, and closed") {
    const auto file = l.get(l.files->open(nullptr, l.inode("b"), O_RDONLY));
    l.list();
    CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "b")) == 0);
    CHECK(l.gone("b"));
    CHECK(ok(l.loop.run(l.files->close(file.handle))));
    CHECK(l.gone("b"));
  }
  SUBCASE("renamed") {
    CHECK(l.error(l.files->rename(nullptr, Inodes::kRoot, "b", Inodes::kRoot, "c")) == 0);
    CHECK(l.entry("b").inode == 0);
    CHECK(l.entry("c").inode == 0);
    CHECK(l.entry("a").inode != 0);
  }
  SUBCASE("removed and made again") {
    CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "b")) == 0);
    l.make("b");
    CHECK(l.entry("b").inode == 0);
    CHECK_FALSE(l.gone("b"));
  }
  SUBCASE("a remove that failed") {
    l.engine->fail("remove", EACCES);
    CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "b")) == EACCES);
    CHECK_FALSE(l.gone("b"));
  }
  // A new page knows better.
  l.list();
  if (std::ranges::find(l.names, "b", &Listed::name) != l.names.end()) CHECK(l.entry("b").inode != 0);
}

TEST_CASE("F8 a page does not bring back attributes that this mount has changed or told anew since") {
  ListingScene l;
  l.make("a");
  l.make("b");
  const std::uint64_t a = l.inode("a");
  l.list();
  SetAttributes changes;
  changes.mode = 0600;
  SUBCASE("chmod") {
    (void)l.get(l.files->set_attributes(nullptr, a, changes, nullptr));
  }
  SUBCASE("chmod, and forgotten") {
    (void)l.get(l.files->set_attributes(nullptr, a, changes, nullptr));
    l.files->forget(a, 1000);
  }
  SUBCASE("somebody else's change that was seen") {
    l.engine->nodes.at(2).content = "longer";
    (void)l.get(l.files->attributes(nullptr, a));
  }
  SUBCASE("a lookup") {
    l.engine->nodes.at(2).content = "longer";
    (void)l.inode("a");  // which the page answers, once
    (void)l.inode("a");
  }
  SUBCASE("a link") {
    (void)l.get(l.files->link(nullptr, a, Inodes::kRoot, "c"));
  }
  CHECK(l.entry("a").inode == 0);
}

TEST_CASE("F8 a page says nothing of a file's links when one of them was removed since") {
  ListingScene l;
  l.make("a");
  (void)l.get(l.files->link(nullptr, l.inode("a"), Inodes::kRoot, "b"));
  l.forget("a");
  l.list();
  CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "a")) == 0);
  CHECK(l.entry("b").inode == 0);
}

TEST_CASE("F8 an entry that did not fit is given again, and what the kernel knows is no hindrance") {
  ListingScene l;
  l.make("a");
  (void)l.inode("a");
  l.list();
  CHECK(l.entry("a").inode != 0);
  CHECK(l.entry("a").inode != 0);
}

TEST_CASE("F8 what a page says is believed for the time that is left of it") {
  CacheOptions options;
  SUBCASE("some") {
    options.file_min = options.file_max = Seconds(60);
    ListingScene l(options);
    l.make("a");
    l.list();
    const Entry young = l.entry("a");
    l.world.pass(std::chrono::milliseconds(3));
    const Entry old = l.entry("a");
    CHECK(old.inode == young.inode);
    CHECK(old.attributes_valid < young.attributes_valid - Seconds(0.002));
    CHECK(old.name_valid < young.name_valid - Seconds(0.002));
  }
  SUBCASE("none") {
    options.file_min = options.file_max = Seconds(0.001);
    ListingScene l(options);
    l.make("a");
    l.list();
    l.world.pass(std::chrono::milliseconds(3));
    CHECK(l.entry("a").inode == 0);
  }
}

TEST_CASE("F8 a page serves until the reader is behind it, and cookies lead where they led") {
  ListingScene l;
  for (const char* name : {"a", "b", "c", "d", "e"}) l.make(name);
  l.engine->page_size = 3;
  l.take_calls();
  l.list();
  CHECK(l.names.size() == 3);
  CHECK(l.take_calls() == "list");  // opendir() has read it already
  const std::uint64_t first = l.names[0].cookie, second = l.names[1].cookie, third = l.names[2].cookie;
  CHECK(l.error(l.files->remove_file(nullptr, Inodes::kRoot, "b")) == 0);
  l.take_calls();
  const auto behind = l.get(l.files->list(l.directory, first));
  CHECK(behind.size() == 2);
  CHECK(l.get(l.files->list(l.directory, second)).size() == 1);  // that of a name that is gone
  CHECK(l.take_calls() == "");
  CHECK(l.get(l.files->list(l.directory, third)).size() == 2);
  CHECK(l.take_calls() == "list");
  CHECK(l.get(l.files->list(l.directory, first)).size() == 3);  // seekdir() back
  CHECK(l.get(l.files->list(l.directory, 0)).size() == 3);      // rewinddir()
  CHECK(l.take_calls() == "list list");
}

TEST_CASE("F8 a directory whose cookies go in circles is not listed for ever") {
  ListingScene l;
  for (char name = 'a'; name <= 'z'; ++name) l.make({name});
  l.engine->page_size = 4;
  // Of a part of a page, of one page, which then ends with the cookie that it came behind, and of some pages.
  for (const std::size_t circle : {1U, 3U, 4U, 5U, 26U}) {
    CAPTURE(circle);
    l.engine->circle = circle;
    const auto directory = l.get(l.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
    std::optional<Error> ended;
    std::uint64_t cookie = 0;
    std::size_t count = 0;
    while (!ended && count < 1000) {
      const auto page = l.loop.run(l.files->list(directory, cookie));
      if (page) {
        REQUIRE_FALSE(page->empty());
        count += page->size();
        cookie = page->back().cookie;
      } else {
        ended = page.error();
      }
    }
    REQUIRE(ended);
    CHECK(ended->errno_value() == ELOOP);
    CHECK(count >= 26);
    CHECK(count <= 100);
  }
}

TEST_CASE("F8 who reads a directory again and again, or back and forth, goes in no circle") {
  ListingScene l;
  for (char name = 'a'; name <= 'z'; ++name) l.make({name});
  l.engine->page_size = 4;
  const auto directory = l.get(l.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
  for (int round = 0; round < 20; ++round) {
    std::uint64_t cookie = 0;
    for (int page = 0; page < 6; ++page) cookie = l.get(l.files->list(directory, cookie)).back().cookie;
    CHECK(l.get(l.files->list(directory, cookie)).size() == 2);
    const std::uint64_t middle = l.get(l.files->list(directory, 0)).back().cookie + 6;
    for (int again = 0; again < 5; ++again) {
      CHECK(l.get(l.files->list(directory, middle)).size() == 4);
      CHECK(l.get(l.files->list(directory, middle + 4)).size() == 4);
    }
  }
}

TEST_CASE("F8 Linux tells rdattr_error 0: its entries have handles and attributes") {
  OnServer m;
  m.server.add_file("/f", "text");
  m.mount();
  const auto directory = m.get(m.files->open_directory(m.who, Inodes::kRoot, 0));
  const auto names = m.get(m.files->list(directory, 0));
  REQUIRE(names.size() == 1);
  const Entry entry = m.files->entry_of(*directory, names[0]);
  CHECK(entry.inode != 0);
  CHECK(entry.attributes.size == 4);
  CHECK(entry.inode == m.lookup("f").inode);
}

// ---- F10: opening by name ----

TEST_CASE("F10 a file is opened by name only if the name still leads to it") {
  OnServer m;
  m.server.add_file("/log", "first");
  m.mount();
  const std::uint64_t old = m.lookup("log").inode;
  nfsrdma::testing::EngineClient other(m.server, "other");
  const auto rotate = [&] {
    CHECK(other.run(other.engine.rename(m.who, other.root, "log", other.root, "log.1", std::nullopt)));
    m.server.add_file("/log", "second");
  };
  int flags = O_WRONLY | O_APPEND;
  SUBCASE("replaced") {
    rotate();
  }
  SUBCASE("replaced, to be cut") {
    rotate();
    flags = O_WRONLY | O_TRUNC;
  }
  SUBCASE("removed") {
    CHECK(other.run(other.engine.rename(m.who, other.root, "log", other.root, "log.1", std::nullopt)));
  }
  m.server.clear_calls();
  CHECK(m.error(m.files->open(m.who, old, flags)) == ESTALE);
  CHECK(m.server.calls().front().has(nfs4::OP_OPEN));  // in one go
  CHECK(m.client->turn_until([&] { return m.server.open_states() == 0; }));
  CHECK(m.server.content("/log.1") == "first");
  // The kernel walks the path again.
  const Entry now = m.lookup("log");
  CHECK(now.inode != old);
  if (now.inode != 0) CHECK(m.error(m.files->close(m.open(now.inode, O_WRONLY))) == 0);
  // Without a LOOKUP in between it is not opened by name: /proc/self/fd, open_by_handle_at. That is the same
  // thread's second try, nobody else's, and no third.
  const auto try_as = [&](std::uint32_t thread) {
    auto opened = m.client->run(m.files->open(m.who, old, O_RDONLY, thread));
    if (!opened) return opened.error().errno_value();
    return m.error(m.files->close(opened->handle));
  };
  CHECK(try_as(1) == ESTALE);
  CHECK(try_as(2) == ESTALE);
  CHECK(try_as(1) == 0);
  CHECK(try_as(2) == 0);
  CHECK(try_as(1) == ESTALE);
  // After a walk that has ended at another file, or at none, the thread's next open is no second try.
  (void)m.lookup("log");
  CHECK(try_as(1) == ESTALE);
  // Neither is it after a creation, which has opened a file by its name.
  CHECK(try_as(2) == ESTALE);
  CHECK(m.error(m.files->close(
            m.get(m.files->create(m.who, Inodes::kRoot, "new", 0644, O_RDWR, 2)).handle)) == 0);
  CHECK(try_as(2) == ESTALE);
}

TEST_CASE("F10 an open by name is one round trip, and none for a file that was promised to us") {
  OnServer m;
  m.server.add_file("/f", "text");
  CacheOptions options;
  // The file is small, so it is read by the same call.
  std::string expected = "LOOKUP+GETFH+OPEN+GETATTR+READ";
  bool twice = false;
  SUBCASE("as it is") {}
  SUBCASE("nocto") {
    options.close_to_open = false;
    expected = "OPEN+GETATTR+READ";
  }
  SUBCASE("names are not believed") {
    options.names = false;
    expected = "OPEN+GETATTR+READ";
  }
  SUBCASE("delegated") {
    m.server.set_delegations(true);
    twice = true;
    expected = "";
  }
  m.mount(options);
  const std::uint64_t inode = m.lookup("f").inode;
  if (twice) CHECK(m.error(m.files->close(m.open(inode, O_RDONLY))) == 0);
  m.server.clear_calls();
  const auto file = m.open(inode, O_RDONLY);
  CHECK(m.calls() == expected);
  CHECK(m.error(m.files->close(file)) == 0);
  m.end();
}

TEST_CASE("F10 whoever may not look the name up opens the file all the same") {
  OnServer m;
  m.server.add_file("/f", "text");
  m.mount();
  const std::uint64_t inode = m.lookup("f").inode;
  m.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  CHECK(m.error(m.files->close(m.open(inode, O_RDONLY))) == 0);
}

TEST_CASE("F10 this mount's own renames and removes are known") {
  OnServer m;
  m.server.add_file("/f", "text");
  m.server.add_file("/g", "more");
  m.server.add_directory("/d");
  m.mount();
  const std::uint64_t f = m.lookup("f").inode, g = m.lookup("g").inode, d = m.lookup("d").inode;
  SUBCASE("renamed") {
    CHECK(ok(m.client->run(m.files->rename(m.who, Inodes::kRoot, "f", Inodes::kRoot, "e"))));
  }
  bool exists = true;  // the server has it, under some name
  SUBCASE("renamed over another, elsewhere") {
    exists = false;
    CHECK(ok(m.client->run(m.files->rename(m.who, Inodes::kRoot, "f", d, "h"))));
    CHECK(ok(m.client->run(m.files->rename(m.who, Inodes::kRoot, "g", d, "h"))));
  }
  SUBCASE("its directory renamed") {
    CHECK(ok(m.client->run(m.files->rename(m.who, Inodes::kRoot, "f", d, "f"))));
    CHECK(ok(m.client->run(m.files->rename(m.who, Inodes::kRoot, "d", Inodes::kRoot, "dd"))));
  }
  SUBCASE("removed") {
    exists = false;
    CHECK(ok(m.client->run(m.files->remove_file(m.who, Inodes::kRoot, "f"))));
  }
  if (exists) CHECK(m.error(m.files->close(m.open(f, O_RDONLY))) == 0);
  CHECK(m.error(m.files->close(m.open(g, O_RDONLY))) == 0);
}

TEST_CASE("F10 a name that is not there is believed for a second at most, and not where names are not") {
  const auto believed = [](const CacheOptions& options) {
    Plain m(options);
    const Entry none = m.get(m.files->lookup(nullptr, Inodes::kRoot, "none"));
    CHECK(none.inode == 0);
    return none.name_valid;
  };
  CacheOptions options;
  CHECK(believed(options) == Seconds(1));
  options.file_min = Seconds(0.5);
  CHECK(believed(options) == Seconds(0.5));
  options.negative_names = false;
  CHECK(believed(options) == Seconds(0));
  options.negative_names = true;
  options.names = false;
  CHECK(believed(options) == Seconds(0));
  // Nor is one that is there.
  Plain m(options);
  const OpenedFile file = m.create("f");
  CHECK(file.entry.name_valid == Seconds(0));
  CHECK(file.entry.attributes_valid > Seconds(0));
  CHECK(ok(m.loop.run(m.files->close(file.handle))));
}

// ---- F11, F12: rights ----

TEST_CASE("F11 a descriptor keeps the rights that it was opened with") {
  Plain p;
  p.engine->tells = true;
  const Caller opener = user(1), later = user(2);
  const auto file = p.get(p.files->create(opener, Inodes::kRoot, "f", 0644, O_RDWR | O_CREAT));
  SetAttributes changes;
  changes.size = 3;
  (void)p.get(p.files->set_attributes(later, file.entry.inode, changes, file.handle));
  CHECK(p.engine->callers.at("set") == opener);
  // truncate(2) is somebody's own.
  (void)p.get(p.files->set_attributes(later, file.entry.inode, changes, nullptr));
  CHECK(p.engine->callers.at("set") == later);
  const auto directory = p.get(p.files->open_directory(opener, Inodes::kRoot, 0));
  (void)p.get(p.files->list(directory, 0));
  CHECK(p.engine->callers.at("list") == opener);
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
}

TEST_CASE("F12 the kernel does not believe in set-id bits of a file that is written") {
  Plain p;
  std::vector<std::uint64_t> doubted;
  p.files->on_doubt([&](std::uint64_t inode) { doubted.push_back(inode); });
  const auto file = p.create("f");
  p.write(file, "text", 0);
  CHECK(doubted.empty());
  SetAttributes changes;
  changes.mode = 04755;
  (void)p.get(p.files->set_attributes(nullptr, file.entry.inode, changes, nullptr));
  p.write(file, "text", 0);
  p.write(file, "more", 4);
  CHECK(doubted == std::vector<std::uint64_t>{file.entry.inode});  // once
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
}

// ---- F15: numbers ----

TEST_CASE("F15 \".\" and \"..\" have the numbers that stat gives") {
  Plain p;
  p.engine->nodes[1].names["d"] = 20;
  p.engine->nodes[20].type = FileType::directory;
  p.engine->nodes[20].names["e"] = 30;
  p.engine->nodes[20].filesystem = 8;  // another one, mounted there
  p.engine->nodes[30].type = FileType::directory;
  p.engine->nodes[30].filesystem = 8;
  const auto dots_of = [&](std::uint64_t inode) {
    const auto directory = p.get(p.files->open_directory(nullptr, inode, 0));
    return p.loop.run(p.files->dots(directory));
  };
  const auto d = p.get(p.files->lookup(nullptr, Inodes::kRoot, "d"));
  const auto e = p.get(p.files->lookup(nullptr, d.inode, "e"));
  CHECK(dots_of(Inodes::kRoot).self == 1);
  CHECK(dots_of(Inodes::kRoot).parent == 1);
  CHECK(dots_of(d.inode).self == d.attributes.file_id);
  CHECK(dots_of(d.inode).parent == 1);
  CHECK(dots_of(e.inode).self == e.attributes.file_id);
  CHECK(dots_of(e.inode).parent == d.attributes.file_id);
  CHECK(d.attributes.file_id != 20);
  // Whoever does not know what is above asks.
  p.files->forget(d.inode, 1);
  CHECK(dots_of(e.inode).parent == d.attributes.file_id);
}

// ---- directories that are not there any more ----

TEST_CASE("F10 opendir of a directory that is gone says so") {
  Plain p;
  const auto made = p.get(p.files->make_directory(nullptr, Inodes::kRoot, "d", 0755));
  p.engine->nodes.erase(2);
  CHECK(p.error(p.files->open_directory(nullptr, made.inode, O_DIRECTORY)) == ESTALE);
}

TEST_CASE("F12 a change of nothing asks the server for no change") {
  Plain p;
  const auto file = p.create("f");
  p.engine->fail("set", EPERM);
  CHECK(p.get(p.files->set_attributes(nullptr, file.entry.inode, {}, nullptr)).attributes.mode == 0644);
  CHECK(ok(p.loop.run(p.files->close(file.handle))));
}

}  // namespace nfsrdma::fs
