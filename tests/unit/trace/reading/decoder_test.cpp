// The decoder of traces, on what the recorder does not write: NFSv3 and v2, refusals, backward Calls, files that
// are cut, hostile or another program's.
#include "trace/reading/decoder.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/scratch.h"
#include "support/trace_messages.h"
#include "trace/reading/summary.h"
#include "wire/nfs2/procedures.h"
#include "wire/nfs3/procedures.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma::trace {
namespace {

using namespace std::chrono_literals;
using namespace testing::traced;

Ends ends_of_test() {
  Ends out;
  out.addresses = {gid_of(testing::loopback(1)), gid_of(testing::loopback(2))};
  out.addresses[1][15] = std::byte{9};
  out.queue_pairs = {0x200, 0x201};
  return out;
}

/// A file made by hand: frames of one connection, a microsecond apart.
struct Made {
  Octets file;
  std::uint64_t now = 5'000'000'000;

  explicit Made(bool with_setup = true) {
    append_section(file, "test");
    append_interface(file, "if", "");
    if (!with_setup) return;
    setup(Setup::request);
    setup(Setup::reply);
  }
  void put(std::uint32_t size, const Octets& frame, const std::string& comment = "") {
    append_packet(file, {now += 1000, frame, size, comment});
  }
  void setup(Setup kind) {
    Octets frame;
    const std::uint32_t size = encode(ends_of_test(), kind, {}, frame);
    put(size, frame);
  }
  void send(bool to_server, const Octets& payload, std::uint64_t cut = 0, const std::string& comment = "") {
    Draft draft;
    draft.to_server = to_server;
    draft.payload = payload;
    draft.cut = cut;
    Octets frame;
    const std::uint32_t size = encode(ends_of_test(), draft, frame);
    put(size, frame, comment);
  }
  /// The messages.
  [[nodiscard]] std::vector<Event> messages() const {
    auto out = decoded(file);
    std::erase_if(out, [](const Event& one) { return one.kind < EventKind::call; });
    return out;
  }
};

template <class Procedure>
xdr::Message plain_call_of(std::uint32_t xid, const typename Procedure::Args& arguments) {
  xdr::Message out;
  rpc::begin_call(out, Procedure::program, Procedure::version, Procedure::number, rpc::Credential::none());
  xdr::store_u32(out.stream.data(), xid);
  xdr::Encoder to(out);
  xdr::encode(to, arguments);
  return out;
}
template <class Result>
xdr::Message plain_reply_of(std::uint32_t xid, const Result& result) {
  xdr::Message out;
  rpc::begin_reply(out, xid, {rpc::Refusal::none, 0, 0});
  xdr::Encoder to(out);
  xdr::encode(to, result);
  return out;
}
std::string detail(const Event& event) {
  return event.operations.empty() ? "-" : event.operations[0].name + " " + event.operations[0].arguments;
}

}  // namespace

TEST_CASE("trace: NFSv3's procedures, with the status of a failure") {
  Made made;
  nfs3::LOOKUP3args lookup;
  lookup.what.name.value = "a name\x1b";
  made.send(true, message(header(1), plain_call_of<nfs3::proc::LOOKUP>(1, lookup)));
  nfs3::LOOKUP3res missing;
  missing.select(nfs3::NFS3ERR_NOENT);
  made.send(false, message(header(1), plain_reply_of(1, missing)));
  const auto events = made.messages();
  REQUIRE(events.size() == 2);
  CHECK(events[0].protocol == "NFSv3");
  CHECK(detail(events[0]) == "LOOKUP fh=0x0 name=a\\x20name\\x1b");
  CHECK(events[1].procedure == "LOOKUP");
  CHECK(events[1].status == "NFS3ERR_NOENT");
  CHECK(events[1].failed);
  CHECK(events[1].round_trip == 1us);
}

TEST_CASE("trace: data of READ and WRITE of NFSv3 and v2 that is cut") {
  Made made;
  const std::string data(100, 'x');
  nfs3::WRITE3args write;
  write.offset = 77;
  write.count = 100;
  xdr::Message call = plain_call_of<nfs3::proc::WRITE>(2, write);
  // The length of the data, which does not follow.
  xdr::store_u32(call.stream.data() + call.stream.size() - 4, 100);
  made.send(true, message(header(2), call), 100, "nfsrdma: message=284 kept=184");
  nfs2::readargs read;
  read.count = 100;
  made.send(true, message(header(3), plain_call_of<nfs2::proc::READ>(3, read)));
  nfs2::readres result;
  result.emplace<nfs2::NFS_OK>().data.data = bytes_of(data);
  made.send(false, message(header(3), plain_reply_of(3, result)), 100);
  const auto events = made.messages();
  REQUIRE(events.size() == 3);
  CHECK(detail(events[0]) == "WRITE fh=0x0 offset=77 count=100 stable=0");
  CHECK(events[0].cut);
  CHECK(events[0].size == 284);
  CHECK(events[1].protocol == "NFSv2");
  CHECK(detail(events[2]) == "READ count=100");
  CHECK(events[2].status == "OK");
  CHECK(events[2].cut);
}

