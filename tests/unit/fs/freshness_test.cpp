// What is known of attributes, by itself: counts, times, and what an answer of the server is worth.
#include "fs/freshness.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>

#include "support/file_parts.h"

namespace nfsrdma::fs::plain {
namespace {

using namespace std::chrono_literals;

struct Knowing : FileParts {
  using FileParts::FileParts;
  Attributes said(std::uint64_t change = 1, std::uint64_t size = 0) {
    Attributes out;
    out.type = FileType::regular;
    out.mode = 0644;
    out.links = 1;
    out.change = change;
    out.size = size;
    out.modified.seconds = static_cast<std::int64_t>(change);
    return out;
  }
  /// A write of `size` bytes that was answered.
  PendingWrites::Place write(Inode& to, std::uint64_t offset, std::size_t size) {
    const auto out = to.writes.begin(offset, size);
    to.writes.accept(out);
    freshness.changed(to);
    return out;
  }
  void end(Inode& to, PendingWrites::Place write) {
    freshness.changed(to);
    to.writes.end(write, true, to.attributes.changed());
  }
  const File file = open("a");
  Inode& at = file->inode();
};

}  // namespace

TEST_CASE("F2 freshness: attributes are believed for a tenth of their age, within bounds by type") {
  Knowing m;
  Attributes of = m.said();
  const std::int64_t now = m.loop.wall_seconds();
  const auto valid = [&](std::int64_t age) {
    of.changed.seconds = now - age;
    return m.freshness.valid(of);
  };
  CHECK(valid(0) == 3s);
  CHECK(valid(100) == 10s);
  CHECK(valid(100'000) == 60s);
  CHECK(valid(-1000) == 3s);  // the server's clock is ahead
  of.type = FileType::directory;
  CHECK(valid(100) == 30s);
  CHECK(valid(400) == 40s);
  CHECK(valid(100'000) == 60s);
}

TEST_CASE("F2 freshness: a file is as large as writes say that the server's answer may not count") {
  Knowing m;
  const auto before = m.freshness.count();
  const auto write = m.write(m.at, 0, 100);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), before).attributes.size == 100);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), m.freshness.count()).attributes.size == 100);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), m.freshness.count()).valid == 0s);
  CHECK(m.freshness.attributed(m.at, m.said(1, 700), m.freshness.count()).attributes.size == 700);
  const auto during = m.freshness.count();
  m.end(m.at, write);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), during).attributes.size == 100);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), during).valid == 0s);
  const auto now = m.freshness.attributed(m.at, m.said(2, 7), m.freshness.count());
  CHECK(now.attributes.size == 7);  // somebody else cut it
  CHECK(now.valid != 0s);
  m.freshness.resized(m.at);
  CHECK(m.freshness.attributed(m.at, m.said(2, 7), during).attributes.size == 7);
  CHECK(m.freshness.attributed(m.at, m.said(2, 5), m.freshness.count()).attributes.size == 5);
}

TEST_CASE(
    "F2 S14 freshness: a file is as large as it was before a restart that has cost the server its end") {
  Knowing m;
  m.engine.end_in_doubt = 100;
  m.freshness.keep(m.at, m.said(1, 7), m.freshness.asking(m.at));
  CHECK_FALSE(m.freshness.kept(m.at));
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), m.freshness.count()).attributes.size == 100);
  CHECK(m.freshness.attributed(m.at, m.said(1, 7), m.freshness.count()).valid == 0s);
  const auto larger = m.freshness.attributed(m.at, m.said(1, 700), m.freshness.count());
  CHECK(larger.attributes.size == 700);
  CHECK(larger.valid != 0s);
  m.freshness.keep(m.at, m.said(1, 700), m.freshness.asking(m.at));
  CHECK(m.freshness.kept(m.at));
}

