// Sources that change while they are copied: what is reported, what is left of the copy, and what the check costs.
#include "cli/changes.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

/// Calls `change` on the server's thread after each of the first `times` requests with this operation.
void after(Shell& shell, nfs4::nfs_opnum4 op, std::function<void(ServerState&)> change, unsigned times = 1) {
  shell.server.on_server([&](Responder& responder) {
    responder.on_call = [&responder, op, change = std::move(change), times](const SeenCall& seen) mutable {
      if (times == 0 || !seen.has(op)) return;
      --times;
      change(responder.state);
    };
  });
}

std::function<void(ServerState&)> give_content(const std::string& path, const std::string& text) {
  return [path, text](ServerState& state) { state.set_content(*state.find(path), text); };
}

/// Calls that ask for attributes and do nothing else.
long questions(Shell& shell) {
  const auto calls = shell.server.calls();
  return std::ranges::count_if(calls, [](const SeenCall& call) { return call.operations() == "GETATTR"; });
}

/// Two contents of one size.
const std::string& old_text() {
  static const std::string text = pattern(3'000'001);
  return text;
}
const std::string& new_text() {
  static const std::string text = pattern(3'000'001, 7);
  return text;
}

struct LargeFile {
  explicit LargeFile(Shell& shell) { shell.server.add_file("/t/f", old_text()); }
};

void says_so(const Ran& ran, const std::string& name) {
  CHECK(ran.status == 1);
  CHECK(ran.err.find("changed while it was read") != std::string::npos);
  CHECK(ran.err.find(name) != std::string::npos);
}

}  // namespace

TEST_CASE("changes: contents and metadata count, the time of access does not") {
  Attributes one;
  one.size = 10;
  one.change = 5;
  one.modified = one.changed = {7, 8};
  Attributes now = one;
  CHECK_FALSE(has_changed(one, now));
  now.change = 6;
  CHECK(has_changed(one, now));
  now.accessed = {9, 0};
  CHECK_FALSE(has_changed(one, now));
  now.changed = {9, 0};
  CHECK(has_changed(one, now));
  now.size = 11;
  CHECK(has_changed(one, now));
  CHECK_FALSE(has_changed(one, now, Growth::accepted));
  now.size = 9;
  CHECK(has_changed(one, now, Growth::accepted));
}

TEST_CASE("changes: get leaves nothing of a file that is written, truncated or extended meanwhile") {
  for (const std::string& text : {new_text(), old_text().substr(0, 2'000'000), old_text() + "more"}) {
    CAPTURE(text.size());
    Shell shell;
    const LargeFile file(shell);
    const Place here;
    here.write("old", "old");
    for (const char* name : {"new", "old"}) {
      after(shell, nfs4::OP_READ, give_content("/t/f", text));
      says_so(shell.run({"get", "srv:/t/f", here.path(name)}), ":/t/f");
      shell.server.on_server([](Responder& responder) {
        responder.state.set_content(*responder.state.find("/t/f"), old_text());
      });
    }
    CHECK(here.names() == "old");
    CHECK(here.read("old") == "old");
  }
}

TEST_CASE("changes: cat and get to standard output report other contents, and accept a file that grows") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cat", "srv:/t/f"}, std::vector<std::string>{"get", "srv:/t/f", "-"}}) {
    Shell shell;
    const LargeFile file(shell);
    after(shell, nfs4::OP_READ, give_content("/t/f", old_text() + "more"));
    const Ran ran = shell.run(words);
    CHECK(ran.status == 0);
    CHECK(ran.out.starts_with(old_text()));
    after(shell, nfs4::OP_READ, give_content("/t/f", new_text()));
    says_so(shell.run(words), ":/t/f");
    after(shell, nfs4::OP_READ, give_content("/t/f", "short"));
    says_so(shell.run(words), ":/t/f");
  }
}

