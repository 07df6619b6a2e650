// What tail -f does when the file that it follows changes. Time does not pass: each look is made by hand.
#include "cli/follow.h"

#include <memory>
#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;

namespace {

constexpr std::array<Switch, 0> no_switches{};
constexpr Command following{"tail", run_tail, "TARGET...", "", no_switches, 1, any_number};

/// One file that is followed, and what is written about it.
class Watcher {
 public:
  explicit Watcher(Shell& shell, const std::string& path)
      : client_(shell.client()), followed_({&client_, path, "127.0.0.1", {}}) {
    (void)followed_.begin(call_, headings_, [](const ReadAt&, std::uint64_t) { return std::uint64_t{0}; });
  }
  /// Looks once, and returns what came to standard output.
  std::string look() {
    const std::size_t before = seen();
    found_ = followed_.look(call_, headings_, client_.stat(followed_.remote().path));
    return out_.text().substr(before);
  }
  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] std::string out() const { return out_.text(); }
  [[nodiscard]] std::string err() const { return err_.text(); }

 private:
  [[nodiscard]] std::size_t seen() const { return out_.text().size(); }
  Redirected out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  Client& client_;
  Servers servers_{Options{}};
  Output output_;
  Call call_{following, {}, servers_, output_};
  Headings headings_{call_};
  Followed followed_;
  bool found_ = false;
};

void append(Client& client, const std::string& path, const std::string& text) {
  const auto file = client.open(path, OpenMode::write);
  REQUIRE(file);
  const auto size = (*file)->attributes();
  REQUIRE(size);
  CHECK(ok((*file)->write(bytes(text), size->size)));
  CHECK(ok((*file)->close()));
}

void create(Client& client, const std::string& path, const std::string& text) {
  OpenFlags flags;
  flags.create = true;
  const auto file = client.open(path, OpenMode::write, flags);
  REQUIRE(file);
  CHECK(ok((*file)->write(bytes(text), 0)));
  CHECK(ok((*file)->close()));
}

}  // namespace

TEST_CASE("follow: what is appended is written, and nothing twice") {
  Shell shell;
  shell.server.add_file("/log", "one\n");
  Watcher watcher(shell, "/log");
  CHECK(watcher.out() == "one\n");
  CHECK(watcher.look().empty());
  CHECK_FALSE(watcher.found());
  append(shell.client(), "/log", "two\n");
  CHECK(watcher.look() == "two\n");
  CHECK(watcher.found());
  CHECK(watcher.look().empty());
  CHECK(watcher.err().empty());
}

TEST_CASE("follow: a file that is truncated is reported, and begins anew") {
  Shell shell;
  shell.server.add_file("/log", "a long first line\n");
  Watcher watcher(shell, "/log");
  SetAttributes changes;
  changes.size = 0;
  CHECK(ok(shell.client().set_attributes("/log", changes)));
  append(shell.client(), "/log", "new\n");
  CHECK(watcher.look() == "new\n");
  CHECK(watcher.err().find("file truncated") != std::string::npos);
}

TEST_CASE("follow: a log that is rotated is read to its end, and then the new one from its beginning") {
  Shell shell;
  shell.server.add_file("/log", "one\n");
  Watcher watcher(shell, "/log");
  append(shell.client(), "/log", "last\n");
  CHECK(ok(shell.client().rename("/log", "/log.1")));
  create(shell.client(), "/log", "first of the new one\n");
  CHECK(watcher.look() == "last\nfirst of the new one\n");
  CHECK(watcher.err().find("has been replaced") != std::string::npos);
  append(shell.client(), "/log", "more\n");
  CHECK(watcher.look() == "more\n");
}

TEST_CASE("follow: a file that is gone is reported once, and found again") {
  Shell shell;
  shell.server.add_file("/log", "one\n");
  Watcher watcher(shell, "/log");
  CHECK(ok(shell.client().rename("/log", "/elsewhere")));
  CHECK(watcher.look().empty());
  const std::string first = watcher.err();
  CHECK(first.find("/log") != std::string::npos);
  CHECK(watcher.look().empty());
  CHECK(watcher.err() == first);
  create(shell.client(), "/log", "back\n");
  CHECK(watcher.look() == "back\n");
}

TEST_CASE("follow: a file that is not there yet is followed when it appears") {
  Shell shell;
  Watcher watcher(shell, "/log");
  CHECK(watcher.out().empty());
  CHECK(watcher.look().empty());
  create(shell.client(), "/log", "here\n");
  CHECK(watcher.look() == "here\n");
  CHECK(watcher.err().find("has appeared") != std::string::npos);
}

TEST_CASE("follow: the pauses are short after something has happened, and grow to a bound") {
  LookPauses pauses({});
  CHECK(pauses.next(true) == LookPauses::shortest);
  CHECK(pauses.next(false) == 2 * LookPauses::shortest);
  for (int i = 0; i < 10; ++i) (void)pauses.next(false);
  CHECK(pauses.next(false) == LookPauses::longest);
  CHECK(pauses.next(true) == LookPauses::shortest);
  LookPauses fixed(LookPauses::Pause{70});
  CHECK(fixed.next(true) == LookPauses::Pause{70});
  CHECK(fixed.next(false) == LookPauses::Pause{70});
}

}  // namespace nfsrdma::cli
