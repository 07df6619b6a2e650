// A small file that is opened and read by one COMPOUND: what it is made of, and what becomes of it where a part of it is
// refused, its answer is lost, or the file is another one by then.
#include "nfs4/files/first_read.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "support/engine_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::size_t kRoom = 16;

struct FirstReads : Scene {
  FirstReads() { server.add_file("/f", "text"); }
  async::Task<Result<OpenResult>> opening(std::optional<Place> found_at = {}) {
    into.assign(kRoom, '?');
    return client->files.open_handle(user(1), client->handle("/f"), "f", OPEN4_SHARE_ACCESS_READ,
                                     std::move(found_at), room(into));
  }
  using Scene::open;
  OpenResult open() {
    auto opened = client->run(opening());
    if (!opened) FAIL(opened.error().text());
    return std::move(*opened);
  }
  int error_of_open() { return errno_of(client->run(opening())); }
  /// Opens, closes, and returns what was read with the OPEN; "none" if that was nothing.
  std::string read_with_open() {
    OpenResult opened = open();
    CHECK(opened.object.attributes);
    CHECK(server.open_states() == 1);
    close(opened.file);
    CHECK(server.open_states() == 0);
    return opened.first ? into.substr(0, *opened.first) : "none";
  }
  std::string read_by_read() {
    OpenResult opened = open();
    std::string text(kRoom, '?');
    const auto count = client->run(opened.file->read(room(text), 0));
    REQUIRE(ok(count));
    close(opened.file);
    return text.substr(0, *count);
  }
  [[nodiscard]] std::vector<SeenCall> opens() const {
    std::vector<SeenCall> out;
    for (const SeenCall& call : server.calls())
      if (call.has(OP_OPEN)) out.push_back(call);
    return out;
  }
  [[nodiscard]] bool last_has_read() const { return opens().back().has(OP_READ); }
  std::string into;
};

}  // namespace

TEST_CASE("F10 first read: a small file is opened and read by one call, which the server need not cache") {
  FirstReads m;
  EngineClient& c = m.connect();
  std::optional<Place> found_at;
  std::string expected = "OPEN+GETATTR+READ";
  SUBCASE("by handle") {}
  SUBCASE("by a name that is checked") {
    found_at = Place{c.root, "f", false};
    expected = "LOOKUP+GETFH+OPEN+GETATTR+READ";
  }
  m.server.clear_calls();
  auto opened = c.run(m.opening(found_at));
  REQUIRE(ok(opened));
  REQUIRE(opened->first);
  CHECK(m.into == "text????????????");
  CHECK(*opened->first == 4);
  CHECK(opened->object.attributes->size == 4);
  REQUIRE(m.opens().size() == 1);
  CHECK(m.opens().front().operations() == expected);
  CHECK_FALSE(m.opens().front().sequence.sa_cachethis);
  m.close(opened->file);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("F10 first read: no READ where the caller wants none, writes, or wants more than half of a Reply") {
  FirstReads m;
  EngineClient& c = m.connect();
  const nfs_fh4 handle = c.handle("/f");
  std::string large(c.session.most_read() / 2 + 1, '?');
  std::uint32_t access = OPEN4_SHARE_ACCESS_READ;
  std::span<std::byte> into;
  SUBCASE("none") {}
  SUBCASE("writes") {
    m.into.assign(kRoom, '?');
    into = room(m.into);
    access = OPEN4_SHARE_ACCESS_BOTH;
  }
  SUBCASE("large") {
    into = room(large);
  }
  auto opened = c.run(c.files.open_handle(user(1), handle, "f", access, std::nullopt, into));
  REQUIRE(ok(opened));
  CHECK_FALSE(opened->first);
  CHECK_FALSE(m.last_has_read());
  CHECK(m.opens().back().sequence.sa_cachethis);
  m.close(opened->file);
}

TEST_CASE("F10 first read: the file as it is when it is opened, all of what there is room for, or nothing") {
  FirstReads m;
  m.connect();
  SUBCASE("grown since it was looked up") {
    (void)m.client->handle("/f");
    m.server.add_file("/f", "text and more");
    CHECK(m.read_with_open() == "text and more");
  }
  SUBCASE("larger than the room") {
    m.server.add_file("/f", std::string(kRoom, 'x') + "more");
    CHECK(m.read_with_open() == std::string(kRoom, 'x'));
  }
  SUBCASE("empty") {
    m.server.add_file("/f", "");
    CHECK(m.read_with_open().empty());
  }
  // A short answer could not be told from the end of the file.
  SUBCASE("a part of it") {
    m.server.set_short_reads(2);
    CHECK(m.read_with_open() == "none");
    CHECK(m.read_by_read() == "text");
  }
}

TEST_CASE("F10 first read: a READ that is refused leaves the file open, and is read by another READ") {
  FirstReads m;
  m.connect();
  for (const nfsstat4 status :
       {NFS4ERR_DELAY, NFS4ERR_LOCKED, NFS4ERR_IO, NFS4ERR_OLD_STATEID, NFS4ERR_REP_TOO_BIG}) {
    CAPTURE(status);
    m.server.answer(OP_READ, status);
    CHECK(m.read_with_open() == "none");
    CHECK(m.read_by_read() == "text");
    CHECK(m.last_has_read());
  }
}

TEST_CASE("F10 first read: a server that does not know the current stateid is asked for it once") {
  for (const nfsstat4 status : {NFS4ERR_BAD_STATEID, NFS4ERR_INVAL}) {
    CAPTURE(status);
    FirstReads m;
    m.connect();
    m.server.answer(OP_READ, status);
    CHECK(m.read_with_open() == "none");
    CHECK(m.last_has_read());
    CHECK(m.read_with_open() == "none");
    CHECK_FALSE(m.last_has_read());
    CHECK(m.read_by_read() == "text");
  }
}

TEST_CASE("F10 first read: a COMPOUND that is too large for the server is sent again without READ") {
  for (const nfsstat4 status : {NFS4ERR_TOO_MANY_OPS, NFS4ERR_REP_TOO_BIG, NFS4ERR_RESOURCE}) {
    for (const nfs_opnum4 refused : {OP_SEQUENCE, OP_OPEN}) {
      if (refused == OP_SEQUENCE && status == NFS4ERR_RESOURCE) continue;
      CAPTURE(status);
      CAPTURE(refused);
      FirstReads m;
      m.connect();
      const nfs_fh4 handle = m.client->handle("/f");
      m.into.assign(kRoom, '?');
      m.server.answer(refused, status);
      auto opened = m.client->run(m.client->files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ,
                                                              std::nullopt, room(m.into)));
      REQUIRE(ok(opened));
      m.close(opened->file);
      CHECK(m.read_with_open() == "none");
      CHECK_FALSE(m.last_has_read());
    }
  }
}

