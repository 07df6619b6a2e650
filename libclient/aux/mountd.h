// A client of the MOUNT protocol (RFC 1813 appendix I; RFC 1094 appendix A for NFSv2). It gets the root
// handles of a server's exports, and the list of the exports.
//
//     Mountd mountd(loop, options);
//     auto root = co_await mountd.find({"export", "dir"});      // MNT of "/export", for example
//     ...
//     co_await mountd.unmount(deadline);                        // UMNT of what was mounted
//
// The server's list of exports, which is asked for once, tells how many of the names lead to an export. If a
// server gives no list, the whole path is tried first, then shorter ones.
//
// A server's mountd is found through its rpcbind, unless the options name its port: first over TCP, then over
// UDP if TCP is not served.
//
// Confined to the loop's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aux/programs.h"
#include "aux/remote.h"
#include "engine/roots.h"
#include "security/flavor.h"

namespace nfsrdma::aux {

struct MountOptions {
  std::string server;                   ///< the server's name, for messages
  std::vector<rpc::Address> addresses;  ///< addresses of the machine where mountd runs; their port is ignored
  unsigned version = 3;                 ///< version of MOUNT: 3, or 1 for NFSv2
  std::uint16_t port = 0;               ///< 0: ask rpcbind
  std::optional<Transport> transport;   ///< none: TCP, else UDP
  std::chrono::milliseconds timeout{10000};  ///< for each call
  security::Identity identity;
  /// The port on which that machine's rpcbind is asked. Tests have one of their own.
  std::uint16_t rpcbind_port = kRpcbindPort;
  /// Chooses among the flavors that the server offers for an export; null: no flavor is chosen.
  std::shared_ptr<security::Flavor> flavor;
};

struct Export {
  std::string path;
  std::vector<std::string> clients;  ///< as the server lists them; none: everybody
};

struct MountedBy {
  std::string client, path;
};

class Mountd final : public engine::Roots {
 public:
  Mountd(async::Loop& loop, MountOptions options) : loop_(loop), options_(std::move(options)) {}

  async::Task<Result<engine::Root>> find(std::vector<std::string> names) override;
  async::Task<Result<std::vector<std::string>>> towards_exports(std::vector<std::string> names) override;
  void forget(const engine::FileHandle& root) override;
  async::Task<Result<std::vector<Export>>> exports();
  /// Returns the clients that have mounted an export, as far as the server knows.
  async::Task<Result<std::vector<MountedBy>>> mounts();
  /// Called when the server offers the flavor of this root but cannot serve it: find() does not choose the
  /// flavor again.
  void avoid(const engine::FileHandle& root);
  /// Tells the server that its exports are no longer used here, if it can be reached. The server's list of
  /// mounts only informs people.
  async::Task<void> unmount(async::TimePoint deadline);

 private:
  using Names = std::vector<std::string>;
  template <class P>
  async::Task<Result<typename P::Res>> ask(typename P::Args args);
  async::Task<Status> reach();
  async::Task<Result<Remote>> reach_over(Transport transport, const rpc::Address& address,
                                         async::TimePoint deadline);
  /// Calls P (NFSv3's version of MOUNT) or Q (NFSv2's), which have the same types.
  template <class P, class Q>
  async::Task<Result<typename P::Res>> ask_either(typename P::Args args);
  async::Task<Result<engine::FileHandle>> root_of(dirpath path);
  async::Task<Result<security::Mark>> choose(std::vector<std::uint32_t> offered);
  async::Task<Result<engine::FileHandle>> mount(Names names);
  async::Task<Status> list();
  [[nodiscard]] std::vector<std::size_t> candidates(const Names& names) const;

  async::Loop& loop_;
  const MountOptions options_;
  std::optional<Remote> remote_;              // where mountd listens
  std::optional<std::vector<Names>> listed_;  // the paths of the exports
  std::map<Names, engine::FileHandle> mounted_;
  std::vector<security::Mark> avoided_;
};

/// Returns "/a/b" for two names, and "/" for none.
std::string path_of(const std::vector<std::string>& names);

}  // namespace nfsrdma::aux
