// The backchannel and read delegations against the test server: how they are had, what they are good for, how
// they are returned on recall, and what becomes of them when connections, sessions and servers go (RFC 8881
// 10.2.1, 10.4, 18.6, 18.16, 18.34, 20.2, 20.6, 20.8; RFC 8167 5.4).
#include <algorithm>
#include <atomic>

#include "support/nfs_fixture.h"
#include "support/virtual_mounted.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// Long enough for what must not happen to happen.
constexpr auto kLong = 1s;

/// A server that grants delegations, and a file.
template <class World>
struct DelegatingIn : World {
  DelegatingIn() {
    this->server.set_delegations(true);
    this->server.add_file("/f", "text");
  }
  [[nodiscard]] std::unique_ptr<File> reading(const std::string& path = "/f") const {
    return this->open(path, OpenMode::read);
  }
  [[nodiscard]] bool soon(std::size_t delegations) {
    return this->eventually([&] { return this->server.delegations() == delegations; });
  }
  /// GETATTRs that attributes() costs.
  unsigned asked(File& file) const {
    const unsigned before = this->server.count(OP_GETATTR);
    CHECK(ok(file.attributes()));
    return this->server.count(OP_GETATTR) - before;
  }
};

using Delegating = DelegatingIn<Mounted>;
/// For what time has to pass for, or what must not happen.
using VirtualDelegating = DelegatingIn<VirtualMounted>;

bool reads_text(File& file) {
  return Mounted::read_all(file) == "text";
}

bitmap4 types(std::uint32_t type) {
  bitmap4 map;
  set_bit(map, type);
  return map;
}

