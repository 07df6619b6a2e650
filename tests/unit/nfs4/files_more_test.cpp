// Files of NFSv4 where several things happen to one of them at once: copies beside what is written again, openings that
// cut beside writes, locks that go with data; and the small parts by themselves that decide on such things.
#include <cerrno>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/quick_read.h"
#include "locking/held_locks.h"
#include "nfs4/copies_beside.h"
#include "nfs4/loss_limit.h"
#include "nfs4/range_stateid.h"
#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/scripted_calls.h"
#include "support/virtual_world.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

struct SeveralAtOnce : Scene {
  bool soon(const std::function<bool()>& so) { return client->turn_until(so, 10s); }
  OpenRef open_for(std::uint32_t access, const std::string& name, std::uint32_t uid = 1) {
    auto made = client->run(client->open(user(uid), client->root, name, access));
    if (!made) FAIL(made.error().text());
    return std::move(made->file);
  }
  /// Opened by its handle for reading, as a mount does, and closed.
  void look_into(const std::string& path) {
    auto opened =
        client->run(client->files.open_handle(user(1), client->handle(path), path, OPEN4_SHARE_ACCESS_READ));
    REQUIRE(ok(opened));
    CHECK(ok(client->run(client->files.close(std::move(opened->file)))));
  }
};

/// A file, and one that it is brought into.
struct TwoFiles : SeveralAtOnce {
  explicit TwoFiles(const std::string& text) {
    server.add_file("/from", text);
    server.add_file("/to", "");
    connect();
    from = open("from");
    to = open("to");
  }
  /// `cloned`: so much of it by CLONE, in place of `copied` by COPY.
  void bring(bool clones, std::uint64_t cloned, std::uint64_t copied) {
    if (clones) {
      CHECK(ok(client->run(OpenFile::clone(*from.file(), 0, *to.file(), 0, cloned))));
      return;
    }
    const auto done = client->run(OpenFile::copy(*from.file(), 0, *to.file(), 0, copied));
    REQUIRE(ok(done));
    CHECK(*done == copied);
  }
  void close_both() {
    close(from);
    close(to);
  }
  OpenRef from, to;
};

/// Without a coroutine, as far as that goes.
async::Task<Result<std::size_t>> reading_quickly(OpenFile& file, std::span<std::byte> into) {
  auto quick = co_await engine::QuickWait(file, into, 0);
  if (!quick.rest) co_return quick.count;
  co_return co_await std::move(*quick.rest);
}

struct LonelyLoop {
  VirtualWorld world;
  async::Loop loop{world};
  static async::Task<void> pausing(async::Loop& on, async::Clock::duration time) {
    co_await on.sleep_for(time);
  }
  void pass(async::Clock::duration time) { loop.run(pausing(loop, time)); }
};

}  // namespace

// ---- data ----

TEST_CASE("S14 what was written here is what is read, though a restart has cost the server that") {
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    SeveralAtOnce m;
    m.server.add_file("/f", "old old old");
    EngineClient& c = m.connect();
    OpenRef file = m.open("f");
    CHECK(ok(c.run(file->write(bytes("new"), 4))));
    m.server.restart(2s);
    if (is_known) CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
    std::string text(11, '?');
    const auto count = c.run(reading_quickly(*file.file(), room(text)));
    REQUIRE(ok(count));
    CHECK(*count == 11);
    CHECK(text == "old new old");
    CHECK(m.server.count(OP_COMMIT) >= 1);
    // And once is enough.
    m.server.clear_calls();
    CHECK(ok(c.run(file->read(room(text), 0))));
    CHECK(m.server.count(OP_READ) == 1);
    CHECK(m.server.count(OP_COMMIT) == 0);
    m.close(file);
  }
}

TEST_CASE("S14 a file is as large as it was written here, though a restart has cost the server that") {
  SeveralAtOnce m;
  m.server.add_file("/f", "old");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  CHECK(ok(c.run(file->write(bytes("and new"), 3))));
  m.server.restart(2s);
  CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));
  const auto now = c.run(file->attributes());
  REQUIRE(ok(now));
  CHECK(now->size == 10);
  CHECK(ok(c.run(file->commit())));
  CHECK(file->end_in_doubt() == 0);
  m.close(file);
}

