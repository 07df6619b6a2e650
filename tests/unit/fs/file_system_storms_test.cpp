// The data path of the file layer while calls are slow, overtake each other, and fail: on an engine that
// answers when the test says so.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using namespace plain;

constexpr std::size_t kLarge = 128U << 10;  // is not gathered

const std::string& large() {
  static const std::string text(kLarge, 'x');
  return text;
}

struct Storm : Plain {
  using Plain::Plain;
  using Pages = std::vector<std::string>;

  /// The kernel's pages that were dropped, as "inode:offset+length".
  Pages dropped;
  void watch_pages() {
    files->on_stale_pages([this](std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
      return drop(inode, offset, length);
    });
  }
  async::Task<void> drop(std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
    dropped.push_back(std::to_string(inode) + ":" + std::to_string(offset) + "+" + std::to_string(length));
    co_return;
  }
  OpenedFile open(const OpenedFile& file, int flags) {
    return get(files->open(nullptr, file.entry.inode, flags));
  }
  std::string& content(const OpenedFile& file) {
    return engine->nodes.at(PlainEngine::id_of(file.handle->inode().handle)).content;
  }
  /// As another client would.
  void append_elsewhere(const OpenedFile& file, const std::string& text) {
    content(file) += text;
    ++engine->nodes.at(PlainEngine::id_of(file.handle->inode().handle)).change;
  }
  async::Task<Status> writing(const OpenedFile& file, const std::string& text, std::uint64_t offset,
                              std::optional<int> flags = std::nullopt) {
    // A task begins later than this returns: the data is to be where the task can hold on to it.
    async::Memory memory = loop.memory().take(std::max<std::size_t>(text.size(), 1));
    std::ranges::copy(std::as_bytes(std::span(text)), memory.data.get());
    const std::span<const std::byte> data(memory.data.get(), text.size());
    return files->write(file.handle, std::move(memory), data, offset, flags);
  }
  int write_error(const OpenedFile& file, const std::string& text, std::uint64_t offset,
                  std::optional<int> flags = std::nullopt) {
    return error(writing(file, text, offset, flags));
  }
  /// A new file, and a large write to it that is under way until the test releases "write".
  OpenedFile create_and_write() {
    OpenedFile file = create("f");
    engine->hold("write");
    CHECK(write_error(file, large(), 0) == 0);
    return file;
  }
  int sync(const OpenedFile& file) { return error(files->sync(file.handle)); }
  int flush(const OpenedFile& file, std::uint64_t owner = 1) {
    return error(files->flush(file.handle, owner));
  }
  void close(const OpenedFile& file) { CHECK(ok(loop.run(files->close(file.handle)))); }
  std::uint64_t size(const OpenedFile& file) {
    return get(files->attributes(nullptr, file.entry.inode)).attributes.size;
  }
};

}  // namespace

// ---- F2: attributes beside writes ----

TEST_CASE("F2 whatever tells the size of a file counts the writes that are under way") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create("f");
  m.write(file, "first;", 0);  // gathered: the server knows nothing of it
  Entry told;
  SUBCASE("link") {
    told = m.get(m.files->link(nullptr, file.entry.inode, Inodes::kRoot, "g"));
  }
  SUBCASE("lookup") {
    told = m.get(m.files->lookup(nullptr, Inodes::kRoot, "f"));
  }
  CHECK(told.attributes.size == 6);
  CHECK(told.attributes_valid == Seconds(0));
  CHECK(m.size(file) == 6);
  m.close(file);
}

TEST_CASE(
    "F13 what was written before creat(2) cut the file stays cut, though its WRITE comes behind the OPEN") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create("f");
  m.write(file, "gathered", 0);
  // Another client may have given the file this name, so that the kernel believes that the name is not there.
  const auto again = m.get(m.files->create(nullptr, Inodes::kRoot, "f", 0644, O_WRONLY | O_CREAT | O_TRUNC));
  CHECK(again.entry.inode == file.entry.inode);
  CHECK(again.entry.attributes.size == 0);
  CHECK(m.flush(file) == 0);
  CHECK(m.engine->nodes.at(2).content.empty());
  m.write(again, "new", 0);
  m.close(file);
  m.close(again);
  CHECK(m.engine->nodes.at(2).content == "new");
}

TEST_CASE("F2 a listing tells nothing of a file that was written since it was asked for") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create("f");
  const auto directory = m.get(m.files->open_directory(nullptr, Inodes::kRoot, 0));
  const auto entry = [&] {
    return m.files->entry_of(*directory, m.get(m.files->list(directory, 0)).front());
  };
  CHECK(entry().inode == file.entry.inode);
  m.write(file, "gathered", 0);
  CHECK(entry().inode == 0);
  CHECK(m.flush(file) == 0);
  CHECK(entry().attributes.size == 8);
  m.close(file);
}

