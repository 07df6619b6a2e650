// The client's side of the callback program (RFC 8881 19 and 20, RFC 7530): takes one Call of the server, and
// gives the Reply to it.
//
//     CallbackService service(handler, {});
//     service.announce(back_channel(4096, 4096, 4));
//     ... CREATE_SESSION, with service.announced() as its csa_back_chan_attrs
//     service.reset(session_id, minor_version, csr_back_chan_attrs);
//     xdr::Message reply;
//     if (service.answer(call_bytes, reply)) ... send reply.stream; it has no DDP-eligible items
//
// Order of judgement. RPC header, credential, program, version, procedure; then the COMPOUND's head and minor
// version; then CB_SEQUENCE, which must be the first operation and nowhere else (20.9.3); then operation by
// operation up to the first that fails. The handler is asked at once, and acts later: a recall is answered at
// once, and the owner of the handler sends the DELEGRETURN afterwards.
//
// Slots. Each slot has the sequence id of its last request and, if csa_cachethis asked for it, the Reply.
// A repeated request is answered from there, never executed again. A CB_SEQUENCE that fails leaves its
// slot unchanged (20.9.3).
//
// Reconnect. A new connection changes nothing: slots belong to the session, and the server repeats on the new
// connection the requests that it has no answer to. A new session starts anew with reset(). Without a session
// every request is answered by NFS4ERR_BADSESSION.
//
// NFSv4.0 has no sessions. Its callbacks come over TCP connections of their own (RFC 8267 4.4.1,
// aux/record_server.h), without CB_SEQUENCE, and with the callback_ident that SETCLIENTID gave. After
//
//     service.reset_without_session(callback_ident);
//
// CB_GETATTR and CB_RECALL are served, which are all that minor version 0 has. No Reply is kept, so a
// Call that comes again is executed again. This does no harm if the recalled delegation is being
// returned, or has been.
//
// Sizes. A session has the sizes that were announced for it. A connection has those that were agreed when
// it was made (RFC 8797), which differ from connection to connection. A session is announced what all of
// its connections can take at that time. If a connection can take less by then, answer() is given its
// limit with each Call.
//
// Pure: no I/O, no clock. Confined to one thread; the handler must not call back into the service.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/message.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma::nfs4 {

/// The arguments of a CB_RECALL. Valid during the call only.
struct Recall {
  const stateid4& stateid;
  const nfs_fh4& file;
  /// The file is about to be truncated to nothing, so its dirty data need not be written.
  bool truncate;
  /// Requests of this client that the server had executed before the recall (RFC 8881 2.10.6.3).
  /// If the delegation is unknown and one of them is unanswered, its Reply may be the one that
  /// brings the delegation.
  std::span<const referring_call_list4> referring;
};

/// The attributes that a GETATTR would return if the server had all changes made by the
/// holder of the delegation.
struct DelegatedAttributes {
  changeid4 change = 0;
  std::uint64_t size = 0;
};

class CallbackHandler {
 public:
  /// Returns NFS4_OK if the delegation will be returned, NFS4ERR_BADHANDLE or NFS4ERR_BAD_STATEID if there is
  /// none, and NFS4ERR_DELAY if the server is to ask again.
  virtual nfsstat4 recall(const Recall& recall) = 0;
  /// Returns nullopt if no write delegation is held, which is answered by NFS4ERR_BADHANDLE (20.1.3).
  virtual std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) = 0;
  /// Asks to keep at most so many of the objects named by RCA4_TYPE_MASK_* bits, and to return the rest.
  virtual void recall_any(std::uint32_t objects_to_keep, const bitmap4& types) = 0;
  /// Asks to give up the fore channel's slots above this one.
  virtual void recall_slot(slotid4 target_highest_slotid) = 0;
  /// Reports that a lock which was denied may be available now. This is a hint: the server promises nothing.
  virtual void notify_lock(const nfs_fh4& file, const lock_owner4& owner) = 0;
  /// Reports the end of a copy that the server has made in the background. Returns NFS4ERR_BAD_STATEID if the
  /// copy is unknown here.
  virtual nfsstat4 copy_ended(const CB_OFFLOAD4args& /*args*/) { return NFS4ERR_NOTSUPP; }

 protected:
  ~CallbackHandler() = default;
};

