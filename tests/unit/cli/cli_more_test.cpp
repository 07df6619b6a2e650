// Commands as a shell gives them, on the test server: what they do there and on this machine, what they say, and the
// status that they end with.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/parse.h"
#include "cli/sha256.h"
#include "support/at_limit.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {

using namespace nfsrdma::testing;

namespace {

constexpr unsigned kPermissions = 07777;

}  // namespace

// ---- names ----

TEST_CASE("cli: ln -f never removes the only name of what is to be linked") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  shell.server.add_symlink("/way", "d");
  for (const char* same : {"srv:/d/a", "srv:/d/../d//a", "srv:/way/a"}) {
    CAPTURE(same);
    CHECK(shell.status({"ln", "-f", same, "srv:/d/a"}) == 1);
    CHECK(shell.content("/d/a") == "text");
  }
  CHECK(shell.status({"ln", "srv:/d/a", "srv:/d/b"}) == 0);
  CHECK(shell.status({"ln", "srv:/d/a", "srv:/d/b"}) == 1);
  CHECK(shell.status({"ln", "-f", "srv:/d/a", "srv:/d/b"}) == 0);
  CHECK(shell.status({"ln", "-f", "srv:/d/a", "srv:/d/a"}) == 1);
  CHECK(shell.status({"ln", "-f", "srv:/way/a", "srv:/d/a"}) == 0);
  CHECK(shell.names("/d") == "a b");
  CHECK(shell.client().stat("/d/a")->links == 2);
  CHECK(shell.content("/d/b") == "text");
}

TEST_CASE("cli: ln replaces a file with -f only, and takes the text of a symbolic link as it is") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  shell.server.add_file("/d/other", "old");
  CHECK(shell.status({"ln", "srv:/d/a", "srv:/d/other"}) == 1);
  CHECK(shell.content("/d/other") == "old");
  CHECK(shell.status({"ln", "-f", "srv:/d/a", "srv:/d/other"}) == 0);
  CHECK(shell.content("/d/other") == "text");
  CHECK(shell.status({"ln", "-s", "no where:/", "srv:/d/other"}) == 1);
  CHECK(shell.status({"ln", "-sf", "no where:/", "srv:/d/other"}) == 0);
  CHECK(*shell.client().read_link("/d/other") == "no where:/");
  // Into a directory by its last name; -T takes the directory for the link's own name.
  CHECK(shell.status({"ln", "-s", "/x/named", "srv:/d"}) == 0);
  CHECK(*shell.client().read_link("/d/named") == "/x/named");
  CHECK(shell.status({"ln", "-sfT", "/x/named", "srv:/d"}) == 1);
  CHECK(shell.names("/d") == "a named other");
}

TEST_CASE("cli: mv moves into directories, and changes nothing where it is refused") {
  Shell shell;
  shell.server.add_file("/a", "1");
  shell.server.add_file("/b", "2");
  shell.server.add_directory("/d");
  CHECK(shell.status({"mv", "srv:/a", "srv:/d"}) == 0);
  CHECK(shell.content("/d/a") == "1");
  CHECK(shell.status({"mv", "-T", "srv:/b", "srv:/d"}) == 1);
  CHECK(shell.status({"mv", "srv:/b", "srv:/d/a", "srv:/none"}) == 1);
  CHECK(shell.status({"mv", "srv:/b", "srv:/b2", "srv:/d/a"}) == 1);
  CHECK(shell.names("/") == "b d");
  CHECK(shell.content("/d/a") == "1");
  // What is missing does not keep the others from being moved.
  CHECK(shell.status({"mv", "srv:/none", "srv:/b", "srv:/d"}) == 1);
  CHECK(shell.content("/d/b") == "2");
  CHECK(shell.status({"mv", "srv:/d/b", "srv:/d/a"}) == 0);
  CHECK(shell.content("/d/a") == "2");
  CHECK(shell.names("/d") == "a");
}

