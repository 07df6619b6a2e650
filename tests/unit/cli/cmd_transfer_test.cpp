// cat, get and put, as a shell asks for them: what they do there and on this machine, and the status that they end with.
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "cli/commands.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

constexpr unsigned kPermissions = 07777;

}  // namespace

TEST_CASE("cli: cat writes one file behind the other, and goes on behind what is missing") {
  Shell shell;
  const std::string large = pattern(3'000'001);
  shell.server.add_file("/a", large);
  shell.server.add_file("/b", "end");
  shell.server.add_file("/empty", "");
  CHECK((shell.told({"cat", "srv:/a", "srv:/empty", "srv:/b"}) == large + "end"));
  const Ran ran = shell.run({"cat", "srv:/b", "srv:/none", "srv:/b"});
  CHECK(ran.status == 1);
  CHECK(ran.out == "endend");
}

TEST_CASE("cli: get replaces a file when it has all of the other, and leaves nothing where it fails") {
  Shell shell;
  const Place here;
  const std::string text = pattern(3'000'001);
  shell.server.add_file("/f", text);
  shell.server.add_directory("/d");
  shell.set_mode("/f", 0604);
  here.write("f", "old", 0640);
  shell.server.answer(nfs4::OP_READ, nfs4::NFS4ERR_IO, 1, 2);
  CHECK(shell.status({"get", "srv:/f", here.path("f")}) == 1);
  CHECK(here.read("f") == "old");
  CHECK(here.names() == "f");
  CHECK(shell.status({"get", "srv:/none", here.path("x")}) == 1);
  CHECK(shell.status({"get", "srv:/d", here.path("x")}) == 1);
  CHECK(shell.status({"get", "srv:/f", here.path("x/")}) == 1);
  CHECK(here.names() == "f");
  CHECK(shell.status({"get", "srv:/f", here.path()}) == 0);
  CHECK((here.read("f") == text));
  CHECK((here.facts("f").st_mode & cli::kPermissions) == 0640);
  CHECK(shell.status({"get", "srv:/f", here.path("new")}) == 0);
  CHECK((here.facts("new").st_mode & cli::kPermissions) == (0604 & ~creation_mask()));
  CHECK(shell.status({"get", "-p", "srv:/f", here.path("f")}) == 0);
  CHECK((here.facts("f").st_mode & cli::kPermissions) == 0604);
  CHECK(here.facts("f").st_mtim.tv_sec == 5);
  CHECK(here.facts("f").st_mtim.tv_nsec == 7);
  CHECK(here.names() == "f new");
  CHECK((shell.run({"get", "srv:/f", "-"}).out == text));
}

TEST_CASE("cli: get follows a symbolic link to where it leads, also if nothing is there yet") {
  Shell shell;
  const Place here;
  shell.server.add_file("/f", "text");
  here.write("d/old", "old");
  std::filesystem::create_symlink("d/old", here.path("link"));
  std::filesystem::create_symlink("d/new", here.path("first"));
  std::filesystem::create_symlink(here.path("first"), here.path("second"));
  CHECK(shell.status({"get", "srv:/f", here.path("link")}) == 0);
  CHECK(shell.status({"get", "srv:/f", here.path("second")}) == 0);
  CHECK(here.names() == "d first link second");
  CHECK(here.read("d/old") == "text");
  CHECK(here.read("d/new") == "text");
  for (const char* link : {"link", "first", "second"}) CHECK(S_ISLNK(here.facts(link).st_mode));
}