TEST_CASE("F10 first read: a server that cannot use the chunk of READ is sent OPEN without it") {
  FirstReads m;
  m.connect();
  const nfs_fh4 handle = m.client->handle("/f");
  m.into.assign(kRoom, '?');
  m.server.err_chunk(OP_OPEN);
  auto opened = m.client->run(
      m.client->files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ, std::nullopt, room(m.into)));
  REQUIRE(ok(opened));
  CHECK_FALSE(opened->first);
  CHECK_FALSE(m.last_has_read());
  m.close(opened->file);
}

TEST_CASE("F10 first read: an OPEN that is refused reads nothing") {
  FirstReads m;
  EngineClient& c = m.connect();
  SUBCASE("for good") {
    m.server.answer(OP_OPEN, NFS4ERR_ACCESS);
    CHECK(m.error_of_open() == EACCES);
  }
  SUBCASE("the handle is stale") {
    const nfs_fh4 handle = c.handle("/f");
    CHECK(ok(c.run(c.engine.remove(nullptr, c.root, "f", Engine::Removed::file))));
    m.into.assign(kRoom, '?');
    CHECK(errno_of(c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ, std::nullopt,
                                             room(m.into)))) == ESTALE);
  }
  SUBCASE("the name leads elsewhere") {
    const nfs_fh4 handle = c.handle("/f");
    CHECK(ok(c.run(c.engine.rename(nullptr, c.root, "f", c.root, "g", std::nullopt))));
    m.server.add_file("/f", "other");
    m.into.assign(kRoom, '?');
    CHECK(errno_of(c.run(c.files.open_handle(user(1), handle, "f", OPEN4_SHARE_ACCESS_READ,
                                             Place{c.root, "f", false}, room(m.into)))) == ESTALE);
    CHECK(m.soon([&] { return m.server.open_states() == 0; }));
    return;
  }
  CHECK(m.into == std::string(kRoom, '?'));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("F10 first read: an OPEN that has to wait reads when it is made again") {
  for (const nfsstat4 status : {NFS4ERR_DELAY, NFS4ERR_GRACE}) {
    CAPTURE(status);
    FirstReads m;
    m.connect();
    m.server.answer(OP_OPEN, status, 2);
    CHECK(m.read_with_open() == "text");
    CHECK(m.opens().size() == 3);
  }
}

