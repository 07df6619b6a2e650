// From a target to an engine: connections, the version, and the engine that speaks it.
//
//     Server server(loop, target, addresses, notices);
//     auto done = co_await server.connect(deadline);
//     … server.engine() …
//     co_await server.close(deadline);
//
// What the public Client and a mount have in common; they know no version. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aux/programs.h"
#include "engine/engine.h"
#include "engine/lock_manager.h"
#include "engine/roots.h"
#include "fabric/carrier.h"
#include "fabric/dial.h"
#include "nfsrdma/client.h"
#include "nfsrdma/options.h"
#include "rpc/channel.h"
#include "security/identity.h"

namespace nfsrdma::security {
class Flavor;
}

namespace nfsrdma::connect {

/// What a client shows of the machine and the process that it runs in, and who makes its connections. As it
/// is by default, that is the system's; tests have their own.
struct Surroundings {
  std::string host;     ///< the machine's name
  std::string process;  ///< tells the clients of one machine apart
  fabric::Dialer dial;
  /// Who does the work of connections where there is more than one thread for it (fabric/carrier.h).
  fabric::MakeCarriers carriers;
  /// Who it is to the server, across restarts of the program (RFC 8881 2.4); empty: a client of its own, like
  /// no other.
  std::string owner_id;
  std::shared_ptr<security::Flavor> flavor = nullptr;  ///< null: as the options say
  /// Callers are users of this machine, with tickets of their own where there are any.
  bool many_users = false;
  /// Whether a server of NFSv4.0 may call back over TCP.
  bool listens = false;
  /// A directory for aux/lock_records.h; empty: locks of NFSv3 are on record nowhere.
  std::string lock_records = {};
  /// Where the server's names begin in NFSv3; null: as its mount service says.
  std::shared_ptr<engine::Roots> roots = nullptr;
  /// Who gives locks in NFSv3; null: the server's lock service.
  std::shared_ptr<engine::LockManager> locks = nullptr;
  /// The port at which the server's rpcbind is asked.
  std::uint16_t rpcbind_port = aux::kRpcbindPort;
  [[nodiscard]] static Surroundings system(std::string owner_id = {});
};

/// Calls that a server may have under way towards us.
inline constexpr std::uint32_t kCallbackSlots = 4;

class Protocol;

/// This process's, but for what the options say.
security::Identity own_identity(const Options& options);

class Server {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  /// `patience`: how long an operation is tried, where that is not the target's timeo.
  Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
         const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience = std::nullopt,
         Surroundings surroundings = Surroundings::system());

  ~Server();

  /// Connections, the version, an engine, and what the server takes in one READ and WRITE. Where the options
  /// name no version: the highest that the server speaks.
  async::Task<Status> connect(async::TimePoint deadline);
  /// Tells the server that this client is gone. Nothing of the engine is used any more.
  async::Task<Status> close(async::TimePoint deadline);
  /// Ends the connections; close() comes before.
  void shut_down();

  /// Once connect() has gone well.
  [[nodiscard]] const std::shared_ptr<engine::Engine>& engine();
  [[nodiscard]] std::uint32_t rsize() const { return rsize_; }
  [[nodiscard]] std::uint32_t wsize() const { return wsize_; }
  /// After a restart of the server it may be another one.
  [[nodiscard]] std::chrono::seconds lease() const;
  [[nodiscard]] Info info() const;

  [[nodiscard]] const std::vector<std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }

 private:
  struct Version;
  static const Version kVersions[];
  [[nodiscard]] bool is_wanted(const Version& version) const;
  async::Task<Status> dial(const Version& version, async::TimePoint deadline);
  async::Task<Status> begin(const Version& version, async::TimePoint deadline);
  async::Task<bool> find_port(const Version& version, async::TimePoint deadline);

  async::Loop& loop_;
  const Target target_;
  std::vector<rpc::Address> addresses_;
  const NoticeSink notices_;
  const std::optional<std::chrono::milliseconds> patience_;
  const Surroundings surroundings_;
  std::shared_ptr<security::Flavor> flavor_;
  std::vector<std::unique_ptr<rpc::Channel>> channels_;
  std::unique_ptr<Protocol> protocol_;  // its engine is on the channels
  std::uint32_t rsize_ = 0, wsize_ = 0;
};

}  // namespace nfsrdma::connect