/// A call on a thread of its own.
class Beside {
 public:
  explicit Beside(std::function<void()> what) : thread_(std::move(what)) {}
  ~Beside() { join(); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace

// ---- how they are had, and what they are good for ----

TEST_CASE("delegation: a reading OPEN asks for one and gets it, a writing one does not ask") {
  Delegating m;
  CHECK(m.connect().info().backchannel);
  {
    const auto writing = m.open("/f", OpenMode::write);
    const auto both = m.open("/f", OpenMode::read_write);
    CHECK(m.server.delegations() == 0);
    const auto reading = m.reading();
    CHECK(m.server.delegations() == 1);
  }
  const auto opens = m.server.opens();
  REQUIRE(opens.size() == 3);
  CHECK(opens[0].share_access == (OPEN4_SHARE_ACCESS_WRITE | OPEN4_SHARE_ACCESS_WANT_NO_DELEG));
  CHECK(opens[1].share_access == (OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG));
  CHECK(opens[2].share_access == (OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_READ_DELEG));
  CHECK(m.server.delegations() == 0);
}

TEST_CASE("delegation: none is asked for where there is no backchannel to recall it by") {
  Delegating m;
  m.server.set_backchannel(false);
  CHECK_FALSE(m.connect().info().backchannel);
  const auto file = m.reading();
  REQUIRE(m.server.opens().size() == 1);
  CHECK(m.server.opens()[0].share_access == (OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_NO_DELEG));
}

TEST_CASE("delegation: CB_NULL is answered") {
  Delegating m;
  (void)m.connect();
  CHECK(m.server.null_callback() == NFS4_OK);
}

TEST_CASE(
    "delegation: attributes are asked for once, again after a change by this client, after the recall") {
  Delegating m;
  Client& client = m.connect();
  const auto file = m.reading();
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
  CHECK(m.asked(*file) == 0);
  SetAttributes changes;
  changes.mode = 0600;
  CHECK(ok(client.set_attributes("/f", changes)));
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
  CHECK(file->attributes()->mode == 0600);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 1);
  // What another client changes shows.
  m.server.add_file("/f", "more text");
  CHECK(file->attributes()->size == 9);
}

TEST_CASE("delegation: attributes that came while a change was under way are not kept") {
  Delegating m;
  Client& client = m.connect();
  const auto file = m.reading();
  auto writing = m.open("/f", OpenMode::write);
  m.server.hold(OP_WRITE, false);
  const std::string data = "longer text";
  bool done = false;
  writing->start_write(bytes(data), 0, [&](const Result<std::size_t>&) { done = true; });
  REQUIRE(comes(client, [&] { return m.server.held() == 1; }));
  CHECK(file->attributes()->size == 4);
  m.server.release();
  REQUIRE(comes(client, [&] { return done; }));
  CHECK(file->attributes()->size == data.size());
  CHECK(m.asked(*file) == 0);
}

TEST_CASE("S15 delegation: one is good for as long as the lease is") {
  VirtualDelegating m;
  m.server.set_lease(1);
  (void)m.connect("timeo=400ms");
  const auto file = m.reading();
  CHECK(m.asked(*file) == 1);
  m.server.go_away();
  CHECK(file->attributes());
  // RFC 8881 10.2.1: by now the server may have given the file to somebody else.
  m.pass(1100ms);
  CHECK_FALSE(file->attributes());
  m.server.come_back();
  CHECK(m.eventually([&] { return m.client->ping().has_value(); }));
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
}

// ---- recall ----

TEST_CASE("delegation: a recall is answered at once, the delegation returned, and reading goes on") {
  Delegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.hold(OP_DELEGRETURN, false);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(eventually([&] { return m.server.held() == 1; }));
  CHECK(m.server.delegations() == 1);
  CHECK(reads_text(*file));
  // Asked again it says the same (RFC 8881 20.2: an unknown stateid would be an error of the server's).
  CHECK(m.server.recall("/f") == NFS4_OK);
  m.server.release();
  CHECK(m.soon(0));
  CHECK(reads_text(*file));
  CHECK(m.server.count(OP_OPEN) == 1);
  CHECK(m.server.count(OP_DELEGRETURN) == 1);
  CHECK(m.server.recall("/f") == NFS4ERR_BAD_STATEID);
}

TEST_CASE("delegation: a recall is answered while nobody is inside a call, and while somebody waits in one") {
  Delegating m;
  (void)m.connect();
  auto fastest = 1000ms;
  for (int i = 0; i < 8; ++i) {
    const auto file = m.reading();
    CHECK(m.server.null_callback() == NFS4_OK);  // the client's own thread answers, and waits again
    const Stopwatch watch;
    CHECK(m.server.recall("/f") == NFS4_OK);
    fastest = std::min(fastest, watch.elapsed());
    CHECK(m.soon(0));
  }
  CHECK(fastest < 100ms);

  const auto file = m.reading();
  m.server.hold(OP_READ);
  {
    Beside reader([&] { CHECK(reads_text(*file)); });
    CHECK(eventually([&] { return m.server.held() == 1; }));
    CHECK(m.server.recall("/f") == NFS4_OK);
    CHECK(m.soon(0));
    m.server.release();
  }
}

TEST_CASE("S15 delegation: a recall that overtakes the Reply to OPEN") {
  Delegating m;
  (void)m.connect();
  m.server.hold(OP_OPEN);
  std::unique_ptr<File> file;
  Beside opening([&] { file = m.reading(); });
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.server.delegations() == 1);
  m.server.release();
  opening.join();
  CHECK(m.soon(0));
  CHECK(m.server.count(OP_DELEGRETURN) == 1);
  CHECK(reads_text(*file));
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 1);
}

TEST_CASE("S15 delegation: a recall that overtakes the Reply to a reclaim") {
  Delegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.hold(OP_OPEN);
  m.server.restart(3s);
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  CHECK(m.server.recall("/f") == NFS4_OK);
  m.server.release();
  CHECK(m.soon(0));
  CHECK(reads_text(*file));
}

TEST_CASE("delegation: recalls of what there is not") {
  Delegating m;
  (void)m.connect();
  CHECK(m.server.recall("/f") == NFS4ERR_BAD_STATEID);
  const auto file = m.reading();
  m.server.add_file("/other", "");
  CHECK(m.server.recall("/other") == NFS4ERR_BAD_STATEID);
  CHECK(m.server.recall("/nothing") == NFS4ERR_BAD_STATEID);
  CHECK(m.server.delegations() == 1);
  CHECK(m.server.count(OP_DELEGRETURN) == 0);
}

