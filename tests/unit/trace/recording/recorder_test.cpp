// What the recorder writes, as the decoder reads it.
#include "trace/recording/recorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "support/scratch.h"
#include "support/trace_messages.h"

namespace nfsrdma::trace {
namespace {

using namespace std::chrono_literals;
using namespace testing::traced;
using rpcrdma::rdma_proc;
using testing::Scratch;

struct Place {
  Scratch scratch{"trace"};
  std::string file = scratch.path() + "/t.pcapng";
};

/// The messages among the events.
std::vector<Event> messages_in(const std::string& file) {
  std::vector<Event> out = decoded(content_of_file(file));
  std::erase_if(out, [](const Event& one) { return one.kind < EventKind::call; });
  return out;
}
std::string ops_of(const Event& event) {
  std::string out;
  for (const Operation& one : event.operations)
    out += (out.empty() ? "" : "; ") + one.name + (one.arguments.empty() ? "" : " " + one.arguments);
  return out;
}
fabric::Bytes memory_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

}  // namespace

TEST_CASE(
    "trace: a READ with a Write chunk whose data is cut: what was asked, what came, and how long it took") {
  const Place place;
  Recording r(place.file);
  REQUIRE(r.started);
  const auto tap = r.tap();
  std::string memory(5000, 'd');
  const fabric::RemoteSegment segment{0x11, 5000, 0};
  tap->exposed(memory_of(memory), {&segment, 1});
  rpcrdma::rdma_msg head = header(0x1234, 64);
  head.rdma_writes.add_chunk({&segment, 1});
  tap->sent(message(head, read_call(0x1234, 4096, 5000)));
  rpcrdma::rdma_msg answer = header(0x1234, 32);
  const fabric::RemoteSegment used{0x11, 4001, 0};
  answer.rdma_writes.add_chunk({&used, 1});
  tap->received(message(answer, read_reply(0x1234, std::string(4001, 'd'), true)), 0x11);

  const auto events = messages_in(place.file);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == EventKind::call);
  CHECK(events[0].to_server);
  CHECK(events[0].xid == 0x1234);
  CHECK(events[0].credits == 64);
  CHECK(events[0].protocol == "NFSv4.2");
  CHECK(ops_of(events[0]) == "PUTFH fh=0x2144df1c; READ offset=4096 count=5000");
  CHECK(events[0].writes == ChunkSum{1, 1, 5000});
  CHECK_FALSE(events[0].cut);
  CHECK(events[1].kind == EventKind::reply);
  CHECK(events[1].credits == 32);
  CHECK(events[1].protocol == "NFSv4.2");
  CHECK(events[1].status == "OK");
  CHECK(ops_of(events[1]) == "PUTFH; READ count=4001 eof");
  CHECK(events[1].writes == ChunkSum{1, 1, 4001});
  CHECK(events[1].data_bytes == 4001);
  CHECK(events[1].invalidates);
  CHECK(events[1].round_trip == 1ms);
  CHECK_FALSE(events[1].cut);
  // None of the data is in the file.
  const Octets bytes = content_of_file(place.file);
  const std::string data(32, 'd');
  CHECK(std::ranges::search(bytes, bytes_of(data)).empty());
}

TEST_CASE("trace: chunks that are small enough are kept as RDMA Writes and Reads") {
  const Place place;
  Recording r(place.file, 4096);
  const auto tap = r.tap();
  std::string memory = "the data of a READ";
  const fabric::RemoteSegment segment{0x11, 18, 100};
  tap->exposed(memory_of(memory), {&segment, 1});
  rpcrdma::rdma_msg head = header(1);
  head.rdma_writes.add_chunk({&segment, 1});
  tap->sent(message(head, read_call(1, 0, 18)));
  tap->received(message(head, read_reply(1, memory, true)), std::nullopt);
  const Octets bytes = content_of_file(place.file);
  CHECK_FALSE(std::ranges::search(bytes, bytes_of(memory)).empty());
  const auto events = messages_in(place.file);
  REQUIRE(events.size() == 2);
  CHECK(ops_of(events[1]) == "PUTFH; READ count=18 eof");
}

TEST_CASE("trace: a WRITE whose data goes in a Read chunk, kept and cut") {
  for (const std::uint32_t kept : {4096U, 256U}) {
    CAPTURE(kept);
    const Place place;
    Recording r(place.file, kept);
    const auto tap = r.tap();
    std::string memory(1001, 'w');
    const fabric::RemoteSegment segment{0x21, 1001, 0};
    tap->exposed(memory_of(memory), {&segment, 1});
    const xdr::Message body = compound(2, 1, [&](xdr::Encoder& to) {
      nfs4::WRITE4args write;
      write.offset = 8192;
      write.data.data = bytes_of(memory);
      nfs4::encode_op<nfs4::op::WRITE>(to, write);
    });
    rpcrdma::rdma_msg head = header(2);
    head.rdma_reads = {{static_cast<std::uint32_t>(body.stream.size()), segment}};
    tap->sent(message(head, body));
    tap->taken_back({&segment, 1});
    const auto events = messages_in(place.file);
    REQUIRE(events.size() == 1);
    CHECK(ops_of(events[0]) == "WRITE offset=8192 count=1001 stable=0");
    CHECK(events[0].reads == ChunkSum{1, 1, 1001});
    CHECK(events[0].cut == (kept < 1001));
  }
}

