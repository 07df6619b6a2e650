// The C interface (nfsrdma/nfsrdma.h) itself: structs, errors, queues, callbacks, cancelling and deadlines. The tests of
// the C++ classes exercise the operations, which stand on it.
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nfsrdma/nfsrdma.h"
#include "support/c_fixture.h"
#include "support/nfs_fixture.h"
#include "wire/nfs4/types.h"

namespace nfsrdma {
namespace {

using namespace testing;

TEST_CASE("c: the errors of arguments name the argument, and nothing is sent") {
  CMounted m;
  m.connect();
  m.server.clear_calls();
  CFailure none, size, flags, queue, path;
  nfsrdma_attributes unset{};
  CHECK(nfsrdma_stat(m.root(), "/", 0, nullptr, nullptr, none) == -1);
  CHECK(nfsrdma_stat(m.root(), "/", 0, &unset, nullptr, size) == -1);
  CHECK(size.text().find("nfsrdma_attributes.struct_size is 0, less than") != std::string::npos);
  CHECK(std::string(nfsrdma_error_next_step(size.error)) == "set it to sizeof(nfsrdma_attributes)");
  auto found = room_for_attributes();
  CHECK(nfsrdma_stat(m.root(), "/", 1U << 30, &found, nullptr, flags) == -1);
  CHECK(nfsrdma_stat(m.root(), nullptr, 0, &found, nullptr, path) == -1);
  CMounted other;
  other.connect();
  const nfsrdma_call foreign = other.queued(1);
  CHECK(nfsrdma_stat(m.root(), "/", 0, &found, &foreign, queue) == -1);
  CHECK(queue.text().find("another client") != std::string::npos);
  for (const CFailure* one : {&none, &size, &flags, &queue, &path}) {
    CHECK(one->number() == EINVAL);
    CHECK(nfsrdma_error_kind(one->error) == NFSRDMA_ERROR_USAGE);
  }
  CHECK(nfsrdma_stat(m.root(), "/no", 0, &found, nullptr, nullptr) == -1);  // nobody wants the error
}

TEST_CASE("c: a program of an older version has shorter structs; no byte behind them is touched") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  struct Newer {
    nfsrdma_attributes known;
    std::array<std::uint64_t, 4> later;
  } newer{};
  newer.later.fill(0x1122334455667788);
  newer.known.struct_size = sizeof newer;  // a program that is newer than the library
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &newer.known, nullptr, nullptr) == 0);
  CHECK(newer.known.size == 4);
  CHECK(newer.known.struct_size == sizeof newer);
  CHECK(newer.later[0] == 0x1122334455667788);
  struct NewerCall {
    nfsrdma_call known;
    std::uint64_t wish;
  } call{};
  call.known.struct_size = sizeof call;
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &newer.known, &call.known, nullptr) == 0);
  call.wish = 1;
  CFailure failure;
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &newer.known, &call.known, failure) == -1);
  CHECK(failure.number() == E2BIG);
  struct Longer {
    nfsrdma_read_item item;
    std::uint64_t later;
  };
  std::array<std::array<char, 8>, 2> room{};
  std::array<Longer, 2> items{};
  for (std::size_t i = 0; i < 2; ++i) items[i] = {{"/a", room[i].data(), 8, nullptr, 0, 0, 0, nullptr}, 77};
  CHECK(nfsrdma_read_many(m.root(), &items[0].item, 2, sizeof(Longer), nullptr, nullptr) == 2);
  for (const Longer& one : items) {
    CHECK(one.item.count == 4);
    CHECK(one.later == 77);
  }
}

TEST_CASE("c: owner and group are cut to the room that there is") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  auto found = room_for_attributes();
  std::array<char, 64> owner{};
  std::array<char, 2> group{'x', 'x'};
  found.owner = owner.data();
  found.owner_room = owner.size();
  found.group = group.data();
  found.group_room = group.size();
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &found, nullptr, nullptr) == 0);
  CHECK(std::strlen(owner.data()) > 0);
  CHECK(std::strlen(group.data()) == 1);
}

// ---- queues ----

