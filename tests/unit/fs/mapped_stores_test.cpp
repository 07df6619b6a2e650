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
    files->on_stale_pages(
        [this](std::uint64_t, std::uint64_t offset, std::uint64_t) { return drop(offset); });
    files->on_lengthened([this](std::uint64_t, std::uint64_t end) {
      calls += " lengthen";
      end_sent_to_kernel = end;
      return nothing();
    });
    file = get(files->open(nullptr, made.entry.inode, flags));
    if (pages == Pages::all) fault();
    request.owner = 5;
    take_calls();
  }
  /// The kernel reads the page.
  void fault() { CHECK(read(file, 100).size() >= 8); }
  std::string& content() { return engine->nodes.at(2).content; }
  static async::Task<void> nothing() { co_return; }
  /// `stored` is in the first page.
  async::Task<void> drop(std::uint64_t offset) {
    calls += calls.empty() ? "drop" : " drop";
    while (is_slow) (void)co_await less_slow.wait_until(async::TimePoint::max());
    if (offset != 0 || !std::exchange(stored, false)) co_return;
    async::Memory memory = loop.memory().take(4);
    std::memcpy(memory.data.get(), "NEWS", 4);
    const std::span<const std::byte> data(memory.data.get(), 4);
    auto written = co_await files->write(file.handle, std::move(memory), data, 0, FileSystem::kWrittenBack);
    CHECK(ok(written));
  }
  async::Task<void> pass(std::chrono::milliseconds time) { co_await loop.sleep_for(time); }
  /// An unlock fetches what may be stored in pages.
  async::Task<void> drop_pages_by_unlock() {
    engine->locker = request.owner;
    CHECK(ok(co_await files->unlock(file.handle, request.owner, request.range)));
  }
  int lock() { return error(files->lock(file.handle, request, nullptr)); }
  int unlock() { return error(files->unlock(file.handle, request.owner, request.range)); }
  void close() { CHECK(ok(loop.run(files->close(file.handle)))); }

  OpenedFile file;
  LockRequest request;
  bool stored = false;
  bool is_slow = false;  ///< the kernel drops nothing as yet, until `less_slow`
  async::Event less_slow{loop};
  std::uint64_t end_sent_to_kernel = 0;
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

TEST_CASE(
    "F13 where nobody can have stored anything a lock asks the kernel for nothing, but drops what it may "
    "have") {
  MappedFile m;
  SUBCASE("the kernel has no pages") {
    m.map(O_RDWR, MappedFile::Pages::none);
    CHECK(m.lock() == 0);
  }
  SUBCASE("the file is open for reading") {
    m.map(O_RDONLY);
    CHECK(m.lock() == 0);
  }
  SUBCASE("the kernel was asked before, and has had nothing since") {
    m.map();
    CHECK(m.lock() == 0);
    m.take_calls();
    CHECK(m.lock() == 0);
  }
  SUBCASE("nobody has locked what is unlocked") {
    m.map();
    m.calls = "attributes drop";
  }
  CHECK(m.take_calls() == "attributes drop");  // behind the lock
  CHECK(m.unlock() == 0);
  CHECK(m.calls.find("drop") == std::string::npos);
  m.close();
}

