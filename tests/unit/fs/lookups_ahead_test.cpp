// Names that are found in pages of their directory: which page is asked for when, and for how long it counts.
#include "fs/lookups_ahead.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "support/plain_fixture.h"
#include "support/virtual_world.h"

namespace nfsrdma::fs {
namespace {

using plain::Plain;

/// A directory of `size` names, whose pages have `page_size` each, as a server gives them.
struct AheadOf {
  explicit AheadOf(std::size_t size_, std::size_t page_size_) : size(size_), page_size(page_size_) {
    directory->id = 1;
  }
  static std::string name(std::size_t i) { return "name-" + std::to_string(i); }
  std::shared_ptr<const ReadPage> page(std::uint64_t cookie) {
    const auto out = std::make_shared<ReadPage>();
    out->begin = cookie;
    out->came = loop.now();
    for (std::size_t i = cookie; i < std::min(size, static_cast<std::size_t>(cookie) + page_size); ++i) {
      Listed listed;
      listed.name = name(i);
      listed.cookie = i + 1;
      listed.attributes.file_id = 100 + i;
      out->page.entries.push_back(listed);
    }
    out->page.eof = cookie + page_size >= size;
    return out;
  }
  /// As FileSystem has it. True if the server was asked for the name.
  bool look_up(std::size_t i) {
    if (const auto found = ahead.take(*directory, caller, name(i))) {
      CHECK(found->listed->attributes.file_id == 100 + i);
      answer(ahead.given(found->page));
      return false;
    }
    answer(ahead.asked(directory, caller));
    return true;
  }
  void answer(std::optional<LookupsAhead::Wanted> wanted) {
    if (!wanted) return;
    ++pages;
    last_cookie = wanted->cookie;
    if (fails) return ahead.failed(wanted->page);
    wanted->page->read = page(wanted->cookie);
    ahead.came(wanted->page);
  }
  unsigned asked(std::size_t from, std::size_t to) {
    unsigned out = 0;
    for (std::size_t i = from; i < to; ++i) out += look_up(i) ? 1 : 0;
    return out;
  }

  const std::size_t size, page_size;
  testing::VirtualWorld world;
  async::Loop loop{world};
  LookupsAhead ahead{loop};
  std::shared_ptr<Inode> directory = std::make_shared<Inode>(loop);
  Caller caller;
  unsigned pages = 0;
  std::uint64_t last_cookie = 0;
  bool fails = false;
};

constexpr unsigned kMany = LookupsAhead::kMany;

}  // namespace

TEST_CASE("F8 lookups ahead: many names in a row are worth a page, which is followed by the next") {
  AheadOf a(100, 40);
  CHECK(a.asked(0, 100) == kMany);
  CHECK(a.pages == 3);
  CHECK(a.last_cookie == 80);
}

TEST_CASE("F8 lookups ahead: a few are not, nor are many with time between them") {
  AheadOf a(100, 40);
  CHECK(a.asked(0, kMany - 1) == kMany - 1);
  for (std::size_t i = kMany; i < 40; ++i) {
    a.world.pass(LookupsAhead::kInARow + std::chrono::milliseconds(1));
    CHECK(a.look_up(i));
  }
  CHECK(a.pages == 0);
}

TEST_CASE("F10 lookups ahead: a name is given once, and not behind its time") {
  AheadOf a(40, 40);
  a.asked(0, kMany);
  REQUIRE(a.pages == 1);
  CHECK_FALSE(a.look_up(20));
  CHECK(a.look_up(20));
  a.world.pass(LookupsAhead::kBelieved);
  CHECK(a.look_up(21));
}

TEST_CASE("F10 lookups ahead: a page of which few names were wanted is followed by none for some time") {
  AheadOf a(1000, 40);
  a.asked(0, kMany);
  REQUIRE(a.pages == 1);
  CHECK(a.asked(500, 600) == 100);
  CHECK(a.pages == 1);
  a.world.pass(LookupsAhead::kBelieved);
  CHECK(a.asked(600, 700) == 100);
  CHECK(a.pages == 1);
  a.world.pass(LookupsAhead::kNotAgain);
  CHECK(a.asked(700, 720) == 20);
  CHECK(a.pages == 2);
}

TEST_CASE("F8 lookups ahead: a page that cannot be read is not asked for again at once") {
  AheadOf a(100, 40);
  a.fails = true;
  CHECK(a.asked(0, 100) == 100);
  CHECK(a.pages == 1);
}

TEST_CASE("F8 lookups ahead: what is dropped, or is another's, is not given") {
  AheadOf a(100, 100);
  a.asked(0, kMany);
  SUBCASE("dropped") {
    a.ahead.drop(1);
  }
  SUBCASE("somebody else asks") {
    a.caller = std::make_shared<security::Identity>();
  }
  CHECK(a.look_up(50));
}

TEST_CASE("F8 lookups ahead: a page that a program lists is believed for longer") {
  AheadOf a(40, 40);
  DirectoryHandle listing(a.directory, a.caller);
  listing.read = a.page(0);
  a.ahead.keep(listing);
  a.world.pass(std::chrono::seconds(2));
  CHECK(a.asked(0, 40) == 0);
  CHECK(a.pages == 0);
}

TEST_CASE("F10 lookups ahead: a name that was listed with its attributes is not given again") {
  AheadOf a(40, 40);
  const auto list = [&] {
    auto out = std::make_shared<DirectoryHandle>(a.directory, a.caller);
    out->read = a.page(0);
    a.ahead.keep(*out);
    return out;
  };
  const auto give = [&](const DirectoryHandle& from, std::size_t i) {
    a.ahead.gave(from, from.read->page.entries[i]);
  };
  const auto older = list();
  const auto listing = list();
  give(*listing, 5);
  CHECK(a.look_up(5));
  CHECK_FALSE(a.look_up(6));
  CHECK(a.look_up(6));
  give(*older, 7);
  CHECK(a.look_up(7));
  give(*listing, 30);
  give(*listing, 8);
  CHECK(a.look_up(30));
  CHECK(a.look_up(8));
  CHECK_FALSE(a.look_up(9));
  CHECK(a.pages == 0);
}

// ---- in the file layer ----

namespace {

struct ListedScene : Plain {
  explicit ListedScene(CacheOptions options = {}) : Plain(options) { engine->tells = true; }
  static std::string name(std::size_t i) { return "name-" + std::to_string(100 + i); }
  /// As if somebody else had made them.
  void make(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const OpenedFile made = create(name(i));
      CHECK(plain::ok(loop.run(files->close(made.handle))));
      files->forget(made.entry.inode, 1000);
    }
    take_calls();
  }
  Entry find(std::size_t i) { return get(files->lookup(nullptr, Inodes::kRoot, name(i))); }
  /// How often it was asked for a name while all of them are looked up.
  std::size_t asked(std::size_t count) {
    take_calls();
    for (std::size_t i = 0; i < count; ++i) CHECK(find(i).inode != 0);
    turn();
    std::size_t out = 0;
    for (std::size_t at = calls.find("lookup"); at != std::string::npos; at = calls.find("lookup", at + 1))
      ++out;
    return out;
  }
};

}  // namespace