TEST_CASE("cli: mkdir -p makes what is missing, and minds what is no directory") {
  Shell shell;
  shell.server.add_file("/f", "text");
  CHECK(shell.status({"mkdir", "srv:/a/b/c"}) == 1);
  CHECK(shell.status({"mkdir", "-p", "srv:/a/b/c/"}) == 0);
  CHECK(shell.status({"mkdir", "-p", "srv:/a/b/c", "srv:/"}) == 0);
  CHECK(shell.status({"mkdir", "srv:/a/b/c"}) == 1);
  CHECK(shell.mode("/a/b/c") == (0777U & ~creation_mask()));
  // Those above can be written in by their owner.
  CHECK(shell.status({"mkdir", "-p", "-m", "0500", "srv:/x/y"}) == 0);
  CHECK(shell.mode("/x/y") == 0500);
  CHECK(shell.mode("/x") == ((0777U & ~creation_mask()) | 0300U));
  CHECK(shell.status({"mkdir", "-p", "srv:/f"}) == 1);
  CHECK(shell.status({"mkdir", "-p", "srv:/f/g"}) == 1);
  CHECK(shell.content("/f") == "text");
  CHECK(shell.status({"mkdir", "-m", "rwx", "srv:/z"}) == 2);
  CHECK_FALSE(shell.is_there("/z"));
}

// ---- rm ----

TEST_CASE("cli: rm removes what it is told to, and no more") {
  Shell shell;
  shell.server.add_file("/keep/f", "kept");
  shell.server.add_file("/d/a", "");
  shell.server.add_file("/d/sub/b", "");
  shell.server.add_symlink("/d/link", "../keep");
  CHECK(shell.status({"rm", "srv:/d"}) == 1);
  for (const char* itself : {"srv:/", "srv:/d/..", "srv:/d/.", "srv:/d/../"}) {
    CAPTURE(itself);
    CHECK(shell.status({"rm", "-rf", itself}) == 1);
  }
  CHECK(shell.names("/d") == "a link sub");
  CHECK(shell.status({"rm", "srv:/none"}) == 1);
  CHECK(shell.status({"rm", "-f", "srv:/none"}) == 0);
  CHECK(shell.status({"rm", "srv:/none", "srv:/d/a"}) == 1);
  CHECK(shell.names("/d") == "link sub");
  CHECK(shell.status({"rmdir", "srv:/d"}) == 1);
  CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
  CHECK(shell.names("/") == "keep");
  CHECK(shell.content("/keep/f") == "kept");
  CHECK(shell.status({"rmdir", "srv:/keep/f"}) == 1);
}

TEST_CASE("cli: rm -r names what it cannot remove, and removes the rest") {
  Shell shell;
  for (const char* name : {"a", "b", "c", "sub/d"}) shell.server.add_file(std::string("/d/") + name, "");
  shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_ACCESS);
  const Ran ran = shell.run({"rm", "-r", "srv:/d"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find("/d/") != std::string::npos);
  const std::string rest = shell.names("/d");
  CHECK_FALSE(rest.empty());
  CHECK(rest.find(' ') == std::string::npos);
  CHECK(shell.server.count(nfs4::OP_REMOVE) == 5);  // three files, sub/d and sub, each once
  CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
  CHECK_FALSE(shell.is_there("/d"));
}

TEST_CASE("cli: what is said of a name is one line, and does nothing to a terminal") {
  Shell shell;
  shell.server.add_file("/d/a\x1b[2J\r\nb", "");
  shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_ACCESS);
  const Ran ran = shell.run({"rm", "-r", "srv:/d"});
  CHECK(ran.status == 1);
  CHECK(ran.err.find(R"(/d/a\x1b[2J\r\nb)") != std::string::npos);
  CHECK(std::ranges::count(ran.err, '\n') == 1);
}

TEST_CASE("cli: rm -r ends where the server lists what it does not find") {
  Shell shell;
  shell.server.add_file("/d/ghost", "");
  SUBCASE("somebody else was faster") {
    shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_NOENT);
    CHECK(shell.status({"rm", "-r", "srv:/d"}) == 0);
    CHECK_FALSE(shell.is_there("/d"));
  }
  SUBCASE("it is never found") {
    shell.server.add_file("/d/spectre", "");
    shell.server.answer(nfs4::OP_REMOVE, nfs4::NFS4ERR_NOENT, 100);
    const Ran ran = shell.run({"rm", "-rf", "srv:/d"});
    CHECK(ran.status == 1);
    CHECK(ran.err.find("ghost") != std::string::npos);
    CHECK(ran.err.find("spectre") != std::string::npos);
    CHECK(shell.server.count(nfs4::OP_REMOVE) == 4);
  }
}

