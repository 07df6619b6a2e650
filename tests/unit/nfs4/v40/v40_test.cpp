// NFSv4.0 (nfs4/v40/) against the model server: owners and their seqids, lost answers, restarts, leases that have ended,
// files that are opened by their names. Conformance rows S10, S11 and U12 in its words.
#include <cerrno>
#include <string>
#include <thread>

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/virtual_mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;
using namespace nfs4;

/// Gives the server a file and its habits. `confirms`: it wants OPEN_CONFIRM. `remembers`: the number of its latest calls
/// of which it recognizes a retransmission.
void prepare(NfsServer& server, bool confirms, std::uint32_t remembers) {
  server.add_file("/f", "hello");
  server.on_server([&](Responder& responder) {
    responder.state.habits.confirms_owners = confirms;
    responder.state.habits.recent_calls = remembers;
  });
}

struct Sessionless40 {
  NfsServer server;
  std::unique_ptr<Client> client;

  explicit Sessionless40(bool confirms = true, std::uint32_t remembers = 1024) {
    prepare(server, confirms, remembers);
    auto made = Client::connect(server.target("vers=4.0"));
    if (!made) FAIL(made.error().text());
    client = std::move(*made);
  }
  ~Sessionless40() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Sessionless40(const Sessionless40&) = delete;
  Sessionless40& operator=(const Sessionless40&) = delete;

  void on_state(const std::function<void(ServerState&)>& look) {
    server.on_server([&](Responder& responder) { look(responder.state); });
  }
  std::unique_ptr<File> open(const char* path, OpenMode mode, bool create = false) {
    OpenFlags flags;
    flags.create = create;
    auto file = client->open(path, mode, flags);
    if (!file) FAIL(file.error().text());
    return std::move(*file);
  }
  /// The server forgets the client, as after its lease has ended.
  void end_lease() {
    on_state([](ServerState& state) {
      while (!state.clients.empty()) state.discard_client(state.clients.begin()->first);
    });
  }
};

struct VirtualSessionless40 : VirtualMounted {
  explicit VirtualSessionless40(bool confirms = true, std::uint32_t remembers = 1024) {
    prepare(server, confirms, remembers);
    connect("vers=4.0");
  }
};

Status write_text(File& file, const std::string& text, std::uint64_t offset = 0) {
  auto written = file.write(bytes(text), offset);
  if (!written) return written.error();
  return file.sync();
}

std::string read_text(File& file) {
  std::string text(64, '\0');
  auto count = file.read(room(text), 0);
  if (!count) return "error: " + count.error().text();
  text.resize(*count);
  return text;
}

LockRequest lock_of(std::uint64_t owner, std::uint64_t offset, std::uint64_t length) {
  return {owner, true, {offset, length}};
}

}  // namespace

TEST_CASE("v4.0: what it says of itself, and no session") {
  const Sessionless40 m;
  CHECK(m.client->info().version == "4.0");
  CHECK(m.server.sessions() == 0);
  CHECK(m.server.clients() == 1);
  CHECK(m.server.count(OP_SETCLIENTID) == 1);
  CHECK(m.server.count(OP_SETCLIENTID_CONFIRM) == 1);
  CHECK(m.server.count(OP_EXCHANGE_ID) == 0);
}

TEST_CASE("U12 v4.0: SETCLIENTID announces where callbacks are served") {
  Sessionless40 m;
  std::optional<SETCLIENTID4args> said;
  m.on_state([&](const ServerState& state) { said = state.last_setclientid; });
  REQUIRE(said);
  const netaddr4& where = said->callback.cb_location;
  CHECK(where.na_r_netid.value == "tcp");
  CHECK(where.na_r_addr.value == m.client->info().callback_address);
  CHECK(where.na_r_addr.value.starts_with("127.0.0.1."));
  CHECK(said->callback.cb_program == NFS4_CALLBACK);
}

TEST_CASE("v4.0: a file from its OPEN to its CLOSE, and an owner that is confirmed once") {
  for (const bool confirms : {true, false}) {
    CAPTURE(confirms);
    Sessionless40 m(confirms);
    const auto file = m.open("/new", OpenMode::read_write, true);
    CHECK(ok(write_text(*file, "text")));
    CHECK(read_text(*file) == "text");
    CHECK(ok(file->lock(lock_of(1, 0, 10))));
    CHECK(m.server.locks("/new") == "0-10w");
    CHECK(ok(file->lock(lock_of(1, 5, 10))));
    CHECK(ok(file->unlock(1, {0, 7})));
    CHECK(m.server.locks("/new") == "7-15w");
    CHECK(ok(file->unlock(1)));
    CHECK(ok(file->close()));
    const auto other = m.open("/f", OpenMode::read);
    CHECK(read_text(*other) == "hello");
    CHECK(ok(other->close()));
    CHECK(m.server.count(OP_OPEN_CONFIRM) == (confirms ? 1 : 0));
    CHECK(m.server.open_states() == 0);
    CHECK(m.server.lock_states() == 0);
    CHECK(m.server.count(OP_RELEASE_LOCKOWNER) == 1);
  }
}