TEST_CASE("F2 freshness: attributes that came along are kept until their time is over or something changes") {
  Knowing m;
  const auto asked = m.freshness.asking(m.at);
  m.freshness.keep(m.at, m.said(1, 42), asked);
  auto kept = m.freshness.kept(m.at);
  REQUIRE(kept);
  CHECK(kept->attributes.size == 42);
  const Seconds valid = kept->valid;
  SUBCASE("time passes, and is taken off") {
    m.pass(2s);
    kept = m.freshness.kept(m.at);
    REQUIRE(kept);
    CHECK(kept->valid == valid - 2s);
    m.pass(60s);
    CHECK_FALSE(m.freshness.kept(m.at));
  }
  SUBCASE("this client changes the file") {
    ++m.node(m.file->shared_inode()).change;
    CHECK_FALSE(m.freshness.kept(m.at));
    m.freshness.keep(m.at, m.said(1, 42), asked);  // had before
    CHECK_FALSE(m.freshness.kept(m.at));
    m.freshness.keep(m.at, m.said(1, 42), m.freshness.asking(m.at));
    CHECK(m.freshness.kept(m.at));
  }
  SUBCASE("a write is answered") {
    const auto write = m.write(m.at, 0, 1);
    CHECK_FALSE(m.freshness.kept(m.at));
    m.freshness.keep(m.at, m.said(1, 42), asked);
    CHECK_FALSE(m.freshness.kept(m.at));
    m.end(m.at, write);
    m.freshness.keep(m.at, m.said(1, 42), asked);
    CHECK(m.freshness.kept(m.at));
  }
}

TEST_CASE("F2 freshness: a directory's attributes last until a rename, which may have moved it") {
  Knowing m;
  Inode& root = *m.root();
  root.type = FileType::directory;
  m.freshness.keep(root, m.said(), m.freshness.asking(root));
  ++m.engine.nodes[1].change;  // Naming sees to that
  CHECK(m.freshness.kept(root));
  m.freshness.renaming();
  CHECK_FALSE(m.freshness.kept(root));
}

TEST_CASE(
    "F8 freshness: of operations that change a directory at the same time, the last one's answer counts") {
  Knowing m;
  const auto root = m.root();
  root->type = FileType::directory;
  m.freshness.keep(*root, m.said(), m.freshness.asking(*root));
  const auto before = m.freshness.count();
  {
    Naming one(m.freshness, root, "a");
    CHECK(one.as_of() > before);
    CHECK(root->attributes.altered_since(before));
    CHECK_FALSE(m.freshness.kept(*root));
    {
      Naming other(m.freshness, root, "b");
      other.brought(m.said());  // the first may still be executed
      CHECK_FALSE(m.freshness.kept(*root));
    }
    one.brought(m.said());  // the second came after it was asked for
    CHECK_FALSE(m.freshness.kept(*root));
  }
  std::uint64_t during = 0;
  {
    Naming last(m.freshness, root, "c");
    last.brought(std::nullopt);
    CHECK_FALSE(m.freshness.kept(*root));
    last.brought(m.said());
    CHECK(m.freshness.kept(*root));
    during = m.freshness.count();
  }
  CHECK(root->attributes.altered_since(during));
  CHECK(m.freshness.kept(*root));
}

TEST_CASE("F8 freshness: a naming tells what became of its names") {
  Knowing m;
  const auto root = m.root();
  root->directory().entries.join();
  const auto then = root->directory().entries.now();
  {
    Naming naming(m.freshness, root, "a");
    naming.changes("b");
    naming.gone("b");
    CHECK(root->directory().entries.judge("b", then) == NameChanges::Verdict::doubtful);
  }
  CHECK(root->directory().entries.judge("a", then) == NameChanges::Verdict::doubtful);
  CHECK(root->directory().entries.judge("b", then) == NameChanges::Verdict::gone);
  CHECK(root->directory().entries.judge("c", then) == NameChanges::Verdict::as_listed);
  root->directory().entries.leave();
}

TEST_CASE("F8 freshness: what was listed is outdated by whatever this mount did or told since") {
  Knowing m;
  const auto as_of = m.freshness.count();
  const auto outdated = [&] { return m.freshness.is_outdated(m.said(), &m.at, as_of); };
  CHECK_FALSE(outdated());
  SUBCASE("a write ended") {
    m.freshness.changed(m.at);
    CHECK(outdated());
  }
  SUBCASE("a write is under way") {
    m.at.writes.accept(m.at.writes.begin(0, 1));
    CHECK(outdated());
  }
  SUBCASE("newer attributes were told") {
    (void)m.freshness.attributed(m.at, m.said(), as_of);
    CHECK(outdated());
  }
  SUBCASE("older ones were told") {
    (void)m.freshness.attributed(m.at, m.said(), as_of, as_of, as_of);
    CHECK_FALSE(outdated());
  }
  SUBCASE("something else was done to it, or is") {
    {
      const Naming naming(m.freshness, m.file->shared_inode());
      CHECK(outdated());
    }
    CHECK(outdated());
  }
  SUBCASE("it was this name that went") {
    m.freshness.unlinked(&m.at);
    CHECK(outdated());
  }
  SUBCASE("some name went: it may have been one of its") {
    m.freshness.unlinked(nullptr);
    CHECK_FALSE(outdated());
    Attributes linked = m.said();
    linked.links = 2;
    CHECK(m.freshness.is_outdated(linked, &m.at, as_of));
    linked.type = FileType::directory;
    CHECK_FALSE(m.freshness.is_outdated(linked, &m.at, as_of));
  }
  SUBCASE("nobody knows the inode any more") {
    CHECK_FALSE(m.freshness.is_outdated(m.said(), nullptr, as_of));
    m.freshness.forgotten(m.at);  // nothing was done to it
    CHECK_FALSE(m.freshness.is_outdated(m.said(), nullptr, as_of));
    m.freshness.changed(m.at);
    m.freshness.forgotten(m.at);
    CHECK(m.freshness.is_outdated(m.said(), nullptr, as_of));
  }
}