TEST_CASE("S14 what was read before it was written again, and is answered behind that, is read again") {
  SeveralAtOnce m;
  m.server.add_file("/f", "old old old");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  CHECK(ok(c.run(file->write(bytes("new"), 4))));
  m.server.restart(2s);
  CHECK(ok(c.run(c.engine.attributes(nullptr, c.root))));  // the session is another one by now
  m.server.hold(OP_READ);
  std::string text(11, '?');
  auto reading = file->read(room(text), 0);
  c.start(reading);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  CHECK(ok(c.run(file->commit())));
  m.server.release();
  REQUIRE(m.soon([&] { return reading.done(); }));
  const auto count = reading.await_resume();
  REQUIRE(ok(count));
  CHECK(*count == 11);
  CHECK(text == "old new old");
  m.close(file);
}

TEST_CASE("S14 nothing is copied into a file while what the server lost of it is being written again") {
  TwoFiles m("new new new");
  EngineClient& c = *m.client;
  CHECK(ok(c.run(m.to->write(bytes("old old old"), 0))));
  m.server.restart();
  m.server.hold(OP_WRITE, false);
  auto commit = m.to->commit();
  c.start(commit);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  auto copy = OpenFile::copy(*m.from.file(), 0, *m.to.file(), 0, 11);
  c.start(copy);
  c.turn_for(100ms);
  CHECK(m.server.count(OP_COPY) == 0);
  m.server.release();
  REQUIRE(m.soon([&] { return copy.done() && commit.done(); }));
  CHECK(ok(commit.await_resume()));
  const auto copied = copy.await_resume();
  REQUIRE(ok(copied));
  CHECK(*copied == 11);
  CHECK(ok(c.run(m.to->commit())));
  CHECK(m.server.stable_content("/to") == "new new new");
  m.close_both();
}

TEST_CASE("S14 what is copied or cloned is what was written, though a restart has cost the server that") {
  for (const bool clones : {false, true}) {
    CAPTURE(clones);
    TwoFiles m("old");
    EngineClient& c = *m.client;
    CHECK(ok(c.run(m.from->write(bytes("new"), 0))));
    m.server.restart(2s);
    m.bring(clones, 0, 3);
    CHECK(m.server.stable_content("/from") == "new");
    CHECK(m.server.stable_content("/to") == "new");
    m.close_both();
  }
}

TEST_CASE("S14 what a copy or a clone has replaced is not written again over it") {
  for (const bool clones : {false, true}) {
    CAPTURE(clones);
    TwoFiles m("new new new");
    EngineClient& c = *m.client;
    CHECK(ok(c.run(m.to->write(bytes("old old old and more"), 0))));
    m.bring(clones, 11, 11);
    m.server.restart(2s);
    CHECK(ok(c.run(m.to->commit())));
    CHECK(m.server.stable_content("/to") == "new new new and more");
    m.close_both();
  }
}

TEST_CASE("S14 many: what is not stable of a file is not written again over what has replaced it") {
  Mounted m;
  m.server.add_file("/a", "");
  Client& client = m.connect();
  const auto file = m.open("/a");
  CHECK(ok(file->write(bytes("old old old"), 0)));
  const std::string text = "new";
  const std::vector<WriteItem> items{{"/a", bytes(text), 0644}};
  for (const auto& one : client.write_many(items)) CHECK(ok(one));
  m.server.restart();
  CHECK(ok(file->sync()));
  CHECK(m.server.stable_content("/a") == "new");
}

