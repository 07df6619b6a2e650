// Paths on an engine that is no NFSv4 (support/plain_engine.h): where symbolic links are followed, how often,
// and what a path without them costs.
#include "engine/paths.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "support/plain_engine.h"

namespace nfsrdma::engine {
namespace {

using fs::plain::PlainEngine;

/// A tree: /dir/file, /dir/sub/deep, and links.
struct Tree {
  Tree() {
    dir = make("dir", 1, FileType::directory);
    sub = make("sub", dir, FileType::directory);
    file = make("file", dir, FileType::regular);
    deep = make("deep", sub, FileType::regular);
    engine.tells = true;
  }
  std::uint64_t make(const std::string& name, std::uint64_t in, FileType type, const std::string& text = {}) {
    const std::uint64_t id = next++;
    engine.nodes.at(in).names[name] = id;
    engine.nodes[id].type = type;
    engine.nodes[id].content = text;
    return id;
  }
  void link(const std::string& name, std::uint64_t in, const std::string& text) {
    make(name, in, FileType::symlink, text);
  }
  std::uint64_t find(const std::string& path, bool follow = true) {
    return number(loop.run(paths.find(*Path::parse(path), follow)));
  }
  std::uint64_t find_at(std::uint64_t directory, const std::string& path) {
    const auto at = Path::parse_at(PlainEngine::handle(directory), path);
    return number(loop.run(paths.find(*at, true)));
  }
  template <class T>
  int error(async::Task<Result<T>> task) {
    const auto got = loop.run(std::move(task));
    return got ? 0 : got.error().errno_value();
  }
  /// 0, with the error kept, where nothing was found.
  std::uint64_t number(const Result<Object>& object) {
    if (object) return PlainEngine::id_of(object->handle);
    failed = object.error().errno_value();
    return 0;
  }
  static Path at(const std::string& text) { return *Path::parse(text); }

