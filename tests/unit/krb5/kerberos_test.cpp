// Contexts of Kerberos's, made over TCP with a real acceptor, where users' tickets count with a real KDC; and servers
// that lie about them.
#include "krb5/kerberos.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <gssapi/gssapi.h>
#include <krb5/krb5.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/loop.h"
#include "aux/record_server.h"
#include "aux/rpcbind.h"
#include "connect/flavors.h"
#include "connect/server.h"
#include "fabric/address.h"
#include "krb5/context.h"
#include "rpc/message.h"
#include "support/own_tickets.h"
#include "support/realm.h"
#include "support/skipped.h"
#include "support/virtual_world.h"

namespace nfsrdma::testing {
namespace {

using namespace std::chrono_literals;

rpc::Address loopback_port(std::uint16_t port) {
  rpc::Address out{};
  auto& address = reinterpret_cast<sockaddr_in&>(out.storage);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  out.length = sizeof address;
  return out;
}

enum class Lie : std::uint8_t { none, verifier, window, undecodable, skew, token, never_ends };

/// The server's side of RPCSEC_GSS_INIT, over TCP.
class Acceptor {
 public:
  explicit Acceptor(async::Loop& loop) { REQUIRE(listen(loop, loopback_port(0))); }
  ~Acceptor() { forget(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// From now on there. False: somebody else listens there.
  bool listen(async::Loop& loop, const rpc::Address& where) {
    auto made = aux::RecordServer::listen(
        loop, {.local = where},
        [this](xdr::ConstBytes call, xdr::Message& reply) { return answer(call, reply); });
    if (made) server_ = std::move(*made);
    return made.has_value();
  }
  [[nodiscard]] rpc::Address address() const { return server_->address(); }
  [[nodiscard]] gss_ctx_id_t context() const { return context_; }
  [[nodiscard]] const std::string& principal() const { return principal_; }
  [[nodiscard]] unsigned calls() const { return calls_; }
  /// For another context.
  void forget() {
    OM_uint32 minor = 0;
    (void)::gss_delete_sec_context(&minor, &context_, GSS_C_NO_BUFFER);
  }
  Lie lie = Lie::none;

 private:
  bool answer(xdr::ConstBytes call, xdr::Message& reply) {
    ++calls_;
    xdr::Decoder in(call);
    const rpc::CallHeader header = rpc::read_call(in);
    xdr::ConstBytes token, handle;
    std::uint32_t version = 0, procedure = 0, number = 0, service = 0;
    xdr::Decoder credential(header.credential);
    REQUIRE(header.flavor == gss::kRpcsecGss);
    REQUIRE(credential.u32(version));
    REQUIRE(credential.u32(procedure));
    REQUIRE(credential.u32(number));
    REQUIRE(credential.u32(service));
    REQUIRE(credential.opaque(400, handle));
    CHECK(version == 1);
    CHECK(header.program == rpc::kNfsProgram);
    CHECK(header.procedure == 0);
    REQUIRE(in.opaque(1 << 20, token));
    OM_uint32 minor = 0;
    gss_buffer_desc given{token.size(), const_cast<std::byte*>(token.data())}, made{};  // NOLINT: only read
    gss_name_t who = GSS_C_NO_NAME;
    const OM_uint32 major =
        ::gss_accept_sec_context(&minor, &context_, GSS_C_NO_CREDENTIAL, &given, GSS_C_NO_CHANNEL_BINDINGS,
                                 &who, nullptr, &made, nullptr, nullptr, nullptr);
    gss_buffer_desc text{};
    OM_uint32 ignored = 0;
    if (major == GSS_S_COMPLETE && ::gss_display_name(&ignored, who, &text, nullptr) == GSS_S_COMPLETE)
      principal_.assign(static_cast<const char*>(text.value), text.length);
    std::array<std::byte, 4> window{};
    xdr::store_u32(window.data(), lie == Lie::window ? 0 : 128);
    gss_buffer_desc message{window.size(), window.data()}, code{};
    if (major == GSS_S_COMPLETE) (void)::gss_get_mic(&ignored, context_, GSS_C_QOP_DEFAULT, &message, &code);
    xdr::Encoder out(reply);
    out.u32(header.xid);
    out.u32(1);
    out.u32(0);
    out.u32(gss::kRpcsecGss);
    std::vector<std::byte> verifier(static_cast<std::byte*>(code.value),
                                    static_cast<std::byte*>(code.value) + code.length);
    if (lie == Lie::verifier && !verifier.empty()) verifier.back() ^= std::byte{1};
    out.opaque(verifier);
    out.u32(0);
    if (lie == Lie::undecodable) {
      out.u32(1U << 30);
    } else {
      const bool refuses = lie == Lie::skew;
      out.opaque(std::array{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}});
      out.u32(refuses ? GSS_S_FAILURE : lie == Lie::never_ends ? GSS_S_CONTINUE_NEEDED : major);
      out.u32(refuses ? static_cast<std::uint32_t>(KRB5KRB_AP_ERR_SKEW) : minor);
      out.u32(xdr::load_u32(window.data()));
      std::vector<std::byte> back(static_cast<std::byte*>(made.value),
                                  static_cast<std::byte*>(made.value) + made.length);
      if (lie == Lie::token && !back.empty()) back.back() ^= std::byte{1};
      out.opaque(back);
    }
    (void)::gss_release_buffer(&ignored, &made);
    (void)::gss_release_buffer(&ignored, &code);
    (void)::gss_release_buffer(&ignored, &text);
    (void)::gss_release_name(&ignored, &who);
    return true;
  }

  gss_ctx_id_t context_ = GSS_C_NO_CONTEXT;
  std::string principal_;
  unsigned calls_ = 0;
  std::unique_ptr<aux::RecordServer> server_;
};

/// A client and the acceptor that it makes contexts with.
struct Peers {
  krb5::KerberosOptions options() {
    krb5::KerberosOptions out;
    out.server = "server.test";
    out.addresses = {acceptor.address()};
    out.patience = 5s;
    return out;
  }
  Result<std::shared_ptr<gss::Context>> establish(krb5::KerberosOptions how,
                                                  security::Caller caller = nullptr) {
    const auto mechanism = krb5::make_kerberos(loop, std::move(how));
    return loop.run(mechanism->establish(std::move(caller)));
  }
  Result<std::shared_ptr<gss::Context>> establish() { return establish(options()); }

