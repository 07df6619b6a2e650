// Data behind close(2) when what the server promised for it is lost (nfs4/state/deferred_data.h): the whole
// client against the test server, on virtual time.
#include "nfs4/state/deferred_data.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "support/mounted.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// A file that is open under a write delegation, and what takes that away.
struct Deferring : MountedEngine {
  static constexpr const char* kOurs = "ours";
  static constexpr const char* kTheirs = "theirs, which is longer";

  Deferring() {
    server.set_delegations(true);
    server.set_write_delegations(false);
    server.add_file("/f", "old");
    mount();
    file = open(O_RDWR);
    REQUIRE(server.delegations() == 1);
  }
  ~Deferring() { client->run(files->closed(), 60s); }
  Deferring(const Deferring&) = delete;
  Deferring& operator=(const Deferring&) = delete;
  fs::OpenedFile open(int flags) { return get(files->open(who, lookup("f").inode, flags)); }
  Status write(const std::string& text, std::uint64_t offset = 0) {
    auto memory = client->loop.memory().take(text.size());
    std::memcpy(memory.data.get(), text.data(), text.size());
    const std::span<const std::byte> data(memory.data.get(), text.size());
    return client->run(files->write(file.handle, std::move(memory), data, offset));
  }
  /// close(2), which does not wait for what was written.
  void close_early() {
    auto flushed = files->flush(file.handle, 0);
    client->start(flushed);
    REQUIRE(flushed.done());
    CHECK(ok(flushed.await_resume()));
  }
  int release(const fs::OpenedFile& closed) {
    return errno_of(client->run(files->close(closed.handle), 60s));
  }
  template <class F>
  void on_state(F fn) {
    server.on_server([&](Responder& responder) { fn(responder.state); });
  }
  /// Another client writes the file and closes it.
  void others_write() {
    on_state([](ServerState& state) { state.set_content(*state.find("/f"), kTheirs); });
  }
  /// The lease ends: the server forgets the client, or keeps its session and revokes all else.
  void end_lease(bool forgets) {
    on_state([forgets](ServerState& state) {
      REQUIRE(state.clients.size() == 1);
      const clientid4 only = state.clients.begin()->first;
      if (forgets) {
        state.discard_client(only);
      } else {
        state.revoke_all(only, Revoked::expired);
      }
    });
  }
  int sync(const fs::OpenedFile& of) { return errno_of(client->run(files->sync(of.handle), 60s)); }
  [[nodiscard]] bool told(const std::string& text) const {
    return client->notices.find(text) != std::string::npos;
  }

  fs::OpenedFile file;
};

}  // namespace

TEST_CASE("S26 S27 data behind close(2) is not written behind the loss of its delegation") {
  Deferring m;
  const auto other = m.open(O_RDWR);
  bool unstable = false;
  m.server.answer(OP_WRITE, NFS4ERR_DELAY, 3);
  SUBCASE("the server revokes the delegation alone") {
    CHECK(ok(m.write(Deferring::kOurs)));
    m.close_early();
    m.server.revoke("/f");
  }
  SUBCASE("the lease ends, and the server forgets the client") {
    CHECK(ok(m.write(Deferring::kOurs)));
    m.close_early();
    m.end_lease(true);
  }
  SUBCASE("the lease ends, and the server revokes all that the client has") {
    CHECK(ok(m.write(Deferring::kOurs)));
    m.close_early();
    m.end_lease(false);
  }
  SUBCASE("what the server had in memory is lost with the lease") {
    unstable = true;
    m.server.answer(OP_COMMIT, NFS4ERR_DELAY, 3);
    CHECK(ok(m.write(Deferring::kOurs)));
    // Two WRITEs, so that they are not stable.
    CHECK(ok(m.write("more", 100)));
    m.close_early();
    CHECK(m.client->turn_until([&] { return m.server.succeeded(OP_WRITE) == 2; }, 60s));
    m.end_lease(true);
    m.on_state([](ServerState& state) { state.fail_writeback(); });
  }
  m.others_write();
  CHECK(m.client->turn_until([&] { return m.told("discarded"); }, 60s));
  CHECK(m.release(m.file) == EIO);
  CHECK(m.server.content("/f") == Deferring::kTheirs);
  CHECK(m.server.stable_content("/f") == Deferring::kTheirs);
  CHECK(m.server.succeeded(OP_WRITE) == (unstable ? 2 : 0));
  // Who has the file open hears of it, once.
  CHECK(m.sync(other) == EIO);
  CHECK(m.sync(other) == 0);
  CHECK(m.release(other) == 0);
}

