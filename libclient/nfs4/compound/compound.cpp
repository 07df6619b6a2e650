#include "nfs4/compound/compound.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nfsrdma::nfs4 {
namespace {
constexpr std::uint32_t kMostResults = 1024;  // in one Reply; this client's COMPOUNDs have far fewer
constexpr std::uint32_t kMostTag = 1024;
}  // namespace

Compound::Compound(xdr::Message message, security::Voucher voucher, unsigned minor_version, const char* what,
                   bool with_sequence, security::Mark mark)
    : message_(std::move(message)), protection_(std::move(voucher.protection)), what_(what), mark_(mark) {
  rpc::begin_call(message_, rpc::kNfsProgram, NFS_V4, NFSPROC4_COMPOUND, voucher.credential);
  xdr::Encoder out(message_);
  out.u32(0);  // an empty tag, because the server would return it in every Reply
  out.u32(minor_version);
  count_at_ = out.position();
  out.u32(0);
  size_ = reply_sizing::start(voucher.credential.largest_reply_header() +
                              (protection_ ? protection_->reply_growth() : 0));
  if (with_sequence) {
    // The arguments start right behind the operation's number.
    sequence_at_ = out.position() + 4;
    add<op::SEQUENCE>({});
  }
}

void Compound::begin_operation(nfs_opnum4 number, bool modifies) {
  if (modifies && first_modifying_ > count_ && number != nfs_opnum4::OP_SEQUENCE) first_modifying_ = count_;
  ++count_;
  xdr::store_u32(message_.stream.data() + count_at_, count_);
  xdr::Encoder(message_).u32(static_cast<std::uint32_t>(number));
}

void Compound::set_sequence(const SEQUENCE4args& args) {
  put_sequence(message_.stream.data() + sequence_at_, args);
}

void Compound::choose_stateid(Asking asking) {
  StateidSource* const source = stateid_source_;
  if (source == nullptr) return;
  if (asking == Asking::once) stateid_source_ = nullptr;
  const std::optional<stateid4> stateid = source->at_slot();
  if (stateid) put_stateid(message_.stream.data() + stateid_at_, *stateid);
}

std::byte* put_stateid(std::byte* at, const stateid4& stateid) {
  xdr::store_u32(at, stateid.seqid);
  at += sizeof stateid.seqid;
  std::memcpy(at, stateid.other.data(), stateid.other.size());
  return at + stateid.other.size();
}

void put_sequence(std::byte* at, const SEQUENCE4args& args) {
  std::copy(args.sa_sessionid.begin(), args.sa_sessionid.end(), at);
  at += args.sa_sessionid.size();
  for (const std::uint32_t word : {args.sa_sequenceid, args.sa_slotid, args.sa_highest_slotid,
                                   static_cast<std::uint32_t>(args.sa_cachethis ? 1 : 0)}) {
    xdr::store_u32(at, word);
    at += 4;
  }
}

void Compound::fill_in(const OwnedOperation& operation, clientid4 client, seqid4 seqid,
                       std::uint64_t generation) {
  std::byte* const stream = message_.stream.data();
  if (operation.seqid_at != 0) xdr::store_u32(stream + operation.seqid_at, seqid);
  if (operation.client_at != 0) xdr::store_u64(stream + operation.client_at, client);
  if (operation.generation_at != 0) xdr::store_u64(stream + operation.generation_at, generation);
}

rpcrdma::Call Compound::release(std::uint64_t max_response, async::TimePoint deadline, Room room) {
  reply_sizing::ReplySize size = size_;
  if (room == Room::most) reply_sizing::go_beyond(size);
  const auto eligible = size.eligible_results();
  const bool covered = protection_ && protection_->covers_data();
  for (std::size_t i = 0; i < std::min(results_.size(), eligible.size()); ++i) {
    results_[i].wanted_inline = results_[i].wanted_inline || covered;
    // A result that is wanted in the stream gets no Write chunk, so the Reply's stream must have room for it.
    if (results_[i].wanted_inline) size.max_reduced = xdr::sum(size.max_reduced, xdr::padded(eligible[i]));
  }
  // RFC 8267 4.2.2: from v4.1 on ca_maxresponsesize bounds every Reply.
  reply_sizing::bound(size, max_response);
  rpcrdma::Call call;
  call.message = std::move(message_);
  call.seal = protection_.get();
  call.results = results_;
  call.reply_max_inline = size.max_inline;
  call.reply_max_reduced = size.max_reduced;
  call.deadline = deadline;
  // A SEQUENCE or RENEW alone keeps the lease, so it may use the credit that is kept for health checks while
  // every other credit waits for its Reply (RFC 8267 4.6).
  call.health_check = is_renewal();
  return call;
}

Status CompoundReply::begin(rpc::Protection* protection, const char* what, const std::string& peer) {
  const rpc::Called called{"NFS", NFS_V4};
  if (auto begun = reply_.begin(protection, called, what, peer); !begun) return begun;
  xdr::ConstBytes tag;
  std::uint32_t status = 0;
  if (in().u32(status) && in().opaque(kMostTag, tag) && in().u32(executed_) && executed_ <= kMostResults) {
    status_ = static_cast<nfsstat4>(status);
    return {};
  }
  return rpc::refusal_error({.refusal = rpc::Refusal::undecodable}, called, what, peer);
}

bool CompoundReply::pass_over(std::size_t count) {
  xdr::ConstBytes passed;
  return in().remaining() == xdr::padded(count) && in().view(count, passed);
}

bool CompoundReply::next(nfs_opnum4 expected) {
  if (failed_status_ != nfsstat4::NFS4_OK) return false;
  current_ = expected;
  if (taken_ == executed_) {
    // The server stopped before this operation and gave no result for it: the COMPOUND's status says why.
    failed_status_ = status_;
    return false;
  }
  ++taken_;
  std::uint32_t number = 0;
  if (!in().u32(number)) return false;
  if (number == static_cast<std::uint32_t>(expected)) return true;
  if (number ==
      static_cast<std::uint32_t>(nfs_opnum4::OP_ILLEGAL)) {  // RFC 8881 18.52: not known to the server
    failed_status_ = status_;
    return false;
  }
  in().fail(xdr::Fault::bad_discriminant);
  return false;
}

}  // namespace nfsrdma::nfs4
