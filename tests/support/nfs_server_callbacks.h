// Private to the test server: its Calls to clients (RFC 8881 20), one at a time, in slot 0 of the session's
// backchannel.
//
// A Call that finds no connection, or whose connection ends before its answer, waits until a session of its
// client has a backchannel again: the same request where the session is the same one, a new one where it is
// not. Confined to the server's thread, apart from the futures.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
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

  struct Added {
    Ticket ticket = 0;
    std::future<nfs4::nfsstat4> status;
  };
  /// `client` 0: whoever has a session.
  Added add(nfs4::clientid4 client, Build build);
  Added add_null();
  /// Nobody waits for it any more.
  void drop(Ticket ticket);
  /// Sends what can be sent. Where a backchannel may have come, or an answer.
  void pump();
  void on_reply(unsigned connection, std::uint32_t xid, xdr::ConstBytes message);
  void on_lost(unsigned connection);

 private:
  struct Pending {
    Ticket ticket = 0;
    nfs4::clientid4 client = 0;
    Build build;  // empty: CB_NULL
    std::uint32_t xid = 0;
    unsigned connection = 0;         // that it went over; 0: none
    nfs4::sessionid4 session{};      // in which it was sent
    nfs4::sequenceid4 sequence = 0;  // 0: not sent
    std::promise<nfs4::nfsstat4> status;
  };
  bool send(Pending& one);

  ServerState& state_;
  const Send send_;
  std::deque<std::unique_ptr<Pending>> queue_;
  Ticket last_ = 0;
  static constexpr std::uint32_t kFirstXid = 0x62000000;  // far from what a client counts from, mostly
  std::uint32_t next_xid_ = kFirstXid;
};

}  // namespace nfsrdma::testing
