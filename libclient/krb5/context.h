// An established context of GSSAPI, for the framing of RPCSEC_GSS: signs and wraps messages that stand in
// pieces.
//
// Confined to one thread at a time; it may be made on another thread.
#pragma once

#include <gssapi/gssapi.h>

#include <cstdint>
#include <memory>

#include "async/loop.h"
#include "gss/context.h"

namespace nfsrdma::krb5 {

struct DeleteContext {
  void operator()(gss_ctx_id_t context) const;
};
using GssContext = std::unique_ptr<gss_ctx_id_struct, DeleteContext>;

/// A context made with a server, the server's data about it, and how long it lasts.
struct Established {
  GssContext context;
  gss::Octets handle;
  std::uint32_t window = 0;
  std::uint32_t seconds = 0;  ///< lifetime; GSS_C_INDEFINITE: unlimited
};

/// Upper bounds for every code and wrapping of Kerberos (RFC 4121, RFC 8009, and the older RFC 1964).
inline constexpr std::size_t kLongestCode = 56;
inline constexpr std::size_t kWrappingAdds = 80;

/// `now`: when the context was established. Its expiry is judged by the loop's clock.
std::shared_ptr<gss::Context> make_context(async::Loop& loop, Established established, async::TimePoint now);

}  // namespace nfsrdma::krb5
