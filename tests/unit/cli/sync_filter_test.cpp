// Patterns of sync, as rsync(1) describes them.
#include "cli/sync_filter.h"

#include <string>

#include "support/cli_shell.h"

namespace nfsrdma::cli {

TEST_CASE("sync filter: stars, question marks and classes") {
  CHECK(glob_matches("*.c", "a.c"));
  CHECK(glob_matches("a*b*c", "axxbyybzc"));
  CHECK_FALSE(glob_matches("*.c", "a.cc"));
  CHECK_FALSE(glob_matches("*", "a/b"));
  CHECK(glob_matches("**", "a/b"));
  CHECK(glob_matches("a**d", "a/b/c/d"));
  CHECK(glob_matches("a/**/d", "a/b/c/d"));
  CHECK_FALSE(glob_matches("a/**/d", "a/d"));
  CHECK(glob_matches("**/x*y", "a/b/xzy"));
  CHECK_FALSE(glob_matches("**/x*y", "a/x/y"));
  CHECK(glob_matches("?b", "ab"));
  CHECK_FALSE(glob_matches("a?b", "a/b"));
  CHECK(glob_matches("[a-c]x", "bx"));
  CHECK_FALSE(glob_matches("[!a-c]x", "bx"));
  CHECK(glob_matches("[]x]", "]"));
  CHECK(glob_matches("[a", "[a"));
  CHECK_FALSE(glob_matches("a[!b]c", "a/c"));
  CHECK(glob_matches("\\*", "*"));
  CHECK_FALSE(glob_matches("\\*", "a"));
  CHECK(glob_matches("", ""));
  CHECK_FALSE(glob_matches("", "a"));
  // Many stars take no longer than the product of the lengths.
  CHECK_FALSE(glob_matches("*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST_CASE("sync filter: slashes say where a pattern matches, and what") {
  const auto out = [](const char* pattern, const char* path, bool directory = false) {
    SyncFilter filter;
    filter.exclude(pattern);
    return filter.leaves_out(path, directory);
  };
  CHECK(out("foo", "foo"));
  CHECK(out("foo", "a/b/foo"));
  CHECK_FALSE(out("foo", "foo/a"));  // the directory is left out, and not entered
  CHECK(out("/foo", "foo"));
  CHECK_FALSE(out("/foo", "a/foo"));
  CHECK(out("foo/", "a/foo", true));
  CHECK_FALSE(out("foo/", "a/foo"));
  CHECK(out("a/foo", "x/a/foo"));
  CHECK_FALSE(out("a/foo", "xa/foo"));
  CHECK_FALSE(out("a/foo", "a/x/foo"));
  CHECK(out("/a/**/foo", "a/x/y/foo"));
  CHECK(out("a**foo", "x/a/y/foo"));
  CHECK(out("d/***", "d", true));
  CHECK_FALSE(out("d/***", "d"));
  CHECK(out("d/***", "x/d/e/f"));
  CHECK_FALSE(out("/d/***", "x/d/e"));
  CHECK(out("\xff*", "\xff\xfe"));
}

TEST_CASE("sync filter: the first pattern that matches decides, and none takes the name") {
  SyncFilter filter;
  filter.include("*/");
  filter.include("*.c");
  filter.exclude("*");
  CHECK_FALSE(filter.leaves_out("a", true));
  CHECK_FALSE(filter.leaves_out("a/b.c", false));
  CHECK(filter.leaves_out("a/b.h", false));
  CHECK_FALSE(SyncFilter().leaves_out("a", false));
}

TEST_CASE("sync filter: a file has one pattern on a line, with comments and signs") {
  const Place here;
  here.write("patterns", "# comment\n; comment\n\n+ keep.o\n*.o\r\n- /tmp\n");
  SyncFilter filter;
  CHECK(filter.add_file(here.path("patterns")));
  CHECK(filter.leaves_out("a/b.o", false));
  CHECK_FALSE(filter.leaves_out("a/keep.o", false));
  CHECK(filter.leaves_out("tmp", true));
  CHECK_FALSE(filter.leaves_out("# comment", false));
  CHECK_FALSE(filter.add_file(here.path("none")));
}

}  // namespace nfsrdma::cli