/// Returns what to announce for a backchannel over RPC-over-RDMA without chunks (RFC 8267 4.4.2):
/// requests that fit into a Receive of `receive_size`, Replies that fit into a Send of `send_size`, and
/// as many operations as then have room for their results. Both sizes are inline thresholds: 1,024 at
/// least (RFC 8166 3.3.2).
channel_attrs4 back_channel(std::uint32_t receive_size, std::uint32_t send_size, std::uint32_t slots);
/// Returns the size of the largest Reply that fits into a Send of `send_size`.
std::uint32_t largest_callback_reply(std::uint32_t send_size);

struct CallbackOptions {
  std::uint32_t program = NFS4_CALLBACK;                   ///< csa_cb_program
  bool auth_none = true, auth_sys = true;                  ///< the flavors in csa_sec_parms
  channel_attrs4 announced = back_channel(1024, 1024, 1);  ///< until announce() is called
};

class CallbackService {
 public:
  CallbackService(CallbackHandler& handler, const CallbackOptions& options);

  /// Sets what the next CREATE_SESSION announces. The present session keeps what was announced for it.
  void announce(const channel_attrs4& attributes) { announced_ = attributes; }
  /// Returns the value for csa_back_chan_attrs.
  [[nodiscard]] const channel_attrs4& announced() const { return announced_; }
  /// Begins a new session. `agreed` is the server's answer; where it exceeds what was announced, the
  /// announced limit holds.
  void reset(const sessionid4& session, unsigned minor_version, const channel_attrs4& agreed);
  /// Serves NFSv4.0 from now on. Every SETCLIENTID whose callbacks come here has the same `callback_ident`,
  /// because until a new SETCLIENTID is confirmed the server calls with the values of the one before. The
  /// ident is unpredictable, which keeps out strangers who reach the port.
  void reset_without_session(std::uint32_t callback_ident);
  /// Called when the session is gone: requests are answered by NFS4ERR_BADSESSION from now on.
  void close();

  /// Answers one RPC message; `reply` is overwritten. Returns false if the message is not a Call, or is
  /// too short to be answered. `largest_reply`: what the Call's connection can take, at least that of
  /// the smallest threshold.
  [[nodiscard]] bool answer(xdr::ConstBytes call, xdr::Message& reply,
                            std::uint32_t largest_reply = ~std::uint32_t{0});

 private:
  struct Slot {
    sequenceid4 last = 0;  // sequence id of the request that was executed last
    bool used = false;
    std::uint64_t request = 0;     // fingerprint of that request, against false retries (2.10.6.1.3.1)
    std::vector<std::byte> reply;  // the Reply to that request; empty: not kept
  };
  struct Request;

  [[nodiscard]] rpc::ReplyHeader judge(const rpc::CallHeader& call) const;
  [[nodiscard]] bool is_agreed(std::uint32_t minor_version) const;
  [[nodiscard]] bool has_sessions() const { return !callback_ident_; }
  void compound(Request& request, xdr::Message& reply);
  void operation(Request& request, xdr::Encoder& out);
  nfsstat4 run(Request& request, std::uint32_t number, xdr::Encoder& out);
  nfsstat4 sequence(Request& request, xdr::Encoder& out);
  nfsstat4 judge_sequence(Request& request, std::size_t reply_size);

  CallbackHandler& handler_;
  const CallbackOptions options_;
  channel_attrs4 announced_;
  bool open_ = false;
  sessionid4 session_{};
  unsigned minor_version_ = 0;
  std::optional<std::uint32_t> callback_ident_;  // NFSv4.0 only
  channel_attrs4 limits_;
  std::vector<Slot> slots_;
};

}  // namespace nfsrdma::nfs4
