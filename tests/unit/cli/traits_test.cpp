// What copies have of their sources' owner and mode: set-id bits above all. The tables are cp(1)'s, but for files that are
// written where they are, which keep their set-id bits with cp(1).
#include "cli/traits.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>

#include <atomic>

#include "support/at_limit.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint32_t kAll = 07777;
constexpr std::uint32_t kSomebody = 51234, kSomeGroup = 51235;

bool is_root() {
  return ::geteuid() == 0;
}

struct Owned {
  std::uint32_t uid = 0, gid = 0, mode = 0;
};

Owned here(const Place& place, const std::string& name) {
  const auto facts = place.facts(name);
  return {facts.st_uid, facts.st_gid, facts.st_mode & kAll};
}

Owned there(Shell& shell, const std::string& path) {
  const auto facts = shell.client().stat(path, false);
  if (!ok(facts)) return {};
  return {facts->uid.value_or(0), facts->gid.value_or(0), facts->mode};
}

void give(Shell& shell, const std::string& path, const Owned& traits) {
  SetAttributes changes;
  changes.uid = traits.uid;
  changes.gid = traits.gid;
  changes.mode = traits.mode;
  CHECK(ok(shell.client().set_attributes(path, changes)));
}

/// False: only root can.
bool give_here(const Place& place, const std::string& name, const Owned& traits) {
  const std::string path = place.path(name);
  const bool given = ::chown(path.c_str(), traits.uid, traits.gid) == 0;
  REQUIRE(::chmod(path.c_str(), traits.mode) == 0);
  return given;
}

/// What a copy by `who` has of `source` with -p.
Owned preserved(const Owned& source, const Owned& who) {
  Owned out = is_root() ? source : who;
  out.mode = safe_mode(source.mode, out.uid == source.uid, out.gid == source.gid);
  return out;
}

void check_same(const Owned& found, const Owned& wanted) {
  CHECK(found.uid == wanted.uid);
  CHECK(found.gid == wanted.gid);
  CHECK(found.mode == wanted.mode);
}

std::vector<Owned> sources() {
  std::vector<Owned> out;
  for (const std::uint32_t mode : {04755U, 02755U, 06711U, 0640U}) {
    out.push_back({::geteuid(), ::getegid(), mode});
    out.push_back({kSomebody, ::getegid(), mode});
    out.push_back({::geteuid(), kSomeGroup, mode});
    out.push_back({kSomebody, kSomeGroup, mode});
  }
  return out;
}

Owned self() {
  return {::geteuid(), ::getegid(), 0};
}

}  // namespace

TEST_CASE("F27 a mode keeps its set-id bits only with the owner and the group that they are of") {
  CHECK(safe_mode(07755, true, true) == 07755);
  CHECK(safe_mode(07755, false, true) == 03755);
  CHECK(safe_mode(07755, true, false) == 05755);
  CHECK(safe_mode(07755, false, false) == 01755);
}

TEST_CASE("F27 get keeps set-id bits only where the owner was kept, as cp does") {
  Shell shell;
  const Place place;
  shell.server.add_file("/t/f", "text");
  place.write("cp/f", "text");
  for (const Owned& source : sources()) {
    CAPTURE(source.uid);
    CAPTURE(source.gid);
    CAPTURE(source.mode);
    give(shell, "/t/f", source);
    const Owned plain{::geteuid(), ::getegid(), source.mode & 0777U & ~creation_mask()};
    for (const bool planted : {false, true}) {
      CAPTURE(planted);
      std::filesystem::remove_all(place.path("get"));
      std::filesystem::create_directories(place.path("get/t"));
      const auto plant = [&] {
        if (planted) place.write("get/t/f", "old", 06755);
      };
      const Owned kept{plain.uid, plain.gid, planted ? 0755 : plain.mode};
      plant();
      CHECK(shell.status({"get", "srv:/t/f", place.path("get/t/f")}) == 0);
      check_same(here(place, "get/t/f"), kept);
      plant();
      CHECK(shell.status({"get", "-p", "srv:/t/f", place.path("get/t/f")}) == 0);
      check_same(here(place, "get/t/f"), preserved(source, self()));
      std::filesystem::remove(place.path("get/t/f"));
      plant();
      CHECK(shell.status({"get", "-r", "srv:/t", place.path("get")}) == 0);
      check_same(here(place, "get/t/f"), kept);
      plant();
      CHECK(shell.status({"get", "-rp", "srv:/t", place.path("get")}) == 0);
      check_same(here(place, "get/t/f"), preserved(source, self()));
      CHECK(place.read("get/t/f") == "text");
    }
    if (!give_here(place, "cp/f", source)) continue;
    for (const char* option : {"", "-p "}) {
      std::filesystem::remove(place.path("cp/copy"));
      const std::string command =
          "cp " + std::string(option) + place.path("cp/f") + " " + place.path("cp/copy");
      REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c)
      check_same(here(place, "cp/copy"), *option == '\0' ? plain : preserved(source, self()));
    }
  }
}

