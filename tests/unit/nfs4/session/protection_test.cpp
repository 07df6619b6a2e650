// Calls that are sealed at each sending, and Replies that are opened: by the requester with a Seal of its own,
// then by the whole engine with a flavour like RPCSEC_GSS (support/toy_mechanism.h).
#include <doctest/doctest.h>

#include <algorithm>

#include "support/engine_fixture.h"
#include "support/nfs_responder.h"
#include "support/rpcrdma_driver.h"
#include "support/toy_mechanism.h"

namespace nfsrdma::testing {
namespace {

namespace rt = rpcrdma::testing;

/// Appends a word that counts sendings, and as much more as it is told.
class CountingSeal final : public rpcrdma::Seal {
 public:
  Result<const xdr::Message*> seal(const xdr::Message& message) override {
    if (fails) return Error(ErrorKind::local, EACCES, "RPC", "", "no ticket");
    xid = xdr::load_u32(message.stream.data());
    sealed_.clear();
    xdr::Encoder out(sealed_);
    out.fixed(message.stream.bytes());
    out.u32(++count);
    out.fixed(std::vector<std::byte>(more));
    return &sealed_;
  }
  [[nodiscard]] bool covers_data() const override { return false; }
  std::uint32_t count = 0, xid = 0;
  std::size_t more = 0;
  bool fails = false;

 private:
  xdr::Message sealed_;
};

std::uint32_t last_word(const rt::CallView& call) {
  return xdr::load_u32(&call.bytes[call.bytes.size() - 4]);
}

}  // namespace

TEST_CASE("protection: a call is sealed anew at each sending, its xid in place") {
  rt::Driver driver;
  driver.establish();
  CountingSeal seal;
  rpcrdma::Call call = rt::plain_call();
  call.seal = &seal;
  driver.submit(std::move(call));
  REQUIRE(driver.sent.size() == 1);
  CHECK(seal.xid == driver.sent[0].xid());
  CHECK(last_word(driver.sent[0]) == 1);
  driver.sent.clear();
  driver.disconnect();
  driver.pass(1s);
  driver.connect();
  REQUIRE(driver.sent.size() == 1);
  CHECK(last_word(driver.sent[0]) == 2);
  CHECK(seal.count == 2);
}

TEST_CASE("protection: what is sealed decides how a call travels") {
  rt::Driver driver;
  driver.establish();
  CountingSeal seal;
  seal.more = 4096;
  rpcrdma::Call call = rt::plain_call();
  call.seal = &seal;
  driver.submit(std::move(call));
  REQUIRE(driver.sent.size() == 1);
  CHECK(driver.sent[0].header.proc == rpcrdma::rdma_proc::RDMA_NOMSG);
  REQUIRE(driver.sent[0].header.rdma_reads.size() == 1);
  CHECK(driver.sent[0].header.rdma_reads[0].target.length == 64 + 4 + 4096);
}

TEST_CASE("protection: a call that cannot be sealed ends with the reason, and the next one goes") {
  rt::Driver driver;
  driver.establish();
  CountingSeal seal;
  seal.fails = true;
  rpcrdma::Call call = rt::plain_call();
  call.seal = &seal;
  driver.submit(std::move(call));
  CHECK(driver.sent.empty());
  REQUIRE(driver.completed.size() == 1);
  CHECK(driver.completed[0].failure == rpcrdma::Failure::cannot_construct);
  CHECK(driver.completed[0].sends == 0);
  CHECK(driver.completed[0].error->errno_value() == EACCES);
  driver.submit(rt::plain_call());
  CHECK(driver.sent.size() == 1);
}

namespace {

/// An engine whose flavour protects.
struct Protected {
  /// `protects`: the server protects state; `refusal`: of the first EXCHANGE_ID.
  explicit Protected(gss::Service service, bool protects = true, nfs4::nfsstat4 refusal = nfs4::NFS4_OK)
      : client(
            demanded(protects, refusal)
                .client.emplace(scene.server, "engine",
                                options(std::make_shared<gss::Gss>(events, service, mechanism, "server")))) {}
  Scene& demanded(bool protects, nfs4::nfsstat4 refusal) {
    scene.server.on_server([protects](Responder& responder) {
      responder.guard.demand();
      responder.state.habits.no_state_protection = !protects;
    });
    if (refusal != nfs4::NFS4_OK) scene.server.answer(nfs4::OP_EXCHANGE_ID, refusal);
    return scene;
  }
  static nfs4::SessionOptions options(std::shared_ptr<security::Flavor> flavor) {
    nfs4::SessionOptions out;
    out.flavor = std::move(flavor);
    return out;
  }
  template <class What>
  void tell(What what) {
    scene.server.on_server([what](Responder& responder) { what(responder.guard); });
  }
  void lie(ToyGuard::Lie lie) {
    tell([lie](ToyGuard& guard) { guard.lie(lie); });
  }
  std::size_t opened() {
    std::size_t out = 0;
    scene.server.on_server([&out](Responder& responder) { out = responder.guard.opened(); });
    return out;
  }
  /// The first call with `op` in it.
  SeenCall call_with(nfs4::nfs_opnum4 op) {
    for (SeenCall& call : scene.server.calls()) {
      if (call.has(op)) return call;
    }
    FAIL("no such call");
    return {};
  }