TEST_CASE("trace: a Call of the server's, and the client's answer") {
  Made made;
  xdr::Message call;
  rpc::begin_call(call, nfs4::NFS4_CALLBACK, nfs4::NFS_CB, nfs4::CB_COMPOUND, rpc::Credential::none());
  xdr::store_u32(call.stream.data(), 4);
  xdr::Encoder to(call);
  nfs4::CB_COMPOUND4args_head head;
  head.argarray_count = 1;
  xdr::encode(to, head);
  nfs4::CB_RECALL4args recall;
  recall.fh.length = 4;
  to.u32(nfs4::OP_CB_RECALL);
  xdr::encode(to, recall);
  made.send(false, message(header(4), call));
  xdr::Message answer;
  rpc::begin_reply(answer, 4, {rpc::Refusal::none, 0, 0});
  xdr::Encoder back(answer);
  xdr::encode(back, nfs4::CB_COMPOUND4res_head{nfs4::NFS4ERR_BADHANDLE, {}, 1});
  back.u32(nfs4::OP_CB_RECALL);
  back.u32(nfs4::NFS4ERR_BADHANDLE);
  made.send(true, message(header(4), answer));
  const auto events = made.messages();
  REQUIRE(events.size() == 2);
  CHECK(events[0].backward);
  CHECK_FALSE(events[0].to_server);
  CHECK(detail(events[0]) == "CB_RECALL fh=0x2144df1c");
  CHECK(events[1].backward);
  CHECK(events[1].to_server);
  CHECK(events[1].status == "NFS4ERR_BADHANDLE");
  CHECK(events[1].round_trip);
}

TEST_CASE("trace: an RDMA_ERROR, a refusal of RPC, and what is no message") {
  Made made;
  made.send(true, message(header(5), read_call(5, 0, 1)));
  rpcrdma::rdma_msg error = header(5);
  error.proc = rpcrdma::rdma_proc::RDMA_ERROR;
  xdr::Buffer bytes;
  rpcrdma::encode(error, bytes);
  made.send(false, Octets(bytes.bytes().begin(), bytes.bytes().end()));
  made.send(true, message(header(6), read_call(6, 0, 1)));
  xdr::Message refused;
  rpc::begin_reply(refused, 6, {rpc::Refusal::authentication, 13, 0});
  made.send(false, message(header(6), refused));
  made.send(false, Octets(40, std::byte{0xee}));
  const auto events = made.messages();
  REQUIRE(events.size() == 5);
  CHECK(events[1].kind == EventKind::error);
  CHECK(events[1].status == "ERR_CHUNK");
  CHECK(events[1].round_trip);
  CHECK(events[3].status == "AUTH_ERROR 13");
  CHECK(events[3].failed);
  CHECK(events[4].kind == EventKind::strange);
}

TEST_CASE("trace: operations that nobody knows end a COMPOUND, and counts that lie do not matter") {
  Made made;
  made.send(true, message(header(7), compound(7, 0xffffffff, [](xdr::Encoder& to) {
                            to.u32(nfs4::OP_GETFH);
                            to.u32(4711);
                          })));
  const auto events = made.messages();
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].operations.size() == 2);
  CHECK(events[0].operations[0].name == "GETFH");
  CHECK(events[0].operations[1].name == "operation 4711");
  CHECK(events[0].cut);
}

TEST_CASE("trace: without a set-up, connections are known by their addresses") {
  Made made(false);
  made.send(true, message(header(8), read_call(8, 0, 1)));
  made.send(false, message(header(8), read_reply(8, "x", false)));
  const auto events = made.messages();
  REQUIRE(events.size() == 2);
  CHECK(events[0].to_server);
  CHECK(events[1].round_trip);
  CHECK(events[0].connection == events[1].connection);
}

TEST_CASE("trace: a Call whose chunks never come is told when the next message does") {
  Made made;
  rpcrdma::rdma_msg head = header(9);
  const xdr::Message body = read_call(9, 0, 1);
  head.rdma_reads = {{static_cast<std::uint32_t>(body.stream.size()), {1, 1000, 0}}};
  made.send(true, message(head, body));
  made.send(true, message(header(10), read_call(10, 0, 1)));
  const auto events = made.messages();
  REQUIRE(events.size() == 2);
  CHECK(events[0].xid == 9);
  CHECK(events[0].cut);
  CHECK(events[0].operations.size() == 2);
}

TEST_CASE("trace: the sums by kind of call") {
  Summary summary;
  Event event;
  event.kind = EventKind::reply;
  for (int i = 1; i <= 100; ++i) {
    event.round_trip = std::chrono::milliseconds(i);
    event.data_bytes = 10;
    event.failed = i == 100;
    summary.add(event, "READ");
  }
  event.round_trip.reset();
  summary.add(event, "LOOKUP");
  const auto rows = summary.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].kind == "READ");
  CHECK(rows[0].count == 100);
  CHECK(rows[0].failed == 1);
  CHECK(rows[0].bytes == 1000);
  CHECK(rows[0].mean == 50500us);
  CHECK(rows[0].p50 == 50ms);
  CHECK(rows[0].p99 == 99ms);
  CHECK(rows[0].most == 100ms);
  CHECK(rows[1].p99 == 0ms);
}

TEST_CASE("trace: what a COMPOUND is for") {
  Event event;
  event.procedure = "COMPOUND";
  CHECK(event.kind_of_call() == "COMPOUND");
  for (const char* name : {"SEQUENCE", "PUTFH", "GETATTR"}) event.operations.push_back({name, "", ""});
  CHECK(event.kind_of_call() == "GETATTR");
  event.operations.push_back({"READ", "", ""});
  CHECK(event.kind_of_call() == "READ");
  for (const char* name : {"READ", "WRITE", "OPEN", "CLOSE", "LOCK"})
    event.operations.push_back({name, "", ""});
  CHECK(event.kind_of_call() == "READ+WRITE+OPEN+CLOSE+...");
}

}  // namespace nfsrdma::trace