TEST_CASE("F24 v4.0: an exclusive create, and its attributes and times behind it") {
  Sessionless40 m;
  m.server.on_server([](Responder& responder) { responder.state.habits.verifier_in_times = true; });
  m.server.add_file("/before", "");
  OpenFlags flags;
  flags.create = flags.exclusive = true;
  flags.mode = 0640;
  const auto made = m.client->open("/new", OpenMode::write, flags);
  REQUIRE(ok(made));
  CHECK(m.client->stat("/new")->mode == 0640);
  const std::int64_t begin = m.client->stat("/before")->modified.seconds;
  CHECK(std::abs(m.client->stat("/new")->modified.seconds - begin) < 60);
  CHECK(std::abs(m.client->stat("/new")->accessed.seconds - begin) < 60);
  CHECK(errno_of(m.client->open("/new", OpenMode::write, flags)) == EEXIST);
}

TEST_CASE(
    "S10 v4.0: answers of owners' requests that are lost, and a server that remembers calls or does not") {
  for (const std::uint32_t remembers : {1024U, 0U}) {
    CAPTURE(remembers);
    Sessionless40 m(true, remembers);
    m.server.drop_after(OP_OPEN);
    const auto file = m.open("/f", OpenMode::read_write);
    m.server.drop_after(OP_LOCK);
    CHECK(ok(file->lock(lock_of(1, 0, 10))));
    CHECK(m.server.locks("/f") == "0-10w");
    m.server.drop_after(OP_LOCKU);
    CHECK(ok(file->unlock(1, {0, 5})));
    CHECK(m.server.locks("/f") == "5-10w");
    CHECK(ok(file->lock(lock_of(2, 20, 10))));
    m.server.drop_after(OP_CLOSE);
    CHECK(ok(file->unlock(1)));
    CHECK(ok(file->unlock(2)));
    CHECK(ok(file->close()));
    CHECK(m.server.open_states() == 0);
    const auto again = m.open("/f", OpenMode::read);
    CHECK(read_text(*again) == "hello");
  }
}

TEST_CASE("S10 v4.0: what makes and removes names is done once, whatever the server has forgotten") {
  for (const std::uint32_t remembers : {1024U, 0U}) {
    CAPTURE(remembers);
    Sessionless40 m(true, remembers);
    m.server.drop_after(OP_CREATE);
    CHECK(ok(m.client->make_directory("/d", 0755)));
    m.server.drop_after(OP_LINK);
    CHECK(ok(m.client->link("/f", "/g")));
    m.server.drop_after(OP_RENAME);
    CHECK(ok(m.client->rename("/g", "/h")));
    m.server.drop_after(OP_REMOVE);
    CHECK(ok(m.client->remove_file("/h")));
    CHECK(m.server.content("/f") == "hello");
    CHECK_FALSE(m.server.content("/h"));
    // What was refused before its connection was lost stays refused.
    CHECK(errno_of(m.client->stat("/h")) == ENOENT);
  }
}

TEST_CASE("v4.0: an owner that the server counts otherwise goes on under another name") {
  Sessionless40 m(false);
  const auto first = m.open("/f", OpenMode::read);
  m.server.answer(OP_OPEN, NFS4ERR_BAD_SEQID);
  m.server.add_file("/g", "other");
  const auto second = m.open("/g", OpenMode::read);
  CHECK(read_text(*second) == "other");
  const auto opens = m.server.opens();
  REQUIRE(opens.size() >= 2);
  CHECK(opens.front().owner.owner.value != opens.back().owner.owner.value);
}