  async::Loop events;  // of contexts, which are had in no time here
  std::shared_ptr<ToyMechanism> mechanism =
      std::make_shared<ToyMechanism>(7, std::make_shared<security::Sys>("test", security::Identity()));
  Scene scene;
  EngineClient& client;
};

constexpr gss::Service kServices[] = {gss::Service::none, gss::Service::integrity, gss::Service::privacy};

std::string text(std::size_t size) {
  std::string out(size, 0);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>('a' + i * 7 % 23);
  return out;
}

std::string read_all(Protected& m, nfs4::OpenRef& file, std::size_t size) {
  std::vector<std::byte> room(size);
  auto got = m.client.run(file->read(room, 0));
  if (!ok(got)) return "";
  return {reinterpret_cast<const char*>(room.data()), *got};
}

}  // namespace

TEST_CASE("T35 protection: data goes by chunks of its own, or whole where the service covers it") {
  for (const gss::Service service : kServices) {
    CAPTURE(static_cast<int>(service));
    Protected m(service);
    m.scene.server.add_file("/f", text(60'000));
    auto file = m.scene.open("f");
    m.scene.server.clear_calls();
    CHECK(read_all(m, file, 60'000) == text(60'000));
    // Not of whole words.
    const std::string data = text(50'003);
    CHECK(ok(m.client.run(file->write(std::as_bytes(std::span(data)), 0))));
    CHECK(m.scene.server.content("/f") == data + text(60'000).substr(50'003));
    const SeenCall read = m.call_with(nfs4::OP_READ);
    const SeenCall write = m.call_with(nfs4::OP_WRITE);
    if (service == gss::Service::none) {
      CHECK(read.write_chunks == std::vector<std::uint64_t>{60'000});
      CHECK(read.reply_chunk == 0);
      REQUIRE(write.read_positions.size() == 1);
      CHECK(write.read_positions[0] > 0);
    } else {
      CHECK(read.write_chunks.empty());
      CHECK(read.reply_chunk >= 60'000);
      // Under integrity the data stays where it stands, between two pieces of the message.
      const std::size_t pieces = service == gss::Service::integrity ? 3 : 1;
      CHECK(write.read_positions == std::vector<std::uint32_t>(pieces, 0));
    }
    m.scene.close(file);
    m.client.end();
    CHECK(m.mechanism->sendings() == m.opened());
  }
}

TEST_CASE("T34 protection: what a Reply grows by is in its size") {
  const auto size = [](gss::Service service) {
    async::Loop loop;
    const auto callers = std::make_shared<security::Sys>("test", security::Identity());
    gss::Gss flavor(loop, service, std::make_shared<ToyMechanism>(7, callers), "server");
    const nfs4::Compound compound(xdr::Message(), flavor.vouch(nullptr), 2, "test");
    return compound.reply_size().max_inline;
  };
  CHECK(size(gss::Service::integrity) == size(gss::Service::none) + 20);
  CHECK(size(gss::Service::privacy) == size(gss::Service::none) + 16);
}

TEST_CASE("T35 protection: a long Call and a Reply chunk go together") {
  Protected m(gss::Service::privacy);
  m.scene.server.add_file("/f", "");
  auto file = m.scene.open("f");
  m.scene.server.clear_calls();
  // An attribute that does not fit a Send, and a listing of them that may not fit a Receive.
  std::vector<std::byte> value(5000, std::byte{'v'});
  CHECK(ok(m.client.run(m.client.engine.set_xattr(user(1), file->handle(), "long", value, {}))));
  CHECK(m.call_with(nfs4::OP_SETXATTR).read_positions == std::vector<std::uint32_t>{0});
  auto got = m.client.run(m.client.engine.get_xattr(user(1), file->handle(), "long"));
  REQUIRE(ok(got));
  CHECK(*got == value);
  CHECK(m.call_with(nfs4::OP_GETXATTR).reply_chunk > 5000);
  CHECK(m.call_with(nfs4::OP_GETXATTR).write_chunks.empty());
  m.scene.close(file);
}

TEST_CASE("T35 protection: one Call has a long Call's Read chunk and a Reply chunk, and nothing is reduced") {
  for (const gss::Service service : kServices) {
    CAPTURE(static_cast<int>(service));
    Protected m(service);
    m.scene.server.add_file("/f", text(60'000));
    auto file = m.scene.open("f");
    m.scene.server.clear_calls();
    // 9,000 bytes to write and as many to read in one COMPOUND.
    const std::string data = text(9'003);
    std::vector<std::byte> read(9'001);
    nfs4::Compound compound = m.client.session.begin("WRITE");
    compound.add<nfs4::op::PUTFH>({file->handle()});
    compound.add<nfs4::op::WRITE>(
        {file.file()->stateid(), 100, nfs4::FILE_SYNC4, xdr::DdpOpaque<>{std::as_bytes(std::span(data))}});
    compound.read(file.file()->stateid(), 20'000, read);
    auto reply = m.client.run(m.client.session.call(std::move(compound)));
    REQUIRE(ok(reply));
    nfs4::WRITE4res written;
    nfs4::READ4res got;
    REQUIRE(reply->take<nfs4::op::PUTFH>());
    REQUIRE(reply->take<nfs4::op::WRITE>(written));
    REQUIRE(reply->take<nfs4::op::READ>(got));
    CHECK(reply->finish());
    CHECK(written.get<nfs4::NFS4_OK>()->count == data.size());
    CHECK(std::string(reinterpret_cast<const char*>(read.data()), read.size()) ==
          text(60'000).substr(20'000, read.size()));
    CHECK(m.scene.server.content("/f")->substr(100, data.size()) == data);
    const SeenCall seen = m.call_with(nfs4::OP_WRITE);
    if (service == gss::Service::none) {
      CHECK(seen.write_chunks == std::vector<std::uint64_t>{read.size()});
      CHECK(std::ranges::count(seen.read_positions, 0U) == 0);
      CHECK(seen.reply_chunk == 0);
    } else {
      CHECK_FALSE(seen.read_positions.empty());
      CHECK(std::ranges::count(seen.read_positions, 0U) ==
            static_cast<std::ptrdiff_t>(seen.read_positions.size()));
      CHECK(seen.write_chunks.empty());
      CHECK(seen.reply_chunk > read.size());
      CHECK(m.client.channel.facts().long_replies != 0);
    }
    m.scene.close(file);
    m.client.end();
    CHECK(m.mechanism->sendings() == m.opened());
  }
}

TEST_CASE("protection: the session is nobody else's, where that can be proven and the server sees to it") {
  for (const gss::Service service : kServices) {
    for (const bool can : {true, false}) {
      CAPTURE(static_cast<int>(service));
      CAPTURE(can);
      Protected m(service, can);
      const bool proves = service != gss::Service::none;
      CHECK(m.client.session.facts().protects_state == (proves && can));
      const auto asked = m.scene.server.last_exchange_id();
      REQUIRE(asked);
      const nfs4::state_protect_ops4* const ops = asked->eia_state_protect.get<nfs4::SP4_MACH_CRED>();
      REQUIRE((ops != nullptr) == proves);
      // BIND_CONN_TO_SESSION, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION; DESTROY_CLIENTID.
      if (proves) CHECK(ops->spo_must_enforce == nfs4::bitmap4{{0, 0xf00 << 1U | 1U << 25U}});
    }
  }
}

TEST_CASE("protection: a server that knows nothing of it is asked without") {
  const Protected m(gss::Service::privacy, true, nfs4::NFS4ERR_NOTSUPP);
  CHECK_FALSE(m.client.session.facts().protects_state);
  CHECK(m.scene.server.last_exchange_id()->eia_state_protect.tag() == nfs4::SP4_NONE);
}

TEST_CASE("protection: a request that is sent again has a sequence number of its own, and is executed once") {
  for (const gss::Service service : kServices) {
    CAPTURE(static_cast<int>(service));
    Protected m(service);
    const std::uint32_t before = m.mechanism->sendings();
    m.scene.server.clear_calls();
    m.scene.server.drop_after(nfs4::OP_CREATE);
    CHECK(ok(m.client.run(m.client.engine.make_directory(user(1), m.client.root, "d", 0755))));
    CHECK(m.mechanism->sendings() > before + 1);
    const auto calls = m.scene.server.calls();
    const auto created = [&](bool replayed) {
      return std::ranges::count_if(calls, [&](const SeenCall& call) {
        return call.has(nfs4::OP_CREATE) && call.replayed == replayed;
      });
    };
    CHECK(created(false) == 1);
    CHECK(created(true) == 1);
  }
}

TEST_CASE("protection: a Reply that is not the server's is not believed") {
  struct Case {
    ToyGuard::Lie lie;
    gss::Service service;
    const char* says;
  };
  for (const Case& one :
       {Case{ToyGuard::Lie::verifier, gss::Service::none, "verifier"},
        Case{ToyGuard::Lie::other_call, gss::Service::none, "verifier"},
        Case{ToyGuard::Lie::results, gss::Service::integrity, "it was changed on the way"},
        Case{ToyGuard::Lie::results, gss::Service::privacy, "it was changed on the way"},
        Case{ToyGuard::Lie::other_call, gss::Service::privacy, "verifier"},
        Case{ToyGuard::Lie::no_verifier, gss::Service::none, "verifier"},
        Case{ToyGuard::Lie::no_verifier, gss::Service::integrity, "verifier"},
        Case{ToyGuard::Lie::no_verifier, gss::Service::privacy, "verifier"},
        Case{ToyGuard::Lie::other_body, gss::Service::integrity, "to another call"},
        Case{ToyGuard::Lie::other_body, gss::Service::privacy, "to another call"},
        Case{ToyGuard::Lie::only_signed, gss::Service::privacy, "it was changed on the way"},
        Case{ToyGuard::Lie::unprotected, gss::Service::integrity, "it was changed on the way"},
        Case{ToyGuard::Lie::unprotected, gss::Service::privacy, "it was changed on the way"}}) {
    CAPTURE(static_cast<int>(one.lie));
    CAPTURE(static_cast<int>(one.service));
    Protected m(one.service);
    m.scene.server.add_file("/f", "content");
    auto file = m.scene.open("f");
    m.lie(one.lie);
    std::vector<std::byte> room(7);
    auto read = m.client.run(file->read(room, 0));
    REQUIRE(!read);
    CHECK(read.error().kind() == ErrorKind::protocol);
    CHECK(read.error().text().find(one.says) != std::string::npos);
    // The next is believed; of what must not be done twice it is not known whether it was.
    CHECK(read_all(m, file, 7) == "content");
    m.lie(one.lie);
    auto removed =
        m.client.run(m.client.engine.remove(user(1), m.client.root, "f", engine::Engine::Removed::file));
    REQUIRE(!removed);
    CHECK(removed.error().kind() == ErrorKind::unknown_outcome);
    m.scene.close(file);
  }
}

TEST_CASE(
    "protection: a call of which the server can make nothing is sealed and sent again, as Linux does it") {
  for (const gss::Service service : kServices) {
    CAPTURE(static_cast<int>(service));
    Protected m(service);
    m.scene.server.add_file("/f", text(60'000));
    auto file = m.scene.open("f");
    const auto garble = [&](unsigned count) { m.tell([=](ToyGuard& guard) { guard.garble(count); }); };
    const std::size_t retired = m.client.session.holdings().slots_retired;
    garble(2);
    CHECK(read_all(m, file, 60'000) == text(60'000));
    garble(1);
    CHECK(ok(m.client.run(m.client.engine.make_directory(nullptr, m.client.root, "d", 0755))));
    CHECK(m.client.session.holdings().slots_retired == retired);
    garble(3);
    std::vector<std::byte> room(7);
    auto read = m.client.run(file->read(room, 0));
    REQUIRE(!read);
    CHECK(read.error().kind() == ErrorKind::server);
    CHECK(read.error().text().find("could not decode the request") != std::string::npos);
    CHECK(read_all(m, file, 60'000) == text(60'000));
    m.scene.close(file);
  }
}

TEST_CASE("protection: without a ticket a call ends with the reason, and its slot is free again") {
  Protected m(gss::Service::integrity);
  m.scene.server.add_file("/f", "content");
  auto file = m.scene.open("f");
  const std::size_t retired = m.client.session.holdings().slots_retired;
  m.mechanism->expire();
  m.mechanism->refuse_next();
  std::vector<std::byte> room(7);
  auto read = m.client.run(file->read(room, 0));
  REQUIRE(!read);
  CHECK(read.error().errno_value() == EACCES);
  CHECK(read.error().text().find("get one") != std::string::npos);
  CHECK(m.client.session.holdings().slots_retired == retired);
  CHECK(read_all(m, file, 7) == "content");
  m.scene.close(file);
}

TEST_CASE(
    "protection: a context that the server has forgotten is had anew, and the call is made again in its "
    "slot") {
  for (const gss::Service service : kServices) {
    CAPTURE(static_cast<int>(service));
    Protected m(service);
    m.scene.server.add_file("/f", text(60'000));
    auto file = m.scene.open("f");
    const auto forget = [&] { m.tell([](ToyGuard& guard) { guard.forget(); }); };
    const std::size_t retired = m.client.session.holdings().slots_retired;
    const unsigned before = m.mechanism->established();
    forget();
    CHECK(read_all(m, file, 60'000) == text(60'000));
    CHECK(m.mechanism->established() == before + 1);
    forget();
    // It is not idempotent, and executed once.
    CHECK(ok(m.client.run(m.client.engine.make_directory(nullptr, m.client.root, "d", 0755))));
    CHECK(m.mechanism->established() == before + 2);
    // One that has come to its end here is not even tried.
    const std::size_t opened = m.opened();
    const std::uint32_t sendings = m.mechanism->sendings();
    m.mechanism->expire();
    CHECK(read_all(m, file, 60'000) == text(60'000));
    CHECK(m.mechanism->established() == before + 3);
    CHECK(m.mechanism->sendings() - sendings == m.opened() - opened);
    CHECK(m.client.session.holdings().slots_retired == retired);
    m.scene.close(file);
  }
}

TEST_CASE(
    "protection: where no other context can be had the call ends with the reason, and the next one tries "
    "again") {
  Protected m(gss::Service::none);
  m.scene.server.add_file("/f", "content");
  auto file = m.scene.open("f");
  m.tell([](ToyGuard& guard) { guard.forget(); });
  m.mechanism->refuse_next();
  std::vector<std::byte> room(7);
  auto read = m.client.run(file->read(room, 0));
  REQUIRE(!read);
  CHECK(read.error().errno_value() == EACCES);
  CHECK(read.error().text().find("get one") != std::string::npos);
  CHECK(read_all(m, file, 7) == "content");
  m.scene.close(file);
}

TEST_CASE("protection: a server that knows no context for long is one that does not answer in time") {
  Protected m(gss::Service::none);
  m.scene.server.add_file("/f", "content");
  auto file = m.scene.open("f");
  m.tell([](ToyGuard& guard) { guard.forget_always(true); });
  std::vector<std::byte> room(7);
  auto read = m.client.run(file->read(room, 0));
  REQUIRE(!read);
  CHECK(read.error().kind() == ErrorKind::timeout);
  CHECK(m.mechanism->established() > 4);
  CHECK(m.mechanism->established() < 100);
  m.tell([](ToyGuard& guard) { guard.forget_always(false); });
  CHECK(read_all(m, file, 7) == "content");
  m.scene.close(file);
}

TEST_CASE("protection: each caller is himself behind it") {
  Protected m(gss::Service::privacy);
  m.scene.server.add_file("/f", "content");
  m.scene.server.clear_calls();
  (void)m.client.run(m.client.engine.find(user(5, 6, {7, 8}), engine::Path::parse("/f")->spot()));
  CHECK(is_of(m.scene.server.credential(), user(5, 6, {7, 8})));
}

}  // namespace nfsrdma::testing
