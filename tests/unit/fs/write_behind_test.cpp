// Writes that are answered before they are on the server, by themselves: on a server that is held or fails.
#include "fs/write_behind.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <deque>

#include "support/file_parts.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs::plain {
namespace {

using namespace std::chrono_literals;

struct Writing : FileParts {
  static constexpr std::uint32_t kWsize = 128U << 10;
  Writing() {
    behind.on_lost([this](Inode& inode) { lost.push_back(inode.id); });
  }
  ~Writing() { loop.drop_tasks(); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  using Task = async::Task<Status>;
  static WriteBehind::How how(bool stable = false) {
    WriteBehind::How out;
    out.stable = stable;
    return out;
  }
  Task writing(const File& to, const std::string& text, std::uint64_t offset, bool stable = false) {
    texts.push_back(text);
    return behind.write(to, {}, std::as_bytes(std::span(texts.back())), offset, how(stable));
  }
  /// One that is answered at once.
  void write(const File& to, const std::string& text, std::uint64_t offset, bool stable = false) {
    auto task = writing(to, text, offset, stable);
    start(task);
    REQUIRE(task.done());
    CHECK(task.await_resume());
  }
  int error(Task task) {
    const Status done = loop.run(std::move(task));
    return done ? 0 : done.error().errno_value();
  }
  int error(const Status& done) { return done ? 0 : done.error().errno_value(); }
  std::string& content() { return node(file->shared_inode()).content; }

  std::deque<std::string> texts;  // until the writes have ended
  std::vector<std::uint64_t> lost;
  WriteBehind behind{loop, freshness, counters, kWsize};
  const File file = open("a");
  Inode& at = file->inode();
  const std::string large = std::string(64U << 10, 'x');  // too large to be gathered
};

}  // namespace

TEST_CASE("F6 write-behind: small writes that follow each other go out as one, some milliseconds later") {
  Writing m;
  m.write(m.file, "hello, ", 0);
  m.pass(9ms);
  m.write(m.file, "world", 7);
  CHECK(m.take_calls().empty());
  CHECK(m.behind.bytes_behind() == 12);
  m.pass(12ms);
  CHECK(m.take_calls() == "write");
  CHECK(m.content() == "hello, world");
  CHECK(m.behind.bytes_behind() == 0);
  CHECK(m.counters.writes_behind == 2);
  // Those that come later are seen to as well.
  m.pass(1s);
  m.write(m.file, "!", 12);
  m.pass(20ms);
  CHECK(m.content() == "hello, world!");
}

TEST_CASE("F6 write-behind: what does not follow is sent by itself, in order") {
  Writing m;
  SUBCASE("another place") {
    m.write(m.file, "a", 0);
    m.write(m.file, "b", 2);
    m.turn();
    CHECK(m.take_calls() == "write");
  }
  SUBCASE("another's") {
    const auto other = m.open("a");
    REQUIRE(&other->inode() == &m.at);
    m.write(m.file, "a", 0);
    m.write(other, "b", 1);
    m.turn();
    CHECK(m.take_calls() == "write");
  }
  SUBCASE("the bytes of one that is under way") {
    m.engine.hold("write");
    m.write(m.file, m.large, 2);
    m.write(m.file, "ab", 0);
    m.turn();
    auto over = m.writing(m.file, "c", 2);
    m.start(over);
    CHECK_FALSE(over.done());
    m.take_calls();
    m.engine.release("write");
    CHECK(m.finish(over));
    CHECK(m.take_calls() == "write");  // it went on behind what was gathered, and came too late for that
  }
  SUBCASE("more than one WRITE takes") {
    m.write(m.file, std::string(60U << 10, 'a'), 0);
    m.write(m.file, std::string(60U << 10, 'b'), 60U << 10);
    m.write(m.file, std::string(8U << 10, 'c'), 120U << 10);
    CHECK(m.take_calls() == "write");  // as much as one takes: nothing to wait for
    m.write(m.file, "d", 128U << 10);
    CHECK(m.calls.empty());
  }
  m.pass(1s);
  CHECK(m.take_calls() == "write");  // the rest
}

TEST_CASE("F13 write-behind: a READ waits for what it would overtake, and for nothing that comes later") {
  Writing m;
  m.engine.hold("write");
  // Nobody has been told of it before it is on the disk.
  auto stable = m.writing(m.file, m.large, 100, true);
  m.start(stable);
  m.turn();
  REQUIRE_FALSE(stable.done());
  CHECK(m.at.writes.empty());
  CHECK(WriteBehind::may_read_at_once(m.at, 0, 100));
  CHECK_FALSE(WriteBehind::may_read_at_once(m.at, 99, 101));
  auto beside = m.behind.settle_for_read(m.at, 0, 100);
  m.start(beside);
  m.turn();
  CHECK(beside.done());
  auto of_it = m.behind.settle_for_read(m.at, 0, 101);
  m.start(of_it);
  m.turn();
  CHECK_FALSE(of_it.done());
  auto later = m.writing(m.file, m.large, 0, true);
  m.start(later);
  m.engine.release_one("write");
  m.turn();
  CHECK(of_it.done());
  m.engine.release("write");
  CHECK(m.finish(stable));
  CHECK(m.finish(later));
  CHECK(WriteBehind::may_read_at_once(m.at, 0, ~std::uint64_t{0}));
}

TEST_CASE("F13 write-behind: a READ waits for an append whose place is being found") {
  Writing m;
  m.content() = "old text";
  m.engine.hold_answer("attributes");
  WriteBehind::How appends = Writing::how(true);
  appends.append = true;
  const std::string text = "appended";
  const auto append = [&]() -> Writing::Task {
    auto end = co_await m.behind.place_append(m.file);
    if (!end) co_return end.error();
    co_return co_await m.behind.write(m.file, {}, std::as_bytes(std::span(text)), *end, appends);
  };
  auto first = append(), second = append();
  m.start(first);
  m.start(second);
  CHECK_FALSE(WriteBehind::may_read_at_once(m.at, 0, 100));
  auto read = m.behind.settle_for_read(m.at, 0, 100);
  m.start(read);
  CHECK_FALSE(read.done());
  m.engine.hold("write");
  m.engine.release("attributes");
  m.turn();
  CHECK_FALSE(read.done());
  m.engine.release("write");
  CHECK(m.finish(first));
  CHECK(m.finish(second));
  m.turn();
  CHECK(read.done());
  CHECK(m.content() == "old textappendedappended");
}

TEST_CASE("F6 write-behind: a write that touches an earlier one waits for it, others do not") {
  Writing m;
  m.engine.hold("write");
  m.write(m.file, m.large, 0);
  auto over = m.writing(m.file, std::string(m.large.size(), 'y'), 1000);
  m.start(over);
  CHECK_FALSE(over.done());
  m.write(m.file, m.large, 1U << 20);
  CHECK(m.take_calls() == "write write");
  m.engine.release("write");
  CHECK(m.finish(over));
  m.turn();
  CHECK(m.take_calls() == "write");
  CHECK(m.content()[999] == 'x');
  CHECK(m.content()[1000] == 'y');
}

TEST_CASE(
    "F6 write-behind: gathered bytes that a write touches are sent before it, and may be done at once") {
  Writing m;
  m.write(m.file, "aaaa", 0);
  SUBCASE("well") {}
  SUBCASE("not") {
    m.engine.fail("write", EIO);
  }
  auto over = m.writing(m.file, m.large, 2);
  m.start(over);
  CHECK(m.finish(over));
  m.turn();
  CHECK(m.take_calls() == "write write");
  CHECK(m.content()[2] == 'x');
}

TEST_CASE("F22 write-behind: gathered bytes that make room at once are not waited for") {
  Writing m;
  const std::string small(63U << 10, 's');
  std::vector<Writing::File> files;
  for (std::size_t i = 0; (i + 1) * small.size() < WriteWindow::kFirst; ++i) {
    files.push_back(m.open(std::to_string(i)));
    m.write(files.back(), small, 0);
  }
  auto more = m.writing(m.file, m.large, 0);
  m.start(more);
  CHECK(m.counters.behind_waits == 1);
  CHECK(m.finish(more));
  m.turn();
  CHECK(m.behind.bytes_behind() == 0);
}

TEST_CASE(
    "F22 write-behind: no more is behind than the window holds, and who waits goes on with what is sent") {
  Writing m;
  m.engine.hold("write");
  std::uint64_t at = 0;
  for (; at < WriteWindow::kFirst; at += m.large.size()) m.write(m.file, m.large, at);
  CHECK(m.behind.bytes_behind() == WriteWindow::kFirst);
  auto more = m.writing(m.file, m.large, at);
  m.start(more);
  CHECK_FALSE(more.done());
  CHECK(m.counters.behind_waits == 1);
  CHECK(m.behind.bytes_behind() == WriteWindow::kFirst);
  m.engine.release_one("write");
  m.turn();
  CHECK(more.done());
  CHECK(m.behind.bytes_behind() <= m.behind.most_behind());
  m.engine.release("write");
  m.turn();
  CHECK(m.behind.bytes_behind() == 0);
}

TEST_CASE("F22 write-behind: what is gathered makes room at once if somebody waits for room") {
  Writing m;
  const auto other = m.open("b");
  m.write(other, "small", 0);
  m.engine.hold("write");
  for (std::uint64_t at = 0; at + m.large.size() < WriteWindow::kFirst; at += m.large.size())
    m.write(m.file, m.large, at);
  m.take_calls();
  auto more = m.writing(m.file, m.large, WriteWindow::kFirst);
  m.start(more);
  CHECK_FALSE(more.done());
  CHECK(m.take_calls() == "write");
}

TEST_CASE("F6 write-behind: whoever settles waits for what was answered before, not for what comes then") {
  Writing m;
  m.engine.hold("write");
  m.write(m.file, m.large, 0);
  m.write(m.file, "small", 1U << 20);
  m.take_calls();
  async::Task<void> settled = m.behind.settle(m.at);
  m.start(settled);
  CHECK(m.take_calls() == "write");  // what was gathered
  m.write(m.file, "later", 2U << 20);
  m.engine.release_one("write");
  m.turn();
  CHECK_FALSE(settled.done());
  m.engine.release_one("write");
  m.turn();
  CHECK(settled.done());
  CHECK(m.behind.bytes_behind() == 5);
  CHECK(m.calls.empty());  // the later one is still gathered
}

TEST_CASE("F6 write-behind: one_settled() ends with the first of those that are under way") {
  Writing m;
  m.engine.hold("write");
  m.write(m.file, m.large, 0);
  m.write(m.file, m.large, 1U << 20);
  auto one = m.behind.one_settled(m.at);
  m.start(one);
  CHECK_FALSE(one.done());
  m.engine.release_one("write");
  m.turn();
  CHECK(one.done());
  CHECK_FALSE(m.at.writes.empty());
  m.engine.release("write");
  m.turn();
  m.write(m.file, "small", 2U << 20);
  m.loop.run(m.behind.one_settled(m.at));
  CHECK(m.at.writes.empty());
}

TEST_CASE("F14 write-behind: a stable write is on the disk when it is answered, a direct one on the server") {
  Writing m;
  m.engine.hold("write");
  bool stable = false;
  SUBCASE("stable") {
    stable = true;
  }
  SUBCASE("direct") {
    m.file->direct = true;
  }
  auto write = m.writing(m.file, "a", 0, stable);
  m.start(write);
  CHECK_FALSE(write.done());
  CHECK(m.take_calls() == (stable ? "write!" : "write"));
  CHECK(m.at.writes.empty());  // nobody was told
  m.engine.release("write");
  CHECK(m.finish(write));
  CHECK(m.counters.writes_behind == 0);
}

TEST_CASE("F14 write-behind: an error of a write that is waited for is its own, and nobody else's") {
  Writing m;
  m.engine.fail("write", ENOSPC);
  CHECK(m.error(m.writing(m.file, "a", 0, true)) == ENOSPC);
  CHECK(m.lost.empty());
  CHECK(m.error(WriteBehind::told_at_fsync(*m.file, Status())) == 0);
  m.freshness.changed(m.at);
  CHECK_FALSE(m.at.writes.written_since(0));  // it left nothing to be seen
}

TEST_CASE("F22 write-behind: a large write goes out in pieces, and one that fails fails it") {
  Writing m;
  const std::string data(2 * Writing::kWsize + 1, 'z');
  SUBCASE("well") {
    m.write(m.file, data, 10);
    m.turn();
    CHECK(m.content().substr(10) == data);
  }
  SUBCASE("not") {
    m.engine.fail("write", EIO);
    m.write(m.file, data, 10);
    m.turn();
    CHECK(m.lost == std::vector{m.at.id});
  }
  CHECK(m.take_calls() == "write write write");
  CHECK(m.counters.server_writes == 3);
  CHECK(m.behind.bytes_behind() == 0);
}

TEST_CASE("F3 F4 write-behind: after a late error writes are stable until an fsync has gone well") {
  Writing m;
  m.at.attributes.cache(1);
  m.engine.fail("write", ENOSPC, 2);
  m.write(m.file, m.large, 0);
  CHECK(m.lost == std::vector{m.at.id});
  CHECK_FALSE(m.at.attributes.is_cached());
  CHECK(m.at.attributes.resized_since(m.at.attributes.changed() -
                                      1));  // the size is not what the write made of it
  CHECK(m.error(m.writing(m.file, "a", 0)) == ENOSPC);
  m.take_calls();
  CHECK(m.error(m.writing(m.file, "a", 0)) == 0);
  CHECK(m.take_calls() == "write!");
  CHECK(m.error(WriteBehind::told_at_fsync(*m.file, m.loop.run(m.behind.save(m.file)))) == ENOSPC);
  CHECK(m.at.writes.errors().failing());
  CHECK(m.error(WriteBehind::told_at_fsync(*m.file, Error(ErrorKind::server, EIO, "COMMIT", "a", "no"))) ==
        EIO);
  CHECK(m.at.writes.errors().failing());
  CHECK(m.error(WriteBehind::told_at_fsync(*m.file, Status())) == 0);
  CHECK_FALSE(m.at.writes.errors().failing());
  m.take_calls();
  m.write(m.file, "b", 0);
  CHECK(m.take_calls().empty());  // gathered again
}

TEST_CASE(
    "F3 late errors: who opens the file before anybody is told of an error is told, who opens it later is "
    "not") {
  LateErrors errors;
  const auto told = [](const Status& status) { return status ? 0 : status.error().errno_value(); };
  LateErrors::Listener writer(errors);
  errors.add(Error(ErrorKind::server, EDQUOT, "WRITE", "a", "no"));
  LateErrors::Listener reopened(errors);
  CHECK(told(reopened.untold()) == EDQUOT);
  SUBCASE("at fsync") {
    CHECK(told(reopened.at_fsync()) == EDQUOT);
    CHECK(told(reopened.at_fsync()) == 0);
  }
  SUBCASE("at close") {
    CHECK(told(reopened.at_close(1)) == EDQUOT);
    CHECK(told(reopened.at_close(1)) == 0);
  }
  LateErrors::Listener late(errors);
  CHECK(told(late.untold()) == 0);
  CHECK(told(late.at_close(1)) == 0);
  CHECK(told(late.at_fsync()) == 0);
  CHECK(told(writer.at_fsync()) == EDQUOT);  // nobody takes it away from another one
}

TEST_CASE("F3 write-behind: close tells each process of a late error, and then it has gone well") {
  Writing m;
  m.engine.fail("write", EDQUOT);
  m.write(m.file, m.large, 0);
  CHECK(m.error(WriteBehind::told_at_close(*m.file, 7, Status())) == EDQUOT);
  CHECK(m.error(WriteBehind::told_at_close(*m.file, 8, Status())) == EDQUOT);
  CHECK(m.at.writes.errors().failing());
  CHECK(m.error(WriteBehind::told_at_close(*m.file, 7, Error(ErrorKind::server, EIO, "x", "a", "no"))) ==
        EIO);
  CHECK(m.at.writes.errors().failing());
  CHECK(m.error(WriteBehind::told_at_close(*m.file, 7, Status())) == 0);
  CHECK_FALSE(m.at.writes.errors().failing());
}

TEST_CASE("F13 write-behind: all of a small file goes out stable when it is saved, without a COMMIT") {
  Writing m;
  m.engine.delegation = std::chrono::seconds(90);
  m.write(m.file, "small", 0);
  CHECK(m.error(m.behind.save(m.file)) == 0);
  CHECK(m.take_calls() == "write! attributes");
  CHECK(m.at.attributes.cache(m.node(m.file->shared_inode()).change));
  CHECK(m.freshness.kept(m.at));
  CHECK(m.error(m.behind.save(m.file)) == 0);  // nothing to do
  CHECK(m.take_calls().empty());
}

TEST_CASE(
    "F13 write-behind: all of a small file goes out stable before its time is set, a part of it does not") {
  Writing m;
  const auto settle_last = [&] {
    async::Task<void> task = m.behind.settle_last(m.at, nullptr);
    m.start(task);
    REQUIRE(task.done());
  };
  settle_last();  // nothing to do
  CHECK(m.take_calls().empty());
  m.write(m.file, "small", 0);
  settle_last();
  CHECK(m.take_calls() == "write!");
  CHECK_FALSE(m.file->file()->has_unstable_data());
  m.write(m.file, m.large, 5);
  m.write(m.file, "small", 0);
  settle_last();
  CHECK(m.take_calls() == "write write");
  CHECK(m.file->file()->has_unstable_data());
  m.write(m.file, "SMALL", 0);
  settle_last();
  CHECK(m.take_calls() == "write");
}

TEST_CASE(
    "F13 write-behind: a time that is set sends all of a small file to the disk, unless more may follow") {
  Plain m;
  m.engine->tells = true;
  const OpenedFile file = m.create("f");
  m.write(file, "small", 0);
  m.take_calls();
  SetAttributes changes;
  changes.modified = Time{};
  std::string expected = "write! set";
  SUBCASE("utimes(2)") {}
  SUBCASE("a size besides, as ftruncate(2) has it with a write-back cache") {
    changes.size = 2;
    expected = "write set";
  }
  SUBCASE("a mode alone") {
    changes = {};
    changes.mode = 0600;
    expected = "write set";
  }
  SUBCASE("under a delegation, where close(2) need not wait") {
    m.engine->delegation = std::chrono::seconds(90);
  }
  (void)m.get(m.files->set_attributes(nullptr, file.entry.inode, changes, file.handle));
  CHECK(m.take_calls() == expected);
  m.engine->delegation = {};
  CHECK(ok(m.loop.run(m.files->close(file.handle))));
}

TEST_CASE("F13 write-behind: what a WRITE to the disk brought need not be asked for") {
  Writing m;
  m.engine.delegation = std::chrono::seconds(90);
  m.engine.tells = true;
  m.write(m.file, "small", 0);
  CHECK(m.error(m.behind.save(m.file)) == 0);
  CHECK(m.take_calls() == "write!");
  CHECK(m.at.attributes.cache(m.node(m.file->shared_inode()).change));
  CHECK(m.freshness.kept(m.at)->attributes.size == 5);
}

TEST_CASE("F13 write-behind: a file that is there in parts is committed, by all who wrote it") {
  Writing m;
  const auto other = m.open("a");
  m.write(m.file, m.large, 0);
  m.write(other, m.large, 1U << 20);
  m.write(m.file, "small", 2U << 20);
  m.turn();
  m.take_calls();
  CHECK(m.error(m.behind.save(m.file)) == 0);
  CHECK(m.take_calls() == "write commit commit attributes");
  CHECK_FALSE(m.file->file()->has_unstable_data());
  CHECK_FALSE(other->file()->has_unstable_data());
}

TEST_CASE("F3 write-behind: an error of anybody's COMMIT is the answer of all") {
  Writing m;
  const auto other = m.open("a");
  m.write(other, m.large, 0);
  m.turn();
  m.engine.fail("commit", EIO);
  CHECK(m.error(m.behind.make_safe(m.file)) == EIO);
}

TEST_CASE("F13 write-behind: the kernel's pages do not go with what came while attributes were asked for") {
  Writing m;
  m.at.attributes.cache(77);
  m.write(m.file, m.large, 0);
  m.turn();
  m.engine.hold_answer("attributes");
  auto saved = m.behind.save(m.file);
  m.start(saved);
  CHECK_FALSE(saved.done());
  m.write(m.file, "more", 0);
  m.engine.release("attributes");
  CHECK(m.finish(saved));
  CHECK(m.at.attributes.cache(77));
  CHECK_FALSE(m.freshness.kept(m.at));
}

TEST_CASE("F1 write-behind: an append goes to the server's end, behind what is on its way there") {
  Writing m;
  m.content() = "others";
  const auto place = [&] { return *m.loop.run(m.behind.place_append(m.file)); };
  const auto append = [&](const std::string& text, std::uint64_t offset) {
    WriteBehind::How how;
    how.append = true;
    CHECK(m.loop.run(m.behind.write(m.file, {}, std::as_bytes(std::span(text)), offset, how)));
  };
  m.engine.hold("write");
  CHECK(place() == 6);
  append("abc", 6);
  CHECK(place() == 9);
  append("def", 9);
  CHECK(m.take_calls() == "attributes");
  m.engine.release("write");
  m.pass(1s);
  CHECK(m.content() == "othersabcdef");
  m.content() += "again";  // by somebody else
  m.take_calls();
  CHECK(place() == 17);
  CHECK(m.take_calls() == "attributes");
}

TEST_CASE(
    "F1 write-behind: writes that are no appends do not say where the end is, but how far it is at least") {
  Writing m;
  m.content() = std::string(100, 'o');
  m.write(m.file, "abc", 10);
  CHECK(*m.loop.run(m.behind.place_append(m.file)) == 100);
  m.write(m.file, "abc", 200);
  CHECK(*m.loop.run(m.behind.place_append(m.file)) == 203);
}

TEST_CASE("F1 write-behind: the end is asked for again where the size was set meanwhile, by one at a time") {
  Writing m;
  m.content() = "others";
  m.engine.hold_answer("attributes");
  auto first = m.behind.place_append(m.file), second = m.behind.place_append(m.file);
  m.start(first);
  m.start(second);
  CHECK(m.take_calls() == "attributes");
  m.freshness.resized(m.at);
  m.content() = "cut";
  m.engine.release("attributes");
  m.turn();
  REQUIRE(first.done());
  CHECK(*first.await_resume() == 3);
  CHECK(m.calls.starts_with("attributes"));
}

TEST_CASE("F1 write-behind: an append goes behind the end that the server said when it was asked later") {
  Writing m;
  m.content() = "others";
  m.engine.hold_answer("attributes");
  auto place = m.behind.place_append(m.file);
  m.start(place);
  m.content() = "others have appended";
  const std::uint64_t as_of = m.freshness.count();
  Attributes said;
  said.change = 100;
  said.size = m.content().size();
  m.freshness.learn(m.at, said, as_of);  // overtakes the answer that is held
  m.engine.release("attributes");
  m.turn();
  REQUIRE(place.done());
  CHECK(*place.await_resume() == m.content().size());
}

TEST_CASE("F1 write-behind: an append that failed leaves no hole in front of the next one") {
  Writing m;
  WriteBehind::How how;
  how.append = true;
  const auto append = [&](const std::string& text) {
    m.texts.push_back(text);
    const auto end = *m.loop.run(m.behind.place_append(m.file));
    return m.behind.write(m.file, {}, std::as_bytes(std::span(m.texts.back())), end, how);
  };
  m.engine.hold_answer("write");
  auto first = append(m.large);  // is under way all the time
  m.start(first);
  CHECK(first.done());
  m.engine.fail("write", ENOSPC);
  how.stable = true;
  CHECK(m.error(append("lost")) == ENOSPC);
  CHECK(*m.loop.run(m.behind.place_append(m.file)) == m.large.size());
  m.engine.release("write");
  m.turn();
}

TEST_CASE(
    "F1 write-behind: behind an append of which a part has failed the server says where the file ends") {
  Writing m;
  WriteBehind::How how;
  how.append = true;
  const auto append = [&](const std::string& text) {
    m.texts.push_back(text);
    const auto end = *m.loop.run(m.behind.place_append(m.file));
    return m.behind.write(m.file, {}, std::as_bytes(std::span(m.texts.back())), end, how);
  };
  auto gathered = append("small");  // is not sent yet
  m.start(gathered);
  CHECK(gathered.done());
  // The first of two pieces fails. The second one is written.
  m.engine.fail("write", ENOSPC);
  how.stable = true;
  const std::size_t size = 2 * std::size_t{Writing::kWsize};
  CHECK(m.error(append(std::string(size, 'z'))) == ENOSPC);
  REQUIRE(m.content().size() == 5 + size);
  CHECK(m.at.writes.any_append());
  CHECK(*m.loop.run(m.behind.place_append(m.file)) == m.content().size());
}

TEST_CASE("F6 write-behind: who waits for what was gathered waits for it though more has been added since") {
  Writing m;
  m.write(m.file, "before", 0);
  const std::uint64_t then = m.at.writes.last_number();
  m.write(m.file, "behind", 6);
  m.loop.run(m.behind.settle(m.at, then));
  CHECK(m.content() == "beforebehind");
}

TEST_CASE("S18 write-behind: it goes while small writes still wait to be sent") {
  FileParts m;
  const auto file = m.open("a");
  {
    WriteBehind behind(m.loop, m.freshness, m.counters, 1U << 20);
    const std::string text = "gone";
    CHECK(m.loop.run(behind.write(file, {}, std::as_bytes(std::span(text)), 0, {})));
  }
  m.pass(1s);
  CHECK(m.calls.empty());
}

}  // namespace nfsrdma::fs::plain