TEST_CASE("F2 attributes that were asked for before a write and come behind it count it") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create("f");
  const std::uint64_t inode = file.entry.inode;
  const auto meanwhile = [&](const std::string& what, auto& task) {
    m.engine->hold_answer(what);
    m.start(task);
    REQUIRE(m.engine->held(what + " answer") == 1);
    CHECK(m.write_error(file, large(), 0) == 0);
    m.turn();
    m.engine->release(what);
    m.turn();
    REQUIRE(task.done());
  };
  SUBCASE("attributes") {
    auto task = m.files->attributes(nullptr, inode);
    meanwhile("attributes", task);
    const auto told = task.await_resume();
    CHECK(told->attributes.size == kLarge);
    CHECK(told->valid == Seconds(0));
  }
  SUBCASE("chmod") {
    SetAttributes changes;
    changes.mode = 0600;
    auto task = m.files->set_attributes(nullptr, inode, changes, nullptr);
    meanwhile("set", task);
    const auto told = task.await_resume();
    CHECK(told->attributes.size == kLarge);
    CHECK(told->attributes.mode == 0600);
  }
  SUBCASE("lookup") {
    auto task = m.files->lookup(nullptr, Inodes::kRoot, "f");
    meanwhile("lookup", task);
    CHECK(task.await_resume()->attributes.size == kLarge);
  }
  SUBCASE("link") {
    auto task = m.files->link(nullptr, inode, Inodes::kRoot, "g");
    meanwhile("link", task);
    CHECK(task.await_resume()->attributes.size == kLarge);
  }
  m.close(file);
}

TEST_CASE("F2 attributes that were asked for before the size was set are asked for again") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create("f");
  CHECK(m.write_error(file, large(), 0) == 0);
  CHECK(m.sync(file) == 0);
  SetAttributes cut;
  cut.size = 5;
  m.engine->hold_answer("link");
  auto link = m.files->link(nullptr, file.entry.inode, Inodes::kRoot, "g");
  m.start(link);
  CHECK(m.get(m.files->set_attributes(nullptr, file.entry.inode, cut, file.handle)).attributes.size == 5);
  m.engine->release("link");
  m.turn();
  REQUIRE(link.done());
  CHECK(link.await_resume()->attributes.size == 5);
  m.close(file);
}

// ---- F6: who waits for whom ----

TEST_CASE("F6 whoever waits for writes waits for those that were there, not for later ones") {
  Storm m;
  const auto file = m.create_and_write();
  const auto ends = [&](auto task) {
    m.start(task);
    CHECK_FALSE(task.done());
    CHECK(m.write_error(file, large(), kLarge) == 0);
    m.engine->release_one("write");
    m.turn();
    CHECK(m.engine->held("write") == 1);
    CHECK(task.done());
    m.engine->release("write");
    m.turn();
    REQUIRE(task.done());
  };
  LockRequest request;
  request.owner = 5;
  SUBCASE("fsync") {
    ends(m.files->sync(file.handle));
  }
  SUBCASE("read") {
    ends(m.files->read(file.handle, 0, 10));
  }
  SUBCASE("lock") {
    ends(m.files->lock(file.handle, request, nullptr));
  }
  SUBCASE("unlock") {
    ends(m.files->unlock(file.handle, 5, LockRange()));
  }
  SUBCASE("seek") {
    ends(m.files->seek(file.handle, 0, SEEK_DATA));
  }
  SUBCASE("fallocate") {
    ends(m.files->allocate(file.handle, 0, 0, 100));
  }
  SUBCASE("copy") {
    ends(m.files->copy(file.handle, 0, file.handle, 4 * kLarge, 10));
  }
  SUBCASE("chmod") {
    SetAttributes changes;
    changes.mode = 0600;
    ends(m.files->set_attributes(nullptr, file.entry.inode, changes, nullptr));
  }
  SUBCASE("stat") {
    ends(m.files->attributes(nullptr, file.entry.inode));
  }
  SUBCASE("ls") {
    m.engine->release_one("write");
    m.engine->hold("write");
    CHECK(m.get(m.files->lookup(nullptr, Inodes::kRoot, "f")).attributes.size == kLarge);
    m.engine->release("write");
    m.turn();
  }
  m.close(file);
}