TEST_CASE("S14 an opening that cuts a file cuts what was written before, and nothing that is written since") {
  SeveralAtOnce m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  OpenRef other = m.open("f", 2);
  OpenRef reader = m.open_for(OPEN4_SHARE_ACCESS_READ, "f");
  CHECK(ok(c.run(other->write(bytes("old text"), 0))));
  // It is executed, and an OPEN_DOWNGRADE undoes it before its Reply comes: so it is made again.
  Engine::Creation cuts;
  cuts.truncate = true;
  m.server.hold(OP_OPEN);
  auto opening = c.files.open_at(user(1), c.root, "f", OPEN4_SHARE_ACCESS_WRITE, cuts);
  c.start(opening);
  REQUIRE(m.soon([&] { return m.server.held() == 1; }));
  m.server.hold(OP_NVERIFY);  // which nobody sends
  OpenRef writer = m.open_for(OPEN4_SHARE_ACCESS_BOTH, "f");
  m.close(writer);
  m.server.clear_calls();
  m.server.hold(OP_OPEN);
  m.server.release_first();
  REQUIRE(m.soon([&] { return m.server.count(OP_OPEN) == 1; }));
  CHECK(ok(c.run(other->write(bytes("newer"), 0))));
  CHECK_FALSE(opening.done());
  m.server.release();
  REQUIRE(m.soon([&] { return opening.done(); }));
  auto opened = opening.await_resume();
  REQUIRE(ok(opened));
  m.server.restart(3s);
  CHECK(ok(c.run(other->commit())));
  CHECK(m.server.stable_content("/f") == "newer");
  m.close(opened->file);
  m.close(reader);
  m.close(other);
}

TEST_CASE("S16 api: what was written under a lock is on the server's disk before it goes") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    Mounted m;
    m.server.add_file("/a", "");
    (void)m.connect();
    const auto file = m.open("/a");
    CHECK(ok(file->lock({1, true, {0, 10}})));
    CHECK(ok(file->write(bytes("text"), 0)));
    CHECK(ok(file->unlock(1, all ? LockRange() : LockRange{0, 10})));
    CHECK(m.server.stable_content("/a") == "text");
    CHECK(m.server.locks("/a").empty());
    CHECK(ok(file->close()));
  }
}

TEST_CASE("F10 what is read before a file is open is all of it, or nothing") {
  SeveralAtOnce m;
  m.server.add_file("/f", "0123456789");
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  std::string into(16, '?');
  const auto whole = c.run(c.engine.read_early(user(1), handle, room(into)));
  REQUIRE(ok(whole));
  CHECK(whole->size == 10);
  CHECK(whole->change == c.run(c.engine.attributes(nullptr, handle))->change);
  CHECK(into == "0123456789??????");
  std::string part(4, '?');
  const auto first = c.run(c.engine.read_early(user(1), handle, room(part)));
  REQUIRE(ok(first));
  CHECK(first->size == 4);
  // Nobody could tell a short answer from the end of the file.
  m.server.set_short_reads(4);
  CHECK(errno_of(c.run(c.engine.read_early(user(1), handle, room(into)))) == EAGAIN);
}

// ---- who has a file open ----

TEST_CASE("open files: what is not stable of one that is dropped is committed, beside") {
  SeveralAtOnce m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  {
    OpenRef file = m.open("f");
    CHECK(ok(c.run(file->write(bytes("text"), 0))));
  }
  CHECK(m.soon([&] { return m.server.open_states() == 0; }));
  CHECK(m.server.stable_content("/f") == "text");
}

TEST_CASE("open files: one whose place another takes is closed") {
  SeveralAtOnce m;
  m.server.add_file("/f", "text");
  m.server.add_file("/g", "other");
  EngineClient& c = m.connect();
  OpenRef one = m.open("f"), other = m.open("g");
  const OpenFile* const expected = other.file().get();
  one = std::move(other);
  CHECK(one.file().get() == expected);
  CHECK(one.access() == OPEN4_SHARE_ACCESS_BOTH);
  CHECK(m.soon([&] { return m.server.open_states() == 1; }));
  CHECK(c.files.count() == 1);
  m.close(one);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("open files: a size is set under the caller's own open, else anybody's, if it is for writing") {
  SeveralAtOnce m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  OpenRef one = m.open("f", 1), two = m.open("f", 2);
  OpenRef reader = m.open_for(OPEN4_SHARE_ACCESS_READ, "f", 3);
  const nfs_fh4 handle = one->handle();
  const auto found = [&](std::uint32_t uid, std::uint32_t access) {
    return c.files.find(user(uid), handle, access);
  };
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == one.file());
  CHECK(found(2, OPEN4_SHARE_ACCESS_WRITE) == two.file());
  CHECK(found(3, OPEN4_SHARE_ACCESS_READ) == reader.file());
  const auto others = found(3, OPEN4_SHARE_ACCESS_WRITE);
  CHECK((others == one.file() || others == two.file()));
  m.close(one);
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == two.file());
  m.close(two);
  CHECK(found(1, OPEN4_SHARE_ACCESS_WRITE) == nullptr);
  m.close(reader);
}

