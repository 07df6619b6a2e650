#include "sim/file_oracle.h"

#include <doctest/doctest.h>

#include <string>

namespace nfsrdma::sim {
namespace {

using Outcome = FileOracle::Outcome;

/// A file that two clients have open.
struct SharedFile {
  explicit SharedFile(bool lossy = false)
      : file("f", clock, [lossy, this](FileOracle::Client client) {
          return client == FileOracle::kServer ? has_restarted : lossy;
        }) {
    open(kA);
    open(kB);
  }
  static constexpr FileOracle::Client kA = 1, kB = 2, kC = 3;
  static FileOracle::Who who(FileOracle::Client client) { return {client, "c" + std::to_string(client)}; }

  void open(FileOracle::Client client) { file.opened(client, clock.tick()); }
  FileOracle::ChangeId write(FileOracle::Client client, std::uint64_t offset, const std::string& text,
                             bool settled = false) {
    const auto id = file.begin_write(who(client), offset, text);
    file.end(id, Outcome::done, settled);
    return id;
  }
  FileOracle::ChangeId append(FileOracle::Client client, const std::string& text) {
    const auto id = file.begin_append(who(client), text);
    file.end(id, Outcome::done);
    return id;
  }
  void truncate(FileOracle::Client client, std::uint64_t size) {
    file.end(file.begin_truncate(who(client), size), Outcome::done, true);
  }
  void sync(FileOracle::Client client, Tick opened = 0) { file.settle(client, clock.tick(), opened); }
  std::string why(FileOracle::Client client, const std::string& got, std::uint64_t offset = 0) {
    return file.check_read(client, clock.tick(), offset, 100'000, got);
  }
  bool may_read(FileOracle::Client client, const std::string& got, std::uint64_t offset = 0) {
    return why(client, got, offset).empty();
  }
  bool may_size(FileOracle::Client client, std::uint64_t size) {
    return file.check_size(client, clock.tick(), size).empty();
  }

  OracleClock clock;
  bool has_restarted = false;
  FileOracle file;
};

}  // namespace

TEST_CASE("sim: file oracle: on one client what was written is read, and nothing older") {
  SharedFile f;
  CHECK(f.may_read(f.kA, ""));
  f.write(f.kA, 0, "first");
  CHECK(f.may_read(f.kA, "first"));
  CHECK_FALSE(f.may_read(f.kA, ""));
  CHECK_FALSE(f.may_read(f.kA, "firs"));
  CHECK_FALSE(f.may_read(f.kA, "first."));
  f.write(f.kA, 0, "other");
  CHECK(f.may_read(f.kA, "other"));
  CHECK_FALSE(f.may_read(f.kA, "first"));
  CHECK_FALSE(f.may_read(f.kA, "othet"));
  CHECK(f.may_size(f.kA, 5));
  CHECK_FALSE(f.may_size(f.kA, 4));
  CHECK_FALSE(f.may_size(f.kA, 6));
  CHECK_FALSE(f.file.check_read(f.kA, f.clock.tick(), 0, 3, "other").empty());
}

TEST_CASE("sim: file oracle: a write that is under way may be seen or not, also in parts") {
  SharedFile f;
  f.write(f.kA, 0, "first");
  const auto id = f.file.begin_write(f.who(f.kA), 3, "xyz");
  for (const char* const text : {"first", "firxyz", "firxt", "firsyz"}) CHECK(f.may_read(f.kA, text));
  CHECK_FALSE(f.may_read(f.kA, "fxrst"));
  CHECK_FALSE(f.may_read(f.kA, "firx"));
  CHECK(f.may_size(f.kA, 6));
  CHECK(f.may_size(f.kA, 5));
  // A read that began before the write ended.
  const Tick begun = f.clock.tick();
  f.file.end(id, Outcome::done);
  CHECK(f.file.check_read(f.kA, begun, 0, 100, "first").empty());
  CHECK_FALSE(f.may_read(f.kA, "first"));
  CHECK(f.may_read(f.kA, "firxyz"));
}

TEST_CASE("F23 sim: file oracle: who opens behind the other's close sees what it wrote, others may") {
  SharedFile f;
  f.write(f.kA, 0, "first");
  CHECK(f.may_read(f.kB, ""));
  CHECK(f.may_read(f.kB, "first"));
  f.open(f.kB);
  CHECK(f.may_read(f.kB, ""));  // A has closed nothing
  const Tick early = f.clock.tick();
  f.sync(f.kA);
  CHECK(f.may_read(f.kB, ""));
  SUBCASE("it opens behind that") {
    f.open(f.kB);
    CHECK_FALSE(f.may_read(f.kB, ""));
    CHECK_FALSE(f.may_size(f.kB, 0));
    CHECK(f.may_read(f.kB, "first"));
  }
  SUBCASE("its open began before") {
    f.file.opened(f.kB, early);
    CHECK(f.may_read(f.kB, ""));
    CHECK(f.may_read(f.kB, "first"));
  }
  SUBCASE("its read began before its open ended") {
    const Tick begun = f.clock.tick();
    f.open(f.kB);
    CHECK(f.file.check_read(f.kB, begun, 0, 10, "").empty());
  }
}

TEST_CASE("sim: file oracle: writes of two clients are in order only if one was settled before the other") {
  SharedFile f;
  f.write(f.kA, 0, "aaaa");
  f.write(f.kB, 0, "bbbb");
  f.sync(f.kB);
  f.open(f.kA);
  CHECK(f.may_read(f.kA, "aaaa"));  // its own may be written behind B's
  CHECK(f.may_read(f.kA, "bbbb"));
  f.sync(f.kA);
  CHECK(f.file.check_final("aaaa").empty());
  CHECK(f.file.check_final("bbbb").empty());
  f.write(f.kB, 0, "cccc");
  f.sync(f.kB);
  CHECK(f.file.check_final("cccc").empty());
  CHECK_FALSE(f.file.check_final("aaaa").empty());
  CHECK(f.may_read(f.kA, "aaaa"));
  f.open(f.kA);
  CHECK_FALSE(f.may_read(f.kA, "aaaa"));
}

TEST_CASE("sim: file oracle: truncate takes bytes away, and zeros stand where nobody wrote") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  f.truncate(f.kA, 2);
  CHECK(f.may_read(f.kA, "ab"));
  CHECK_FALSE(f.may_read(f.kA, "abcdef"));
  f.truncate(f.kA, 4);
  CHECK(f.may_read(f.kA, std::string("ab\0\0", 4)));
  CHECK_FALSE(f.may_read(f.kA, "abcd"));
  f.write(f.kA, 6, "x");
  CHECK(f.may_read(f.kA, std::string("ab\0\0\0\0x", 7)));
  CHECK(f.may_size(f.kA, 7));
  CHECK(f.may_read(f.kA, "", 7));
  CHECK_FALSE(f.may_read(f.kA, "", 6));
}

TEST_CASE("sim: file oracle: what is truncated by another client may still be read, until one opens again") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  f.sync(f.kA);
  f.truncate(f.kB, 3);
  CHECK(f.may_read(f.kA, "abcdef"));
  CHECK(f.may_read(f.kA, "abc"));
  CHECK(f.may_size(f.kA, 3));
  f.open(f.kA);
  CHECK_FALSE(f.may_read(f.kA, "abcdef"));
  CHECK_FALSE(f.may_size(f.kA, 6));
  CHECK(f.file.check_final("abc").empty());
}