TEST_CASE("F6 beside a writer that never stops attributes come from its writes, at once") {
  Storm m;
  m.engine->tells = true;
  const auto file = m.create_and_write();
  CHECK(m.write_error(file, large(), kLarge) == 0);
  m.engine->release_one("write");
  m.turn();
  (void)m.take_calls();
  auto stat = m.files->attributes(nullptr, file.entry.inode);
  m.start(stat);
  REQUIRE(stat.done());
  const auto told = stat.await_resume();
  CHECK(told->attributes.size == 2 * kLarge);
  CHECK(told->attributes.modified.seconds > file.entry.attributes.modified.seconds);
  CHECK(told->valid == Seconds(0));
  CHECK(m.take_calls() == "");
  // A name that is made meanwhile counts: what a write brought before may not know of it.
  m.get(m.files->link(nullptr, file.entry.inode, Inodes::kRoot, "g"));
  auto again = m.files->attributes(nullptr, file.entry.inode);
  m.start(again);
  CHECK_FALSE(again.done());
  m.engine->release("write");
  m.turn();
  CHECK(again.done());
  m.close(file);
}

TEST_CASE("F6 writes that touch each other keep their order, also small ones that are gathered") {
  Storm m;
  const auto file = m.create("f");
  m.engine->hold("write");
  const std::string begin(1000, 'a');
  m.write(file, begin, 0);
  // Under way behind the end of what is gathered.
  CHECK(m.write_error(file, large(), 1004) == 0);
  CHECK(m.engine->held("write") == 1);
  // It follows what is gathered, over the beginning of what is under way.
  auto next = m.writing(file, "bbbbcccc", 1000);
  m.start(next);
  CHECK_FALSE(next.done());
  m.engine->release("write");
  m.turn();
  CHECK(next.done());
  CHECK(m.sync(file) == 0);
  CHECK(m.content(file).substr(998, 12) == "aabbbbccccxx");
  m.close(file);
}

// ---- F3, F4: late errors ----

TEST_CASE("F3 every descriptor that was open gets the error of a late write once, later ones do not") {
  Storm m;
  const auto one = m.create("f"), two = m.get(m.files->open(nullptr, one.entry.inode, O_RDWR));
  m.engine->fail("write", ENOSPC);
  m.write(one, "text", 0);
  CHECK(m.sync(one) == ENOSPC);
  const auto late = m.open(one, O_RDWR);
  CHECK(m.sync(one) == 0);
  CHECK(m.flush(two) == ENOSPC);
  CHECK(m.flush(two) == 0);
  CHECK(m.sync(late) == 0);
  CHECK(m.flush(late) == 0);
  m.close(late);
  m.close(two);
  m.close(one);
}

TEST_CASE("F3 a child's exit does not take the error away from its parent") {
  Storm m;
  const auto file = m.create("f");
  m.engine->fail("write", EDQUOT);
  m.write(file, "text", 0);
  constexpr std::uint64_t parent = 1, child = 2;
  CHECK(m.flush(file, child) == EDQUOT);
  SUBCASE("that calls fsync") {
    CHECK(m.sync(file) == EDQUOT);
    CHECK(m.sync(file) == 0);
    CHECK(m.flush(file, parent) == 0);
  }
  SUBCASE("that only closes") {
    CHECK(m.flush(file, parent) == EDQUOT);
    CHECK(m.flush(file, parent) == 0);
  }
  SUBCASE("nor does a write that fails, or one that nobody hears") {
    m.engine->fail("write", EDQUOT);
    CHECK(m.write_error(file, "more", 4) == EDQUOT);
    CHECK(ok(m.loop.run(m.files->sync(file.handle, [] { return false; }))));
    CHECK(ok(m.loop.run(m.files->flush(file.handle, parent, [] { return false; }))));
    CHECK(m.sync(file) == EDQUOT);
  }
  SUBCASE("however many children there are") {
    for (std::uint64_t other = 3; other < 1000; ++other) CHECK(m.flush(file, other) == EDQUOT);
    CHECK(m.sync(file) == EDQUOT);
  }
  CHECK(m.flush(file, child) == 0);
  m.close(file);
}

TEST_CASE("F3 an error of COMMIT reaches those who do not ask for it, too") {
  Storm m;
  const auto one = m.create("f"), two = m.get(m.files->open(nullptr, one.entry.inode, O_RDWR));
  CHECK(m.write_error(one, large(), 0) == 0);
  m.engine->fail("commit", EIO);
  CHECK(m.sync(two) == EIO);  // what others wrote is to be safe as well
  CHECK(m.sync(one) == EIO);
  CHECK(m.sync(one) == 0);
  CHECK(m.sync(two) == 0);
  m.close(two);
  m.close(one);
}

