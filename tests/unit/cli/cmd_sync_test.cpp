// sync, and --update and --resume of get and put, as a shell asks for them. tests/bridge/sync.sh compares sync with rsync.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "cli/commands.h"
#include "cli/part_file.h"
#include "support/cli_shell.h"
#include "support/nfs_responder.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

void set_time(const std::string& path, std::int64_t seconds, long nanoseconds = 0) {
  const std::array times{timespec{seconds, nanoseconds}, timespec{seconds, nanoseconds}};
  CHECK(::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0);
}

/// Ends what was arranged by answer().
void heal(Shell& shell) {
  shell.server.on_server([](Responder& server) { server.state.rules.clear(); });
}

/// The end of the line with the sums: what was copied and so on.
std::string sums(const Ran& ran) {
  const std::size_t at = ran.out.rfind(" looked at: ");
  const std::string line = at == std::string::npos ? "" : ran.out.substr(at + 12);
  return line.substr(0, line.find(';'));
}

/// A tree on this machine with most that a tree can have.
void write_tree(const Place& here) {
  here.write("t/a", "1");
  here.write("t/sub/b", "22", 0640);
  here.write("t/sub/deep/large", pattern(200'000));
  here.write("t/\xff\xfe odd\n", "3");
  here.write("t/empty", "");
  std::filesystem::create_directory(here.path("t/hollow"));
  std::filesystem::create_symlink("no where", here.path("t/link"));
  set_time(here.path("t/a"), 1000, 123'456'789);
  set_time(here.path("t/sub/deep"), 2000);
  set_time(here.path("t/sub"), 3000);
  set_time(here.path("t"), 4000);
}

}  // namespace

TEST_CASE("cli: sync copies a tree in each direction, and finds it unchanged the next time") {
  Shell shell;
  const Place here, back;
  write_tree(here);
  CHECK(sums(shell.run({"sync", here.path("t/"), "srv:/u"})).starts_with("6 copied"));
  CHECK(shell.names("/u") == in_order({"a", "sub", "\xff\xfe odd\n", "empty", "hollow", "link"}));
  CHECK((shell.server.stable_content("/u/sub/deep/large") == pattern(200'000)));
  CHECK(shell.client().stat("/u/a")->modified == Time{1000, 123'456'789});
  CHECK(shell.client().stat("/u/sub/deep")->modified.seconds == 2000);
  CHECK(shell.client().stat("/u/sub")->modified.seconds == 3000);
  CHECK(shell.client().stat("/u")->modified.seconds == 4000);
  shell.server.clear_calls();
  CHECK(sums(shell.run({"sync", here.path("t/"), "srv:/u"}))
            .starts_with("0 copied (0 B), 6 unchanged, 0 with"));
  for (const nfs4::nfs_opnum4 op :
       {nfs4::OP_WRITE, nfs4::OP_OPEN, nfs4::OP_SETATTR, nfs4::OP_RENAME, nfs4::OP_CREATE})
    CHECK(shell.server.count(op) == 0);

  CHECK(sums(shell.run({"sync", "srv:/u/", back.path("v")})).starts_with("6 copied"));
  CHECK(sums(shell.run({"sync", "srv:/u/", back.path("v")}))
            .starts_with("0 copied (0 B), 6 unchanged, 0 with"));
  CHECK(back.read("v/sub/b") == "22");
  CHECK(back.read("v/\xff\xfe odd\n") == "3");
  CHECK(back.facts("v/a").st_mtim.tv_nsec == 123'456'789);
  CHECK(back.facts("v/sub").st_mtim.tv_sec == 3000);
  CHECK(back.facts("v").st_mtim.tv_sec == 4000);
  CHECK(std::filesystem::read_symlink(back.path("v/link")).string() == "no where");

  CHECK(sums(shell.run({"sync", "srv:/u/", "srv:/w"})).starts_with("6 copied"));
  CHECK(sums(shell.run({"sync", "srv:/u/", "srv:/w"})).starts_with("0 copied (0 B), 6 unchanged, 0 with"));
  CHECK((shell.content("/w/sub/deep/large") == pattern(200'000)));
  CHECK(shell.client().stat("/w/sub")->modified.seconds == 3000);
}

TEST_CASE("cli: sync puts a source under its name, or its contents if it ends in a slash or with -T") {
  Shell shell;
  const Place here;
  here.write("t/a", "1");
  here.write("f", "2");
  CHECK(shell.status({"sync", here.path("t"), here.path("f"), "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "f t");
  CHECK(shell.status({"sync", here.path("t"), here.path("f"), "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "f t");
  CHECK(shell.status({"sync", "-T", here.path("t"), "srv:/v"}) == 0);
  CHECK(shell.names("/v") == "a");
  CHECK(shell.status({"sync", "srv:/u", here.path("back")}) == 0);
  CHECK(here.read("back/u/t/a") == "1");
  CHECK(shell.status({"sync", "srv:/u/f", here.path("back")}) == 0);
  CHECK(here.read("back/f") == "2");
  CHECK(shell.status({"sync", here.path("f/"), "srv:/u"}) == 1);
  CHECK(shell.status({"sync", "-T", here.path("f"), "srv:/u"}) == 1);
  CHECK(shell.status({"sync", here.path("t"), "srv:/u/f"}) != 0);
  CHECK(shell.status({"sync", here.path("t"), here.path("x")}) == 2);
  CHECK(shell.status({"sync", here.path("t"), "srv:/u", here.path("x")}) == 2);
  CHECK(shell.status({"sync", "srv:/u/", "srv:/u"}) == 1);
  CHECK(shell.status({"sync", "srv:/u", "srv:/u/t"}) == 1);
  CHECK_FALSE(shell.is_there("/u/t/u/t"));
}

TEST_CASE("cli: sync copies what has another size, time, text or type, and nothing else") {
  Shell shell;
  const Place here;
  write_tree(here);
  CHECK(shell.status({"sync", here.path("t/"), "srv:/u"}) == 0);
  here.write("t/a", "other size");
  here.write("t/sub/b", "33", 0640);
  set_time(here.path("t/sub/b"), 77);
  std::filesystem::remove(here.path("t/link"));
  std::filesystem::create_symlink("elsewhere", here.path("t/link"));
  std::filesystem::remove(here.path("t/empty"));
  here.write("t/empty/now", "a directory");
  CHECK(lines_in_order(shell.run({"sync", "-v", "-q", here.path("t/"), "srv:/u"}).out) ==
        "copy   a (size) copy   empty/now (new) copy   link (text) copy   sub/b (time) mkdir  empty/ set    "
        "./ (time)");
  CHECK(shell.content("/u/a") == "other size");
  CHECK(shell.content("/u/sub/b") == "33");
  CHECK(shell.content("/u/empty/now") == "a directory");
  CHECK(*shell.client().read_link("/u/link") == "elsewhere");
  // The same size and time hide other contents, unless they are compared.
  here.write("t/sub/b", "44", 0640);
  set_time(here.path("t/sub/b"), 77);
  CHECK(shell.run({"sync", "-vq", here.path("t/"), "srv:/u"}).out.empty());
  CHECK(shell.run({"sync", "-cvq", here.path("t/"), "srv:/u"}).out == "copy   sub/b (contents)\n");
  CHECK(shell.content("/u/sub/b") == "44");
  // Only the time differs: nothing is copied.
  set_time(here.path("t/sub/b"), 78);
  CHECK(shell.run({"sync", "-cvq", here.path("t/"), "srv:/u"}).out == "set    sub/b (time)\n");
  CHECK(shell.client().stat("/u/sub/b")->modified.seconds == 78);
  // A directory that is not empty gives way to a file only with --delete.
  std::filesystem::remove_all(here.path("t/empty"));
  here.write("t/empty", "a file");
  const Ran ran = shell.run({"sync", "-q", here.path("t/"), "srv:/u"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("add --delete") != std::string::npos);
  CHECK(shell.content("/u/empty/now") == "a directory");
  CHECK(shell.status({"sync", "-q", "--delete", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.content("/u/empty") == "a file");
}

TEST_CASE("cli: sync keeps modes with -p, and the copy's own without") {
  Shell shell;
  const Place here;
  here.write("t/a", "1", 0640);
  CHECK(shell.status({"sync", "-p", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.mode("/u/a") == 0640);
  CHECK(::chmod(here.path("t/a").c_str(), 0604) == 0);
  CHECK(shell.run({"sync", "-vq", here.path("t/"), "srv:/u"}).out.empty());
  CHECK(shell.run({"sync", "-vqp", here.path("t/"), "srv:/u"}).out == "set    a (mode)\n");
  CHECK(shell.mode("/u/a") == 0604);
  CHECK(::chmod(here.path("t/a").c_str(), 0755) == 0);
  here.write("t/a", "longer", 0755);
  CHECK(shell.status({"sync", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.content("/u/a") == "longer");
  CHECK(shell.mode("/u/a") == 0604);
}

TEST_CASE("cli: sync --delete removes what the source does not have, and nothing that is excluded") {
  Shell shell;
  const Place here, back;
  here.write("t/a", "1");
  here.write("t/d/b", "2");
  here.write("t/x.o", "3");
  for (const char* name :
       {"/u/old", "/u/d/old", "/u/gone/deep/er", "/u/kept.o", "/u/half/kept.o", "/u/half/old"})
    shell.server.add_file(name, "old");
  CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.is_there("/u/old"));
  const Ran dry = shell.run({"sync", "-n", "--delete", "--exclude", "*.o", here.path("t/"), "srv:/u"});
  CHECK(dry.out.find("delete gone/deep/er\n") != std::string::npos);
  CHECK(dry.out.find(".o") == std::string::npos);
  CHECK(shell.is_there("/u/gone/deep/er"));
  CHECK(sums(shell.run({"sync", "--delete", "--exclude", "*.o", here.path("t/"), "srv:/u"}))
            .find(" 6 deleted") != std::string::npos);
  CHECK(shell.names("/u") == "a d half kept.o x.o");
  CHECK(shell.names("/u/half") == "kept.o");
  CHECK(shell.names("/u/d") == "b");
  back.write("v/more/old", "1");
  CHECK(shell.status({"sync", "-q", "--delete", "srv:/u/", back.path("v")}) == 0);
  CHECK_FALSE(std::filesystem::exists(back.path("v/more")));
  // Sources that would remove what the other one brings.
  CHECK(shell.status({"sync", "--delete", here.path("t/"), here.path("t/d/"), "srv:/u"}) == 2);
  CHECK(shell.status({"sync", "--delete", "srv:/u/d/", "srv:/u"}) == 1);
  CHECK(shell.names("/u") == "a d half kept.o x.o");
}

TEST_CASE("cli: sync deletes nothing if the source is missing, or a part of it cannot be read") {
  Shell shell;
  const Place here;
  shell.server.add_file("/t/a/f", "1");
  shell.server.add_file("/t/b/f", "2");
  here.write("v/old", "old");
  here.write("v/b/old", "old");
  Ran ran = shell.run({"sync", "-q", "--delete", "srv:/none/", here.path("v")});
  CHECK(ran.status == 1);
  CHECK(here.read("v/old") == "old");
  shell.server.answer(nfs4::OP_READDIR, nfs4::NFS4ERR_ACCESS, 1, 1);  // of a or of b
  ran = shell.run({"sync", "--delete", "srv:/t/", here.path("v")});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("nothing was deleted") != std::string::npos);
  CHECK(sums(ran).ends_with("0 deleted, 1 failed"));
  CHECK(here.read("v/old") == "old");
  CHECK(here.read("v/b/old") == "old");
  CHECK((here.read("v/a/f") == "1") != (here.read("v/b/f") == "2"));
  ran = shell.run({"sync", "--delete", "srv:/t/", "srv:/none2", here.path("v")});
  CHECK(ran.status == 2);
  CHECK(shell.status({"sync", "-q", "--delete", "srv:/t/", here.path("v")}) == 0);
  CHECK(here.names() == "v");
  CHECK_FALSE(std::filesystem::exists(here.path("v/old")));
  CHECK_FALSE(std::filesystem::exists(here.path("v/b/old")));
}

TEST_CASE("cli: sync --dry-run prints what sync then does, and changes nothing") {
  Shell shell;
  const Place here;
  write_tree(here);
  const std::vector<std::string> words{"sync", "-vq", here.path("t/"), "srv:/u"};
  const Ran dry = shell.run({"sync", "-nq", here.path("t/"), "srv:/u"});
  CHECK(dry.status == 0);
  CHECK_FALSE(shell.is_there("/u"));
  CHECK(lines_in_order(dry.out) == lines_in_order(shell.run(words).out));
  const Place back;
  CHECK(lines_in_order(shell.run({"sync", "-nq", "srv:/u/", back.path("v")}).out) == lines_in_order(dry.out));
  CHECK(back.names().empty());
}

TEST_CASE("cli: sync leaves no file under its name that is not whole, and the other files go on") {
  Shell shell;
  const Place here;
  here.write("t/a", "1");
  here.write("t/large", pattern(3'000'001));
  here.write("t/z", "2");
  shell.server.add_directory("/u");
  for (const nfs4::nfs_opnum4 failing : {nfs4::OP_WRITE, nfs4::OP_COMMIT}) {
    CAPTURE(failing);
    shell.server.answer(failing, nfs4::NFS4ERR_NOSPC, 1000);
    CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 1);
    // Small files are on the server's disk without a COMMIT.
    CHECK(shell.names("/u") == (failing == nfs4::OP_COMMIT ? "a z" : ""));
    heal(shell);
  }
  CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 0);
  CHECK((shell.server.stable_content("/u/large") == pattern(3'000'001)));
  // One file that fails keeps none of the others.
  here.write("t/b", "3");
  here.write("t/large", pattern(3'000'002));
  shell.server.answer(nfs4::OP_COMMIT, nfs4::NFS4ERR_NOSPC, 1);
  CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 1);
  CHECK(shell.content("/u/b") == "3");
  CHECK((shell.content("/u/large") == pattern(3'000'001)));
  CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "a b large z");
}

TEST_CASE("cli: sync --json has one object for each action, and the sums") {
  Shell shell;
  const Place here;
  here.write("t/\xff", "123");
  const Ran ran = shell.run({"sync", "--json", here.path("t"), "srv:/u"});
  CHECK(ran.out.find(R"({"action":"mkdir","path":"t/","dry_run":false})") != std::string::npos);
  CHECK(ran.out.find(R"("path_hex":"742fff","reason":"new","bytes":3,"dry_run":false})") !=
        std::string::npos);
  CHECK(
      ran.out.find(
          R"({"action":"summary","files":1,"copied":1,"bytes":3,"unchanged":0,"changed":0,"directories":1,"deleted":0,"failed":0,)") !=
      std::string::npos);
}

TEST_CASE("cli: sync --verify removes a copy that differs from its source") {
  Shell shell;
  const Place here;
  here.write("t/a", "text");
  shell.server.add_directory("/u");
  shell.server.on_server([](Responder& server) {
    server.on_call = [&server, done = false](const SeenCall&) mutable {
      auto* const copy = server.state.find("/u/a");
      if (copy != nullptr && !std::exchange(done, true)) server.state.set_content(*copy, "tExt");
    };
  });
  const Ran ran = shell.run({"sync", "-q", "--verify", here.path("t/"), "srv:/u"});
  shell.server.on_server([](Responder& server) { server.on_call = nullptr; });
  CHECK(ran.status == 1);
  CHECK(ran.err.find("differs from its source, and was removed") != std::string::npos);
  CHECK_FALSE(shell.is_there("/u/a"));
  CHECK(shell.status({"sync", "-q", "--verify", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.content("/u/a") == "text");
}

TEST_CASE(
    "cli: sync of 20,000 unchanged files takes one listing for each directory, and nothing for each file") {
  Shell shell;
  const Place here;
  constexpr int directories = 200, files = 100;
  shell.server.add_directory("/u");
  shell.server.on_server([](Responder& server) {
    for (int d = 0; d < directories; ++d) {
      for (int f = 0; f < files; ++f)
        (void)server.state.make("/u/d" + std::to_string(d) + "/f" + std::to_string(f), nfs4::NF4REG);
    }
  });
  CHECK(shell.status({"sync", "-q", "srv:/u/", here.path("v")}) == 0);
  for (const bool is_put : {false, true}) {
    CAPTURE(is_put);
    shell.server.clear_calls();
    const Stopwatch watch;
    const Ran ran = is_put ? shell.run({"sync", here.path("v/"), "srv:/u"})
                           : shell.run({"sync", "srv:/u/", here.path("v")});
    CHECK(sums(ran) == "0 copied (0 B), 20000 unchanged, 0 with new mode or times, 0 deleted, 0 failed");
    const unsigned listings = shell.server.count(nfs4::OP_READDIR);
    CHECK(listings >= directories + 1);
    CHECK(listings <= 2 * (directories + 1));  // two pages at most
    // Apart from the listings, the two operands are looked at.
    const unsigned calls = shell.server.count(nfs4::OP_SEQUENCE);
    CHECK(calls <= listings + 10);
    MESSAGE(listings, " listings, ", calls, " requests, ", watch.elapsed().count(), " ms");
  }
}

TEST_CASE("cli: get -u and put -u skip a file whose copy has the same size and is not older") {
  Shell shell;
  const Place here;
  here.write("f", "local");
  set_time(here.path("f"), 1000);
  shell.server.add_file("/f", "there");
  shell.set_mode("/f", 0644, 2000);
  CHECK(shell.status({"put", "-u", here.path("f"), "srv:/f"}) == 0);
  CHECK(shell.content("/f") == "there");
  CHECK(shell.status({"get", "-u", "srv:/f", here.path("f")}) == 0);
  CHECK(here.read("f") == "there");
  here.write("f", "local");
  set_time(here.path("f"), 3000);
  CHECK(shell.status({"get", "-u", "srv:/f", here.path("f")}) == 0);
  CHECK(here.read("f") == "local");
  CHECK(shell.status({"put", "-u", here.path("f"), "srv:/f"}) == 0);
  CHECK(shell.content("/f") == "local");
  // Another size is what a copy that was cut off has.
  here.write("f", "loc");
  set_time(here.path("f"), 9'000'000'000);
  CHECK(shell.status({"get", "-u", "srv:/f", here.path("f")}) == 0);
  CHECK(here.read("f") == "local");
}

TEST_CASE("cli: get -ru and put -ru copy what is missing in a tree, and nothing twice") {
  Shell shell;
  const Place here, back;
  write_tree(here);
  // The server's clock begins at 1000.
  for (const auto& one : std::filesystem::recursive_directory_iterator(here.path("t")))
    set_time(one.path(), 10);
  CHECK(shell.status({"put", "-ruq", here.path("t"), "srv:/u"}) == 0);
  CHECK((shell.content("/u/sub/deep/large") == pattern(200'000)));
  shell.server.clear_calls();
  CHECK(shell.status({"put", "-ruqT", here.path("t"), "srv:/u"}) == 0);
  CHECK(shell.server.count(nfs4::OP_WRITE) == 0);
  CHECK(ok(shell.client().remove_file("/u/a")));
  CHECK(shell.told({"put", "-ruqT", "--json", here.path("t"), "srv:/u"}).find(R"("files":1,"bytes":1})") !=
        std::string::npos);
  CHECK(shell.status({"get", "-ruq", "srv:/u", back.path("v")}) == 0);
  CHECK(shell.told({"get", "-ruqT", "--json", "srv:/u", back.path("v")}).find(R"("files":0,"bytes":0})") !=
        std::string::npos);
  CHECK((back.read("v/sub/deep/large") == pattern(200'000)));
}

TEST_CASE("cli: put -r writes the end of a large file last, so that a file that is cut off is shorter") {
  Shell shell;
  const Place here;
  const std::string text = pattern(5'000'000);
  here.write("t/large", text);
  shell.server.set_reply_delay(1ms);
  shell.server.answer(nfs4::OP_WRITE, nfs4::NFS4ERR_IO, 1);
  CHECK(shell.status({"put", "-rq", here.path("t"), "srv:/u"}) == 1);
  CHECK(shell.content("/u/large").size() < text.size());
  CHECK(shell.status({"put", "-ruqT", here.path("t"), "srv:/u"}) == 0);
  CHECK((shell.content("/u/large") == text));
}

TEST_CASE("cli: --resume goes on with a large file where it was cut off, and not if the source has changed") {
  Shell shell;
  const Place here, back;
  const std::string text = pattern(40'000'000);
  here.write("t/f", text);
  set_time(here.path("t/f"), 1000);
  const std::string part = part_name("f", {text.size(), {1000, 0}});
  shell.server.add_directory("/u");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"put", "-q", "--resume", here.path("t/f"), "srv:/u"},
        std::vector<std::string>{"put", "-rqT", "--resume", here.path("t"), "srv:/u"},
        std::vector<std::string>{"sync", "-q", "--resume", here.path("t/"), "srv:/u"}}) {
    CAPTURE(words[0] + words[1]);
    shell.server.answer(nfs4::OP_WRITE, nfs4::NFS4ERR_NOSPC, 100, 34);
    CHECK(shell.status(words) == 1);
    CHECK(shell.names("/u") == part);
    heal(shell);
    shell.server.clear_calls();
    CHECK(shell.status(words) == 0);
    CHECK(shell.names("/u") == "f");
    CHECK((shell.server.stable_content("/u/f") == text));
    CHECK(shell.server.count(nfs4::OP_WRITE) < 12);
    CHECK(ok(shell.client().remove_file("/u/f")));
  }
}

TEST_CASE("cli: --resume begins anew if the source has changed, and get goes on, too") {
  Shell shell;
  const Place here;
  const std::string text = pattern(70'000'000), other = pattern(70'000'000, 2);
  shell.server.add_file("/t/f", text);
  shell.set_mode("/t/f", 0644, 1000);
  const PartOf of{text.size(), {1000, 7}};
  const std::string part = part_name("f", of);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"get", "-q", "--resume", "srv:/t/f", here.path("f")},
        std::vector<std::string>{"sync", "-q", "--resume", "srv:/t/", here.path()}}) {
    CAPTURE(words[0] + words[1]);
    shell.server.answer(nfs4::OP_READ, nfs4::NFS4ERR_IO, 100, 62);
    CHECK(shell.status(words) == 1);
    CHECK(here.names() == part);
    CHECK(here.facts(part).st_size >= static_cast<off_t>(part_step));
    heal(shell);
    shell.server.clear_calls();
    CHECK(shell.status(words) == 0);
    CHECK(here.names() == "f");
    CHECK((here.read("f") == text));
    CHECK(shell.server.count(nfs4::OP_READ) < 45);
    std::filesystem::remove(here.path("f"));
  }
  shell.server.answer(nfs4::OP_READ, nfs4::NFS4ERR_IO, 100, 62);
  CHECK(shell.status({"sync", "-q", "--resume", "srv:/t/", here.path()}) == 1);
  heal(shell);
  shell.server.add_file("/t/f", other);
  shell.set_mode("/t/f", 0644, 2000);
  // --delete leaves the part alone; the copy replaces it.
  CHECK(shell.status({"sync", "-q", "--resume", "--delete", "srv:/t/", here.path()}) == 0);
  CHECK(here.names() == "f");
  CHECK((here.read("f") == other));
}

TEST_CASE("cli: sync copies from one server to another, and finds it unchanged the next time") {
  Shell shell;
  NfsServer second;
  const std::string there = "nfs://127.0.0.1/u?port=" + std::to_string(second.port());
  shell.server.add_file("/t/a", "1");
  shell.server.add_file("/t/large", pattern(3'000'001));
  shell.server.add_symlink("/t/link", "a");
  second.add_file("/u/old", "old");
  CHECK(sums(shell.run({"sync", "--delete", "srv:/t/", there})).find("3 copied") == 0);
  CHECK((second.stable_content("/u/large") == pattern(3'000'001)));
  CHECK(second.content("/u/a") == "1");
  CHECK_FALSE(second.content("/u/old"));
  CHECK(sums(shell.run({"sync", "srv:/t/", there})).find("0 copied (0 B), 3 unchanged") == 0);
  CHECK(second.problems() == "");
}

TEST_CASE(
    "cli: sync takes a link that was put in a directory's place for what it is, and writes nothing through "
    "it") {
  Shell shell;
  const Place here;
  here.write("t/d/f", "new");
  shell.server.add_file("/other/f", "old");
  shell.server.add_symlink("/u/d", "/other");
  CHECK(shell.status({"sync", "-q", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.content("/other/f") == "old");
  CHECK(shell.client().stat("/u/d", false)->type == FileType::directory);
  CHECK(shell.content("/u/d/f") == "new");
  // Nothing is deleted through one either.
  shell.server.add_symlink("/u/gone", "/other");
  CHECK(shell.status({"sync", "-q", "--delete", here.path("t/"), "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "d");
  CHECK(shell.content("/other/f") == "old");
}

TEST_CASE("cli: sync refuses options that are no numbers, and files of patterns that are not there") {
  Shell shell;
  const Place here;
  here.write("t/a", "1");
  CHECK(shell.status({"sync", "--bwlimit", "fast", here.path("t/"), "srv:/u"}) == 2);
  CHECK(shell.status({"sync", "--bwlimit", "0", here.path("t/"), "srv:/u"}) == 2);
  CHECK(shell.status({"sync", "--exclude-from", here.path("none"), here.path("t/"), "srv:/u"}) == 1);
  CHECK(shell.status({"sync", "-T", here.path("t"), here.path("t"), "srv:/u"}) == 2);
  CHECK(shell.status({"sync", here.path("t"), "srv:relative"}) == 2);
  CHECK(shell.names("/").empty());
}

}  // namespace nfsrdma::cli