TEST_CASE("F8 names that are looked up one after the other are had by pages") {
  ListedScene n;
  n.make(40);
  CHECK(n.asked(40) <= kMany + 1);
  CHECK(n.calls.find("list") != std::string::npos);
}

TEST_CASE("F8 names that were listed need not be looked up") {
  ListedScene n;
  n.make(40);
  const auto directory = n.get(n.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
  CHECK(n.get(n.files->list(directory, 0)).size() == 40);
  CHECK(n.asked(40) == 0);
}

TEST_CASE("F10 a name that was listed with its attributes is looked up when the kernel asks again") {
  ListedScene n;
  n.make(3);
  const auto directory = n.get(n.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
  const auto names = n.get(n.files->list(directory, 0));
  REQUIRE(names.size() == 3);
  REQUIRE(names[1].name == ListedScene::name(1));
  CHECK(n.files->entry_of(*directory, names[1]).inode != 0);
  n.engine->nodes.at(1).names.erase(ListedScene::name(1));  // by somebody else
  CHECK(n.find(1).inode == 0);
  n.take_calls();
  CHECK(n.find(2).inode != 0);
  CHECK(n.calls.empty());
}

TEST_CASE("F10 where something is found to be stale the other names of its directory are looked up") {
  ListedScene n;
  n.make(3);
  const auto directory = n.get(n.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
  const std::uint64_t inode = n.find(0).inode;
  int error = 0;
  SUBCASE("readlink") {
    n.engine->fail("read_link", ESTALE);
    error = n.error(n.files->read_link(nullptr, inode));
  }
  SUBCASE("stat") {
    n.engine->fail("attributes", ESTALE);
    error = n.error(n.files->attributes(nullptr, inode));
  }
  SUBCASE("access") {
    n.engine->fail("access", ESTALE);
    error = n.error(n.files->access(nullptr, inode, R_OK));
  }
  SUBCASE("opendir") {
    n.engine->fail("list", ESTALE);
    error = n.error(n.files->open_directory(nullptr, inode, O_DIRECTORY));
  }
  SUBCASE("open, by a name that leads elsewhere") {
    n.engine->fail("open", ESTALE);
    error = n.error(n.files->open(nullptr, inode, O_RDONLY));
  }
  CHECK(error == ESTALE);
  n.take_calls();
  CHECK(n.find(1).inode != 0);
  CHECK(n.calls.find("lookup") != std::string::npos);
}

TEST_CASE("F8 names that this mount has removed, renamed or made since are looked up") {
  ListedScene n;
  n.make(40);
  const auto directory = n.get(n.files->open_directory(nullptr, Inodes::kRoot, O_DIRECTORY));
  SUBCASE("removed") {
    CHECK(n.error(n.files->remove_file(nullptr, Inodes::kRoot, ListedScene::name(7))) == 0);
    CHECK(n.find(7).inode == 0);
    // Nor does the kernel's goodbye to it cast doubt on the others.
    CHECK(n.find(8).inode != 0);
    n.take_calls();
    CHECK(n.find(9).inode != 0);
    CHECK(n.calls.empty());
  }
  SUBCASE("renamed") {
    CHECK(n.error(n.files->rename(nullptr, Inodes::kRoot, ListedScene::name(7), Inodes::kRoot,
                                  ListedScene::name(8))) == 0);
    CHECK(n.find(7).inode == 0);
    n.take_calls();
    CHECK(n.find(8).inode != 0);
    CHECK(n.calls.find("lookup") != std::string::npos);
  }
}

TEST_CASE("F8 who wants no names cached has them looked up") {
  CacheOptions options;
  options.names = false;
  ListedScene n(options);
  n.make(40);
  CHECK(n.asked(40) == 40);
}

}  // namespace nfsrdma::fs
