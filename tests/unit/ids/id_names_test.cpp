// Numbers for names of owners: what is known, what ages, and that nothing waits for a name service.
#include "ids/id_names.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "ids/owner_names.h"
#include "ids/system_names.h"
#include "nfs4/files/convert.h"

namespace nfsrdma::ids {
namespace {

using namespace std::chrono_literals;

/// A directory that a test fills, delays and blocks.
struct Book {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Answer> entries;
  std::set<std::string> blocked;
  std::map<std::string, int> asked;
  std::string domain = "example.org";

  Answer look_up(Kind kind, const std::string& name) {
    std::unique_lock guard(mutex);
    const std::string key = (kind == Kind::user ? "u:" : "g:") + name;
    ++asked[key];
    changed.wait(guard, [&] { return !blocked.contains(name); });
    const auto at = entries.find(key);
    return at == entries.end() ? Answer{Answer::State::absent, 0} : at->second;
  }
  void set(const std::string& key, Answer answer) {
    const std::lock_guard guard(mutex);
    entries[key] = answer;
  }
  void block(const std::string& name) {
    const std::lock_guard guard(mutex);
    blocked.insert(name);
  }
  void unblock() {
    const std::lock_guard guard(mutex);
    blocked.clear();
    changed.notify_all();
  }
  int count(const std::string& key) {
    const std::lock_guard guard(mutex);
    return asked[key];
  }
};

struct Fixture {
  // A helper that is blocked may outlive the fixture.
  std::shared_ptr<Book> book = std::make_shared<Book>();
  std::shared_ptr<std::atomic<std::int64_t>> later = std::make_shared<std::atomic<std::int64_t>>(0);
  async::Loop loop;
  IdNames names;

  explicit Fixture(IdNames::Limits limits = {})
      : names({[book = book](Kind kind, const std::string& name) { return book->look_up(kind, name); },
               [book = book] { return book->domain; }},
              limits, [later = later] { return async::Clock::now() + std::chrono::seconds(*later); }) {}
  ~Fixture() { book->unblock(); }

