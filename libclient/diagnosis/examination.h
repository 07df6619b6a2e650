// The state that the steps of a diagnosis share: what earlier steps have learned, and the connections that they have
// made. Internal to this folder.
//
// The owner is the Diagnosis. A step is a coroutine that gets the Examination by reference.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/diagnosis.h"
#include "engine/paths.h"
#include "nfsrdma/info.h"
#include "rpc/channel.h"

namespace nfsrdma::diagnosis {

/// Time for one call to the server.
inline constexpr std::chrono::milliseconds kCallTime{4000};

class Examination {
 public:
  Examination(async::Loop& on, connect::Target to, Wanted asked, Means with);
  ~Examination();
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  /// Returns when something that begins now and takes at most this long has to end.
  [[nodiscard]] async::TimePoint until(std::chrono::milliseconds most) const {
    return std::min(deadline, loop.now() + most);
  }
  [[nodiscard]] async::TimePoint until_connected() const { return until(target.options.connect_timeout); }
  [[nodiscard]] const connect::Options& options() const { return target.options; }
  /// Opens a client for `path` of the server, as for real use.
  async::Task<Status> open(const std::string& path);
  /// Ends the client's session at the server, and all connections. No step may be running.
  void end();
  /// Returns the operations by path of the open client.
  [[nodiscard]] engine::Paths paths(security::Caller caller = nullptr) const {
    return engine::Paths(*server->engine(), std::move(caller));
  }

  async::Loop& loop;
  connect::Target target;  ///< its timeouts are shortened to what a diagnosis can wait for
  const Wanted wanted;
  const Means means;
  async::TimePoint deadline;
  int interrupt = -1;

  // ---- what the steps have learned ----
  std::vector<rpc::Address> addresses;  ///< since the step `port`: only the one that answers
  Way way;
  /// The TCP connection of the step `port`, which is kept to the end. Linux's siw (6.1) loses its listener, and its
  /// server the port, if a connection is closed before siw has accepted it while the next one arrives.
  std::shared_ptr<void> knock;
  std::unique_ptr<rpc::Channel> channel;              ///< for calls without a session
  std::vector<std::chrono::nanoseconds> round_trips;  ///< of NULL, the shortest first
  std::vector<std::string> versions;                  ///< of NFS that the server speaks, the highest first
  connect::Server* server = nullptr;                  ///< has a session; null: there is none
  std::optional<Error> path_error;                    ///< why the client could be opened for "/" only
  Info info;
  std::optional<engine::Object> object;  ///< what the target's path leads to
  std::vector<Finding> findings;         ///< so far

 private:
  // Clients that could not be opened are kept until the end, because parts of them may still be under way.
  std::vector<std::unique_ptr<connect::Server>> clients_;
};

using Step = async::Task<Finding> (*)(Examination&);

// network.cpp
async::Task<Finding> examine_name(Examination& at);
async::Task<Finding> examine_route(Examination& at);
async::Task<Finding> examine_device(Examination& at);
async::Task<Finding> examine_port(Examination& at);
// transport.cpp
async::Task<Finding> examine_connection(Examination& at);
async::Task<Finding> examine_private_data(Examination& at);
async::Task<Finding> examine_null(Examination& at);
async::Task<Finding> examine_mtu(Examination& at);
async::Task<Finding> examine_versions(Examination& at);
async::Task<Finding> examine_latency(Examination& at);
async::Task<Finding> examine_jitter(Examination& at);
// session.cpp
async::Task<Finding> examine_security(Examination& at);
async::Task<Finding> examine_session(Examination& at);
async::Task<Finding> examine_backchannel(Examination& at);
// path.cpp
async::Task<Finding> examine_export(Examination& at);
async::Task<Finding> examine_replies(Examination& at);
async::Task<Finding> examine_rights(Examination& at);
async::Task<Finding> examine_reading(Examination& at);
async::Task<Finding> examine_writing(Examination& at);
// figures.cpp
async::Task<Finding> examine_sizes(Examination& at);
async::Task<Finding> examine_credits(Examination& at);
// verdict.cpp
Finding verdict(const Examination& at);

/// Returns "a, b, c". Of more than `most` words the first ones, and "…".
[[nodiscard]] std::string comma_list(const std::vector<std::string>& words,
                                     std::size_t most = std::string::npos);
/// Returns "1.25 ms", for people.
[[nodiscard]] std::string text_of(std::chrono::nanoseconds time);

}  // namespace nfsrdma::diagnosis