TEST_CASE("F4 nobody reads what a late write did not bring to the server") {
  Storm m;
  m.watch_pages();
  std::vector<std::uint64_t> doubted;
  m.files->on_doubt([&](std::uint64_t inode) { doubted.push_back(inode); });
  const auto file = m.create("f");
  m.write(file, "good", 0);
  CHECK(m.flush(file) == 0);
  m.engine->fail("write", ENOSPC);
  m.write(file, "lost", 4);
  CHECK(m.size(file) == 4);
  CHECK(doubted == std::vector<std::uint64_t>{file.entry.inode});
  CHECK(m.dropped == Storm::Pages{"2:0+0"});
  CHECK(m.read_at(file, 0, 100) == "good");
  CHECK(m.flush(file) == ENOSPC);
  const auto again = m.open(file, O_RDONLY);
  CHECK_FALSE(again.keep_cache);
  m.close(again);
  m.close(file);
}

TEST_CASE("F4 while the disk is full a write says so itself, until a sync has gone well") {
  Storm m;
  const auto file = m.create("f");
  m.engine->fail("write", ENOSPC, 2);
  m.write(file, "lost", 0);
  CHECK(m.size(file) == 0);
  CHECK(m.write_error(file, "no", 0) == ENOSPC);
  (void)m.take_calls();
  CHECK(m.write_error(file, "yes", 0) == 0);
  CHECK(m.take_calls() == "write!");
  CHECK(m.sync(file) == ENOSPC);
  CHECK(m.sync(file) == 0);
  (void)m.take_calls();
  CHECK(m.write_error(file, "YES", 0) == 0);
  CHECK(m.take_calls() == "");
  CHECK(m.sync(file) == 0);
  CHECK(m.content(file) == "YES");
  m.close(file);
}

// ---- F1: appending ----

TEST_CASE("F1 an append goes to the end as the server knows it") {
  Storm m;
  m.watch_pages();
  const auto file = m.create("f");
  m.append_elsewhere(file, "theirs;");
  SUBCASE("open for appending only: the kernel keeps no pages") {
    const auto log = m.open(file, O_WRONLY | O_APPEND);
    CHECK(log.handle->uncached);
    m.write(log, "one;", 0);
    CHECK(m.sync(log) == 0);
    m.append_elsewhere(file, "more of theirs;");
    m.write(log, "two;", 4);
    CHECK(m.sync(log) == 0);
    CHECK(m.content(file) == "theirs;one;more of theirs;two;");
    CHECK(m.dropped.empty());
    m.close(log);
  }
  SUBCASE("pages that others have read are dropped before the append is answered") {
    const auto log = m.open(file, O_WRONLY | O_APPEND), reader = m.open(file, O_RDONLY);
    CHECK(m.read_at(reader, 0, 100) == "theirs;");
    m.write(log, "one;", 7);
    CHECK(m.dropped == Storm::Pages{"2:7+0"});
    m.write(log, "two;", 11);
    CHECK(m.dropped.size() == 1);
    CHECK(m.read_at(reader, 0, 100) == "theirs;one;two;");
    m.close(reader);
    m.close(log);
  }
  SUBCASE("open for reading, too: pages are dropped where the kernel was wrong") {
    const auto log = m.open(file, O_RDWR | O_APPEND);
    CHECK_FALSE(log.handle->uncached);
    m.write(log, "one;", 7);
    CHECK(m.dropped.empty());
    CHECK(m.sync(log) == 0);
    m.append_elsewhere(file, "more;");
    m.write(log, "two;", 11);
    CHECK(m.dropped == Storm::Pages{"2:0+0"});
    CHECK(m.sync(log) == 0);
    CHECK(m.content(file) == "theirs;one;more;two;");
    m.close(log);
  }
  SUBCASE("by the flags of the descriptor, which may have changed since it was opened") {
    const auto writer = m.open(file, O_RDWR);
    CHECK(m.write_error(writer, "one;", 0, O_RDWR | O_APPEND) == 0);
    CHECK(m.write_error(writer, "THEIRS;", 0, O_RDWR) == 0);
    CHECK(m.sync(writer) == 0);
    CHECK(m.content(file) == "THEIRS;one;");
    m.close(writer);
  }
  m.close(file);
}

TEST_CASE("F1 small appends of one writer are gathered, and the end is asked for once") {
  Storm m;
  const auto file = m.create("f");
  const auto log = m.open(file, O_WRONLY | O_APPEND);
  (void)m.take_calls();
  m.engine->hold("write");
  m.write(log, "line;", 0);
  for (int i = 1; i < 10; ++i) m.write(log, "line;", 0);
  auto synced = m.files->sync(log.handle);
  m.start(synced);
  m.engine->release("write");
  m.turn();
  REQUIRE(synced.done());
  CHECK(ok(synced.await_resume()));
  std::string all;
  for (int i = 0; i < 10; ++i) all += "line;";
  CHECK(m.content(file) == all);
  CHECK(m.take_calls().starts_with("attributes write"));
  m.close(log);
  m.close(file);
}