TEST_CASE("delegation: CB_RECALL_ANY lets so many be kept") {
  VirtualDelegating m;
  (void)m.connect();
  std::vector<std::unique_ptr<File>> files;
  for (int i = 0; i < 5; ++i) {
    m.server.add_file("/" + std::to_string(i), "");
    files.push_back(m.reading("/" + std::to_string(i)));
  }
  CHECK(m.server.recall_any(0, types(RCA4_TYPE_MASK_WDATA_DLG)) == NFS4_OK);
  CHECK(m.server.recall_any(5, types(RCA4_TYPE_MASK_RDATA_DLG)) == NFS4_OK);
  m.pass(kLong);
  CHECK(m.server.delegations() == 5);
  CHECK(m.server.recall_any(2, types(RCA4_TYPE_MASK_RDATA_DLG)) == NFS4_OK);
  CHECK(m.soon(2));
  m.pass(kLong);
  CHECK(m.server.delegations() == 2);
}

TEST_CASE("delegation: CB_RECALL_SLOT lowers the slots in use, and the server hears of it") {
  VirtualDelegating m;
  m.server.add_file("/data", pattern(1000));
  Client& client = m.connect();
  const auto file = m.open("/data");
  m.server.clear_calls();
  CHECK(m.server.recall_slot(1) == NFS4_OK);
  CHECK(m.eventually([&] { return m.server.count(OP_SEQUENCE) == 1; }));

  // Before any SEQUENCE could say the same.
  m.server.set_target_highest_slot(63);
  CHECK(ok(client.ping()));
  m.server.hold(OP_ILLEGAL, false);
  CHECK(m.server.recall_slot(2) == NFS4_OK);
  REQUIRE(m.eventually([&] { return m.server.held() == 1; }));
  std::vector<std::string> pieces(8, std::string(10, '?'));
  std::size_t done = 0;
  for (std::string& piece : pieces) {
    file->start_read(room(piece), 0, [&](const Result<std::size_t>& count) { done += count ? 1 : 0; });
  }
  m.pass(kLong);
  CHECK(m.server.held() == 3);
  m.server.release();
  CHECK(m.eventually([&] { return done == pieces.size(); }));
  for (const SeenCall& call : m.server.calls()) CHECK(call.sequence.sa_slotid <= 2);
}

// ---- connections ----

TEST_CASE("S15 delegation: recalled while the connection is down, returned after the reconnect, BIND first") {
  VirtualDelegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.go_away();
  m.server.clear_calls();
  auto status = m.server.start_recall("/f");
  m.pass(kLong);
  m.server.come_back();
  REQUIRE(m.eventually([&] { return status.wait_for(0s) == std::future_status::ready; }));
  CHECK(status.get() == NFS4_OK);
  CHECK(m.soon(0));
  const auto calls = m.server.calls();
  REQUIRE(calls.size() >= 2);
  CHECK(calls[0].has(OP_BIND_CONN_TO_SESSION));
  CHECK(calls[1].has(OP_DELEGRETURN));
  CHECK(reads_text(*file));
}

TEST_CASE("delegation: the connection is lost between the recall and DELEGRETURN, or behind it") {
  Delegating m;
  (void)m.connect();
  for (const bool executed : {false, true}) {
    CAPTURE(executed);
    const auto file = m.reading();
    m.server.clear_calls();
    if (executed) {
      m.server.drop_after(OP_DELEGRETURN);
    } else {
      m.server.drop_before(OP_DELEGRETURN);
    }
    CHECK(m.server.recall("/f") == NFS4_OK);
    CHECK(m.soon(0));
    CHECK(reads_text(*file));
    const auto calls = m.server.calls();
    const auto returns = [](const SeenCall& call) { return call.has(OP_DELEGRETURN); };
    CHECK(std::ranges::count_if(calls, returns) == 2);
    CHECK(m.server.succeeded(OP_DELEGRETURN) == 1);
  }
}