  async::Loop loop;
  Acceptor acceptor{loop};
};

/// They need no KDC, since the client has a ticket.
struct Ticketed : Peers {
  OwnTickets tickets{"alice", "nfs/server.test"};
};

/// A realm with a user and a server, and the user's ticket.
struct Scene : Peers {
  Scene() {
    INFO(realm.log());
    REQUIRE(realm.up());
    realm.add("alice", "alice");
    realm.add("nfs/server.test", "server");
    realm.add("host/client.test", "machine");
    realm.add("nfs/client.test", "machine");
    realm.add("MACHINE$", "machine");
    REQUIRE(realm.get_ticket("alice", "alice"));
  }

  Realm realm;
};

bool has_kdc() {
  if (Realm::possible()) return true;
  skip("there is no KDC here (packaging/packages.sh install test)");
  return false;
}
/// With a KDC, and as root, who alone may become other users.
bool has_kdc_and_is_root() {
  if (!has_kdc()) return false;
  if (::geteuid() == 0) return true;
  skip("this needs root");
  return false;
}

/// Makes the cache of a user who ran kinit `age` ago, for a ticket that lasts for `life`. No KDC takes this ticket.
void make_tickets(const std::string& path, const std::string& user, const std::string& realm,
                  std::chrono::seconds life, std::chrono::seconds age = 0s) {
  krb5_context context = nullptr;
  REQUIRE(::krb5_init_context(&context) == 0);
  krb5_ccache cache = nullptr;
  krb5_creds ticket{};
  std::array<krb5_octet, 32> key{};
  std::string sealed(100, 'x');
  REQUIRE(::krb5_parse_name(context, (user + "@" + realm).c_str(), &ticket.client) == 0);
  REQUIRE(::krb5_parse_name(context, ("krbtgt/" + realm + "@" + realm).c_str(), &ticket.server) == 0);
  ticket.keyblock = {0, ENCTYPE_AES256_CTS_HMAC_SHA1_96, key.size(), key.data()};
  ticket.times.starttime = ticket.times.authtime = static_cast<krb5_timestamp>(::time(nullptr) - age.count());
  ticket.times.endtime = ticket.times.starttime + static_cast<krb5_timestamp>(life.count());
  ticket.ticket = {0, static_cast<unsigned>(sealed.size()), sealed.data()};
  REQUIRE(::krb5_cc_resolve(context, ("FILE:" + path).c_str(), &cache) == 0);
  REQUIRE(::krb5_cc_initialize(context, cache, ticket.client) == 0);
  REQUIRE(::krb5_cc_store_cred(context, cache, &ticket) == 0);
  (void)::krb5_cc_close(context, cache);
  ::krb5_free_principal(context, ticket.client);
  ::krb5_free_principal(context, ticket.server);
  ::krb5_free_context(context);
}

gss_buffer_desc text(std::string& of) {
  return {of.size(), of.data()};
}
xdr::ConstBytes octets(const std::string& of) {
  return std::as_bytes(std::span(of));
}

}  // namespace

TEST_CASE("T36 krb5: a context is made over TCP, and what it signs and wraps the server takes") {
  Ticketed m;
  auto made = m.establish();
  REQUIRE_MESSAGE(made, made.error().text());
  gss::Context& context = **made;
  CHECK(m.acceptor.principal() == "alice@TEST.LAB");
  CHECK(m.acceptor.calls() == 1);
  CHECK(context.window() == 128);
  CHECK(context.handle().size() == 4);
  CHECK_FALSE(context.has_ended());
  CHECK_FALSE(context.ends_soon());

  OM_uint32 minor = 0;
  std::string message = "from the client";
  const std::array pieces{octets(message).first(5), octets(message).subspan(5)};
  auto code = context.sign(pieces);
  REQUIRE(code);
  CHECK(code->size() <= krb5::kLongestCode);
  gss_buffer_desc said = text(message), signed_by{code->size(), code->data()};
  CHECK(::gss_verify_mic(&minor, m.acceptor.context(), &said, &signed_by, nullptr) == GSS_S_COMPLETE);
  xdr::Buffer wrapped;
  *wrapped.extend(1) = std::byte{7};
  REQUIRE(context.wrap(pieces, wrapped));
  CHECK(wrapped.data()[0] == std::byte{7});
  const std::size_t length = wrapped.size() - 1;
  CHECK(length - message.size() <= krb5::kWrappingAdds);
  gss_buffer_desc sealed{length, wrapped.data() + 1}, clear{};
  int encrypted = 0;
  REQUIRE(::gss_unwrap(&minor, m.acceptor.context(), &sealed, &clear, &encrypted, nullptr) == GSS_S_COMPLETE);
  CHECK(encrypted == 1);
  CHECK(std::string(static_cast<char*>(clear.value), clear.length) == message);
  (void)::gss_release_buffer(&minor, &clear);

  std::string answer(100'001, 'a');
  gss_buffer_desc given = text(answer), out{};
  REQUIRE(::gss_get_mic(&minor, m.acceptor.context(), 0, &given, &out) == GSS_S_COMPLETE);
  const xdr::ConstBytes mic{static_cast<std::byte*>(out.value), out.length};
  const std::array whole{octets(answer)};
  CHECK(context.is_signed(whole, mic));
  const std::array other{octets(answer).subspan(1)};
  CHECK_FALSE(context.is_signed(other, mic));
  CHECK_FALSE(context.is_signed(whole, mic.first(mic.size() - 1)));
  CHECK_FALSE(context.is_signed(whole, {}));
  (void)::gss_release_buffer(&minor, &out);
  REQUIRE(::gss_wrap(&minor, m.acceptor.context(), 1, 0, &given, &encrypted, &out) == GSS_S_COMPLETE);
  std::vector<std::byte> token(static_cast<std::byte*>(out.value),
                               static_cast<std::byte*>(out.value) + out.length);
  (void)::gss_release_buffer(&minor, &out);
  const auto as_sent = token;
  auto opened = context.unwrap(token);
  REQUIRE(opened);
  CHECK(std::string(reinterpret_cast<const char*>(opened->data()), opened->size()) == answer);
  // Where it stood.
  CHECK(opened->data() > token.data());
  CHECK(opened->data() + opened->size() <= token.data() + token.size());
  token = as_sent;
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, token.size() / 2, token.size() - 1}) {
    auto forged = token;
    forged[at] ^= std::byte{4};
    CHECK_FALSE(context.unwrap(forged));
  }
  CHECK_FALSE(context.unwrap(std::span(token).first(20)));
  CHECK_FALSE(context.unwrap({}));
}

namespace {

/// The flavour as connect/ has it made, of a client that reaches the server's NFS/RDMA at `address`.
std::shared_ptr<security::Flavor> flavor_as_connected(async::Loop& loop, const rpc::Address& address,
                                                      const std::string& options) {
  connect::Target target{"server.test", "/", {}};
  REQUIRE(target.options.set_all(options));
  return connect::make_flavor(loop, target, {address}, connect::Surroundings::system(), {});
}
/// A security context of that flavour.
Status establish_as_connected(async::Loop& loop, const rpc::Address& address, const std::string& options) {
  const auto flavor = flavor_as_connected(loop, address, options);
  const security::Voucher voucher = flavor->vouch(nullptr);
  REQUIRE(voucher.protection);
  return loop.run(voucher.protection->ready(loop.now() + 10s));
}

}  // namespace

TEST_CASE("T36 krb5: contexts are made at TCP port 2049 of the server, or at gssport=") {
  Ticketed m;
  // An address that no other process of this machine listens at, unless it listens at all of them.
  rpc::Address nfs = loopback_port(20049);
  const auto own = static_cast<std::uint32_t>(::getpid());
  reinterpret_cast<sockaddr_in&>(nfs.storage).sin_addr.s_addr = htonl(0x7f240001U | (own & 0xffffU) << 1U);
  SUBCASE("gssport=") {
    REQUIRE(m.acceptor.listen(m.loop, aux::with_port(nfs, 0)));
    const std::string port = std::to_string(fabric::port_of(m.acceptor.address().storage));
    for (const char* security : {"krb5", "krb5i", "krb5p"}) {
      CAPTURE(security);
      m.acceptor.forget();
      const Status done =
          establish_as_connected(m.loop, nfs, std::string("sec=") + security + ",gssport=" + port);
      CHECK_MESSAGE(done, done.error().text());
    }
    CHECK(m.acceptor.calls() == 3);
    return;
  }
  SUBCASE("the usual port") {
    if (!m.acceptor.listen(m.loop, aux::with_port(nfs, 2049))) return skip("TCP port 2049 is taken here");
  }
  unsigned calls = 0;
  for (const char* options :
       {"sec=krb5", "sec=krb5i", "sec=krb5p", "sec=krb5,vers=3", "sec=krb5,port=20123"}) {
    CAPTURE(options);
    m.acceptor.forget();
    const Status done = establish_as_connected(m.loop, nfs, options);
    CHECK_MESSAGE(done, done.error().text());
    CHECK(m.acceptor.calls() == ++calls);
    CHECK(m.acceptor.principal() == "alice@TEST.LAB");
  }
}

TEST_CASE("krb5: sec=krb5p encrypts what is sent, the others do not, and each call says what protects it") {
  Ticketed m;
  struct Row {
    const char* security;
    gss::Service service;
  };
  const std::string port = std::to_string(fabric::port_of(m.acceptor.address().storage));
  const std::string secret = "for the server's eyes only";
  for (const Row& row : {Row{"krb5", gss::Service::none}, Row{"krb5i", gss::Service::integrity},
                         Row{"krb5p", gss::Service::privacy}}) {
    CAPTURE(row.security);
    m.acceptor.forget();
    const auto flavor = flavor_as_connected(m.loop, m.acceptor.address(),
                                            std::string("sec=") + row.security + ",gssport=" + port);
    CHECK(flavor->name_of(0) == row.security);
    const security::Voucher voucher = flavor->vouch(nullptr);
    REQUIRE(voucher.protection);
    const Status ready = m.loop.run(voucher.protection->ready(m.loop.now() + 10s));
    REQUIRE_MESSAGE(ready, ready.error().text());
    xdr::Message call;
    rpc::begin_call(call, rpc::kNfsProgram, 4, 1, voucher.credential);
    xdr::Encoder arguments(call);
    arguments.opaque(octets(secret));
    const auto sealed = voucher.protection->seal(call);
    REQUIRE(sealed);
    const xdr::ConstBytes sent = (*sealed)->stream.bytes();
    xdr::Decoder in(sent);
    const rpc::CallHeader header = rpc::read_call(in);
    CHECK(header.flavor == gss::kRpcsecGss);
    // RFC 2203 5: version, procedure, sequence number, service.
    REQUIRE(header.credential.size() >= 16);
    CHECK(xdr::load_u32(&header.credential[12]) == static_cast<std::uint32_t>(row.service));
    const bool is_legible = !std::ranges::search(sent, octets(secret)).empty();
    CHECK(is_legible == (row.service != gss::Service::privacy));
  }
}

TEST_CASE("krb5: a wrapped message that is signed and not encrypted is refused") {
  Ticketed m;
  auto made = m.establish();
  REQUIRE_MESSAGE(made, made.error().text());
  gss::Context& context = **made;
  std::string answer = "of the server's";
  for (const bool encrypts : {true, false}) {
    CAPTURE(encrypts);
    OM_uint32 minor = 0;
    gss_buffer_desc given = text(answer), out{};
    int encrypted = -1;
    REQUIRE(::gss_wrap(&minor, m.acceptor.context(), encrypts ? 1 : 0, 0, &given, &encrypted, &out) ==
            GSS_S_COMPLETE);
    REQUIRE(encrypted == (encrypts ? 1 : 0));
    auto opened = context.unwrap({static_cast<std::byte*>(out.value), out.length});
    CHECK(opened.has_value() == encrypts);
    if (!opened) CHECK(opened.error().text().find("not encrypted") != std::string::npos);
    (void)::gss_release_buffer(&minor, &out);
  }
}

TEST_CASE("krb5: another context is had in the last tenth of one's life, a minute before its end at most") {
  struct Life {
    std::uint32_t seconds;
    std::chrono::seconds soon;  ///< before the end
  };
  for (const Life& one : {Life{5, 2s}, Life{100, 10s}, Life{600, 60s}, Life{36'000, 60s}}) {
    CAPTURE(one.seconds);
    VirtualWorld world;
    async::Loop loop(world);
    krb5::Established given;
    given.seconds = one.seconds;
    const auto context = krb5::make_context(loop, std::move(given), loop.now());
    const auto at = [&](std::chrono::seconds when) {
      loop.run([](async::Loop& on, async::TimePoint until) -> async::Task<void> {
        co_await on.sleep_until(until);
      }(loop, async::TimePoint(1h + when)));
    };
    const std::chrono::seconds life(one.seconds);
    at(life - one.soon - 1s);
    CHECK_FALSE(context->ends_soon());
    at(life - one.soon);
    CHECK(context->ends_soon());
    CHECK_FALSE(context->has_ended());
    at(life - 1s);
    CHECK_FALSE(context->has_ended());
    at(life);
    CHECK(context->has_ended());
  }
  VirtualWorld world;
  async::Loop loop(world);
  krb5::Established given;
  given.seconds = GSS_C_INDEFINITE;
  const auto context = krb5::make_context(loop, std::move(given), loop.now());
  CHECK_FALSE(context->ends_soon());
  CHECK_FALSE(context->has_ended());
}

TEST_CASE("krb5: a server that lies about a context is not believed") {
  Ticketed m;
  struct Case {
    Lie lie;
    const char* says;
  };
  for (const Case& one :
       {Case{Lie::verifier, "not signed"}, Case{Lie::window, "no sequence number"},
        Case{Lie::undecodable, "cannot be decoded"}, Case{Lie::token, "does not accept the ticket"},
        Case{Lie::skew, "clocks"}, Case{Lie::never_ends, "finish the negotiation"}}) {
    CAPTURE(one.says);
    Acceptor acceptor(m.loop);
    acceptor.lie = one.lie;
    auto how = m.options();
    how.addresses = {acceptor.address()};
    auto made = m.establish(how);
    REQUIRE_FALSE(made);
    CHECK_MESSAGE(made.error().text().find(one.says) != std::string::npos, made.error().text());
    CHECK(made.error().errno_value() == EACCES);
  }
}

TEST_CASE("krb5: what stands between a user and a context is said with the next step") {
  if (!has_kdc()) return;
  Scene m;
  const auto says = [](const Result<std::shared_ptr<gss::Context>>& made, const char* what, ErrorKind kind) {
    REQUIRE_FALSE(made);
    CHECK_MESSAGE(made.error().text().find(what) != std::string::npos, made.error().text());
    CHECK(made.error().kind() == kind);
  };
  SUBCASE("no ticket") {
    m.realm.drop_tickets();
    says(m.establish(), "run kinit", ErrorKind::local);
  }
  SUBCASE("an expired one") {
    make_tickets(m.realm.path("cache"), "alice", "TEST.LAB", 1h, 2h);
    says(m.establish(), "has expired", ErrorKind::local);
  }
  SUBCASE("a service that the KDC does not know") {
    auto how = m.options();
    how.server = "other.test";
    says(m.establish(how), "addprinc -randkey nfs/other.test", ErrorKind::local);
  }
  SUBCASE("a KDC that is away, which may pass") {
    m.realm.stop();
    says(m.establish(), "no KDC answers", ErrorKind::connection);
    m.realm.start();
    CHECK(m.establish());
  }
  SUBCASE("a server that is not there, of two") {
    auto how = m.options();
    how.addresses = {loopback_port(1)};
    says(m.establish(how), "port 2049", ErrorKind::connection);
    how.addresses = {loopback_port(1), m.acceptor.address()};
    CHECK(m.establish(how));
  }
  SUBCASE("a server that does not answer") {
    // The system takes the connection, and nobody what is sent.
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(silent >= 0);
    rpc::Address address = loopback_port(0);
    REQUIRE(::bind(silent, reinterpret_cast<sockaddr*>(&address.storage), address.length) == 0);
    REQUIRE(::listen(silent, 1) == 0);
    REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&address.storage), &address.length) == 0);
    auto how = m.options();
    how.addresses = {address};
    how.patience = 1s;
    says(m.establish(how), "rpc.svcgssd", ErrorKind::connection);
    ::close(silent);
  }
  SUBCASE("a keytab that is not there, is none, or has no key of a machine's") {
    auto how = m.options();
    how.keytab = m.realm.path("nowhere");
    says(m.establish(how), "cannot be read", ErrorKind::local);
    how.keytab = m.realm.path("krb5.conf");
    says(m.establish(how), "is not a valid keytab", ErrorKind::local);
    how.keytab = m.realm.path("alice");
    says(m.establish(how), "no machine key", ErrorKind::local);
  }
}