TEST_CASE("F1 appends that come together while the end is asked for stand behind each other, in order") {
  Storm m;
  const auto file = m.create("f");
  m.append_elsewhere(file, "0");
  const auto one = m.open(file, O_WRONLY | O_APPEND | O_SYNC), two = m.open(file, O_WRONLY | O_APPEND);
  m.engine->hold_answer("attributes");
  auto first = m.writing(one, "first;", 0), second = m.writing(two, "second;", 0);
  m.start(first);
  m.start(second);
  m.engine->release("attributes");
  m.turn();
  CHECK(first.done());
  CHECK(second.done());
  CHECK(m.sync(two) == 0);
  CHECK(m.content(file) == "0first;second;");
  m.close(two);
  m.close(one);
  m.close(file);
}

TEST_CASE("F1 other writes of ours that are under way do not make an old end count") {
  Storm m;
  const auto file = m.create("f");
  const auto log = m.open(file, O_WRONLY | O_APPEND);
  m.write(log, "one;", 0);
  CHECK(m.sync(log) == 0);
  m.append_elsewhere(file, std::string(kLarge * 2, 't'));
  m.engine->hold("write");
  CHECK(m.write_error(file, large(), 0) == 0);
  m.write(log, "two;", 4);
  m.engine->release("write");
  m.turn();
  CHECK(m.sync(log) == 0);
  CHECK(m.content(file).size() == 4 + kLarge * 2 + 4);
  CHECK(m.content(file).ends_with("ttttwo;"));
  m.close(log);
  m.close(file);
}

TEST_CASE("F1 an append goes behind every write of this mount, one that has ended meanwhile included") {
  Storm m;
  const auto file = m.create("f");
  const auto log = m.open(file, O_RDWR | O_APPEND);
  const std::string first(4096, '1');
  m.write(log, first, 0);  // gathered, and under way while the other begins and ends
  std::string between = large();
  SUBCASE("a write") {
    CHECK(m.write_error(file, between, 4096) == 0);
  }
  SUBCASE("a direct write") {
    const auto direct = m.open(file, O_RDWR | O_DIRECT);
    CHECK(m.write_error(direct, between, 4096) == 0);
    m.close(direct);
  }
  SUBCASE("a ring's write") {
    const auto data = std::as_bytes(std::span(between));
    CHECK(m.get(m.files->write_direct(file.handle, {}, data, 4096, O_RDWR)) == 4096);
  }
  SUBCASE("a small write that is gathered with the append") {
    between = "small";
    CHECK(m.write_error(log, between, 4096, O_RDWR) == 0);
  }
  m.turn();
  m.write(log, "two;", 4096);
  CHECK(m.sync(log) == 0);
  CHECK((m.content(file) == first + between + "two;"));
  m.close(log);
  m.close(file);
}

