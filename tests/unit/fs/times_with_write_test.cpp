// The time of change that a program sets behind the writes of a small file: by the call that writes it, or by one of its
// own, and what becomes of both where the server refuses a part.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

#include "support/mounted.h"

namespace nfsrdma::fs {
namespace {

using namespace testing;
using namespace nfs4;

constexpr std::int64_t kThen = 1'000'000'000;
const std::string kByOneCall = "WRITE+SETATTR+GETATTR", kByTwoCalls = "WRITE+GETATTR SETATTR+GETATTR";

struct Unpacking : MountedEngine {
  Unpacking() { server.add_file("/f", ""); }
  void open() {
    mount();
    inode = lookup("f").inode;
    file = get(files->open(who, inode, O_WRONLY));
    server.clear_calls();
  }
  void write(const std::string& text, std::uint64_t offset = 0) {
    CHECK(ok(client->run(files->write(file.handle, {}, std::as_bytes(std::span(text)), offset, O_WRONLY))));
  }
  static SetAttributes then() {
    SetAttributes out;
    out.modified = Time{kThen, 0};
    return out;
  }
  Attributed set(const SetAttributes& changes, std::shared_ptr<OpenHandle> by) {
    return get(files->set_attributes(who, inode, changes, std::move(by)));
  }
  /// Sets the time, checks what a program sees of the file from then on, and closes it.
  void finish(std::uint64_t size) {
    const Attributed told = set(then(), file.handle);
    CHECK(told.attributes.modified.seconds == kThen);
    CHECK(told.attributes.size == size);
    CHECK(ok(client->run(files->flush(file.handle, 1))));
    CHECK(get(files->attributes(who, inode)).attributes.modified.seconds == kThen);
    CHECK(ok(client->run(files->close(file.handle))));
    file = {};
    CHECK(server.content("/f").value().size() == size);
    CHECK(get(files->attributes(user(1), inode)).attributes.modified.seconds == kThen);
  }

