// The session over a real connection to the test server: how it begins, how it waits, how it comes back, how
// it ends (RFC 8881 2.10, 8.4, 18.35, 18.36, 18.46, 18.51; RFC 8267 4.5, 4.6).
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "rpc/channel.h"
#include "support/engine_fixture.h"
#include "support/loopback.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

std::vector<nfs_opnum4> first_ops(const NfsServer& server) {
  std::vector<nfs_opnum4> out;
  for (const SeenCall& call : server.calls()) {
    out.push_back(call.ops.front() == OP_SEQUENCE && call.ops.size() > 1 ? call.ops[1] : call.ops.front());
  }
  return out;
}

/// Where `op` first came after `from`.
std::size_t place(const std::vector<nfs_opnum4>& ops, nfs_opnum4 op, std::size_t from = 0) {
  while (from < ops.size() && ops[from] != op) ++from;
  return from;
}

bool read_is(File& file, const std::string& expected) {
  return Mounted::read_all(file) == expected;
}

}  // namespace

// ---- beginning ----

TEST_CASE("session: opens by EXCHANGE_ID, CREATE_SESSION and RECLAIM_COMPLETE") {
  Mounted m;
  (void)m.connect("rsize=128K,wsize=64K,credits=17,vers=4.1,uid=12,gid=34");
  const auto ops = first_ops(m.server);
  REQUIRE(ops.size() >= 3);
  CHECK(ops[0] == OP_EXCHANGE_ID);
  CHECK(ops[1] == OP_CREATE_SESSION);
  CHECK(ops[2] == OP_RECLAIM_COMPLETE);
  const auto exchange = m.server.last_exchange_id();
  REQUIRE(exchange);
  CHECK_FALSE(exchange->eia_clientowner.co_ownerid.value.empty());
  CHECK(exchange->eia_clientowner.co_verifier != verifier4{});
  REQUIRE(exchange->eia_client_impl_id.value.size() == 1);
  CHECK(exchange->eia_client_impl_id.value[0].nii_name.value.starts_with("nfsrdma"));
  const auto created = m.server.last_create_session();
  REQUIRE(created);
  CHECK(created->csa_flags == CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  CHECK(created->csa_back_chan_attrs.ca_maxrequests == 4);
  CHECK(created->csa_fore_chan_attrs.ca_maxrequests == 17);
  CHECK(created->csa_fore_chan_attrs.ca_maxrequestsize > 64 * 1024);
  CHECK(created->csa_fore_chan_attrs.ca_maxresponsesize > 128 * 1024);
  CHECK(created->csa_sec_parms.value.size() == 2);
  CHECK(created->csa_sec_parms.value[0].tag() == nfs4::kAuthSys);
  CHECK(created->csa_sec_parms.value[1].tag() == nfs4::kAuthNone);
  for (const SeenCall& call : m.server.calls()) CHECK(call.minor == 1);
  const std::string credential = m.server.credential();
  CHECK(credential.substr(0, 4) == std::string("\0\0\0\1", 4));  // AUTH_SYS
  CHECK(credential.find(std::string("\0\0\0\x0c\0\0\0\x22\0\0\0\0", 12)) !=
        std::string::npos);  // 12, 34, no groups
}

TEST_CASE("session: two clients differ in owner and verifier") {
  Mounted m;
  (void)m.connect();
  const auto first = m.server.last_exchange_id();
  auto other = Client::connect(m.server.target());
  REQUIRE(ok(other));
  const auto second = m.server.last_exchange_id();
  CHECK(first->eia_clientowner.co_ownerid.value != second->eia_clientowner.co_ownerid.value);
  CHECK(m.server.clients() == 2);
}

TEST_CASE("session: falls back to 4.1 where 4.2 is refused, and to 4.0, unless told not to") {
  Mounted m;
  m.server.set_newest_minor(1);
  CHECK(m.connect().info().minor_version == 1);
  const auto fixed = Client::connect(m.server.target("vers=4.2"));
  REQUIRE_FALSE(fixed);
  CHECK(fixed.error().status() == NFS4ERR_MINOR_VERS_MISMATCH);
  m.server.set_newest_minor(0);
  const auto oldest = Client::connect(m.server.target());
  REQUIRE(oldest);
  CHECK((*oldest)->info().version == "4.0");
  CHECK_FALSE(Client::connect(m.server.target("vers=4.1")));
}

TEST_CASE("session: EXCHANGE_ID and CREATE_SESSION are asked again after DELAY") {
  Mounted m;
  m.server.answer(OP_EXCHANGE_ID, NFS4ERR_DELAY, 1);
  m.server.answer(OP_CREATE_SESSION, NFS4ERR_DELAY, 2);
  CHECK(ok(m.connect().ping()));
  CHECK(m.server.count(OP_CREATE_SESSION) >= 3);
}

TEST_CASE("session: one too small to work with is refused") {
  NfsServer server;
  server.set_limits(1024, 1024, 2);
  const auto client = Client::connect(server.target());
  REQUIRE_FALSE(client);
  CHECK(client.error().errno_value() == EPROTO);
  CHECK(server.sessions() == 0);
}

TEST_CASE("session: requests stay within ca_maxrequestsize, ca_maxresponsesize and ca_maxoperations") {
  Mounted m;
  m.server.set_limits(10'000, 12'000, 8);
  Client& client = m.connect();
  const Info info = client.info();
  CHECK(info.wsize < 10'000);
  CHECK(info.rsize < 12'000);
  CHECK(info.max_operations == 8);
  m.server.add_file("/a/b/c/d/e/f/g/h", pattern(40'000));
  for (int i = 0; i < 100; ++i) m.server.add_file("/dir/" + pattern(100, static_cast<unsigned>(i)), "");
  auto file = m.open("/a/b/c/d/e/f/g/h");
  CHECK(read_is(*file, pattern(40'000)));
  CHECK(ok(file->write(bytes(pattern(30'000, 4)), 0)));
  CHECK(m.server.content("/a/b/c/d/e/f/g/h")->starts_with(pattern(30'000, 4)));
  int entries = 0;
  CHECK(ok(client.list("/dir", [&](const DirectoryEntry&) { return ++entries > 0; })));
  CHECK(entries == 26);  // the pattern has as many beginnings
}

TEST_CASE("session: a path of more names than a COMPOUND takes is walked before the operation on it") {
  Mounted m;
  m.server.set_limits(10'000, 12'000, 8);
  const std::string deep = "/a/b/c/d/e/f/g/h/i/j";
  const std::string other = "/0/1/2/3/4/5/6/7/8/9";
  m.server.add_file(deep + "/file", "text");
  m.server.add_file(other + "/x", "");
  m.server.add_symlink("/link", "a/b/c/d/e");
  Client& client = m.connect();
  CHECK(client.stat(deep + "/file")->size == 4);
  CHECK(client.stat("/link/f/g/h/i/j/file")->size == 4);
  CHECK(ok(client.make_directory(deep + "/made", 0700)));
  CHECK(ok(client.symlink("text", deep + "/symlink")));
  CHECK(*client.read_link(deep + "/symlink") == "text");
  CHECK(ok(client.rename(deep + "/file", other + "/moved")));
  CHECK(ok(client.link(other + "/moved", deep + "/again")));
  CHECK(client.stat(deep + "/again")->links == 2);
  CHECK(*client.access(other + "/moved", 4) == 4);
  SetAttributes changes;
  changes.mode = 0600;
  CHECK(ok(client.set_attributes(deep + "/again", changes)));
  CHECK(client.stat(other + "/moved")->mode == 0600);
  CHECK(ok(client.space(deep)));
  CHECK(ok(client.remove_file(deep + "/again")));
  CHECK(ok(client.remove_directory(deep + "/made")));
  OpenFlags flags;
  flags.create = true;
  CHECK(ok(m.open(deep + "/new", OpenMode::write, flags)->close()));
  const auto missing = client.stat(deep + "/none");
  CHECK(errno_of(missing) == ENOENT);
  CHECK(missing.error().peer() == deep + "/none");
  CHECK(errno_of(client.stat("/a/b/c/none/e/f/g/h/i/j/file")) == ENOENT);
  // Names too long for one request together.
  std::string wide;
  for (int i = 0; i < 60; ++i) wide += "/" + std::string(250, static_cast<char>('a' + i % 26));
  m.server.add_file(wide + "/file", "12345");
  CHECK(client.stat(wide + "/file")->size == 5);
}

TEST_CASE("session: a connect that is given up before its outcome leaves nobody to be resumed") {
  NfsServer server;
  rpc::Address address;
  address.storage = loopback(server.port());
  address.length = sizeof(sockaddr_in);
  server.go_away();
  async::Loop loop;
  rpc::ChannelOptions options;
  options.server = "nobody";
  options.addresses = {address};
  rpc::Channel channel(loop, options, {});
  {
    auto task = channel.connect(loop.now() + 5s);
    task.handle().resume();
    CHECK_FALSE(task.done());
  }
  for (int i = 0; i < 5; ++i) loop.turn(loop.now() + 10ms);
  channel.shut_down();
  loop.turn(loop.now());
}

// ---- waiting ----

TEST_CASE("S21 session: DELAY is waited for, less and less often") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.answer(OP_READ, NFS4ERR_DELAY, 4);
  const Stopwatch watch;
  CHECK(read_is(*file, "text"));
  CHECK(m.server.count(OP_READ) == 5);
  CHECK(watch.elapsed() >= 290ms);  // 20 + 40 + 80 + 160
  CHECK(watch.elapsed() < 2s);
}

TEST_CASE("session: DELAY of SEQUENCE itself is waited for") {
  Mounted m;
  (void)m.connect();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DELAY, 2);
  CHECK(ok(m.client->ping()));
}

TEST_CASE("session: DELAY for ever ends with the deadline, and the error says what the server said") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect("timeo=300ms");
  auto file = m.open("/a");
  m.server.answer(OP_READ, NFS4ERR_DELAY, 1000);
  std::string data(4, '?');
  const Stopwatch watch;
  const auto result = file->read(room(data), 0);
  CHECK(watch.elapsed() < 1500ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind() != ErrorKind::protocol);
  CHECK(result.error().status() == NFS4ERR_DELAY);
}

TEST_CASE("session: GRACE is waited for") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  m.server.answer(OP_OPEN, NFS4ERR_GRACE, 2);
  auto file = m.open("/a");
  CHECK(m.server.count(OP_OPEN) == 3);
  CHECK(read_is(*file, "text"));
}

TEST_CASE("session: what changed something is not repeated because a later operation says DELAY") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  m.server.answer(OP_GETFH, NFS4ERR_DELAY);
  const auto file = m.client->open("/a", OpenMode::read);
  CHECK_FALSE(file);
  CHECK(m.server.succeeded(OP_OPEN) == 1);
  m.server.forget_stateids();  // of the OPEN whose file nobody has
}

// ---- coming back ----

TEST_CASE("session: BADSESSION leads to CREATE_SESSION, and nothing more is lost") {
  Mounted m;
  m.server.add_file("/a", "text");
  Client& client = m.connect();
  auto file = m.open("/a");
  m.server.clear_calls();
  m.server.forget_sessions();
  CHECK(read_is(*file, "text"));
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(m.server.count(OP_EXCHANGE_ID) == 0);
  CHECK(m.server.count(OP_OPEN) == 0);
  CHECK(m.notices.has("recover"));
  CHECK(ok(file->close()));
  CHECK(ok(client.disconnect()));
}

TEST_CASE("session: a restart leads to EXCHANGE_ID, reclaim of what is open, RECLAIM_COMPLETE") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.server.add_file("/b", "other");
  Client& client = m.connect();
  auto a = m.open("/a");
  auto b = m.open("/b", OpenMode::read);
  m.server.clear_calls();
  m.server.restart(400ms);
  CHECK(read_is(*a, "text"));
  CHECK(read_is(*b, "other"));
  const auto ops = first_ops(m.server);
  const std::size_t created = place(ops, OP_CREATE_SESSION, place(ops, OP_EXCHANGE_ID));
  CHECK(place(ops, OP_RECLAIM_COMPLETE, created) < ops.size());
  const auto opens = m.server.opens();
  REQUIRE(opens.size() == 2);
  for (const OPEN4args& open : opens) CHECK(open.claim.tag() == CLAIM_PREVIOUS);
  CHECK(opens[0].share_access == OPEN4_SHARE_ACCESS_BOTH);
  CHECK(opens[1].share_access == OPEN4_SHARE_ACCESS_READ);
  CHECK(opens[0].owner.owner.value == opens[1].owner.owner.value);
  CHECK(ok(a->close()));
  CHECK(ok(b->close()));
  CHECK(m.server.open_states() == 0);
  // New opens wait for the end of the grace period.
  auto c = m.open("/b");
  CHECK(read_is(*c, "other"));
  CHECK(ok(c->close()));
  CHECK(ok(client.disconnect()));
}

TEST_CASE("session: without a grace period files are recovered by their handles") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.clear_calls();
  m.server.restart();
  CHECK(read_is(*file, "text"));
  const auto opens = m.server.opens();
  REQUIRE(opens.size() == 2);
  CHECK(opens[0].claim.tag() == CLAIM_PREVIOUS);
  CHECK(opens[1].claim.tag() == CLAIM_FH);
  CHECK(ok(file->write(bytes("TEXT"), 0)));
  CHECK(ok(file->close()));
}

TEST_CASE("session: a file that cannot be recovered says so on every use, others go on") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.server.add_file("/b", "other");
  (void)m.connect();
  auto a = m.open("/a");
  auto b = m.open("/b");
  m.server.restart(300ms);
  m.server.answer(OP_OPEN, NFS4ERR_ACCESS, 1);
  CHECK(read_is(*b, "other"));
  std::string data(4, '?');
  CHECK(errno_of(a->read(room(data), 0)) == EACCES);
  CHECK(errno_of(a->write(bytes("x"), 0)) == EACCES);
  CHECK_FALSE(a->close());
  CHECK(ok(b->close()));
}

TEST_CASE("session: a recovery that failed half way does not forget to reclaim") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.clear_calls();
  m.server.restart(2s);
  // The first CREATE_SESSION finds the client id stale; the second, for the new one, fails; then all is well.
  m.server.answer(OP_CREATE_SESSION, NFS4ERR_SERVERFAULT, 1, 1);
  CHECK(read_is(*file, "text"));
  CHECK(m.server.count(OP_RECLAIM_COMPLETE) == 1);
  const auto opens = m.server.opens();
  REQUIRE(opens.size() == 1);
  CHECK(opens[0].claim.tag() == CLAIM_PREVIOUS);
}

TEST_CASE("session: a restart during recovery is recovered from as well") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.restart(200ms);
  m.server.answer(OP_RECLAIM_COMPLETE, NFS4ERR_SERVERFAULT, 1);
  std::thread other([&] {
    eventually([&] { return m.server.count(OP_RECLAIM_COMPLETE) >= 2; });
    m.server.restart(200ms);
  });
  CHECK(read_is(*file, "text"));
  other.join();
  CHECK(read_is(*file, "text"));
  CHECK(ok(file->close()));
}

TEST_CASE(
    "S11 S21 what recovery asks for and the server puts off is asked for again, and nothing else with it") {
  Scene m;
  m.server.add_file("/f", "text");
  EngineClient& c = m.connect();
  auto file = m.open("f");
  m.server.clear_calls();
  m.server.restart(5s);
  m.server.answer(OP_OPEN, NFS4ERR_DELAY, 2);
  m.server.answer(OP_RECLAIM_COMPLETE, NFS4ERR_DELAY, 2);
  std::array<std::byte, 4> data{};
  CHECK(ok(c.run(file->read(data, 0))));
  CHECK(m.server.count(OP_EXCHANGE_ID) == 1);
  CHECK(m.server.succeeded(OP_CREATE_SESSION) == 1);
  CHECK(m.server.count(OP_OPEN) == 3);
  CHECK(m.server.count(OP_RECLAIM_COMPLETE) == 3);
  m.close(file);
}

TEST_CASE("session: one that is lost is replaced, and the client can still say goodbye") {
  Mounted m;
  (void)m.connect();
  m.server.answer(OP_SEQUENCE, NFS4ERR_DEADSESSION);
  CHECK(ok(m.client->ping()));
  CHECK(m.server.count(OP_CREATE_SESSION) == 2);
  CHECK(ok(m.client->disconnect()));  // the old session went too, else the client id would be busy
  CHECK(m.server.sessions() == 0);
  CHECK(m.server.clients() == 0);
}

TEST_CASE("session: RETRY_UNCACHED_REP leads to the same call with a new sequence id") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.drop_after(OP_READ);  // not asked to be cached
  CHECK(read_is(*file, "text"));
  CHECK(m.server.succeeded(OP_READ) == 2);
}

TEST_CASE("session: RETRY_UNCACHED_REP behind a SEQUENCE that succeeded, as Linux and Ganesha have it") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.connect();
  m.server.answer(OP_PUTFH, NFS4ERR_RETRY_UNCACHED_REP);
  CHECK(m.client->stat("/a"));
  m.server.answer(OP_READ, NFS4ERR_RETRY_UNCACHED_REP);
  std::string text(4, '?');
  auto file = m.client->open("/a", OpenMode::read);
  REQUIRE(ok(file));
  CHECK(ok((*file)->read(room(text), 0)));
  CHECK(text == "text");
  // What changes something is not repeated blindly: whether the name is still there is looked at.
  m.server.answer(OP_REMOVE, NFS4ERR_RETRY_UNCACHED_REP);
  m.server.clear_calls();
  CHECK(ok(m.client->remove_file("/a")));
  CHECK(m.server.count(OP_REMOVE) == 2);
  CHECK(m.server.count(OP_LOOKUP) == 2);
}

TEST_CASE("S4 session: a CREATE whose answer was lost is answered from the reply cache, and done once") {
  Mounted m;
  (void)m.connect();
  m.server.drop_after(OP_CREATE);
  CHECK(ok(m.client->make_directory("/d", 0755)));
  CHECK(m.server.count(OP_CREATE) == 1);
  bool replayed = false;
  for (const SeenCall& call : m.server.calls()) {
    if (call.has(OP_CREATE)) CHECK(call.sequence.sa_cachethis);
    const bool modifies = call.has(OP_CREATE) || call.has(OP_REMOVE) || call.has(OP_RECLAIM_COMPLETE);
    if (!modifies && call.has(OP_GETATTR)) CHECK_FALSE(call.sequence.sa_cachethis);
    replayed = replayed || call.replayed;
  }
  CHECK(replayed);
  m.server.drop_before(OP_REMOVE);
  CHECK(ok(m.client->remove_directory("/d")));
  CHECK(m.server.count(OP_REMOVE) == 1);
}

TEST_CASE("session: a CREATE_SESSION whose answer was lost") {
  Mounted m;
  (void)m.connect();
  m.server.forget_sessions();
  m.server.drop_after(OP_CREATE_SESSION);
  CHECK(ok(m.client->ping()));
  CHECK(m.server.sessions() == 1);
}

TEST_CASE("session: eir_sequenceid is ignored where the server says that it confirmed the client before") {
  // RFC 8881 18.35.3.
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.set_no_sequence_hint(true);
  m.server.set_sequence_flags(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
  CHECK(read_is(*file, "text"));
  CHECK(ok(m.client->ping()));
  CHECK(ok(file->close()));
  CHECK(ok(m.client->disconnect()));
}

TEST_CASE("session: what the server wants to be reclaimed is reclaimed") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.clear_calls();
  m.server.set_sequence_flags(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, 1);
  CHECK(ok(m.client->ping()));
  CHECK(ok(m.client->ping()));
  CHECK(m.server.count(OP_EXCHANGE_ID) == 1);
  CHECK(m.server.count(OP_CREATE_SESSION) == 1);
  CHECK(m.server.count(OP_OPEN) == 1);
  CHECK(m.server.count(OP_RECLAIM_COMPLETE) == 1);
  CHECK(read_is(*file, "text"));
  CHECK(ok(file->close()));
}

TEST_CASE("session: many reads at once get over the loss of their stateid") {
  Mounted m;
  m.server.add_file("/a", pattern(64'000));
  Client& client = m.connect();
  auto file = m.open("/a");
  for (const bool restart : {false, true}) {
    if (restart) {
      m.server.restart();
    } else {
      m.server.forget_stateids();
    }
    m.server.clear_calls();
    std::vector<std::string> data(64, std::string(1000, '?'));
    int done = 0, failed = 0;
    std::string first;
    for (std::size_t i = 0; i < data.size(); ++i) {
      file->start_read(room(data[i]), i * 1000, [&](Result<std::size_t> count) {
        ++done;
        if (!count && failed++ == 0) first = count.error().text();
      });
    }
    const Stopwatch watch;
    while (done < 64 && watch.elapsed() < 30s) client.wait(20ms);
    CHECK(done == 64);
    CHECK(failed == 0);
    CHECK(first == "");
    CHECK(data[63] == pattern(64'000).substr(63'000));
    CHECK(m.server.count(OP_OPEN) <= 3);  // once for all of them
  }
  CHECK(ok(file->close()));
  CHECK(m.server.open_states() == 0);
}

// ---- slots ----

TEST_CASE(
    "U14 the slot of a call that ended in RDMA_ERROR is retired, the call is reported and not repeated") {
  Mounted m;
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.clear_calls();
  m.server.err_chunk(OP_READ);
  std::string data(4, '?');
  const auto result = file->read(room(data), 0);
  REQUIRE_FALSE(result);
  CHECK_FALSE(result.error().text().empty());
  const auto before = m.server.calls();
  REQUIRE(before.size() == 1);
  const std::uint32_t slot = before[0].sequence.sa_slotid;
  for (int i = 0; i < 5; ++i) CHECK(read_is(*file, "text"));
  const auto after = m.server.calls();
  for (std::size_t i = 1; i < after.size(); ++i) CHECK(after[i].sequence.sa_slotid != slot);
  CHECK(m.server.count(OP_CREATE_SESSION) == 0);  // the session is still good
  CHECK(m.server.connections() == 1);
}

TEST_CASE("U14 the slot of a call that ended in GARBAGE_ARGS is retired") {
  Mounted m;
  (void)m.connect();
  m.server.clear_calls();
  m.server.garbage_args(OP_SEQUENCE);
  const auto result = m.client->ping();
  REQUIRE_FALSE(result);
  CHECK(errno_of(result) == EIO);
  CHECK(ok(m.client->ping()));
  const auto calls = m.server.calls();
  REQUIRE(calls.size() == 2);
  CHECK(calls[1].sequence.sa_slotid != calls[0].sequence.sa_slotid);
}

TEST_CASE("session: when too many slots are retired there is a new session") {
  Mounted m;
  m.server.set_slots(2);
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  std::string data(4, '?');
  for (int i = 0; i < 4; ++i) {
    m.server.err_chunk(OP_READ);
    CHECK_FALSE(file->read(room(data), 0));
    CHECK(read_is(*file, "text"));
  }
  CHECK(m.server.count(OP_CREATE_SESSION) >= 2);
  CHECK(ok(file->close()));
  CHECK(ok(m.client->disconnect()));
  CHECK(m.server.clients() == 0);
}

TEST_CASE("session: fewer slots than callers") {
  Mounted m;
  m.server.set_slots(3);
  m.server.add_file("/a", pattern(10'000));
  Client& client = m.connect();
  auto file = m.open("/a");
  std::vector<std::string> data(100, std::string(100, '?'));
  int done = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    file->start_read(room(data[i]), i * 100, [&](Result<std::size_t> count) { done += count ? 1 : 0; });
  }
  const Stopwatch watch;
  while (done < 100 && watch.elapsed() < 30s) client.wait(20ms);
  CHECK(done == 100);
  for (const SeenCall& call : m.server.calls()) CHECK(call.sequence.sa_slotid < 3);
}

TEST_CASE("session: a lowered sr_target_highest_slotid is heeded, a raised one used by those who wait") {
  Scene m;
  m.server.set_target_highest_slot(0);
  m.server.add_file("/a", pattern(10'000));
  EngineClient& client = m.connect();
  auto file = m.open("a");
  CHECK(ok(client.run(client.engine.attributes(nullptr, client.root))));
  m.server.clear_calls();
  constexpr std::size_t kReads = 20;
  std::array<std::array<std::byte, 100>, kReads> data{};
  std::vector<async::Task<Result<std::size_t>>> reads;
  const auto start = [&] {
    reads.clear();
    for (std::size_t i = 0; i < kReads; ++i) {
      reads.push_back(file->read(data[i], i * 100));
      client.start(reads.back());
    }
  };
  const auto done = [&] { return std::ranges::all_of(reads, [](const auto& one) { return one.done(); }); };

  start();
  REQUIRE(client.turn_until(done));
  for (const SeenCall& call : m.server.calls()) CHECK(call.sequence.sa_slotid == 0);

  // One answer raises it; then all that wait go at once.
  m.server.hold(OP_READ);
  start();
  REQUIRE(client.turn_until([&] { return m.server.held() == 1; }));
  m.server.set_target_highest_slot(63);
  m.server.hold(OP_READ, false);
  m.server.release_first();  // executed before the change: still says 0
  client.turn_for(100ms);
  REQUIRE(m.server.held() == 1);
  m.server.release_first();  // the one that tells
  client.turn_for(100ms);
  CHECK(m.server.held() == kReads - 2);
  m.server.release();
  REQUIRE(client.turn_until(done));
  for (auto& one : reads) CHECK(ok(one.await_resume()));
  m.close(file);
}

TEST_CASE("session: one credit is enough") {
  Mounted m;
  m.server.set_credits(1);
  m.server.add_file("/a", pattern(10'000));
  Client& client = m.connect();
  auto file = m.open("/a");
  std::vector<std::string> data(20, std::string(100, '?'));
  int done = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    file->start_read(room(data[i]), i * 100, [&](Result<std::size_t> count) { done += count ? 1 : 0; });
  }
  const Stopwatch watch;
  while (done < 20 && watch.elapsed() < 30s) client.wait(20ms);
  CHECK(done == 20);
}

// ---- lease and end ----

TEST_CASE("U15 an idle client renews its lease") {
  Mounted m;
  m.server.set_lease(1);
  (void)m.connect();
  const unsigned before = m.server.count(OP_SEQUENCE);
  CHECK(eventually([&] { return m.server.count(OP_SEQUENCE) >= before + 2; }, 1500ms));
}

TEST_CASE("session: an idle client gets over a restart by itself, within its lease") {
  Mounted m;
  m.server.set_lease(1);
  m.server.add_file("/a", "text");
  (void)m.connect();
  auto file = m.open("/a");
  m.server.restart(1s);
  CHECK(eventually([&] { return m.server.open_states() == 1; }, 1500ms));
}

TEST_CASE("session: the end is DESTROY_SESSION and DESTROY_CLIENTID") {
  NfsServer server;
  {
    const auto client = Client::connect(server.target());
    REQUIRE(ok(client));
  }
  const auto ops = first_ops(server);
  REQUIRE(ops.size() >= 2);
  CHECK(ops[ops.size() - 2] == OP_DESTROY_SESSION);
  CHECK(ops[ops.size() - 1] == OP_DESTROY_CLIENTID);
  CHECK(server.clients() == 0);
}

TEST_CASE(
    "S18 the end of a session waits for half of its time until the session that it replaced is destroyed") {
  Scene m;
  EngineClient& c = m.connect();
  unsigned refusals = 1;
  SUBCASE("a server that destroys it soon") {}
  SUBCASE("a server that puts it off for longer") {
    refusals = 8;
  }  // with pauses of 5 s altogether
  const bool soon = refusals == 1;
  m.server.clear_calls();
  m.server.answer(OP_DESTROY_SESSION, NFS4ERR_DELAY, refusals);
  m.server.answer(OP_SEQUENCE, NFS4ERR_BADSESSION);
  CHECK(ok(c.run(c.engine.find(nullptr, {}))));
  REQUIRE(c.turn_until([&] { return m.server.count(OP_DESTROY_SESSION) == 1; }));
  m.client.reset();  // CHECKs that it ends well
  // A server that has the lost session still keeps the client id, and drops it for another instance of the client.
  CHECK(m.server.count(OP_DESTROY_CLIENTID) == (soon ? 1 : 2));
  CHECK(m.server.count(OP_EXCHANGE_ID) == (soon ? 0 : 1));
  CHECK(m.server.clients() == 0);
  CHECK(m.server.sessions() == 0);
}

}  // namespace nfsrdma