TEST_CASE("F27 a user who is not root gets none of another's set-id bits" * doctest::skip(kSanitized)) {
  if (!is_root()) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  constexpr uid_t kUser = 65534;
  NfsServer server;
  server.add_file("/t/f", "text");
  const Place place;
  REQUIRE(::chmod(place.path().c_str(), 0777) == 0);
  const auto run = [&](std::vector<std::string> words) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      if (::setgroups(0, nullptr) != 0 || ::setresgid(kUser, kUser, kUser) != 0 ||
          ::setresuid(kUser, kUser, kUser) != 0)
        ::_exit(100);
      const auto command = std::ranges::find(all_commands(), words.front(),
                                             [](const Command& one) { return std::string(one.name); });
      const auto arguments = parse_arguments(*command, {words.begin() + 1, words.end()});
      if (!arguments) ::_exit(101);
      Servers servers(server.target().options);
      Output out;
      Call call{*command, *arguments, servers, out};
      command->run(call);
      servers.end();
      ::_exit(call.status);
    }
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  };
  Shell shell;
  auto client = Client::connect(server.target());
  REQUIRE(ok(client));
  for (const Owned& source :
       {Owned{kSomebody, kSomeGroup, 06755}, Owned{0, 0, 04755}, Owned{kUser, kUser, 06755}}) {
    CAPTURE(source.uid);
    SetAttributes changes;
    changes.uid = source.uid;
    changes.gid = source.gid;
    changes.mode = source.mode;
    CHECK(ok((*client)->set_attributes("/t/f", changes)));
    std::filesystem::remove_all(place.path("t"));
    std::filesystem::remove(place.path("f"));
    CHECK(run({"get", "-p", "127.0.0.1:/t/f", place.path("f")}) == 0);
    CHECK(run({"get", "-rp", "127.0.0.1:/t", place.path("t")}) == 0);
    const std::uint32_t mode = source.uid == kUser ? source.mode : 0755;
    check_same(here(place, "f"), {kUser, kUser, mode});
    check_same(here(place, "t/f"), {kUser, kUser, mode});
  }
}

TEST_CASE("F27 put keeps set-id bits only where the server kept the owner") {
  const Place place;
  place.write("t/f", "text");
  for (const Owned& source : sources()) {
    if (!give_here(place, "t/f", source)) continue;
    CAPTURE(source.uid);
    CAPTURE(source.gid);
    CAPTURE(source.mode);
    Shell shell;
    for (const bool planted : {false, true}) {
      CAPTURE(planted);
      const auto plant = [&] {
        if (!planted) return;
        shell.server.add_file("/t/f", "old");
        give(shell, "/t/f", {kSomebody, kSomeGroup, 06755});
      };
      shell.server.add_directory("/t");
      (void)shell.client().remove_file("/t/f");
      plant();
      CHECK(shell.status({"put", place.path("t/f"), "srv:/t/f"}) == 0);
      CHECK(there(shell, "/t/f").mode == (planted ? 0755 : source.mode & 0777U & ~creation_mask()));
      plant();
      CHECK(shell.status({"put", "-p", place.path("t/f"), "srv:/t/f"}) == 0);
      check_same(there(shell, "/t/f"), preserved(source, self()));
      (void)shell.client().remove_file("/t/f");
      plant();
      CHECK(shell.status({"put", "-r", place.path("t"), "srv:/"}) == 0);
      CHECK(there(shell, "/t/f").mode == (planted ? 0755 : source.mode & 0777U & ~creation_mask()));
      (void)shell.client().remove_file("/t/f");
      plant();
      CHECK(shell.status({"put", "-rp", place.path("t"), "srv:/"}) == 0);
      check_same(there(shell, "/t/f"), preserved(source, self()));
      CHECK(shell.content("/t/f") == "text");
      CHECK(shell.names("/t") == "f");
    }
  }
}

TEST_CASE("F27 cp keeps set-id bits only where the server kept the owner") {
  for (const Owned& source : sources()) {
    CAPTURE(source.uid);
    CAPTURE(source.gid);
    CAPTURE(source.mode);
    Shell shell;
    for (const bool planted : {false, true}) {
      CAPTURE(planted);
      shell.server.add_file("/a/f", "text");
      give(shell, "/a/f", source);
      shell.server.add_directory("/b");
      const auto plant = [&] {
        (void)shell.client().remove_file("/b/f");
        if (!planted) return;
        shell.server.add_file("/b/f", "old");
        give(shell, "/b/f", {kSomebody, kSomeGroup, 06755});
      };
      const std::uint32_t plain = planted ? 0755 : source.mode & 0777U & ~creation_mask();
      plant();
      CHECK(shell.status({"cp", "srv:/a/f", "srv:/b/f"}) == 0);
      CHECK(there(shell, "/b/f").mode == plain);
      plant();
      CHECK(shell.status({"cp", "-rT", "srv:/a", "srv:/b"}) == 0);
      CHECK(there(shell, "/b/f").mode == plain);
      for (const char* option : {"-p", "-rpT"}) {
        CAPTURE(option);
        const bool tree = std::string_view(option) == "-rpT";
        plant();
        CHECK(shell.status({"cp", option, tree ? "srv:/a" : "srv:/a/f", tree ? "srv:/b" : "srv:/b/f"}) == 0);
        if ((source.mode & kSetIds) != 0 || is_root())
          check_same(there(shell, "/b/f"), preserved(source, self()));
        CHECK(shell.content("/b/f") == "text");
        CHECK(shell.names("/b") == "f");
      }
    }
  }
}