TEST_CASE("F1 an append goes behind a write beyond the end that is under way and was not answered yet") {
  Storm m;
  const auto file = m.create("f");
  const auto log = m.open(file, O_WRONLY | O_APPEND), direct = m.open(file, O_RDWR | O_DIRECT);
  std::string expected(10'000, '\0');
  SUBCASE("the end is asked for") {}
  SUBCASE("an append is under way, too") {
    m.write(log, "one;", 0);
    expected.replace(0, 4, "one;");
  }
  m.engine->hold("write");
  auto beyond = m.writing(direct, large(), expected.size());
  m.start(beyond);
  CHECK_FALSE(beyond.done());
  m.write(log, "last;", 0);
  m.engine->release("write");
  m.turn();
  REQUIRE(beyond.done());
  CHECK(m.sync(log) == 0);
  CHECK((m.content(file) == expected + large() + "last;"));
  m.close(direct);
  m.close(log);
  m.close(file);
}

// ---- F23: close-to-open, whatever was known and is being written ----

namespace {
/// A file that was written here and enlarged by another client since, with what was told of the first write not yet old;
/// then somebody opens it again, and writes a little.
struct EnlargedElsewhere : Storm {
  EnlargedElsewhere() {
    engine->tells = true;
    first = create("f");
    files->on_lengthened([this](std::uint64_t inode, std::uint64_t end) { return lengthen(inode, end); });
    watch_pages();
  }
  async::Task<void> lengthen(std::uint64_t inode, std::uint64_t end) {
    lengthened.push_back(std::to_string(inode) + ":" + std::to_string(end));
    co_return;
  }
  void write_and_enlarge() {
    CHECK(write_error(first, large(), 0) == 0);
    CHECK(flush(first) == 0);
    (void)size(first);
    append_elsewhere(first, large() + "!");
  }
  OpenedFile first;
  Pages lengthened;
};
}  // namespace

TEST_CASE(
    "F23 an open that begins behind another client's close sees its size, whatever is written meanwhile") {
  EnlargedElsewhere m;
  OpenedFile again;
  bool kernel_asks = true;
  SUBCASE("open") {
    m.write_and_enlarge();
    again = m.open(m.first, O_RDWR);
  }
  SUBCASE("create, where the file is there") {
    m.write_and_enlarge();
    again = m.get(m.files->create(nullptr, Inodes::kRoot, "f", 0644, O_RDWR | O_CREAT));
    kernel_asks = false;  // CREATE's answer has attributes
  }
  SUBCASE("open under a delegation") {
    m.write_and_enlarge();
    m.engine->delegation = std::chrono::seconds(90);
    again = m.open(m.first, O_RDWR);
  }
  SUBCASE("open, while an earlier write is under way") {
    m.write_and_enlarge();
    m.engine->hold("write");
    CHECK(m.write_error(m.first, large(), 0) == 0);
    again = m.open(m.first, O_RDWR);
    m.engine->release("write");
  }
  CHECK_FALSE(again.keep_cache);
  if (kernel_asks) CHECK_FALSE(again.keep_attributes);
  m.write(again, "a little", 0);
  CHECK(m.size(again.entry.inode != 0 ? again : m.first) == 2 * kLarge + 1);
  m.write(again, "a little", 100);
  m.turn();
  CHECK(m.size(m.first) == 2 * kLarge + 1);
  m.close(again);
  m.close(m.first);
}

// The change attribute behind a write covers whatever happened before it, also what another client wrote in between.
TEST_CASE(
    "F23 an open behind writes of this mount keeps pages only if no other client could write meanwhile") {
  Storm m;
  m.engine->tells = true;
  bool delegated = false;
  SUBCASE("no delegation") {}
  SUBCASE("a delegation") {
    delegated = true;
    m.engine->delegation = std::chrono::seconds(90);
  }
  const auto file = m.create("shared");
  m.write(file, "here ", 0);
  m.write(file, "there", 5);
  CHECK(m.flush(file) == 0);
  m.close(file);
  const auto again = m.open(file, O_RDONLY);
  CHECK(again.keep_cache == delegated);
  // What was read behind that open goes with the change attribute that it brought.
  const auto third = m.open(file, O_RDONLY);
  CHECK(third.keep_cache);
  m.close(third);
  m.close(again);
}

TEST_CASE(
    "F23 an append by a descriptor that was opened behind another client's close goes behind its bytes") {
  EnlargedElsewhere m;
  const auto log = m.open(m.first, O_WRONLY | O_APPEND);
  m.write(log, "ours;", 0);  // gathered, and under way until the end
  m.append_elsewhere(m.first, std::string(100, 't'));
  const auto later = m.open(m.first, O_WRONLY | O_APPEND);
  m.write(later, "last;", 0);
  CHECK(m.sync(later) == 0);
  CHECK(m.content(m.first).ends_with("tttttlast;"));
  m.close(later);
  m.close(log);
  m.close(m.first);
}

TEST_CASE("F23 the kernel is told at open(2) how far the file reaches, for mappings of who does not ask") {
  EnlargedElsewhere m;
  m.write_and_enlarge();
  (void)m.read_at(m.first, 0, 4096);
  m.dropped.clear();
  SUBCASE("it is longer than the kernel knows") {
    const auto again = m.open(m.first, O_RDONLY);
    CHECK(m.lengthened == Storm::Pages{"2:" + std::to_string(2 * kLarge + 1)});
    CHECK(m.dropped == Storm::Pages{"2:0+0"});  // a page that ended at the old end would hide what follows
    m.close(again);
  }
  SUBCASE("it is as the kernel knows it") {
    m.content(m.first).resize(kLarge);
    m.close(m.open(m.first, O_RDONLY));
    CHECK(m.lengthened.empty());
  }
  SUBCASE("nobody can map it") {
    m.close(m.first);
    const auto writer = m.open(m.first, O_WRONLY);
    CHECK(m.lengthened.empty());
    m.close(writer);
    return;
  }
  m.close(m.first);
}

// ---- F13: what is read is not older than what was written, or is known ----

namespace {
CacheOptions small_reads() {
  CacheOptions options;
  options.rsize = 4096;
  return options;
}
}  // namespace

TEST_CASE("F13 read-ahead is thrown away when newer attributes are known") {
  Storm m(small_reads());
  const auto file = m.create("f");
  m.append_elsewhere(file, std::string(kLarge, 'o'));
  const auto reader = m.open(file, O_RDONLY);
  for (std::uint64_t at = 0; at < 5; ++at) CHECK(m.read_at(reader, at * 4096, 4096)[0] == 'o');
  m.turn();
  CHECK(m.files->counters().ahead_reads != 0);
  m.content(file).assign(kLarge, 'n');
  m.append_elsewhere(file, "");
  SUBCASE("by stat") {
    (void)m.size(file);
  }
  SUBCASE("by another open") {
    m.close(m.open(file, O_RDONLY));
  }
  SUBCASE("by lookup") {
    (void)m.get(m.files->lookup(nullptr, Inodes::kRoot, "f"));
  }
  CHECK(m.read_at(reader, 5ULL * 4096, 4096) == std::string(4096, 'n'));
  m.close(reader);
  m.close(file);
}

TEST_CASE("F13 read-ahead that began while a write was under way does not outlive it") {
  Storm m(small_reads());
  const auto file = m.create("f");
  m.append_elsewhere(file, std::string(2 * kLarge, 'o'));
  for (std::uint64_t at = 0; at < 5; ++at) (void)m.read_at(file, at * 4096, 4096);
  m.engine->hold("write");
  CHECK(m.write_error(file, std::string(kLarge, 'a'), kLarge) == 0);
  auto reading = m.files->read(file.handle, 5ULL * 4096, 4096);
  m.start(reading);
  CHECK(m.write_error(file, std::string(kLarge, 'b'), 0) == 0);
  m.engine->release_one("write");  // the reader goes on, and reads ahead where the second write will be
  m.turn();
  CHECK(reading.done());
  for (std::uint64_t at = 6; at < 9; ++at) {
    auto next = m.files->read(file.handle, at * 4096, 4096);
    m.start(next);
    m.engine->release("write");
    m.turn();
    REQUIRE(next.done());
    const auto got = next.await_resume();
    REQUIRE(got->size == 4096);
    CHECK(*static_cast<const char*>(got->pieces[0].iov_base) == 'b');
  }
  m.close(file);
}

TEST_CASE("F13 a direct write drops pages that were being read meanwhile, and no others") {
  Storm m;
  m.watch_pages();
  const auto file = m.create("f");
  m.append_elsewhere(file, large());
  const auto direct = m.open(file, O_RDWR | O_DIRECT), reader = m.open(file, O_RDONLY);
  (void)m.read_at(reader, 0, 4096);
  CHECK(m.write_error(direct, std::string(4096, 'n'), 0) == 0);
  CHECK(m.dropped.empty());  // the kernel drops those itself before it writes
  m.engine->hold_answer("read");
  auto reading = m.files->read(reader.handle, 8192, 4096);
  m.start(reading);
  auto write = m.writing(direct, "new", 8192);
  m.start(write);
  m.engine->release("read");
  m.turn();
  REQUIRE(reading.done());
  REQUIRE(write.done());
  CHECK(m.dropped == Storm::Pages{"2:8192+3"});
  m.close(reader);
  m.close(direct);
  m.close(file);
}

// ---- F14, S16, F22 ----

TEST_CASE("F14 O_SYNC, O_DSYNC and sync are on the server's disk when they are answered, with O_DIRECT too") {
  const auto called = [](int flags, bool sync) {
    CacheOptions options;
    options.sync = sync;
    Storm m(options);
    const auto file = m.create("f");
    const auto writer = m.open(file, O_RDWR | flags);
    (void)m.take_calls();
    CHECK(m.write_error(writer, "text", 0) == 0);
    const std::string out = m.take_calls();
    m.close(writer);
    m.close(file);
    return out;
  };
  CHECK(called(O_SYNC, false) == "write!");
  CHECK(called(O_DSYNC, false) == "write!");
  CHECK(called(O_DIRECT | O_SYNC, false) == "write!");
  CHECK(called(O_DIRECT | O_DSYNC, false) == "write!");
  CHECK(called(O_DIRECT, true) == "write!");
  CHECK(called(0, true) == "write!");
  CHECK(called(O_DIRECT, false) == "write");
  CHECK(called(0, false) == "");
}

TEST_CASE("S16 what was written under a lock is on the server before it is given back") {
  Storm m;
  const auto file = m.create("f");
  LockRequest request;
  request.owner = 5;
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == 0);
  CHECK(m.write_error(file, large(), 0) == 0);
  m.write(file, "more", kLarge);
  (void)m.take_calls();
  SUBCASE("by unlock") {
    CHECK(ok(m.loop.run(m.files->unlock(file.handle, 5, LockRange()))));
    CHECK(m.take_calls() == "write commit unlock");
  }
  SUBCASE("by close") {
    CHECK(m.flush(file, 5) == 0);
    CHECK(m.take_calls().starts_with("write"));
    CHECK(m.engine->locker == 0);
  }
  CHECK(m.content(file).size() == kLarge + 4);
  m.close(file);
}