TEST_CASE("c: each started call has one completion, with its tag, in a queue that is polled") {
  CMounted m;
  const std::string text = pattern(100'000);
  m.server.add_file("/a", text);
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  constexpr std::size_t kCalls = 500;
  std::string data(text.size(), '?');
  const int descriptor = nfsrdma_queue_descriptor(m.queue);
  REQUIRE(descriptor >= 0);
  for (std::size_t i = 0; i < kCalls; ++i) {
    nfsrdma_call call = m.queued(i);
    if (i + 1 < kCalls) call.flags = NFSRDMA_MORE;
    CHECK(nfsrdma_pread(file, data.data() + i * 200, 200, i * 200, &call, nullptr) == 0);
  }
  CHECK(nfsrdma_queue_pending(m.queue) == kCalls);
  std::set<std::uint64_t> tags;
  while (nfsrdma_queue_pending(m.queue) != 0) {
    pollfd poll{descriptor, POLLIN, 0};
    REQUIRE(::poll(&poll, 1, 30'000) == 1);
    std::array<nfsrdma_completion, 64> got{};
    const auto count = nfsrdma_reap(m.queue, got.data(), got.size(), 0, 0);
    for (const auto& one : std::span(got).first(static_cast<std::size_t>(count))) {
      CHECK(one.result == 200);
      CHECK(tags.insert(one.tag).second);
    }
  }
  CHECK(tags.size() == kCalls);
  CHECK(data == text);
  nfsrdma_file_free(file);
}

TEST_CASE("c: a queue's descriptor is readable for a deadline, and quiet when nothing is due") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  const int descriptor = nfsrdma_queue_descriptor(m.queue);
  m.server.hold(nfs4::OP_READ);
  nfsrdma_call call = m.queued(5);
  call.timeout = 50;
  std::array<char, 4> data{};
  CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  const Stopwatch watch;
  nfsrdma_completion got{};
  unsigned polls = 0;
  while (nfsrdma_reap(m.queue, &got, 1, 0, 0) == 0) {
    pollfd poll{descriptor, POLLIN, 0};
    REQUIRE(::poll(&poll, 1, 10'000) == 1);
    REQUIRE(++polls < 20);
  }
  CHECK(watch.elapsed() >= 50ms);
  CHECK(got.tag == 5);
  CHECK(got.result == -1);
  CHECK(nfsrdma_error_kind(got.error) == NFSRDMA_ERROR_TIMEOUT);
  CHECK(nfsrdma_error_outcome_unknown(got.error) == 1);
  nfsrdma_error_free(got.error);
  m.server.release();
  nfsrdma_file_free(file);
}

TEST_CASE("c: a queue's descriptor is readable as soon as a call has been cancelled") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  pollfd poll{nfsrdma_queue_descriptor(m.queue), POLLIN, 0};
  m.server.hold(nfs4::OP_READ);
  const nfsrdma_call call = m.queued(5);
  std::array<char, 4> data{};
  CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  nfsrdma_completion got{};
  REQUIRE(eventually([&] { return nfsrdma_reap(m.queue, &got, 1, 0, 0) == 0 && ::poll(&poll, 1, 0) == 0; }));
  CHECK(nfsrdma_cancel(m.client, 5) == 1);
  CHECK(::poll(&poll, 1, 0) == 1);
  REQUIRE(nfsrdma_reap(m.queue, &got, 1, 0, 0) == 1);
  CHECK(got.tag == 5);
  CHECK(nfsrdma_error_kind(got.error) == NFSRDMA_ERROR_CANCELLED);
  nfsrdma_error_free(got.error);
  m.server.release();
  nfsrdma_file_free(file);
}

TEST_CASE("c: a program that neither polls nor reaps gets its completions from the library's thread") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  auto found = room_for_attributes();
  const nfsrdma_call call = m.queued(1);
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &found, &call, nullptr) == 0);
  std::this_thread::sleep_for(200ms);
  CHECK(found.size == 0);  // variables are written when the completion is received
  nfsrdma_completion got{};
  CHECK(nfsrdma_reap(m.queue, &got, 1, 0, 0) == 1);
  CHECK(found.size == 4);
}

TEST_CASE("c: reap waits for as many as were asked for, or for all that are under way, or for its time") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  std::array<nfsrdma_completion, 8> got{};
  CHECK(nfsrdma_reap(m.queue, got.data(), 8, 8, -1) == 0);  // nothing is under way
  std::array<char, 4> data{};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const nfsrdma_call call = m.queued(i);
    CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  }
  CHECK(nfsrdma_reap(m.queue, got.data(), 8, 8, -1) == 3);
  m.server.hold(nfs4::OP_READ);
  const nfsrdma_call call = m.queued(9);
  CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  CHECK(nfsrdma_reap(m.queue, got.data(), 8, 1, 20) == 0);
  m.server.release();
  CHECK(nfsrdma_reap(m.queue, got.data(), 8, 1, -1) == 1);
  CHECK(got[0].tag == 9);
  nfsrdma_file_free(file);
}

