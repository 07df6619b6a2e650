// The MOUNT protocol's client (RFC 1813 appendix I; RFC 1094 appendix A for NFSv2): the root handles of a server's exports, and their list.
//
//     Mountd mountd(loop, options);
//     auto root = co_await mountd.find({"export", "dir"});      // MNT of "/export", say: one of the names
//     …
//     co_await mountd.unmount(deadline);                        // UMNT of what was mounted
//
// Which of the names lead to an export the server's list of exports says, asked for once. A server that gives no
// list is tried with the whole path, then with shorter ones.
//
// A server's mountd is found by its rpcbind, unless the options name its port; over TCP, and where that is not
// served, over UDP.
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
  std::string server;                        ///< for messages
  std::vector<rpc::Address> addresses;       ///< of the machine that mountd runs on; the port does not count
  unsigned version = 3;                      ///< of MOUNT: 3, or 1 for NFSv2
  std::uint16_t port = 0;                    ///< 0: ask rpcbind
  std::optional<Transport> transport;        ///< none: TCP, else UDP
  std::chrono::milliseconds timeout{10000};  ///< of each call
  security::Identity identity;
  /// The port at which that machine's rpcbind is asked. Tests have one of their own.
  std::uint16_t rpcbind_port = kRpcbindPort;
  /// Chooses from what the server offers for an export; null: nothing is chosen.
  std::shared_ptr<security::Flavor> flavor;
};

struct Export {
  std::string path;
  std::vector<std::string> clients;  ///< as the server says; none: everybody
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
  /// Who has mounted what, as far as the server has been told.
  async::Task<Result<std::vector<MountedBy>>> mounts();
  /// The server cannot do the flavour of this root, though it offers it.
  void avoid(const engine::FileHandle& root);
  /// Tells the server that its exports are not used here any more, as far as it can be reached. Its list of
  /// mounts is for people to read.
  async::Task<void> unmount(async::TimePoint deadline);

 private:
  using Names = std::vector<std::string>;
  template <class P>
  async::Task<Result<typename P::Res>> ask(typename P::Args args);
  async::Task<Status> reach();
  async::Task<Result<Remote>> reach_over(Transport transport, const rpc::Address& address,
                                         async::TimePoint deadline);
  /// P for NFSv3, or Q for v2, which have the same types.
  template <class P, class Q>
  async::Task<Result<typename P::Res>> ask_either(typename P::Args args);
  async::Task<Result<engine::FileHandle>> root_of(dirpath path);
  async::Task<Result<security::Mark>> choose(std::vector<std::uint32_t> offered);
  async::Task<Result<engine::FileHandle>> mount(Names names);
  async::Task<Status> list();
  [[nodiscard]] std::vector<std::size_t> candidates(const Names& names) const;

  async::Loop& loop_;
  const MountOptions options_;
  std::optional<Remote> remote_;              // where mountd is
  std::optional<std::vector<Names>> listed_;  // the paths of the exports
  std::map<Names, engine::FileHandle> mounted_;
  std::vector<security::Mark> avoided_;
};

/// "/a/b"; "/" for no names.
std::string path_of(const std::vector<std::string>& names);

}  // namespace nfsrdma::aux
