#include "trace/reading/body.h"

#include "rpc/message.h"
#include "trace/reading/words.h"
#include "xdr/encoder.h"
#include "xdr/xdr.h"

namespace nfsrdma::trace {
namespace {

constexpr std::uint32_t kNfsAcl = 100227;

std::string protocol_of(const Called& called) {
  if (called.backward) return "callback";
  const std::string version = std::to_string(called.version);
  if (called.program == rpc::kNfsProgram) return "NFSv" + version;
  if (called.program == kNfsAcl) return "NFSACLv" + version;
  return "program " + std::to_string(called.program) + " version " + version;
}

using Decode = void (*)(std::uint32_t version, std::uint32_t procedure, xdr::Decoder& in, Body& out);
/// Decodes by the protocol, or names the procedure by its number.
Body decode(const Called& called, xdr::Decoder& in, Decode compound, Decode backward, Decode plain) {
  Body out;
  out.protocol = protocol_of(called);
  out.procedure = called.procedure == 0 ? "NULL" : "procedure " + std::to_string(called.procedure);
  if (called.procedure == 0) return out;
  if (called.backward) {
    if (called.procedure == 1) backward(called.version, called.procedure, in, out);
  } else if (called.program == rpc::kNfsProgram) {
    const bool is_compound = called.version == 4 && called.procedure == 1;
    if (is_compound) compound(called.version, called.procedure, in, out);
    if (called.version == 2 || called.version == 3) plain(called.version, called.procedure, in, out);
  }
  return out;
}

}  // namespace

Body arguments_of(const Called& called, xdr::Decoder& in) {
  return decode(
      called, in, [](auto, auto, xdr::Decoder& from, Body& out) { nfs4_arguments(from, out); },
      [](auto, auto, xdr::Decoder& from, Body& out) { callback_arguments(from, out); }, nfs3_arguments);
}

Body results_of(const Called& called, xdr::Decoder& in) {
  return decode(
      called, in, [](auto, auto, xdr::Decoder& from, Body& out) { nfs4_results(from, out); },
      [](auto, auto, xdr::Decoder& from, Body& out) { callback_results(from, out); }, nfs3_results);
}

bool read_data(xdr::Decoder& in, bool eof, std::string& out, std::uint64_t& moved) {
  if (in.remaining() < 4) return in.fail(xdr::Fault::truncated);
  moved = xdr::load_u32(in.rest().data());
  out = Words().number("count", moved).flag("eof", eof).str();
  xdr::ConstBytes data;
  return in.eligible(xdr::kNoCap, data);
}

}  // namespace nfsrdma::trace