  async::Loop loop;
  std::string calls;
  PlainEngine engine{loop, calls};
  Paths paths{engine};
  std::uint64_t next = 100;
  std::uint64_t dir = 0, sub = 0, file = 0, deep = 0;
  int failed = 0;
};

}  // namespace

TEST_CASE("paths: without links there is one call") {
  Tree t;
  CHECK(t.find("/dir/sub/deep") == t.deep);
  CHECK(t.calls == "lookup");
  CHECK(t.find("/") == 1);
  CHECK(t.find("/dir/none") == 0);
  CHECK(t.failed == ENOENT);
  t.calls.clear();
  CHECK(t.find("/dir/file/x") == 0);
  CHECK(t.failed == ENOTDIR);
  CHECK(t.calls == "lookup read_link read_link read_link");  // none of them is a link
}

TEST_CASE("paths: links are followed on the way, and at the end where that is asked for") {
  Tree t;
  t.link("relative", t.dir, "sub");
  t.link("absolute", t.sub, "/dir/file");
  t.link("up", t.sub, "../file");
  t.link("chain", 1, "dir/relative/up");
  CHECK(t.find("/dir/relative/deep") == t.deep);
  CHECK(t.find("/dir/relative/absolute") == t.file);
  CHECK(t.find("/dir/sub/up") == t.file);
  CHECK(t.find("/chain") == t.file);
  const std::uint64_t chain = t.find("/chain", false);
  CHECK(t.engine.nodes.at(chain).type == FileType::symlink);
  CHECK(*t.loop.run(t.paths.read_link(t.at("/dir/relative/up"))) == "../file");
  CHECK(t.error(t.paths.read_link(t.at("/dir/relative"))) == 0);
  CHECK(t.error(t.paths.read_link(t.at("/dir/file"))) == EINVAL);
}

TEST_CASE("paths: what is known of the way is not asked for again") {
  Tree t;
  t.link("here", t.sub, "deep");
  CHECK(t.find("/dir/sub/here") == t.deep);
  // dir, sub and here are looked at once; deep is no link.
  CHECK(t.calls == "lookup read_link read_link read_link read_link lookup");
}

TEST_CASE("paths: a circle of links is ELOOP, whatever is asked for") {
  Tree t;
  t.link("a", 1, "b");
  t.link("b", 1, "a");
  t.link("self", 1, "self/x");
  CHECK(t.find("/a") == 0);
  CHECK(t.failed == ELOOP);
  CHECK(t.find("/self") == 0);
  CHECK(t.failed == ELOOP);
  CHECK(t.error(t.paths.access(t.at("/a"), R_OK)) == ELOOP);
  CHECK(t.error(t.paths.space(t.at("/a/x"))) == ELOOP);
  CHECK(t.error(t.paths.list(t.at("/a"))) == ELOOP);
  CHECK(t.error(t.paths.open(t.at("/a"), Access::read, std::nullopt)) == ELOOP);
  CHECK(t.error(t.paths.make_directory(t.at("/a/x"), 0755)) == ELOOP);
  CHECK(t.error(t.paths.rename(t.at("/dir/file"), t.at("/a/x"))) == ELOOP);
  CHECK(t.find("/a", false) != 0);
}

TEST_CASE("paths: forty links are followed, not one more") {
  Tree t;
  for (int i = 0; i <= 40; ++i) {
    t.link("l" + std::to_string(i), 1, i == 0 ? "dir/file" : "l" + std::to_string(i - 1));
  }
  CHECK(t.find("/l39") == t.file);
  CHECK(t.find("/l40") == 0);
  CHECK(t.failed == ELOOP);
}

TEST_CASE("paths: from an open directory, and out of it") {
  Tree t;
  t.link("out", t.sub, "../file");
  t.link("far", t.sub, "../../../dir/file");
  t.link("absolute", t.sub, "/dir");
  CHECK(t.find_at(t.sub, "deep") == t.deep);
  CHECK(t.calls == "lookup");
  CHECK(t.find_at(t.sub, "") == t.sub);
  CHECK(t.find_at(t.sub, ".") == t.sub);
  CHECK(t.find_at(t.sub, "../file") == t.file);
  CHECK(t.find_at(t.sub, "../../dir/sub") == t.sub);
  CHECK(t.find_at(t.sub, "../../../../dir") == t.dir);  // above the root there is the root
  CHECK(t.find_at(t.sub, "out") == t.file);
  CHECK(t.find_at(t.sub, "far") == t.file);
  CHECK(t.find_at(t.sub, "absolute/sub/deep") == t.deep);
  CHECK(t.find_at(t.dir, "/dir/file") == t.file);
  t.engine.fail("parent", EACCES);
  CHECK(t.find_at(t.sub, "../file") == 0);
  CHECK(t.failed == EACCES);
}

TEST_CASE("paths: what a link at the end means for what is made, removed and renamed") {
  Tree t;
  t.link("to_file", 1, "dir/file");
  t.link("to_dir", 1, "dir");
  t.link("nowhere", 1, "dir/new");
  CHECK(t.error(t.paths.make_directory(t.at("/to_dir"), 0755)) == EEXIST);
  CHECK(t.error(t.paths.make_directory(t.at("/to_dir/made"), 0755)) == 0);
  CHECK(t.engine.nodes.at(t.dir).names.contains("made"));
  CHECK(t.error(t.paths.remove(t.at("/to_dir"), Engine::Removed::directory)) == ENOTDIR);
  CHECK(t.error(t.paths.remove(t.at("/dir"), Engine::Removed::file)) == EISDIR);
  CHECK(t.error(t.paths.remove(t.at("/to_file"), Engine::Removed::file)) == 0);
  CHECK(t.find("/dir/file") == t.file);
  CHECK(t.error(t.paths.rename(t.at("/to_dir/file"), t.at("/to_dir/sub/moved"))) == 0);
  CHECK(t.find("/dir/sub/moved") == t.file);
  CHECK(t.error(t.paths.link(t.at("/to_dir/sub/moved"), t.at("/again"))) == 0);
  CHECK(t.find("/again") == t.file);
  CHECK(t.error(t.paths.make_symlink("x", t.at("/to_dir/made/link"))) == 0);

  Engine::Creation how;
  CHECK(t.error(t.paths.open(t.at("/nowhere"), Access::write, std::nullopt)) == ENOENT);
  how.exclusive = true;
  CHECK(t.error(t.paths.open(t.at("/nowhere"), Access::write, how)) == EEXIST);
  how.exclusive = false;
  CHECK(t.error(t.paths.open(t.at("/nowhere"), Access::write, how)) == 0);
  CHECK(t.engine.nodes.at(t.dir).names.contains("new"));
}

TEST_CASE("paths: where a path begins nothing is made or removed") {
  Tree t;
  CHECK(t.error(t.paths.make_directory(t.at("/"), 0755)) == EEXIST);
  CHECK(t.error(t.paths.make_symlink("x", t.at("/"))) == EEXIST);
  CHECK(t.error(t.paths.link(t.at("/dir/file"), t.at("/"))) == EEXIST);
  CHECK(t.error(t.paths.remove(t.at("/"), Engine::Removed::directory)) == EACCES);
  CHECK(t.error(t.paths.rename(t.at("/"), t.at("/x"))) == EACCES);
  CHECK(t.error(t.paths.rename(t.at("/dir"), t.at("/"))) == EACCES);
  CHECK(t.error(t.paths.open(t.at("/"), Access::read, std::nullopt)) == EISDIR);
  t.link("root", 1, "/");
  CHECK(t.error(t.paths.open(t.at("/root"), Access::read, std::nullopt)) == EISDIR);
  CHECK(t.find("/root/dir/sub") == t.sub);
  CHECK(t.calls.find("remove") == std::string::npos);
}

TEST_CASE("paths: an error in the middle of following comes out") {
  Tree t;
  t.link("l", 1, "dir");
  t.engine.fail("read_link", EACCES);
  CHECK(t.find("/l/file") == 0);
  CHECK(t.failed == EACCES);
  t.engine.fail("lookup", EIO);
  CHECK(t.find("/l/file") == 0);
  CHECK(t.failed == EIO);
}

}  // namespace nfsrdma::engine
