// Callbacks of NFSv4.0: they come over TCP, at the netid and universal address that the client announces.
//
// The server's side is libtirpc's, which knows the announcement and nothing else.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>

#include "aux/local_address.h"
#include "aux/record_server.h"
#include "aux/remote.h"
#include "aux/rpcbind.h"
#include "nfs4/compound/callback.h"
#include "support/callback_call.h"
#include "support/skipped.h"
#include "wire/nfs4/attributes.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::CallbackCall;
using test::CallbackResults;

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kIdent = 0x12345678;

nfs_fh4 handle_of(unsigned value) {
  nfs_fh4 fh;
  fh.length = 1;
  fh.bytes[0] = static_cast<std::byte>(value);
  return fh;
}

/// A write delegation of the file 1, and nothing else.
struct Holder final : CallbackHandler {
  nfsstat4 recall(const Recall& recall) override {
    ++recalls;
    return recall.file == handle_of(1) ? NFS4_OK : NFS4ERR_BADHANDLE;
  }
  std::optional<DelegatedAttributes> getattr(const nfs_fh4& file) override {
    if (file != handle_of(1)) return std::nullopt;
    return DelegatedAttributes{7, 4096};
  }
  void recall_any(std::uint32_t, const bitmap4&) override {}
  void recall_slot(slotid4) override {}
  void notify_lock(const nfs_fh4&, const lock_owner4&) override {}
  int recalls = 0;
};

struct CalledBack {
  explicit CalledBack(const char* where) {
    service.reset_without_session(kIdent);
    aux::RecordServerOptions options;
    const auto towards = aux::local_address_towards(aux::with_port(*aux::address_in(where), 20049));
    REQUIRE(towards);
    options.local = *towards;
    auto listening = aux::RecordServer::listen(
        loop, options,
        [this](xdr::ConstBytes call, xdr::Message& reply) { return service.answer(call, reply); });
    REQUIRE(listening);
    server = std::move(*listening);
    netaddr.na_r_netid.value = aux::netid(aux::Wire::tcp, server->address().storage.ss_family);
    netaddr.na_r_addr.value = aux::universal_address(server->address());
  }
  /// Where a server that reads the announcement calls.
  [[nodiscard]] aux::Remote remote() const {
    std::string host = netaddr.na_r_addr.value;
    const auto port = aux::port_in(host);
    host.resize(host.rfind('.', host.rfind('.') - 1));
    const auto address = aux::address_in(host);
    REQUIRE(address.has_value());
    REQUIRE(port.has_value());
    CHECK(netaddr.na_r_netid.value == (address->storage.ss_family == AF_INET6 ? "tcp6" : "tcp"));
    return {aux::with_port(*address, *port), "client", aux::Transport::tcp};
  }
  Result<std::vector<std::byte>> call(std::uint32_t procedure, const std::vector<std::byte>& arguments) {
    aux::RawCall raw{NFS4_CALLBACK, NFS_CB, procedure, "callback", arguments};
    return loop.run(aux::call_raw(loop, remote(), security::Identity(), std::move(raw), loop.now() + 20s));
  }
  /// The Reply, with a header in front for who reads it.
  std::vector<std::byte> compound(const CallbackCall& of) {
    auto results = call(CB_COMPOUND, of.arguments());
    REQUIRE(results);
    xdr::Message reply;
    rpc::begin_reply(reply, 1, {rpc::Refusal::none, 0, 0});
    xdr::Encoder(reply).fixed(*results);
    const auto bytes = reply.stream.bytes();
    return {bytes.begin(), bytes.end()};
  }

  async::Loop loop;
  Holder holder;
  CallbackService service{holder, {}};
  std::unique_ptr<aux::RecordServer> server;
  netaddr4 netaddr;
};

}  // namespace

TEST_CASE("U12 callbacks of NFSv4.0 are answered over TCP at the netid and address that are announced") {
  CalledBack client("127.0.0.1");
  CHECK(client.netaddr.na_r_netid.value == "tcp");
  CHECK(client.netaddr.na_r_addr.value.starts_with("127.0.0.1."));

  const auto null = client.call(CB_NULL, {});
  REQUIRE(null);
  CHECK(null->empty());

  const auto call = [] { return CallbackCall({}, 0).ident(kIdent); };
  const auto recalled = client.compound(call().add<cb_op::CB_RECALL>({{}, false, handle_of(1)}));
  CallbackResults recall(recalled);
  CHECK(recall.take<cb_op::CB_RECALL>() == NFS4_OK);
  CHECK(recall.status() == NFS4_OK);
  CHECK(recall.finish());
  CHECK(client.holder.recalls == 1);

  const auto wanted = bitmap_of({FATTR4_CHANGE, FATTR4_SIZE});
  const auto told = client.compound(call().add<cb_op::CB_GETATTR>({handle_of(1), wanted}));
  CallbackResults getattr(told);
  CB_GETATTR4res attributes;
  CHECK(getattr.take<cb_op::CB_GETATTR>(attributes) == NFS4_OK);
  REQUIRE(attributes.get<NFS4_OK>() != nullptr);
  CHECK(attributes.get<NFS4_OK>()->obj_attributes.attrmask == wanted);
  CHECK(getattr.finish());

  const auto refused = client.compound(call().add<cb_op::CB_RECALL>({{}, false, handle_of(2)}));
  CHECK(CallbackResults(refused).status() == NFS4ERR_BADHANDLE);
}

TEST_CASE("U12 callbacks of NFSv4.0 come over IPv6 where the server is reached so") {
  if (!aux::local_address_towards(aux::with_port(*aux::address_in("::1"), 20049))) {
    nfsrdma::testing::skip("this machine has no ::1");
    return;
  }
  CalledBack client("::1");
  CHECK(client.netaddr.na_r_netid.value == "tcp6");
  CHECK(client.netaddr.na_r_addr.value.starts_with("::1."));
  REQUIRE(client.call(CB_NULL, {}));
}