TEST_CASE("S3 first read: where the answer is lost the file is opened again, and one CLOSE closes it") {
  FirstReads m;
  EngineClient& c = m.connect();
  bool is_executed = true;
  SUBCASE("executed") {
    m.server.drop_after(OP_OPEN);
  }
  SUBCASE("not executed") {
    m.server.drop_before(OP_OPEN);
    is_executed = false;
  }
  OpenResult opened = m.open();
  REQUIRE(opened.first);
  CHECK(m.into.substr(0, *opened.first) == "text");
  CHECK(m.server.succeeded(OP_OPEN) == (is_executed ? 2U : 1U));
  CHECK(m.server.open_states() == 1);
  CHECK(opened.file->state().stateid.seqid == (is_executed ? 2U : 1U));
  m.close(opened.file);
  CHECK(m.server.open_states() == 0);
  CHECK(c.files.count() == 0);
}

TEST_CASE("S3 first read: the answer is lost while the owner has the file open, for writing too") {
  FirstReads m;
  m.connect();
  OpenRef writer = m.open("f");
  m.server.drop_after(OP_OPEN);
  OpenResult reader = m.open();
  CHECK(reader.first == 4);
  CHECK(reader.file.file() == writer.file());
  CHECK(m.server.open_states() == 1);
  m.close(reader.file);
  CHECK(m.server.open_states() == 1);
  CHECK(ok(m.client->run(writer->write(bytes("TEXT"), 0))));
  m.close(writer);
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.stable_content("/f") == "TEXT");
}

TEST_CASE("S15 first read: a delegation of the answer that was lost is returned when it is recalled") {
  FirstReads m;
  m.server.set_delegations(true);
  m.connect();
  m.server.drop_after(OP_OPEN);
  OpenResult opened = m.open();
  CHECK(opened.first == 4);
  CHECK(m.server.succeeded(OP_OPEN) == 2);
  CHECK(m.server.delegations() == 1);
  CHECK(m.client->session.delegations().count() == 0);
  auto recalled = m.server.start_recall("/f");
  CHECK(m.soon([&] { return m.server.delegations() == 0; }));
  REQUIRE(recalled.wait_for(0s) == std::future_status::ready);
  CHECK(recalled.get() == NFS4_OK);
  CHECK(m.server.count(OP_DELEGRETURN) == 1);
  m.close(opened.file);
  CHECK(m.server.open_states() == 0);
}

TEST_CASE(
    "S25 first read: a restart that loses data of the file leaves nothing read with the OPEN to count") {
  FirstReads m;
  m.connect();
  OpenRef writer = m.open("f", 2);
  CHECK(ok(m.client->run(writer->write(bytes("written"), 0))));
  m.server.restart();
  OpenResult opened = m.open();
  if (opened.first) CHECK(m.into.substr(0, *opened.first) == "written");
  CHECK(opened.object.attributes->size == 7);
  CHECK(m.read_by_read() == "written");
  m.close(opened.file);
  m.close(writer);
  CHECK(m.read_with_open() == "written");
}

TEST_CASE("F10 first read: a server that has executed one is asked again after a refusal") {
  for (const nfsstat4 status : {NFS4ERR_BAD_STATEID, NFS4ERR_REP_TOO_BIG}) {
    CAPTURE(status);
    FirstReads m;
    m.connect();
    CHECK(m.read_with_open() == "text");
    m.server.answer(OP_READ, status);
    CHECK(m.read_with_open() == "none");
    CHECK(m.read_with_open() == "text");
  }
}

TEST_CASE("F10 first read: an OPEN that had no READ behind it says nothing of READ") {
  FirstReads m;
  EngineClient& c = m.connect();
  std::string large(c.session.most_read() / 2 + 1, '?');
  m.server.answer(OP_OPEN, NFS4ERR_RESOURCE);
  auto opened = c.run(
      c.files.open_handle(user(1), c.handle("/f"), "f", OPEN4_SHARE_ACCESS_READ, std::nullopt, room(large)));
  if (opened) m.close(opened->file);
  CHECK(m.read_with_open() == "text");
}

}  // namespace nfsrdma