TEST_CASE("open files: where it may have changed who may open a delegated file, the server is asked again") {
  for (const char* what : {"times", "mode", "owner", "group"}) {
    CAPTURE(what);
    SeveralAtOnce m;
    m.server.set_delegations(true);
    m.server.add_file("/f", "text");
    EngineClient& c = m.connect();
    const nfs_fh4 handle = c.handle("/f");
    const auto open = [&] {
      return c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ));
    };
    auto first = open();
    REQUIRE(ok(first));
    REQUIRE(m.server.delegations() == 1);
    SetAttributes changes;
    const std::string one = what;
    if (one == "times") changes.modified = Time{5, 6};
    if (one == "mode") changes.mode = 0600;
    if (one == "owner") changes.uid = 7;
    if (one == "group") changes.gid = 7;
    CHECK(ok(c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr))));
    m.server.clear_calls();
    auto second = open();
    REQUIRE(ok(second));
    CHECK(m.server.count(OP_OPEN) == (one == "times" ? 0 : 1));
    m.close(first->file);
    m.close(second->file);
  }
}

TEST_CASE("S18 of files that are kept for their delegations those go first that were used longest ago") {
  SeveralAtOnce m;
  m.server.set_delegations(true);
  for (const char* path : {"/a", "/b", "/c"}) m.server.add_file(path, "text");
  EngineClient& c = m.connect();
  c.files.keep_delegated(2);
  m.look_into("/a");
  m.look_into("/b");
  CHECK(c.files.parked() == 2);
  m.look_into("/a");
  m.look_into("/c");
  CHECK(c.files.parked() == 2);
  CHECK(m.soon([&] { return m.server.open_states() == 2 && m.server.delegations() == 2; }));
  m.server.clear_calls();
  m.look_into("/a");
  m.look_into("/c");
  CHECK(m.server.count(OP_OPEN) == 0);
  m.look_into("/b");
  CHECK(m.server.count(OP_OPEN) == 1);
  auto all = c.files.unpark_all();
  c.start(all);
  REQUIRE(m.soon([&] { return all.done(); }));
  CHECK(c.files.parked() == 0);
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.delegations() == 0);
}

// ---- objects ----

TEST_CASE("objects: each time is set as it was asked for, and the group beside the owner") {
  SeveralAtOnce m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  SetAttributes changes;
  changes.modified = Time{7, 8};
  changes.accessed_now = true;
  changes.uid = 12;
  changes.gid = 34;
  const auto first = c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr));
  REQUIRE(ok(first));
  CHECK(first->modified == Time{7, 8});
  CHECK(first->accessed.seconds > 1000);
  CHECK(first->uid == 12U);
  CHECK(first->gid == 34U);
  changes = SetAttributes();
  changes.accessed = Time{5, 6};
  const auto second = c.run(c.engine.set_attributes(nullptr, handle, changes, nullptr));
  REQUIRE(ok(second));
  CHECK(second->accessed == Time{5, 6});
  CHECK(second->modified == Time{7, 8});
}

TEST_CASE("objects: what is no symbolic link is EINVAL, however the server says so") {
  SeveralAtOnce m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EINVAL);
  for (const nfsstat4 status : {NFS4ERR_INVAL, NFS4ERR_NOTSUPP}) {
    CAPTURE(status);
    m.server.answer(OP_READLINK, status);
    CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EINVAL);
  }
  m.server.answer(OP_READLINK, NFS4ERR_ACCESS);
  CHECK(errno_of(c.run(c.engine.read_link(nullptr, handle))) == EACCES);
}

