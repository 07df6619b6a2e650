// A COMPOUND (RFC 8881 16.2): built operation by operation, answered result by result.
//
//     Compound c = session.begin("READ");
//     c.add<op::PUTFH>({fh});
//     c.read({stateid, offset, count}, destination);          // a DDP-eligible result with its memory
//     auto reply = co_await session.call(std::move(c), deadline);
//     READ4res res;
//     if (reply && reply->take<op::PUTFH>() && reply->take<op::READ>(res)) ...
//
// While a COMPOUND is built, the size of the largest Reply is summed up (reply_sizing/). With sessions the
// first operation is SEQUENCE. Its slot and sequence id are filled in at a known place of the encoded stream
// when a slot has been obtained, so that the same bytes serve a second try. In NFSv4.0 the seqids of owners
// are filled in likewise (by(), fill_in()).
//
// A Compound owns its encoded bytes; the memory of WRITE data and of results is the caller's
// until the call ends.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "async/memory.h"
#include "engine/modifications.h"
#include "reply_sizing/nfs4_reply.h"
#include "rpc/channel.h"
#include "rpc/message.h"
#include "rpc/reply.h"
#include "security/flavor.h"
#include "wire/nfs4/ops.h"
#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

using security::Caller;

template <class Op, class... Ops>
inline constexpr bool is_one_of = (std::is_same_v<Op, Ops> || ...);

using engine::Changes;
using engine::hash_of;

/// An operation of NFSv4.0 that is counted by the seqid of an owner, or names a client id (RFC 7530 9.1.7).
/// The places (..._at) are positions in the encoded stream; 0 means that the operation has no such field.
struct OwnedOperation {
  enum class Whose : std::uint8_t { open_owner, lock_owner, nobody } whose = Whose::nobody;
  std::uint32_t index = 0;  ///< of the operation in the COMPOUND
  std::size_t seqid_at = 0;
  std::size_t client_at = 0;
  std::size_t generation_at = 0;  ///< in the last bytes of the owner's name (v40/owners.h)
  /// The operation has no stateid, so EXPIRED in its answer is about the client id.
  bool of_client_alone = false;
};

/// Chooses a stateid once more when the request gets its slot, because the state may have changed while it waited.
class StateidSource {
 public:
  /// Returns none if the stateid that was encoded is still the right one.
  virtual std::optional<stateid4> at_slot() = 0;

 protected:
  ~StateidSource() = default;
};

class Compound {
 public:
  /// Encodes the RPC header, the COMPOUND header and SEQUENCE into `message`, which must be empty.
  /// `what` names the call in errors. With `with_sequence` false the caller adds its own first
  /// operation (EXCHANGE_ID and the like). `mark`: of the flavour that vouches; the handles that the
  /// Reply brings get it.
  Compound(xdr::Message message, security::Voucher voucher, unsigned minor_version, const char* what,
           bool with_sequence = true, security::Mark mark = 0);