TEST_CASE("c: freeing a file, a listing or a queue ends its calls; an open that nobody takes is closed") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  m.server.hold(nfs4::OP_READ);
  std::array<char, 4> data{};
  const nfsrdma_call call = m.queued(3);
  CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  nfsrdma_file_free(file);
  m.server.release();
  const auto got = m.next();
  CHECK(got.tag == 3);
  CHECK(nfsrdma_error_kind(got.error) == NFSRDMA_ERROR_CANCELLED);
  nfsrdma_error_free(got.error);

  nfsrdma_file* never = nullptr;
  const nfsrdma_call open = m.queued(4);
  CHECK(nfsrdma_open(m.root(), "/a", NFSRDMA_READ, 0, &never, &open, nullptr) == 0);
  CHECK(eventually([&] { return m.server.count(nfs4::OP_OPEN) >= 2; }));
  std::this_thread::sleep_for(100ms);  // long enough for the library's thread to see the answer
  nfsrdma_queue_free(std::exchange(m.queue, nullptr));
  CHECK(never == nullptr);
  CHECK(eventually([&] { return m.server.open_states() == 0; }));
}

// ---- cancelling ----

TEST_CASE("c: nfsrdma_cancel ends started and blocking calls by their tag, and no others") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  nfsrdma_file* const file = m.open("/a");
  m.server.hold(nfs4::OP_READ);
  std::array<std::array<char, 4>, 4> data{};
  for (const std::uint64_t tag : {1U, 2U}) {
    const nfsrdma_call call = m.queued(tag);
    CHECK(nfsrdma_pread(file, data[tag].data(), 4, 0, &call, nullptr) == 0);
  }
  std::atomic<bool> ended = false;
  std::thread blocking([&] {
    nfsrdma_call call{};
    call.struct_size = sizeof call;
    call.tag = 2;
    CFailure failure;
    CHECK(nfsrdma_pread(file, data[0].data(), 4, 0, &call, failure) == -1);
    CHECK(nfsrdma_error_kind(failure.error) == NFSRDMA_ERROR_CANCELLED);
    ended = true;
  });
  std::thread untagged([&] { CHECK(nfsrdma_pread(file, data[3].data(), 4, 0, nullptr, nullptr) == 4); });
  CHECK(eventually([&] { return m.server.count(nfs4::OP_READ) >= 4; }));
  CHECK(nfsrdma_cancel(m.client, 0) == 0);  // that of calls without a tag
  CHECK(nfsrdma_cancel(m.client, 2) == 2);
  blocking.join();
  CHECK(ended);
  CHECK(nfsrdma_cancel(m.client, 2) == 0);
  const auto first = m.next();
  CHECK(first.tag == 2);
  nfsrdma_error_free(first.error);
  m.server.release();
  untagged.join();
  const auto second = m.next();
  CHECK(second.tag == 1);
  CHECK(second.result == 4);
  nfsrdma_file_free(file);
}

// ---- callbacks ----

struct CallbackState {
  nfsrdma_client* client = nullptr;
  nfsrdma_file* file = nullptr;
  unsigned calls = 0;
  std::int64_t result = 0;
};

TEST_CASE("c: callbacks run inside nfsrdma_wait only, and may make blocking calls and free the file") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  CallbackState state{m.client, m.open("/a"), 0, 0};
  std::array<char, 4> data{};
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.data = &state;
  call.done = [](void* to, const nfsrdma_completion* completion) {
    auto& me = *static_cast<CallbackState*>(to);
    ++me.calls;
    me.result = completion->result;
    auto found = room_for_attributes();
    CHECK(nfsrdma_fstat(me.file, &found, nullptr, nullptr) == 0);
    CHECK(found.size == 4);
    nfsrdma_file_free(std::exchange(me.file, nullptr));
  };
  CHECK(nfsrdma_pread(state.file, data.data(), 4, 0, &call, nullptr) == 0);
  auto found = room_for_attributes();
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &found, nullptr, nullptr) == 0);
  CHECK(state.calls == 0);
  while (state.calls == 0) (void)nfsrdma_wait(m.client, 1000, nullptr, 0);
  CHECK(state.calls == 1);
  CHECK(state.result == 4);
}

TEST_CASE("c: nfsrdma_client_free runs the callbacks that are still due") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.connect();
  CallbackState state;
  auto found = room_for_attributes();
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.data = &state;
  call.done = [](void* to, const nfsrdma_completion*) { ++static_cast<CallbackState*>(to)->calls; };
  m.server.hold(nfs4::OP_GETATTR);
  CHECK(nfsrdma_stat(m.root(), "/a", 0, &found, &call, nullptr) == 0);
  m.server.release();
  nfsrdma_queue_free(std::exchange(m.queue, nullptr));
  nfsrdma_client_free(std::exchange(m.client, nullptr));
  CHECK(state.calls == 1);
}

