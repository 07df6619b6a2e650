// Files with several names: the list of those that the kernel may believe, and opens by a name that leads elsewhere.
#include "fs/other_names.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "support/mounted.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using namespace std::chrono_literals;
using nfsrdma::testing::EngineClient;

/// A kernel that drops names when it is told to, or when drop() is called.
struct SeveralNames : nfsrdma::testing::MountedEngine {
  void begin(const std::vector<std::string>& names, CacheOptions options = {}) {
    server.add_file("/" + names.front(), "old");
    mount(options);
    other.emplace(server, "other");
    file = lookup(names.front()).inode;
    for (std::size_t i = 1; i < names.size(); ++i) {
      other_links(names.front(), names[i]);
      CHECK(lookup(names[i]).inode == file);
    }
    server.clear_calls();
    files->on_wrong_name([this](std::uint64_t directory, std::string name) {
      CHECK(directory == Inodes::kRoot);
      dropped.push_back(std::move(name));
      return drop();
    });
  }
  async::Task<void> drop() {
    while (holds_back) co_await files->loop().sleep_for(1ms);
  }
  /// Lets so many times five seconds pass.
  void pass(int times) {
    for (; times != 0; --times)
      client->run([](async::Loop& loop) -> async::Task<bool> {
        co_await loop.sleep_for(5s);
        co_return true;
      }(files->loop()));
  }
  void other_renames(const std::string& from, const std::string& to) {
    CHECK(other->run(other->engine.rename(who, other->root, from, other->root, to, std::nullopt)));
  }
  void other_links(const std::string& from, const std::string& to) {
    const auto found = other->run(find_name(other->engine, who, other->root, from));
    REQUIRE((found && *found));
    CHECK(other->run(other->engine.link(who, (*found)->handle, other->root, to)));
  }
  /// Gives delegations back.
  void end() {
    client->run([](async::Task<void> closed) -> async::Task<bool> {
      co_await std::move(closed);
      co_return true;
    }(files->closed()));
  }
  int open(std::uint32_t thread = 0) {
    auto opened = client->run(files->open(who, file, O_RDONLY, thread));
    if (!opened) return opened.error().errno_value();
    return error(files->close(opened->handle));
  }

  std::uint64_t file = 0;
  std::optional<EngineClient> other;
  std::vector<std::string> dropped;
  bool holds_back = false;
};

}  // namespace

TEST_CASE("F10 a file that another client has renamed is not opened by the name that it had") {
  SeveralNames m;
  m.begin({"a"});
  m.other_renames("a", "b");
  m.server.add_file("/a", "new");
  m.holds_back = true;
  CHECK(m.lookup("b").inode == m.file);
  // It has one name, so the other one is wrong.
  CHECK(m.dropped == std::vector<std::string>{"a"});
  SUBCASE("by that name the kernel finds the new file") {
    CHECK(m.open(1) == ESTALE);
    CHECK(m.lookup("a").inode != m.file);
  }
  SUBCASE("by the new name it opens the file the second time, or when the kernel has dropped the old one") {
    CHECK(m.open(1) == ESTALE);
    CHECK(m.open(2) == ESTALE);
    CHECK(m.server.count(nfs4::OP_OPEN) == 0);  // the name is known to be wrong
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
    CHECK(m.open(1) == ESTALE);
    m.holds_back = false;
    m.pass(1);
    CHECK(m.open(3) == 0);
    CHECK(m.open(1) == 0);
  }
  SUBCASE("once the kernel does not believe it any more, nothing is refused") {
    m.pass(13);
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
  }
  CHECK(m.dropped.size() == 1);
}

TEST_CASE("F10 of two names of a file either may have been opened") {
  SeveralNames m;
  CacheOptions options;
  bool checks = true;
  SUBCASE("") {}
  SUBCASE("nocto") {
    options.close_to_open = false;
    checks = false;
  }
  m.begin({"a", "b"}, options);
  // Both are right, however often they are used.
  for (int i = 0; i < 3; ++i) {
    CHECK(m.lookup(i % 2 == 0 ? "a" : "b").inode == m.file);
    CHECK(m.open() == 0);
  }
  m.server.clear_calls();
  CHECK(m.open() == 0);
  CHECK((m.calls().find("LOOKUP+GETFH+GETATTR") != std::string::npos) == checks);
  CHECK(m.dropped.empty());
  m.other_renames("b", "c");
  m.server.add_file("/b", "new");
  SUBCASE("the one that was found last leads elsewhere") {
    CHECK(m.lookup("a").inode == m.file);
  }
  SUBCASE("the one that was found first leads elsewhere") {}
  CHECK(m.open(1) == (checks ? ESTALE : 0));
  CHECK(m.dropped.size() == (checks ? 1 : 0));
  if (!checks) return;
  CHECK(m.dropped.front() == "b");
  CHECK(m.lookup("a").inode == m.file);
  CHECK(m.open(1) == 0);
  // Another program may have walked through the name just before the kernel dropped it.
  CHECK(m.open(2) == ESTALE);
  m.pass(1);
  CHECK(m.open(3) == 0);
  CHECK(m.dropped.size() == 1);
}

TEST_CASE("F10 under a delegation a name is checked that led to the file before the delegation was granted") {
  SeveralNames m;
  m.server.set_delegations(true);
  m.begin({"a"});
  const OpenedFile held = m.get(m.files->open(m.who, m.file, O_RDONLY, 7));
  REQUIRE(m.server.delegations() == 1);
  m.server.clear_calls();
  CHECK(m.open(1) == 0);
  CHECK(m.calls().empty());  // nobody can have renamed the file since
  SUBCASE("the delegation is lost, and the file is opened again by its handle, with another one") {
    m.server.forget_stateids();
    m.other_renames("a", "b");
    m.server.add_file("/a", "new");
    std::array<std::byte, 10> data{};
    CHECK(m.get(held.handle->file()->read(data, 0)) == 3);
    REQUIRE(m.server.delegations() == 1);
    CHECK(m.open(1) == ESTALE);
    CHECK(m.dropped == std::vector<std::string>{"a"});
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
  }
  SUBCASE("it is found by another name") {
    m.other_links("a", "b");
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
    m.server.clear_calls();
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
  }
  CHECK(m.error(m.files->close(held.handle)) == 0);
  m.end();
}