namespace {
/// What is appended behind two pages, of a file of which the kernel has read so much, and what asks for a store then.
void store_in_front_of_an_append(std::uint64_t read) {
  constexpr std::uint64_t kEnd = 2 * KernelPages::kPage;
  MappedFile m;
  m.map();
  m.content().resize(kEnd, '.');
  const OpenedFile log = m.get(m.files->open(nullptr, m.file.handle->inode().id, O_WRONLY | O_APPEND));
  (void)m.read(m.file, read);
  m.take_calls();
  m.write(log, "appended", kEnd);
  CHECK((m.take_calls().find("drop") != std::string::npos) == (read > kEnd));
  m.write(log, "appended", kEnd + 8);
  CHECK(m.take_calls().find("drop") == std::string::npos);
  m.stored = true;
  SUBCASE("before an unlock") {
    m.engine->locker = m.request.owner;
    CHECK(m.unlock() == 0);
  }
  SUBCASE("before a ring's read") {
    const async::Memory memory = m.loop.memory().take(8);
    const std::span<std::byte> into(memory.data.get(), 4);
    CHECK(m.get(m.files->read_direct(m.file.handle, memory, into, 0, FileSystem::DirectRead())) == 4);
    CHECK(std::string(reinterpret_cast<const char*>(into.data()), 4) == "NEWS");
  }
  SUBCASE("before a ring's write, which it must not overwrite") {
    const std::string text = "RING";
    CHECK(m.get(m.files->write_direct(m.file.handle, {}, std::as_bytes(std::span(text)), 2, O_RDWR)) == 2);
    CHECK(m.error(m.files->sync(m.file.handle)) == 0);
    CHECK(m.content().starts_with("NERING"));
    m.content().replace(2, 4, "WStex");  // as the others leave it
  }
  CHECK_FALSE(m.stored);
  CHECK(m.content().starts_with("NEWS"));
  CHECK(ok(m.loop.run(m.files->close(log.handle))));
  m.close();
}
}  // namespace

TEST_CASE("F13 pages in front of an append are remembered, and what was stored in them is sent") {
  SUBCASE("the kernel has read the first page only") {
    store_in_front_of_an_append(KernelPages::kPage);
  }
  SUBCASE("the kernel has read the end") {
    store_in_front_of_an_append(3 * KernelPages::kPage);
  }
}

TEST_CASE("F13 an append that the kernel put in the wrong place is read as the server has it") {
  MappedFile m;
  m.map(O_RDWR | O_APPEND);
  m.content() += "theirs;";  // by another client, which the kernel has not heard of
  m.is_slow = true;
  const std::string text = "ours;";
  auto write = m.files->write(m.file.handle, {}, std::as_bytes(std::span(text)), 8, std::nullopt);
  m.start(write);
  // It is told at once how far the file reaches, and the write does not wait for pages that it may itself hold.
  CHECK(m.end_sent_to_kernel == 20);
  CHECK_FALSE(write.done());
  m.loop.run(m.pass(std::chrono::milliseconds(20)));
  REQUIRE(write.done());
  CHECK(ok(write.await_resume()));
  // Who reads asks for attributes first, and must not find the pages as they were.
  auto stat = m.files->attributes(nullptr, m.file.handle->inode().id);
  m.start(stat);
  m.loop.run(m.pass(std::chrono::milliseconds(20)));
  CHECK_FALSE(stat.done());
  m.is_slow = false;
  m.less_slow.notify_all();
  m.turn();
  REQUIRE(stat.done());
  CHECK(stat.await_resume()->attributes.size == 20);
  m.close();
}

TEST_CASE(
    "F30 an append that the kernel has no pages of, and believes elsewhere, tells it how far the file "
    "reaches") {
  MappedFile m;
  m.map();
  int flags = O_WRONLY | O_APPEND;
  SUBCASE("as it is open for appending only") {}
  SUBCASE("as it is O_DIRECT") {
    flags = O_RDWR | O_APPEND | O_DIRECT;
  }
  const OpenedFile log = m.get(m.files->open(nullptr, m.file.handle->inode().id, flags));
  m.write(log, "1;", 8);  // as the kernel believes
  CHECK(m.error(m.files->sync(log.handle)) == 0);
  CHECK(m.take_calls().find("lengthen") == std::string::npos);
  m.content() += std::string(9000, 't');  // by another client, which the kernel has not heard of
  m.fault();
  m.stored = true;
  m.take_calls();
  m.write(log, "2;", 10);
  CHECK(m.end_sent_to_kernel == 8 + 2 + 9000 + 2);
  // The page that ended at the old end went before.
  CHECK_FALSE(m.stored);
  const std::string calls = m.take_calls();
  CHECK(calls.find("drop") < calls.find("lengthen"));
  m.write(log, "3;", m.end_sent_to_kernel);
  CHECK(m.take_calls().find("lengthen") == std::string::npos);
  CHECK(ok(m.loop.run(m.files->close(log.handle))));
  m.close();
}