TEST_CASE("delegation: DELEGRETURN is tried until the server hears it") {
  VirtualDelegating m;
  (void)m.connect("timeo=300ms");
  const auto file = m.reading();
  m.server.stop_listening();
  m.server.drop_before(OP_DELEGRETURN);
  CHECK(m.server.recall("/f") == NFS4_OK);
  m.pass(600ms);  // by now the call has failed
  CHECK(m.server.delegations() == 1);
  m.server.come_back();
  CHECK(m.soon(0));
}

TEST_CASE("delegation: connections are made anew without a call while one is held, and not otherwise (B8)") {
  VirtualDelegating m;
  (void)m.connect();
  auto writing = m.open("/f", OpenMode::write);
  m.server.drop_connections();
  m.pass(kLong);
  CHECK(m.server.connections() == 1);
  CHECK(ok(m.client->ping()));
  CHECK(m.eventually([&] { return m.server.connections() == 2 && m.server.backchannels() == 1; }));
  auto file = m.reading();
  CHECK(m.server.delegations() == 1);
  m.server.drop_connections();
  CHECK(m.eventually([&] { return m.server.connections() == 3 && m.server.backchannels() == 1; }));
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.soon(0));
  CHECK(ok(m.client->ping()));  // DELEGRETURN has been answered
  m.server.drop_connections();
  m.pass(kLong);
  CHECK(m.server.connections() == 3);
}

TEST_CASE("delegation: with two connections the recall comes over the one that stands") {
  for (const unsigned lost : {1U, 2U}) {
    CAPTURE(lost);
    Delegating m;
    (void)m.connect("nconnect=2");
    CHECK(m.server.backchannels() == 2);
    const auto file = m.reading();
    m.server.stop_listening();
    m.server.drop_connection(lost);
    CHECK(m.server.recall("/f") == NFS4_OK);
    CHECK(m.soon(0));
    CHECK(reads_text(*file));
    m.server.come_back();
    CHECK(eventually([&] { return m.server.backchannels() == 2; }, 5s));
  }
}

TEST_CASE("delegation: where the server misses the backchannel the connection is bound again") {
  for (const std::uint32_t flag :
       {SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION, SEQ4_STATUS_BACKCHANNEL_FAULT}) {
    CAPTURE(flag);
    VirtualDelegating m;
    (void)m.connect();
    const auto file = m.reading();
    m.server.lose_backchannels();
    CHECK(ok(m.client->ping()));
    m.pass(kLong);
    CHECK(m.server.backchannels() == 0);
    m.server.set_sequence_flags(flag, 1);
    CHECK(ok(m.client->ping()));
    CHECK(m.eventually([&] { return m.server.backchannels() == 1; }));
    CHECK(m.server.recall("/f") == NFS4_OK);
    CHECK(m.soon(0));
    // A fault of the backchannel ends the session (RFC 8881 18.46.3), and CREATE_SESSION binds its
    // connection.
    const bool anew = flag == SEQ4_STATUS_BACKCHANNEL_FAULT;
    CHECK(m.server.count(OP_BIND_CONN_TO_SESSION) == (anew ? 0 : 1));
    CHECK(m.server.count(OP_CREATE_SESSION) == (anew ? 2 : 1));
    CHECK(m.server.sessions() == 1);
  }
}

// ---- sessions and servers ----

TEST_CASE("S15 delegation: one outlives its session, and is recalled over the next") {
  Delegating m;
  m.server.add_file("/g", "text");
  (void)m.connect();
  const auto file = m.reading(), other = m.reading("/g");
  CHECK(m.server.recall("/g") == NFS4_OK);  // so that the backchannel's slot has been used
  CHECK(m.soon(1));
  m.server.forget_sessions();
  CHECK(m.server.backchannels() == 0);
  CHECK(ok(m.client->ping()));
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.soon(0));
}