TEST_CASE("F27 where the server refuses the owner, the set-id bits that go with it stay away") {
  if (!is_root()) {
    MESSAGE("skipped: only root gives files away");
    return;
  }
  const Place place;
  place.write("t/f", "text");
  REQUIRE(give_here(place, "t/f", {kSomebody, kSomeGroup, 06755}));
  REQUIRE(give_here(place, "t", {kSomebody, kSomeGroup, 02770}));
  Shell shell;
  // Owner and group; the owner alone.
  shell.server.answer(nfs4::OP_SETATTR, nfs4::NFS4ERR_PERM, 2);
  CHECK(shell.status({"put", "-p", place.path("t/f"), "srv:/both"}) == 0);
  check_same(there(shell, "/both"), {0, 0, 0755});
  shell.server.answer(nfs4::OP_SETATTR, nfs4::NFS4ERR_BADOWNER, 1);
  CHECK(shell.status({"put", "-p", place.path("t/f"), "srv:/owner"}) == 0);
  check_same(there(shell, "/owner"), {0, kSomeGroup, 02755});
  CHECK(shell.status({"put", "-rp", place.path("t"), "srv:/u"}) == 0);
  check_same(there(shell, "/u"), {kSomebody, kSomeGroup, 02770});
  check_same(there(shell, "/u/f"), {kSomebody, kSomeGroup, 06755});
  // A put that fails behind the owner's change leaves nothing.
  shell.server.answer(nfs4::OP_SETATTR, nfs4::NFS4ERR_IO, 1, 1);
  CHECK(shell.status({"put", "-rp", place.path("t"), "srv:/v"}) == 1);
  CHECK(shell.names("/v").empty());
  CHECK(shell.status({"get", "-rp", "srv:/u", place.path("back")}) == 0);
  check_same(here(place, "back"), {kSomebody, kSomeGroup, 02770});
  check_same(here(place, "back/f"), {kSomebody, kSomeGroup, 06755});
}

TEST_CASE("F27 cp -rp and put -rp go through no symbolic link that somebody has put into the tree") {
  const Place place;
  place.write("t/d/f", "text", 04755);
  Shell shell;
  shell.server.add_file("/keep/f", "kept");
  shell.server.add_symlink("/u/t/d", "/keep");
  CHECK(shell.status({"put", "-rp", place.path("t"), "srv:/u"}) == 1);
  CHECK(shell.content("/keep/f") == "kept");
  shell.server.add_file("/s/d/f", "text");
  CHECK(shell.status({"cp", "-rpT", "srv:/s", "srv:/u/t"}) == 1);
  CHECK(shell.content("/keep/f") == "kept");
  // What replaces a link exactly is a file of its own.
  shell.server.add_file("/keep/g", "kept");
  shell.server.add_symlink("/w/x/f", "/keep/g");
  place.write("x/f", "text", 04755);
  CHECK(shell.status({"put", "-rp", place.path("x"), "srv:/w"}) == 0);
  CHECK(shell.content("/keep/g") == "kept");
  CHECK(shell.content("/w/x/f") == "text");
}

// ---- files that change meanwhile ----

TEST_CASE(
    "cli: put -r reports a file that grows while it is read, and copies one that grew before as it is") {
  Shell shell;
  const Place place;
  place.write("t/f", pattern(9'000'000));
  std::atomic<bool> grown = false;
  shell.server.on_server([&](Responder& responder) {
    responder.on_call = [&](const SeenCall& call) {
      if (call.has(nfs4::OP_WRITE) && !grown.exchange(true))
        std::ofstream(place.path("t/f"), std::ios::app) << "more";
    };
  });
  const Ran ran = shell.run({"put", "-r", place.path("t"), "srv:/u"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("changed while it was read") != std::string::npos);
  shell.server.on_server([](Responder& responder) { responder.on_call = nullptr; });
  // These are listed with a size of 0, and are longer when they are read.
  const char* const longer = "/proc/tty/drivers";
  std::ifstream file(longer);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.empty()) {
    MESSAGE("skipped: there is no " << longer);
    return;
  }
  (void)shell.run({"put", "-r", "/proc/tty", "srv:/v"});
  CHECK(shell.content("/v/drivers") == text);
}

}  // namespace nfsrdma::cli
