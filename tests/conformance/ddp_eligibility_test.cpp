// What becomes of a READ whose Reply has a result in the wrong place (RFC 8166 6.1), as its caller sees it, by each version
// of NFS. The decoder's part is in rpcrdma_replies_test.cpp.
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/v3_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;
using Misplacement = Responder::Misplacement;

constexpr std::size_t kFile = 3000;
/// More than comes inline: a READ of so much has a Write chunk.
constexpr std::size_t kAsked = 8192;

void misplace(NfsServer& server, Misplacement how, nfs_opnum4 op) {
  server.on_server([=](Responder& responder) { responder.misplace(how, op); });
}

/// From where READ brings something, or nothing where the fault is that its chunk is filled.
std::uint64_t offset_for(Misplacement how) {
  return how == Misplacement::filled_for_none ? kFile : 0;
}

/// The error is final, and says what the server did.
void check_named(const Error& error, Misplacement how) {
  CHECK(error.kind() == ErrorKind::protocol);
  CHECK(error.errno_value() == EPROTO);
  CHECK(error.operation() == "READ");
  const char* const what = how == Misplacement::filled_for_none
                               ? "differs from what was placed in its Write chunk"
                               : "against the upper layer binding";
  CHECK(error.message().find(what) != std::string::npos);
}

/// READ of the file's first bytes into a Write chunk, and of a link's text inline: its Reply may be a long one.
async::Task<Status> read_with_link(EngineClient& c, OpenFile& file, nfs_fh4 link, std::span<std::byte> data,
                                   std::span<std::byte> text) {
  Compound compound = c.session.begin("READ");
  compound.add<op::PUTFH>({link});
  compound.read_link(text);
  compound.add<op::PUTFH>({file.handle()});
  compound.read(file.stateid(), 0, data);
  auto reply = co_await c.session.call(std::move(compound));
  if (!reply) co_return reply.error();
  READLINK4res linked;
  READ4res read;
  const bool good = reply->take<op::PUTFH>() && reply->take<op::READLINK>(linked) &&
                    reply->take<op::PUTFH>() && reply->take<op::READ>(read) && reply->finish();
  if (good) co_return Status();
  co_return c.session.error_of(*reply, "READ", "/f");
}

}  // namespace

TEST_CASE("T25 nfs4: a result in the wrong place ends its READ for good, and nothing else") {
  for (const char* version : {"vers=4.2", "vers=4.1", "vers=4.0"}) {
    for (const Misplacement how : {Misplacement::left_inline, Misplacement::filled_for_none}) {
      CAPTURE(version);
      CAPTURE(static_cast<int>(how));
      Mounted m;
      m.server.add_file("/f", pattern(kFile));
      m.connect(version);
      const auto file = m.open("/f", OpenMode::read);
      m.server.hold(OP_READ);
      std::string data(kAsked, '?'), other(kAsked, '?');
      std::optional<Result<std::size_t>> bad, good;
      file->start_read(room(data), offset_for(how), [&](Result<std::size_t> got) { bad = std::move(got); });
      REQUIRE(comes(*m.client, [&] { return m.server.held() == 1; }));
      file->start_read(room(other), 0, [&](Result<std::size_t> got) { good = std::move(got); });
      REQUIRE(comes(*m.client, [&] { return m.server.held() == 2; }));
      misplace(m.server, how, OP_READ);
      m.server.release_first();
      REQUIRE(comes(*m.client, [&] { return bad.has_value(); }));
      REQUIRE_FALSE(*bad);
      check_named(bad->error(), how);
      CHECK_FALSE(good);  // still under way
      m.server.release();
      REQUIRE(comes(*m.client, [&] { return good.has_value(); }));
      REQUIRE(ok(*good));
      CHECK(other.substr(0, kFile) == pattern(kFile));
      CHECK(m.server.count(OP_READ) == 2);  // neither was tried again
      CHECK(Mounted::read_all(*file, kAsked) == pattern(kFile));
      CHECK(m.server.connections() == 1);
    }
  }
}

TEST_CASE("T25 nfs4: a Long Reply that has the data of a READ with a Write chunk ends the READ for good") {
  Scene m;
  m.server.add_file("/f", pattern(kFile));
  m.server.add_symlink("/l", "over there");
  EngineClient& c = m.connect();
  OpenRef file = m.open("f");
  const nfs_fh4 link = c.handle("/l");
  m.server.clear_calls();
  std::string data(kAsked, '?'), text(4096, '?');
  misplace(m.server, Misplacement::left_inline_long, OP_READLINK);
  const Status done = c.run(read_with_link(c, *file.file(), link, room(data), room(text)));
  REQUIRE(m.server.calls().size() == 1);
  CHECK(m.server.calls()[0].write_chunks == std::vector<std::uint64_t>{0, kAsked});
  CHECK(m.server.calls()[0].reply_chunk > kFile);
  CHECK(c.channel.facts().long_replies == 1);
  REQUIRE_FALSE(done);
  check_named(done.error(), Misplacement::left_inline_long);
  CHECK(ok(c.run(read_with_link(c, *file.file(), link, room(data), room(text)))));
  CHECK(data.substr(0, kFile) == pattern(kFile));
  CHECK(m.server.connections() == 1);
  m.close(file);
}

TEST_CASE("T25 nfs3: a result in the wrong place ends its READ for good") {
  for (const unsigned version : {3U, 2U}) {
    for (const Misplacement how : {Misplacement::left_inline, Misplacement::filled_for_none}) {
      CAPTURE(version);
      CAPTURE(static_cast<int>(how));
      Scene3 m(version);
      m.server.add_file("/f", pattern(kFile));
      const engine::Opened file = m.open("f");
      m.server.clear_calls();
      misplace(m.server, how, OP_READ);
      std::string data(kAsked, '?');
      const auto got = m.run(file.file->read(room(data), offset_for(how)));
      REQUIRE_FALSE(got);
      check_named(got.error(), how);
      CHECK(m.asked() == "READ");
      CHECK(m.read(file, kAsked) == pattern(kFile));
      CHECK(m.server.connections() == 1);
    }
  }
}

}  // namespace nfsrdma