TEST_CASE("krb5: a machine has the tickets of its keytab, of the first principal that is a machine's") {
  if (!has_kdc()) return;
  Scene m;
  m.realm.drop_tickets();
  auto how = m.options();
  how.keytab = m.realm.path("machine");
  auto made = m.establish(how);
  REQUIRE_MESSAGE(made, made.error().text());
  CHECK(m.acceptor.principal() == "MACHINE$@TEST.LAB");
}

TEST_CASE("krb5: a cache that is handed in counts instead of one's own") {
  if (!has_kdc()) return;
  Scene m;
  auto how = m.options();
  how.ccache = "FILE:" + m.realm.path("elsewhere");
  const auto missing = m.establish(how);
  REQUIRE_FALSE(missing);
  CHECK_MESSAGE(missing.error().text().find("run `kinit -c " + how.ccache + "`") != std::string::npos,
                missing.error().text());
  std::filesystem::rename(m.realm.path("cache"), m.realm.path("elsewhere"));
  CHECK(m.establish(how));
  CHECK_FALSE(m.establish());
}

TEST_CASE("krb5: another user's tickets are his own") {
  if (!has_kdc_and_is_root()) return;
  Scene m;
  auto how = m.options();
  how.many_users = true;
  // Nobody's: he has none, whatever this process has.
  const auto nobody = std::make_shared<security::Identity>();
  nobody->uid = nobody->gid = 65534;
  auto made = m.establish(how, nobody);
  REQUIRE_FALSE(made);
  CHECK_MESSAGE(made.error().text().find("user 65534 has no ticket") != std::string::npos,
                made.error().text());
  // The thread that looked was his; this one is not.
  CHECK(::geteuid() == 0);
  CHECK(m.establish(how));
}