// ---- cp ----

TEST_CASE("cli: cp does not cut what is to be copied, by whichever way the copy is named") {
  Shell shell;
  shell.server.add_file("/d/a", "text");
  shell.server.add_symlink("/way", "d");
  shell.server.add_symlink("/d/link", "a");
  CHECK(ok(shell.client().link("/d/a", "/d/hard")));
  for (const char* same : {"srv:/d/a", "srv:/d", "srv:/way/a", "srv:/d/link", "srv:/d/hard"}) {
    CAPTURE(same);
    CHECK(shell.status({"cp", "srv:/d/a", same}) == 1);
    CHECK(shell.content("/d/a") == "text");
  }
}

TEST_CASE("cli: cp reads and writes where the server does not copy these two, and fails where it fails") {
  const std::string text = pattern(70'000);
  for (const nfs4::nfsstat4 refusal :
       {nfs4::NFS4ERR_NOTSUPP, nfs4::NFS4ERR_OFFLOAD_DENIED, nfs4::NFS4ERR_XDEV}) {
    CAPTURE(refusal);
    Shell shell;
    shell.server.add_file("/a", text);
    shell.server.answer(nfs4::OP_CLONE, nfs4::NFS4ERR_INVAL, 10);
    shell.server.answer(nfs4::OP_COPY, refusal, 10);
    CHECK(shell.status({"cp", "srv:/a", "srv:/b"}) == 0);
    CHECK((shell.server.stable_content("/b") == text));
  }
  Shell shell;
  shell.server.add_file("/a", text);
  shell.server.answer(nfs4::OP_CLONE, nfs4::NFS4ERR_INVAL, 10);
  shell.server.answer(nfs4::OP_COPY, nfs4::NFS4ERR_NOSPC, 10);
  CHECK(shell.status({"cp", "srv:/a", "srv:/b"}) == 1);
  CHECK(shell.server.count(nfs4::OP_WRITE) == 0);
}

TEST_CASE("cli: cp -r copies a tree, and never into itself") {
  Shell shell;
  const std::string large = pattern(100'000);
  shell.server.add_file("/t/large", large);
  shell.server.add_file("/t/small", "text");
  shell.server.add_file("/t/empty", "");
  shell.server.add_file("/t/sub/f", "deep");
  shell.server.add_symlink("/t/link", "no where");
  shell.set_mode("/t/sub/f", 0604);
  shell.set_mode("/t/sub", 0705);
  CHECK(shell.status({"cp", "srv:/t", "srv:/u"}) == 1);
  CHECK_FALSE(shell.is_there("/u"));
  CHECK(shell.status({"cp", "-rp", "srv:/t", "srv:/u"}) == 0);
  CHECK(shell.names("/u") == "empty large link small sub");
  CHECK((shell.content("/u/large") == large));
  CHECK(shell.content("/u/small") == "text");
  CHECK(shell.content("/u/empty").empty());
  CHECK(shell.content("/u/sub/f") == "deep");
  CHECK(*shell.client().read_link("/u/link") == "no where");
  for (const char* path : {"/u/sub/f", "/u/sub"}) {
    CAPTURE(path);
    CHECK(shell.client().stat(path)->modified == Time{5, 7});
  }
  CHECK(shell.mode("/u/sub/f") == 0604);
  CHECK(shell.mode("/u/sub") == 0705);
  // Again: into the directory that is there now.
  CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/u"}) == 0);
  CHECK(shell.content("/u/t/sub/f") == "deep");
  CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/t/sub"}) == 1);
  CHECK(shell.names("/t/sub") == "f");
  shell.server.add_symlink("/way", "t/sub");
  CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/way"}) == 1);
  CHECK_FALSE(shell.is_there("/t/sub/t/sub/t"));
}

// ---- trees that are walked ----

TEST_CASE("cli: find lists by name, type and depth") {
  Shell shell;
  shell.server.add_file("/t/a.c", "");
  shell.server.add_file("/t/b.h", "");
  shell.server.add_file("/t/s/c.c", "");
  shell.server.add_symlink("/t/l", "s");
  const auto found = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "find");
    words.emplace_back("srv:/t");
    return lines_in_order(shell.told(words));
  };
  CHECK(found({}) == "/t /t/a.c /t/b.h /t/l /t/s /t/s/c.c");
  CHECK(found({"-n", "*.c"}) == "/t/a.c /t/s/c.c");
  CHECK(found({"-t", "d"}) == "/t /t/s");
  CHECK(found({"-t", "f", "-n", "[bc].?"}) == "/t/b.h /t/s/c.c");
  CHECK(found({"-t", "l"}) == "/t/l");
  CHECK(found({"-d", "0"}) == "/t");
  CHECK(found({"-d", "1"}) == "/t /t/a.c /t/b.h /t/l /t/s");
  CHECK(found({"-d", "99999999999999999999", "-n", "c.c"}) == "/t/s/c.c");
  CHECK(shell.status({"find", "-t", "x", "srv:/t"}) == 2);
  CHECK(shell.status({"find", "-d", "-1", "srv:/t"}) == 2);
  const Ran both = shell.run({"find", "srv:/none", "srv:/t/s"});
  CHECK(both.status == 1);
  CHECK(lines_in_order(both.out) == "/t/s /t/s/c.c");
}

