// Files whose close(2) is over while their data is on its way (FileSystem::flush(),
// engine/write_back_owner.h): who sees it, who waits for it, and who hears of what was lost. And two more
// ways in which what the kernel writes could hang or get lost.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/file_parts.h"
#include "support/mounted.h"
#include "support/nfs_responder.h"
#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using plain::Plain;

/// close(2) waits for nothing, as under a delegation for writing.
struct ClosedEarly : Plain {
  static constexpr std::size_t kMuch = 128U << 10;  // is not gathered

  ClosedEarly() {
    engine->tells = true;
    engine->owed = 1U << 30;
    files->on_stale_pages([this](std::uint64_t, std::uint64_t, std::uint64_t) { return dropped_pages(); });
  }
  async::Task<void> dropped_pages() {
    ++drops;
    co_return;
  }
  /// A new file, and a WRITE of it that is under way until the test releases "write".
  OpenedFile create_and_write(const std::string& name = "f") {
    OpenedFile file = create(name);
    engine->hold("write");
    write(file, std::string(kMuch, 'x'), 0);
    return file;
  }
  OpenedFile open(const OpenedFile& file, int flags) {
    return get(files->open(nullptr, file.entry.inode, flags));
  }
  /// close(2): whether it is over at once.
  bool leaves_early(const OpenedFile& file) {
    auto flushed = files->flush(file.handle, 1);
    start(flushed);
    return flushed.done() && flushed.await_resume();
  }
  /// The errno of one that is over, 0 for success.
  static int ended(async::Task<Status>& task) {
    REQUIRE(task.done());
    const Status done = task.await_resume();
    return done ? 0 : done.error().errno_value();
  }
  void let_write() {
    engine->release("write");
    turn();
  }
  void close(const OpenedFile& file) { CHECK(plain::ok(loop.run(files->close(file.handle)))); }
  [[nodiscard]] std::size_t inodes() const { return files->holdings().inodes; }

  unsigned drops = 0;  // of the kernel's pages
};

}  // namespace

TEST_CASE(
    "F6 a file that is longer than a close may leave behind is not closed early, whoever made it long") {
  ClosedEarly m;
  const OpenedFile file = m.create("f");
  m.engine->owed = 1000;
  m.write(file, "a", 0);
  CHECK(plain::ok(m.loop.run(m.files->sync(file.handle))));
  CHECK(m.leaves_early(file));
  const std::string text = "b";
  const auto data = std::as_bytes(std::span(text));
  SUBCASE("a write that has ended, behind which nobody asked for the size") {
    CHECK(plain::ok(m.loop.run(m.files->write(file.handle, {}, data, 1500, O_RDWR | O_SYNC))));
  }
  SUBCASE("somebody else: an append that failed asked for the size, which nobody was told") {
    m.engine->nodes.at(plain::PlainEngine::id_of(file.handle->inode().handle)).content.resize(2000);
    m.engine->fail("write", ENOSPC);
    CHECK_FALSE(plain::ok(m.loop.run(m.files->write(file.handle, {}, data, 1, O_RDWR | O_APPEND | O_SYNC))));
  }
  m.engine->hold("attributes");  // which close(2) asks for behind the data
  CHECK_FALSE(m.leaves_early(file));
  m.engine->release("attributes");
  m.turn();
  m.close(file);
}

// ---- what the kernel has forgotten ----

TEST_CASE("F22 an inode that is forgotten stays while a file of it is open, and goes then") {
  plain::FileParts m;
  auto file = m.open("a");
  const std::uint64_t id = file->inode().id;
  const FileHandle handle = file->inode().handle;
  CHECK_FALSE(m.inodes.forget(id, 1));
  CHECK(m.inodes.find(id).get() == &file->inode());
  CHECK(m.inodes.find(handle).get() == &file->inode());
  SUBCASE("looked up meanwhile") {
    CHECK(m.inode(handle, "a").get() == &file->inode());
    file.reset();
    CHECK_FALSE(m.inodes.forget(id, 0));
    CHECK(m.inodes.forget(id, 1));
  }
  SUBCASE("not looked up") {
    file.reset();
    CHECK(m.inodes.forget(id, 0));
  }
  CHECK_FALSE(m.inodes.find(id));
  CHECK_FALSE(m.inodes.find(handle));
  CHECK(m.inodes.handle_of(id) == handle);
}