TEST_CASE("krb5: of a user's caches the one of this machine's realm counts, then the one that lasts") {
  if (!has_kdc_and_is_root()) return;
  Scene m;
  auto how = m.options();
  how.many_users = true;
  // Somebody whom no other run of these tests is.
  const auto user = std::make_shared<security::Identity>();
  user->uid = user->gid = 1'000'000 + static_cast<std::uint32_t>(::getpid());
  const auto cache = [&](const char* name) {
    return "/tmp/krb5cc_" + std::to_string(user->uid) + "_" + name;
  };
  m.realm.add("bob", "bob");
  REQUIRE(m.realm.get_ticket("bob", "bob", "20m"));
  std::filesystem::rename(m.realm.path("cache"), cache("bob"));
  REQUIRE(m.realm.get_ticket("alice", "alice", "40m"));
  std::filesystem::rename(m.realm.path("cache"), cache("alice"));
  make_tickets(cache("foreign"), "carol", "OTHER.LAB", 10h);
  for (const char* const one : {"alice", "bob", "foreign"})
    REQUIRE(::chown(cache(one).c_str(), user->uid, user->gid) == 0);
  auto made = m.establish(how, user);
  REQUIRE_MESSAGE(made, made.error().text());
  CHECK(m.acceptor.principal() == "alice@TEST.LAB");
  // Somebody else's are not his, wherever they lie.
  REQUIRE(::chown(cache("alice").c_str(), 0, 0) == 0);
  m.acceptor.forget();
  made = m.establish(how, user);
  REQUIRE_MESSAGE(made, made.error().text());
  CHECK(m.acceptor.principal() == "bob@TEST.LAB");
  for (const char* const one : {"alice", "bob", "foreign"}) std::filesystem::remove(cache(one));
}