  template <class Op>
  Compound& add(const typename Op::Args& args) {
    begin_operation(Op::number, !Op::idempotent);
    note_changes<Op>(args);
    repeatable_ = repeatable_ && is_repeatable<Op>(args);
    xdr::Encoder out(message_);
    const std::size_t begin = out.position();
    xdr::encode(out, args);
    if (!has_sequence()) note_owner<Op>(args, begin, out.position());
    note_stateid<Op>(begin);
    reply_sizing::add<Op>(size_, args);
    return *this;
  }
  /// For NFSv4.0: names the open owner (Open::owner) and the lock owner (LockState::unique) of the operations
  /// that are added after this call.
  Compound& by(std::optional<std::uint64_t> open_owner, std::optional<std::uint64_t> lock_owner = {}) {
    open_owner_ = open_owner;
    lock_owner_ = lock_owner;
    return *this;
  }
  /// Adds an operation without arguments.
  template <class Op>
  Compound& add() {
    return add<Op>(typename Op::Args{});
  }
  /// Adds READ into `destination`, whose size is the count. `in_stream`: the data comes without a Write
  /// chunk, and is copied there.
  Compound& read(const stateid4& stateid, std::uint64_t offset, std::span<std::byte> destination,
                 bool in_stream = false) {
    results_.push_back({destination, in_stream});
    return add<op::READ>({stateid, offset, static_cast<count4>(destination.size())});
  }
  /// Adds READ_PLUS. `destination` gets the data of the first element that has some; data of later elements
  /// is in the Reply (RFC 8267 4.1.1). READ_PLUS must be the last operation that reads, because an answer
  /// without data leaves its Write chunk unused: some servers fill that chunk with the next result (RFC 8166
  /// 4.3.2.2), others return it empty in its own place.
  Compound& read_plus(const stateid4& stateid, std::uint64_t offset, std::span<std::byte> destination,
                      bool in_stream = false) {
    results_.push_back({destination, in_stream});
    return add<op::READ_PLUS>({stateid, offset, static_cast<count4>(destination.size())});
  }
  /// Adds READLINK, whose text is copied into `destination`. READLINK is eligible for a Write chunk, and
  /// never gets one here: with one, Linux (6.1, nfsd4_encode_readlink) takes four wrong bytes out of the
  /// stream, and a text is short.
  Compound& read_link(std::span<std::byte> destination) {
    results_.push_back({destination, true});
    return add<op::READLINK>();
  }

  /// Has the call end with ErrorKind::cancelled if this returns false before a try: the reason for the call may
  /// be gone after it has waited for a recovery, or because the server asked to wait. For calls that are
  /// repeatable().
  void only_while(std::function<bool()> is_wanted) { is_wanted_ = std::move(is_wanted); }
  [[nodiscard]] bool is_wanted() const { return !is_wanted_ || is_wanted_(); }
  /// Has `source` asked, when the call gets its first slot, for the stateid under which the call reads or changes a
  /// file's data. `source` must outlive the call.
  void stateid_from(StateidSource& source) { stateid_source_ = &source; }
  /// To be called before the request is sent for the first time in a slot, or handed over to be sent in one that may not be free
  /// (also_later): then it is called again if that one was not.
  enum class Asking : std::uint8_t { once, also_later };
  void choose_stateid(Asking asking = Asking::once);
  /// Says that `memory`, unless it is empty, holds the data that the call writes. So the call may be made by another thread,
  /// which may have it longer than the caller waits (session/shard.h).
  void data_stays_in(const async::Memory& memory) { data_memory_ = memory; }
  [[nodiscard]] const async::Memory& data_memory() const { return data_memory_; }
  /// Has the call sent over this connection, unless that is down by then.
  void over(rpc::Channel& channel) { over_ = &channel; }
  /// Returns null if any connection will do.
  [[nodiscard]] rpc::Channel* over() const { return over_ != nullptr && over_->up() ? over_ : nullptr; }