TEST_CASE("sim: file oracle: an older write may be seen behind a cut that nobody else is sure to see") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef", true);
  f.write(f.kA, 8, "late");
  f.truncate(f.kA, 0);
  const std::string between = std::string(8, '\0') + "late";
  CHECK(f.may_read(f.kB, between));
  CHECK_FALSE(f.may_read(f.kA, between));
  f.open(f.kB);
  CHECK_FALSE(f.may_read(f.kB, between));
  CHECK_FALSE(f.file.check_final(between).empty());
}

TEST_CASE(
    "sim: file oracle: zeros may stand behind the end that another client has set, until one opens again") {
  SharedFile f;
  const std::string zeros("ab\0\0\0\0", 6);
  f.write(f.kA, 0, "abcdef", true);
  f.open(f.kB);
  CHECK_FALSE(f.may_read(f.kB, zeros));
  f.truncate(f.kA, 2);
  for (const std::string& text : {std::string("abcdef"), std::string("ab"), zeros})
    CHECK(f.may_read(f.kB, text));
  CHECK_FALSE(f.may_read(f.kB, zeros + '\0'));
  CHECK_FALSE(f.may_read(f.kA, zeros));
  SUBCASE("nor has the server them") {
    CHECK_FALSE(f.file.check_final(zeros).empty());
    f.open(f.kB);
    CHECK_FALSE(f.may_read(f.kB, zeros));
    CHECK(f.may_read(f.kB, "ab"));
  }
  SUBCASE("unless a mapping's page is written out with them") {
    f.file.end(f.file.begin_store(f.who(f.kB), 0, "A"), Outcome::done);
    f.sync(f.kB);
    CHECK(f.file.check_final("A" + zeros.substr(1)).empty());
  }
}

