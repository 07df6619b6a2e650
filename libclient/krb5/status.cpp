#include "krb5/status.h"

#include <gssapi/gssapi_krb5.h>
#include <krb5/krb5.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nfsrdma::krb5 {
namespace {

constexpr const char* kOperation = "Kerberos";

std::string texts(OM_uint32 code, int type) {
  std::string out;
  OM_uint32 more = 0, minor = 0;
  do {
    gss_buffer_desc text{};
    if (GSS_ERROR(::gss_display_status(&minor, code, type, const_cast<gss_OID>(gss_mech_krb5),
                                       &more,  // NOLINT
                                       &text)) != 0)
      break;
    const std::string one(static_cast<const char*>(text.value), text.length);
    if (!one.empty()) out += (out.empty() ? "" : "; ") + one;
    (void)::gss_release_buffer(&minor, &text);
  } while (more != 0);
  return out;
}

/// Returns the error number of Kerberos itself.
std::int32_t code_of(Status status) {
  return static_cast<std::int32_t>(status.minor);
}

std::string kinit_of(const About& about) {
  if (!about.keytab.empty()) return "see whether `kinit -k -t " + about.keytab + "` can get one";
  return about.ccache.empty() ? "run kinit" : "run `kinit -c " + about.ccache + "`";
}

struct Sentence {
  int errno_value;
  ErrorKind kind;
  std::string text;
};

Sentence sentence(Status status, const About& about) {
  using enum ErrorKind;
  const std::string service = "nfs/" + about.server;
  switch (code_of(status)) {
    case KRB5KRB_AP_ERR_TKT_EXPIRED:
      return {EACCES, local, "the ticket of " + about.who + " has expired: " + kinit_of(about)};
    case KRB5_KDC_UNREACH:
      return {EACCES, connection,
              "no KDC answers: check that it is reachable, and the `kdc =` of the realm in /etc/krb5.conf"};
    case KRB5_REALM_UNKNOWN:
    case KRB5_REALM_CANT_RESOLVE:
      return {EACCES, local,
              "the address of the realm's KDC cannot be found: name it under [realms] in /etc/krb5.conf"};
    case KRB5_CONFIG_NODEFREALM:
    case KRB5_CONFIG_CANTOPEN:
    case KRB5_CONFIG_BADFORMAT:
      return {EACCES, local, "Kerberos is not set up here: /etc/krb5.conf names no realm, or cannot be read"};
    case KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN:
      return {EACCES, local,
              "the KDC does not know " + service +
                  ": mount the server by the name that its keytab has (klist -k, on the server), or make one "
                  "with "
                  "`kadmin -q 'addprinc -randkey " +
                  service + "'`"};
    case KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN:
      return {EACCES, local,
              "the KDC does not know " + about.who + " any more: ask the administrator of the KDC"};
    case KRB5KDC_ERR_PREAUTH_FAILED:
    case KRB5_PREAUTH_FAILED:
    case KRB5KRB_AP_ERR_BAD_INTEGRITY:
      return {EACCES, local,
              "the KDC's key differs from that of " + (about.keytab.empty() ? "the ticket" : about.keytab) +
                  ": get a fresh one with `kadmin ktadd`"};
    case KRB5KRB_AP_ERR_SKEW:
      return {
          EACCES, local,
          "the clocks of this machine and the KDC differ by more than five minutes: set them (timedatectl)"};
    case KRB5_KT_NOTFOUND:
    case KRB5_KT_END:
      return {EACCES, local,
              "there is no key in the keytab " + about.keytab + ": `klist -k " + about.keytab +
                  "` lists its keys"};
    case KRB5_FCC_NOFILE:
    case KRB5_CC_NOTFOUND:
    case KRB5_CC_END:
      return {EACCES, local, about.who + " has no ticket: " + kinit_of(about)};
    case KRB5_CC_FORMAT:
      return {EACCES, local, "the tickets of " + about.who + " cannot be read: run kdestroy, then kinit"};
    default:
      break;
  }
  switch (GSS_ROUTINE_ERROR(status.major)) {
    case GSS_S_NO_CRED:
    case GSS_S_DEFECTIVE_CREDENTIAL:
      return {EACCES, local, about.who + " has no ticket: " + kinit_of(about)};
    case GSS_S_CREDENTIALS_EXPIRED:
    case GSS_S_CONTEXT_EXPIRED:
      return {EACCES, local, "the ticket of " + about.who + " has expired: " + kinit_of(about)};
    default:
      return {EACCES, local, "Kerberos gives no ticket for " + service + ": see `kvno " + service + "`"};
  }
}

}  // namespace

std::string text_of(Status status) {
  std::string out = status.minor != 0 ? texts(status.minor, GSS_C_MECH_CODE) : std::string();
  if (out.empty()) out = texts(status.major, GSS_C_GSS_CODE);
  std::ranges::replace(out, '\n', ' ');
  return out;
}

Error client_failure(Status status, const About& about) {
  Sentence said = sentence(status, about);
  const std::string detail = text_of(status);
  if (!detail.empty()) said.text += " (" + detail + ")";
  return {said.kind, said.errno_value, kOperation, about.server, std::move(said.text)};
}

Error server_failure(Status status, const About& about) {
  const std::string detail = text_of(status);
  std::string text;
  switch (code_of(status)) {
    case KRB5KRB_AP_ERR_SKEW:
      text =
          "the clocks of this machine and the server differ by more than five minutes: set them "
          "(timedatectl)";
      break;
    case KRB5KRB_AP_ERR_TKT_EXPIRED:
      text = "the server considers the ticket of " + about.who + " expired: check the server's clock";
      break;
    default:
      text = "the server does not accept the ticket for nfs/" + about.server +
             ": check that the key in its keytab is the KDC's (klist -k, on the server), and that "
             "rpc.svcgssd or gssproxy runs there";
  }
  if (!detail.empty()) text += " (" + detail + ")";
  return {ErrorKind::server, EACCES, kOperation, about.server, std::move(text)};
}

}  // namespace nfsrdma::krb5
