// A mount's client on a simulated machine: what fuse/mount.cpp builds, but for the kernel.
//
//     SimClient client(network, host, server_host, SimClient::quick());
//     host.loop().spawn(begin_and_work(client));
//
// connections and session (connect::Server) → the engine → the file layer. The dialer is the network's. The mount
// is a hard one: its operations wait for the server as long as it takes.
//
// Destroyed, it is gone as a program that was killed: whoever wants it to end well awaits finish() before.
// Thread-safety: none. The Network and the Host outlive it.
#pragma once

#include <memory>
#include <string>

#include "connect/server.h"
#include "fs/file_system.h"
#include "sim/fabric/network.h"
#include "sim/kernel_model.h"
#include "sim/shard.h"
#include "support/model_locks.h"
#include "support/toy_mechanism.h"

namespace nfsrdma::sim {

/// How Calls and Replies are protected, if they are.
struct Seal {
  gss::Service service = gss::Service::none;
  testing::ToyTraits traits;
  bool by_place = false;  ///< in exports only: the pseudo root takes what is in clear
};
using Sealing = std::optional<Seal>;

class SimClient {
 public:
  SimClient(Network& network, Host& host, const Host& server, const connect::Options& options,
            Sealing sealing, testing::LockTable* locks = nullptr);
  ~SimClient();
  SimClient(const SimClient&) = delete;
  SimClient& operator=(const SimClient&) = delete;

  /// Messages of a size that a simulation can move by the million.
  [[nodiscard]] static connect::Options quick();
  [[nodiscard]] static connect::Target target(const Host& server, const connect::Options& options);
  /// Of a program on the host. As a mount has it, it knows itself again (S17).
  [[nodiscard]] static connect::Surroundings surroundings(Network& network, Host& host, Sealing sealing,
                                                          const connect::Options& options);

  /// Until it works, as mount's retry= does; an error only of what trying again cannot help.
  async::Task<Status> connect();
  /// What is unwritten goes out, then the session's state goes. Nobody may have a file open.
  async::Task<Status> finish();
  /// As by kill -9: nobody is told, and nothing of it runs any more.
  void kill();
  /// Another process after kill(): connect() comes next.
  void revive() { build(); }

  /// What it calls itself before the server.
  [[nodiscard]] static std::string owner(const Host& host) { return "nfsrdma " + host.name(); }
  [[nodiscard]] Host& host() const { return host_; }
  [[nodiscard]] fs::FileSystem& files() { return *files_; }
  /// Programs go through a model of the kernel from the next connect() on.
  void have_kernel() { has_kernel_ = true; }
  /// Null: there is none.
  [[nodiscard]] KernelModel* kernel() const { return kernel_.get(); }
  [[nodiscard]] connect::Server& server() { return *server_; }

 private:
  void build();
  [[nodiscard]] connect::Surroundings own_surroundings();

  Network& network_;
  Host& host_;
  const Host& server_host_;
  const connect::Options options_;
  const Sealing sealing_;
  testing::LockTable* const locks_;  // null: this client's server gives no locks beside NFS
  std::unique_ptr<connect::Server> server_;
  std::unique_ptr<ClientShard> shard_;  // null: no READs are made elsewhere
  std::unique_ptr<fs::FileSystem> files_;
  bool has_kernel_ = false;
  std::unique_ptr<KernelModel> kernel_;
};

}  // namespace nfsrdma::sim