TEST_CASE("sim: file oracle: a hole is punched within the file, and room allocated behind its end") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  f.file.end(f.file.begin_punch(f.who(f.kA), 1, 2), Outcome::done, true);
  CHECK(f.may_read(f.kA, std::string("a\0\0def", 6)));
  CHECK_FALSE(f.may_read(f.kA, "abcdef"));
  CHECK(f.file.check_hole(f.kA, f.clock.tick(), 1, 3).empty());
  CHECK_FALSE(f.file.check_hole(f.kA, f.clock.tick(), 0, 3).empty());
  CHECK(f.file.check_hole(f.kA, f.clock.tick(), 6, 100).empty());
  f.file.end(f.file.begin_punch(f.who(f.kA), 5, 20), Outcome::done, true);
  CHECK(f.may_size(f.kA, 6));
  f.file.end(f.file.begin_allocate(f.who(f.kA), 5, 3), Outcome::done, true);
  CHECK(f.may_read(f.kA, std::string("a\0\0de\0\0\0", 8)));
  CHECK_FALSE(f.may_size(f.kA, 6));
  f.write(f.kA, 1, "xy");
  CHECK(f.may_read(f.kA, std::string("axyde\0\0\0", 8)));
}

TEST_CASE("F1 sim: file oracle: appends of one client follow each other") {
  SharedFile f;
  f.append(f.kA, "first.");
  f.append(f.kA, "second");
  CHECK(f.may_read(f.kA, "first.second"));
  CHECK_FALSE(f.may_read(f.kA, "secondfirst."));
  CHECK_FALSE(f.may_read(f.kA, "second"));
  f.write(f.kA, 12, "write.");
  f.append(f.kA, "third.");
  CHECK(f.may_read(f.kA, "first.secondwrite.third."));
  const std::string why = f.why(f.kA, "first.secondthird.third.");
  CHECK(why.find("append #4 of c1") != std::string::npos);
  CHECK(why.find("'w' of write #3 of c1") != std::string::npos);
}

TEST_CASE(
    "F1 sim: file oracle: appends of one client at one time stand in either order, and not upon each other") {
  SharedFile f;
  const auto first = f.file.begin_append(f.who(f.kA), "first.");
  const auto second = f.file.begin_append(f.who(f.kA), "second");
  CHECK(f.may_read(f.kA, ""));
  CHECK(f.may_read(f.kA, "second"));
  f.file.end(second, Outcome::done);
  f.file.end(first, Outcome::done);
  SUBCASE("the first is first") {
    CHECK(f.may_read(f.kA, "first.second"));
    CHECK_FALSE(f.may_read(f.kA, "secondfirst."));
  }
  SUBCASE("the second is first") {
    CHECK(f.may_read(f.kA, "secondfirst."));
    CHECK_FALSE(f.may_read(f.kA, "first.second"));
  }
  SUBCASE("what comes behind is behind both") {
    f.append(f.kA, "third.");
    CHECK(f.may_read(f.kA, "secondfirst.third."));
    CHECK_FALSE(f.may_read(f.kA, "secondthird."));
  }
}

TEST_CASE("F1 sim: file oracle: clients that append in turns lose nothing; at one time they may") {
  SharedFile f;
  f.append(f.kA, "first.");
  SUBCASE("in turns") {
    f.sync(f.kA);
    f.append(f.kB, "second");
    f.sync(f.kB);
    CHECK(f.file.check_final("first.second").empty());
    CHECK_FALSE(f.file.check_final("second").empty());
    CHECK(f.may_read(f.kA, "first."));  // it has not opened since
    f.open(f.kA);
    CHECK_FALSE(f.may_read(f.kA, "first."));
  }
  SUBCASE("at one time") {
    f.append(f.kB, "second");
    f.sync(f.kA);
    f.sync(f.kB);
    CHECK(f.file.check_final("first.second").empty());
  }
  SUBCASE("at one time, upon each other") {
    f.append(f.kB, "second");
    f.sync(f.kB);
    f.sync(f.kA);
    CHECK(f.file.check_final("second").empty());
  }
}

