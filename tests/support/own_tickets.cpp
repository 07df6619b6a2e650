#include "support/own_tickets.h"

#include <krb5/krb5.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>

namespace nfsrdma::testing {
namespace {

constexpr const char* kRealm = "TEST.LAB";
constexpr krb5_enctype kCipher = ENCTYPE_AES256_CTS_HMAC_SHA1_96;
constexpr krb5_kvno kKeyVersion = 1;
constexpr std::time_t kLife = 3600;

// ---- DER (X.690), as far as a ticket needs it ----

std::string der(unsigned tag, const std::string& content) {
  std::string out(1, static_cast<char>(tag));
  std::string length;
  for (std::size_t left = content.size(); left != 0; left >>= 8U)
    length.insert(0, 1, static_cast<char>(left & 0xffU));
  if (content.size() < 0x80) {
    out += static_cast<char>(content.size());
  } else {
    out += static_cast<char>(0x80U | length.size());
    out += length;
  }
  return out + content;
}
std::string sequence(std::initializer_list<std::string> members) {
  std::string content;
  for (const std::string& one : members) content += one;
  return der(0x30, content);
}
std::string field(unsigned number, const std::string& value) {
  return der(0xa0U | number, value);
}
std::string small_number(unsigned value) {
  return der(0x02, std::string(1, static_cast<char>(value)));
}
std::string octets(const std::string& bytes) {
  return der(0x04, bytes);
}
std::string general_string(const std::string& text) {
  return der(0x1b, text);
}
std::string time_of(std::time_t when) {
  std::tm parts{};
  std::array<char, 32> text{};
  (void)::gmtime_r(&when, &parts);
  return der(0x18,
             std::string(text.data(), std::strftime(text.data(), text.size(), "%Y%m%d%H%M%SZ", &parts)));
}
/// "nfs/server.test" has two components.
std::string principal_name(const std::string& name) {
  std::string components;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t to = std::min(name.find('/', from), name.size());
    components += general_string(name.substr(from, to - from));
    from = to + 1;
  }
  return sequence({field(0, small_number(KRB5_NT_PRINCIPAL)), field(1, der(0x30, components))});
}

// ---- libkrb5 ----

void must(krb5_error_code status, const char* what) {
  if (status != 0)
    throw std::runtime_error(std::string("own tickets: ") + what + ": " + std::to_string(status));
}

class Library {
 public:
  Library() { must(::krb5_init_context(&context_), "krb5_init_context"); }
  ~Library() { ::krb5_free_context(context_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  [[nodiscard]] krb5_context get() const { return context_; }

 private:
  krb5_context context_ = nullptr;
};

class Key {
 public:
  explicit Key(const Library& library) : library_(library) {
    must(::krb5_c_make_random_key(library_.get(), kCipher, &key_), "krb5_c_make_random_key");
  }
  ~Key() { ::krb5_free_keyblock_contents(library_.get(), &key_); }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  [[nodiscard]] const krb5_keyblock& get() const { return key_; }
  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<const char*>(key_.contents), key_.length};
  }

 private:
  const Library& library_;
  krb5_keyblock key_{};
};

class KerberosName {
 public:
  KerberosName(const Library& library, const std::string& name) : library_(library) {
    must(::krb5_parse_name(library_.get(), (name + "@" + kRealm).c_str(), &name_), "krb5_parse_name");
  }
  ~KerberosName() { ::krb5_free_principal(library_.get(), name_); }
  KerberosName(const KerberosName&) = delete;
  KerberosName& operator=(const KerberosName&) = delete;
  [[nodiscard]] krb5_principal get() const { return name_; }