TEST_CASE("S16 so is what was written under it through other open files of the same file") {
  Storm m;
  const auto file = m.create("f");
  const auto writer = m.open(file, O_RDWR);
  const auto reader = m.open(file, O_RDONLY);
  LockRequest request;
  request.owner = 5;
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == 0);
  CHECK(m.write_error(writer, large(), 0) == 0);
  m.write(writer, "more", kLarge);
  (void)m.take_calls();
  SUBCASE("by unlock") {
    CHECK(ok(m.loop.run(m.files->unlock(file.handle, 5, LockRange()))));
    CHECK(m.take_calls() == "write commit unlock");
  }
  SUBCASE("with all that its owner has") {
    CHECK(ok(m.loop.run(m.files->release_locks(file.handle, 5))));
    CHECK(m.take_calls() == "write commit release");
  }
  SUBCASE("by the close of one that is open for reading") {
    CHECK(m.flush(reader, 5) == 0);
    CHECK(m.take_calls() == "write commit release");
  }
  SUBCASE("by the close of one that is open for reading, which does not fail for others") {
    m.engine->fail("commit", EIO);
    CHECK(m.flush(reader, 5) == 0);
    CHECK(m.take_calls() == "write commit release");
    CHECK(m.flush(writer) == EIO);
  }
  CHECK(m.engine->locker == 0);
  for (const OpenedFile& one : {reader, writer, file}) m.close(one);
}

