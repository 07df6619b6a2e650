// A bare NFSv4.1 client of a ServerState, request by request: for tests of the test server itself. It shares
// nothing with the product's client but the XDR types.
//
//     ModelWorld world;
//     ModelClient client(world, "a");
//     client.establish();
//     auto results = client.call(Request().add<op::PUTROOTFH>({}).add<op::LOOKUP>({{"f"}}));
//     CHECK(results.status == NFS4_OK);
//
// Time is `world.now`. Confined to one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

struct ModelWorld {
  Instant now{std::chrono::hours(1)};
  ServerState state{[this] { return now; }};
  void pass(Instant::duration time) { now += time; }
};

/// The operations of a COMPOUND, behind SEQUENCE.
class Request {
 public:
  template <class Op>
  Request& add(const typename Op::Args& args) {
    xdr::Message message;
    xdr::Encoder out(message);
    nfs4::encode_op<Op>(out, args);
    append(flattened(message));
    ++count_;
    return *this;
  }
  [[nodiscard]] Octets bytes() const {
    xdr::Message message;
    xdr::Encoder out(message);
    out.opaque({});
    out.u32(1);
    out.u32(count_);
    out.fixed(operations_);
    return {message.stream.bytes().begin(), message.stream.bytes().end()};
  }
  /// The same with another operation in front.
  template <class Op>
  [[nodiscard]] Request behind(const typename Op::Args& args) const {
    Request out;
    out.add<Op>(args);
    out.append(operations_);
    out.count_ += count_;
    return out;
  }

 private:
  void append(xdr::ConstBytes bytes) { operations_.insert(operations_.end(), bytes.begin(), bytes.end()); }
  Octets operations_;
  std::uint32_t count_ = 0;
};

/// A COMPOUND's results, read in their order.
class Results {
 public:
  Results() = default;
  explicit Results(const Answer& answer) : Results(flattened(answer.message)) {}
  explicit Results(xdr::ConstBytes bytes) : bytes_(std::make_shared<Octets>(bytes.begin(), bytes.end())) {
    in_ = xdr::Decoder(*bytes_);
    xdr::ConstBytes tag;
    (void)(xdr::decode(in_, status) && in_.opaque(nfs4::NFS4_OPAQUE_LIMIT, tag) && in_.u32(count));
  }
  /// The next result, which has to be Op's.
  template <class Op>
  typename Op::Res take() {
    typename Op::Res res{};
    if (!nfs4::decode_op<Op>(in_, res)) nfs4::set_status(res, nfs4::NFS4ERR_SERVERFAULT);
    return res;
  }
  template <class Op>
  Results& skip() {
    (void)take<Op>();
    return *this;
  }

  nfs4::nfsstat4 status = nfs4::NFS4ERR_SERVERFAULT;  ///< of the COMPOUND
  std::uint32_t count = 0;

 private:
  std::shared_ptr<Octets> bytes_;
  xdr::Decoder in_{xdr::ConstBytes()};
};

/// A request that was taken in and not executed yet.
struct Begun {
  Octets bytes;
  std::unique_ptr<Execution> execution;
};

class ModelClient {
 public:
  ModelClient(ServerState& state, std::string owner, unsigned connection_in = 1)
      : connection(connection_in), state_(state), owner_(std::move(owner)) {}
  ModelClient(ModelWorld& world, std::string owner, unsigned connection_in = 1)
      : ModelClient(world.state, std::move(owner), connection_in) {}

  // ---- without a session ----
  Begun begin_bare(const Request& request) {
    Begun out{request.bytes(), nullptr};
    SeenCall seen;
    seen.connection = connection;
    out.execution = state_.begin(out.bytes, out.bytes.size(), who, seen);
    return out;
  }
  Results finish(Begun& begun) {
    const auto answer = state_.finish(*begun.execution);
    return answer ? Results(*answer) : Results();
  }
  template <class Op>
  typename Op::Res alone(const typename Op::Args& args) {
    Begun begun = begin_bare(Request().add<Op>(args));
    return finish(begun).take<Op>();
  }
  nfs4::EXCHANGE_ID4res exchange_id(std::uint32_t flags = 0) {
    nfs4::EXCHANGE_ID4args args;
    args.eia_clientowner.co_verifier = verifier;
    for (const char c : owner_) args.eia_clientowner.co_ownerid.value.push_back(static_cast<std::byte>(c));
    args.eia_flags = flags;
    auto res = alone<nfs4::op::EXCHANGE_ID>(args);
    if (const auto* ok = res.get<nfs4::NFS4_OK>()) {
      id = ok->eir_clientid;
      if ((ok->eir_flags & nfs4::EXCHGID4_FLAG_CONFIRMED_R) == 0) create_sequence = ok->eir_sequenceid;
    }
    return res;
  }
  nfs4::CREATE_SESSION4res create_session() {
    nfs4::CREATE_SESSION4args args;
    args.csa_clientid = id;
    args.csa_sequence = create_sequence;
    args.csa_flags = nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
    args.csa_cb_program = 0x40000000;
    args.csa_fore_chan_attrs = wanted;
    auto res = alone<nfs4::op::CREATE_SESSION>(args);
    if (const auto* ok = res.get<nfs4::NFS4_OK>()) {
      ++create_sequence;
      session = ok->csr_sessionid;
      sequences.clear();
    }
    return res;
  }
  /// All that comes before work.
  nfs4::nfsstat4 establish(bool reclaims = false) {
    if (const auto bad = nfs4::status_of(exchange_id()); bad != nfs4::NFS4_OK) return bad;
    if (const auto bad = nfs4::status_of(create_session()); bad != nfs4::NFS4_OK) return bad;
    return reclaims ? nfs4::NFS4_OK : complete();
  }
  nfs4::nfsstat4 complete() { return call(Request().add<nfs4::op::RECLAIM_COMPLETE>({false})).status; }

