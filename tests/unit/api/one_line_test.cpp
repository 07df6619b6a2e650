// Names in messages: what becomes one line, of a name and of a log.
#include "nfsrdma/one_line.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "fuse/log.h"
#include "support/scratch.h"

namespace nfsrdma {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("one_line: what ends a line or moves a cursor is escaped, and text is not") {
  struct Row {
    std::string_view text, line;
  };
  constexpr Row rows[] = {
      {"", ""},
      {"/a b/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\\n", "/a b/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\\n"},
      {"a\nb\rc\td", R"(a\nb\rc\td)"},
      {"\x1b]0;x\x07\x7f", R"(\x1b]0;x\x07\x7f)"},
      {std::string_view("a\0b", 3), R"(a\x00b)"},
      // C1, as such and as an octet: CSI.
      {"\xc2\x9b"
       "2J \x9b"
       "2J",
       R"(\xc2\x9b2J \x9b2J)"},
      {"\xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9", R"(\xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9)"},
      {"\xe2\x80\xae"
       "txt",
       R"(\xe2\x80\xaetxt)"},
      // Too long, a surrogate, beyond the last, cut off.
      {"\xc0\x8a \xe0\x80\x8a", R"(\xc0\x8a \xe0\x80\x8a)"},
      {"\xed\xa0\x80", R"(\xed\xa0\x80)"},
      {"\xf4\x90\x80\x80", R"(\xf4\x90\x80\x80)"},
      {"\xe2\x82", R"(\xe2\x82)"},
      {"\xff", R"(\xff)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(one_line(row.text) == row.line);
  }
}

TEST_CASE("fuse: a name makes no second line in the log") {
  const testing::Scratch scratch("log");
  fuse::MountOptions options;
  options.log = scratch.path() + "/log";
  const fuse::Log log = fuse::log_of(options);
  log("/mnt/a\n/mnt: the server does not answer\x1b[2J: EIO");
  CHECK(content(options.log) == "/mnt/a\\n/mnt: the server does not answer\\x1b[2J: EIO\n");
  fuse::log_lines(log, "one\ntwo\n");
  CHECK(content(options.log).ends_with("EIO\none\ntwo\n"));
}

}  // namespace nfsrdma