TEST_CASE("F13 rings: who reads while others fetch the kernel's pages waits for them, too") {
  MappedFile m;
  m.map();
  m.stored = m.is_slow = true;
  const auto read = [&](const async::Memory& memory) {
    return m.files->read_direct(m.file.handle, memory, {memory.data.get(), 8}, 0, FileSystem::DirectRead());
  };
  const async::Memory one = m.loop.memory().take(8), other = m.loop.memory().take(8);
  auto first = read(one), second = read(other);
  m.start(first);
  m.start(second);
  CHECK_FALSE(first.done());
  CHECK_FALSE(second.done());
  m.is_slow = false;
  m.less_slow.notify_all();
  m.turn();
  REQUIRE(first.done());
  REQUIRE(second.done());
  for (const async::Memory& memory : {one, other})
    CHECK(std::string(reinterpret_cast<const char*>(memory.data.get()), 8) == "NEWStext");
  CHECK(*first.await_resume() == 8);
  CHECK(*second.await_resume() == 8);
  m.close();
}

TEST_CASE(
    "F30 a file that another client enlarged reaches as far for the kernel as soon as it is open to be "
    "read") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  m.close();
  m.content() += std::string(9000, 't') + "!";
  ++m.engine->nodes.at(2).change;
  m.end_sent_to_kernel = 0;
  std::optional<OpenedFile> writer;
  SUBCASE("at once") {}
  SUBCASE("behind an open for writing only, which is of no use to tell it") {
    writer = m.get(m.files->open(nullptr, inode, O_WRONLY));
    CHECK(m.end_sent_to_kernel == 0);
  }
  m.file = m.get(m.files->open(nullptr, inode, O_RDWR));
  CHECK(m.end_sent_to_kernel == 8 + 9000 + 1);
  if (writer) CHECK(ok(m.loop.run(m.files->close(writer->handle))));
  m.close();
}

TEST_CASE("F30 attributes that the kernel ignores leave it with the size that it knew before") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  m.content() += std::string(9000, 't') + "!";
  ++m.engine->nodes.at(2).change;
  // After this the kernel has been sent two states, and which of them it believes in is not known.
  (void)m.get(m.files->attributes(nullptr, inode));
  m.engine->hold_answer("attributes");
  auto asked = m.files->attributes(nullptr, inode);
  m.start(asked);
  REQUIRE(m.engine->held("attributes answer") == 1);
  bool is_ignored = false;
  SUBCASE("nothing happens meanwhile, and the kernel takes the answer") {}
  SUBCASE("the kernel is asked to drop pages meanwhile, and ignores the answer") {
    is_ignored = true;
    m.loop.spawn(m.drop_pages_by_unlock());
    m.turn();
  }
  m.engine->release("attributes");
  m.turn();
  REQUIRE(asked.done());
  CHECK(asked.await_resume()->attributes.size == 9009);
  CHECK(m.end_sent_to_kernel == 0);
  const OpenedFile again = m.get(m.files->open(nullptr, inode, O_RDONLY));
  CHECK(m.end_sent_to_kernel == (is_ignored ? 9009 : 0));
  CHECK(ok(m.loop.run(m.files->close(again.handle))));
  m.close();
}

TEST_CASE("F30 a LOOKUP that this mount's own truncation overtakes leaves the kernel with the size of that") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  m.engine->hold_answer("lookup");
  auto asked = m.files->lookup(nullptr, Inodes::kRoot, "f");
  m.start(asked);
  REQUIRE(m.engine->held("lookup answer") == 1);
  const OpenedFile cut = m.get(m.files->open(nullptr, inode, O_WRONLY | O_TRUNC));
  CHECK(ok(m.loop.run(m.files->close(cut.handle))));
  m.content() = std::string(9000, 't');  // another client's
  ++m.engine->nodes.at(2).change;
  m.engine->release("lookup");
  m.turn();
  REQUIRE(asked.done());
  // The kernel ignores these attributes, because the open came after its question.
  CHECK(asked.await_resume()->attributes.size == 9000);
  const OpenedFile again = m.get(m.files->open(nullptr, inode, O_RDONLY));
  CHECK(m.end_sent_to_kernel == 9000);
  CHECK(ok(m.loop.run(m.files->close(again.handle))));
  m.close();
}

