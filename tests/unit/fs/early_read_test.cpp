// Small files that are read by the call that opens them: whose bytes count, and when nobody asks for them.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/mounted.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using plain::Plain;
using plain::PlainEngine;

/// A file "f" that somebody else has made, which was looked up.
struct Early : Plain {
  explicit Early(std::string content = "text") {
    engine->tells = true;
    const OpenedFile made = create("f");
    CHECK(plain::ok(loop.run(files->close(made.handle))));
    files->forget(made.entry.inode, 1000);
    node().content = std::move(content);
    inode = get(files->lookup(nullptr, Inodes::kRoot, "f")).inode;
    engine->reads_first = true;
    take_calls();
  }
  PlainEngine::Node& node() { return engine->nodes.at(2); }
  OpenedFile open(int flags = O_RDONLY) { return get(files->open(nullptr, inode, flags)); }
  [[nodiscard]] bool asked(const char* what) const { return calls.find(what) != std::string::npos; }

  std::uint64_t inode = 0;
};

}  // namespace

TEST_CASE("F10 early read: the kernel gets the bytes that came with the opening, to their end") {
  Early e;
  const OpenedFile file = e.open();
  CHECK(e.asked("early"));
  CHECK(e.read(file, 4096) == "text");
  CHECK_FALSE(e.asked("read"));
  // Who reads on hears what the server says.
  e.node().content = "text and more";
  CHECK(e.read_at(file, 4, 100) == " and more");
  CHECK(plain::ok(e.loop.run(e.files->close(file.handle))));
}

TEST_CASE("F10 early read: a server that reads nothing with OPEN is asked by READ") {
  Early e;
  e.engine->reads_first = false;
  const OpenedFile file = e.open();
  e.node().content = "late";
  CHECK(e.read(file, 4096) == "late");
  CHECK(e.asked("read"));
  CHECK(plain::ok(e.loop.run(e.files->close(file.handle))));
}

TEST_CASE("F13 early read: not what was there before a write of this machine that the open did not see") {
  Early e;
  e.engine->hold("open");
  auto opening = e.files->open(nullptr, e.inode, O_RDONLY);
  opening.handle().resume();
  SetAttributes cut;
  cut.size = 2;
  (void)e.get(e.files->set_attributes(nullptr, e.inode, cut, nullptr));
  e.node().content = "text";  // the READ is older than the SETATTR
  e.engine->release("open");
  e.turn();
  REQUIRE(opening.done());
  auto opened = opening.await_resume();
  REQUIRE(opened);
  e.node().content = "te";
  CHECK(e.read(*opened, 4096) == "te");
  CHECK(plain::ok(e.loop.run(e.files->close(opened->handle))));
}

TEST_CASE("F13 early read: not what was there before a write of this machine") {
  Early e;
  const OpenedFile writer = e.open(O_RDWR);
  CHECK_FALSE(e.asked("early"));
  CHECK(plain::ok(e.loop.run(e.files->close(writer.handle))));
  const OpenedFile file = e.open();
  const OpenedFile other = e.open(O_RDWR);
  e.write(other, "next", 0);
  CHECK(e.read(file, 4096) == "next");
  CHECK(plain::ok(e.loop.run(e.files->close(other.handle))));
  CHECK(plain::ok(e.loop.run(e.files->close(file.handle))));
}

TEST_CASE("early read: not of a large file, nor past the cache, nor of one that is cut, nor again") {
  Early e(std::string(20000, 'x'));
  SUBCASE("large") {}
  SUBCASE("others") {
    e.node().content = "text";
    e.engine->nodes.at(2).change += 1;
    (void)e.get(e.files->attributes(nullptr, e.inode));
    e.take_calls();
    CHECK(plain::ok(e.loop.run(e.files->close(e.open(O_RDONLY | O_DIRECT).handle))));
  }
  CHECK(plain::ok(e.loop.run(e.files->close(e.open().handle))));
  CHECK_FALSE(e.asked("early"));
}

TEST_CASE("F29 early read: files that are opened and not read hold no more than may be read ahead") {
  Early e;
  const std::size_t most = CacheOptions().most_ahead, size = 16384;
  std::vector<OpenedFile> open;
  for (std::size_t i = 0; i < most / size + 100; ++i) {
    const std::string name = std::to_string(i);
    const OpenedFile made = e.create(name);
    e.engine->nodes.at(e.engine->nodes.at(1).names.at(name)).content.assign(size, 'o');
    CHECK(plain::ok(e.loop.run(e.files->close(made.handle))));
    e.files->forget(made.entry.inode, 1000);
    const std::uint64_t found = e.get(e.files->lookup(nullptr, Inodes::kRoot, name)).inode;
    open.push_back(e.get(e.files->open(nullptr, found, O_RDONLY)));
  }
  CHECK(e.files->holdings().bytes_ahead <= most);
  CHECK(e.files->holdings().bytes_ahead > most / 2);
}

TEST_CASE("early read: where such bytes were not wanted nobody asks for them for a while") {
  Plain m;
  m.engine->tells = true;
  const OpenedFile made = m.create("f");
  CHECK(plain::ok(m.loop.run(m.files->close(made.handle))));
  m.files->forget(made.entry.inode, 1000);
  m.engine->nodes.at(2).content = "text";
  m.engine->reads_first = true;
  unsigned asked = 0;
  // Each time as if the kernel had never heard of it.
  const auto open = [&](bool is_read) {
    const std::uint64_t inode = m.get(m.files->lookup(nullptr, Inodes::kRoot, "f")).inode;
    m.take_calls();
    const OpenedFile file = m.get(m.files->open(nullptr, inode, O_RDONLY));
    if (m.take_calls().find("early") != std::string::npos) ++asked;
    if (is_read) CHECK(m.read(file, 4096) == "text");
    CHECK(plain::ok(m.loop.run(m.files->close(file.handle))));
    m.files->forget(inode, 1000);
  };
  for (int i = 0; i < 16; ++i) open(false);
  CHECK(asked == 16);
  for (int i = 0; i < 15; ++i) open(false);
  CHECK(asked == 16);
  open(true);  // now and then it is tried
  CHECK(asked == 17);
  open(true);  // and it was wanted
  CHECK(asked == 18);
}

}  // namespace nfsrdma::fs
