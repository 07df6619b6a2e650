#include "aux/lock_calls.h"

#include "aux/nlm_widths.h"
#include "rpc/message.h"

namespace nfsrdma::aux {
namespace {

using rpc::Refusal;

constexpr std::uint32_t kGranted = NLM_GRANTED<4>::number, kGrantedMsg = NLM_GRANTED_MSG<4>::number;

Refusal judge(const rpc::CallHeader& call) {
  if (call.program != kNlmProgram) return Refusal::program;
  if (call.version != 1 && call.version != 3 && call.version != 4) return Refusal::version;
  const bool known = call.procedure == 0 || call.procedure == kGranted || call.procedure == kGrantedMsg;
  return known ? Refusal::none : Refusal::procedure;
}

bool read(xdr::Decoder& in, std::uint32_t version, nlm4_testargs& args) {
  if (version == 4) return xdr::decode(in, args) && in.finish();
  nlm_testargs<std::uint32_t> narrow_args;
  if (!xdr::decode(in, narrow_args) || !in.finish()) return false;
  args = widen(narrow_args);
  return true;
}

}  // namespace

bool LockCalls::answer(xdr::ConstBytes call, xdr::Message& reply) {
  xdr::Decoder in(call);
  const rpc::CallHeader header = rpc::read_call(in);
  rpc::ReplyHeader verdict = header.verdict;
  if (verdict.refusal == Refusal::undecodable) return false;
  if (verdict.refusal == Refusal::none) verdict = {judge(header), 1, 4};
  nlm4_testargs args;
  const bool has_arguments = verdict.refusal == Refusal::none && header.procedure != 0;
  if (has_arguments && !read(in, header.version, args)) verdict = {Refusal::garbage_args, 0, 0};
  rpc::begin_reply(reply, header.xid, verdict);
  if (!has_arguments || verdict.refusal != Refusal::none) return true;
  nlm_res answer;
  answer.cookie = args.cookie;
  answer.stat = given_(args) ? NLM4_GRANTED : NLM4_DENIED;
  if (header.procedure == kGrantedMsg) {
    tell_(std::move(answer));
    return true;
  }
  xdr::Encoder out(reply);
  xdr::encode(out, answer);
  return true;
}

}  // namespace nfsrdma::aux