TEST_CASE("F6 freshness: a WRITE brings attributes if it must, or if none did for a while") {
  Knowing m;
  CHECK(m.freshness.sending(m.at, false).asks);
  CHECK_FALSE(m.freshness.sending(m.at, false).asks);
  CHECK(m.freshness.sending(m.at, true).asks);
  m.pass(99ms);
  CHECK_FALSE(m.freshness.sending(m.at, false).asks);
  m.pass(1ms);
  CHECK(m.freshness.sending(m.at, false).asks);
}

TEST_CASE("F2 freshness: what a WRITE brought is kept if it was the only change of the file") {
  Knowing m;
  const auto sent = m.freshness.sending(m.at, true);
  auto& change = m.node(m.file->shared_inode()).change;
  ++change;
  SUBCASE("it was") {
    m.freshness.written(m.at, sent, m.said(change, 5), false);
    REQUIRE(m.freshness.kept(m.at));
    CHECK(m.freshness.kept(m.at)->attributes.size == 5);
    CHECK_FALSE(m.at.attributes.is_cached());  // not all of it is there yet
  }
  SUBCASE("there was another") {
    ++change;
    m.freshness.written(m.at, sent, m.said(change, 5), false);
    CHECK_FALSE(m.freshness.kept(m.at));
  }
  SUBCASE("it was all that there was to write") {
    m.engine.delegation = 90s;
    m.freshness.changed(m.at);
    m.freshness.written(m.at, sent, m.said(change, 5), true);
    CHECK(m.freshness.kept(m.at));
    CHECK(m.at.attributes.is_saved());
    CHECK(m.at.attributes.cache(change));
  }
}

TEST_CASE("F4 freshness: once data was lost the kernel's pages go with nothing before the next open") {
  Knowing m;
  m.engine.delegation = 90s;
  m.at.writes.errors().add(Error(ErrorKind::server, ENOSPC, "WRITE", "a", "no"));
  m.freshness.is_as_written(m.at, m.said(9), m.freshness.asking(m.at));
  CHECK_FALSE(m.at.attributes.is_cached());
  CHECK_FALSE(m.at.attributes.cache(8));  // it was opened again
  m.freshness.is_as_written(m.at, m.said(9), m.freshness.asking(m.at));
  CHECK(m.at.attributes.cache(9));
}

