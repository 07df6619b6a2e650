#include "krb5/tickets.h"

#include <dirent.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <krb5/krb5.h>
#include <profile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace nfsrdma::krb5 {
namespace {

gss_OID_set krb5_only() {
  static gss_OID_set_desc set{1, const_cast<gss_OID>(gss_mech_krb5)};  // NOLINT: GSSAPI only reads it
  return &set;
}

class Library {
 public:
  Library() : failed_(::krb5_init_context(&context_) != 0) {}
  ~Library() {
    if (!failed_) ::krb5_free_context(context_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  [[nodiscard]] explicit operator bool() const { return !failed_; }
  [[nodiscard]] krb5_context get() const { return context_; }

 private:
  krb5_context context_ = nullptr;
  const bool failed_;
};

/// Acquires the tickets in a store. `lifetime` receives how long they are valid, in seconds.
Status acquire(std::span<const gss_key_value_element_desc> store, gss_name_t name, Ticket& out,
               OM_uint32& lifetime) {
  Status status;
  gss_cred_id_t got = GSS_C_NO_CREDENTIAL;
  const gss_key_value_set_desc set{
      static_cast<OM_uint32>(store.size()),
      const_cast<gss_key_value_element_desc*>(store.data())};  // NOLINT: only read
  status.major =
      ::gss_acquire_cred_from(&status.minor, name, GSS_C_INDEFINITE, krb5_only(), GSS_C_INITIATE,
                              store.empty() ? GSS_C_NO_CRED_STORE : &set, &got, nullptr, &lifetime);
  out.reset(got);
  return status;
}

/// Makes this thread act as the user from now on, without the process's groups. The real and the saved ids
/// stay, because they decide whether the user could send the thread a signal, which would end the process.
bool become(const Whose::User& user) {
  constexpr int kStays = -1;
  if (::geteuid() == user.uid) return true;
  // Direct system calls, because the wrappers of the C library change the ids of all threads.
  return ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
         ::syscall(SYS_setresgid, kStays, user.gid, kStays) == 0 &&
         ::syscall(SYS_setresuid, kStays, user.uid, kStays) == 0;
}

// ---- caches ----

/// Adds the caches in a folder: files and directories that belong to the user and whose names begin with
/// `prefix`.
void look_in(const std::string& folder, std::string_view prefix, const Whose::User& user,
             std::vector<std::string>& out) {
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return;
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with(prefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    struct stat what{};
    if (::lstat(path.c_str(), &what) != 0 || what.st_uid != user.uid) continue;
    if (S_ISREG(what.st_mode)) out.push_back("FILE:" + path);
    if (S_ISDIR(what.st_mode)) out.push_back("DIR:" + path);
  }
  ::closedir(directory);
}

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

/// Returns the cache that the configuration (default_ccache_name) names for this user, if it does.
std::string configured(const Whose::User& user) {
  std::string out;
  const Library library;
  profile_t profile = nullptr;
  if (!library || ::krb5_get_profile(library.get(), &profile) != 0) return out;
  char* value = nullptr;
  if (::profile_get_string(profile, "libdefaults", "default_ccache_name", nullptr, nullptr, &value) == 0 &&
      value != nullptr) {
    out = value;
    ::profile_release_string(value);
  }
  ::profile_release(profile);
  const std::string uid = std::to_string(user.uid);
  for (const char* const token : {"%{uid}", "%{euid}", "%{USERID}"})
    out = replaced(std::move(out), token, uid);
  // A token that is not expanded here would be taken literally, so such a name is not used.
  return out.find("%{") == std::string::npos ? out : "";
}

/// Returns false if the cache is a file that belongs to another user: anybody may create a file at the place
/// that the configuration names, and another user's tickets must not be used. For caches outside the file
/// system the kernel or KCM tells users apart.
bool may_be_of(const std::string& cache, const Whose::User& user) {
  const std::size_t colon = cache.find(':');
  std::string path = cache;
  if (colon != std::string::npos) {
    const std::string_view type = std::string_view(cache).substr(0, colon);
    if (type != "FILE" && type != "DIR") return true;
    path.erase(0, colon + 1);
    // "DIR::/path/file" names one cache in a directory.
    if (type == "DIR" && path.starts_with(':')) path.erase(0, 1);
  }
  struct stat what{};
  return ::lstat(path.c_str(), &what) == 0 && what.st_uid == user.uid;
}

std::vector<std::string> caches_of(const Whose::User& user) {
  const std::string uid = std::to_string(user.uid);
  std::vector<std::string> out;
  if (std::string first = configured(user); !first.empty() && may_be_of(first, user))
    out.push_back(std::move(first));
  look_in("/tmp", "krb5cc_", user, out);
  look_in("/run/user/" + uid, "krb5cc", user, out);
  out.push_back("KEYRING:persistent:" + uid);
  out.push_back("KCM:" + uid);
  return out;
}

/// Returns true if the status means that no cache is there, rather than that a cache is unusable.
bool is_absence(Status status) {
  const auto code = static_cast<std::int32_t>(status.minor);
  return code == KRB5_FCC_NOFILE || code == KRB5_CC_NOTFOUND || code == KRB5_CC_END ||
         code == KRB5_CC_NOSUPP || code == KRB5_KCM_RPC_ERROR || code == KRB5_KCM_NO_SERVER ||
         code == ENOENT || code == ECONNREFUSED || code == KRB5_CC_UNKNOWN_TYPE;
}

std::string default_realm() {
  std::string out;
  const Library library;
  char* realm = nullptr;
  if (library && ::krb5_get_default_realm(library.get(), &realm) == 0) {
    out = realm;
    ::krb5_free_default_realm(library.get(), realm);
  }
  return out;
}

/// Returns the principal whose tickets these are, as text; empty if GSSAPI does not tell.
std::string principal_of(gss_cred_id_t ticket) {
  std::string out;
  OM_uint32 minor = 0;
  gss_name_t name = GSS_C_NO_NAME;
  gss_buffer_desc text{};
  if (::gss_inquire_cred(&minor, ticket, &name, nullptr, nullptr, nullptr) == GSS_S_COMPLETE &&
      ::gss_display_name(&minor, name, &text, nullptr) == GSS_S_COMPLETE) {
    out.assign(static_cast<const char*>(text.value), text.length);
  }
  (void)::gss_release_buffer(&minor, &text);
  (void)::gss_release_name(&minor, &name);
  return out;
}

/// Returns the realm of the principal whose tickets these are.
std::string realm_of(gss_cred_id_t ticket) {
  std::string out = principal_of(ticket);
  out.erase(0, out.rfind('@') + 1);
  return out;
}

Result<Ticket> user_ticket(const Whose::User& user, const About& about) {
  if (!become(user)) {
    return Error(ErrorKind::local, EACCES, "Kerberos", about.server,
                 "the tickets of " + about.who + " cannot be read by user " + std::to_string(::geteuid()) +
                     ": a mount for several users must be made by root");
  }
  Ticket best;
  std::pair<bool, OM_uint32> best_rank;  // whether it is of this machine's realm, and its lifetime
  const std::string home = default_realm();
  Status worst{GSS_S_NO_CRED, static_cast<OM_uint32>(KRB5_FCC_NOFILE)};
  for (const std::string& cache : caches_of(user)) {
    const std::array store{gss_key_value_element_desc{"ccache", cache.c_str()}};
    Ticket one;
    OM_uint32 lifetime = 0;
    const Status status = acquire(store, GSS_C_NO_NAME, one, lifetime);
    if (!status.ok()) {
      if (!is_absence(status)) worst = status;
    } else if (lifetime == 0) {
      worst = {GSS_S_CREDENTIALS_EXPIRED, static_cast<OM_uint32>(KRB5KRB_AP_ERR_TKT_EXPIRED)};
    } else if (const std::pair rank(realm_of(one.get()) == home, lifetime); rank > best_rank) {
      best_rank = rank;
      best = std::move(one);
    }
  }
  if (best) return best;
  return client_failure(worst, about);
}

/// `cache`: empty: the one that the environment names.
Result<Ticket> own_ticket(const std::string& cache, const About& about) {
  Ticket out;
  OM_uint32 lifetime = 0;
  const std::array store{gss_key_value_element_desc{"ccache", cache.c_str()}};
  const std::span<const gss_key_value_element_desc> there(store);
  const Status status = acquire(there.first(cache.empty() ? 0 : 1), GSS_C_NO_NAME, out, lifetime);
  if (!status.ok()) return client_failure(status, about);
  if (lifetime == 0)
    return client_failure({GSS_S_CREDENTIALS_EXPIRED, static_cast<OM_uint32>(KRB5KRB_AP_ERR_TKT_EXPIRED)},
                          about);
  return out;
}

// ---- keytabs ----

/// Returns how far down in the order of preference a principal is; nothing: it is not a machine's.
std::optional<int> rank(std::string_view principal, std::string_view host) {
  const std::string_view name = principal.substr(0, principal.rfind('@'));
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    if (!name.ends_with('$')) return std::nullopt;
    std::string upper(host.substr(0, host.find('.')));
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name.substr(0, name.size() - 1) == upper ? 0 : 4;
  }
  static constexpr std::array<std::string_view, 3> kServices{"root", "nfs", "host"};
  const auto* const at = std::ranges::find(kServices, name.substr(0, slash));
  if (at == kServices.end()) return std::nullopt;
  const std::string_view instance = name.substr(slash + 1);
  const bool is_own = instance == host || instance.substr(0, instance.find('.')) == host;
  return static_cast<int>(at - kServices.begin()) + (is_own ? 1 : 5);
}

struct Found {
  std::optional<int> rank;
  std::string principal;
};

/// Returns the most preferred principal in the keytab. An Error means that the keytab cannot be read, or has
/// none.
Result<std::string> principal_in(const std::string& path, const std::string& host, const About& about) {
  const auto failure = [&](krb5_error_code code, const std::string& why) {
    return Error(ErrorKind::local, code == EACCES ? EACCES : ENOENT, "Kerberos", about.server,
                 "the keytab " + path + " " + why);
  };
  if (::access(path.c_str(), R_OK) != 0) {
    const int why = errno;
    return failure(why, std::string("cannot be read (") + std::strerror(why) +
                            "): keytab=FILE names another one, and root can read /etc/krb5.keytab");
  }
  const Library library;
  if (!library) return client_failure({GSS_S_FAILURE, static_cast<OM_uint32>(KRB5_CONFIG_CANTOPEN)}, about);
  const krb5_context context = library.get();
  krb5_keytab keytab = nullptr;
  krb5_kt_cursor cursor = nullptr;
  if (::krb5_kt_resolve(context, ("FILE:" + path).c_str(), &keytab) != 0 ||
      ::krb5_kt_start_seq_get(context, keytab, &cursor) != 0) {
    if (keytab != nullptr) (void)::krb5_kt_close(context, keytab);
    return failure(EINVAL, "is not a valid keytab: `klist -k " + path + "` shows the reason");
  }
  Found best;
  krb5_keytab_entry entry{};
  while (::krb5_kt_next_entry(context, keytab, &entry, &cursor) == 0) {
    char* name = nullptr;
    if (::krb5_unparse_name(context, entry.principal, &name) == 0) {
      const auto one = rank(name, host);
      if (one && (!best.rank || *one < *best.rank)) best = {one, name};
      ::krb5_free_unparsed_name(context, name);
    }
    (void)::krb5_free_keytab_entry_contents(context, &entry);
  }
  (void)::krb5_kt_end_seq_get(context, keytab, &cursor);
  (void)::krb5_kt_close(context, keytab);
  if (!best.rank)
    return failure(
        ENOENT, "has no machine key (HOST$, root/, nfs/ or host/): `klist -k " + path + "` lists its keys");
  return best.principal;
}

Result<Ticket> machine_ticket(const std::string& path, const std::string& host, const About& about) {
  auto principal = principal_in(path, host, about);
  if (!principal) return principal.error();
  Status status;
  gss_buffer_desc text{principal->size(), principal->data()};
  gss_name_t name = GSS_C_NO_NAME;
  status.major = ::gss_import_name(&status.minor, &text, const_cast<gss_OID>(GSS_KRB5_NT_PRINCIPAL_NAME),
                                   &name);  // NOLINT: only read
  if (!status.ok()) return client_failure(status, about);
  const std::string cache = "MEMORY:nfsrdma_" + *principal;
  const std::string keys = "FILE:" + path;
  const std::array store{gss_key_value_element_desc{"client_keytab", keys.c_str()},
                         gss_key_value_element_desc{"ccache", cache.c_str()}};
  Ticket out;
  OM_uint32 lifetime = 0;
  status = acquire(store, name, out, lifetime);
  OM_uint32 minor = 0;
  (void)::gss_release_name(&minor, &name);
  if (!status.ok()) return client_failure(status, about);
  return out;
}

}  // namespace

void ReleaseTicket::operator()(gss_cred_id_t ticket) const {
  OM_uint32 minor = 0;
  (void)::gss_release_cred(&minor, &ticket);
}

std::string Whose::name() const {
  if (!keytab.empty()) return "this machine (" + keytab + ")";
  return "user " + std::to_string(user ? user->uid : ::geteuid());
}

Result<Ticket> find_ticket(const Whose& whose, const About& about) {
  if (!whose.keytab.empty()) return machine_ticket(whose.keytab, whose.host, about);
  if (whose.user) return user_ticket(*whose.user, about);
  return own_ticket(whose.ccache, about);
}

Result<TicketFacts> ticket_facts(const Whose& whose) {
  auto ticket = find_ticket(whose, {whose.name(), whose.host, whose.keytab, whose.ccache});
  if (!ticket) return ticket.error();
  TicketFacts out{principal_of(ticket->get()), 0};
  OM_uint32 minor = 0;
  (void)::gss_inquire_cred(&minor, ticket->get(), nullptr, &out.seconds, nullptr, nullptr);
  return out;
}

}  // namespace nfsrdma::krb5
