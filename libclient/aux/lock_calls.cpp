#include "aux/lock_calls.h"

#include "rpc/message.h"

namespace nfsrdma::aux {
namespace {

using rpc::Refusal;

constexpr std::uint32_t kVersion = NLMPROC4_GRANTED::version;

Refusal judge(const rpc::CallHeader& call) {
  if (call.program != kNlmProgram) return Refusal::program;
  if (call.version != kVersion) return Refusal::version;
  const bool known = call.procedure == 0 || call.procedure == NLMPROC4_GRANTED::number ||
                     call.procedure == NLMPROC4_GRANTED_MSG::number;
  return known ? Refusal::none : Refusal::procedure;
}

}  // namespace

bool LockCalls::answer(xdr::ConstBytes call, xdr::Message& reply) {
  xdr::Decoder in(call);
  const rpc::CallHeader header = rpc::read_call(in);
  rpc::ReplyHeader verdict = header.verdict;
  if (verdict.refusal == Refusal::undecodable) return false;
  if (verdict.refusal == Refusal::none) verdict = {judge(header), kVersion, kVersion};
  nlm4_testargs args;
  const bool has_arguments = verdict.refusal == Refusal::none && header.procedure != 0;
  if (has_arguments && (!xdr::decode(in, args) || !in.finish())) verdict = {Refusal::garbage_args, 0, 0};
  rpc::begin_reply(reply, header.xid, verdict);
  if (!has_arguments || verdict.refusal != Refusal::none) return true;
  nlm4_res answer;
  answer.cookie = args.cookie;
  answer.stat = given_(args) ? NLM4_GRANTED : NLM4_DENIED;
  if (header.procedure == NLMPROC4_GRANTED_MSG::number) {
    tell_(std::move(answer));
    return true;
  }
  xdr::Encoder out(reply);
  xdr::encode(out, answer);
  return true;
}

}  // namespace nfsrdma::aux
