// The client's side of the callback program (RFC 8881 19 and 20, RFC 7530): one Call of the server's in, its Reply
// out.
//
//     CallbackService service(handler, {});
//     service.announce(back_channel(4096, 4096, 4));
//     …CREATE_SESSION, with service.announced() as its csa_back_chan_attrs
//     service.reset(session_id, minor_version, csr_back_chan_attrs);
//     xdr::Message reply;
//     if (service.answer(call_bytes, reply)) …send reply.stream; it has no DDP-eligible items
//
// Order of judgement: RPC header, credential, program, version, procedure; the COMPOUND's head and minor
// version; CB_SEQUENCE, which has to be first and only there (20.9.3); then operation by operation up to the
// first that fails. What the handler does is asked for here and done later: a recall is answered at once, and
// the DELEGRETURN is the business of the handler's owner.
//
// Slots: each has the sequence id of its last request and, where csa_cachethis asked for it, the Reply. A
// repeated request is answered from there, never executed again. A CB_SEQUENCE that fails leaves its slot as
// it was (20.9.3).
//
// On reconnect nothing changes: slots belong to the session, and the server repeats on the new connection
// what it has no answer to. A new session starts anew with reset(); without a session every request gets
// NFS4ERR_BADSESSION.
//
// NFSv4.0 has no sessions: its callbacks come over TCP connections of their own (RFC 8267 4.4.1, aux/record_server.h)
// without CB_SEQUENCE, and with the callback_ident that SETCLIENTID gave. After
//
//     service.reset_without_session(callback_ident);
//
// CB_GETATTR and CB_RECALL are served, which are all that there is in minor version 0. No Reply is kept: a Call that
// comes again is executed again, and a recall of what is being returned, or has been, does no harm.
//
// Sizes: a session has those that were announced for it, and a connection those that were agreed when it was
// made (RFC 8797), which differ from connection to connection. A session is announced what all of its
// connections can take at that time. A connection that can take less by then says so with each Call.
//
// Pure: no I/O, no clock. Confined to one thread; the handler must not call back into the service.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nfs4/types/ops_callback.h"
#include "rpc/message.h"

namespace nfsrdma::nfs4 {

/// A CB_RECALL. Valid during the call.
struct Recall {
  const stateid4& stateid;
  const nfs_fh4& file;
  bool truncate;  ///< the file is about to be truncated to nothing: what is dirty need not be written
  /// Our own requests that the server had executed before this (2.10.6.3). If the delegation is unknown and
  /// one of these is unanswered, its Reply is what brings the delegation: NFS4ERR_DELAY.
  std::span<const referring_call_list4> referring;
};

/// What the server would learn from a GETATTR if it had what the delegation's holder has in mind.
struct DelegatedAttributes {
  changeid4 change = 0;
  std::uint64_t size = 0;
};

class CallbackHandler {
 public:
  /// NFS4_OK: the delegation will be returned. NFS4ERR_BADHANDLE, NFS4ERR_BAD_STATEID: there is none;
  /// NFS4ERR_DELAY: ask again.
  virtual nfsstat4 recall(const Recall& recall) = 0;
  /// Nullopt where no write delegation is held: NFS4ERR_BADHANDLE (20.1.3).
  virtual std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) = 0;
  /// Keep at most so many of the objects named by RCA4_TYPE_MASK_* bits; return the others.
  virtual void recall_any(std::uint32_t objects_to_keep, const bitmap4& types) = 0;
  /// The fore channel's slots above this one are to be given up.
  virtual void recall_slot(slotid4 target_highest_slotid) = 0;
  /// A lock that was denied may be had now. A hint: the server promises nothing.
  virtual void notify_lock(const nfs_fh4& file, const lock_owner4& owner) = 0;
  /// A copy that the server has made beside is over. NFS4ERR_BAD_STATEID: nobody knows of it.
  virtual nfsstat4 copy_ended(const CB_OFFLOAD4args& /*args*/) { return NFS4ERR_NOTSUPP; }

 protected:
  ~CallbackHandler() = default;
};

/// What to announce for a backchannel over RPC-over-RDMA without chunks (RFC 8267 4.4.2): requests that fit
/// into a Receive of `receive_size`, Replies that fit into a Send of `send_size`, and as many operations as
/// then have room for their results. Both sizes are inline thresholds: 1,024 at least (RFC 8166 3.3.2).
channel_attrs4 back_channel(std::uint32_t receive_size, std::uint32_t send_size, std::uint32_t slots);
/// The largest Reply that fits into a Send of `send_size`.
std::uint32_t largest_callback_reply(std::uint32_t send_size);

struct CallbackOptions {
  std::uint32_t program = NFS4_CALLBACK;                   ///< csa_cb_program
  bool auth_none = true, auth_sys = true;                  ///< the flavors in csa_sec_parms
  channel_attrs4 announced = back_channel(1024, 1024, 1);  ///< until announce() says more
};

class CallbackService {
 public:
  CallbackService(CallbackHandler& handler, const CallbackOptions& options);

  /// For the next CREATE_SESSION. The session of the moment keeps what was announced for it.
  void announce(const channel_attrs4& attributes) { announced_ = attributes; }
  /// For csa_back_chan_attrs.
  [[nodiscard]] const channel_attrs4& announced() const { return announced_; }
  /// A new session. `agreed` is the server's answer; where it exceeds what was announced, that holds.
  void reset(const sessionid4& session, unsigned minor_version, const channel_attrs4& agreed);
  /// From now on NFSv4.0. `callback_ident` is that of every SETCLIENTID whose callbacks come here: until a new one is
  /// confirmed a server calls with what it was told before. Unpredictable, it keeps out strangers who reach the port.
  void reset_without_session(std::uint32_t callback_ident);
  /// The session is gone.
  void close();

  /// Answers one RPC message. False: it is not a Call, or too short to be answered. `reply` is overwritten.
  /// `largest_reply`: what the Call's connection can take, at least that of the smallest threshold.
  [[nodiscard]] bool answer(xdr::ConstBytes call, xdr::Message& reply,
                            std::uint32_t largest_reply = ~std::uint32_t{0});

 private:
  struct Slot {
    sequenceid4 last = 0;  // of the request that was executed last
    bool used = false;
    std::uint64_t request = 0;     // its fingerprint, against false retries (2.10.6.1.3.1)
    std::vector<std::byte> reply;  // empty: not kept
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
  std::optional<std::uint32_t> callback_ident_;  // NFSv4.0's
  channel_attrs4 limits_;
  std::vector<Slot> slots_;
};

}  // namespace nfsrdma::nfs4