TEST_CASE("F2 S15 a file that was closed early and forgotten is the same until its data is written") {
  ClosedEarly m;
  const OpenedFile file = m.create_and_write();
  const std::uint64_t inode = file.entry.inode;
  const FileHandle handle = file.handle->inode().handle;
  REQUIRE(m.leaves_early(file));
  auto closing = m.files->close(file.handle);
  m.start(closing);
  REQUIRE_FALSE(closing.done());
  m.files->forget(inode, 1000);
  CHECK(m.inodes() == 2);
  bool found = false;
  SUBCASE("who looks it up finds all of it") {
    const Entry again = m.get(m.files->lookup(nullptr, Inodes::kRoot, "f"));
    CHECK(again.inode == inode);
    CHECK(again.attributes.size == ClosedEarly::kMuch);
    found = true;
  }
  SUBCASE("its delegation is returned behind its data") {
    bool written = false;
    std::shared_ptr<void> until(&written, [](void* flag) { *static_cast<bool*>(flag) = true; });
    m.engine->keeps->write_out(handle, std::move(until));
    m.turn();
    CHECK_FALSE(written);
    m.let_write();
    CHECK(written);
  }
  SUBCASE("what is lost of it is told") {
    m.engine->fail("commit", EIO);
    m.let_write();
    CHECK(ClosedEarly::ended(closing) == EIO);
    CHECK(m.drops == 1);
    CHECK(m.inodes() == 1);
    return;
  }
  m.let_write();
  CHECK(ClosedEarly::ended(closing) == 0);
  CHECK(m.inodes() == (found ? 2U : 1U));
  m.files->forget(inode, 1);
  CHECK(m.inodes() == 1);
}

TEST_CASE("F2 stat of a file that was closed early waits for all that was written, not for the first of it") {
  ClosedEarly m;
  const OpenedFile file = m.create("f");
  const std::string large(128U << 10, 'x');
  m.engine->hold("write");
  m.write(file, large, 0);
  m.write(file, large, 1U << 20);
  auto flushed = m.files->flush(file.handle, 1);
  m.start(flushed);
  REQUIRE(flushed.done());
  CHECK(plain::ok(flushed.await_resume()));
  auto told = m.files->attributes(nullptr, file.entry.inode);
  m.start(told);
  CHECK_FALSE(told.done());
  m.engine->release_one("write");
  m.turn();
  CHECK_FALSE(told.done());
  m.engine->release("write");
  m.turn();
  REQUIRE(told.done());
  const auto got = told.await_resume();
  REQUIRE(got);
  CHECK(got->attributes.size == (1U << 20) + large.size());
  m.close(file);
}

TEST_CASE("F22 a close() that is given up leaves no inode that was forgotten") {
  ClosedEarly m;
  const OpenedFile file = m.create_and_write();
  REQUIRE(m.leaves_early(file));
  {
    auto closing = m.files->close(file.handle);
    m.start(closing);
    REQUIRE_FALSE(closing.done());
    m.files->forget(file.entry.inode, 1000);
    CHECK(m.inodes() == 2);
  }
  CHECK(m.inodes() == 1);
  m.let_write();
}

// ---- locks ----

TEST_CASE("F9 close(2) waits for the data of a file that is locked through the open file, as by flock(2)") {
  ClosedEarly m;
  const OpenedFile file = m.create_and_write();
  m.engine->locker = 77;  // the open file's own, whom no close(2) names
  auto flushed = m.files->flush(file.handle, 1);
  m.start(flushed);
  CHECK_FALSE(flushed.done());
  m.let_write();
  CHECK(ClosedEarly::ended(flushed) == 0);
  CHECK(m.engine->locker == 77);
  CHECK(plain::ok(m.loop.run(m.files->release_locks(file.handle, 77))));
  CHECK(m.engine->locker == 0);
  m.engine->hold("write");
  m.write(file, std::string(ClosedEarly::kMuch, 'y'), 0);
  CHECK(m.leaves_early(file));
  m.let_write();
  m.close(file);
}

