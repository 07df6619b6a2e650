// Path: names out of text, and symbolic links put in.
#include "engine/path.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace nfsrdma::engine {
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
  CHECK(parsed("/").is_begin());
  CHECK(parsed("").is_begin());
  CHECK(parsed("///").is_begin());
  CHECK(parsed("/..").is_begin());
  CHECK(parsed("/").text() == "/");
  CHECK(parsed("/a/b").names() == std::vector<std::string>{"a", "b"});
  CHECK(parsed("a//b/").text() == "/a/b");
  CHECK(parsed("/a/./b/../c").text() == "/a/c");
  CHECK(parsed("/a/../../b").text() == "/b");
  CHECK(parsed("/.../..a").text() == "/.../..a");
  CHECK(parsed("/a/b").last() == "b");
  CHECK(parsed("/a/b").parent().text() == "/a");
  CHECK(parsed("/a").parent().is_begin());
  CHECK(parsed("/").parent().is_begin());
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

TEST_CASE("path: how many of the names before a link stay when it is replaced") {
  const auto stay = [](std::string_view text, std::size_t index, std::string_view link) {
    Path path = parsed(text);
    return *path.substitute(index, link);
  };
  CHECK(stay("/a/b/l/c", 2, "x") == 2);
  CHECK(stay("/a/b/l/c", 2, "../x") == 1);
  CHECK(stay("/a/b/l/c", 2, "x/../../y/../z") == 1);
  CHECK(stay("/a/b/l/c", 2, "../../../../x") == 0);
  CHECK(stay("/a/b/l/c", 2, "/a/b/x") == 0);
}

TEST_CASE("path: from a directory, and out of it") {
  const FileHandle begin{2, {std::byte{7}, std::byte{9}}};
  const auto at = [&](std::string_view text) { return *Path::parse_at(begin, text); };
  CHECK(at("a/../b").text() == "b");
  CHECK(at("a/b").spot().from == begin);
  CHECK(at("").text() == ".");
  CHECK(at("").is_begin());
  CHECK(at("../a").above() == 1);
  CHECK(at("../a").text() == "../a");
  CHECK(at("a/../../../b").above() == 2);
  CHECK_FALSE(at("/a").begin());
  Path path = at("l");
  REQUIRE(path.substitute(0, "../x"));
  CHECK(path.above() == 1);
  path.rise(FileHandle{1, {std::byte{3}}});
  CHECK(path.above() == 0);
  CHECK(path.spot().from->length == 1);
  REQUIRE(path.substitute(0, "/y"));
  CHECK(path.text() == "/y");
  CHECK_FALSE(path.spot().from);
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

}  // namespace nfsrdma::engine
