// NFSv4.2's operations on open files against the test server: READ_PLUS with its holes, ALLOCATE, DEALLOCATE,
// COPY, CLONE, SEEK.
#include <cerrno>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// What a reader sees: zeros where there is no data.
std::string visible(std::string data, const std::vector<std::pair<std::size_t, std::size_t>>& extents) {
  std::string out(data.size(), '\0');
  for (const auto& [begin, end] : extents) out.replace(begin, end - begin, data.substr(begin, end - begin));
  return out;
}

}  // namespace

TEST_CASE("v4.2: READ_PLUS puts data and holes together, and asks again for what is left") {
  Scene m;
  const std::string data = pattern(50'000);
  const std::vector<std::pair<std::size_t, std::size_t>> extents = {
      {0, 100}, {5000, 9000}, {20'001, 20'003}, {30'000, 40'000}};
  m.server.add_file("/sparse", data);
  for (const auto& [begin, end] : extents) m.server.add_extent("/sparse", begin, end);
  m.server.add_file("/dense", data);
  EngineClient& c = m.connect(ReadPlus::yes);
  OpenRef sparse = m.open("sparse"), dense = m.open("dense");
  const std::string expected = visible(data, extents);
  for (const auto& [offset, length] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 50'000},
                                                                                       {50, 8000},
                                                                                       {99, 2},
                                                                                       {100, 10},
                                                                                       {4990, 20},
                                                                                       {8999, 30'000},
                                                                                       {49'000, 5000},
                                                                                       {50'000, 10}}) {
    CAPTURE(offset);
    CAPTURE(length);
    std::string got(length, '?');
    auto count = c.run(sparse->read(room(got), offset));
    REQUIRE(ok(count));
    got.resize(*count);
    CHECK((got == expected.substr(offset, length)));
    got.assign(length, '?');
    count = c.run(dense->read(room(got), offset));
    REQUIRE(ok(count));
    got.resize(*count);
    CHECK((got == data.substr(offset, length)));
  }
  m.close(sparse);
  m.close(dense);
}

TEST_CASE("v4.2: ALLOCATE and DEALLOCATE; unstable data that is cut out is not written again") {
  Scene m;
  m.server.add_file("/f", "0123456789");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  CHECK(ok(c.run(file->allocate(0, 20))));
  CHECK(m.server.content("/f")->size() == 20);
  CHECK(ok(c.run(file->write(bytes("abcdefghij"), 0))));
  CHECK(ok(c.run(file->deallocate(2, 4))));
  m.server.restart(3s);
  CHECK(ok(c.run(file->commit())));
  CHECK(m.server.stable_content("/f")->substr(0, 10) == std::string("ab\0\0\0\0ghij", 10));
  m.server.answer(OP_ALLOCATE, NFS4ERR_NOTSUPP);
  const auto refused = c.run(file->allocate(0, 100));
  REQUIRE_FALSE(refused);
  CHECK(is_unsupported(refused.error()));
  m.server.answer(OP_ALLOCATE, NFS4ERR_NOSPC);
  CHECK(errno_of(c.run(file->allocate(0, 100))) == ENOSPC);
  m.close(file);
}

TEST_CASE("v4.2: COPY within the server, stable, and what makes a caller copy by himself") {
  Scene m;
  m.server.add_file("/from", pattern(100'000));
  m.server.add_file("/to", "");
  EngineClient& c = m.connect();
  OpenRef from = m.open("from"), to = m.open("to");
  const auto copy = [&](std::uint64_t at, std::uint64_t count) {
    return c.run(OpenFile::copy(*from.file(), at, *to.file(), at, count));
  };
  CHECK(*copy(0, 60'000) == 60'000);
  CHECK(*copy(60'000, 60'000) == 40'000);
  CHECK(*copy(100'000, 10) == 0);
  CHECK(*copy(0, 0) == 0);
  CHECK((m.server.stable_content("/to") == pattern(100'000)));
  m.server.set_unstable_copies(true);
  m.server.clear_calls();
  CHECK(*copy(0, 10) == 10);
  CHECK(m.server.count(OP_COMMIT) == 1);
  CHECK((m.server.stable_content("/to") == pattern(100'000)));
  for (const nfsstat4 status : {NFS4ERR_NOTSUPP, NFS4ERR_OFFLOAD_NO_REQS, NFS4ERR_XDEV}) {
    CAPTURE(status);
    m.server.answer(OP_COPY, status);
    const auto refused = copy(0, 10);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().status() == status);
    CHECK(is_unsupported(refused.error()) == (status != NFS4ERR_XDEV));
  }
  m.server.set_synchronous_copies(false);
  CHECK(is_unsupported(copy(0, 10).error()));
  m.server.set_synchronous_copies(true);
  m.server.forget_stateids();
  CHECK(*copy(0, 10) == 10);
  CHECK(m.server.open_states() == 2);
  m.close(from);
  m.close(to);
}

TEST_CASE("v4.2: a COPY of nothing is the end of the source only where the source ends") {
  Scene m;
  m.server.add_file("/from", pattern(100'000));
  m.server.add_file("/to", "");
  EngineClient& c = m.connect();
  OpenRef from = m.open("from"), to = m.open("to");
  const auto copy = [&](std::uint64_t at) {
    return c.run(OpenFile::copy(*from.file(), at, *to.file(), at, 60'000));
  };
  const auto copies_at_most = [&](std::uint64_t bytes) {
    m.server.on_server([bytes](Responder& responder) { responder.state.habits.most_copied = bytes; });
  };
  copies_at_most(1000);
  CHECK(*copy(0) == 1000);
  copies_at_most(0);
  CHECK(*copy(100'000) == 0);
  m.server.clear_calls();
  const auto refused = copy(1000);
  REQUIRE_FALSE(refused);
  CHECK(is_unsupported(refused.error()));  // the caller reads and writes
  CHECK(m.server.count(OP_COPY) == 3);
  m.close(from);
  m.close(to);
}

TEST_CASE("v4.2: CLONE") {
  Scene m;
  m.server.add_file("/from", pattern(8192));
  m.server.add_file("/to", "");
  EngineClient& c = m.connect();
  OpenRef from = m.open("from"), to = m.open("to");
  CHECK(ok(c.run(OpenFile::clone(*from.file(), 4096, *to.file(), 0, 4096))));
  CHECK((m.server.content("/to") == pattern(8192).substr(4096)));
  CHECK(ok(c.run(OpenFile::clone(*from.file(), 0, *to.file(), 0, 0))));
  CHECK((m.server.content("/to") == pattern(8192)));
  m.server.answer(OP_CLONE, NFS4ERR_NOTSUPP);
  CHECK(is_unsupported(c.run(OpenFile::clone(*from.file(), 0, *to.file(), 0, 0)).error()));
  CHECK(errno_of(c.run(OpenFile::clone(*from.file(), 8000, *to.file(), 0, 1000))) == EINVAL);
  m.close(from);
  m.close(to);
}

TEST_CASE("v4.2: SEEK, and none of all this with NFSv4.1") {
  Scene m;
  m.server.add_file("/f", pattern(1000));
  m.server.add_extent("/f", 100, 200);
  {
    EngineClient& c = m.connect();
    OpenRef file = m.open("f");
    CHECK(*c.run(file->seek(0, NFS4_CONTENT_DATA)) == 100U);
    CHECK(*c.run(file->seek(150, NFS4_CONTENT_HOLE)) == 200U);
    CHECK_FALSE(c.run(file->seek(200, NFS4_CONTENT_DATA))->has_value());
    m.close(file);
  }
  m.client.reset();
  m.server.set_newest_minor(1);
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  m.server.clear_calls();
  std::string data(10, '?');
  for (const Status& done : {c.run(file->allocate(0, 1)), c.run(file->deallocate(0, 1)),
                             c.run(OpenFile::clone(*file.file(), 0, *file.file(), 0, 1))}) {
    REQUIRE_FALSE(done);
    CHECK(is_unsupported(done.error()));
  }
  CHECK(is_unsupported(c.run(file->seek(0, NFS4_CONTENT_DATA)).error()));
  CHECK(is_unsupported(c.run(OpenFile::copy(*file.file(), 0, *file.file(), 0, 1)).error()));
  CHECK(m.server.calls().empty());
  m.close(file);
}

}  // namespace nfsrdma