TEST_CASE("F3 sim: file oracle: behind an error data is there or not; unsynced data of a full disk, too") {
  SharedFile f(true);
  const Tick opened = f.clock.tick();
  f.write(f.kA, 0, "first");
  CHECK(f.may_read(f.kA, ""));
  SUBCASE("fsync fails") {
    f.file.doubt(f.kA, f.clock.tick());
    f.sync(f.kA, opened);
    CHECK(f.may_read(f.kA, ""));
    CHECK(f.may_read(f.kA, "first"));
  }
  SUBCASE("fsync succeeds") {
    f.sync(f.kA, opened);
    CHECK_FALSE(f.may_read(f.kA, ""));
  }
  SUBCASE("fsync succeeds of who has opened the file since") {
    f.sync(f.kA, f.clock.tick());
    CHECK(f.may_read(f.kA, ""));
  }
  SUBCASE("a write fails") {
    f.sync(f.kA, opened);
    f.file.end(f.file.begin_write(f.who(f.kA), 2, "xxx"), Outcome::failed);
    CHECK(f.may_read(f.kA, "first"));
    CHECK(f.may_read(f.kA, "fixxt"));
    f.write(f.kA, 2, "yyy");
    f.sync(f.kA, opened);
    CHECK_FALSE(f.may_read(f.kA, "fixxx"));
    CHECK(f.may_read(f.kA, "fiyyy"));
  }
}

TEST_CASE("sim: file oracle: what a killed client had not settled may be there, or come, or not") {
  SharedFile f;
  f.write(f.kA, 0, "settled");
  f.sync(f.kA);
  f.write(f.kA, 0, "lost...");
  f.file.begin_append(f.who(f.kA), "append");
  f.file.kill(f.kA);
  for (const char* const text : {"settled", "lost...", "lost...append", "settledappend"})
    CHECK(f.file.check_final(text).empty());
  CHECK_FALSE(f.file.check_final("").empty());
  f.open(f.kB);
  f.write(f.kB, 0, "of B...");
  f.sync(f.kB);
  CHECK(f.file.check_final("lost...").empty());
  CHECK_FALSE(f.file.check_final("settled").empty());
}

TEST_CASE("S26 sim: file oracle: what close(2) left behind may come until another client may open the file") {
  SharedFile f;
  f.write(f.kA, 0, "left");
  f.file.leave_behind(f.kA, f.clock.tick());
  CHECK(f.may_read(f.kA, ""));
  SUBCASE("it comes behind what others write who were not asked about it") {
    f.write(f.kB, 0, "over", true);
    CHECK(f.file.check_final("left").empty());
    CHECK(f.file.check_final("over").empty());
  }
  SUBCASE("it does not come behind what they write when the delegation is gone") {
    f.file.end_left_behind(f.kB);
    f.open(f.kB);
    CHECK(f.may_read(f.kB, "left"));
    CHECK(f.may_read(f.kB, ""));
    f.write(f.kB, 0, "over", true);
    CHECK_FALSE(f.file.check_final("left").empty());
    CHECK(f.file.check_final("over").empty());
  }
}

TEST_CASE("S16 sim: file oracle: who is granted a lock sees what its last holder had changed") {
  SharedFile f;
  f.write(f.kA, 0, "first");
  const Tick released = f.clock.tick();
  f.write(f.kA, 5, "more");
  CHECK(f.may_read(f.kB, ""));
  f.file.handed_over(f.kA, f.kB, released);
  CHECK_FALSE(f.may_read(f.kB, ""));
  CHECK(f.may_read(f.kB, "first"));
  CHECK(f.may_read(f.kB, "firstmore"));
}

TEST_CASE("sim: file oracle: a copy has what its source may have had") {
  SharedFile f;
  FileOracle to("g", f.clock);
  to.opened(f.kA, f.clock.tick());
  f.write(f.kA, 0, "abcdef");
  const auto under_way = f.file.begin_write(f.who(f.kA), 1, "X");
  const auto copy = to.begin_copy(f.who(f.kA), 2, 3);
  CHECK(to.check_read(f.kA, f.clock.tick(), 0, 100, std::string("\0\0???", 5)).empty());
  to.copied(copy, f.file, 0, 3);
  to.end(copy, Outcome::done);
  f.file.end(under_way, Outcome::done);
  CHECK(to.check_read(f.kA, f.clock.tick(), 0, 100, std::string("\0\0abc", 5)).empty());
  CHECK(to.check_read(f.kA, f.clock.tick(), 0, 100, std::string("\0\0aXc", 5)).empty());
  CHECK_FALSE(to.check_read(f.kA, f.clock.tick(), 0, 100, std::string("\0\0aYc", 5)).empty());
  CHECK_FALSE(to.check_read(f.kA, f.clock.tick(), 0, 100, "").empty());
}