TEST_CASE("cli: a directory that cannot be listed does not keep the others from being walked") {
  Shell shell;
  shell.server.add_file("/t/a/f", "");
  shell.server.add_file("/t/b/g", "");
  (void)shell.client();
  shell.server.answer(nfs4::OP_READDIR, nfs4::NFS4ERR_ACCESS, 1, 1);
  const Ran ran = shell.run({"find", "srv:/t"});
  CHECK(ran.status == 1);
  const std::string found = lines_in_order(ran.out);
  CHECK((found == "/t /t/a /t/a/f /t/b" || found == "/t /t/a /t/b /t/b/g"));
  CHECK_FALSE(ran.err.empty());
}

TEST_CASE("cli: du counts a file once, by whichever of its names, and directories with all below") {
  Shell shell;
  shell.server.add_file("/t/a", pattern(1000));
  shell.server.add_file("/t/s/b", pattern(3001));
  shell.server.add_file("/t/e/empty", "");
  CHECK(ok(shell.client().link("/t/a", "/t/hard")));
  CHECK(ok(shell.client().link("/t/a", "/t/hard2")));
  CHECK(lines_in_order(shell.told({"du", "-b", "srv:/t"})) == "0\t/t/e 3001\t/t/s 4001\t/t");
  CHECK(shell.told({"du", "-sb", "srv:/t"}) == "4001\t/t\n");
  CHECK(shell.told({"du", "-s", "srv:/t"}) == "4\t/t\n");
  CHECK(shell.told({"du", "-sh", "srv:/t"}) == "4.0K\t/t\n");
  CHECK(shell.told({"du", "-b", "srv:/t/s/b"}) == "3001\t/t/s/b\n");
  CHECK(shell.told({"du", "-s", "--json", "srv:/t"}) == "{\"path\":\"/t\",\"bytes\":4001}\n");
}

