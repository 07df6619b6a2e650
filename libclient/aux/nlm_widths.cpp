#include "aux/nlm_widths.h"

#include <algorithm>

namespace nfsrdma::aux {

nlm_lock<std::uint32_t> narrow(const nlm4_lock& from) {
  const std::uint64_t offset = std::min(from.l_offset, kNarrowOffsets);
  const bool ends = from.l_len != 0 && from.l_len <= kNarrowOffsets - offset;
  nlm_lock<std::uint32_t> out;
  out.caller_name = from.caller_name;
  out.fh = from.fh;
  out.oh = from.oh;
  out.svid = from.svid;
  out.l_offset = static_cast<std::uint32_t>(offset);
  out.l_len = ends ? static_cast<std::uint32_t>(from.l_len) : 0;
  return out;
}

nlm_testargs<std::uint32_t> narrow(const nlm4_testargs& from) {
  return {from.cookie, from.exclusive, narrow(from.alock)};
}
nlm_lockargs<std::uint32_t> narrow(const nlm4_lockargs& from) {
  return {from.cookie, from.block, from.exclusive, narrow(from.alock), from.reclaim, from.state};
}
nlm_cancargs<std::uint32_t> narrow(const nlm4_cancargs& from) {
  return {from.cookie, from.block, from.exclusive, narrow(from.alock)};
}
nlm_unlockargs<std::uint32_t> narrow(const nlm4_unlockargs& from) {
  return {from.cookie, narrow(from.alock)};
}

nlm4_testargs widen(const nlm_testargs<std::uint32_t>& from) {
  const nlm_lock<std::uint32_t>& lock = from.alock;
  return {from.cookie,
          from.exclusive,
          {lock.caller_name, lock.fh, lock.oh, lock.svid, lock.l_offset, lock.l_len}};
}

nlm4_testres widen(const nlm_testres<std::uint32_t>& from) {
  nlm4_testres out;
  out.cookie = from.cookie;
  if (const auto* holder = from.stat.get<NLM4_DENIED>()) {
    out.stat.emplace<NLM4_DENIED>() = {holder->exclusive, holder->svid, holder->oh, holder->l_offset,
                                       holder->l_len};
  } else {
    (void)out.stat.select(from.stat.tag());
  }
  return out;
}

}  // namespace nfsrdma::aux