TEST_CASE(
    "F30 sim: file oracle: a store in a mapping may undo what others did to its page, and nothing "
    "elsewhere") {
  SharedFile f;
  f.write(f.kA, 0, std::string(4100, 'a'));
  f.sync(f.kA);
  f.open(f.kB);
  f.write(f.kB, 10, "bbb");
  f.write(f.kB, 4098, "b");
  f.sync(f.kB);
  std::string got(4100, 'a');
  const auto store = [&] {
    const auto id = f.file.begin_store(f.who(f.kA), 0, "xx");
    f.file.end(id, Outcome::done);
    f.sync(f.kA);
    f.open(f.kB);
    got.replace(0, 2, "xx");
  };
  SUBCASE("A did not know of it") {
    store();
    CHECK_FALSE(f.may_read(f.kB, got));  // the second page is nobody's but B's
    got[4098] = 'b';
    CHECK(f.may_read(f.kB, got));
    got.replace(10, 3, "bbb");
    CHECK(f.may_read(f.kB, got));
    got.replace(0, 2, "aa");
    CHECK_FALSE(f.may_read(f.kB, got));
  }
  SUBCASE("A knew of it") {
    f.open(f.kA);
    store();
    got[4098] = 'b';
    CHECK_FALSE(f.may_read(f.kB, got));
    got.replace(10, 3, "bbb");
    CHECK(f.may_read(f.kB, got));
  }
}

TEST_CASE(
    "F30 sim: file oracle: a store that was overwritten undoes what others write until its page is written "
    "out") {
  SharedFile f;
  f.file.end(f.file.begin_store(f.who(f.kA), 0, "s"), Outcome::done);
  bool is_written_out = false;
  SUBCASE("it is not") {}
  SUBCASE("it is") {
    is_written_out = true;
    f.sync(f.kA);
  }
  f.write(f.kA, 0, "aaaa", true);
  f.open(f.kB);
  f.write(f.kB, 2, "bb");
  f.sync(f.kB);
  f.open(f.kA);
  CHECK(f.may_read(f.kA, "aabb"));
  CHECK(f.may_read(f.kA, "aaaa") == !is_written_out);
  f.sync(f.kA);
  f.write(f.kB, 3, "B", true);
  f.open(f.kA);
  CHECK_FALSE(f.may_read(f.kA, "aaaa"));
}

TEST_CASE(
    "sim: file oracle: a page that was stored in may be written out behind O_TRUNC, that of truncate(2) may "
    "not") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  f.file.end(f.file.begin_store(f.who(f.kA), 1, "X"), Outcome::done);
  const Tick begun = f.clock.tick();
  f.truncate(f.kA, 0);
  CHECK_FALSE(f.may_read(f.kA, "aXcdef"));
  f.file.cut_by_open(f.kA, begun);
  CHECK(f.may_read(f.kA, "aXcdef"));
  CHECK(f.may_read(f.kA, ""));
}

TEST_CASE(
    "F30 sim: file oracle: a store may be lost behind another client's truncation that its client did not "
    "know "
    "of") {
  for (const bool knows : {true, false}) {
    CAPTURE(knows);
    SharedFile f;
    f.write(f.kA, 0, "abcdef");
    f.sync(f.kA);
    f.truncate(f.kB, 3);
    if (knows) f.open(f.kA);
    f.file.end(f.file.begin_store(f.who(f.kA), 1, "X"), Outcome::done);
    CHECK_FALSE(f.may_read(f.kA, "abc"));  // it is before the new end, so its page stays
    f.file.end(f.file.begin_store(f.who(f.kA), 4, "Y"), Outcome::done);
    CHECK(f.may_read(f.kA, std::string("aXc\0Y", 5)));
    CHECK(f.may_read(f.kA, "aXc") == !knows);
    f.sync(f.kA);
    CHECK(f.may_read(f.kA, "aXc") == !knows);
    f.write(f.kA, 4, "Z");
    CHECK_FALSE(f.may_read(f.kA, "aXc"));
  }
}