  // ---- in the session ----
  /// With SEQUENCE in front. `repeated`: with the sequence id of the one before.
  Request in_slot(const Request& request, nfs4::slotid4 slot = 0, bool cache = true, bool repeated = false) {
    if (!repeated) ++sequences[slot];
    return request.behind<nfs4::op::SEQUENCE>(
        {session, sequences[slot], slot, std::max(slot, highest), cache});
  }
  /// Takes a request in.
  Begun begin(const Request& request, nfs4::slotid4 slot = 0, bool cache = true, bool repeated = false) {
    return begin_bare(in_slot(request, slot, cache, repeated));
  }
  Results call(const Request& request, nfs4::slotid4 slot = 0, bool cache = true, bool repeated = false) {
    Begun begun = begin(request, slot, cache, repeated);
    Results results = finish(begun);
    first = results.take<nfs4::op::SEQUENCE>();
    return results;
  }
  /// One operation on a file or directory.
  template <class Op>
  typename Op::Res on(std::uint64_t inode, const typename Op::Args& args) {
    return call(Request().add<nfs4::op::PUTFH>({handle_of(inode)}).add<Op>(args))
        .template skip<nfs4::op::PUTFH>()
        .template take<Op>();
  }
  template <class Op>
  typename Op::Res on(const std::string& path, const typename Op::Args& args) {
    return on<Op>(state_.find(path)->id, args);
  }
  /// OPEN by name, without creating.
  nfs4::OPEN4res open(const std::string& directory, const std::string& name,
                      std::uint32_t access = nfs4::OPEN4_SHARE_ACCESS_BOTH, std::uint32_t deny = 0) {
    return on<nfs4::op::OPEN>(
        directory, open_args(access, deny, nfs4::open_claim4::of<nfs4::CLAIM_NULL>(nfs4::component4{name})));
  }
  nfs4::OPEN4res create(const std::string& directory, const std::string& name, nfs4::createhow4 how) {
    auto args = open_args(nfs4::OPEN4_SHARE_ACCESS_BOTH, 0,
                          nfs4::open_claim4::of<nfs4::CLAIM_NULL>(nfs4::component4{name}));
    args.openhow = nfs4::openflag4::of<nfs4::OPEN4_CREATE>(std::move(how));
    return on<nfs4::op::OPEN>(directory, args);
  }
  nfs4::OPEN4res reclaim(std::uint64_t inode, std::uint32_t access = nfs4::OPEN4_SHARE_ACCESS_BOTH) {
    return on<nfs4::op::OPEN>(
        inode, open_args(access, 0, nfs4::open_claim4::of<nfs4::CLAIM_PREVIOUS>(nfs4::OPEN_DELEGATE_NONE)));
  }
  nfs4::WRITE4res write(std::uint64_t inode, const nfs4::stateid4& stateid, std::uint64_t offset,
                        const std::string& text, nfs4::stable_how4 stable = nfs4::FILE_SYNC4) {
    return on<nfs4::op::WRITE>(
        inode, {stateid, offset, stable, {std::as_bytes(std::span(text.data(), text.size()))}});
  }
  nfs4::LOCK4res lock(std::uint64_t inode, const nfs4::stateid4& open, std::uint64_t offset,
                      std::uint64_t length, bool reclaim = false,
                      nfs4::nfs_lock_type4 type = nfs4::WRITEW_LT) {
    nfs4::open_to_lock_owner4 locker;
    locker.open_stateid = open;
    locker.lock_owner.owner.value.push_back(std::byte{1});
    return on<nfs4::op::LOCK>(inode,
                              {type, reclaim, offset, length, nfs4::locker4::of<true>(std::move(locker))});
  }

  static nfs4::stateid4 stateid(const nfs4::OPEN4res& res) {
    const auto* ok = res.get<nfs4::NFS4_OK>();
    return ok != nullptr ? ok->stateid : nfs4::stateid4{};
  }
  [[nodiscard]] std::uint32_t flags() const {
    const auto* ok = first.get<nfs4::NFS4_OK>();
    return ok != nullptr ? ok->sr_status_flags : 0;
  }

  unsigned connection;
  Principal who{1000, 100, true};
  nfs4::verifier4 verifier{};
  nfs4::channel_attrs4 wanted{0, 1U << 20, 1U << 20, 1U << 16, 16, 4, {}};
  nfs4::clientid4 id = 0;
  nfs4::sequenceid4 create_sequence = 0;
  nfs4::sessionid4 session{};
  nfs4::slotid4 highest = 0;  // that is told, at least
  std::map<nfs4::slotid4, nfs4::sequenceid4> sequences;
  nfs4::SEQUENCE4res first;  // of the last call

 private:
  [[nodiscard]] nfs4::OPEN4args open_args(std::uint32_t access, std::uint32_t deny,
                                          nfs4::open_claim4 claim) const {
    nfs4::OPEN4args args;
    args.share_access = access;
    args.share_deny = deny;
    args.owner.owner.value.push_back(std::byte{7});
    args.claim = std::move(claim);
    return args;
  }

  ServerState& state_;
  const std::string owner_;
};

}  // namespace nfsrdma::testing