TEST_CASE("trace: a Long Call, and a Reply in the Reply chunk") {
  for (const std::uint32_t kept : {4096U, 64U}) {
    CAPTURE(kept);
    const Place place;
    Recording r(place.file, kept);
    const auto tap = r.tap();
    const xdr::Message call = read_call(3, 7, 9), reply = read_reply(3, "123456789", false);
    std::string there(reinterpret_cast<const char*>(call.stream.data()), call.stream.size());
    std::string back(reinterpret_cast<const char*>(reply.stream.data()), reply.stream.size());
    const fabric::RemoteSegment out{0x31, static_cast<std::uint32_t>(there.size()), 0};
    const fabric::RemoteSegment in{0x32, static_cast<std::uint32_t>(back.size()), 0};
    tap->exposed(memory_of(there), {&out, 1});
    tap->exposed(memory_of(back), {&in, 1});
    rpcrdma::rdma_msg head = header(3);
    head.proc = rdma_proc::RDMA_NOMSG;
    head.rdma_reads = {{0, out}};
    head.has_rdma_reply = true;
    head.rdma_reply = {in};
    tap->sent(message(head, call));
    head.rdma_reads.clear();
    tap->received(message(head, reply), std::nullopt);
    const auto events = messages_in(place.file);
    REQUIRE(events.size() == 2);
    CHECK(events[0].long_call.bytes == there.size());
    CHECK(events[1].reply_chunk.bytes == back.size());
    CHECK(events[1].round_trip);
    CHECK(events[0].cut == (kept == 64));
    if (kept == 64) continue;
    CHECK(ops_of(events[0]) == "PUTFH fh=0x2144df1c; READ offset=7 count=9");
    CHECK(ops_of(events[1]) == "PUTFH; READ count=9 eof");
  }
}

TEST_CASE("trace: memory that was taken back, or that the server has invalidated, is not read") {
  for (const bool invalidated : {false, true}) {
    CAPTURE(invalidated);
    const Place place;
    Recording r(place.file, 4096);
    const auto tap = r.tap();
    std::string memory(64, 's');
    const fabric::RemoteSegment gone{0x41, 32, 0}, there{0x42, 32, 0};
    tap->exposed(memory_of(memory).first(32), {&gone, 1});
    tap->exposed(memory_of(memory).last(32), {&there, 1});
    if (invalidated)
      tap->received(message(header(9), read_reply(9, "x", false)), gone.handle);
    else
      tap->taken_back({&gone, 1});
    // Its owner may use the memory otherwise from now on.
    memory.replace(0, 32, 32, 'n');
    rpcrdma::rdma_msg first = header(4), second = header(5);
    first.rdma_writes.add_chunk({&gone, 1});
    second.rdma_writes.add_chunk({&there, 1});
    tap->received(message(first, read_reply(4, std::string(32, 's'), true)), std::nullopt);
    tap->received(message(second, read_reply(5, std::string(32, 's'), true)), std::nullopt);
    const Octets bytes = content_of_file(place.file);
    CHECK(std::ranges::search(bytes, bytes_of(std::string(8, 'n'))).empty());
    CHECK_FALSE(std::ranges::search(bytes, bytes_of(std::string(32, 's'))).empty());
  }
}

TEST_CASE("trace: a lost connection, and the Call that is sent again on the next one") {
  const Place place;
  Recording r(place.file);
  auto tap = r.tap();
  tap->sent(message(header(5), read_call(5, 0, 1)));
  const Error why(ErrorKind::connection, ECONNRESET, "", "server", "reset by peer");
  tap->closed(&why);
  tap = r.tap();
  tap->sent(message(header(5), read_call(5, 0, 1)));
  tap->received(message(header(5), read_reply(5, "x", false)), std::nullopt);
  tap->closed(nullptr);
  const auto events = decoded(content_of_file(place.file));
  std::vector<std::string> kinds;
  for (const Event& one : events) kinds.emplace_back(to_string(one.kind));
  CHECK(kinds == std::vector<std::string>{"connecting", "connected", "call", "disconnected", "connecting",
                                          "connected", "call", "reply", "disconnected"});
  CHECK(events[0].text == "connecting to server (127.0.0.1:20049)");
  CHECK(events[3].text == "connection ended: reset by peer");
  CHECK(events[6].sends == 2);
  CHECK(events[6].connection == 2);
  CHECK(events[7].sends == 2);
  CHECK(events[7].round_trip == 1ms);
  CHECK(events[8].text == "connection ended: closed by this side");
}