TEST_CASE(
    "F30 sim: file oracle: a store may be lost where a restart loses what another client had not settled") {
  SharedFile f;
  f.write(f.kA, 0, "ab");
  f.sync(f.kA);
  f.write(f.kB, 0, "abcdef");
  bool may_be_lost = true;
  SUBCASE("when the page was not written out") {
    f.file.end(f.file.begin_store(f.who(f.kA), 4, "Y"), Outcome::done);
    f.has_restarted = true;
    CHECK(f.may_read(f.kA, "ab"));
  }
  SUBCASE("not when it was") {
    may_be_lost = false;
    f.file.end(f.file.begin_store(f.who(f.kA), 4, "Y"), Outcome::done);
    f.sync(f.kA);
    f.has_restarted = true;
  }
  SUBCASE("not when the file had been settled") {
    may_be_lost = false;
    f.sync(f.kB);
    f.open(f.kA);
    f.file.end(f.file.begin_store(f.who(f.kA), 4, "Y"), Outcome::done);
    f.has_restarted = true;
  }
  SUBCASE("not without a restart") {
    may_be_lost = false;
    f.file.end(f.file.begin_store(f.who(f.kA), 4, "Y"), Outcome::done);
  }
  f.sync(f.kA);
  f.open(f.kC);
  CHECK(f.may_read(f.kC, "abcdYf"));
  CHECK(f.may_read(f.kC, "ab") == may_be_lost);
  CHECK_FALSE(f.may_read(f.kC, "a"));
}

TEST_CASE("F13 sim: file oracle: a store beside a copy may undo it, and a store behind the copy may not") {
  SharedFile f;
  f.write(f.kA, 0, "abcdefghij");
  FileOracle source("source", f.clock);
  source.end(source.begin_write(f.who(f.kA), 0, "XY"), Outcome::done);
  const auto copy = f.file.begin_copy(f.who(f.kA), 4, 2);
  f.file.passes_pages_by(copy);
  bool is_beside = true;
  SUBCASE("beside") {}
  SUBCASE("behind") {
    is_beside = false;
  }
  const auto end_copy = [&] {
    f.file.copied(copy, source, 0, 2);
    f.file.end(copy, Outcome::done);
  };
  if (!is_beside) end_copy();
  f.file.end(f.file.begin_store(f.who(f.kA), 0, "s"), Outcome::done);
  if (is_beside) end_copy();
  CHECK(f.may_read(f.kA, "sbcdXYghij"));
  CHECK(f.may_read(f.kA, "sbcdefghij") == is_beside);
  CHECK_FALSE(f.may_read(f.kA, "abcdXYghij"));  // the store itself is not lost
}

TEST_CASE("F13 sim: file oracle: a store beside an O_DIRECT write may undo it, and no other write") {
  SharedFile f;
  f.write(f.kA, 0, "abcdefghij");
  const auto write = f.file.begin_write(f.who(f.kA), 4, "XY");
  bool is_direct = false, is_beside = true;
  SUBCASE("O_DIRECT") {
    is_direct = true;
  }
  SUBCASE("through pages") {}
  SUBCASE("O_DIRECT, and answered before the store") {
    is_direct = true;
    is_beside = false;
  }
  if (is_direct) f.file.passes_pages_by(write);
  if (!is_beside) f.file.end(write, Outcome::done);
  f.file.end(f.file.begin_store(f.who(f.kA), 0, "s"), Outcome::done);
  if (is_beside) f.file.end(write, Outcome::done);
  CHECK(f.may_read(f.kA, "sbcdXYghij"));
  CHECK(f.may_read(f.kA, "sbcdefghij") == (is_direct && is_beside));
  CHECK_FALSE(f.may_read(f.kA, "abcdXYghij"));  // the store itself is not lost
}

TEST_CASE(
    "F1 sim: file oracle: an append that may land anywhere may land where another client cuts the file "
    "meanwhile") {
  for (const bool is_cut : {true, false}) {
    CAPTURE(is_cut);
    SharedFile f;
    f.write(f.kA, 0, "abcdef", true);
    f.open(f.kB);
    f.write(f.kB, 6, "BBBBBB");  // parts of it may be on the server
    const auto id = f.file.begin_append(f.who(f.kA), "appended");
    CHECK(f.may_size(f.kA, 6));
    if (is_cut) f.truncate(f.kB, 2);
    f.file.end(id, Outcome::done);
    f.open(f.kA);
    CHECK(f.may_read(f.kA, "abappended") == is_cut);
  }
}

