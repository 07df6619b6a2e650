// What became of a call whose first answer is lost and whose second says that there was nothing left to do: EXIST
// of one's own MKDIR, NOENT of one's own REMOVE (RFC 1813 4.8).
//
// The server's memory of calls answers most of these as they were answered first. Where it has forgotten them, the
// directory tells: if it has not changed since before the first time, that time had no effect, and the refusal is
// genuine. If it has, what is there now decides: an object that is as this client would have made it is taken for
// its own, a name that is gone for removed by it. What that cannot tell is whether somebody else did the same in
// the same moment.
#include "nfs3/names.h"

namespace nfsrdma::nfs3 {

bool Names::may_have_been_done(const Doubt& doubt, const post_op_attr& directory) {
  if (doubt.sends < 2) return false;
  return !doubt.before || !directory || directory->ctime != *doubt.before;
}

async::Task<bool> Names::is_as_made(Caller caller, Object object, Expected expected) {
  if (!object.attributes) {
    auto now = co_await attributes(caller, object.handle);
    if (!now) co_return false;
    object.attributes = std::move(*now);
  }
  if (object.attributes->type != expected.type) co_return false;
  if (expected.type == FileType::symlink) {
    auto there = co_await read_link(std::move(caller), object.handle);
    const bool same = there && *there == expected.text;
    co_return same;
  }
  constexpr std::uint32_t kPermissions = 0777;
  co_return !expected.mode || ((*expected.mode ^ object.attributes->mode) & kPermissions) == 0;
}

}  // namespace nfsrdma::nfs3