TEST_CASE("F30 the kernel is told the size also if no READ succeeds, so that a copy gets the Error") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  m.content() += std::string(9000, 't') + "!";
  ++m.engine->nodes.at(2).change;
  m.engine->fail("read", EIO);
  const OpenedFile again = m.get(m.files->open(nullptr, inode, O_RDONLY));
  CHECK(m.end_sent_to_kernel == 9009);
  CHECK(ok(m.loop.run(m.files->close(again.handle))));
  m.close();
}

TEST_CASE(
    "F30 what rings wrote while nobody could map the file counts for the kernel as soon as somebody can") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  m.close();
  const OpenedFile writer = m.get(m.files->open(nullptr, inode, O_WRONLY));
  const auto write_100 = [&](std::uint64_t offset) {
    async::Memory memory = m.loop.memory().take(100);
    std::memset(memory.data.get(), 'r', 100);
    const std::span<const std::byte> data(memory.data.get(), 100);
    CHECK(m.get(m.files->write_direct(writer.handle, std::move(memory), data, offset, 0)) == offset);
  };
  write_100(8);
  CHECK(ok(m.loop.run(m.files->sync(writer.handle))));
  // The kernel asks for attributes, as fstat(2) does, and is told the file's end as of now.
  CHECK(m.get(m.files->attributes(nullptr, inode)).attributes.size == 108);
  write_100(108);
  SUBCASE("and the server does not have it yet") {}
  SUBCASE("and the server has it, and did not count the change, being so close to another") {
    const std::uint64_t change = m.engine->nodes.at(2).change;
    CHECK(ok(m.loop.run(m.files->sync(writer.handle))));
    CHECK(m.content().size() == 208);
    m.engine->nodes.at(2).change = change;
  }
  CHECK(m.end_sent_to_kernel == 0);
  m.file = m.get(m.files->open(nullptr, inode, O_RDWR));
  CHECK(m.end_sent_to_kernel == 208);
  m.end_sent_to_kernel = 0;
  const OpenedFile again = m.get(m.files->open(nullptr, inode, O_RDWR));
  CHECK(m.end_sent_to_kernel == 0);
  for (const OpenedFile& one : {again, writer}) CHECK(ok(m.loop.run(m.files->close(one.handle))));
  m.close();
}

TEST_CASE(
    "F30 an end that a ring wrote while open(2) with O_TRUNC was under way counts for the kernel behind it") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  const std::uint64_t inode = m.file.handle->inode().id;
  const auto begin_write = [&] {
    async::Memory memory = m.loop.memory().take(100);
    std::memset(memory.data.get(), 'r', 100);
    const std::span<const std::byte> data(memory.data.get(), 100);
    return m.files->write_direct(m.file.handle, std::move(memory), data, 8, 0);
  };
  auto cut = m.files->open(nullptr, inode, O_RDWR | O_TRUNC);
  bool with_server = false;
  SUBCASE("and the server does not have the write yet") {}
  SUBCASE("and the server has the write, which it has executed after the cut") {
    with_server = true;
  }
  m.engine->hold_answer("set");
  m.start(cut);
  REQUIRE(m.engine->held("set answer") == 1);
  CHECK(m.content().empty());
  CHECK(m.get(begin_write()) == 8);
  if (with_server) CHECK(ok(m.loop.run(m.files->sync(m.file.handle))));
  CHECK(m.end_sent_to_kernel == 108);
  m.end_sent_to_kernel = 0;
  m.engine->release("set");
  m.turn();
  REQUIRE(cut.done());
  const Result<OpenedFile> opened = cut.await_resume();
  REQUIRE(opened.has_value());
  m.loop.run(m.pass(std::chrono::milliseconds(1)));
  CHECK(m.end_sent_to_kernel == 108);
  CHECK(m.content().size() == 108);
  CHECK(m.get(m.files->attributes(nullptr, inode)).attributes.size == 108);
  CHECK(ok(m.loop.run(m.files->close(opened->handle))));
  m.close();
}