// ---- losses ----

TEST_CASE("F3 F4 what the COMMIT of a close() cannot bring to the disk is lost, and told") {
  ClosedEarly m;
  const OpenedFile file = m.create_and_write();
  const OpenedFile other = m.open(file, O_RDWR);
  REQUIRE(m.leaves_early(file));
  m.engine->lose("commit", false);  // that of close(2)
  m.engine->lose("commit", false);
  auto closing = m.files->close(file.handle);
  m.start(closing);
  m.let_write();
  CHECK(ClosedEarly::ended(closing) == ETIMEDOUT);
  CHECK(m.drops == 1);
  CHECK(m.error(m.files->sync(other.handle)) == ETIMEDOUT);
  CHECK(m.error(m.files->sync(other.handle)) == 0);
  m.close(other);
  // Who closes another file soon behind it waits.
  const OpenedFile next = m.create_and_write("g");
  auto flushed = m.files->flush(next.handle, 1);
  m.start(flushed);
  CHECK_FALSE(flushed.done());
  m.let_write();
  CHECK(ClosedEarly::ended(flushed) == 0);
  m.close(next);
}

TEST_CASE("F3 what does not fit in the largest file is an error, not a part that is missing") {
  Plain m;
  const OpenedFile file = m.create("f");
  m.engine->largest = 4;
  SUBCASE("of fsync(2)") {
    m.write(file, "12345678", 0);
    CHECK(m.error(m.files->sync(file.handle)) == EFBIG);
    CHECK(m.error(m.files->sync(file.handle)) == 0);
  }
  SUBCASE("of close(2)") {
    m.write(file, "12345678", 0);
    CHECK(m.error(m.files->flush(file.handle, 1)) == EFBIG);
    CHECK(m.error(m.files->flush(file.handle, 1)) == 0);
  }
  SUBCASE("of a write(2) that waits") {
    const std::string text = "12345678";
    const auto data = std::as_bytes(std::span(text));
    CHECK(m.error(m.files->write(file.handle, {}, data, 0, O_RDWR | O_SYNC)) == EFBIG);
  }
  CHECK(m.engine->nodes.at(2).content == "1234");
  CHECK(plain::ok(m.loop.run(m.files->close(file.handle))));
}

// ---- names ----

namespace {

/// A file "tmp" that was closed while its WRITE is under way, and a file that it is to replace.
struct ClosedBeforeNaming : ClosedEarly {
  ClosedBeforeNaming() {
    const OpenedFile old = create("old");
    write(old, "old", 0);
    CHECK(plain::ok(loop.run(files->sync(old.handle))));
    close(old);
    file = create_and_write("tmp");
    REQUIRE(leaves_early(file));
    take_calls();
  }
  async::Task<Status> renaming(const std::string& from, const std::string& to) {
    return files->rename(nullptr, Inodes::kRoot, from, Inodes::kRoot, to);
  }
  plain::Answer<Entry> linking(const std::string& to) {
    return files->link(nullptr, file.entry.inode, Inodes::kRoot, to);
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    return engine->nodes.at(engine->nodes.at(1).names.at(name)).content;
  }
  [[nodiscard]] bool was_called(const std::string& what) const {
    return (" " + calls + " ").find(" " + what + " ") != std::string::npos;
  }
  /// The last close of "tmp", whose error nobody hears.
  void release() { (void)loop.run(files->close(file.handle)); }

  OpenedFile file;
};

}  // namespace

TEST_CASE("F25 rename(2) and link(2) of a file come behind the data that its close(2) left") {
  ClosedBeforeNaming m;
  bool links = false;
  SUBCASE("rename") {}
  SUBCASE("link") {
    links = true;
  }
  auto renamed = m.renaming("tmp", "old");
  auto linked = m.linking("new");
  const std::string what = links ? "link" : "rename";
  m.engine->hold("commit");
  if (links) {
    m.start(linked);
  } else {
    m.start(renamed);
  }
  CHECK_FALSE(m.was_called(what));
  m.let_write();
  CHECK(m.engine->held("commit") == 1);
  CHECK_FALSE(m.was_called(what));
  m.engine->release("commit");
  m.turn();
  CHECK(m.was_called(what));
  CHECK((links ? linked.done() && linked.await_resume() : renamed.done() && renamed.await_resume()));
  CHECK(m.content(links ? "new" : "old") == std::string(ClosedEarly::kMuch, 'x'));
  m.release();
}