TEST_CASE("S15 delegation: reclaimed after a restart, and recalled afterwards") {
  Delegating m;
  (void)m.connect();
  const auto file = m.reading();
  CHECK(m.asked(*file) == 1);
  m.server.restart(3s);
  CHECK(m.soon(1));  // without a call
  const OPEN4args last = m.server.opens().back();
  REQUIRE(last.claim.tag() == CLAIM_PREVIOUS);
  CHECK(*last.claim.get<CLAIM_PREVIOUS>() == OPEN_DELEGATE_READ);
  CHECK(ok(m.client->ping()));
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.soon(0));
  CHECK(reads_text(*file));
}

TEST_CASE("delegation: what was recalled before a restart is not reclaimed") {
  Delegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.hold(OP_DELEGRETURN, false);
  CHECK(m.server.recall("/f") == NFS4_OK);
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  m.server.restart(3s);
  m.server.release();
  CHECK(eventually([&] { return m.server.succeeded(OP_RECLAIM_COMPLETE) == 2; }));
  CHECK(*m.server.opens().back().claim.get<CLAIM_PREVIOUS>() == OPEN_DELEGATE_NONE);
  CHECK(m.server.delegations() == 0);
  CHECK(reads_text(*file));
}

TEST_CASE("delegation: a restart without a grace period: dropped, not returned, had again with the file") {
  VirtualDelegating m;
  (void)m.connect();
  auto file = m.reading();
  CHECK(m.asked(*file) == 1);
  m.server.restart();
  CHECK(m.eventually([&] { return m.server.succeeded(OP_RECLAIM_COMPLETE) == 2; }));
  CHECK(ok(m.client->ping()));
  m.pass(kLong);
  CHECK(m.server.count(OP_DELEGRETURN) == 0);
  // Nothing is held by then.
  const unsigned connections = m.server.connections();
  m.server.drop_connections();
  m.pass(kLong);
  CHECK(m.server.connections() == connections);
  CHECK(ok(m.client->ping()));
  CHECK(m.eventually([&] { return m.server.backchannels() == 1; }));
  CHECK(reads_text(*file));
  CHECK(m.server.delegations() == 1);
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 0);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.soon(0));
  CHECK(ok(file->close()));
  CHECK(m.server.count(OP_DELEGRETURN) == 1);
}

TEST_CASE("delegation: one that comes with a file that had to be opened again is known") {
  Delegating m;
  (void)m.connect();
  auto file = m.reading();
  m.server.forget_stateids();
  CHECK(reads_text(*file));
  CHECK(m.server.delegations() == 1);
  CHECK(m.server.recall("/f") == NFS4_OK);
  CHECK(m.soon(0));
}

// ---- revoked ----

TEST_CASE("delegation: a revoked one is found by TEST_STATEID, freed, and forgotten") {
  Delegating m;
  m.server.add_file("/g", "");
  (void)m.connect();
  const auto file = m.reading(), other = m.reading("/g");
  CHECK(m.asked(*file) == 1);
  m.server.revoke("/f");
  CHECK(ok(m.client->ping()));
  CHECK(m.soon(1));
  CHECK(m.server.succeeded(OP_FREE_STATEID) == 1);
  CHECK(m.server.count(OP_FREE_STATEID) == 1);
  CHECK(m.server.count(OP_TEST_STATEID) == 1);  // of all there is at once
  CHECK(m.server.count(OP_DELEGRETURN) == 0);
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*other) == 1);
  CHECK(m.asked(*other) == 0);
  CHECK(reads_text(*file));
}

TEST_CASE("delegation: what goes on being revoked is not searched for without end") {
  VirtualDelegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.set_sequence_flags(SEQ4_STATUS_ADMIN_STATE_REVOKED, 1000);
  const sim::Time begin = m.world.now();
  for (int i = 0; i < 100; ++i) {
    CHECK(ok(m.client->ping()));
    m.pass(25ms);
  }
  CHECK(m.server.count(OP_TEST_STATEID) >= 1);
  CHECK(m.server.count(OP_TEST_STATEID) <= 1 + (m.world.now() - begin) / 1s);
  CHECK(m.server.delegations() == 1);
  // Meanwhile it is not relied upon.
  CHECK(m.asked(*file) == 1);
  CHECK(m.asked(*file) == 1);
}

