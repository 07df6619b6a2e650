// The client id of NFSv4.0 (RFC 7530 9.1.1, 16.33, 16.34): SETCLIENTID says who this client is and where it may be called
// back, SETCLIENTID_CONFIRM makes that so.
//
// The name and the verifier are those of the client instance for as long as it lives: to the server that knows them
// already a second SETCLIENTID is news of the callback only, and the state stays.
//
// Confined to the loop's thread.
#pragma once

#include "nfs4/calls.h"

namespace nfsrdma::nfs4 {

class Registration {
 public:
  Registration(Calls& calls, const SessionOptions& options);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  [[nodiscard]] const SessionFacts& facts() const { return facts_; }
  /// A client id, confirmed. A new epoch where it is another one than before.
  async::Task<Status> set_client(async::TimePoint deadline);
  /// The server's lease time, and the most that it takes in one READ and WRITE.
  async::Task<Status> fetch_limits(async::TimePoint deadline);
  /// The server has forgotten the client id, and with it all state.
  void lost() { facts_.client_id = 0; }
  /// From now on this is another instance of the client, for which the server drops the state of the one before.
  void be_another_instance();

 private:
  [[nodiscard]] SETCLIENTID4args arguments() const;
  async::Task<Status> confirm(SETCLIENTID4resok id, async::TimePoint deadline);

  Calls& calls_;
  const SessionOptions& options_;
  verifier4 verifier_;
  SessionFacts facts_;
};

}  // namespace nfsrdma::nfs4