TEST_CASE("F6 freshness: while writes are under way the last one's attributes are told, for a second") {
  Knowing m;
  auto sent = m.freshness.sending(m.at, true);
  CHECK_FALSE(m.freshness.while_writing(m.at));
  m.freshness.written(m.at, sent, m.said(5, 10), false);
  CHECK_FALSE(m.freshness.while_writing(m.at));  // nothing is under way: ask
  m.write(m.at, 10, 90);
  auto told = m.freshness.while_writing(m.at);
  REQUIRE(told);
  CHECK(told->attributes.size == 100);
  CHECK(told->valid == 0s);
  SUBCASE("older ones do not take their place") {
    m.freshness.written(m.at, sent, m.said(4, 10), false);
    CHECK(m.freshness.while_writing(m.at)->attributes.change == 5);
    m.freshness.written(m.at, sent, m.said(6, 10), false);
    CHECK(m.freshness.while_writing(m.at)->attributes.change == 6);
  }
  SUBCASE("they are too old") {
    m.pass(999ms);
    CHECK(m.freshness.while_writing(m.at));
    m.pass(1ms);
    CHECK_FALSE(m.freshness.while_writing(m.at));
  }
  SUBCASE("times were set meanwhile, and may have gone back") {
    {
      const Naming naming(m.freshness, m.file->shared_inode());
    }
    CHECK_FALSE(m.freshness.while_writing(m.at));
    sent = m.freshness.sending(m.at, true);
    m.freshness.written(m.at, sent, m.said(2, 10), false);
    told = m.freshness.while_writing(m.at);
    REQUIRE(told);
    CHECK(told->attributes.change == 2);
  }
  SUBCASE("the file was locked, opened, or its size was set: what it brought is stale") {
    SUBCASE("lock") {
      m.freshness.others_may_have_changed(m.at);
    }
    SUBCASE("size") {
      m.freshness.resized(m.at);
    }
    SUBCASE("opened") {
      (void)m.freshness.opening(m.at);
    }
    CHECK_FALSE(m.freshness.while_writing(m.at));
    CHECK_FALSE(m.at.attributes.is_current());
    // The next WRITE brings what may be told, whatever times it has.
    sent = m.freshness.sending(m.at, false);
    CHECK(sent.asks);
    m.freshness.written(m.at, sent, m.said(4, 10), false);
    CHECK(m.freshness.while_writing(m.at)->attributes.change == 4);
  }
}

TEST_CASE("F23 freshness: nothing that was asked for before an open is believed behind it") {
  Knowing m;
  const auto before = m.freshness.asking(m.at);
  m.freshness.keep(m.at, m.said(1, 10), before);
  (void)m.freshness.attributed(m.at, m.said(1, 10), before.as_of, before.as_of, before.as_of);
  CHECK(m.at.end() == 10);
  CHECK_FALSE(m.freshness.is_outdated(m.said(), &m.at, m.at.attributes.sent_to_kernel()));
  const auto opening = m.freshness.opening(m.at);
  CHECK_FALSE(m.freshness.kept(m.at));
  CHECK_FALSE(m.at.attributes.is_current());
  CHECK(
      m.freshness.is_outdated(m.said(), &m.at, m.at.attributes.sent_to_kernel()));  // a page of its directory
  CHECK(m.freshness.attributed(m.at, m.said(1, 10), before.as_of).valid == 0s);
  m.freshness.keep(m.at, m.said(1, 10), before);  // on its way when the file was opened
  CHECK_FALSE(m.freshness.kept(m.at));
  m.freshness.keep(m.at, m.said(2, 20), opening);
  REQUIRE(m.freshness.kept(m.at));
  CHECK(m.freshness.kept(m.at)->attributes.size == 20);
  CHECK(m.at.end() == 20);
  const auto later = m.freshness.count();
  m.freshness.keep(m.at, m.said(3, 30), {later, opening.version});
  m.freshness.keep(m.at, m.said(2, 20), opening);  // overtaken by what was asked for later
  CHECK(m.freshness.kept(m.at)->attributes.size == 30);
  CHECK(m.at.end() == 30);
}

TEST_CASE("F23 freshness: an older answer is neither kept nor told behind a newer one") {
  Knowing m;
  const auto asked = m.freshness.asking(m.at);
  SUBCASE("the newer one was told") {
    CHECK(m.freshness.attributed(m.at, m.said(2, 20), m.freshness.count()).attributes.change == 2);
    m.freshness.keep(m.at, m.said(1, 10), asked);
    CHECK_FALSE(m.freshness.kept(m.at));
  }
  SUBCASE("the older one was kept before") {
    m.freshness.keep(m.at, m.said(1, 10), asked);
    REQUIRE(m.freshness.kept(m.at));
    m.freshness.learn(m.at, m.said(2, 20), m.freshness.count());
    CHECK_FALSE(m.freshness.kept(m.at));
  }
  const Attributed told = m.freshness.attributed(m.at, m.said(1, 10), asked.as_of);
  CHECK(told.attributes.change == 2);
  CHECK(told.attributes.modified.seconds == 2);
  CHECK(told.attributes.size == 20);
}

TEST_CASE("F6 freshness: what a WRITE brought is not told behind the answer to a later question") {
  Knowing m;
  m.freshness.written(m.at, m.freshness.sending(m.at, true), m.said(5, 10), false);
  m.freshness.learn(m.at, m.said(6, 20), m.freshness.count());  // of a WRITE that brought nothing
  m.write(m.at, 20, 80);
  CHECK_FALSE(m.freshness.while_writing(m.at));  // the time would go back
  m.freshness.written(m.at, m.freshness.sending(m.at, true), m.said(7, 30), false);
  REQUIRE(m.freshness.while_writing(m.at));
  CHECK(m.freshness.while_writing(m.at)->attributes.change == 7);
}