TEST_CASE(
    "F25 F5 where the data that close(2) left cannot be saved rename(2) and link(2) fail, and nothing "
    "changes") {
  ClosedBeforeNaming m;
  int code = ENOSPC;
  bool released = false;
  SUBCASE("WRITE is refused") {
    m.engine->fail("write", ENOSPC);
  }
  SUBCASE("COMMIT is refused") {
    m.engine->fail("commit", ENOSPC);
  }
  SUBCASE("COMMIT gets no answer") {
    code = ETIMEDOUT;
    m.engine->lose("commit", false);
    m.engine->lose("commit", false);
    m.engine->lose("commit", false);
  }
  SUBCASE("WRITE was refused before, and the file is closed") {
    m.engine->fail("write", ENOSPC);
    m.let_write();
    m.release();
    released = true;
  }
  auto renamed = m.renaming("tmp", "old");
  m.start(renamed);
  m.let_write();
  CHECK(ClosedEarly::ended(renamed) == code);
  CHECK(m.error(m.linking("new")) == code);
  CHECK_FALSE(m.was_called("rename"));
  CHECK_FALSE(m.was_called("link"));
  CHECK(m.content("old") == "old");
  CHECK(m.engine->nodes.at(1).names.contains("tmp"));
  if (!released) m.release();
  // A file that was written again, and closed well, may have a name again.
  const OpenedFile again = m.open(m.file, O_RDWR | O_TRUNC);
  m.write(again, "again", 0);
  CHECK(m.error(m.files->flush(again.handle, 1)) == 0);
  CHECK(m.error(m.renaming("tmp", "old")) == 0);
  CHECK(m.content("old") == "again");
  m.close(again);
}

TEST_CASE("F25 a COMMIT of a closed file that got no answer is sent again by rename(2)") {
  ClosedBeforeNaming m;
  m.engine->lose("commit", false);
  m.let_write();  // close(2) is over, its descriptor was passed on
  m.take_calls();
  CHECK(m.error(m.renaming("tmp", "old")) == 0);
  CHECK(m.take_calls() == "commit attributes lookup rename");
  m.release();
}

TEST_CASE("F25 a closed file is found by another of its names, and below a directory that is renamed") {
  ClosedBeforeNaming m;
  std::string from, lookups;
  SUBCASE("another name, which nobody has looked up here") {
    m.engine->nodes.at(1).names["other"] = m.engine->nodes.at(1).names.at("tmp");
    from = "other";
  }
  SUBCASE("a directory") {
    m.engine->nodes.at(1).names["d"] = 50;
    m.engine->nodes[50].type = FileType::directory;
    m.engine->nodes[51].type = FileType::directory;
    m.engine->nodes[50].names["e"] = 51;
    const Entry directory = m.get(m.files->lookup(nullptr, Inodes::kRoot, "d"));
    const Entry below = m.get(m.files->lookup(nullptr, directory.inode, "e"));
    m.engine->nodes.at(51).names["f"] = m.engine->nodes.at(1).names.at("tmp");
    (void)m.get(m.files->lookup(nullptr, below.inode, "f"));
    from = "d";
  }
  auto renamed = m.renaming(from, "new");
  m.start(renamed);
  CHECK_FALSE(m.was_called("rename"));
  m.let_write();
  CHECK(ClosedEarly::ended(renamed) == 0);
  CHECK(m.was_called("rename"));
  m.release();
}

