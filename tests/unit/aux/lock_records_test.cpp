// Who may hold locks of NFSv3, on record for whoever comes after a client that was killed.
#include "aux/lock_records.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include "aux/lockd.h"
#include "support/nfs_fixture.h"
#include "support/rpc_program.h"
#include "support/scratch.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using testing::ok;
namespace fs = std::filesystem;

/// A directory of this test's own.
struct Directory {
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  /// As it is when the process is killed now.
  void keep(const std::string& as) const {
    const fs::path now = fs::directory_iterator(path)->path();
    fs::copy_file(now, fs::path(path) / as);
  }
  testing::Scratch scratch{"records"};
  const std::string path = scratch.path();
};

netobj handle_of(int value) {
  netobj out;
  out.value = {static_cast<std::byte>(value), std::byte{0xff}};
  return out;
}
LockOwner owner(int file, std::int32_t svid) {
  LockOwner out;
  out.file = {static_cast<std::byte>(file), std::byte{0}, std::byte{0xab}};
  out.svid = svid;
  return out;
}
LockAsker asker(std::uint32_t uid) {
  LockAsker out;
  out.caller_name = "host-nfs-1";
  out.identity = {uid, uid + 1, {5, 6}};
  return out;
}

}  // namespace

TEST_CASE("U5 lock records: what a client that was killed held is found, once, and only then") {
  const Directory directory;
  const std::string where = directory.path + "/new/locks";
  auto records = std::make_unique<LockRecords>(where, "10.0.0.1-10.0.0.2", handle_of(7));
  CHECK_FALSE(fs::exists(where));
  records->add(owner(1, 11), asker(0));
  records->add(owner(2, 11), asker(1000));
  records->add(owner(2, 12), asker(1000));
  records->remove(owner(1, 11));
  CHECK(left_locks(where, {"10.0.0.1-10.0.0.2"}).empty());
  struct stat status{};
  REQUIRE(::stat(where.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  const fs::path now = fs::directory_iterator(where)->path();
  fs::copy_file(now, where + "/10.0.0.1-10.0.0.2-dead");
  {
    auto left = left_locks(where, {"10.0.0.3-10.0.0.2", "10.0.0.1-10.0.0.2"});
    REQUIRE(left.size() == 1);
    CHECK(left[0].handle().value == handle_of(7).value);
    REQUIRE(left[0].owners().size() == 2);
    const auto& [first, who] = *left[0].owners().begin();
    CHECK(first == owner(2, 11));
    CHECK(who.caller_name == "host-nfs-1");
    CHECK(who.identity == asker(1000).identity);
    CHECK(left_locks(where, {"10.0.0.1-10.0.0.2"}).empty());  // somebody is at it
    CHECK(left_locks(where, {"10.0.0.11-10.0.0.2"}).empty());
  }
  auto left = left_locks(where, {"10.0.0.1-10.0.0.2"});
  REQUIRE(left.size() == 1);
  left[0].forget();
  left.clear();
  CHECK(left_locks(where, {"10.0.0.1-10.0.0.2"}).empty());
  records->remove(owner(2, 11));
  records->remove(owner(2, 12));
  records.reset();
  CHECK(fs::is_empty(where));
}

TEST_CASE("lock records: a child that lives longer does not hide what its parent held") {
  const Directory directory;
  auto records = std::make_unique<LockRecords>(directory.path, "a-b", handle_of(1));
  records->add(owner(1, 1), asker(0));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::raise(SIGSTOP));
  REQUIRE(child > 0);
  REQUIRE(::waitpid(child, nullptr, WUNTRACED) == child);
  records.reset();  // the file is closed, as at the end of a process
  CHECK(left_locks(directory.path, {"a-b"}).size() == 1);
  ::kill(child, SIGKILL);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("lock records: a file stays small, and what was cut off or is nonsense harms nobody") {
  const Directory directory;
  LockRecords records(directory.path, "a-b", handle_of(1));
  records.add(owner(9, 9), asker(9));
  for (int i = 0; i < 40000; ++i) {
    records.add(owner(1, i), asker(0));
    records.remove(owner(1, i));
  }
  // It is written anew behind 1 MiB, with what is held; without that this one would have more than 1.5.
  CHECK(fs::file_size(fs::directory_iterator(directory.path)->path()) < (1U << 20) + 100);
  directory.keep("a-b-2");
  CHECK(left_locks(directory.path, {"a-b"}).at(0).owners().size() == 1);

  netobj handle;
  LockOwners owners;
  std::ifstream in(directory.path + "/a-b-2");
  std::stringstream text;
  text << in.rdbuf();
  REQUIRE(read_lock_records(text.str(), handle, owners));
  CHECK_FALSE(read_lock_records("", handle, owners));
  CHECK_FALSE(read_lock_records("something else\n+ 1 2 3 - x 00\n", handle, owners));
  owners.clear();
  const std::string head = "nfsrdma-locks-1 07\n";
  CHECK(read_lock_records(head + "+ 1 2 3 - x 0", handle, owners));
  CHECK(owners.empty());
  CHECK(read_lock_records(head + "+ 1 2 3 - x 0\n+ x\n\n+ 1 2\n* 1 00\n+ 1 2 3 , x zz\n+ 5 0 0 7,x x 0102\n",
                          handle, owners));
  CHECK(owners.size() == 1);
  // No handle of NFS is longer than 64 octets.
  owners.clear();
  CHECK(read_lock_records(head + "+ 5 0 0 - x " + std::string(2 * 65, '0') + "\n", handle, owners));
  CHECK(owners.empty());
  CHECK(read_lock_records(head + "+ 5 0 0 - x " + std::string(2 * 64, '0') + "\n", handle, owners));
  CHECK(owners.size() == 1);
  CHECK_FALSE(read_lock_records("nfsrdma-locks-9 07\n", handle, owners));
  std::mt19937 random(1);  // NOLINT: the same each time
  for (int i = 0; i < 2000; ++i) {
    std::string noise = head + "+ 5 0 0 7,8 x 0102\n- 5 0102\n";
    for (int j = 0; j < 4; ++j) noise[random() % noise.size()] = static_cast<char>(random() % 256);
    (void)read_lock_records(noise, handle, owners);
  }
}

TEST_CASE("lock records: a name with spaces and lines in it stays one word of its line") {
  const Directory directory;
  LockRecords records(directory.path, "a-b", handle_of(1));
  LockAsker named = asker(7);
  named.caller_name = "my host\n- 5 0100ab";
  records.add(owner(1, 5), asker(6));
  records.add(owner(2, 5), named);
  directory.keep("a-b-2");
  auto left = left_locks(directory.path, {"a-b"});
  REQUIRE(left.size() == 1);
  REQUIRE(left[0].owners().size() == 2);
  CHECK(left[0].owners().at(owner(2, 5)).caller_name == "my_host_-_5_0100ab");
  CHECK(left[0].owners().at(owner(2, 5)).identity == named.identity);
}

TEST_CASE("lock records: where none can be had locks are had all the same") {
  LockRecords nowhere("", "a-b", handle_of(1));
  nowhere.add(owner(1, 1), asker(0));
  nowhere.remove(owner(1, 1));
  LockRecords refused("/proc/none/such", "a-b", handle_of(1));
  refused.add(owner(1, 1), asker(0));
  refused.remove(owner(1, 1));
  CHECK(left_locks("/proc/none/such", {"a-b"}).empty());
}

TEST_CASE("U5 NLM 4: what a client that was killed held is unlocked by the next, in its name") {
  const Directory directory;
  testing::RpcPrograms programs;
  async::Loop loop;
  std::vector<nlm4_unlockargs> unlocked;
  nlm4_stats answer = NLM4_GRANTED;
  programs.serve<NLM_LOCK<4>>([](const nlm4_lockargs&) { return nlm_res(); });
  programs.serve<NLM_UNLOCK<4>>([&](const nlm4_unlockargs& args) {
    unlocked.push_back(args);
    nlm_res res;
    res.stat = answer;
    return res;
  });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.records = directory.path;
  engine::LockManager::Question question;
  question.file.length = 3;
  question.lock.write = true;
  const auto lock = [&](Lockd& lockd, std::uint64_t by) {
    question.lock.owner = by;
    REQUIRE(ok(loop.run(lockd.lock(question, loop.now() + 5s))));
  };
  const std::string left = "127.0.0.1-127.0.0.1-x";
  {
    Lockd killed(loop, options);
    lock(killed, 5);
    lock(killed, 6);
    killed.forget(question.file, 6);
    directory.keep(left);
    killed.forget(question.file, 5);
  }
  Lockd lockd(loop, options);
  lock(lockd, 7);
  CHECK(directory.files() == 2);
  SUBCASE("unlocked") {
    const auto settled = loop.run(lockd.settle(loop.now() + 5s));
    REQUIRE(ok(settled));
    CHECK(*settled == 1);
    REQUIRE(unlocked.size() == 1);
    CHECK(unlocked[0].alock.fh.value.size() == 3);
    CHECK(unlocked[0].alock.l_offset == 0);
    CHECK(unlocked[0].alock.l_len == 0);
    CHECK(unlocked[0].alock.oh.value.size() == 16);
    CHECK(unlocked[0].alock.caller_name.value.starts_with("host-nfs-"));
    CHECK(directory.files() == 1);
  }
  SUBCASE("the server has restarted since, or the file is gone") {
    SUBCASE("restarted") {
      answer = NLM4_DENIED_GRACE_PERIOD;
    }
    SUBCASE("gone") {
      answer = NLM4_STALE_FH;
    }
    CHECK(ok(loop.run(lockd.settle(loop.now() + 5s))));
    CHECK(directory.files() == 1);
  }
  SUBCASE("the server does not do it: the next client tries again") {
    answer = NLM4_DENIED_NOLOCKS;
    CHECK(loop.run(lockd.settle(loop.now() + 5s)).error().errno_value() == ENOLCK);
    CHECK(directory.files() == 2);
  }
  SUBCASE("the server cannot be reached") {
    programs.close_tcp();
    programs.hang_up();
    programs.close_udp();
    Lockd other(loop, options);
    CHECK_FALSE(loop.run(other.settle(loop.now() + 1s)));
    CHECK(directory.files() == 2);
  }
  lockd.forget(question.file, 7);
}

TEST_CASE("U5 NLM 4: what a client that was killed held is unlocked under the name that the server took") {
  const Directory directory;
  testing::RpcPrograms programs;
  async::Loop loop;
  std::vector<std::string> unlocked;
  // It looks names up.
  programs.serve<NLM_LOCK<4>>([](const nlm4_lockargs& args) {
    nlm_res res;
    if (args.alock.caller_name.value != "host") res.stat = NLM4_DENIED_NOLOCKS;
    return res;
  });
  programs.serve<NLM_UNLOCK<4>>([&unlocked](const nlm4_unlockargs& args) {
    unlocked.push_back(args.alock.caller_name.value);
    return nlm_res();
  });
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.host = "host";
  options.records = directory.path;
  engine::LockManager::Question question;
  question.file.length = 3;
  question.lock.owner = 5;
  {
    Lockd killed(loop, options);
    REQUIRE(ok(loop.run(killed.lock(question, loop.now() + 5s))));
    directory.keep("127.0.0.1-127.0.0.1-x");
    killed.forget(question.file, 5);
  }
  Lockd next(loop, options);
  const auto settled = loop.run(next.settle(loop.now() + 5s));
  REQUIRE(ok(settled));
  CHECK(*settled == 1);
  CHECK(unlocked == std::vector<std::string>{"host"});
}

TEST_CASE("lock records: a file that another process is about to write is left alone") {
  const Directory directory;
  LockRecords records(directory.path, "a-b", handle_of(1));
  records.add(owner(1, 1), asker(0));
  directory.keep("a-b-02ff.new");
  CHECK(left_locks(directory.path, {"a-b"}).empty());
  fs::rename(directory.path + "/a-b-02ff.new", directory.path + "/a-b-02ff");
  CHECK(left_locks(directory.path, {"a-b"}).size() == 1);
}

TEST_CASE("lock records: an owner whose locks are under another name now is on record with that one") {
  const Directory directory;
  LockRecords records(directory.path, "a-b", handle_of(1));
  LockAsker who = asker(7);
  records.add(owner(1, 1), who);
  who.caller_name = "host";
  records.add(owner(1, 1), who);
  directory.keep("a-b-dead");
  const auto left = left_locks(directory.path, {"a-b"});
  REQUIRE(left.size() == 1);
  REQUIRE(left[0].owners().size() == 1);
  CHECK(left[0].owners().begin()->second.caller_name == "host");
}

TEST_CASE("U5 NLM 4: a lock service that has never been there is not waited for as one that restarts is") {
  testing::RpcPrograms programs;
  programs.serve<NLM_LOCK<4>>([](const nlm4_lockargs&) { return nlm_res(); });
  async::Loop loop;
  LockdOptions options;
  options.server = "server";
  options.addresses = {programs.address()};
  options.port = options.nsm_port = programs.port();
  options.first_search = 300ms;
  Lockd lockd(loop, options);
  engine::LockManager::Question question;
  question.file.length = 3;
  question.lock.owner = 1;
  bool there = false;
  SUBCASE("it was there") {
    there = true;
    CHECK(ok(loop.run(lockd.lock(question, loop.now() + 2s))));
  }
  SUBCASE("it was not") {}
  programs.close_tcp();
  programs.hang_up();
  auto verdict = loop.run(lockd.lock(question, loop.now() + 2s));
  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().errno_value() == (there ? ECONNREFUSED : ENOLCK));
}

}  // namespace nfsrdma::aux