TEST_CASE("S16 whoever has got a lock reads what others wrote before, not what he read ahead") {
  Storm m(small_reads());
  const auto file = m.create("f");
  m.append_elsewhere(file, std::string(kLarge, 'o'));
  for (std::uint64_t at = 0; at < 5; ++at) (void)m.read_at(file, at * 4096, 4096);
  m.turn();
  m.content(file).assign(kLarge, 'n');
  LockRequest request;
  request.owner = 5;
  CHECK(m.error(m.files->lock(file.handle, request, nullptr)) == 0);
  CHECK(m.read_at(file, 5ULL * 4096, 4096) == std::string(4096, 'n'));
  m.close(file);
}

TEST_CASE("F7 a lock that is waited for while writes do not end can be given up") {
  Storm m;
  const auto file = m.create_and_write();
  const auto wait = std::make_shared<locking::LockWait>(m.loop);
  auto lock = m.files->lock(file.handle, {}, wait);
  m.start(lock);
  CHECK_FALSE(lock.done());
  wait->cancel();
  m.turn();
  REQUIRE(lock.done());
  CHECK(lock.await_resume().error().errno_value() == EINTR);
  m.engine->release("write");
  m.turn();
  m.close(file);
}

TEST_CASE("F22 what is behind stays within its bound while the server answers nobody") {
  Storm m;
  constexpr std::size_t kMiB = 1U << 20;
  const std::string text(kMiB, 'x');
  std::vector<OpenedFile> opened;
  for (int i = 0; i < 4; ++i) opened.push_back(m.create("f" + std::to_string(i)));
  m.engine->hold("write");
  std::vector<async::Task<Status>> writes;
  for (std::uint64_t i = 0; i < 48; ++i) {
    writes.push_back(m.writing(opened[i % 4], text, i / 4 * kMiB));
    m.start(writes.back());
  }
  CHECK(m.files->bytes_behind() == WriteWindow::kFirst);
  const auto done = [&] { return std::ranges::count_if(writes, [](const auto& one) { return one.done(); }); };
  CHECK(done() == WriteWindow::kFirst / kMiB);
  SUBCASE("and comes back") {
    m.engine->release("write");
  }
  SUBCASE("and is full then") {
    m.engine->fail("write", ENOSPC, 1000);
    m.engine->release("write");
  }
  m.turn();
  CHECK(done() == 48);
  CHECK(m.files->bytes_behind() == 0);
  for (const OpenedFile& file : opened) m.close(file);
}

}  // namespace nfsrdma::fs