TEST_CASE("objects: a link is made although the server gives no attributes behind it") {
  for (const unsigned skipped : {0U, 1U}) {  // the directory's, the file's
    CAPTURE(skipped);
    SeveralAtOnce m;
    m.server.add_file("/f", "text");
    EngineClient& c = m.connect();
    const nfs_fh4 handle = c.handle("/f");
    m.server.answer(OP_GETATTR, NFS4ERR_DELAY, 1, skipped);
    auto made = c.run(c.engine.link(nullptr, handle, c.root, "new"));
    REQUIRE(ok(made));
    CHECK(made->object.handle == handle);
    CHECK_FALSE(made->object.attributes);
    CHECK(m.server.content("/new") == "text");
  }
}

TEST_CASE("xattrs: a list that is longer than any program can take does not fill the memory") {
  SeveralAtOnce m;
  m.server.add_file("/f", "");
  EngineClient& c = m.connect();
  m.server.on_server([](Responder& responder) {
    Inode* const inode = responder.state.find("/f");
    for (unsigned i = 1000; i < 2000; ++i) inode->xattrs[std::string(240, 'n') + std::to_string(i)].clear();
  });
  const auto names = c.run(c.engine.list_xattrs(nullptr, c.handle("/f")));
  CHECK(errno_of(names) == E2BIG);
  CHECK(m.server.count(OP_LISTXATTRS) <= 3);
}

// ---- parts by themselves ----

TEST_CASE("S27 range stateid: the lock on these bytes, else any lock, else the open's") {
  using Use = RangeStateid::Use;
  LonelyLoop l;
  Open open;
  open.exact = true;
  open.stateid = stateid_of(1, 5);
  const auto add = [&](std::uint64_t owner, unsigned number, const LockRange& range, bool write) {
    auto state = std::make_shared<LockState>(l.loop);
    state->stateid = stateid_of(number);
    state->held.lock(range, write);
    open.locks[owner] = state;
    return state;
  };
  CHECK(RangeStateid(open, {0, 5}, Use::write).now() == stateid_of(1, 5));
  const auto reading = add(1, 10, {0, 10}, false);
  const auto writing = add(2, 20, {20, 10}, true);
  CHECK(RangeStateid(open, {0, 5}, Use::write).now() == stateid_of(10));
  CHECK(RangeStateid(open, {25, 5}, Use::write).now() == stateid_of(20));
  CHECK(RangeStateid(open, {25, 5}, Use::read).now() == stateid_of(20));
  CHECK(RangeStateid(open, {5, 100}, Use::read).now() == stateid_of(10));
  CHECK(RangeStateid(open, {5, 100}, Use::write).now() == stateid_of(20));
  RangeStateid last(open, {29, 5}, Use::write);
  CHECK(last.is_to_be_tried_again(NFS4ERR_BAD_STATEID));  // it was asked under another's
  CHECK(last.now() == stateid_of(20));
  // What is unlocked beside makes another one of it.
  writing->stateid = stateid_of(20, 2);
  CHECK(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK(last.now() == stateid_of(20, 2));
  // It is refused as it is: the open tells whether it is lost, too.
  CHECK_FALSE(last.is_to_be_tried_again(NFS4ERR_BAD_STATEID));
  CHECK(last.lost_lock() == 2U);
  // A LOCK or LOCKU has overtaken it, whose answer is still to come.
  CHECK(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK(last.now() == stateid_of(1, 5));
  CHECK_FALSE(last.is_to_be_tried_again(NFS4ERR_OLD_STATEID));
  CHECK_FALSE(last.lost_lock());
  // All of it is unlocked meanwhile: nothing is lost.
  RangeStateid unlocked(open, {20, 1}, Use::write);
  CHECK(unlocked.now() == stateid_of(20, 2));
  writing->held.clear();
  CHECK(unlocked.is_to_be_tried_again(NFS4ERR_BAD_STATEID));
  CHECK_FALSE(unlocked.lost_lock());
  CHECK(unlocked.now() == stateid_of(10));
  reading->stateid.reset();
  CHECK(unlocked.now() == stateid_of(1, 5));
  open.exact = false;
  CHECK(unlocked.now() == stateid_of(1, 0));
}

TEST_CASE("loss limit: some at once, then behind pauses that grow, and an end of what is always lost") {
  LonelyLoop l;
  LossLimit losses(l.loop, async::TimePoint::max());
  const auto again = [&l](LossLimit& of) { return l.loop.run(of.again(true)); };
  CHECK_FALSE(l.loop.run(losses.again(false)));
  async::TimePoint before = l.loop.now();
  for (int i = 0; i < 3; ++i) CHECK(again(losses));
  CHECK((l.loop.now() == before));
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 800ms}) {
    before = l.loop.now();
    CHECK(again(losses));
    CHECK((l.loop.now() - before == pause));
  }
  CHECK_FALSE(again(losses));
  // A server that has kept it for a while has only restarted.
  l.pass(4s);
  before = l.loop.now();
  for (int i = 0; i < 3; ++i) CHECK(again(losses));
  CHECK((l.loop.now() == before));
  CHECK(again(losses));
  CHECK((l.loop.now() - before == 50ms));
  // Nor is there a pause that nobody has the time for.
  LossLimit hasty(l.loop, l.loop.now() + 70ms);
  for (int i = 0; i < 4; ++i) CHECK(again(hasty));
  CHECK_FALSE(again(hasty));
  LossLimit late(l.loop, l.loop.now());
  CHECK_FALSE(again(late));
}