TEST_CASE("F1 sim: file oracle: an append may land where another client has cut a write that came in parts") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  bool is_cut = true;
  SUBCASE("before the last part came") {
    f.truncate(f.kB, 0);
    f.sync(f.kA);
  }
  SUBCASE("not at all") {
    f.sync(f.kA);
    is_cut = false;
  }
  SUBCASE("when all of it was there") {
    f.sync(f.kA);
    f.truncate(f.kB, 0);
    f.open(f.kA);
    is_cut = false;
  }
  f.append(f.kA, "behind it");
  CHECK(f.may_read(f.kA, "abcdbehind it") == is_cut);
}

TEST_CASE(
    "F1 sim: file oracle: of one client's programs, only those without a kernel cut each other's writes in "
    "two") {
  for (const bool has_kernel : {false, true}) {
    SharedFile f;
    const auto id = f.file.begin_write(f.who(f.kA), 0, "abcdef");
    if (!has_kernel) f.file.may_be_divided(id);
    f.truncate(f.kA, 0);
    f.file.end(id, FileOracle::Outcome::done);
    f.append(f.kA, "behind it");
    CHECK(f.may_read(f.kA, "abcdbehind it") == !has_kernel);
  }
}

TEST_CASE("F1 sim: file oracle: an append does not land at an end that another client's close has moved") {
  SharedFile f;
  f.append(f.kA, "first.");
  f.sync(f.kA);
  bool is_told = true;
  SUBCASE("the other client has closed the file") {
    f.append(f.kB, "second");
    f.sync(f.kB);
  }
  SUBCASE("the other client has not") {
    is_told = false;
    f.append(f.kB, "second");
  }
  f.open(f.kA);
  f.append(f.kA, "third.");
  const std::string why = f.why(f.kA, "first.third.");
  CHECK(why.empty() == !is_told);
  if (!is_told) return;
  CHECK(why.find("append #3 of c1") != std::string::npos);
  CHECK(f.may_read(f.kA, "first.secondthird."));
}

TEST_CASE(
    "F23 sim: file oracle: fstat is not smaller than what this client wrote, nor what it must know of") {
  SharedFile f;
  f.write(f.kA, 0, "aaaa");
  f.write(f.kB, 6, "bb");
  CHECK(f.may_size(f.kA, 4));
  CHECK_FALSE(f.may_size(f.kA, 0));
  CHECK_FALSE(f.may_size(f.kB, 4));
  CHECK(f.may_size(f.kB, 8));
  CHECK(f.may_size(f.kA, 8));  // it may know of B's
  f.sync(f.kB);
  CHECK(f.may_size(f.kA, 4));
  f.open(f.kA);
  CHECK_FALSE(f.may_size(f.kA, 4));
  CHECK(f.file.check_size(f.kA, f.clock.tick(), 6).find("write #2 of c2") != std::string::npos);
  // What is being cut may be seen, and from then on has to be.
  const auto cut = f.file.begin_truncate(f.who(f.kB), 2);
  CHECK(f.may_size(f.kA, 2));
  f.file.end(cut, Outcome::done, true);
  CHECK_FALSE(f.may_size(f.kB, 8));
  CHECK(f.may_size(f.kB, 2));
}

TEST_CASE("S14 sim: file oracle: a COPY that was answered stays, one that failed may be there in part") {
  SharedFile f;
  FileOracle to("g", f.clock);
  to.opened(f.kA, f.clock.tick());
  f.write(f.kA, 0, "new");
  to.end(to.begin_write(f.who(f.kA), 0, "old..."), Outcome::done);
  to.settle(f.kA, f.clock.tick());
  const auto may_read = [&](const std::string& got) {
    return to.check_read(f.kA, f.clock.tick(), 0, 100, got).empty();
  };
  const auto copy = to.begin_copy(f.who(f.kA), 1, 3);
  SUBCASE("it succeeds") {
    to.copied(copy, f.file, 0, 3);
    to.end(copy, Outcome::done);
    CHECK(may_read("onew.."));
    CHECK_FALSE(may_read("old..."));
    // The server has lost it, and fsync(2) says so.
    to.doubt(f.kA, f.clock.tick());
    CHECK(may_read("old..."));
    CHECK(may_read("onew.."));
    CHECK_FALSE(may_read("onex.."));
  }
  SUBCASE("it succeeds, and fsync(2) does") {
    to.copied(copy, f.file, 0, 3);
    to.end(copy, Outcome::done);
    to.settle(f.kA, f.clock.tick());
    CHECK_FALSE(to.check_final("old...").empty());
    CHECK(to.check_final("onew..").empty());
  }
  SUBCASE("it fails") {
    to.end(copy, Outcome::failed);
    CHECK(may_read("old..."));
    CHECK(may_read("onew.."));
    CHECK_FALSE(may_read("xld..."));
    CHECK_FALSE(may_read("old.x."));
  }
}