TEST_CASE("cli: get asks for the rest of what comes short, and ends where the file does") {
  Shell shell;
  const Place here;
  const std::string text = pattern(2'500'001);
  shell.server.add_file("/f", text);
  shell.server.set_short_reads(70'000);
  CHECK(shell.status({"get", "srv:/f", here.path("f")}) == 0);
  CHECK((here.read("f") == text));
}

TEST_CASE("cli: get -p asks where holes are, and leaves them out") {
  Shell shell;
  const Place here;
  constexpr std::uint64_t kMiB = 1U << 20;
  shell.server.add_file("/f", std::string(3 * kMiB, '\0') + "end");
  shell.server.add_extent("/f", 3 * kMiB, 3 * kMiB + 3);
  CHECK(shell.status({"get", "-p", "srv:/f", here.path("f")}) == 0);
  CHECK((here.read("f") == std::string(3 * kMiB, '\0') + "end"));
}

TEST_CASE(
    "cli: put gives a file its name when all of it is on the server's disk, and leaves nothing where it "
    "fails") {
  const std::string text = pattern(3'000'001);
  const Place here;
  here.write("f", text, 0640);
  for (const nfs4::nfs_opnum4 failing : {nfs4::OP_WRITE, nfs4::OP_COMMIT, nfs4::OP_RENAME}) {
    CAPTURE(failing);
    Shell shell;
    shell.server.add_file("/d/f", "old");
    shell.server.answer(failing, nfs4::NFS4ERR_NOSPC, 100);
    const Ran ran = shell.run({"put", here.path("f"), "srv:/d"});
    CHECK(ran.status == 1);
    CHECK_FALSE(ran.err.empty());
    CHECK(shell.content("/d/f") == "old");
    CHECK(shell.names("/d") == "f");
  }
  Shell shell;
  shell.server.add_file("/d/f", "old");
  shell.server.add_symlink("/link", "d/f");
  shell.set_mode("/d/f", 0604);
  CHECK(shell.status({"put", here.path("none"), "srv:/d"}) == 1);
  CHECK(shell.status({"put", here.path(), "srv:/d"}) == 1);
  CHECK(shell.status({"put", here.path("f"), "srv:/x/"}) == 1);
  CHECK(shell.names("/d") == "f");
  CHECK(shell.status({"put", here.path("f"), "srv:/d"}) == 0);
  CHECK((shell.server.stable_content("/d/f") == text));
  CHECK(shell.mode("/d/f") == 0604);
  CHECK(shell.status({"put", "-p", here.path("f"), "srv:/link"}) == 0);
  CHECK(shell.mode("/d/f") == 0640);
  CHECK(shell.client().stat("/d/f")->modified.seconds == here.facts("f").st_mtim.tv_sec);
  CHECK(shell.client().stat("/link", false)->type == FileType::symlink);
  CHECK(shell.names("/d") == "f");
}

TEST_CASE("cli: put reads standard input to its end") {
  Shell shell;
  shell.server.add_directory("/d");
  const std::string text = pattern(2'000'003);
  CHECK(shell.status({"put", "-", "srv:/d/new"}, text) == 0);
  CHECK((shell.server.stable_content("/d/new") == text));
  CHECK(shell.mode("/d/new") == (0666U & ~creation_mask()));
  CHECK(shell.status({"put", "-", "srv:/d/new"}) == 0);
  CHECK(shell.content("/d/new").empty());
  CHECK(shell.status({"put", "-", "srv:/d"}, text) == 1);  // it has no name
  CHECK(shell.names("/d") == "new");
}

TEST_CASE("cli: put -r and get -r bring a tree there and back, whatever its names are") {
  Shell shell;
  const Place here, back;
  const std::string large = pattern(100'000), edge = pattern(64U << 10);
  here.write("t/a b", "1");
  here.write("t/-r", "2");
  here.write("t/two\nlines", "3");
  here.write("t/.hidden", "4", 0640);
  here.write("t/empty", "");
  here.write("t/edge", edge);
  here.write("t/sub/deep/large", large);
  std::filesystem::create_symlink("no where", here.path("t/link"));
  CHECK(shell.status({"put", here.path("t"), "srv:/u"}) == 1);
  CHECK_FALSE(shell.is_there("/u"));
  CHECK(shell.status({"put", "-r", here.path("t"), "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "-r .hidden a b edge empty link sub two\nlines");
  CHECK((shell.server.stable_content("/u/sub/deep/large") == large));
  CHECK((shell.server.stable_content("/u/edge") == edge));
  CHECK(shell.content("/u/two\nlines") == "3");
  CHECK(shell.mode("/u/.hidden") == (0640U & ~creation_mask()));
  // Again, into what is there: the tree is put below it.
  CHECK(shell.status({"put", "-rp", here.path("t"), "srv:/u"}) == 0);
  CHECK(shell.mode("/u/t/.hidden") == 0640);
  CHECK(shell.status({"get", "srv:/u", back.path("v")}) == 1);
  CHECK(back.names().empty());
  CHECK(shell.status({"get", "-r", "srv:/u/t", back.path("v")}) == 0);
  CHECK(shell.status({"get", "-r", "srv:/u/t", back.path()}) == 0);
  CHECK(back.names() == "t v");
  for (const std::string& top : {std::string("v/"), std::string("t/")}) {
    CAPTURE(top);
    CHECK(back.read(top + "a b") == "1");
    CHECK(back.read(top + "-r") == "2");
    CHECK(back.read(top + "two\nlines") == "3");
    CHECK(back.read(top + "empty").empty());
    CHECK((back.read(top + "edge") == edge));
    CHECK((back.read(top + "sub/deep/large") == large));
    CHECK(std::filesystem::read_symlink(back.path(top + "link")).string() == "no where");
  }
}

TEST_CASE("cli: a copy of a tree with -T goes to the same place again, and not below it") {
  Shell shell;
  const Place here;
  here.write("t/a", "1");
  here.write("t/sub/b", "2");
  for (int turn = 0; turn < 2; ++turn) {
    CAPTURE(turn);
    CHECK(shell.status({"put", "-rT", here.path("t"), "srv:/u"}) == 0);
    CHECK(shell.names("/u") == "a sub");
    CHECK(shell.status({"get", "-rT", "srv:/u", here.path("v")}) == 0);
    CHECK(here.read("v/sub/b") == "2");
    CHECK_FALSE(std::filesystem::exists(here.path("v/u")));
    CHECK(shell.status({"get", "-rT", "srv:/", here.path("all")}) == 0);
    CHECK(here.read("all/u/a") == "1");
  }
  // "." has no name that it could be made under.
  CHECK(shell.status({"get", "-rT", "srv:/u/sub", here.path("v/.")}) == 0);
  CHECK(here.read("v/b") == "2");
  CHECK(shell.status({"get", "-T", "srv:/u/a", here.path("v")}) == 1);
  CHECK(shell.status({"get", "-T", "srv:/u/a", here.path("v/")}) == 1);
  CHECK(shell.status({"put", "-T", here.path("t/a"), "srv:/u"}) == 1);
  CHECK(shell.status({"get", "-T", "srv:/u/a", here.path("w")}) == 0);
  CHECK(here.read("w") == "1");
  CHECK(shell.status({"put", "-T", here.path("w"), "srv:/u/w"}) == 0);
  CHECK(shell.content("/u/w") == "1");
  CHECK(shell.names("/u") == "a sub w");
  CHECK(shell.status({"get", "-rT", "srv:/u"}) == exit_usage);
  CHECK(shell.status({"get", "-rT", "srv:/u", "srv:/u/sub", here.path("v")}) == exit_usage);
  CHECK(shell.status({"put", "-T", here.path("w"), here.path("t/a"), "srv:/u"}) == exit_usage);
}

TEST_CASE("cli: get and put take several sources where the last operand is a directory") {
  Shell shell;
  const Place here;
  shell.server.add_file("/a", "1");
  shell.server.add_file("/b", "2");
  shell.server.add_file("/t/c", "3");
  CHECK(shell.status({"get", "-r", "srv:/a", "srv:/none", "srv:/t", "srv:/b", here.path()}) == 1);
  CHECK(here.names() == "a b t");
  CHECK(here.read("t/c") == "3");
  CHECK(shell.run({"get", "srv:/a", "srv:/b", "-"}).out == "12");
  CHECK(shell.status({"get", "srv:/a", "srv:/b", here.path("new")}) == 1);
  CHECK(here.names() == "a b t");
  shell.server.add_directory("/d");
  CHECK(shell.status({"put", "-r", here.path("a"), here.path("none"), here.path("t"), "srv:/d"}) == 1);
  CHECK(shell.names("/d") == "a t");
  CHECK(shell.content("/d/t/c") == "3");
  for (const char* target : {"srv:/new", "srv:/a"}) {
    CAPTURE(target);
    CHECK(shell.status({"put", here.path("a"), here.path("b"), target}) == 1);
  }
  CHECK(shell.names("/") == "a b d t");
  CHECK(shell.content("/a") == "1");
}

TEST_CASE("cli: get and put say which command crosses the network in the other direction, or not at all") {
  Shell shell;
  const Place here;
  here.write("f", "new");
  shell.server.add_file("/a", "1");
  shell.server.add_directory("/d");
  struct Row {
    std::vector<std::string> words;
    const char* step;
    int status;
  };
  for (const Row& row : {
           Row{{"get", "srv:/a", "srv:/b"}, "or cp", exit_usage},
           Row{{"get", "srv:/d", "srv:/a", "srv:/b"}, "or cp", exit_usage},
           Row{{"get", here.path("f"), "srv:/a"}, "use put", exit_usage},
           Row{{"get", here.path("f"), here.path()}, "use put", exit_usage},
           Row{{"put", "srv:/a", "srv:/b"}, "use cp", exit_usage},
           Row{{"put", "srv:/a", here.path("x")}, "use get", exit_usage},
           Row{{"get", "srv:/d", here.path()}, "use get -r", exit_failed},
           Row{{"put", here.path(), "srv:/"}, "use put -r", exit_failed},
           Row{{"cat", "srv:/d"}, "use ls", exit_failed},
       }) {
    CAPTURE(row.step);
    const Ran ran = shell.run(row.words);
    CHECK(ran.status == row.status);
    CHECK(ran.err.find(row.step) != std::string::npos);
  }
  CHECK(here.names() == "f");
  CHECK(shell.names("/") == "a d");
}

TEST_CASE("cli: what cannot be copied of a tree is named, and the rest is copied") {
  Shell shell;
  const Place here, back;
  here.write("t/a", "1");
  here.write("t/sub/b", "2");
  REQUIRE(::mkfifo(here.path("t/fifo").c_str(), 0600) == 0);
  const Ran put = shell.run({"put", "-r", here.path("t"), "srv:/u"});
  CHECK(put.status == 1);
  CHECK(put.err.find("t/fifo") != std::string::npos);
  CHECK(shell.names("/u") == "a sub");
  CHECK(shell.content("/u/sub/b") == "2");
  CHECK(ok(shell.client().make_node("/u/socket", FileType::socket, 0600)));
  back.write("v/a/in the way", "");
  const Ran got = shell.run({"get", "-r", "srv:/u", back.path("w")});
  CHECK(got.status == 1);
  CHECK(got.err.find("/u/socket") != std::string::npos);
  CHECK(back.read("w/a") == "1");
  CHECK(back.read("w/sub/b") == "2");
  // A directory is not replaced by a file.
  CHECK(shell.client().rename("/u", "/v").has_value());
  CHECK(shell.status({"get", "-r", "srv:/v", back.path()}) == 1);
  CHECK(back.read("v/a/in the way").empty());
  CHECK(back.read("v/sub/b") == "2");
}

}  // namespace nfsrdma::cli