TEST_CASE("copies beside: an early end is kept for who may have asked for it, and not for those behind him") {
  LonelyLoop l;
  CopiesBeside copies;
  const auto ended = [&copies](unsigned number) {
    CopiesBeside::Outcome outcome;
    outcome.stateid = stateid_of(number);
    outcome.written.wr_count = number;
    return copies.ended(outcome);
  };
  CHECK(ended(1) == NFS4ERR_BAD_STATEID);
  {
    CopiesBeside::One first(copies, l.loop);
    CHECK(ended(1) == NFS4_OK);
    CHECK(ended(2) == NFS4_OK);
    CHECK_FALSE(first.outcome());
    first.is(stateid_of(2, 7));
    REQUIRE(first.outcome());
    CHECK(first.outcome()->written.wr_count == 2);
    CHECK(ended(3) == NFS4ERR_BAD_STATEID);
    // It is asked for once more, and what the server said of the one before means nothing.
    first.is_unknown();
    CHECK(ended(4) == NFS4_OK);
    first.is(stateid_of(5));
    CHECK_FALSE(first.outcome());
    CHECK(ended(5) == NFS4_OK);
    REQUIRE(first.outcome());
    CHECK(first.outcome()->written.wr_count == 5);
  }
  CopiesBeside::One second(copies, l.loop);
  second.is(stateid_of(1));
  CHECK_FALSE(second.outcome());
  // A server that makes them up does not fill the memory.
  CopiesBeside::One third(copies, l.loop);
  for (unsigned i = 10; i < 74; ++i) CHECK(ended(i) == NFS4_OK);
  CHECK(ended(74) == NFS4ERR_BAD_STATEID);
}

TEST_CASE(
    "held locks: what of a range is held and what is not, as a model with a byte for each byte has it") {
  std::minstd_rand random(11);  // NOLINT: reproducible
  for (int round = 0; round < 100; ++round) {
    locking::HeldLocks locks;
    std::string model(48, '-');
    const auto range = [&] {
      const std::uint64_t offset = random() % model.size();
      return LockRange{offset, 1 + random() % (model.size() - offset)};
    };
    const auto mark = [](std::string& text, const LockRange& where, char with) {
      for (std::uint64_t i = where.offset; i < where.end(); ++i) text.at(i) = with;
    };
    for (int step = 0; step < 20; ++step) {
      const LockRange changed = range();
      const char kind = "-rw"[random() % 3];
      if (kind == '-') locks.unlock(changed);
      if (kind != '-') locks.lock(changed, kind == 'w');
      mark(model, changed, kind);
      const LockRange asked = range();
      std::string expected(model.size(), '.'), told = expected;
      for (std::uint64_t i = asked.offset; i < asked.end(); ++i) expected.at(i) = model.at(i);
      for (const locking::HeldLock& one : locks.within(asked)) mark(told, one.range, one.write ? 'w' : 'r');
      for (const LockRange& one : locks.not_held(asked)) mark(told, one, '-');
      REQUIRE(told == expected);
    }
  }
}

}  // namespace nfsrdma