TEST_CASE("F25 rename(2) waits for no other file, and asks the server nothing where all data is safe") {
  ClosedBeforeNaming m;
  const OpenedFile other = m.create("other");
  m.take_calls();
  CHECK(m.error(m.renaming("other", "third")) == 0);
  CHECK(m.take_calls() == "lookup rename");  // the lookup of the name that may be replaced
  m.let_write();
  m.release();
  m.close(other);
  m.engine->nodes.at(1).names["unseen"] = 60;
  m.engine->nodes[60];
  (void)m.get(m.files->lookup(nullptr, Inodes::kRoot, "unseen"));  // as the kernel does first
  m.take_calls();
  CHECK(m.error(m.renaming("unseen", "seen")) == 0);
  CHECK(m.take_calls() == "rename");
}

TEST_CASE("F25 rename(2) of a file that is open saves nothing that was written since its last close(2)") {
  ClosedBeforeNaming m;
  m.let_write();
  m.engine->hold("write");
  m.write(m.file, std::string(ClosedEarly::kMuch, 'y'), 0);  // by a duplicate of the descriptor
  CHECK(m.error(m.renaming("tmp", "old")) == 0);
  m.let_write();
  m.release();
}

TEST_CASE("F8 an open of a removed file comes before or behind the removal of its hidden name, not amid it") {
  Plain m;
  const OpenedFile file = m.create("f");
  CHECK(m.error(m.files->remove_file(nullptr, Inodes::kRoot, "f")) == 0);
  const auto names = [&] { return m.engine->nodes.at(1).names.size(); };
  REQUIRE(names() == 1);  // the hidden one
  m.take_calls();
  auto closing = m.files->close(file.handle);
  auto opening = m.files->open(nullptr, file.entry.inode, O_RDWR);
  SUBCASE("before") {
    m.engine->hold("open");
    m.start(opening);
    m.start(closing);
    CHECK_FALSE(closing.done());
    CHECK(m.take_calls() == "open close");
    m.engine->release("open");
    m.turn();
    CHECK(ClosedEarly::ended(closing) == 0);
    CHECK(m.take_calls().empty());
    CHECK(names() == 1);
    REQUIRE(opening.done());
    const auto opened = opening.await_resume();
    REQUIRE(opened);
    CHECK(plain::ok(m.loop.run(m.files->close(opened->handle))));
  }
  SUBCASE("behind") {
    m.engine->hold("remove");
    m.start(closing);
    m.start(opening);
    CHECK(m.take_calls() == "close remove");
    m.engine->release("remove");
    m.turn();
    CHECK(m.take_calls() == "open");
  }
  CHECK(names() == 0);
}

// ---- pages that the kernel writes back ----

TEST_CASE(
    "file system: a page that the kernel writes back waits for no page to be dropped, whoever has the file "
    "open") {
  ClosedEarly m;
  const OpenedFile file = m.create("f");
  m.engine->nodes.at(2).content.assign(ClosedEarly::kMuch, 'o');
  const OpenedFile reader = m.open(file, O_RDONLY);
  (void)m.read_at(reader, 0, 4096);
  const std::string page(4096, 'n');
  const auto data = std::as_bytes(std::span(page));
  SUBCASE("with O_DIRECT, while others are read") {
    const OpenedFile direct = m.open(file, O_RDWR | O_DIRECT);
    m.engine->hold_answer("write");
    auto written = m.files->write(direct.handle, {}, data, 0, FileSystem::kWrittenBack);
    m.start(written);
    (void)m.read_at(reader, 8192, 4096);
    m.let_write();
    CHECK(ClosedEarly::ended(written) == 0);
    m.close(direct);
  }
  SUBCASE("for appending only") {
    const OpenedFile appender = m.open(file, O_WRONLY | O_APPEND);
    CHECK(m.error(m.files->write(appender.handle, {}, data, 0, FileSystem::kWrittenBack)) == 0);
    m.close(appender);
  }
  CHECK(m.drops == 0);
  CHECK(file.handle->inode().pages.any());
  m.close(reader);
  m.close(file);
}

}  // namespace nfsrdma::fs
namespace nfsrdma {
namespace {

/// Who keeps data, and takes as long as the test wants to write it out.
struct SlowKeeper final : engine::WriteBackOwner {
  void write_out(const engine::FileHandle& /*file*/, std::shared_ptr<void> until) override {
    waiting.push_back(std::move(until));
  }
  std::optional<std::uint64_t> written_size(const engine::FileHandle& /*file*/) const override {
    return std::nullopt;
  }
  std::vector<std::shared_ptr<void>> waiting;
};

/// A file that one has a delegation of, for writing, and that somebody else has open, too.
struct TwoOpeners : testing::Scene {
  TwoOpeners() {
    server.set_delegations(true);
    server.set_write_delegations(false);
    server.add_file("/f", "text");
    connect();
    all().write_back_owner(&keeper);
    all().hold_closes();
    handle = client->handle("/f");
  }
  ~TwoOpeners() { client.reset(); }  // before the keeper
  TwoOpeners(const TwoOpeners&) = delete;
  TwoOpeners& operator=(const TwoOpeners&) = delete;
  nfs4::Nfs4Engine& all() { return client->engine; }
  engine::ServerFileRef open(std::uint32_t uid) {
    auto opened =
        client->run(all().open(testing::user(uid), handle, "f", engine::Access::both, std::nullopt));
    REQUIRE(testing::ok(opened));
    return std::move(opened->file);
  }