  std::uint64_t inode = 0;
  OpenedFile file;
};

}  // namespace

TEST_CASE("F13 the time of a small file is set by the call that writes it, and its close asks for nothing") {
  Unpacking m;
  m.open();
  m.write("small");
  CHECK(m.set(Unpacking::then(), m.file.handle).attributes.modified.seconds == kThen);
  CHECK(ok(m.client->run(m.files->flush(m.file.handle, 1))));
  CHECK(m.calls() == kByOneCall);
  m.finish(5);
}

TEST_CASE("F13 a time that the server refuses behind the WRITE is set by a call of its own") {
  for (const nfsstat4 status : {NFS4ERR_PERM, NFS4ERR_IO, NFS4ERR_DELAY}) {
    CAPTURE(status);
    Unpacking m;
    m.open();
    m.write("small");
    m.server.answer(OP_SETATTR, status);
    m.finish(5);
    // The data is not written a second time.
    CHECK(m.calls().starts_with(kByOneCall + " SETATTR+GETATTR"));
  }
}

TEST_CASE("F13 the time of a file that is not small is set by a call of its own") {
  Unpacking m;
  m.open();
  const std::string large(128U << 10, 'x');
  m.write(large);
  SUBCASE("all of it is on its way") {}
  SUBCASE("the end of it is gathered") {
    m.write("small", large.size());
  }
  const std::uint64_t size = m.file.handle->inode().end();
  CHECK(m.set(Unpacking::then(), m.file.handle).attributes.modified.seconds == kThen);
  CHECK_FALSE(m.calls().contains("WRITE+SETATTR"));
  // What a restart loses must not be written again behind the SETATTR.
  CHECK(m.calls().ends_with("COMMIT+GETATTR SETATTR+GETATTR"));
  m.server.clear_calls();
  CHECK(ok(m.client->run(m.files->flush(m.file.handle, 1))));
  CHECK(m.calls().empty());
  m.finish(size);
}

TEST_CASE("F13 under a delegation, too, the data is on the disk before a time is set") {
  Unpacking m;
  m.server.set_delegations(true);
  m.server.set_write_delegations(false);
  m.open();
  REQUIRE(m.server.delegations() == 1);
  SUBCASE("a small file") {
    m.write("small");
    CHECK(m.set(Unpacking::then(), m.file.handle).attributes.modified.seconds == kThen);
    CHECK(m.calls() == kByOneCall);
  }
  SUBCASE("data behind a close(2) that has waited for nothing") {
    m.write(std::string(128U << 10, 'x'));
    CHECK(ok(m.client->run(m.files->flush(m.file.handle, 1))));
    CHECK(m.set(Unpacking::then(), nullptr).attributes.modified.seconds == kThen);
    CHECK(m.calls().ends_with("COMMIT+GETATTR SETATTR+GETATTR"));
  }
  m.server.restart(std::chrono::seconds(0));
  CHECK(ok(m.client->run(m.files->flush(m.file.handle, 1))));
  CHECK(m.get(m.files->attributes(user(1), m.inode)).attributes.modified.seconds == kThen);
  m.finish(m.file.handle->inode().end());
}

TEST_CASE("F13 where a connection is lost with a WRITE that sets a time, neither is done twice") {
  Unpacking m;
  m.open();
  m.write("small");
  bool is_executed = false;
  SUBCASE("behind it") {
    m.server.drop_after(OP_WRITE);
    is_executed = true;
  }
  SUBCASE("before it") {
    m.server.drop_before(OP_WRITE);
  }
  m.finish(5);
  CHECK(m.server.content("/f") == "small");
  const auto calls = m.server.calls();
  const auto replayed = std::ranges::count_if(calls, [](const SeenCall& one) { return one.replayed; });
  CHECK(replayed == (is_executed ? 1 : 0));
}

TEST_CASE("F13 a WRITE that is refused is reported by close(2), and the time is set all the same") {
  Unpacking m;
  m.open();
  m.write("small");
  m.server.answer(OP_WRITE, NFS4ERR_NOSPC);
  CHECK(m.set(Unpacking::then(), m.file.handle).attributes.modified.seconds == kThen);
  CHECK(m.calls() == kByOneCall + " SETATTR+GETATTR");
  CHECK(errno_of(m.client->run(m.files->flush(m.file.handle, 1))) == ENOSPC);
  CHECK(ok(m.client->run(m.files->close(m.file.handle))));
}

TEST_CASE("F13 a WRITE of which the server takes a part is followed by others, and the last sets the time") {
  Unpacking m;
  m.server.set_short_writes(2);
  m.open();
  m.write("small");
  m.finish(5);
  CHECK(m.server.content("/f") == "small");
  CHECK(m.calls().starts_with(kByOneCall + " " + kByOneCall + " " + kByOneCall));
}

TEST_CASE("F13 a time that was set by a first part of the data only is set again") {
  Unpacking m;
  m.server.set_short_writes(2);
  m.open();
  m.write("small");
  m.server.answer(OP_SETATTR, NFS4ERR_PERM, 1, 2);
  m.finish(5);
  CHECK(m.calls().starts_with(kByOneCall + " " + kByOneCall + " " + kByOneCall + " SETATTR+GETATTR"));
}

TEST_CASE("F13 a time that another user sets, or that comes with a mode, is no part of the WRITE") {
  Unpacking m;
  m.open();
  m.write("small");
  SetAttributes changes = Unpacking::then();
  Caller by = m.who;
  SUBCASE("another user, by name") {
    by = user(0);
  }
  SUBCASE("a mode") {
    changes.mode = 0600;
  }
  CHECK(m.get(m.files->set_attributes(by, m.inode, changes, nullptr)).attributes.modified.seconds == kThen);
  CHECK(m.calls() == kByTwoCalls);
  CHECK(ok(m.client->run(m.files->close(m.file.handle))));
}

}  // namespace nfsrdma::fs
