// A diagnosis names the cause of each fault: twelve that are prepared, and a server without any.
//
// Most of them are on a simulated network, whose time is virtual. Those about TCP and Kerberos are on this machine's
// loopback.
#include "diagnosis/diagnosis.h"

#include <doctest/doctest.h>
#include <krb5/krb5.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aux/record_server.h"
#include "aux/rpcbind.h"
#include "engine/access_bits.h"
#include "fabric/address.h"
#include "fabric/iwarp/listener.h"
#include "fabric/verbs/library.h"
#include "rpc/message.h"
#include "sim/fabric/network.h"
#include "support/engine_fixture.h"
#include "support/fixed_roots.h"
#include "support/loopback.h"
#include "support/nfs_responder.h"
#include "support/no_locks.h"
#include "support/own_tickets.h"
#include "support/rpc_program.h"
#include "support/skipped.h"

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;
using testing::ok;

/// What a diagnosis has reported.
struct Reported {
  std::vector<Finding> findings;
  std::size_t failures = 0;

  [[nodiscard]] const Finding& of(const std::string& step) const {
    const auto found = std::ranges::find(findings, step, &Finding::step);
    if (found == findings.end()) FAIL("there is no step " << step);
    return *found;
  }
  [[nodiscard]] std::string fact(const std::string& step, const std::string& name) const {
    for (const Fact& one : of(step).facts) {
      if (one.name == name) return one.value;
    }
    return "(none)";
  }
  /// As the program prints them, for a test that fails.
  [[nodiscard]] std::string text() const {
    static constexpr const char* kMarks[] = {"ok  ", "warn", "FAIL", "skip"};
    std::string out;
    for (const Finding& one : findings) {
      out +=
          std::string(kMarks[static_cast<std::size_t>(one.state)]) + "  " + one.step + ": " + one.seen + "\n";
      if (!one.advice.empty()) out += "      to do: " + one.advice + "\n";
    }
    return out;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The step failed because of `cause`, the verdict says so and what to do, and the next step was not examined.
void check_cause(const Reported& all, const std::string& step, const std::string& cause) {
  INFO(all.text());
  CHECK(all.failures == 1);
  CHECK(all.of(step).state == State::failed);
  const Finding& verdict = all.findings.back();
  CHECK(verdict.step == "verdict");
  CHECK(verdict.state == State::failed);
  CHECK(has(verdict.seen, step + ": "));
  CHECK(has(verdict.seen + verdict.advice, cause));
  const auto failed = std::ranges::find(all.findings, step, &Finding::step);
  CHECK(std::next(failed)->state == State::skipped);
}

/// The step warns of `cause`, and so does the verdict.
void check_warning(const Reported& all, const std::string& step, const std::string& cause) {
  INFO(all.text());
  CHECK(all.failures == 0);
  CHECK(all.of(step).state == State::warning);
  CHECK(all.findings.back().state == State::warning);
  CHECK(has(all.findings.back().seen, step + ": "));
  CHECK(has(all.findings.back().seen, cause));
  CHECK_FALSE(all.findings.back().advice.empty());
}

/// `seen` is called after each step.
Reported run(Diagnosis& diagnosis, const std::function<void()>& seen = [] {}) {
  Reported out;
  const auto take = [&](const Finding& finding) {
    out.findings.push_back(finding);
    seen();
  };
  auto failures = diagnosis.run(take, -1);
  REQUIRE(ok(failures));
  out.failures = *failures;
  return out;
}

/// A server on a simulated machine.
struct Simulated {
  sim::Simulation world{1};
  sim::Network network{world};
  testing::NfsServer server{network, world.add_host("server")};
  testing::ClientLoop place{server, "client"};
  int knocked = 0;  ///< how TCP connections to the port end: 0 or an errno
  bool has_plain = false;
  std::weak_ptr<int> knock;       ///< the TCP connection
  unsigned steps_with_knock = 0;  ///< that ended while this connection was there
  Wanted wanted;

  ~Simulated() { CHECK(server.problems() == ""); }
  Means means() {
    Means out;
    out.around.host = "client";
    out.around.process = "1";
    out.around.dial = network.dialer(*place.host());
    out.around.roots = std::make_shared<testing::FixedRoots>();
    out.around.locks = std::make_shared<testing::NoLocks>();
    out.resolve = [this](const std::string&, std::uint16_t, async::TimePoint, int) -> Means::Addresses {
      return std::vector{sim::Network::address(*server.host(), server.port())};
    };
    out.route = [](const rpc::Address&) -> Result<Way> { return Way{"192.0.2.1", "eth0", 1500, 1500}; };
    out.knock = [this](async::Loop&, rpc::Address address, async::TimePoint) -> async::Task<Knock> {
      constexpr std::uint16_t kNfsPort = 2049;
      const bool is_plain = fabric::port_of(address.storage) == kNfsPort;
      const auto connection = std::make_shared<int>();
      if (!is_plain) knock = connection;
      return answer({is_plain ? (has_plain ? 0 : ECONNREFUSED) : knocked, connection});
    };
    return out;
  }
  Reported diagnose(const std::string& options = "", const std::string& path = "/") {
    connect::Target target =
        server.connect_target("fabric=iwarp,sec=sys" + (options.empty() ? "" : "," + options));
    target.host = "server";
    target.path = path;
    target.options.port_fixed = true;  // simulated machines have no rpcbind
    Diagnosis diagnosis(place.loop(), target, wanted, means());
    return run(diagnosis, [this] { steps_with_knock += knock.expired() ? 0 : 1; });
  }

 private:
  static async::Task<Knock> answer(Knock with) { co_return with; }
};

/// A port of this machine, where a server of RDMA is looked for. `host`: the name that the user gives.
struct OnLoopback {
  async::Loop loop;
  std::string host = "server.test";

  Reported diagnose(std::uint16_t port, const std::string& options) {
    connect::Target target;
    target.host = host;
    target.path = "/";
    REQUIRE(ok(target.options.set_all("fabric=iwarp," + options)));
    Means means = Means::system();
    means.around.host = "client.test";
    means.resolve = [port](const std::string&, std::uint16_t, async::TimePoint, int) -> Means::Addresses {
      rpc::Address out;
      out.storage = testing::loopback(port);
      out.length = sizeof(sockaddr_in);
      return std::vector{out};
    };
    Diagnosis diagnosis(loop, target, Wanted{}, std::move(means));
    return run(diagnosis);
  }
  [[nodiscard]] rpc::Address any_port() const {
    rpc::Address out;
    out.storage = testing::loopback(0);
    out.length = sizeof(sockaddr_in);
    return out;
  }
};

}  // namespace

TEST_CASE("diagnosis: a server without a fault gets a good verdict, with what was measured") {
  Simulated m;
  m.server.add_file("/export/file", std::string(50000, 'x'));
  m.wanted.read = "file";
  const Reported all = m.diagnose("", "/export");
  INFO(all.text());
  CHECK(all.failures == 0);
  CHECK(all.findings.size() == 21);
  CHECK(all.findings.back().state == State::ok);
  CHECK(all.findings.back().seen == "NFS 4.2 over sim works");
  CHECK(all.fact("route", "mtu") == "1500");
  CHECK(all.fact("mtu", "answered_bytes") == "64000");
  CHECK(all.fact("versions", "versions") == "4.2, 4.1, 4.0, 3, 2");
  CHECK(all.fact("latency", "round_trips") == "20");
  CHECK(all.fact("read", "bytes") == "16384");
  CHECK(all.of("read").took > 0ns);
  CHECK(all.fact("export", "security") == "sys");
  CHECK(m.server.sessions() == 0);  // nothing is left at the server
  CHECK(m.server.succeeded(nfs4::OP_OPEN) == 1);
}

TEST_CASE("diagnosis: the TCP connection to the port is kept until all connections have been made") {
  Simulated m;
  const Reported all = m.diagnose();
  const auto port = std::ranges::find(all.findings, "port", &Finding::step);
  CHECK(m.steps_with_knock == all.findings.end() - port);
  CHECK(m.knock.expired());
}

TEST_CASE("diagnosis: a file that is written shows how far the clocks are apart, and is removed") {
  Simulated m;
  m.server.add_directory("/export");
  m.wanted.write = true;
  // The clocks of simulated machines differ by three years.
  check_warning(m.diagnose("", "/export"), "write",
                "the server's clock is 100000000 s behind this machine's");
  CHECK(m.server.succeeded(nfs4::OP_WRITE) == 1);
  CHECK(m.server.succeeded(nfs4::OP_REMOVE) == 1);
}

TEST_CASE("diagnosis: NFSv3 is examined, too") {
  Simulated m;
  m.server.add_directory("/export");
  const Reported all = m.diagnose("vers=3", "/export");
  INFO(all.text());
  CHECK(all.failures == 0);
  CHECK(all.of("backchannel").state == State::skipped);
  CHECK(all.of("session").seen == "NFS 3, which has no sessions");
  CHECK_FALSE(has(all.of("credits").seen, "slots"));
}

TEST_CASE("diagnosis, fault 1: nothing listens on the port") {
  SUBCASE("of a real machine") {
    OnLoopback m;
    std::uint16_t port = 0;
    {
      auto gone = aux::RecordServer::listen(m.loop, {.local = m.any_port()},
                                            [](xdr::ConstBytes, xdr::Message&) { return false; });
      REQUIRE(ok(gone));
      port = fabric::port_of((*gone)->address().storage);
    }
    check_cause(m.diagnose(port, "sec=sys"), "port", "nothing listens on TCP port " + std::to_string(port));
  }
  SUBCASE("and the server has NFS without RDMA") {
    Simulated m;
    m.knocked = ECONNREFUSED;
    m.has_plain = true;
    check_cause(m.diagnose(), "port", "NFS without RDMA answers on port 2049");
  }
}

TEST_CASE("diagnosis, fault 2: a firewall drops the packets") {
  Simulated m;
  m.knocked = ETIMEDOUT;
  check_cause(m.diagnose(), "port", "does not answer: a firewall drops the packets");
}

TEST_CASE("diagnosis, fault 3: NFS over TCP without RDMA listens on the port") {
  OnLoopback m;
  auto server = aux::RecordServer::listen(
      m.loop, {.local = m.any_port()}, [](xdr::ConstBytes call, xdr::Message& reply) {
        xdr::Decoder in(call);
        const rpc::CallHeader header = rpc::read_call(in);
        if (header.verdict.refusal == rpc::Refusal::undecodable) return false;
        rpc::begin_reply(reply, header.xid, {.refusal = rpc::Refusal::none});
        return true;
      });
  REQUIRE(ok(server));
  const std::uint16_t port = fabric::port_of((*server)->address().storage);
  check_cause(m.diagnose(port, "sec=sys,connect_timeout=300ms"), "connection",
              "serves NFS over TCP without RDMA");
}

TEST_CASE("diagnosis, fault 4: the MPA request is refused") {
  OnLoopback m;
  auto listener = fabric::iwarp::Listener::listen(
      m.loop, testing::loopback(0), [](std::unique_ptr<fabric::Incoming> incoming) { incoming->reject({}); });
  REQUIRE(ok(listener));
  check_cause(m.diagnose((*listener)->port(), "sec=sys"), "connection", "refuses iWARP connections");
}

TEST_CASE("diagnosis, fault 5: the server does not speak the version") {
  Simulated m;
  SUBCASE("of NFS") {
    m.server.on_server([](testing::Responder& responder) { responder.highest_version = 3; });
    check_cause(m.diagnose("vers=4"), "versions",
                "vers=4 was asked for, and the server speaks NFS 3, 2 only");
  }
  SUBCASE("the minor version") {
    m.server.set_newest_minor(1);
    check_cause(m.diagnose("vers=4.2"), "versions", "use vers=4.1");
  }
}

TEST_CASE("diagnosis, fault 6: the export does not exist") {
  Simulated m;
  m.server.add_directory("/srv/data");
  m.server.add_directory("/srv/home");
  const Reported all = m.diagnose("", "/srv/dta/x");
  check_cause(all, "export", "/srv/dta/x does not exist on the server; /srv exists and has data, home");
}

TEST_CASE("diagnosis, fault 6: the server has no export for this machine") {
  Simulated m;
  // As Linux: even the root is missing. The path is asked for first, then the root.
  m.server.answer(nfs4::OP_GETATTR, nfs4::NFS4ERR_NOENT, 100);
  const Reported all = m.diagnose();
  check_cause(all, "session", "the server has no export for this machine");
  CHECK(has(all.findings.back().advice, "add this machine, 192.0.2.1, to an export"));
}

TEST_CASE("diagnosis, fault 7: root is mapped to nobody") {
  using engine::AccessBits;
  Simulated m;
  m.server.add_directory("/export");
  m.server.on_server([](testing::Responder& responder) {
    responder.state.habits.most_granted = AccessBits::kLookup | AccessBits::kExecute;
  });
  SUBCASE("root may not even read") {
    check_warning(m.diagnose("uid=0,gid=0", "/export"), "rights", "maps root to nobody (root_squash)");
  }
  SUBCASE("root may not write") {
    m.server.on_server(
        [](testing::Responder& responder) { responder.state.habits.most_granted |= AccessBits::kRead; });
    check_warning(m.diagnose("uid=0,gid=0", "/export"), "rights", "maps root to nobody (root_squash)");
  }
  SUBCASE("and a file cannot be made") {
    m.server.answer(nfs4::OP_OPEN, nfs4::NFS4ERR_ACCESS);
    m.wanted.write = true;
    const Reported all = m.diagnose("uid=0,gid=0", "/export");
    INFO(all.text());
    CHECK(all.failures == 1);
    CHECK(has(all.findings.back().seen, "although it is root: the server maps root to nobody"));
  }
}

TEST_CASE("diagnosis, fault 8: the clocks are an hour apart, and Kerberos fails") {
  testing::OwnTickets tickets("alice", "nfs/server.test");
  testing::NfsServer server;
  testing::RpcPrograms programs;
  programs.serve(rpc::kNfsProgram, 4, 0, [](xdr::ConstBytes) -> std::optional<testing::RpcPrograms::Octets> {
    // The answer to RPCSEC_GSS_INIT (RFC 2203 5.2.3.1).
    constexpr std::uint32_t kHandle = 0, kWindow = 128, kToken = 0, kFailure = 13U << 16;
    xdr::Message message;
    xdr::Encoder out(message);
    const auto skew = static_cast<std::uint32_t>(KRB5KRB_AP_ERR_SKEW);
    for (const std::uint32_t one : {kHandle, kFailure, skew, kWindow, kToken}) out.u32(one);
    const auto bytes = message.stream.bytes();
    return testing::RpcPrograms::Octets(bytes.begin(), bytes.end());
  });
  OnLoopback m;
  const Reported all = m.diagnose(server.port(), "sec=krb5,gssport=" + std::to_string(programs.port()));
  check_cause(all, "security", "the clocks of this machine and the server differ by more than five minutes");
  CHECK(all.of("security").advice.starts_with("set them (timedatectl)"));
  CHECK(all.fact("security", "principal") == "alice@TEST.LAB");
}

TEST_CASE("diagnosis, fault 9: the user has no ticket") {
  const testing::OwnTickets tickets("alice", "nfs/server.test");
  testing::NfsServer server;
  OnLoopback m;
  check_cause(m.diagnose(server.port(), "sec=krb5,ccache=FILE:/nonexistent/cache"), "security",
              "has no ticket");
}

TEST_CASE("diagnosis, fault 10: the server grants few credits") {
  Simulated m;
  m.server.set_credits(2);
  check_warning(m.diagnose(), "credits", "the server grants few credits: 2 credits");
}

TEST_CASE("diagnosis, fault 11: large packets are lost on the way") {
  Simulated m;
  constexpr std::size_t kHole = 1400;
  m.network.set_watch([](const sim::Passing& passing) {
    return passing.bytes.size() > kHole ? sim::Fate::vanishes : sim::Fate::arrives;
  });
  const Reported all = m.diagnose();
  check_cause(all, "mtu", "calls of 1200 bytes are answered, one of 4000 is not");
  CHECK(has(all.findings.back().seen, "MTU black hole"));
  CHECK(has(all.findings.back().advice, "ip link set dev eth0 mtu 1280"));
}

TEST_CASE("diagnosis, fault 11: large packets are lost on the way back only") {
  Simulated m;
  m.server.add_directory("/export");
  constexpr std::size_t kHole = 1400;
  m.network.set_watch([&](const sim::Passing& passing) {
    const bool is_lost = passing.from == m.server.host()->number() && passing.bytes.size() > kHole;
    return is_lost ? sim::Fate::vanishes : sim::Fate::arrives;
  });
  const Reported all = m.diagnose("", "/export");
  INFO(all.text());
  CHECK(all.of("mtu").state == State::ok);
  CHECK(all.of("replies").state == State::failed);
  CHECK(has(all.findings.back().seen, "replies: small replies arrive, large ones do not"));
}

TEST_CASE("diagnosis, fault 12: the session takes small requests only") {
  Simulated m;
  m.server.set_limits(20000, 20000, 16);
  check_warning(m.diagnose(), "sizes", "the session takes requests of 20000 bytes");
}

TEST_CASE("diagnosis: a server that falls silent does not hold it up") {
  Simulated m;
  m.wanted.limit = 10s;
  m.server.hold(nfs4::OP_EXCHANGE_ID);
  const auto before = m.place.loop().now();
  const Reported all = m.diagnose();
  INFO(all.text());
  CHECK(all.of("session").state == State::failed);
  CHECK(m.place.loop().now() - before <= 14s);
  m.server.release();
}

TEST_CASE("diagnosis: an interruption ends it") {
  const testing::Interrupt interrupt;
  interrupt.set();
  OnLoopback on;
  testing::NfsServer server;
  connect::Target target = server.connect_target("fabric=iwarp,sec=sys");
  server.hold(nfs4::OP_EXCHANGE_ID);
  Diagnosis diagnosis(on.loop, target, Wanted{}, Means::system());
  const auto done = diagnosis.run([](const Finding&) {}, interrupt.fd());
  REQUIRE_FALSE(done);
  CHECK(done.error().kind() == ErrorKind::cancelled);
}

}  // namespace nfsrdma::diagnosis
