// Directories above the exports, for which the server has no handles (nfs3/above.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs3/engine.h"
#include "support/v3_fixture.h"

namespace nfsrdma::nfs3 {
namespace {

using namespace testing;

/// One export, /srv/data: what is above it has no handles of the server's.
class OneExport final : public engine::Roots {
 public:
  int forgotten = 0;

  async::Task<Result<engine::Root>> find(std::vector<std::string> names) override {
    if (begins_with(names, path_)) co_return engine::Root{root_, path_.size()};
    if (begins_with(path_, names)) co_return engine::Root{{}, names.size()};
    co_return Error(ErrorKind::server, ENOENT, "MNT", "model", "there is no such export");
  }
  async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> names) override {
    std::vector<std::string> out;
    if (names.size() < path_.size() && begins_with(path_, names)) out.push_back(path_[names.size()]);
    co_return std::move(out);
  }
  void forget(const engine::FileHandle& root) override {
    if (root == root_) ++forgotten;
  }

 private:
  static bool begins_with(const std::vector<std::string>& names, const std::vector<std::string>& first) {
    return first.size() <= names.size() && std::equal(first.begin(), first.end(), names.begin());
  }
  const std::vector<std::string> path_{"srv", "data"};
  const engine::FileHandle root_ = handle_of(1);
};

/// A client that begins at the server's "/".
struct WholeServer {
  Scene3 s;
  OneExport roots;
  Nfs3Engine engine{s.calls, roots};

  static Spot at(std::vector<std::string> names) { return {std::nullopt, std::move(names)}; }
  engine::Object find(Spot spot) { return s.get(engine.find(s.who, std::move(spot))); }
  engine::Page list(Spot spot) { return s.get(engine.list(s.who, std::move(spot), 0, {})); }
};

}  // namespace

TEST_CASE("nfs3: directories above the exports are shown, and lead to them") {
  WholeServer m;
  m.s.server.add_file("/f", "text");
  const auto top = m.find(Spot());
  REQUIRE(top.attributes);
  CHECK(top.attributes->type == FileType::directory);
  CHECK(top.attributes->mode == 0555);
  CHECK(m.s.get(m.engine.attributes(m.s.who, top.handle)).type == FileType::directory);

  const auto above = m.list(Spot());
  CHECK(above.eof);
  REQUIRE(above.entries.size() == 1);
  CHECK(above.entries[0].name == "srv");
  CHECK(above.entries[0].attributes.type == FileType::directory);
  REQUIRE(above.entries[0].handle);
  const FileHandle middle = *above.entries[0].handle;
  CHECK(middle != top.handle);
  CHECK(above.entries[0].attributes.file_id != top.attributes->file_id);
  // It is the same one each time.
  CHECK(m.find(WholeServer::at({"srv"})).handle == middle);
  CHECK(m.find(Spot()).handle == top.handle);

  const auto exports = m.list(middle);
  REQUIRE(exports.entries.size() == 1);
  CHECK(exports.entries[0].name == "data");
  CHECK(exports.entries[0].handle == m.s.root);
  CHECK(exports.entries[0].attributes.type == FileType::directory);
  CHECK(m.find(Spot(middle, {"data", "f"})).attributes->size == 4);
  CHECK(m.s.error(m.engine.find(m.s.who, WholeServer::at({"srv", "other"}))) == ENOENT);

  CHECK(m.s.get(m.engine.parent(m.s.who, middle)).handle == top.handle);
  CHECK(m.s.get(m.engine.parent(m.s.who, top.handle)).handle == top.handle);
}

TEST_CASE("nfs3: a directory above the exports cannot be changed, and the server is not asked about it") {
  WholeServer m;
  const FileHandle top = m.find(Spot()).handle;
  m.s.server.clear_calls();
  CHECK(m.s.get(m.engine.access(m.s.who, top, R_OK | W_OK | X_OK)).granted == (R_OK | X_OK));
  const auto space = m.s.get(m.engine.space(m.s.who, top));
  CHECK(space.type == FileType::directory);
  CHECK(space.space.total == 0);
  CHECK(m.s.error(m.engine.set_attributes(m.s.who, top, mode(0700), nullptr)) == EROFS);
  CHECK(m.s.error(m.engine.make_directory(m.s.who, top, "d", 0755)) == EROFS);
  CHECK(m.s.error(m.engine.make_directory(m.s.who, Spot(), "d", 0755)) == EROFS);
  CHECK(m.s.error(m.engine.open_at(m.s.who, top, "f", engine::Access::both, engine::Engine::Creation())) ==
        EROFS);
  CHECK(m.s.error(m.engine.remove(m.s.who, top, "srv", engine::Engine::Removed::directory)) == EROFS);
  CHECK(m.s.error(m.engine.rename(m.s.who, top, "srv", top, "other", std::nullopt)) == EROFS);
  CHECK(m.s.error(m.engine.read_link(m.s.who, top)) == EINVAL);
  CHECK(m.s.error(m.engine.get_acl(m.s.who, top)) == EOPNOTSUPP);
  CHECK(m.s.server.calls().empty());
}

TEST_CASE("nfs3: an export whose root the server does not know any more is asked for again") {
  WholeServer m;
  m.s.server.add_file("/d/f", "text");
  const Spot file = WholeServer::at({"srv", "data", "d", "f"});
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_STALE);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == ESTALE);
  CHECK(m.roots.forgotten == 1);
  // Behind the root something else has gone, and the root has not.
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_STALE, 1, 1);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == ESTALE);
  m.s.server.answer(nfs4::OP_LOOKUP, nfs4::NFS4ERR_ACCESS);
  CHECK(m.s.error(m.engine.find(m.s.who, file)) == EACCES);
  CHECK(m.roots.forgotten == 1);
  CHECK(m.find(file).attributes->size == 4);
}

}  // namespace nfsrdma::nfs3
