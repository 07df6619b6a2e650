// touch, truncate, chmod, chown and acl, as a shell asks for them.
#include <string>
#include <utility>

#include "cli/commands.h"
#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

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

TEST_CASE("cli: acl --json has an object for each list that is shown or set") {
  Shell shell;
  shell.server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
  shell.server.add_file("/f", "");
  CHECK(shell.told({"acl", "set", "--json", "A::OWNER@:rw", "srv:/f"}) ==
        "{\"action\":\"acl\",\"target\":\"srv:/f\"}\n");
  const Ran ran = shell.run({"acl", "get", "--json", "srv:/none", "srv:/f"});
  CHECK(ran.out == R"({"path":"/f","target":"srv:/f","form":"nfs4","entries":[{"type":"allow","flags":"",)"
                   R"("who":"OWNER@","permissions":"rw","mask":3,"text":"A::OWNER@:rw"}]})"
                   "\n");
  CHECK(with_name(ran.err).starts_with(R"({"kind":"server","target":"srv:/none",)"));
  CHECK(ran.status == 1);
}

TEST_CASE("cli: chown says that the owner comes first") {
  Shell shell;
  shell.server.add_file("/a", "");
  const Ran ran = shell.run({"chown", "srv:/a", "0"});
  CHECK(ran.status == exit_usage);
  CHECK(ran.err.find("chown takes an owner such as") != std::string::npos);
}

}  // namespace nfsrdma::cli