  /// Returns how many bytes READs bring and WRITEs take.
  [[nodiscard]] std::size_t data_size() const { return rpcrdma::data_size(message_, results_); }
  [[nodiscard]] const char* what() const { return what_; }
  [[nodiscard]] security::Mark mark() const { return mark_; }
  [[nodiscard]] bool has_sequence() const { return sequence_at_ != 0; }
  /// Position of SEQUENCE's arguments in the message.
  [[nodiscard]] std::size_t sequence_at() const { return sequence_at_; }
  /// Says that the server need not cache the Reply although an operation is not idempotent: if the Reply is lost, the
  /// call is made again. For calls that are repeatable() and whose Reply servers may find too large to cache.
  void need_not_be_cached() { is_cached_ = false; }
  /// Whether the server is to be asked to cache the Reply (RFC 8881 2.10.6.1.3).
  [[nodiscard]] bool is_to_be_cached() const { return modifies() && is_cached_; }
  /// Whether an operation must not run twice.
  [[nodiscard]] bool modifies() const { return first_modifying_ < count_; }
  /// Whether the call may change something on the server, if only to what it was before.
  [[nodiscard]] bool has_effect() const { return modifies() || changes_.any || changes_.handle; }
  /// Whether the server reaches the same state if it executes the call a second time, as a new request, after
  /// a first time that is not known to have happened. False for operations that make, remove or replace
  /// names. (An operation that changes the state of this client only, such as OPEN or LOCK, recovers that
  /// state when it is repeated.)
  [[nodiscard]] bool repeatable() const { return repeatable_; }
  [[nodiscard]] const Changes& changes() const { return changes_; }
  /// Says that the caller can do without the operations that are added after this call: if the server asks to wait with one
  /// of them, the Reply goes to the caller, and what was executed is not executed a second time.
  void rest_is_optional() { optional_from_ = count_; }
  /// Whether the server executed all that the caller cannot do without.
  [[nodiscard]] bool has_what_it_needs(std::uint32_t executed) const { return executed > optional_from_; }
  /// Whether the size of the Reply has no known bound although the call must not be executed twice. No such
  /// request is sent (RFC 8267 2.6), because a Reply that does not fit would leave the outcome unknown.
  [[nodiscard]] bool is_a_gamble() const { return modifies() && size_.beyond != 0; }
  /// The index of the first operation that must not run twice; the count of operations if there is none.
  [[nodiscard]] std::uint32_t first_modifying() const { return std::min(first_modifying_, count_); }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] const reply_sizing::ReplySize& reply_size() const { return size_; }
  [[nodiscard]] const std::optional<std::uint64_t>& open_owner() const { return open_owner_; }
  [[nodiscard]] const std::optional<std::uint64_t>& lock_owner() const { return lock_owner_; }
  [[nodiscard]] const std::vector<OwnedOperation>& owned() const { return owned_; }
  /// Whether the call has an OPEN, whose Reply keeps the open owner's turn (CallLayer::settle_owner).
  [[nodiscard]] bool opens() const { return opens_; }
  /// Whether the call renews the lease and does nothing else.
  [[nodiscard]] bool is_renewal() const { return count_ == 1 && (has_sequence() || renews_); }

  /// Puts the client id, the seqid and the generation into the encoded operation.
  void fill_in(const OwnedOperation& operation, clientid4 client, seqid4 seqid, std::uint64_t generation);
  /// Puts the arguments of SEQUENCE into the encoded call (RFC 8881 18.46).
  void set_sequence(const SEQUENCE4args& args);
  /// Hands the encoded call to the transport; restore() takes its message back for another try. With
  /// Room::most the Reply has room also for the rare results that are larger than their kind usually is
  /// (ReplySize::beyond).
  enum class Room : std::uint8_t { usual, most };
  rpcrdma::Call release(std::uint64_t max_response, async::TimePoint deadline, Room room = Room::most);
  void restore(xdr::Message message) { message_ = std::move(message); }
  xdr::Message take_message() { return std::move(message_); }
  [[nodiscard]] const xdr::Message& message() const { return message_; }
  /// Null if the Reply is not protected.
  [[nodiscard]] rpc::Protection* protection() const { return protection_.get(); }

 private:
  void begin_operation(nfs_opnum4 number, bool modifies);
  template <class Op>
  static bool is_repeatable(const typename Op::Args& args) {
    using namespace op;
    if constexpr (is_one_of<Op, CREATE, REMOVE, RENAME, LINK, REMOVEXATTR>) return false;
    if constexpr (is_one_of<Op, SETXATTR>) return args.sxa_option != SETXATTR4_CREATE;
    if constexpr (is_one_of<Op, OPEN>) {
      // The server recognizes EXCLUSIVE4 and EXCLUSIVE4_1 by their verifiers, and UNCHECKED4 opens
      // the file that exists.
      const createhow4* how = args.openhow.template get<OPEN4_CREATE>();
      return how == nullptr || how->template get<GUARDED4>() == nullptr;
    }
    return true;
  }
  template <class Op>
  void note_owner(const typename Op::Args& args, std::size_t begin, std::size_t end) {
    using namespace op;
    using enum OwnedOperation::Whose;
    constexpr std::size_t kClient = 8, kLength = 4;
    const auto note = [&](OwnedOperation one) {
      one.index = count_ - 1;
      owned_.push_back(one);
    };
    if constexpr (is_one_of<Op, OPEN>) {
      opens_ = true;
      const std::size_t client_at = begin + 12;  // behind seqid, share_access, share_deny
      const std::size_t name_ends = client_at + kClient + kLength + args.owner.owner.value.size();
      note({open_owner, 0, begin, client_at, name_ends - sizeof(std::uint64_t), true});
    } else if constexpr (is_one_of<Op, CLOSE>) {
      note({open_owner, 0, begin, 0, 0});
    } else if constexpr (is_one_of<Op, OPEN_DOWNGRADE, OPEN_CONFIRM>) {
      note({open_owner, 0, begin + kStateid, 0, 0});
    } else if constexpr (is_one_of<Op, LOCK>) {
      const std::size_t locker_at = begin + 28;  // behind type, reclaim, range, and the union's discriminant
      if (args.locker.template get<true>() != nullptr) {
        const std::size_t lock_seqid_at = locker_at + 4 + kStateid;
        note({open_owner, 0, locker_at, 0, 0});
        note({lock_owner, 0, lock_seqid_at, lock_seqid_at + 4, end - sizeof(std::uint64_t)});
      } else {
        note({lock_owner, 0, locker_at + kStateid, 0, 0});
      }
    } else if constexpr (is_one_of<Op, LOCKU>) {
      note({lock_owner, 0, begin + 4, 0, 0});
    } else if constexpr (is_one_of<Op, LOCKT>) {
      // A lock owner that has locked nothing there has a name without a generation.
      note({lock_owner, 0, 0, begin + 20, lock_owner_ ? end - sizeof(std::uint64_t) : 0, true});
    } else if constexpr (is_one_of<Op, RELEASE_LOCKOWNER>) {
      note({lock_owner, 0, 0, begin, end - sizeof(std::uint64_t), true});
    } else if constexpr (is_one_of<Op, RENEW>) {
      renews_ = true;
      note({nobody, 0, 0, begin, 0, true});
    }
  }
  template <class Op>
  void note_stateid(std::size_t begin) {
    using namespace op;
    if constexpr (is_one_of<Op, READ, READ_PLUS, WRITE, SETATTR, ALLOCATE, DEALLOCATE>) {
      if (stateid_at_ == 0) stateid_at_ = begin;
    } else if constexpr (is_one_of<Op, COPY, CLONE>) {
      stateid_at_ = begin + kStateid;  // behind that of the source
    }
  }
  template <class Op>
  void note_changes(const typename Op::Args& args) {
    using namespace op;
    if constexpr (is_one_of<Op, PUTFH>) {
      current_ = hash_of(args.object);
    } else if constexpr (is_one_of<Op, PUTROOTFH, LOOKUP, LOOKUPP, RESTOREFH>) {
      current_.reset();
    } else if constexpr (is_one_of<Op, WRITE, SETATTR, ALLOCATE, DEALLOCATE, COPY, CLONE, SETXATTR,
                                   REMOVEXATTR>) {
      if (current_) changes_.handle = current_;
      if (!current_) changes_.any = true;
    } else if constexpr (is_one_of<Op, LINK, REMOVE, RENAME>) {
      changes_.any = true;
    } else if constexpr (is_one_of<Op, OPEN>) {
      changes_.any = changes_.any || args.openhow.template get<OPEN4_CREATE>() != nullptr;
    }
  }

  static constexpr std::size_t kStateid = 16;

  xdr::Message message_;
  std::unique_ptr<rpc::Protection> protection_;
  rpcrdma::Few<rpcrdma::ResultTarget> results_;
  reply_sizing::ReplySize size_;
  const char* what_;
  const security::Mark mark_;
  rpc::Channel* over_ = nullptr;
  async::Memory data_memory_;
  std::function<bool()> is_wanted_;
  std::size_t count_at_ = 0;     // where the count of operations stands in the stream
  std::size_t sequence_at_ = 0;  // where SEQUENCE's arguments stand; 0 if there is none
  // Where the stateid stands of the first operation that reads or changes data. A SETATTR of times behind a WRITE keeps
  // its own.
  std::size_t stateid_at_ = 0;
  StateidSource* stateid_source_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t first_modifying_ = ~0U;
  std::uint32_t optional_from_ = ~0U;   // index of the first operation that the caller can do without
  std::optional<std::size_t> current_;  // hash of the current file handle, if it was given
  Changes changes_;
  bool repeatable_ = true;
  bool is_cached_ = true;
  // The members below are used by NFSv4.0 only.
  std::optional<std::uint64_t> open_owner_, lock_owner_;
  std::vector<OwnedOperation> owned_;
  bool opens_ = false, renews_ = false;
};

