// ls with an order, as ls(1) sorts.
#include "cli/list_order.h"

#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

void fill_for_order(Shell& shell) {
  shell.server.add_file("/t/b", "22");
  shell.server.add_file("/t/a", "22");
  shell.server.add_file("/t/large", "4444");
  shell.server.add_file("/t/.dot", "1");
  shell.set_mode("/t/b", 0644, 300);
  shell.set_mode("/t/a", 0644, 100);
  shell.set_mode("/t/large", 0644, 200);
  shell.set_mode("/t/.dot", 0644, 400);
}

}  // namespace

TEST_CASE("cli: ls sorts by time, size and name, and equal entries by name") {
  Shell shell;
  fill_for_order(shell);
  CHECK(shell.told({"ls", "-t", "srv:/t"}) == "b\nlarge\na\n");
  CHECK(shell.told({"ls", "-S", "srv:/t"}) == "large\na\nb\n");
  CHECK(shell.told({"ls", "-r", "srv:/t"}) == "large\nb\na\n");
  CHECK(shell.told({"ls", "-tr1", "srv:/t"}) == "a\nlarge\nb\n");
  CHECK(shell.told({"ls", "-Sr", "srv:/t"}) == "b\na\nlarge\n");
  CHECK(shell.told({"ls", "--sort", "name", "srv:/t"}) == "a\nb\nlarge\n");
  CHECK(shell.told({"ls", "-A", "-t", "srv:/t"}).starts_with(".dot\n"));
  CHECK(shell.told({"ls", "-a", "--sort", "name", "srv:/t"}).starts_with(".\n..\n.dot\na\n"));
  CHECK(lines_in_order(shell.told({"ls", "-U", "srv:/t"})) == "a b large");
}

TEST_CASE("cli: ls -t of several targets shows files first, and directories after them") {
  Shell shell;
  fill_for_order(shell);
  shell.server.add_file("/u/x", "");
  CHECK(shell.told({"ls", "-t", "srv:/u", "srv:/t/a", "srv:/t/b"}) == "srv:/t/b\nsrv:/t/a\n\nsrv:/u:\nx\n");
  CHECK(shell.told({"ls", "-dt", "srv:/t/a", "srv:/t/b"}) == "srv:/t/b\nsrv:/t/a\n");
}

TEST_CASE("cli: ls refuses orders that contradict each other") {
  Shell shell;
  shell.server.add_file("/t/a", "");
  CHECK(shell.status({"ls", "-tS", "srv:/t"}) == exit_usage);
  CHECK(shell.status({"ls", "-tU", "srv:/t"}) == exit_usage);
  CHECK(shell.run({"ls", "--sort", "colour", "srv:/t"}).err.find("'colour'") != std::string::npos);
}

TEST_CASE("list order: an entry without attributes is the smallest and the oldest") {
  const DirectoryEntry bare{"a", 0, {}};
  DirectoryEntry full{"z", 0, Attributes{}};
  full.attributes->size = 1;
  full.attributes->modified = {-5, 0};
  CHECK(comes_before({ListOrder::Key::size, false}, full, bare));
  CHECK(comes_before({ListOrder::Key::time, false}, full, bare));
  CHECK(comes_before({ListOrder::Key::name, false}, bare, full));
}

}  // namespace nfsrdma::cli
