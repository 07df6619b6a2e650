// Path: names out of text, and symbolic links put in.
#include "nfs4/path.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace nfsrdma::nfs4 {
namespace {

Path parsed(std::string_view text) {
  auto path = Path::parse(text);
  REQUIRE(path);
  return *path;
}

std::string after(std::string_view text, std::size_t index, std::string_view link) {
  Path path = parsed(text);
  REQUIRE(path.substitute(index, link));
  return path.text();
}

}  // namespace

TEST_CASE("path: names between slashes, without '.', '..' and empty ones") {
  CHECK(parsed("/").is_root());
  CHECK(parsed("").is_root());
  CHECK(parsed("///").is_root());
  CHECK(parsed("/..").is_root());
  CHECK(parsed("/").text() == "/");
  CHECK(parsed("/a/b").names() == std::vector<std::string>{"a", "b"});
  CHECK(parsed("a//b/").text() == "/a/b");
  CHECK(parsed("/a/./b/../c").text() == "/a/c");
  CHECK(parsed("/a/../../b").text() == "/b");
  CHECK(parsed("/.../..a").text() == "/.../..a");
  CHECK(parsed("/a/b").last() == "b");
  CHECK(parsed("/a/b").parent().text() == "/a");
  CHECK(parsed("/a").parent().is_root());
  CHECK(parsed("/").parent().is_root());
}

TEST_CASE("path: what the protocol could not carry is refused") {
  CHECK(Path::parse("/" + std::string(4096, 'x')));
  const auto long_name = Path::parse("/" + std::string(4097, 'x'));
  REQUIRE_FALSE(long_name);
  CHECK(long_name.error().errno_value() == ENAMETOOLONG);
  CHECK(long_name.error().text().size() < 300);
  std::string deep;
  for (int i = 0; i < 4096; ++i) deep += "/a";
  CHECK(Path::parse(deep));
  const auto deeper = Path::parse(deep + "/a");
  REQUIRE_FALSE(deeper);
  CHECK(deeper.error().errno_value() == ENAMETOOLONG);
  CHECK(Path::parse(deep + "/../a"));
}

TEST_CASE("path: a symbolic link is replaced by what it points to") {
  CHECK(after("/a/l/b", 1, "c/d") == "/a/c/d/b");
  CHECK(after("/a/l/b", 1, "/c/d") == "/c/d/b");
  CHECK(after("/a/l/b", 1, "../c") == "/c/b");
  CHECK(after("/a/l/b", 1, "../../../c") == "/c/b");
  CHECK(after("/a/l/b", 1, ".") == "/a/b");
  CHECK(after("/a/l", 1, "/") == "/");
  CHECK(after("/l", 0, "x") == "/x");
  CHECK(after("/a/b/l", 2, "x/../y") == "/a/b/y");
}

TEST_CASE("path: more than forty links are a loop") {
  Path path = parsed("/l/x");
  for (int i = 0; i < 40; ++i) REQUIRE(path.substitute(0, "l"));
  const auto loop = path.substitute(0, "l");
  REQUIRE_FALSE(loop);
  CHECK(loop.error().errno_value() == ELOOP);
  CHECK(path.text() == "/l/x");
}

TEST_CASE("path: links cannot make it grow without bound") {
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "/a";
  Path path = parsed(deep);
  const auto grown = path.substitute(2999, std::string_view(deep).substr(1));
  REQUIRE_FALSE(grown);
  CHECK(grown.error().errno_value() == ENAMETOOLONG);
}

}  // namespace nfsrdma::nfs4