 private:
  const Library& library_;
  krb5_principal name_ = nullptr;
};

std::string encrypted(const Library& library, const Key& key, const std::string& clear) {
  constexpr krb5_keyusage kTicket = 2;  // RFC 4120 7.5.1
  std::size_t length = 0;
  must(::krb5_c_encrypt_length(library.get(), kCipher, clear.size(), &length), "krb5_c_encrypt_length");
  std::string out(length, '\0');
  krb5_data in{};
  in.length = static_cast<unsigned>(clear.size());
  in.data = const_cast<char*>(clear.data());  // NOLINT: only read
  krb5_enc_data cipher{};
  cipher.ciphertext.length = static_cast<unsigned>(out.size());
  cipher.ciphertext.data = out.data();
  must(::krb5_c_encrypt(library.get(), &key.get(), kTicket, nullptr, &in, &cipher), "krb5_c_encrypt");
  return out;
}

/// What a KDC would give `client` for `service`.
std::string ticket(const Library& library, const std::string& client, const std::string& service,
                   const Key& session, const Key& key_of_service, std::time_t now) {
  const std::string no_flags(5, '\0');
  const std::string part =
      der(0x63,
          sequence({field(0, der(0x03, no_flags)),
                    field(1, sequence({field(0, small_number(kCipher)), field(1, octets(session.bytes()))})),
                    field(2, general_string(kRealm)), field(3, principal_name(client)),
                    field(4, sequence({field(0, small_number(0)), field(1, octets(""))})),
                    field(5, time_of(now)), field(7, time_of(now + kLife))}));
  return der(
      0x61, sequence({field(0, small_number(5)), field(1, general_string(kRealm)),
                      field(2, principal_name(service)),
                      field(3, sequence({field(0, small_number(kCipher)), field(1, small_number(kKeyVersion)),
                                         field(2, octets(encrypted(library, key_of_service, part)))}))}));
}

class Cache {
 public:
  Cache(const Library& library, const std::string& name, const KerberosName& client)
      : library_(library), client_(client) {
    must(::krb5_cc_resolve(library_.get(), name.c_str(), &cache_), "krb5_cc_resolve");
    must(::krb5_cc_initialize(library_.get(), cache_, client.get()), "krb5_cc_initialize");
  }
  ~Cache() { (void)::krb5_cc_close(library_.get(), cache_); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  void store(const KerberosName& server, const Key& session, std::string sealed, std::time_t now) {
    krb5_creds out{};
    out.client = client_.get();
    out.server = server.get();
    out.keyblock = session.get();
    out.times.authtime = out.times.starttime = static_cast<krb5_timestamp>(now);
    out.times.endtime = static_cast<krb5_timestamp>(now + kLife);
    out.ticket.length = static_cast<unsigned>(sealed.size());
    out.ticket.data = sealed.data();
    must(::krb5_cc_store_cred(library_.get(), cache_, &out), "krb5_cc_store_cred");
  }

 private:
  const Library& library_;
  const KerberosName& client_;
  krb5_ccache cache_ = nullptr;
};

void write_keytab(const Library& library, const std::string& name, const KerberosName& service,
                  const Key& key, std::time_t now) {
  krb5_keytab keytab = nullptr;
  must(::krb5_kt_resolve(library.get(), name.c_str(), &keytab), "krb5_kt_resolve");
  krb5_keytab_entry entry{};
  entry.principal = service.get();
  entry.timestamp = static_cast<krb5_timestamp>(now);
  entry.vno = kKeyVersion;
  entry.key = key.get();
  must(::krb5_kt_add_entry(library.get(), keytab, &entry), "krb5_kt_add_entry");
  (void)::krb5_kt_close(library.get(), keytab);
}

}  // namespace

OwnTickets::OwnTickets(const std::string& client, const std::string& service) {
  std::string name = (std::filesystem::temp_directory_path() / "nfsrdma-tickets-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("own tickets: no directory");
  directory_ = name;
  const std::string cache = "FILE:" + directory_ + "/cache", keytab = "FILE:" + directory_ + "/keytab";
  // Hosts are of this realm, so that nobody looks for another one; there is no KDC.
  std::ofstream(directory_ + "/krb5.conf")
      << "[libdefaults]\n default_realm = TEST.LAB\n dns_canonicalize_hostname = false\n"
         " rdns = false\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
         "[domain_realm]\n .test = TEST.LAB\n";
  ::setenv("KRB5_CONFIG", (directory_ + "/krb5.conf").c_str(), 1);
  ::setenv("KRB5CCNAME", cache.c_str(), 1);
  ::setenv("KRB5_KTNAME", keytab.c_str(), 1);
  const Library library;
  const Key session(library), key_of_service(library), key_of_realm(library);
  const KerberosName who(library, client), whom(library, service),
      realm(library, std::string("krbtgt/") + kRealm);
  const std::time_t now = ::time(nullptr);
  write_keytab(library, keytab, whom, key_of_service, now);
  Cache tickets(library, cache, who);
  // GSSAPI takes the life of a cache from the ticket for the realm, which nobody opens.
  tickets.store(realm, session,
                ticket(library, client, std::string("krbtgt/") + kRealm, session, key_of_realm, now), now);
  tickets.store(whom, session, ticket(library, client, service, session, key_of_service, now), now);
}

OwnTickets::~OwnTickets() {
  for (const char* const name : {"KRB5_CONFIG", "KRB5CCNAME", "KRB5_KTNAME"}) ::unsetenv(name);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

}  // namespace nfsrdma::testing
