// From a target to an engine: makes the connections, finds the version, and starts the engine that speaks it.
//
//     Server server(loop, target, addresses, notices);
//     auto done = co_await server.connect(deadline);
//     ... server.engine() ...
//     co_await server.close(deadline);
//
// This is what the public Client and a mount have in common; neither knows NFS versions.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aux/programs.h"
#include "connect/options.h"
#include "engine/engine.h"
#include "engine/lock_manager.h"
#include "engine/roots.h"
#include "engine/shard.h"
#include "fabric/carrier.h"
#include "fabric/dial.h"
#include "nfsrdma/info.h"
#include "rpc/channel.h"
#include "security/identity.h"

namespace nfsrdma::security {
class Flavor;
}

namespace nfsrdma::connect {

/// The environment of a client: what it reports about the machine and the process that it runs in, and how
/// its connections are made. system() fills this in from the operating system; tests make their own.
struct Surroundings {
  std::string host;     ///< the machine's name
  std::string process;  ///< tells the clients of one machine apart
  fabric::Dialer dial;
  /// Makes the threads that share the work of connections, if there is more than one thread for it
  /// (fabric/carrier.h).
  fabric::MakeCarriers carriers;
  /// The client's identity towards the server, which stays the same when the program restarts (RFC 8881 2.4).
  /// Empty: an identity that no other client has.
  std::string owner_id;
  std::shared_ptr<security::Flavor> flavor = nullptr;  ///< null: as the options say
  /// True if callers are users of this machine, who may have Kerberos tickets of their own.
  bool many_users = false;
  /// Whether a server of NFSv4.0 may call back over TCP.
  bool listens = false;
  /// The directory for aux/lock_records.h. Empty: locks of NFSv3 are not recorded.
  std::string lock_records = {};
  /// Finds where the server's names begin in NFSv3; null: its mount service does.
  std::shared_ptr<engine::Roots> roots = nullptr;
  /// Grants locks in NFSv3; null: the server's lock service does.
  std::shared_ptr<engine::LockManager> locks = nullptr;
  /// Sees what the connections carry; null: as the option `trace` says.
  fabric::Tapper tap = nullptr;
  /// The port on which the server's rpcbind is asked.
  std::uint16_t rpcbind_port = aux::kRpcbindPort;
  [[nodiscard]] static Surroundings system(std::string owner_id = {});
};

/// Callbacks that a server may have in flight towards this client.
inline constexpr std::uint32_t kCallbackSlots = 4;

class Protocol;

/// Returns the identity of this process, with the uid and gid from the options if they are set.
security::Identity own_identity(const Options& options);

/// Returns how a connection to the target is made.
rpc::ChannelOptions channel_options(const Target& target, const std::vector<rpc::Address>& addresses,
                                    const fabric::Dialer& dial);

class Server {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  /// `patience`: how long an operation is tried; by default the target's timeo.
  Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
         const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience = std::nullopt,
         Surroundings surroundings = Surroundings::system());

  ~Server();

  /// Makes the first connection, finds the version, starts the engine, and learns the limits of READ and
  /// WRITE. If the options name no version, the highest that the server speaks is used.
  async::Task<Status> connect(async::TimePoint deadline);
  /// Tells the server that this client is leaving. The engine must no longer be in use.
  async::Task<Status> close(async::TimePoint deadline);
  /// Ends the connections. Call close() first.
  void shut_down();

  /// engine(), rsize(), wsize(), lease() and info() are valid once connect() has succeeded.
  [[nodiscard]] const std::shared_ptr<engine::Engine>& engine();
  [[nodiscard]] std::uint32_t rsize() const { return rsize_; }
  [[nodiscard]] std::uint32_t wsize() const { return wsize_; }
  /// Read this each time: after a restart the server may have another lease.
  [[nodiscard]] std::chrono::seconds lease() const;
  [[nodiscard]] Info info() const;

  [[nodiscard]] const std::vector<std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }
  /// Returns how a shard's connection is made.
  [[nodiscard]] rpc::ChannelOptions shard_channel_options() const;
  /// Protocol::make_shard().
  async::Task<Result<std::unique_ptr<engine::Shard>>> make_shard(std::size_t number, rpc::Channel& channel,
                                                                 async::TimePoint deadline);
  /// Protocol::use_shards().
  void use_shards(engine::ShardCalls* shards);

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
  const fabric::Tapper tap_;
  std::vector<std::unique_ptr<rpc::Channel>> channels_;
  std::unique_ptr<Protocol> protocol_;  // its engine uses the channels above
  std::uint32_t rsize_ = 0, wsize_ = 0;
};

}  // namespace nfsrdma::connect