/// Encodes the stateid at `at`. Returns the position behind it.
std::byte* put_stateid(std::byte* at, const stateid4& stateid);
/// Encodes SEQUENCE's arguments at `at` (RFC 8881 18.46).
void put_sequence(std::byte* at, const SEQUENCE4args& args);

/// A Reply that is read result by result, in order. take() fails at the first operation that the server
/// refused, and failed_status() then says why.
class CompoundReply {
 public:
  CompoundReply(rpc::Channel& channel, rpcrdma::Reply reply) : reply_(channel, std::move(reply)) {}

  /// Reads the RPC and COMPOUND headers, and opens a protected Reply. Returns an Error, for `what` at
  /// `peer`, if the headers cannot be decoded, if the Reply is not the server's, or if it says that
  /// the Call was refused.
  Status begin(rpc::Protection* protection, const char* what, const std::string& peer);
  /// Mark of the Compound that this is the Reply to.
  [[nodiscard]] security::Mark mark() const { return mark_; }
  void set_mark(security::Mark mark) { mark_ = mark; }
  /// Session::epoch() when the call was sent. State that the Reply brings belongs to the
  /// client id of that epoch.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }
  /// Keeps the turn of the open owner for as long as the Reply to its OPEN is in hand
  /// (CallLayer::settle_owner).
  void keep_turn(std::shared_ptr<void> turn) { turn_ = std::move(turn); }
  [[nodiscard]] const std::shared_ptr<void>& turn() const { return turn_; }
  void let_go() { turn_.reset(); }
  [[nodiscard]] nfsstat4 status() const { return status_; }
  /// How many operations were executed, the failed one included.
  [[nodiscard]] std::uint32_t executed() const { return executed_; }
  /// Returns what is wrong with the encoding of the results, if anything.
  [[nodiscard]] xdr::Fault fault() const { return reply_.results().fault(); }
  [[nodiscard]] nfs_opnum4 current() const { return current_; }

