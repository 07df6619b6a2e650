// A client of the public API and the model server in one thread, on virtual time: what Mounted (nfs_fixture.h) is with
// threads.
//
//     VirtualMounted m;
//     m.server.add_file("/a", "text");
//     m.connect("timeo=300ms");
//     m.after(50ms, [&] { m.server.release(); });
//     CHECK(ok(m.client->disconnect()));  // lasts until the 50 ms have passed
//
// The client has no thread of its own, and watches no descriptors. Its loop runs, and time passes, while a call blocks, and
// in pass() and eventually(), where callbacks of started calls run, too. The loop also runs while a call of the server waits
// (recall() and others); a callback that ran there would be outside of any call of the client.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/clients.h"
#include "security/sys.h"
#include "sim/client.h"
#include "sim/fabric/network.h"
#include "support/engine_fixture.h"
#include "support/nfs_fixture.h"

namespace nfsrdma::testing {

/// A server and, once connect() was called, a client of it. At the end nobody may have broken a rule.
struct VirtualMounted {
  sim::Simulation world{1};
  sim::Network network{world};
  NfsServer server{network, world.add_host("server")};
  ClientLoop place{server, "client"};
  Notices notices;
  std::unique_ptr<Client> client;

  ~VirtualMounted() {
    client.reset();
    CHECK(server.problems() == "");
  }
  Client& connect(const std::string& options = "") {
    const connect::Target target = server.connect_target(options);
    api::Setup setup;
    setup.loop = &place.loop();
    setup.surroundings = sim::SimClient::surroundings(network, *place.host(), std::nullopt, target.options);
    setup.surroundings.owner_id.clear();
    // Kerberos would need helper threads, which virtual time has not.
    setup.surroundings.flavor = std::make_shared<security::Sys>("client", security::Identity());
    const std::vector addresses{sim::Network::address(*server.host(), server.port())};
    setup.log = [](void* to, const char* text) { static_cast<Notices*>(to)->notice(text); };
    setup.log_data = &notices;
    auto made = std::make_unique<nfsrdma_client>(target, addresses, std::move(setup));
    auto done = made->start(place.loop().now() + target.options.connect_timeout);
    if (!done) FAIL(done.error().text());
    client = Client::adopt(made.release());
    return *client;
  }
  [[nodiscard]] std::unique_ptr<File> open(const std::string& path,
                                           OpenMode mode = OpenMode::read_write) const {
    auto file = client->open(path, mode);
    if (!file) FAIL(file.error().text());
    return std::move(*file);
  }

  void pass(std::chrono::milliseconds time) {
    eventually([] { return false; }, time);
  }
  /// Waits inside the client, as Client::wait() does, until `so` returns true, at most for `most` of virtual time. Returns
  /// whether it did.
  bool eventually(const std::function<bool()>& so, std::chrono::milliseconds most = 30s) {
    const sim::Time end = world.now() + most;
    while (!so()) {
      if (world.now() >= end) return false;
      client->wait(1ms);
    }
    return true;
  }
  /// Calls `fn` when so much time has passed, also while a call blocks. `fn` may not block.
  void after(std::chrono::milliseconds time, std::function<void()> fn) { world.after(time, std::move(fn)); }
};

}  // namespace nfsrdma::testing