TEST_CASE("trace: a connection that cannot be made") {
  const Place place;
  Recording r(place.file);
  const auto tap = r.recorder->tapper(nullptr)({testing::loopback(20049), "server"});
  tap->announced(bytes_of("private"));
  const Error why(ErrorKind::connection, ECONNREFUSED, "", "server", "refused");
  tap->closed(&why);
  const auto events = decoded(content_of_file(place.file));
  REQUIRE(events.size() == 2);
  CHECK(events[1].text == "not connected: refused");
}

TEST_CASE("trace: a file that follows begins with the set-up of the connection that goes on") {
  const Place place;
  Recording r(place.file, 1024, 64U << 10);
  const auto tap = r.tap();
  for (std::uint32_t xid = 1; xid <= 400; ++xid) {
    tap->sent(message(header(xid), read_call(xid, xid, 1)));
    tap->received(message(header(xid), read_reply(xid, "x", false)), std::nullopt);
  }
  CHECK(std::filesystem::file_size(place.file) <= 64U << 10);
  CHECK(std::filesystem::file_size(place.file + ".1") <= 64U << 10);
  const auto events = decoded(content_of_file(place.file));
  REQUIRE(events.size() > 4);
  CHECK(events[0].kind == EventKind::connecting);
  CHECK(events[1].kind == EventKind::connected);
  CHECK(events.back().xid == 400);
  // Both files together are one trace, without a second connection.
  unsigned connections = 0, replies = 0;
  Decoder decoder([&](const Event& event) {
    connections += event.kind == EventKind::connecting ? 1 : 0;
    replies += event.kind == EventKind::reply && event.round_trip ? 1 : 0;
  });
  for (const char* end : {".1", ""}) {
    decoder.begin_file();
    decoder.add(content_of_file(place.file + end));
  }
  CHECK(connections == 1);
  CHECK(replies > 200);
  CHECK(decoder.unanswered() == 0);
}

TEST_CASE(
    "trace: switched off and on again, with a connection that is up and memory that has gone meanwhile") {
  const Place place;
  Recording r(place.file, 4096);
  const auto tap = r.tap();
  std::string memory(64, 'm');
  const fabric::RemoteSegment segment{0x51, 64, 0};
  tap->exposed(memory_of(memory), {&segment, 1});
  r.recorder->stop();
  CHECK_FALSE(tap->on());
  REQUIRE(r.recorder->start(place.file + "2"));
  CHECK(tap->on());
  rpcrdma::rdma_msg answer = header(6);
  answer.rdma_writes.add_chunk({&segment, 1});
  tap->received(message(answer, read_reply(6, memory, true)), std::nullopt);
  const Octets bytes = content_of_file(place.file + "2");
  CHECK(std::ranges::search(bytes, bytes_of(memory)).empty());
  const auto events = decoded(bytes);
  REQUIRE(events.size() == 3);
  CHECK(events[2].text == "its Call is not in the trace");
}

TEST_CASE("trace: a file that can no longer be written ends the trace with one warning") {
  const Scratch scratch("trace");
  const std::string inner = scratch.path() + "/inner";
  std::filesystem::create_directory(inner);
  Recording r(inner + "/t", 1024, 64U << 10);
  REQUIRE(r.started);
  const auto tap = r.tap();
  std::filesystem::remove_all(inner);
  for (std::uint32_t xid = 1; xid <= 1000; ++xid) tap->sent(message(header(xid), read_call(xid, 0, 1)));
  CHECK(r.warnings.size() == 1);
  CHECK_FALSE(r.recorder->on());
  tap->closed(nullptr);
}

TEST_CASE("trace: clients of one process share a file, and their connections are told apart") {
  const Place place;
  Options options;
  options.now = [] { return std::uint64_t{1}; };
  const auto first = recorder_of(place.file, options, nullptr),
             second = recorder_of(place.file, options, nullptr);
  CHECK(first == second);
  const auto one = first->tapper(nullptr)({testing::loopback(20049), "a"});
  const auto two = second->tapper(nullptr)({testing::loopback(20049), "a"});
  one->established({});
  two->established({});
  one->sent(message(header(7), read_call(7, 0, 1)));
  two->sent(message(header(7), read_call(7, 0, 1)));
  const auto events = messages_in(place.file);
  REQUIRE(events.size() == 2);
  CHECK(events[0].connection == 1);
  CHECK(events[1].connection == 2);
  CHECK(events[1].sends == 1);
}

}  // namespace nfsrdma::trace
