// One version of NFS on a server's connections: how its engine is begun and ended, and what it says of itself.
//
// Server (server.h) tries the versions in their order, and keeps the one that the server speaks. To add a version
// is to add a function to the end of this file. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aux/mountd.h"
#include "connect/server.h"
#include "engine/engine.h"
#include "nfsrdma/client.h"
#include "rpc/channel.h"

namespace nfsrdma::connect {

/// For what a server need not be told.
inline constexpr std::chrono::seconds kFarewell{2};

/// What a Protocol stands on: the Server's, which outlives it.
struct Ground {
  const Target& target;
  const std::vector<rpc::Address>& addresses;
  const Surroundings& surroundings;
  const std::vector<std::unique_ptr<rpc::Channel>>& channels;  ///< the first is connected
  const std::shared_ptr<security::Flavor>& flavor;
  const Server::NoticeSink& notices;
  std::optional<std::chrono::milliseconds> patience;
};

class Protocol {
 public:
  Protocol() = default;
  virtual ~Protocol();
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;

  /// EPROTONOSUPPORT: the server does not speak the version. After any Error nothing is left on the server.
  virtual async::Task<Status> begin(async::TimePoint deadline) = 0;
  /// Nothing of the engine is used any more.
  virtual async::Task<Status> close(async::TimePoint deadline) = 0;

  /// Of the NFS program.
  [[nodiscard]] virtual unsigned number() const = 0;

  // ---- once begin() has gone well ----
  [[nodiscard]] virtual const std::shared_ptr<engine::Engine>& engine() const = 0;
  /// The most bytes of one READ and of one WRITE that the server takes.
  [[nodiscard]] virtual std::size_t most_read() const = 0;
  [[nodiscard]] virtual std::size_t most_written() const = 0;
  /// How long the server keeps what this client has there without hearing of it; long, where it keeps nothing.
  [[nodiscard]] virtual std::chrono::seconds lease() const = 0;
  /// What is of this version in it.
  virtual void describe(Info& info) const = 0;
};

/// How many calls may be under way where each pins its buffer in memory. Beyond that the system would refuse
/// to register another.
std::uint32_t most_calls(const Options& options, const fabric::Established& established);
/// What the target's options say of version 3's mount service.
aux::MountOptions mount_options(const Target& target, std::vector<rpc::Address> addresses);

/// All channels, in their order; without those that lead elsewhere: of version 4.0, where nothing proves that it is the
/// same server.
std::vector<rpc::Channel*> all_of(const Ground& ground);
std::vector<rpc::Channel*> those_here(const Ground& ground);

std::unique_ptr<Protocol> nfs4_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs40_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs3_protocol(const Ground& ground);
std::unique_ptr<Protocol> nfs2_protocol(const Ground& ground);

}  // namespace nfsrdma::connect
