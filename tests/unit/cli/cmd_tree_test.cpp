// Names on the server, as a shell asks for them: ln, mv, mkdir, cp.
#include <string>

#include "cli/commands.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

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

TEST_CASE("cli: a target that ends in a slash is a directory, and no file is made or replaced by it") {
  Shell shell;
  shell.server.add_file("/a", "1");
  shell.server.add_file("/b", "2");
  shell.server.add_file("/d/c", "3");
  for (const char* command : {"mv", "cp", "ln"}) {
    CAPTURE(command);
    for (const char* target : {"srv:/none/", "srv:/b/"}) {
      const Ran ran = shell.run({command, "srv:/a", target});
      CHECK(ran.status == 1);
      CHECK(ran.err.find("is not a directory; omit the trailing slash") != std::string::npos);
    }
  }
  CHECK(shell.status({"touch", "srv:/none/"}) == 1);
  CHECK(shell.status({"truncate", "-s", "5", "srv:/none/"}) == 1);
  CHECK(shell.names("/") == "a b d");
  CHECK(shell.content("/b") == "2");
  CHECK(shell.status({"cp", "-r", "srv:/d", "srv:/e/"}) == 0);
  CHECK(shell.status({"mv", "srv:/d", "srv:/f/"}) == 0);
  CHECK(shell.names("/") == "a b e f");
  CHECK(shell.status({"mv", "srv:/a", "srv:/e/"}) == 0);
  CHECK(shell.names("/e") == "a c");
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

TEST_CASE("cli: cp -u skips a copy of the same size that is not older, and copies over any other") {
  Shell shell;
  shell.server.add_file("/f", "first");
  shell.set_mode("/f", 0644, 2000);
  shell.server.add_file("/copy", "other");
  shell.set_mode("/copy", 0644, 3000);
  CHECK(shell.told({"cp", "-u", "--json", "srv:/f", "srv:/copy"}).empty());
  CHECK(shell.content("/copy") == "other");
  shell.set_mode("/copy", 0644, 1999);
  CHECK(shell.status({"cp", "-u", "srv:/f", "srv:/copy"}) == 0);
  CHECK(shell.content("/copy") == "first");
  // Another size is what a copy that was cut off has.
  CHECK(shell.status({"truncate", "-s", "3", "srv:/copy"}) == 0);
  shell.set_mode("/copy", 0644, 3000);
  CHECK(shell.status({"cp", "-u", "srv:/f", "srv:/copy"}) == 0);
  CHECK(shell.content("/copy") == "first");
  CHECK(shell.status({"cp", "-u", "srv:/f", "srv:/new"}) == 0);
  CHECK(shell.content("/new") == "first");
  CHECK(shell.run({"cp", "-u", "srv:/f", "srv:/f"}).err.find("is the same file") != std::string::npos);
}

TEST_CASE("cli: cp -ru copies what is missing in a tree, nothing twice, and never the copy itself") {
  Shell shell;
  for (const char* path : {"/t/a", "/t/sub/b"}) {
    shell.server.add_file(path, "text");
    shell.set_mode(path, 0644, 10);  // the server's clock begins at 1000
  }
  shell.server.add_file("/t/sub/large", pattern(200'000));
  shell.set_mode("/t/sub/large", 0644, 10);
  shell.server.add_symlink("/t/link", "a");
  const std::vector<std::string> again = {"cp", "-ruqT", "--json", "srv:/t", "srv:/u"};
  CHECK(shell.told(again).find(R"("files":4,)") != std::string::npos);
  CHECK((shell.content("/u/sub/large") == pattern(200'000)));
  CHECK(shell.told(again).find(R"("files":0,"bytes":0})") != std::string::npos);
  CHECK(ok(shell.client().remove_file("/u/sub/b")));
  CHECK(shell.status({"truncate", "-s", "100000", "srv:/u/sub/large"}) == 0);
  CHECK(shell.told(again).find(R"("files":2,)") != std::string::npos);
  CHECK((shell.content("/u/sub/large") == pattern(200'000)));
  CHECK(shell.names("/u") == "a link sub");
  // A copy inside the tree, by a path that does not show that.
  shell.server.add_symlink("/way", "t/sub");
  const Ran inside = shell.run({"cp", "-ruq", "srv:/t", "srv:/way"});
  CHECK(inside.status == 1);
  CHECK(inside.err.find("skipped") != std::string::npos);
  CHECK(shell.names("/t/sub/t") == "a link sub");
  CHECK_FALSE(shell.is_there("/t/sub/t/sub/t"));
}

}  // namespace nfsrdma::cli