TEST_CASE("delegation: one that was revoked before its DELEGRETURN came is freed") {
  Delegating m;
  (void)m.connect();
  const auto file = m.reading();
  m.server.hold(OP_DELEGRETURN, false);
  CHECK(m.server.recall("/f") == NFS4_OK);
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  m.server.revoke("/f");
  m.server.release();
  CHECK(m.soon(0));
  CHECK(m.server.succeeded(OP_FREE_STATEID) == 1);
}

// ---- the end ----

TEST_CASE("delegation: close() returns it in the same COMPOUND") {
  VirtualDelegating m;
  (void)m.connect();
  auto file = m.reading();
  m.server.clear_calls();
  CHECK(ok(file->close()));
  CHECK(m.server.delegations() == 0);
  CHECK(m.server.open_states() == 0);
  const auto calls = m.server.calls();
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].has(OP_DELEGRETURN));
  CHECK(calls[0].has(OP_CLOSE));
  // And nothing is held any more.
  m.server.drop_connections();
  m.pass(kLong);
  CHECK(m.server.open_connections() == 0);
}

TEST_CASE("delegation: close() closes the file whatever the server says to DELEGRETURN") {
  for (const nfsstat4 status :
       {NFS4ERR_BAD_STATEID, NFS4ERR_STALE_STATEID, NFS4ERR_DELAY, NFS4ERR_SERVERFAULT}) {
    CAPTURE(status);
    Delegating m;
    (void)m.connect();
    auto file = m.reading();
    m.server.answer(OP_DELEGRETURN, status);
    CHECK(ok(file->close()));
    CHECK(m.server.open_states() == 0);
    CHECK(m.server.count(OP_OPEN) == 1);
    CHECK(m.soon(0));
  }
}

TEST_CASE("delegation: close() after it was revoked") {
  Delegating m;
  (void)m.connect();
  auto file = m.reading();
  m.server.revoke("/f");
  CHECK(ok(file->close()));
  CHECK(m.server.open_states() == 0);
  CHECK(m.soon(0));
}

TEST_CASE("delegation: close() that has to be made again") {
  Delegating m;
  (void)m.connect();
  auto file = m.reading();
  m.server.answer(OP_CLOSE, NFS4ERR_DELAY, 2);
  CHECK(ok(file->close()));
  CHECK(m.server.open_states() == 0);
  CHECK(m.server.delegations() == 0);
}

TEST_CASE("delegation: a restart while close() is under way") {
  for (const auto grace : {0ms, 3000ms}) {
    CAPTURE(grace.count());
    Delegating m;
    (void)m.connect();
    auto file = m.reading();
    m.server.hold(OP_CLOSE, false);
    {
      Beside closing([&] { CHECK(ok(file->close())); });
      REQUIRE(eventually([&] { return m.server.held() == 1; }));
      // RFC 8881 20.2: asked for while it is being returned.
      CHECK(m.server.recall("/f") == NFS4_OK);
      m.server.restart(grace);
      m.server.release();
    }
    CHECK(m.soon(0));
    CHECK(m.server.open_states() == 0);
  }
}

TEST_CASE("delegation: disconnect() leaves nothing, also what was just recalled") {
  for (const bool recalled : {false, true}) {
    CAPTURE(recalled);
    VirtualDelegating m;
    Client& client = m.connect();
    const auto file = m.reading();
    if (recalled) {
      m.server.hold(OP_DELEGRETURN, false);
      CHECK(m.server.recall("/f") == NFS4_OK);
      REQUIRE(m.eventually([&] { return m.server.held() == 1; }));
    }
    const sim::Time begin = m.world.now();
    m.after(50ms, [&] { m.server.release(); });
    CHECK(ok(client.disconnect()));
    CHECK(m.server.delegations() == 0);
    CHECK(m.server.clients() == 0);
    CHECK(m.world.now() - begin < 1s);  // of the two that a goodbye may take
  }
}

}  // namespace nfsrdma