TEST_CASE("S26 F25 a name is not given to a file whose data was lost with its delegation") {
  Deferring m;
  m.server.answer(OP_WRITE, NFS4ERR_DELAY, 3);
  CHECK(ok(m.write(Deferring::kOurs)));
  m.close_early();
  m.server.revoke("/f");
  CHECK(m.error(m.files->rename(m.who, fs::Inodes::kRoot, "f", fs::Inodes::kRoot, "g")) == EIO);
  CHECK(m.server.content("/f") == "old");
  CHECK_FALSE(m.server.content("/g"));
  CHECK(m.release(m.file) == EIO);
}

TEST_CASE("S11 S26 data behind close(2) survives a restart of the server that gives back the open") {
  Deferring m;
  bool unstable = false;
  SUBCASE("with the delegation") {}
  SUBCASE("without the delegation") {
    m.on_state([](ServerState& state) { state.habits.reclaims_delegations = false; });
  }
  SUBCASE("while the delegation is being returned") {
    (void)m.server.start_recall("/f");
  }
  SUBCASE("what it had in memory only") {
    unstable = true;
  }
  if (unstable) {
    m.server.answer(OP_COMMIT, NFS4ERR_DELAY, 3);
  } else {
    m.server.answer(OP_WRITE, NFS4ERR_DELAY, 3);
  }
  CHECK(ok(m.write("ours")));
  CHECK(ok(m.write("more", 100)));
  m.close_early();
  if (unstable) CHECK(m.client->turn_until([&] { return m.server.succeeded(OP_WRITE) == 2; }, 60s));
  m.server.restart(10s);
  CHECK(m.release(m.file) == 0);
  CHECK(m.server.stable_content("/f")->substr(0, 4) == "ours");
  CHECK(m.server.stable_content("/f")->substr(100) == "more");
  CHECK_FALSE(m.told("discarded"));
}

TEST_CASE("S27 data of a descriptor that is still open outlives the delegation that it was written under") {
  Deferring m;
  m.server.answer(OP_WRITE, NFS4ERR_DELAY, 3);
  bool deferred = false;
  SUBCASE("nobody has closed the file") {}
  SUBCASE("a duplicate of the descriptor was closed before") {
    deferred = true;
    CHECK(ok(m.write("lost", 4)));
    m.close_early();
  }
  CHECK(ok(m.write(Deferring::kOurs)));
  bool revoked = false;
  SUBCASE("the server revokes the delegation alone") {
    revoked = true;
  }
  SUBCASE("the lease ends") {}
  if (revoked) {
    m.server.revoke("/f");
  } else {
    m.end_lease(true);
  }
  CHECK(m.sync(m.file) == (deferred ? EIO : 0));
  CHECK(m.server.content("/f")->starts_with("ours"));
  CHECK(m.server.content("/f")->find("lost") == std::string::npos);
  CHECK(m.release(m.file) == 0);
}

TEST_CASE("S15 S26 what is left behind close(2) is stable before its delegation is returned") {
  Deferring m;
  m.server.hold(OP_COMMIT);
  CHECK(ok(m.write("ours")));
  CHECK(ok(m.write("more", 100)));
  m.close_early();
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.client->turn_until([&] { return m.server.held() == 1; }));
  m.client->turn_for(100ms);
  CHECK(m.server.count(OP_DELEGRETURN) == 0);
  m.server.release();
  CHECK(m.client->turn_until([&] { return m.server.succeeded(OP_DELEGRETURN) == 1; }));
  CHECK(m.server.stable_content("/f")->substr(100) == "more");
  CHECK(m.release(m.file) == 0);
}

TEST_CASE("deferred data: a permit is that of its delegation until a restart gives another, or none") {
  DeferredData file;
  const auto stateid = [](unsigned char number) {
    stateid4 out;
    out.other[0] = std::byte{number};
    return out;
  };
  auto permit = file.permit_of(stateid(1), 1);
  CHECK(file.permit_of(stateid(1), 1) == permit);
  SUBCASE("the open, then the delegation") {
    file.reclaimed(stateid(2), false, 2);
    CHECK(permit->stateid == stateid(2));
    file.reclaimed(stateid(3), false, 2);  // another open of it
    CHECK(permit->stateid == stateid(2));
    file.reclaimed(stateid(4), true, 2);
    CHECK(permit->stateid == stateid(4));
  }
  SUBCASE("the delegation has been returned before") {
    file.ended(stateid(5));
    file.ended(stateid(1));
    file.reclaimed(stateid(2), true, 2);
    CHECK(permit->stateid == stateid(1));
  }
  SUBCASE("another delegation was granted meanwhile") {
    const auto later = file.permit_of(stateid(6), 1);
    CHECK(later != permit);
    file.reclaimed(stateid(2), true, 2);
    CHECK(permit->stateid == stateid(1));
    CHECK(later->stateid == stateid(2));
  }
}

}  // namespace nfsrdma
