// Private to the test server: its Calls to clients (RFC 8881 20), in slot 0 of a session's backchannel, one
// at a time for each session.
//
// A Call that finds no connection, or whose connection ends before its answer, waits until a session of its
// client has a backchannel again: the same request where the session is the same one, a new one where it is
// not. A Call that was sent keeps its slot until it is answered, even if nobody waits for it any more (RFC
// 8881 2.10.6.1). Confined to the server's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "support/callback_call.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

class CallbackQueue {
 public:
  using Build = std::function<void(test::CallbackCall&)>;  // the operations behind CB_SEQUENCE
  /// Sends a backward RDMA_MSG. False: there is no such connection.
  using Send = std::function<bool(unsigned connection, std::uint32_t xid, const Octets& message)>;
  using Ticket = std::uint64_t;

  CallbackQueue(ServerState& state, Send send) : state_(state), send_(std::move(send)) {}

  /// Gets the status of the CB_COMPOUND. May be empty.
  using Done = std::function<void(nfs4::nfsstat4)>;
  /// `client` 0: whoever has a session.
  Ticket add(nfs4::clientid4 client, Build build, Done done) {
    return add(client, std::move(build), {}, std::move(done));
  }
  /// Reads what is behind CB_SEQUENCE in a good answer, before Done is called.
  using Read = std::function<void(test::CallbackResults&)>;
  Ticket add(nfs4::clientid4 client, Build build, Read read, Done done);
  Ticket add_null(Done done) { return add(0, {}, std::move(done)); }
  /// Nobody waits for it any more.
  void drop(Ticket ticket);
  /// The server restarts: nobody answers the Calls of before, which end with BADSESSION.
  void forget();
  /// Sends what can be sent. Where a backchannel may have come, or an answer.
  void pump();
  void on_reply(unsigned connection, std::uint32_t xid, xdr::ConstBytes message);
  void on_lost(unsigned connection);

 private:
  struct Pending {
    Ticket ticket = 0;
    nfs4::clientid4 client = 0;
    Build build;  // empty: CB_NULL
    Read read;
    std::uint32_t xid = 0;
    unsigned connection = 0;         // that it went over; 0: none
    nfs4::sessionid4 session{};      // in which it was sent
    nfs4::sequenceid4 sequence = 0;  // 0: not sent
    Done done;
  };
  void send(Pending& one);
  [[nodiscard]] bool is_slot_in_use(const nfs4::sessionid4& session, const Pending& by_other_than) const;

  ServerState& state_;
  const Send send_;
  std::deque<std::unique_ptr<Pending>> queue_;
  Ticket last_ = 0;
  static constexpr std::uint32_t kFirstXid = 0x62000000;  // far from what a client counts from, mostly
  std::uint32_t next_xid_ = kFirstXid;
};

}  // namespace nfsrdma::testing