TEST_CASE("F10 a name that may not be looked up is no reason not to open the file, no answer is one") {
  plain::Plain m;
  m.engine->tells = true;
  m.engine->nodes[2].mode = 0644;
  m.engine->nodes.at(1).names = {{"a", 2}, {"b", 2}};
  (void)m.get(m.files->lookup(nullptr, Inodes::kRoot, "a"));
  const std::uint64_t file = m.get(m.files->lookup(nullptr, Inodes::kRoot, "b")).inode;
  int expected = 0;
  SUBCASE("refused") {
    m.engine->fail("lookup", EACCES);
  }
  SUBCASE("gone with its directory") {
    m.engine->fail("lookup", ESTALE);
    expected = ESTALE;
  }
  SUBCASE("no answer") {
    m.engine->lose("lookup", false);
    expected = ETIMEDOUT;
  }
  CHECK(m.error(m.files->open(nullptr, file, O_RDONLY)) == expected);
}

TEST_CASE("F10 a name is not dropped where the kernel has found another file since") {
  SeveralNames m;
  m.begin({"a"});
  m.other_renames("a", "b");
  m.server.add_file("/a", "new");
  const std::uint64_t now = m.lookup("a").inode;
  CHECK(now != m.file);
  CHECK(m.lookup("b").inode == m.file);
  CHECK(m.dropped.empty());
  CHECK(m.open(1) == ESTALE);  // a program may still be on its way through the old entry
  CHECK(m.lookup("b").inode == m.file);
  CHECK(m.open(1) == 0);
  m.pass(1);
  CHECK(m.open(2) == 0);
  CHECK(m.dropped.empty());
}

TEST_CASE("F10 of a file with many names the kernel believes some") {
  SeveralNames m;
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= OtherNames::kMost; ++i) names.push_back("name" + std::to_string(i));
  m.begin(names);
  CHECK(m.lookup(names.front()).name_valid > Seconds(0));
  m.other_links(names.front(), "one more");
  CHECK(m.lookup("one more").name_valid == Seconds(0));
  CHECK(m.lookup(names.front()).name_valid > Seconds(0));
  m.pass(13);
  CHECK(m.lookup("one more").name_valid > Seconds(0));
}

TEST_CASE("F10 the kernel takes a name along that is renamed here, and forgets one that is removed") {
  SeveralNames m;
  m.begin({"a", "b"});
  SUBCASE("renamed") {
    CHECK(m.error(m.files->rename(m.who, Inodes::kRoot, "a", Inodes::kRoot, "c")) == 0);
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open() == 0);
    m.other_renames("c", "d");
    CHECK(m.open(1) == ESTALE);
    CHECK(m.dropped == std::vector<std::string>{"c"});
    CHECK(m.lookup("b").inode == m.file);
    CHECK(m.open(1) == 0);
  }
  SUBCASE("removed") {
    CHECK(m.error(m.files->remove_file(m.who, Inodes::kRoot, "a")) == 0);
    m.server.clear_calls();
    CHECK(m.open() == 0);
    CHECK(m.calls().find("LOOKUP+GETFH+GETATTR") == std::string::npos);
  }
  CHECK(m.dropped.size() <= 1);
}

TEST_CASE("F10 a name goes on to be believed when a removal ends without an answer") {
  plain::Plain m;
  m.engine->tells = true;
  CHECK(plain::ok(m.loop.run(m.files->close(m.create("a").handle))));
  const std::uint64_t file = m.get(m.files->lookup(nullptr, Inodes::kRoot, "a")).inode;
  m.engine->lose("remove", false);
  CHECK(m.error(m.files->remove_file(nullptr, Inodes::kRoot, "a")) == ETIMEDOUT);
  m.take_calls();
  const OpenedFile opened = m.get(m.files->open(nullptr, file, O_RDONLY));
  CHECK(m.take_calls().find("lookup") != std::string::npos);
  CHECK(plain::ok(m.loop.run(m.files->close(opened.handle))));
}

TEST_CASE("F10 other names: each is there until it is taken, and wrong once") {
  OtherNames all;
  const async::TimePoint now{};
  all.add({7, "a", now + 2s, 1});
  all.add({7, "b", now + 3s, 2});
  CHECK_FALSE(all.is_full());
  CHECK_FALSE(all.any_wrong(now));
  REQUIRE(all.find(7, "b") != nullptr);
  CHECK(all.find(7, "b")->found == 2);
  CHECK(all.find(8, "b") == nullptr);
  CHECK(all.mark_wrong(3) == nullptr);
  REQUIRE(all.mark_wrong(1) != nullptr);
  CHECK(all.mark_wrong(1) == nullptr);
  CHECK(all.any_wrong(now + 1s));
  CHECK_FALSE(all.any_wrong(now + 2s));
  all.end(2, now + 1s);
  CHECK(all.find(7, "b")->until == now + 1s);
  all.end(2, now + 5s);
  CHECK(all.find(7, "b")->until == now + 1s);
  CHECK(all.take([](const auto& one) { return one.name == "a"; }).size() == 1);
  CHECK(all.all().size() == 1);
  CHECK_FALSE(all.any_wrong(now));
}

}  // namespace nfsrdma::fs
