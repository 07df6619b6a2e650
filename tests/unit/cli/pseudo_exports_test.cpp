// Exports as a client of NFSv4 finds them.
#include "cli/pseudo_exports.h"

#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"

namespace nfsrdma::cli {

using namespace nfsrdma::testing;

namespace {

struct Exporting {
  NfsServer server;
  std::unique_ptr<Client> client;

  Exporting() {
    auto made = Client::connect(server.target());
    if (!made) FAIL(made.error().text());
    client = std::move(*made);
  }
  void on_state(const std::function<void(ServerState&)>& change) {
    server.on_server([&](Responder& responder) { change(responder.state); });
  }
  std::string found() {
    const auto paths = pseudo_exports(*client);
    if (!paths) return paths.error().text();
    std::string out;
    for (const std::string& path : *paths) out += (out.empty() ? "" : " ") + path;
    return out;
  }
};

}  // namespace

TEST_CASE("cli: exports of NFSv4, by what is in the directories that lead to them") {
  Exporting m;
  SUBCASE("an empty server") {
    CHECK(m.found() == "/");
  }
  SUBCASE("the root is an export") {
    m.server.add_file("/f", "text");
    CHECK(m.found() == "/");
    m.on_state([](ServerState& state) { state.make_export("/inner"); });
    CHECK(m.found() == "/ /inner");
  }
  SUBCASE("the root only leads to them") {
    m.on_state([](ServerState& state) {
      state.make_export("/two");
      state.make_export("/one");
    });
    CHECK(m.found() == "/one /two");
  }
  SUBCASE("and so do directories below it") {
    REQUIRE(ok(m.client->make_directory("/way", 0755)));
    m.on_state([](ServerState& state) {
      state.make_export("/way/one");
      state.make_export("/way/two");
    });
    CHECK(m.found() == "/way/one /way/two");
  }
  SUBCASE("an export may hold nothing but directories") {
    m.on_state([](ServerState& state) { state.make_export("/home"); });
    REQUIRE(ok(m.client->make_directory("/home/joe", 0755)));
    CHECK(m.found() == "/home");
  }
  SUBCASE("one of very many directories costs little") {
    m.on_state([](ServerState& state) { state.make_export("/home"); });
    for (int i = 0; i < 300; ++i) REQUIRE(ok(m.client->make_directory("/home/" + std::to_string(i), 0755)));
    m.server.clear_calls();
    CHECK(m.found() == "/home");
    CHECK(m.server.calls().size() < 200);
  }
}

}  // namespace nfsrdma::cli