TEST_CASE("F1 freshness: the end is where the server says, or further, where this mount has written since") {
  Knowing m;
  CHECK_FALSE(m.at.attributes.is_current());  // nobody has asked
  const auto asked = m.freshness.count();
  m.freshness.learn(m.at, m.said(1, 10), asked);
  CHECK(m.at.end() == 10);
  m.at.writes.begin(90, 10);  // not answered yet
  CHECK(m.at.end() == 100);
  m.end(m.at, m.write(m.at, 100, 50));
  CHECK(m.at.end() == 150);
  m.engine.end_in_doubt = 200;
  CHECK(m.at.end() == 200);
  m.freshness.learn(m.at, m.said(2, 500), m.freshness.count());
  CHECK(m.at.end() == 500);
}

TEST_CASE("F1 S14 freshness: an answer that lacks what a restart has cost the server lowers no end") {
  Knowing m;
  const auto before = m.freshness.count();
  m.engine.end_in_doubt = 100;
  m.end(m.at, m.write(m.at, 30, 10));
  m.freshness.written(m.at, m.freshness.sending(m.at, true), m.said(5, 40), false);
  m.engine.end_in_doubt = 0;  // what was lost has been written again
  m.freshness.learn(m.at, m.said(6, 100), before);
  CHECK(m.at.end() == 100);
  CHECK(m.freshness.attributed(m.at, m.said(6, 100), before).attributes.size == 100);
}

TEST_CASE("F13 freshness: contents that others have changed are another state of the file") {
  Knowing m;
  const auto as_of = m.freshness.count();
  m.freshness.learn(m.at, m.said(1), as_of);
  const auto contents = m.at.attributes.contents();
  m.pass(1s);
  m.freshness.learn(m.at, m.said(1), as_of);
  CHECK(m.at.attributes.contents() == contents);
  CHECK(m.at.attributes.is_confirmed(m.loop.now()));
  m.freshness.learn(m.at, m.said(2), as_of);
  CHECK(m.at.attributes.contents() == contents + 1);
  m.freshness.learn(m.at, m.said(1), as_of - 1);  // an answer to an older question
  CHECK(m.at.attributes.contents() == contents + 1);
  CHECK(m.at.attributes.newest()->attributes.change == 2);
  m.freshness.changed(m.at);
  CHECK(m.at.attributes.contents() == contents + 2);
}

TEST_CASE("F2 freshness: a kernel that believes in set-id bits is told once that a write has cleared them") {
  for (const std::uint32_t bit : {std::uint32_t{S_ISUID}, std::uint32_t{S_ISGID}}) {
    CAPTURE(bit);
    Knowing m;
    Attributes of = m.said();
    of.mode = bit | 0755U;
    (void)m.freshness.attributed(m.at, of, m.freshness.count());
    m.freshness.changed(m.at);
    CHECK(m.doubted == std::vector{m.at.id});
    m.freshness.changed(m.at);
    CHECK(m.doubted.size() == 1);
  }
}

TEST_CASE("F9 freshness: a delegation lifts the times, and its end takes them back once") {
  Knowing m;
  const auto valid = [&] { return m.freshness.attributed(m.at, m.said(), m.freshness.count()).valid; };
  const Seconds plain = valid();
  m.freshness.delegation_ended(m.at);
  CHECK(m.doubted.empty());  // nobody was told so
  m.engine.delegation = 90s;
  CHECK(valid() == std::max(plain, Seconds(90)));
  m.freshness.delegation_ended(m.at);
  m.freshness.delegation_ended(m.at);
  CHECK(m.doubted == std::vector{m.at.id});
}

TEST_CASE("F9 freshness: whoever wants no caching gets none with a delegation, either") {
  CacheOptions options;
  options.file_min = options.file_max = Seconds(0);
  Knowing m(options);
  m.engine.delegation = 90s;
  CHECK(m.freshness.attributed(m.at, m.said(), m.freshness.count()).valid == 0s);
  CHECK_FALSE(m.at.attributes.take_lifted());
  m.freshness.keep(m.at, m.said(), m.freshness.asking(m.at));
  CHECK_FALSE(m.freshness.kept(m.at));
}

}  // namespace nfsrdma::fs::plain