TEST_CASE("changes: a file of a tree that changed since it was listed is copied as it is now") {
  Shell shell;
  const Place here;
  const LargeFile file(shell);
  shell.server.add_file("/t/small", "old");
  after(shell, nfs4::OP_READDIR, [](ServerState& state) {
    give_content("/t/f", new_text())(state);
    give_content("/t/small", "new")(state);
  });
  CHECK(shell.status({"get", "-r", "srv:/t", here.path("got")}) == 0);
  CHECK((here.read("got/f") == new_text()));
  CHECK(here.read("got/small") == "new");
  after(shell, nfs4::OP_READDIR, [](ServerState& state) {
    give_content("/t/f", old_text())(state);
    give_content("/t/small", "newer")(state);
  });
  CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/u"}) == 0);
  CHECK((shell.content("/u/f") == old_text()));
  CHECK(shell.content("/u/small") == "newer");
  after(shell, nfs4::OP_READDIR, give_content("/t/small", "newest"));
  CHECK(shell.told({"sum", "-r", "srv:/t"}).find("  srv:/t/small") != std::string::npos);
}

TEST_CASE("changes: a file of a tree that changes each time is reported, and the others are copied") {
  Shell shell;
  const Place here;
  const LargeFile file(shell);
  shell.server.add_file("/t/small", "text");
  const auto again = [&shell] {
    after(
        shell, nfs4::OP_READ,
        [turn = 0](ServerState& state) mutable {
          give_content("/t/f", new_text() + std::to_string(++turn % 10))(state);
        },
        1000);
  };
  again();
  says_so(shell.run({"get", "-r", "srv:/t", here.path("got")}), ":/t/f");
  CHECK_FALSE(std::filesystem::exists(here.path("got/f")));
  CHECK(here.read("got/small") == "text");
  const Ran summed = shell.run({"sum", "-r", "srv:/t"});
  says_so(summed, ":/t/f");
  CHECK(summed.out.find("/t/f") == std::string::npos);
  CHECK(summed.out.find("/t/small") != std::string::npos);
  shell.server.answer(nfs4::OP_CLONE, nfs4::NFS4ERR_INVAL, 100);
  shell.server.answer(nfs4::OP_COPY, nfs4::NFS4ERR_NOTSUPP, 100);
  says_so(shell.run({"cp", "-r", "srv:/t", "srv:/u"}), ":/t/f");
  CHECK(shell.content("/u/small") == "text");
}

TEST_CASE("changes: cp reports a file that changes while the server copies it") {
  Shell shell;
  const LargeFile file(shell);
  shell.server.answer(nfs4::OP_CLONE, nfs4::NFS4ERR_INVAL, 100);
  after(shell, nfs4::OP_COPY, give_content("/t/f", new_text()));
  says_so(shell.run({"cp", "srv:/t/f", "srv:/copy"}), ":/t/f");
}

TEST_CASE("changes: put replaces nothing by a file that changes while it is read") {
  Shell shell;
  const Place here;
  shell.server.add_file("/t/f", "old");
  const std::string path = here.path("f");
  for (const std::uintmax_t size : {1'000'000U, 4'000'000U}) {
    CAPTURE(size);
    here.write("f", old_text());
    after(shell, nfs4::OP_WRITE, [=](ServerState&) { std::filesystem::resize_file(path, size); });
    says_so(shell.run({"put", path, "srv:/t/f"}), path);
    CHECK(shell.names("/t") == "f");
    CHECK(shell.content("/t/f") == "old");
  }
  here.write("f", old_text());
  after(shell, nfs4::OP_WRITE, [=](ServerState&) { std::filesystem::resize_file(path, 5'000'000); });
  says_so(shell.run({"put", "-r", here.path(), "srv:/tree"}), path);
}

TEST_CASE("changes: the check asks nothing about small files, and once about a large one") {
  Shell shell;
  const Place here;
  for (int i = 0; i < 20; ++i) shell.server.add_file("/t/s/" + std::to_string(i), pattern(5000));
  (void)shell.client();
  shell.server.clear_calls();
  CHECK(shell.status({"get", "-r", "srv:/t", here.path("a")}) == 0);
  CHECK(questions(shell) == 0);
  CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/u"}) == 0);
  CHECK(questions(shell) == 0);
  CHECK(shell.status({"sum", "-r", "srv:/t"}) == 0);
  CHECK(questions(shell) == 0);
  const LargeFile file(shell);
  CHECK(shell.status({"get", "-r", "srv:/t", here.path("b")}) == 0);
  CHECK(questions(shell) == 1);
}

}  // namespace nfsrdma::cli