TEST_CASE("c: nfsrdma_post wakes a thread that waits for a completion, and sends nothing") {
  CMounted m;
  m.connect();
  const auto calls = m.server.count(nfs4::OP_SEQUENCE);
  std::thread poster([&] {
    const nfsrdma_call call = m.queued(7);
    CHECK(nfsrdma_post(m.client, &call, nullptr) == 0);
  });
  const nfsrdma_call never = m.queued(1);  // keeps reap waiting
  m.server.hold(nfs4::OP_GETATTR);
  auto found = room_for_attributes();
  CHECK(nfsrdma_stat(m.root(), "/", 0, &found, &never, nullptr) == 0);
  const nfsrdma_completion got = m.next();
  CHECK(got.tag == 7);
  CHECK(got.result == 0);
  poster.join();
  m.server.release();
  CHECK(m.next().tag == 1);
  CHECK(m.server.count(nfs4::OP_SEQUENCE) == calls + 1);
  CallbackState state;
  nfsrdma_call call = callback_call(
      [](void* to, const nfsrdma_completion*) { ++static_cast<CallbackState*>(to)->calls; }, &state);
  std::thread caller([&] { CHECK(nfsrdma_post(m.client, &call, nullptr) == 0); });
  while (state.calls == 0) CHECK(nfsrdma_wait(m.client, 10'000, nullptr, 0) == 1);
  caller.join();
  CHECK(nfsrdma_post(m.client, nullptr, nullptr) == 0);
}

TEST_CASE("c: the error of a call on a file names the file, whoever failed") {
  CMounted m;
  m.server.add_file("/a", "text");
  m.server.add_directory("/d");
  m.connect("timeo=20s");
  CFailure acl, xattr, late, cancelled;
  nfsrdma_acl* list = nullptr;
  m.server.answer(nfs4::OP_GETATTR, nfs4::NFS4ERR_IO, 1, 1);  // the first one finds the name
  CHECK(nfsrdma_get_acl(m.root(), "/d", 0, &list, nullptr, acl) == -1);
  CHECK(acl.text().starts_with("/d: "));
  CHECK(nfsrdma_get_xattr(m.root(), "/a", 0, "user.none", nullptr, 0, nullptr, xattr) == -1);
  CHECK(xattr.text() == "/a: user.none: xattr: no such extended attribute");
  nfsrdma_file* const file = m.open("/a");
  m.server.hold(nfs4::OP_READ);
  std::array<char, 4> data{};
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.timeout = 20;
  CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, late) == -1);
  CHECK(late.text().starts_with("/a on 127.0.0.1: "));
  CHECK(late.number() == ETIMEDOUT);
  call = m.queued(3);
  CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == 0);
  CHECK(nfsrdma_cancel(m.client, 3) == 1);
  const nfsrdma_completion got = m.next();
  CHECK(std::string(nfsrdma_error_peer(got.error)) == "/a on 127.0.0.1");
  nfsrdma_error_free(got.error);
  m.server.release();
  nfsrdma_file_free(file);
}

// ---- vectored transfers ----

TEST_CASE("c: vectored transfers fill parts of all sizes, and stop at the end of the file") {
  CMounted m;
  const std::string text = pattern(300'000);
  m.server.add_file("/a", text);
  m.server.add_file("/b", "");
  m.connect("timeo=5s&rsize=65536&wsize=65536");
  nfsrdma_file* const file = m.open("/a");
  nfsrdma_file* const copy = m.open("/b");
  const std::vector<std::size_t> sizes{1, 0, 3, 70'000, 5, 40'000, 32'768, 7, 7, 100'000, 64'000, 9};
  std::string data(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '?');
  std::vector<iovec> parts;
  std::size_t at = 0;
  for (const std::size_t size : sizes) {
    parts.push_back({data.data() + at, size});
    at += size;
  }
  const auto expected = static_cast<std::int64_t>(text.size() - 11);
  REQUIRE(data.size() > text.size());
  CHECK(nfsrdma_preadv(file, parts.data(), parts.size(), 11, nullptr, nullptr) == expected);
  CHECK(data.substr(0, text.size() - 11) == text.substr(11));
  const auto size = static_cast<std::int64_t>(data.size());
  CHECK(nfsrdma_pwritev(copy, parts.data(), parts.size(), 0, NFSRDMA_ON_DISK, nullptr, nullptr) == size);
  CHECK(m.server.content("/b") == data);
  const nfsrdma_call call = m.queued(1);
  CHECK(nfsrdma_preadv(file, parts.data(), parts.size(), 11, &call, nullptr) == 0);
  std::fill(parts.begin(), parts.end(), iovec{});  // the array is copied
  CHECK(m.next().result == expected);
  CHECK(nfsrdma_preadv(file, nullptr, 0, 0, nullptr, nullptr) == 0);
  nfsrdma_file_free(file);
  nfsrdma_file_free(copy);
}

}  // namespace
}  // namespace nfsrdma
