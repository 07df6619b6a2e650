// The client id of NFSv4.0 (RFC 7530 9.1.1, 16.33, 16.34). SETCLIENTID announces the client's name and its
// callback address, and SETCLIENTID_CONFIRM makes them valid.
//
// The name and the verifier stay the same for the lifetime of a client instance. If the server knows them
// already, a second SETCLIENTID changes the callback only, and the state stays.
//
// Confined to the loop's thread.
#pragma once

#include "async/mutex.h"
#include "nfs4/compound/call_layer.h"

namespace nfsrdma::nfs4 {

class Registration {
 public:
  Registration(CallLayer& calls, const SessionOptions& options);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  [[nodiscard]] const SessionFacts& facts() const { return facts_; }
  /// Must be locked around set_client() while other tasks may call it, so that there is one SETCLIENTID with
  /// its SETCLIENTID_CONFIRM at a time.
  [[nodiscard]] async::Mutex& turn() { return turn_; }
  /// Gets a client id and confirms it. If it differs from the one before, a new epoch begins.
  async::Task<Status> set_client(async::TimePoint deadline);
  /// Fetches the server's lease time, and the most bytes that it accepts in one READ and WRITE.
  async::Task<Status> fetch_limits(async::TimePoint deadline);
  /// Called when the server has forgotten the client id, and all state with it.
  void lost() { facts_.client_id = 0; }
  /// Makes this another instance of the client. The server drops the state of the instance before.
  void be_another_instance();

 private:
  [[nodiscard]] SETCLIENTID4args arguments() const;
  async::Task<Status> confirm(SETCLIENTID4resok id, async::TimePoint deadline);

  CallLayer& calls_;
  const SessionOptions& options_;
  verifier4 verifier_;
  SessionFacts facts_;
  async::Mutex turn_;
};

}  // namespace nfsrdma::nfs4
