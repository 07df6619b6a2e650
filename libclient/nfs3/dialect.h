// Asks the server the procedures of NFSv3: as they are, or translated to those of NFSv2 if the server speaks
// that.
//
// Confined to the loop's thread. The ProcedureCalls must outlive the Dialect.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "calling/procedure_calls.h"
#include "nfs2/translation.h"
#include "reply_sizing/nfs3_reply.h"
#include "wire/nfs3/acl.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::nfs3 {

using calling::Answer;
using calling::ProcedureCalls;
using security::Caller;

class Dialect {
 public:
  /// `version`: the NFS version, 3 or 2.
  explicit Dialect(ProcedureCalls& calls, unsigned version = NFS_V3) : calls_(calls) {
    if (version == nfs2::NFS_V2) translation_.emplace(calls);
  }

  /// Asks one procedure. `into`: memory for the data of READ.
  template <class P>
  async::Task<Result<Answer<P>>> ask(Caller caller, typename P::Args args, std::span<std::byte> into = {}) {
    if (translation_) return translation_->call(std::move(caller), std::move(args), into);
    const reply_sizing::ResultSize size = reply_sizing::result<P>(args);
    return calls_.call<P>(std::move(caller), std::move(args), into, size);
  }
  /// Asks a procedure of NFSACL. `room`: how many octets of results the Reply may have.
  template <class P>
  async::Task<Result<Answer<P>>> ask_for_acl(Caller caller, typename P::Args args, std::uint64_t room) {
    if (translation_) return translation_->call_acl(std::move(caller), std::move(args), room);
    return calls_.call<P>(std::move(caller), std::move(args), {}, reply_sizing::acl_result<P>(room));
  }
  [[nodiscard]] ProcedureCalls& calls() { return calls_; }

 private:
  ProcedureCalls& calls_;
  std::optional<nfs2::Translation> translation_;
};

}  // namespace nfsrdma::nfs3
