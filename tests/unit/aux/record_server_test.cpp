// RPC over TCP on the loop, on real sockets of this machine (RFC 5531 11).
#include "aux/record_server.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "aux/local_address.h"
#include "aux/rpcbind.h"
#include "fabric/address.h"
#include "fabric/iwarp/socket.h"
#include "support/skipped.h"

namespace nfsrdma::aux {
namespace {

using namespace std::chrono_literals;
using fabric::iwarp::Socket;
using testing::skip;

std::string mark(std::uint32_t word) {
  std::array<std::byte, kRecordMark> bytes{};
  xdr::store_u32(bytes.data(), word);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string fragment(std::string_view text, bool last = true) {
  return mark(static_cast<std::uint32_t>(text.size()) | (last ? kLastFragment : 0)).append(text);
}
xdr::ConstBytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(xdr::ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Somebody who connects. Nothing here waits but turns of the loop.
class Peer {
 public:
  explicit Peer(const rpc::Address& to)
      : socket_(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(::connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0);
    socket_.set_options();
  }
  /// How much of it was taken at once.
  std::size_t send(std::string_view text) {
    iovec all{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    return static_cast<std::size_t>(std::max<ssize_t>(socket_.send({&all, 1}), 0));
  }
  void finish() { ::shutdown(socket_.fd(), SHUT_WR); }
  void go() { socket_.reset(); }
  /// What has come, at most `most` bytes more.
  void look(std::size_t most = SIZE_MAX) {
    std::array<char, 65536> piece{};
    while (most != 0 && !closed_) {
      iovec all{.iov_base = piece.data(), .iov_len = std::min(most, piece.size())};
      const ssize_t count = socket_.receive({&all, 1});
      if (count < 0 && errno == EAGAIN) return;
      closed_ = count <= 0;
      if (!closed_) came_.append(piece.data(), static_cast<std::size_t>(count));
      if (!closed_) most -= static_cast<std::size_t>(count);
    }
  }
  [[nodiscard]] const std::string& came() const { return came_; }
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  Socket socket_;
  std::string came_;
  bool closed_ = false;
};

rpc::Address here(const char* text = "127.0.0.1") {
  const auto address = address_in(text);
  REQUIRE(address.has_value());
  return *address;
}
bool has_ipv6() {
  const Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rpc::Address one = here("::1");
  return ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&one.storage), one.length) == 0;
}

/// Answers "x" with "<x>", "large N" with N bytes, and takes "nonsense" for no Call.
struct Served {
  explicit Served(RecordServerOptions options = {.local = here()}) {
    auto made = RecordServer::listen(loop, options, [this](xdr::ConstBytes call, xdr::Message& reply) {
      calls.push_back(text_of(call));
      const std::string& text = calls.back();
      std::string answer = "<" + text + ">";
      if (text.starts_with("large ")) answer = std::string(std::stoul(text.substr(6)), 'l');
      const xdr::ConstBytes bytes = bytes_of(answer);
      std::ranges::copy(bytes, reply.stream.extend(bytes.size()));
      return text != "nonsense";
    });
    REQUIRE(made);
    server = std::move(*made);
  }
  /// Turns until it is so, for 20 seconds at most.
  template <class F>
  bool until(F is_so) {
    const auto end = loop.now() + 20s;
    while (!is_so() && loop.now() < end) loop.turn(loop.now() + 1ms);
    return is_so();
  }
  /// The peer has got this, and nothing else.
  bool gets(Peer& peer, const std::string& text) {
    return until([&] {
             peer.look();
             return peer.came().size() >= text.size();
           }) &&
           peer.came() == text;
  }
  bool closes(Peer& peer) {
    return until([&] {
      peer.look();
      return peer.closed();
    });
  }
  async::Loop loop;
  std::vector<std::string> calls;
  std::unique_ptr<RecordServer> server;
};

}  // namespace

// ---- the reader ----

TEST_CASE("record reader: records from fragments, however they are cut") {
  const std::string stream = fragment("one") + fragment("tw", false) + fragment("", false) + fragment("o") +
                             fragment("") + fragment("", false) + fragment("three");
  for (std::size_t cut = 1; cut <= stream.size(); ++cut) {
    CAPTURE(cut);
    RecordReader reader(5);
    std::vector<std::string> records;
    for (std::size_t at = 0; at < stream.size(); at += cut) {
      xdr::ConstBytes bytes = bytes_of(std::string_view(stream).substr(at, cut));
      while (!bytes.empty()) {
        const auto found = reader.take(bytes);
        REQUIRE(found != RecordReader::Found::too_large);
        if (found == RecordReader::Found::nothing) continue;
        records.push_back(text_of(reader.record()));
        reader.next();
      }
    }
    CHECK(records == std::vector<std::string>{"one", "two", "", "three"});
    CHECK_FALSE(reader.in_the_middle());
  }
}

TEST_CASE("record reader: what is too large is known from the mark") {
  RecordReader reader(8);
  const std::string stream = fragment("12345", false) + mark(kLastFragment | 4);
  xdr::ConstBytes bytes = bytes_of(stream);
  CHECK(reader.take(bytes) == RecordReader::Found::too_large);
  RecordReader other(8);
  const std::string whole = mark(0x7fffffff);
  bytes = bytes_of(whole);
  CHECK(other.take(bytes) == RecordReader::Found::too_large);
}

// ---- the server ----

TEST_CASE("record server: a Call and its Reply, over IPv4 and IPv6") {
  const char* where = "127.0.0.1";
  SUBCASE("IPv4") {}
  SUBCASE("IPv6") {
    where = "::1";
    if (!has_ipv6()) {
      skip("this machine has no ::1");
      return;
    }
  }
  Served f({.local = here(where)});
  CHECK(fabric::port_of(f.server->address().storage) != 0);
  Peer peer(f.server->address());
  peer.send(fragment("call"));
  CHECK(f.gets(peer, fragment("<call>")));
  peer.send(fragment("another"));
  CHECK(f.gets(peer, fragment("<call>") + fragment("<another>")));
  CHECK(f.server->connections() == 1);
}

TEST_CASE("record server: fragments, byte by byte") {
  Served f;
  Peer peer(f.server->address());
  for (const char c : fragment("in ", false) + fragment("", false) + fragment("parts")) {
    peer.send({&c, 1});
    f.loop.turn(f.loop.now() + 1ms);
  }
  CHECK(f.gets(peer, fragment("<in parts>")));
}

TEST_CASE("record server: several Calls in one segment are answered in order") {
  Served f;
  Peer peer(f.server->address());
  peer.send(fragment("1") + fragment("2") + fragment("3") + fragment("half").substr(0, 6));
  const std::string three = fragment("<1>") + fragment("<2>") + fragment("<3>");
  CHECK(f.gets(peer, three));
  peer.send("lf");
  CHECK(f.gets(peer, three + fragment("<half>")));
}

TEST_CASE("record server: who sends too much, or nonsense, is closed, and nobody else") {
  Served f({.local = here(), .largest_record = 16});
  Peer good(f.server->address());
  Peer bad(f.server->address());
  SUBCASE("one fragment") {
    bad.send(mark(kLastFragment | 17));
  }
  SUBCASE("several") {
    bad.send(fragment("0123456789", false) + mark(7));
  }
  SUBCASE("no Call") {
    bad.send(fragment("nonsense"));
  }
  SUBCASE("an HTTP request") {
    bad.send("GET / HTTP/1.1\r\n\r\n");
  }
  CHECK(f.closes(bad));
  CHECK(bad.came().empty());
  good.send(fragment("0123456789abcdef"));
  CHECK(f.gets(good, fragment("<0123456789abcdef>")));
}

TEST_CASE("record server: half a record has its time, silence has none") {
  Served f({.local = here(), .patience = 50ms});
  Peer silent(f.server->address());
  Peer slow(f.server->address());
  silent.send(fragment("call"));
  slow.send(fragment("call") + fragment("another").substr(0, 5));
  CHECK(f.closes(slow));
  CHECK(slow.came() == fragment("<call>"));
  CHECK(f.gets(silent, fragment("<call>")));
  CHECK(f.server->connections() == 1);
}

TEST_CASE("record server: each record has a time of its own, also where one begins behind another at once") {
  Served f;
  Peer peer(f.server->address());
  const std::string first = fragment("first"), second = fragment("second");
  const auto ends = [&f] { return f.loop.next_timer(); };
  peer.send(first.substr(0, 5));
  REQUIRE(f.until([&] { return ends() != async::TimePoint::max(); }));
  const async::TimePoint end_of_first = ends();
  const async::TimePoint later = f.loop.now() + 1ms;
  REQUIRE(f.until([&] { return f.loop.now() >= later; }));
  peer.send(first.substr(5) + second.substr(0, 5));
  CHECK(f.gets(peer, fragment("<first>")));
  CHECK(ends() != async::TimePoint::max());
  CHECK(ends() > end_of_first);
}

TEST_CASE("record server: dribbling bytes does not prolong a record's time") {
  Served f({.local = here(), .patience = 50ms});
  Peer peer(f.server->address());
  peer.send(mark(kLastFragment | 60000));
  const bool closed = f.until([&] {
    peer.send("x");
    peer.look();
    return peer.closed();
  });
  CHECK(closed);
  CHECK(f.calls.empty());
}

TEST_CASE("record server: who does not take his Replies gets no further ones made") {
  Served f({.local = here(), .patience = 100ms});
  Peer peer(f.server->address());
  std::string many;
  for (int i = 0; i < 100; ++i) many += fragment("large 8000000");
  peer.send(many);
  CHECK(f.until([&] { return !f.calls.empty(); }));
  CHECK(f.until([&] { return f.server->connections() == 0; }));
  CHECK(f.calls.size() < 5);  // one beyond what the sockets hold
}

TEST_CASE("record server: a Reply that goes out in pieces, and the Calls behind it") {
  Served f;
  Peer peer(f.server->address());
  peer.send(fragment("large 8000000") + fragment("1") + fragment("2") + fragment("large 5000000"));
  peer.finish();
  const std::string all = fragment(std::string(8000000, 'l')) + fragment("<1>") + fragment("<2>") +
                          fragment(std::string(5000000, 'l'));
  CHECK(f.until([&] {
    peer.look(100000);
    return peer.came().size() >= all.size();
  }));
  CHECK(peer.came() == all);
  CHECK(f.closes(peer));
  CHECK(f.server->connections() == 0);
}

TEST_CASE("record server: one connection too many replaces one that has not called, or the quietest") {
  Served f({.local = here(), .most_connections = 3});
  Peer first(f.server->address()), second(f.server->address());
  first.send(fragment("1"));
  second.send(fragment("2"));
  CHECK(f.gets(first, fragment("<1>")));
  CHECK(f.gets(second, fragment("<2>")));
  Peer stranger(f.server->address());
  CHECK(f.until([&] { return f.server->connections() == 3; }));
  Peer third(f.server->address());
  CHECK(f.closes(stranger));
  third.send(fragment("3"));
  CHECK(f.gets(third, fragment("<3>")));
  first.send(fragment("4"));
  CHECK(f.gets(first, fragment("<1>") + fragment("<4>")));
  Peer last(f.server->address());
  CHECK(f.closes(second));
  last.send(fragment("5"));
  CHECK(f.gets(last, fragment("<5>")));
  CHECK(f.server->connections() == 3);
}

TEST_CASE("record server: many who connect, call and go leave nothing behind") {
  Served f({.local = here(), .most_connections = 4});
  for (int i = 0; i < 100; ++i) {
    Peer peer(f.server->address());
    if (i % 2 == 0) peer.send(fragment("call").substr(0, static_cast<std::size_t>(i % 8)));
    if (i % 4 == 1) peer.send(fragment("call"));
    if (i % 3 == 0) f.loop.turn(f.loop.now() + 1ms);  // the backlog holds what comes meanwhile
    peer.go();
  }
  Peer peer(f.server->address());
  peer.send(fragment("call"));
  CHECK(f.gets(peer, fragment("<call>")));
  peer.go();
  CHECK(f.until([&] { return f.server->connections() == 0; }));
  CHECK(f.loop.next_timer() == async::TimePoint::max());
}

TEST_CASE("record server: its end closes what is open, in the middle of all") {
  Served f({.local = here(), .patience = 50ms});
  Peer idle(f.server->address()), half(f.server->address()), deaf(f.server->address());
  half.send("\x80");
  deaf.send(fragment("large 8000000"));
  CHECK(f.until([&] { return f.server->connections() == 3 && !f.calls.empty(); }));
  f.server.reset();
  CHECK(f.loop.next_timer() == async::TimePoint::max());
  for (int i = 0; i < 3; ++i) f.loop.turn(f.loop.now() + 1ms);
  idle.look();
  half.look();
  CHECK(idle.closed());
  CHECK(half.closed());
}

TEST_CASE("record server: a port that is taken is said; an address of somebody else's is served on all") {
  Served f;
  auto taken = RecordServer::listen(f.loop, {.local = f.server->address()},
                                    [](xdr::ConstBytes, xdr::Message&) { return false; });
  REQUIRE_FALSE(taken);
  CHECK(taken.error().kind() == ErrorKind::local);
  CHECK(taken.error().errno_value() == EADDRINUSE);

  Served outside({.local = here("192.0.2.1")});
  const std::string announced = universal_address(outside.server->address());
  CHECK(announced.starts_with("192.0.2.1."));
  Peer peer(with_port(here(), *port_in(announced)));
  peer.send(fragment("call"));
  CHECK(outside.gets(peer, fragment("<call>")));
}

// ---- addresses ----

TEST_CASE("rpcbind: netids and universal addresses of both families") {
  CHECK(universal_address(with_port(here("192.0.2.1"), 2049)) == "192.0.2.1.8.1");
  CHECK(universal_address(with_port(here("10.77.0.2"), 20049)) == "10.77.0.2.78.81");
  CHECK(universal_address(with_port(here("2001:db8::1"), 65535)) == "2001:db8::1.255.255");
  CHECK(universal_address(here("::1")) == "::1.0.0");
  CHECK(netid(Wire::tcp, AF_INET) == "tcp");
  CHECK(netid(Wire::tcp, AF_INET6) == "tcp6");
  CHECK(netid(Wire::rdma, AF_INET6) == "rdma6");
  for (const char* none : {"", "localhost", "1.2.3", "1.2.3.4.5", "[::1]", "fe80::1%lo"})
    CHECK_FALSE(address_in(none));
}

TEST_CASE("local address: that from which the server is reached") {
  const auto v4 = local_address_towards(with_port(here(), 20049));
  REQUIRE(v4);
  CHECK(universal_address(*v4) == "127.0.0.1.0.0");
  if (!has_ipv6()) {
    skip("this machine has no ::1");
    return;
  }
  const auto v6 = local_address_towards(with_port(here("::1"), 20049));
  REQUIRE(v6);
  CHECK(universal_address(*v6) == "::1.0.0");
}

}  // namespace nfsrdma::aux