  /// Decodes the next result into `res`. Returns true if it is a result of that operation, with NFS4_OK.
  template <class Op>
  bool take(typename Op::Res& res) {
    if (!next(Op::number)) return false;
    if (!xdr::decode(in(), res)) return false;
    failed_status_ = status_of(res);
    if (failed_status_ != nfsstat4::NFS4_OK) return false;
    if constexpr (std::is_same_v<Op, op::GETFH>) res.template get<nfsstat4::NFS4_OK>()->object.mark = mark_;
    return true;
  }
  template <class Op>
  bool take() {
    typename Op::Res res{};
    return take<Op>(res);
  }
  /// The status with which the server refused the operation of the last take(); NFS4_OK if the
  /// Reply itself is at fault.
  [[nodiscard]] nfsstat4 failed_status() const { return failed_status_; }
  /// Called behind the last result: skips `count` bytes and their padding. Returns false if they are
  /// not all that is left.
  bool pass_over(std::size_t count);
  /// To be called when every result has been taken. Returns false if something is left over.
  bool finish() { return in().finish(); }

 private:
  bool next(nfs_opnum4 expected);

  xdr::Decoder& in() { return reply_.results(); }

  rpc::ReplyInHand reply_;
  nfsstat4 status_ = nfsstat4::NFS4_OK;
  nfsstat4 failed_status_ = nfsstat4::NFS4_OK;
  nfs_opnum4 current_{};
  std::uint32_t executed_ = 0;
  std::uint32_t taken_ = 0;
  std::uint64_t epoch_ = 0;
  security::Mark mark_ = 0;
  std::shared_ptr<void> turn_;
};

}  // namespace nfsrdma::nfs4