TEST_CASE(
    "F13 a page that the kernel writes back ends where the file ends, also if the kernel does not know "
    "that") {
  MappedFile m;
  m.engine->tells = true;
  m.map();
  std::string expected = "SSSSSSSS";
  std::string calls =
      "attributes write";  // the server is asked if the page reaches behind the end that is known
  std::size_t length = 4096;
  SUBCASE("and the kernel knows it: nothing is asked") {
    length = 8;
    calls = "write";
  }
  SUBCASE("and the kernel believes in more") {}
  SUBCASE("since another client cut it, which was seen at a lock") {
    m.content() = "old";
    ++m.engine->nodes.at(2).change;
    CHECK(m.lock() == 0);
    expected = "SSS";
  }
  SUBCASE("since another client cut it to nothing: then nothing is written") {
    m.content().clear();
    ++m.engine->nodes.at(2).change;
    CHECK(m.lock() == 0);
    expected.clear();
    calls = "attributes";
  }
  SUBCASE("and another client has enlarged it") {
    m.content() += std::string(5000, 'e');
    ++m.engine->nodes.at(2).change;
    expected = std::string(4096, 'S') + std::string(912, 'e');
  }
  SUBCASE("and this mount has enlarged it") {
    CHECK(m.error(m.files->allocate(m.file.handle, 0, 0, 6000)) == EOPNOTSUPP);  // as this engine has it
    m.content().resize(6000);
    ++m.engine->nodes.at(2).change;
    expected = std::string(4096, 'S') + std::string(1904, '\0');
  }
  m.take_calls();
  async::Memory memory = m.loop.memory().take(4096);
  std::memset(memory.data.get(), 'S', 4096);
  const std::span<const std::byte> page(memory.data.get(), length);
  CHECK(ok(m.loop.run(m.files->write(m.file.handle, std::move(memory), page, 0, FileSystem::kWrittenBack))));
  CHECK(ok(m.loop.run(m.files->sync(m.file.handle))));
  CHECK(m.content() == expected);
  CHECK(m.calls.substr(0, calls.size()) == calls);
  CHECK(m.calls.find("write") == calls.find("write"));
  m.close();
}

TEST_CASE("F30 a file that another client enlarged reaches as far for the kernel as soon as it is locked") {
  MappedFile m;
  m.engine->tells = true;
  const auto lock = [&] {
    SUBCASE("at once") {
      CHECK(m.lock() == 0);
    }
    SUBCASE("by a lock that was waited for") {
      m.engine->grants_waits = true;
      const auto wait = std::make_shared<locking::LockWait>(m.loop);
      CHECK(m.error(m.files->lock(m.file.handle, m.request, wait)) == 0);
    }
  };
  const auto enlarge = [&] {
    m.content() += std::string(9000, 't') + "!";
    ++m.engine->nodes.at(2).change;
  };
  const std::uint64_t size = 8 + 9000 + 1;
  SUBCASE("which has it open for reading and writing") {
    m.map();
    enlarge();
    lock();
    CHECK(m.calls == "drop attributes drop read lengthen");
    CHECK(m.end_sent_to_kernel == size);
    m.take_calls();
    // What it asks for next is known.
    CHECK(m.get(m.files->attributes(nullptr, m.file.handle->inode().id)).attributes.size == size);
    CHECK(m.calls.empty());
    CHECK(m.lock() == 0);
    CHECK(m.calls.find("lengthen") == std::string::npos);
  }
  SUBCASE("which has it open for reading, and has read none of it") {
    m.map(O_RDONLY, MappedFile::Pages::none);
    enlarge();
    lock();
    CHECK(m.end_sent_to_kernel == size);
  }
  SUBCASE("which cannot map it") {
    m.map(O_WRONLY, MappedFile::Pages::none);
    enlarge();
    lock();
    CHECK(m.calls.find("attributes") == std::string::npos);
    CHECK(m.end_sent_to_kernel == 0);
  }
  SUBCASE("which the server does not tell the size") {
    m.map();
    enlarge();
    m.engine->fail("attributes", EIO);
    lock();
    CHECK(m.end_sent_to_kernel == 0);
  }
  m.close();
}

}  // namespace nfsrdma::fs
