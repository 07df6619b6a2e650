// Stores in mappings, which the kernel keeps until it is asked for them: what asks, and what need not.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using namespace plain;

/// A file, and a kernel that has it mapped: it writes back what was stored when it is to drop its pages.
struct MappedFile : Plain {
  enum class Pages : unsigned char { none, all };

  void map(int flags = O_RDWR, Pages pages = Pages::all) {
    const OpenedFile made = create("f");
    CHECK(ok(loop.run(files->close(made.handle))));
    content() = "old text";
    files->on_stale_pages([this](std::uint64_t, std::uint64_t, std::uint64_t) { return drop(); });
    file = get(files->open(nullptr, made.entry.inode, flags));
    if (pages == Pages::all) fault();
    request.owner = 5;
    take_calls();
  }
  /// The kernel reads the page.
  void fault() { CHECK(read(file, 100).size() == 8); }
  std::string& content() { return engine->nodes.at(2).content; }
  async::Task<void> drop() {
    calls += calls.empty() ? "drop" : " drop";
    if (!std::exchange(stored, false)) co_return;
    async::Memory memory = loop.memory().take(4);
    std::memcpy(memory.data.get(), "NEWS", 4);
    const std::span<const std::byte> data(memory.data.get(), 4);
    auto written = co_await files->write(file.handle, std::move(memory), data, 0, FileSystem::kWrittenBack);
    CHECK(ok(written));
  }
  int lock() { return error(files->lock(file.handle, request, nullptr)); }
  int unlock() { return error(files->unlock(file.handle, request.owner, request.range)); }
  void close() { CHECK(ok(loop.run(files->close(file.handle)))); }

  OpenedFile file;
  LockRequest request;
  bool stored = false;
};

}  // namespace

TEST_CASE(
    "F13 what was stored in a mapping is with the server before a lock goes or comes, lseek and a copy") {
  MappedFile m;
  m.map();
  SUBCASE("unlock") {
    CHECK(m.lock() == 0);
    m.fault();
    m.take_calls();
    m.stored = true;
    CHECK(m.unlock() == 0);
    CHECK(m.calls.ends_with("unlock"));
  }
  SUBCASE("lock") {
    m.stored = true;
    CHECK(m.lock() == 0);
  }
  SUBCASE("lock that is waited for") {
    m.stored = true;
    const auto wait = std::make_shared<locking::LockWait>(m.loop);
    CHECK(m.error(m.files->lock(m.file.handle, m.request, wait)) == EINTR);  // as this engine has it
  }
  SUBCASE("lseek") {
    m.stored = true;
    CHECK(m.get(m.files->seek(m.file.handle, 0, SEEK_DATA)) == 0);
  }
  SUBCASE("copy from it") {
    m.stored = true;
    const OpenedFile to = m.create("to");
    m.take_calls();
    CHECK(m.error(m.files->copy(m.file.handle, 0, to.handle, 0, 8)) == EOPNOTSUPP);  // as this engine has it
    CHECK(ok(m.loop.run(m.files->close(to.handle))));
  }
  CHECK(m.calls.starts_with("drop write"));
  CHECK(m.content() == "NEWStext");
  m.close();
}

TEST_CASE("F13 where nobody can have stored anything a lock asks the kernel for nothing") {
  MappedFile m;
  SUBCASE("the kernel has no pages") {
    m.map(O_RDWR, MappedFile::Pages::none);
    CHECK(m.lock() == 0);
    CHECK(m.unlock() == 0);
  }
  SUBCASE("the file is open for reading") {
    m.map(O_RDONLY);
    CHECK(m.lock() == 0);
    CHECK(m.unlock() == 0);
  }
  SUBCASE("the kernel was asked before, and has had nothing since") {
    m.map();
    CHECK(m.lock() == 0);
    m.take_calls();
    CHECK(m.lock() == 0);
    CHECK(m.unlock() == 0);
  }
  SUBCASE("nobody has locked what is unlocked") {
    m.map();
    CHECK(m.unlock() == 0);
  }
  CHECK(m.calls.find("drop") == std::string::npos);
  m.close();
}

}  // namespace nfsrdma::fs