TEST_CASE("S26 sim: file oracle: data that close(2) did not leave behind does not come late") {
  SharedFile f;
  f.write(f.kA, 0, "left");
  bool is_left = true;
  SUBCASE("it was under way behind close(2)") {
    f.file.leave_behind(f.kA, f.clock.tick());
  }
  SUBCASE("close(2) waited for it") {
    f.sync(f.kA);
    is_left = false;
  }
  CHECK(f.file.check_final("left").empty());
  CHECK(f.file.check_final("").empty() == is_left);
  f.write(f.kB, 0, "over", true);
  CHECK(f.file.check_final("over").empty());
  CHECK(f.file.check_final("left").empty() == is_left);
}

TEST_CASE("sim: file oracle: a change that was surely not made is not seen") {
  SharedFile f;
  f.write(f.kA, 0, "abcdef");
  const auto id = f.file.begin_truncate(f.who(f.kB), 0);
  CHECK(f.may_read(f.kA, ""));
  f.file.cancel(id);
  CHECK_FALSE(f.may_read(f.kA, ""));
  CHECK(f.may_read(f.kA, "abcdef"));
}

TEST_CASE("sim: file oracle: octets of an append do not tell its place where a copy may have brought them") {
  SharedFile f;
  FileOracle from("from", f.clock, [](FileOracle::Client) { return false; });
  for (FileOracle::Client client : {f.kA, f.kB}) from.opened(client, f.clock.tick());
  f.write(f.kA, 0, "twelve octets", true);
  // Another client has one of its own under way, so that the place is not sure.
  const auto other = f.file.begin_append(f.who(f.kB), "others");
  f.append(f.kA, "mine..");
  f.file.end(other, Outcome::done);
  from.end(from.begin_write(f.who(f.kA), 0, "mine.."), Outcome::done, true);
  const auto copy = f.file.begin_copy(f.who(f.kA), 19, 6);
  f.file.copied(copy, from, 0, 6);
  f.file.end(copy, Outcome::done);
  CHECK(f.file.check_read(f.kA, f.clock.tick(), 19, 6, "mine..").empty());
  CHECK(f.may_read(f.kA, "twelve octetsmine..mine.."));
  CHECK_FALSE(f.may_read(f.kA, "twelve octetsmine.."));
}

TEST_CASE("sim: file oracle: many changes stay quick to judge") {
  SharedFile f;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string one = "record " + std::to_string(1000 + i) + ".";
    f.append(f.kA, one);
    text += one;
    if (i % 3 == 0) f.sync(f.kA);
    if (i % 7 == 0) f.open(f.kB);
    if (i % 5 == 0) CHECK(f.file.check_read(f.kA, f.clock.tick(), 0, 100'000, text).empty());
  }
  f.sync(f.kA);
  CHECK(f.file.check_final(text).empty());
  CHECK(f.file.sizes(f.kA, f.clock.tick()) == std::vector<std::uint64_t>{text.size()});
}

TEST_CASE("sim: file oracle: many stores to one page that a restart may have dropped stay quick to judge") {
  SharedFile f;
  for (int i = 0; i < 60; ++i) {
    f.file.end(f.file.begin_store(f.who(f.kA), 0, "store " + std::to_string(1000 + i)), Outcome::done);
  }
  CHECK_FALSE(f.may_read(f.kA, ""));
  f.has_restarted = true;
  CHECK(f.may_read(f.kA, ""));
  CHECK(f.may_read(f.kA, "store 1059"));
  CHECK_FALSE(f.may_read(f.kA, "store 1060"));
}

}  // namespace nfsrdma::sim