TEST_CASE("S11 v4.0: after a restart opens and locks are reclaimed") {
  Sessionless40 m;
  const auto file = m.open("/f", OpenMode::read_write);
  CHECK(ok(file->lock(lock_of(1, 0, 10))));
  m.server.restart(2s);
  CHECK(read_text(*file) == "hello");
  CHECK(m.server.locks("/f") == "0-10w");
  CHECK(m.server.count(OP_SETCLIENTID) == 2);
  CHECK(ok(file->unlock(1)));
  CHECK(ok(file->close()));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("v4.0: after the lease has ended a file is opened again by its name") {
  Sessionless40 m;
  const auto file = m.open("/f", OpenMode::read_write);
  SUBCASE("which leads to it") {
    m.end_lease();
    CHECK(read_text(*file) == "hello");
    CHECK(ok(write_text(*file, "J")));
    CHECK(m.server.content("/f") == "Jello");
  }
  SUBCASE("which leads to another file by now") {
    m.end_lease();
    m.on_state([](ServerState& state) {
      Inode& other = state.make("/other", NF4REG);
      state.set_content(other, "other");
    });
    auto theirs = Client::connect(m.server.target("vers=4.2"));
    REQUIRE(ok(theirs));
    CHECK(ok((*theirs)->rename("/other", "/f")));
    std::string text(8, '\0');
    CHECK(errno_of(file->read(room(text), 0)) == ESTALE);
    // What was opened of it is given back.
    CHECK(eventually([&] { return m.server.open_states() == 0; }));
  }
  SUBCASE("and its locks are lost, which their owner hears of") {
    CHECK(ok(file->lock(lock_of(1, 0, 10))));
    m.end_lease();
    std::string text(8, '\0');
    CHECK(errno_of(file->read(room(text), 0)) == EIO);
    CHECK(ok(file->unlock(1)));
    CHECK(read_text(*file) == "hello");
  }
}

TEST_CASE("v4.0: stateids are meant with their seqids, and an OPEN beside does no harm") {
  Sessionless40 m;
  const auto first = m.open("/f", OpenMode::read);
  const auto second = m.open("/f", OpenMode::read_write);
  CHECK(read_text(*first) == "hello");
  CHECK(ok(write_text(*second, "J")));
  CHECK(ok(second->close()));
  CHECK(read_text(*first) == "Jello");
  CHECK(ok(first->close()));
  CHECK(m.server.open_states() == 0);
}

TEST_CASE("v4.0: a WRITE under a lock that is executed once more behind the unlocking changes nothing") {
  VirtualSessionless40 m(true, 0);  // nor does the server know a second sending
  const auto file = m.open("/f", OpenMode::read_write);
  REQUIRE(ok(file->lock(lock_of(1, 0, 5))));
  nfs_opnum4 op = OP_WRITE;
  Status done;
  std::function<void()> change = [&] { done = write_text(*file, "first"); };
  SUBCASE("of bytes") {}
  SUBCASE("of a size") {
    op = OP_SETATTR;
    SetAttributes size;
    size.size = 2;
    change = [&file, &done, size] { done = file->set_attributes(size); };
  }
  m.server.on_server([op](Responder& responder) { responder.stall(op, 5s); });
  m.after(100ms, [&] {
    CHECK(m.server.count(op) == 0);  // the server has it, and has not executed it
    m.server.drop_connections();
  });
  change();
  CHECK(ok(done));
  CHECK(ok(file->unlock(1)));
  CHECK(ok(write_text(*file, "later")));
  const unsigned executed = m.server.count(op);
  m.pass(5s);
  CHECK(m.server.count(op) == executed + 1);
  CHECK(m.server.content("/f") == "later");
  CHECK(ok(file->close()));
}

TEST_CASE("v4.0: a WRITE beside the LOCK that makes its stateid an old one") {
  Sessionless40 m;
  const auto file = m.open("/f", OpenMode::read_write);
  REQUIRE(ok(file->lock(lock_of(1, 0, 5))));
  m.server.hold(OP_LOCK);  // executed, and not answered
  std::thread locks([&] { CHECK(ok(file->lock(lock_of(1, 5, 5)))); });
  CHECK(eventually([&] { return m.server.held() == 1; }));
  CHECK(ok(write_text(*file, "other")));
  m.server.release();
  locks.join();
  CHECK(ok(write_text(*file, "third")));
  CHECK(m.server.content("/f") == "third");
  CHECK(ok(file->close()));
}

TEST_CASE("v4.0: an OPEN that overtakes a READ, and a name that leads elsewhere by now") {
  VirtualSessionless40 m;
  m.server.add_file("/g", "other");
  const auto first = m.open("/f", OpenMode::read);
  CHECK(read_text(*first) == "hello");
  m.server.hold(OP_OPEN);
  bool opened = false;
  m.client->start_open("/f", OpenMode::read_write,
                       [&](const Result<std::unique_ptr<File>>& made) { opened = ok(made); });
  CHECK(m.eventually([&] { return m.server.held() == 1; }));
  CHECK(ok(m.client->rename("/g", "/f")));
  std::string text(64, '\0');
  std::optional<Result<std::size_t>> count;
  first->start_read(room(text), 0, [&](const Result<std::size_t>& told) { count = told; });
  m.pass(100ms);
  CHECK_FALSE(count);
  m.server.release();
  REQUIRE(m.eventually([&] { return opened && count; }));
  REQUIRE(ok(*count));
  CHECK(text.substr(0, **count) == "hello");
  CHECK(ok(first->close()));
  CHECK(m.eventually([&] { return m.server.open_states() == 0; }));
}

}  // namespace nfsrdma