  void learn(std::vector<Principal> wanted) { loop.run(names.learn(loop, std::move(wanted))); }
  std::optional<std::uint32_t> user(const std::string& name) {
    Attributes attributes;
    attributes.owner = name;
    std::vector<Principal> wanted;
    names.add_wanted(attributes, wanted);
    if (!wanted.empty()) learn(wanted);
    return names.known(Kind::user, name);
  }
};

constexpr Answer found(std::uint32_t id) {
  return {Answer::State::found, id};
}

}  // namespace

TEST_CASE("F20 a number is its own answer: nobody is asked") {
  Fixture f;
  Attributes attributes;
  attributes.owner = "1000";
  attributes.group = "100";
  std::vector<Principal> wanted;
  f.names.add_wanted(attributes, wanted);
  CHECK(wanted.empty());
  f.names.fill_in(attributes);
  CHECK(attributes.uid == 1000);
  CHECK(attributes.gid == 100);
  CHECK(f.book->asked.empty());
  CHECK_FALSE(number_of("10x"));
  CHECK_FALSE(number_of(""));
  CHECK_FALSE(number_of("4294967296"));
}

TEST_CASE("F20 attributes off the wire ask nobody for names") {
  nfs4::WireAttributes wire;
  wire.owner = nfs4::principal4{"root"};  // whom every machine knows
  wire.owner_group = nfs4::principal4{"100"};
  const Attributes attributes = nfs4::to_public(wire);
  CHECK(attributes.owner == "root");
  CHECK_FALSE(attributes.uid);
  CHECK(attributes.gid == 100);
}

TEST_CASE("F20 names of users and of groups are two things, and this machine's domain goes off") {
  Fixture f;
  f.book->set("u:me", found(7));
  f.book->set("g:me", found(8));
  f.learn(
      {{Kind::user, "me@Example.ORG"}, {Kind::group, "me@example.org"}, {Kind::user, "me@elsewhere.org"}});
  CHECK(f.names.known(Kind::user, "me@Example.ORG") == 7);
  CHECK(f.names.known(Kind::group, "me@example.org") == 8);
  CHECK_FALSE(f.names.known(Kind::user, "me@elsewhere.org"));
  CHECK(f.book->count("u:me") == 1);  // one of another domain is not looked up
  CHECK(f.user("me") == 7);
}

TEST_CASE("F20 what is known ages: those that are there, those that are not, those that failed") {
  Fixture f;
  f.book->set("u:me", found(7));
  CHECK(f.user("me") == 7);
  CHECK_FALSE(f.user("you"));
  f.book->set("u:broken", {Answer::State::failed, 0});
  CHECK_FALSE(f.user("broken"));

  f.book->set("u:me", found(70));
  f.book->set("u:you", found(9));
  f.book->set("u:broken", found(10));
  CHECK(f.user("me") == 7);
  CHECK_FALSE(f.user("you"));
  CHECK_FALSE(f.user("broken"));
  *f.later = 6;
  CHECK(f.user("broken") == 10);
  CHECK_FALSE(f.user("you"));
  *f.later = 31;
  CHECK(f.user("you") == 9);
  CHECK(f.user("me") == 7);
  *f.later = 601;
  CHECK(f.user("me") == 70);
  // Better an old number than none.
  f.book->set("u:me", {Answer::State::failed, 0});
  *f.later = 1300;
  CHECK(f.user("me") == 70);
}

TEST_CASE("F20 a name service that does not answer holds up nobody for longer than the patience") {
  IdNames::Limits limits;
  limits.patience = 500ms;
  Fixture f(limits);
  f.book->set("u:slow", found(5));
  f.book->set("u:quick", found(6));
  f.book->block("slow");
  CHECK_FALSE(f.user("slow"));
  // It is not waited for again, and the others are not behind it.
  const auto begun = async::Clock::now();
  for (int i = 0; i < 100; ++i) CHECK_FALSE(f.user("slow"));
  CHECK(async::Clock::now() - begun < 10 * limits.patience);  // of 100, if it were
  CHECK(f.user("quick") == 6);
  CHECK(f.book->count("u:slow") == 1);
  // When it comes, it counts.
  f.book->unblock();
  for (int i = 0; i < 1000 && !f.names.known(Kind::user, "slow"); ++i) f.loop.turn(f.loop.now() + 5ms);
  CHECK(f.user("slow") == 5);
}

TEST_CASE("F20 where every helper is stuck, a new name is not waited for at all") {
  IdNames::Limits limits;
  limits.patience = 100ms;
  Fixture f(limits);
  std::vector<Principal> many;
  for (unsigned i = 0; i < IdNames::kMostThreads; ++i) {
    many.push_back({Kind::user, "stuck" + std::to_string(i)});
    f.book->block(many.back().text);
  }
  f.learn(many);
  f.loop.run([](async::Loop& loop) -> async::Task<void> { co_await loop.sleep_for(150ms); }(f.loop));
  const auto begun = async::Clock::now();
  for (int i = 0; i < 100; ++i) CHECK_FALSE(f.user("new" + std::to_string(i)));
  CHECK(async::Clock::now() - begun < 10 * limits.patience);  // of 100, if they were
}

TEST_CASE("F20 a server that invents names takes no more than so much memory") {
  IdNames::Limits limits;
  limits.most_known = 10;
  Fixture f(limits);
  f.book->set("u:me", found(7));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(f.user("invented" + std::to_string(i)));
  CHECK(f.user("me") == 7);
  std::vector<Principal> page;
  for (int i = 0; i < 100; ++i) page.push_back({Kind::user, "more" + std::to_string(i)});
  f.learn(page);
  CHECK(f.user("me") == 7);
}

TEST_CASE(
    "F20 where there is no room for another name those that are known are asked for again all the same") {
  IdNames::Limits limits;
  limits.most_known = 1;
  Fixture f(limits);
  f.book->set("u:me", found(7));
  CHECK(f.user("me") == 7);
  f.book->set("u:me", found(70));
  *f.later = 601;
  CHECK(f.user("me") == 70);
}

TEST_CASE("F20 a name for a number: both of them, or none, with this machine's domain") {
  async::Loop loop;
  const auto names_of = [&loop](std::optional<std::uint32_t> uid, std::optional<std::uint32_t> gid) {
    SetAttributes changes;
    changes.uid = uid;
    changes.gid = gid;
    return loop.run(owner_names(loop, changes, loop.now() + 10s));
  };
  constexpr std::uint32_t kNobodys = 4'000'000'001;
  CHECK(system_name_of(Kind::user, 0) == "root");
  CHECK(system_name_of(Kind::group, 0) == "root");
  CHECK_FALSE(system_name_of(Kind::user, kNobodys));
  CHECK_FALSE(system_name_of(Kind::group, kNobodys));
  const std::string root = "root@" + local_nfs_domain();
  const auto both = names_of(0, 0);
  REQUIRE(both);
  CHECK(both->user == root);
  CHECK(both->group == root);
  const auto group = names_of(std::nullopt, 0);
  REQUIRE(group);
  CHECK_FALSE(group->user);
  CHECK(group->group == root);
  CHECK_FALSE(names_of(kNobodys, 0));
  CHECK_FALSE(names_of(0, kNobodys));
}

TEST_CASE("F20 an entry of the directory may be larger than 4 KiB, and a failure is not a no") {
  const auto answer = with_room([](std::span<char> room, std::optional<std::uint32_t>& id) {
    if (room.size() < 100000) return ERANGE;
    id = 3;
    return 0;
  });
  CHECK(answer.state == Answer::State::found);
  CHECK(answer.id == 3);
  const auto status = [](int code) {
    return with_room([code](std::span<char>, std::optional<std::uint32_t>&) { return code; }).state;
  };
  CHECK(status(0) == Answer::State::absent);
  CHECK(status(ENOENT) == Answer::State::absent);
  CHECK(status(EIO) == Answer::State::failed);
  CHECK(status(ERANGE) == Answer::State::failed);
  CHECK(look_up_system_name(Kind::user, "root").id == 0);
  CHECK(look_up_system_name(Kind::group, "root").state == Answer::State::found);
  CHECK(look_up_system_name(Kind::user, "no-such-user-here").state == Answer::State::absent);
}

TEST_CASE("F20 the domain of idmapd.conf") {
  CHECK(domain_in_idmapd_conf(
            "[General]\n# Domain = no\n domain =  Example.ORG \r\n[Mapping]\nDomain = x\n") == "Example.ORG");
  CHECK(domain_in_idmapd_conf("[Mapping]\nDomain = x\n").empty());
  CHECK(domain_in_idmapd_conf("Domain = x\n[General]\nVerbosity = 0\n").empty());
  CHECK(domain_in_idmapd_conf("[\n[General\nDomain").empty());
  CHECK_FALSE(local_nfs_domain().empty());
}

TEST_CASE("F20 the domain of idmapd.conf and of what stands beside it") {
  std::string directory = "/tmp/nfsrdma-idmapd-XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const std::string file = directory + "/idmapd.conf";
  const auto write = [&](const std::string& name, const std::string& domain) {
    std::ofstream(directory + "/" + name) << "[General]\nDomain = " << domain << "\n";
  };
  CHECK(configured_domain(file).empty());
  write("idmapd.conf", "one");
  CHECK(configured_domain(file) == "one");
  std::filesystem::create_directory(file + ".d");
  write("idmapd.conf.d/20.conf", "three");
  write("idmapd.conf.d/10.conf", "two");
  write("idmapd.conf.d/30.conf.old", "none");
  CHECK(configured_domain(file) == "three");
  std::filesystem::remove_all(directory);
}

}  // namespace nfsrdma::ids
