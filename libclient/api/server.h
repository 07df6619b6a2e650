// A server, as an option list describes it: connections and the NFSv4 session on them.
//
// What the public Client and a mount have in common. Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nfs4/session.h"
#include "nfsrdma/options.h"
#include "rpc/channel.h"

namespace nfsrdma::api {

/// AUTH_SYS with this machine's name.
rpc::Credential credential_of(std::uint32_t uid, std::uint32_t gid, std::span<const std::uint32_t> groups);

/// What a client shows of the machine and the process that it runs in, and who makes its connections. As it
/// is by default, that is the system's; tests have their own.
struct Surroundings {
  std::string host;     ///< the machine's name
  std::string process;  ///< tells the clients of one machine apart
  fabric::Dialer dial;
  /// Who it is to the server, across restarts of the program (RFC 8881 2.4); empty: a client of its own, like
  /// no other.
  std::string owner_id;
  [[nodiscard]] static Surroundings system(std::string owner_id = {});
};

/// This process's, but for what the options say.
rpc::Credential caller_of(const Options& options, const std::string& host = Surroundings::system().host);

class Server {
 public:
  using NoticeSink = std::function<void(const std::string&)>;

  /// `patience`: how long an operation is tried, where that is not the target's timeo.
  Server(async::Loop& loop, const Target& target, const std::vector<rpc::Address>& addresses,
         const NoticeSink& notices, std::optional<std::chrono::milliseconds> patience = std::nullopt,
         Surroundings surroundings = Surroundings::system());

  /// Connections, session, and what the server takes in one READ and WRITE.
  async::Task<Status> connect(async::TimePoint deadline);
  /// Ends the connections. The session's own close() comes before.
  void shut_down();

  [[nodiscard]] nfs4::Session& session() { return *session_; }
  [[nodiscard]] const std::vector<std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }
  [[nodiscard]] std::uint32_t rsize() const { return rsize_; }
  [[nodiscard]] std::uint32_t wsize() const { return wsize_; }

 private:
  async::Task<Status> begin(async::TimePoint deadline);

  const Options options_;
  const NoticeSink notices_;
  const std::optional<std::chrono::milliseconds> patience_;
  const Surroundings surroundings_;
  std::vector<std::unique_ptr<rpc::Channel>> channels_;  // the session's first connection, and more
  std::unique_ptr<nfs4::Session> session_;
  std::uint32_t rsize_ = 0, wsize_ = 0;
};

}  // namespace nfsrdma::api