TEST_CASE("krb5: tickets that somebody else put where the configuration has a user's do not count") {
  if (!has_kdc_and_is_root()) return;
  Scene m;
  auto how = m.options();
  how.many_users = true;
  const auto user = std::make_shared<security::Identity>();
  user->uid = user->gid = 1'000'000 + static_cast<std::uint32_t>(::getpid());
  const std::string place = m.realm.path("tickets_" + std::to_string(user->uid));
  std::filesystem::rename(m.realm.path("cache"), place);
  REQUIRE(::chmod(place.c_str(), 0644) == 0);
  const std::string file = m.realm.path("krb5.conf");
  std::ifstream in(file);
  std::string configuration(std::istreambuf_iterator<char>(in), {});
  const std::string section = "[libdefaults]\n";
  REQUIRE(configuration.starts_with(section));
  configuration.insert(section.size(),
                       " default_ccache_name = FILE:" + m.realm.path("tickets_%{uid}") + "\n");
  std::ofstream(file) << configuration;
  auto made = m.establish(how, user);
  REQUIRE_FALSE(made);
  CHECK_MESSAGE(made.error().text().find("has no ticket") != std::string::npos, made.error().text());
  REQUIRE(::chown(place.c_str(), user->uid, user->gid) == 0);
  made = m.establish(how, user);
  REQUIRE_MESSAGE(made, made.error().text());
  CHECK(m.acceptor.principal() == "alice@TEST.LAB");
}

TEST_CASE("krb5: who has keys in memory leaves no core, where that is asked for") {
  if (!has_kdc()) return;
  Scene m;
  auto how = m.options();
  REQUIRE(::prctl(PR_SET_DUMPABLE, 1) == 0);
  CHECK(m.establish(how));
  CHECK(::prctl(PR_GET_DUMPABLE) == 1);
  how.no_core = true;
  m.acceptor.forget();
  const bool made = m.establish(how).has_value();
  const int left = ::prctl(PR_GET_DUMPABLE);
  (void)::prctl(PR_SET_DUMPABLE, 1);
  CHECK(left == 0);
  CHECK(made);
}

}  // namespace nfsrdma::testing