TEST_CASE("cli: sum tells what is in a file, of any size and name, and leaves no file out silently") {
  Shell shell;
  const std::string large = pattern(5'000'000), middle = pattern(70'000);
  shell.server.add_file("/t/abc", "abc");
  shell.server.add_file("/t/empty", "");
  shell.server.add_file("/t/s/large", large);
  shell.server.add_file("/t/s/two\nlines", middle);
  shell.server.add_symlink("/t/link", "nowhere");
  const auto sum = [](const std::string& text) {
    Sha256 one;
    one.add(bytes(text));
    return one.finish();
  };
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  /t/abc";
  CHECK(shell.told({"sum", "srv:/t/abc"}) == abc + "\n");
  CHECK(lines_in_order(shell.told({"sum", "-r", "srv:/t"})) ==
        in_order({abc, sum("") + "  /t/empty", sum(large) + "  /t/s/large",
                  "\\" + sum(middle) + "  /t/s/two\\nlines"}));
  const Ran ran = shell.run({"sum", "srv:/t", "srv:/t/abc"});
  CHECK(ran.status == 1);
  CHECK(ran.out == abc + "\n");
  CHECK(ok(shell.client().make_node("/t/fifo", FileType::fifo, 0600)));
  CHECK(shell.status({"sum", "-r", "srv:/t"}) == 1);
}

// ---- lists and attributes ----

TEST_CASE("cli: ls shows what is asked for, and goes on behind what is missing") {
  Shell shell;
  shell.server.add_file("/t/.h", "");
  shell.server.add_file("/t/f", "abc");
  shell.server.add_file("/t/s/g", "");
  shell.server.add_symlink("/t/l", "s");
  CHECK(lines_in_order(shell.told({"ls", "srv:/t"})) == "f l s");
  CHECK(lines_in_order(shell.told({"ls", "-A", "srv:/t"})) == ".h f l s");
  CHECK(lines_in_order(shell.told({"ls", "-a", "srv:/t"})) == ". .. .h f l s");
  CHECK(shell.told({"ls", "-d", "srv:/t"}) == "/t\n");
  CHECK(shell.told({"ls", "srv:/t/l"}) == "g\n");
  CHECK(shell.told({"ls", "-l", "srv:/t/l"}).ends_with(" /t/l -> s\n"));
  CHECK(shell.told({"ls", "-n", "srv:/t/f"})
            .starts_with("-rw-r--r--   1 " + left("0", 8) + " " + left("0", 8) + " " + right("3", 12) + " "));
  CHECK(lines_in_order(shell.told({"ls", "-R", "srv:/t"})) == "127.0.0.1:/t/s: 127.0.0.1:/t: f g l s");
  CHECK(shell.told({"ls", "--json", "srv:/t/s"}).starts_with("{\"name\":\"g\",\"type\":\"regular\","));
  const Ran ran = shell.run({"ls", "srv:/none", "srv:/t/s"});
  CHECK(ran.status == 1);
  CHECK(ran.out == "127.0.0.1:/t/s:\ng\n");
  CHECK(ran.err.find("/none") != std::string::npos);
}

TEST_CASE("cli: ls -R and find go down only, whatever the server lists") {
  Shell shell;
  shell.server.add_file("/t/s/g", "");
  shell.server.on_server([](Responder& responder) {
    Inode& top = *responder.state.find("/t");
    for (const char* name : {".", "..", "s/.."}) {
      top.cookies[name] = top.next_cookie;
      top.entries[top.next_cookie++] = {name, top.id};
    }
  });
  CHECK(lines_in_order(shell.told({"ls", "-RA", "srv:/t"})) == ". .. 127.0.0.1:/t/s: 127.0.0.1:/t: g s s/..");
  const Ran ran = shell.run({"find", "srv:/t"});
  CHECK(ran.status == 1);
  CHECK(lines_in_order(ran.out) == "/t /t/s /t/s/g");
  CHECK(shell.status({"rm", "-r", "srv:/t"}) == 1);  // it is not empty
}

TEST_CASE("cli: touch sets the times that it is told, and makes files unless it may not") {
  Shell shell;
  CHECK(shell.status({"touch", "-c", "srv:/n"}) == 0);
  CHECK_FALSE(shell.is_there("/n"));
  CHECK(shell.status({"touch", "srv:/n"}) == 0);
  CHECK(shell.mode("/n") == (0666U & ~creation_mask()));
  const auto times = [&] {
    const auto facts = shell.client().stat("/n");
    return ok(facts) ? std::pair(facts->accessed.seconds, facts->modified.seconds) : std::pair(0L, 0L);
  };
  CHECK(shell.status({"touch", "-d", "@100", "srv:/n"}) == 0);
  CHECK(times() == std::pair(100L, 100L));
  CHECK(shell.status({"touch", "-a", "-d", "@200", "srv:/n"}) == 0);
  CHECK(times() == std::pair(200L, 100L));
  CHECK(shell.status({"touch", "-m", "-d", "@300", "srv:/n"}) == 0);
  CHECK(times() == std::pair(200L, 300L));
  CHECK(shell.status({"touch", "-am", "-d", "@400", "srv:/n"}) == 0);
  CHECK(times() == std::pair(400L, 400L));
  CHECK(shell.status({"touch", "-d", "never", "srv:/n"}) == 2);
  CHECK(shell.status({"touch", "-d", "@1", "-t", "202401010000", "srv:/n"}) == 2);
  CHECK(times() == std::pair(400L, 400L));
  // A link itself, or what it leads to.
  CHECK(shell.status({"ln", "-s", "n", "srv:/l"}) == 0);
  CHECK(shell.status({"touch", "-h", "-d", "@500", "srv:/l"}) == 0);
  CHECK(times() == std::pair(400L, 400L));
  CHECK(shell.client().stat("/l", false)->modified.seconds == 500);
  CHECK(shell.status({"touch", "-d", "@600", "srv:/l"}) == 0);
  CHECK(times() == std::pair(600L, 600L));
}

TEST_CASE("cli: seconds and their fractions, as far as there are any") {
  CHECK(parse_date("@-1.5") == Time{-2, 500'000'000});
  CHECK(parse_date("@-0.25") == Time{-1, 750'000'000});
  CHECK(parse_date("@-9223372036854775808") == Time{std::numeric_limits<std::int64_t>::min(), 0});
  CHECK_FALSE(parse_date("@-9223372036854775808.5"));
  CHECK_FALSE(parse_date("@9223372036854775808"));
}

TEST_CASE("cli: truncate makes files of a size, or changes it") {
  Shell shell;
  CHECK(shell.status({"truncate", "-c", "-s", "10", "srv:/n"}) == 0);
  CHECK_FALSE(shell.is_there("/n"));
  CHECK(shell.status({"truncate", "-s", "10", "srv:/n"}) == 0);
  CHECK(shell.content("/n") == std::string(10, '\0'));
  CHECK(shell.status({"truncate", "-s", "+1K", "srv:/n"}) == 0);
  CHECK(shell.content("/n").size() == 1034);
  CHECK(shell.status({"truncate", "--size=-34", "srv:/n"}) == 0);
  CHECK(shell.content("/n").size() == 1000);
  CHECK(shell.status({"truncate", "--size=-1M", "srv:/n"}) == 0);
  CHECK(shell.content("/n").empty());
  CHECK(shell.status({"truncate", "-s", "x", "srv:/n"}) == 2);
  CHECK(shell.status({"truncate", "srv:/n"}) == 2);
}

TEST_CASE("cli: chmod and chown change what is named, of each target that is there") {
  Shell shell;
  shell.server.add_file("/a", "");
  shell.server.add_directory("/d");
  shell.set_mode("/a", 0640);
  CHECK(shell.status({"chmod", "u+x,g-r,o=r", "srv:/a"}) == 0);
  CHECK(shell.mode("/a") == 0704);
  CHECK(shell.status({"chmod", "u-x", "srv:/a"}) == 0);
  CHECK(shell.status({"chmod", "a+X", "srv:/none", "srv:/a", "srv:/d"}) == 1);
  CHECK(shell.mode("/a") == 0604);
  CHECK(shell.mode("/d") == 0755);
  CHECK(shell.status({"chmod", "8", "srv:/a"}) == 2);
  CHECK(shell.mode("/a") == 0604);
  CHECK(shell.status({"chown", "12:34", "srv:/a"}) == 0);
  CHECK(shell.client().stat("/a")->owner == "12");
  CHECK(shell.client().stat("/a")->group == "34");
  CHECK(shell.status({"chown", ":56", "srv:/a"}) == 0);
  CHECK(shell.client().stat("/a")->owner == "12");
  CHECK(shell.client().stat("/a")->group == "56");
  CHECK(shell.status({"chown", "no-such-user-here", "srv:/a"}) == 2);
}

TEST_CASE("cli: acl set changes nothing where its entries cannot be read as a whole") {
  Shell shell;
  const Place here;
  shell.server.add_file("/f", "");
  here.write("huge", std::string(5U << 20, '\n'));
  for (const std::string& unreadable : {here.path(), here.path("none"), here.path("huge")}) {
    CAPTURE(unreadable);
    CHECK(shell.status({"acl", "set", "-f", unreadable, "srv:/f"}) == 1);
  }
  CHECK(shell.status({"acl", "set", "u::rwq", "srv:/f"}) == 2);
  CHECK(shell.status({"acl", "set", "srv:/f"}) == 2);
  CHECK(shell.status({"acl", "put", "srv:/f"}) == 2);
  CHECK(shell.server.count(nfs4::OP_SETATTR) == 0);
}

TEST_CASE("cli: acl set takes what acl get shows, and what is refused changes nothing") {
  Shell shell;
  shell.server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
  shell.server.add_file("/f", "");
  shell.server.add_file("/g", "");
  const std::string entries = "A::OWNER@:rwatTnNcCy\nD:g:staff@example.org:w\nA::EVERYONE@:rtncy\n";
  CHECK(shell.status({"acl", "set", entries, "srv:/f"}) == 0);
  CHECK(shell.told({"acl", "get", "-c", "srv:/f"}) == entries + "\n");
  const std::string whole = shell.told({"acl", "get", "srv:/f"});
  CHECK(whole == "# file: /f\n" + entries + "\n");
  CHECK(shell.status({"acl", "set", "-f", "-", "srv:/g"}, whole) == 0);
  CHECK(shell.told({"acl", "get", "-c", "srv:/g"}) == entries + "\n");
  CHECK(shell.status({"acl", "set", "u::rwx,g::r-x,o::---", "srv:/f"}) != 0);  // the other form
  CHECK(shell.status({"acl", "set", "A::OWNER@:R", "srv:/none", "srv:/g"}) == 1);
  CHECK(shell.told({"acl", "get", "-c", "srv:/f"}) == entries + "\n");
  CHECK(shell.told({"acl", "get", "-c", "srv:/g"}) == "A::OWNER@:rtncy\n\n");
}

TEST_CASE("cli: a target that is none is a mistake, one that is missing a failure") {
  Shell shell;
  shell.server.add_file("/f", "");
  CHECK(shell.status({"stat", "nonsense"}) == 2);
  CHECK(shell.status({"stat", "srv:/none"}) == 1);
  CHECK(shell.status({"stat", "srv:/none", "nonsense", "srv:/f"}) == 2);
  const Ran ran = shell.run({"stat", "--json", "srv:/none", "srv:/f"});
  CHECK(ran.status == 1);
  CHECK(ran.out.starts_with("{\"name\":\"f\",\"path\":\"/f\",\"type\":\"regular\",\"mode\":\"0644\","));
  CHECK(shell.server.connections() == 1);  // all of them one server
}

TEST_CASE("cli: df and ping tell what they are asked") {
  Shell shell;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string space = shell.told({"df", "srv:/"});
  CHECK(has(space, "         977         391         489   45%  127.0.0.1:/\n"));
  CHECK(has(shell.told({"df", "-i", "srv:/"}), "        1000         100         800   12%  127.0.0.1:/\n"));
  const std::string three = shell.told({"ping", "--json", "-c", "3", "-i", "0.001", "srv:/"});
  CHECK(std::ranges::count(three, '\n') == 4);
  CHECK(has(three, "\"sent\":3,\"received\":3,\"lost_percent\":0,"));
  CHECK(shell.status({"ping", "-c", "0", "srv:/"}) == 2);
  CHECK(shell.status({"ping", "-i", "0", "srv:/"}) == 2);
}

// ---- transfers ----

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

// ---- limits ----

TEST_CASE(
    "cli: a process that may have no more threads walks trees by itself, and says why it moves no data") {
  if (skips_under_sanitizers()) return;
  Shell shell;
  const Place here;
  shell.server.add_file("/t/s/f", "text");
  shell.server.add_file("/t/g", pattern(200'000));
  (void)shell.client();
  {
    const NoThreads none;
    CHECK(lines_in_order(shell.told({"find", "srv:/t"})) == "/t /t/g /t/s /t/s/f");
    CHECK(shell.status({"cp", "-r", "srv:/t", "srv:/u"}) == 0);
    const Ran got = shell.run({"get", "srv:/t/g", here.path("g")});
    CHECK(got.status == 1);
    CHECK(got.err.find("Resource temporarily unavailable") != std::string::npos);
    CHECK(here.names().empty());
  }
  CHECK((shell.content("/u/g") == pattern(200'000)));
  CHECK(shell.content("/u/s/f") == "text");
  CHECK(shell.status({"get", "srv:/t/g", here.path("g")}) == 0);
  CHECK((here.read("g") == pattern(200'000)));
}

}  // namespace nfsrdma::cli
