// The owners of locks through a mount: when their locks go, and that one can give up the wait for a lock.
#include "fuse/lock_owners.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "locking/lock_wait.h"
#include "support/mounted.h"

namespace nfsrdma::fuse {
namespace {

using namespace testing;

/// A file on the test server, and a descriptor of it.
struct OneFile : MountedEngine {
  void open() {
    server.add_file("/f", "text");
    mount();
    handle = get(files->open(who, lookup("f").inode, O_RDWR)).handle;
  }
  void close() {
    CHECK(ok(client->run(files->close(handle))));
    handle.reset();
  }
  std::shared_ptr<fs::OpenHandle> handle;
};

}  // namespace

TEST_CASE("F9 a process's locks go at its close of any descriptor, a description's at the last of its own") {
  LockOwners owners;
  constexpr LockOwners::Inode kFile = 5, kOther = 6;
  constexpr LockOwners::Owner kProcess = 100, kDescription = 200;
  owners.locks(kFile, 1, kProcess, 11);
  owners.locks(kFile, 2, kProcess, 12);
  owners.locks(kFile, 1, kDescription, 13);
  owners.locks(kOther, 3, kProcess, 14);
  CHECK(owners.process(kFile, kProcess) == 12);
  CHECK(owners.process(kFile, kDescription) == 13);
  CHECK(owners.process(kFile, 300) == 0);
  // Through a third descriptor that it never locked through.
  CHECK(owners.closes(kFile, kProcess) == std::vector<LockOwners::File>{1, 2});
  CHECK(owners.closes(kFile, kProcess).empty());
  // It locks again elsewhere: when the first open file goes at last (it was mapped), that stays.
  owners.locks(kFile, 2, kProcess, 12);
  CHECK(owners.releases(kFile, 1) == std::vector<LockOwners::Owner>{kDescription});
  CHECK(owners.process(kFile, kProcess) == 12);
  CHECK(owners.releases(kFile, 2) == std::vector<LockOwners::Owner>{kProcess});
  CHECK(owners.releases(kOther, 4).empty());
  CHECK(owners.releases(kOther, 3) == std::vector<LockOwners::Owner>{kProcess});
  CHECK(owners.empty());
  // Whoever has locked through two open files keeps its locks until both are gone.
  owners.locks(kFile, 1, kDescription, 13);
  owners.locks(kFile, 2, kDescription, 13);
  CHECK(owners.releases(kFile, 1).empty());
  CHECK(owners.process(kFile, kDescription) == 13);
  CHECK(owners.releases(kFile, 2) == std::vector<LockOwners::Owner>{kDescription});
  CHECK(owners.empty());
}

TEST_CASE(
    "F9 release_locks lets all of an owner's locks go while the file stays open, and forgets the owner") {
  OneFile m;
  m.open();
  CHECK(ok(m.client->run(m.files->lock(m.handle, {1, true, {0, 10}}, nullptr))));
  CHECK(ok(m.client->run(m.files->lock(m.handle, {2, true, {20, 10}}, nullptr))));
  CHECK(ok(m.client->run(m.files->release_locks(m.handle, 1))));
  CHECK(m.server.locks("/f") == "20-30w");
  CHECK(m.server.lock_states() == 1);
  m.close();
}

TEST_CASE("F7 F_SETLKW can be given up while it waits for what was written before") {
  OneFile m;
  m.open();
  m.server.hold(nfs4::OP_WRITE);
  const std::string text = "written";
  CHECK(ok(m.client->run(m.files->write(m.handle, {}, bytes(text), 0))));
  auto wait = std::make_shared<locking::LockWait>(m.client->loop);
  auto task = m.files->lock(m.handle, {1, true, {0, 10}}, wait);
  m.client->start(task);
  CHECK(m.client->turn_until([&] { return m.server.held() == 1; }));
  CHECK_FALSE(task.done());
  wait->cancel();
  CHECK(m.client->turn_until([&] { return task.done(); }));
  CHECK(errno_of(task.await_resume()) == EINTR);
  CHECK(m.server.count(nfs4::OP_LOCK) == 0);
  m.server.release();
  m.close();
  CHECK(m.server.content("/f") == "written");
}

}  // namespace nfsrdma::fuse