  SlowKeeper keeper;
  engine::FileHandle handle;
};

}  // namespace

TEST_CASE("S15 nobody leaves early on a delegation that is about to go with another's close") {
  TwoOpeners m;
  auto first = m.open(1);
  const auto second = m.open(2);
  REQUIRE(m.all().max_size_for_deferred_close(m.handle) != 0);
  SUBCASE("it goes") {
    auto closing = m.all().close(std::move(first));
    m.client->start(closing);
    CHECK(m.client->turn_until([&] { return !m.keeper.waiting.empty(); }));
    CHECK(m.all().max_size_for_deferred_close(m.handle) == 0);
    m.keeper.waiting.clear();
    bool again = false;
    CHECK(m.client->turn_until([&] {
      again = again || m.all().max_size_for_deferred_close(m.handle) != 0;
      return closing.done();
    }));
    CHECK_FALSE(again);
    CHECK(testing::ok(closing.await_resume()));
    CHECK(m.server.delegations() == 0);
    CHECK(testing::ok(m.client->run(m.all().close(second))));
  }
  SUBCASE("it is kept for later") {
    m.all().keep_delegated(10);
    CHECK(testing::ok(m.client->run(m.all().close(std::move(first)))));
    CHECK(m.all().max_size_for_deferred_close(m.handle) != 0);
    CHECK(testing::ok(m.client->run(m.all().close(second))));
    m.all().forget(m.handle);
    CHECK(m.client->turn_until([&] {
      m.keeper.waiting.clear();
      return m.server.open_states() == 0;
    }));
  }
}

TEST_CASE("F3 close(2) may leave early with as much data as the server has promised room for, and no more") {
  using Room = testing::Habits::Room;
  TwoOpeners m;
  std::uint64_t promised = 0;
  SUBCASE("none") {
    m.server.on_server([](testing::Responder& server) { server.state.habits.room = Room::none; });
  }
  SUBCASE("some blocks") {
    m.server.on_server([](testing::Responder& server) { server.state.habits.room = Room::blocks; });
    promised = std::uint64_t{4} * 4096;
  }
  const auto file = m.open(1);
  CHECK(m.all().max_size_for_deferred_close(m.handle) == promised);
  auto closing = m.all().close(file);
  m.client->start(closing);
  CHECK(m.client->turn_until([&] {
    m.keeper.waiting.clear();
    return closing.done();
  }));
  CHECK(testing::ok(closing.await_resume()));
}

TEST_CASE("F9 an open file knows of locks, whoever has them") {
  TwoOpeners m;
  const auto file = m.open(1);
  CHECK_FALSE(file->has_locks());
  CHECK(testing::ok(m.client->run(file->lock({7, true, {0, 100}}))));
  CHECK(file->has_locks());
  CHECK(testing::ok(m.client->run(file->release_locks(7))));
  CHECK_FALSE(file->has_locks());
  auto closing = m.all().close(file);
  m.client->start(closing);
  CHECK(m.client->turn_until([&] {
    m.keeper.waiting.clear();
    return closing.done();
  }));
  CHECK(testing::ok(closing.await_resume()));
}

}  // namespace nfsrdma
