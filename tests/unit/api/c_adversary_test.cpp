// Scenarios in which a program uses the C interface (nfsrdma/nfsrdma.h) in unusual but permitted ways: it frees objects
// while completions wait, calls from inside callbacks, stops polling, disconnects early, and uses eight threads at once.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nfsrdma/nfsrdma.h"
#include "support/c_fixture.h"
#include "support/nfs_fixture.h"
#include "support/virtual_mounted.h"
#include "wire/nfs4/types.h"

namespace nfsrdma {
namespace {

using namespace testing;

// ---- objects that are freed while completions wait ----

TEST_CASE("adversary: a listing is freed while its page waits in a queue") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_listing* const listing = nfsrdma_listing_new(v.root(), "/", nullptr);
  REQUIRE(listing != nullptr);
  const nfsrdma_call call = call_with(v.queue, 1);
  CHECK(nfsrdma_listing_next(listing, &call, nullptr) == 0);
  CHECK(eventually([&] { return v.server.count(nfs4::OP_READDIR) != 0; }));
  std::this_thread::sleep_for(100ms);  // long enough for the keeper to complete the call
  nfsrdma_listing_free(listing);
  nfsrdma_completion got{};
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 5000) == 1);  // must not write to the listing
  nfsrdma_error_free(got.error);
}

TEST_CASE("adversary: a Listing of C++ is destroyed while its page waits for Client::wait()") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.connect("timeo=5s");
  bool ran = false;
  {
    auto listing = m.client->open_listing("/");
    REQUIRE(ok(listing));
    (*listing)->start_next([&](const auto&) { ran = true; });
    m.client->submit();
    CHECK(m.eventually([&] { return m.server.count(nfs4::OP_READDIR) != 0; }));
    std::this_thread::sleep_for(100ms);
  }
  m.client->wait(50ms);
  CHECK(!ran);
}

TEST_CASE("adversary: a file is freed while its completed reads wait in a queue") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  std::array<std::array<char, 4>, 8> data{};
  auto found = room_for_attributes();
  for (std::size_t i = 0; i < data.size(); ++i) {
    const nfsrdma_call call = call_with(v.queue, i, 10'000);
    CHECK(nfsrdma_pread(file, data[i].data(), 4, 0, &call, nullptr) == 0);
  }
  const nfsrdma_call call = call_with(v.queue, 8, 10'000);
  CHECK(nfsrdma_fstat(file, &found, &call, nullptr) == 0);
  std::this_thread::sleep_for(100ms);
  nfsrdma_file_free(file);
  std::array<nfsrdma_completion, 16> got{};
  CHECK(nfsrdma_reap(v.queue, got.data(), got.size(), 9, 5000) == 9);
  for (const auto& one : got) nfsrdma_error_free(one.error);
}

TEST_CASE("adversary: a file whose open nobody took is closed soon after its queue was freed") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* never = nullptr;
  const nfsrdma_call open = call_with(v.queue, 4);
  CHECK(nfsrdma_open(v.root(), "/a", NFSRDMA_READ, 0, &never, &open, nullptr) == 0);
  CHECK(eventually([&] { return v.server.open_states() == 1; }));
  std::this_thread::sleep_for(100ms);
  nfsrdma_queue_free(std::exchange(v.queue, nullptr));
  CHECK(eventually([&] { return v.server.open_states() == 0; }, 1s));
}

// ---- callbacks ----

struct Pair {
  nfsrdma_client* client = nullptr;
  unsigned ran = 0;
  unsigned most_at_once = 0, depth = 0;
};

TEST_CASE("adversary: a callback waits for another callback that is due at the same time") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  Pair pair{v.client};
  const auto done = [](void* to, const nfsrdma_completion*) {
    auto& me = *static_cast<Pair*>(to);
    ++me.ran;
    me.most_at_once = std::max(me.most_at_once, ++me.depth);
    for (int tries = 0; me.ran < 2 && tries < 20; ++tries) (void)nfsrdma_wait(me.client, 50, nullptr, 0);
    --me.depth;
  };
  std::array<std::array<char, 4>, 2> data{};
  const nfsrdma_call call = callback_call(done, &pair);
  for (auto& one : data) CHECK(nfsrdma_pread(file, one.data(), 4, 0, &call, nullptr) == 0);
  std::this_thread::sleep_for(100ms);  // both are complete
  while (pair.ran < 2) (void)nfsrdma_wait(v.client, 1000, nullptr, 0);
  CHECK(pair.most_at_once == 2);  // the second one ran while the first one waited for it
  nfsrdma_file_free(file);
}

struct Chain {
  nfsrdma_client* client = nullptr;
  nfsrdma_attributes found = room_for_attributes();
  unsigned started = 0, completed = 0;
};

void go_on(void* to, const nfsrdma_completion*) {
  auto& me = *static_cast<Chain*>(to);
  ++me.completed;
  if (me.started == 5) return;
  const nfsrdma_call call = callback_call(go_on, to);
  if (nfsrdma_stat(nfsrdma_root(me.client), "/a", 0, &me.found, &call, nullptr) == 0) ++me.started;
}

TEST_CASE("adversary: callbacks that nfsrdma_client_free runs start more calls, which all get completions") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  Chain chain{v.client};
  nfsrdma_queue_free(std::exchange(v.queue, nullptr));
  const nfsrdma_call call = callback_call(go_on, &chain);
  CHECK(nfsrdma_stat(v.root(), "/a", 0, &chain.found, &call, nullptr) == 0);
  ++chain.started;
  nfsrdma_client_free(std::exchange(v.client, nullptr));
  CHECK(chain.completed == chain.started);
}

TEST_CASE("adversary: a callback disconnects the client") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  Pair pair{v.client};
  const auto done = [](void* to, const nfsrdma_completion*) {
    auto& me = *static_cast<Pair*>(to);
    ++me.ran;
    CHECK(nfsrdma_disconnect(me.client, nullptr) == 0);
  };
  auto found = room_for_attributes();
  const nfsrdma_call call = callback_call(done, &pair);
  CHECK(nfsrdma_stat(v.root(), "/a", 0, &found, &call, nullptr) == 0);
  while (pair.ran == 0) (void)nfsrdma_wait(v.client, 1000, nullptr, 0);
}

// ---- the end of the connection ----

TEST_CASE("adversary: nfsrdma_disconnect ends the calls of other threads and started calls") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect("timeo=6s");
  nfsrdma_file* const file = v.open("/a");
  v.server.hold(nfs4::OP_READ);
  std::array<std::array<char, 4>, 3> data{};
  const nfsrdma_call call = call_with(v.queue, 1);
  CHECK(nfsrdma_pread(file, data[0].data(), 4, 0, &call, nullptr) == 0);
  std::atomic<int> ended = 0;
  std::thread blocking([&] {
    CFailure failed;
    CHECK(nfsrdma_pread(file, data[1].data(), 4, 0, nullptr, failed) == -1);
    ended = 1;
  });
  CHECK(eventually([&] { return v.server.count(nfs4::OP_READ) >= 2; }));
  const Stopwatch watch;
  (void)nfsrdma_disconnect(v.client, nullptr);
  CHECK(watch.elapsed() < 4s);
  CHECK(eventually([&] { return ended == 1; }, 2s));
  nfsrdma_completion got{};
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 2000) == 1);
  CHECK(got.result == -1);
  nfsrdma_error_free(got.error);
  v.server.release();
  blocking.join();
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: nfsrdma_disconnect waits while another thread disconnects") {
  CMounted v;
  v.connect("timeo=6s");
  v.server.hold(nfs4::OP_DESTROY_SESSION);
  std::atomic<bool> first = false;
  std::thread one([&] {
    (void)nfsrdma_disconnect(v.client, nullptr);
    first = true;
  });
  CHECK(eventually([&] { return v.server.count(nfs4::OP_DESTROY_SESSION) != 0; }));
  std::thread other([&] {
    CHECK(nfsrdma_disconnect(v.client, nullptr) == 0);
    CHECK(v.server.clients() == 0);
  });
  CHECK_FALSE(first);
  v.server.release();
  one.join();
  other.join();
}

TEST_CASE("adversary: calls after nfsrdma_disconnect fail soon, and their completions come") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect("timeo=20s");
  nfsrdma_file* const file = v.open("/a");
  CHECK(nfsrdma_disconnect(v.client, nullptr) == 0);
  auto found = room_for_attributes();
  const Stopwatch watch;
  CFailure failed, ping, open, read;
  CHECK(nfsrdma_stat(v.root(), "/a", 0, &found, nullptr, failed) == -1);
  CHECK(nfsrdma_ping(v.client, nullptr, ping) == -1);
  nfsrdma_file* never = nullptr;
  CHECK(nfsrdma_open(v.root(), "/a", NFSRDMA_READ, 0, &never, nullptr, open) == -1);
  std::array<char, 4> data{};
  CHECK(nfsrdma_pread(file, data.data(), 4, 0, nullptr, read) == -1);
  for (const CFailure* one : {&failed, &ping, &open, &read}) {
    CHECK(one->number() == ENOTCONN);
    CHECK(nfsrdma_error_outcome_unknown(one->error) == 0);  // nothing was sent
  }
  CHECK(failed.text() == "/a on 127.0.0.1: the client has been disconnected; connect again to make calls");
  CHECK(nfsrdma_close(file, nullptr, nullptr) == 0);  // nfsrdma_disconnect has closed it
  const nfsrdma_call call = call_with(v.queue, 1);
  CHECK(nfsrdma_stat(v.root(), "/a", 0, &found, &call, nullptr) == 0);
  nfsrdma_completion got{};
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 3000) == 1);
  CHECK(nfsrdma_error_errno(got.error) == ENOTCONN);
  nfsrdma_error_free(got.error);
  CHECK(nfsrdma_post(v.client, &call, nullptr) == 0);
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 3000) == 1);
  CHECK(got.result == 0);
  CHECK(watch.elapsed() < 3s);
  CHECK(v.server.clients() == 0);
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: nfsrdma_client_free keeps its three seconds if an open file's server is silent") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect("timeo=8s");
  nfsrdma_queue_free(std::exchange(v.queue, nullptr));
  nfsrdma_file* opened = nullptr;
  struct Holder {
    nfsrdma_file** file;
  } holder{&opened};
  const nfsrdma_call call = callback_call(
      [](void* to, const nfsrdma_completion*) {
        nfsrdma_file_free(std::exchange(*static_cast<Holder*>(to)->file, nullptr));
      },
      &holder);
  CHECK(nfsrdma_open(v.root(), "/a", NFSRDMA_READ, 0, &opened, &call, nullptr) == 0);
  CHECK(eventually([&] { return v.server.open_states() == 1; }));
  std::this_thread::sleep_for(100ms);
  v.server.hold(nfs4::OP_CLOSE);
  const Stopwatch watch;
  nfsrdma_client_free(std::exchange(v.client, nullptr));
  CHECK(watch.elapsed() < 4s);
  v.server.release();
}

// ---- deadlines and interrupts ----

TEST_CASE("adversary: a started read_many that is late has the results of the items that were done") {
  CMounted v;
  for (int i = 0; i < 4; ++i) v.server.add_file("/" + std::to_string(i), "text");
  v.connect();
  v.server.hold(nfs4::OP_READ);
  std::array<std::array<char, 8>, 4> data{};
  const std::array<const char*, 4> paths{"/0", "/1", "/2", "/3"};
  std::array<nfsrdma_read_item, 4> items{};
  for (std::size_t i = 0; i < 4; ++i) {
    items[i].path = paths[i];
    items[i].data = data[i].data();
    items[i].room = 8;
    items[i].count = 77;
  }
  SUBCASE("blocking") {
    nfsrdma_call call = call_with(nullptr, 1, 100);
    CHECK(nfsrdma_read_many(v.root(), items.data(), 4, sizeof items[0], &call, nullptr) == 0);
  }
  SUBCASE("started") {
    const nfsrdma_call call = call_with(v.queue, 1, 100);
    CHECK(nfsrdma_read_many(v.root(), items.data(), 4, sizeof items[0], &call, nullptr) == 0);
    nfsrdma_completion got{};
    CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 5000) == 1);
    CHECK(got.result == 0);  // -1 means that the arguments are wrong
    nfsrdma_error_free(got.error);
  }
  for (auto& one : items) {
    CHECK(one.count == -1);
    CHECK(one.error != nullptr);
    nfsrdma_error_free(one.error);
  }
  v.server.release();
}

TEST_CASE("adversary: started calls go on while the interrupt descriptor is readable") {
  Interrupt interrupt;
  CMounted v;
  v.server.add_file("/a", std::string(1U << 20, 'x'));
  v.connect("timeo=5s&rsize=16384", interrupt.fd());
  nfsrdma_file* const file = v.open("/a");
  interrupt.set();
  std::this_thread::sleep_for(100ms);  // the keeper has seen it
  std::string data(1U << 20, '?');
  const nfsrdma_call call = call_with(v.queue, 1);
  CHECK(nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr) == 0);
  CHECK(eventually([&] { return v.server.count(nfs4::OP_READ) >= 64; }, 3s));
  interrupt.clear();
  nfsrdma_completion got{};
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, 20'000) == 1);
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: Queue::reap() of C++ does not wait if the time that is left is negative") {
  Mounted m;
  m.server.add_file("/a", "text");
  m.connect("timeo=2s");
  const auto file = m.open("/a");
  auto queue = Queue::create(*m.client);
  REQUIRE(ok(queue));
  m.server.hold(nfs4::OP_READ);
  std::string data(4, '?');
  CHECK(ok(file->queue_read(**queue, 1, room(data), 0)));
  std::array<Completion, 1> got;
  const Stopwatch watch;
  CHECK((*queue)->reap(got, 1, -1ms) == 0);
  CHECK(watch.elapsed() < 1s);
  m.server.release();
}

TEST_CASE("adversary: the largest and the smallest timeouts") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  std::array<char, 4> data{};
  nfsrdma_completion got{};
  for (const std::int64_t timeout :
       {std::int64_t{1}, INT64_MAX, INT64_MAX / 1'000'000, INT64_MAX / 1000 - 1}) {
    nfsrdma_call call = call_with(v.queue, 1, timeout);
    CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == 0);
    CHECK(nfsrdma_reap(v.queue, &got, 1, SIZE_MAX, timeout == 1 ? -1 : timeout) == 1);
    nfsrdma_error_free(std::exchange(got.error, nullptr));
    call.queue = nullptr;
    call.timeout = std::max<std::int64_t>(timeout, 1000);
    CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == 4);
  }
  nfsrdma_call call = call_with(nullptr, 1, -1);
  CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == -1);
  CHECK(nfsrdma_reap(v.queue, &got, 1, 1, INT64_MIN) == 0);
  CHECK(nfsrdma_wait(v.client, 0, nullptr, 0) == 0);
  for (const std::int64_t wait : {INT64_MAX, INT64_MAX / 1'000'000, INT64_MIN}) {
    nfsrdma_lock lock{sizeof lock, 1, 1, 0, 0, NFSRDMA_TO_THE_END};
    CHECK(nfsrdma_lock_range(file, &lock, wait, nullptr, nullptr) == 0);
    CHECK(nfsrdma_unlock_range(file, &lock, nullptr, nullptr) == 0);
  }
  std::thread waits([&] { (void)nfsrdma_wait(v.client, INT64_MAX, nullptr, 0); });
  std::this_thread::sleep_for(20ms);
  auto found = room_for_attributes();
  const nfsrdma_call done = callback_call([](void*, const nfsrdma_completion*) {}, nullptr);
  CHECK(nfsrdma_stat(v.root(), "/a", 0, &found, &done, nullptr) == 0);
  waits.join();
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: a call that waited for a lock and was cancelled leaves no timer behind") {
  VirtualMounted m;
  m.server.add_file("/a", "text");
  m.connect("timeo=5s");
  auto file = m.open("/a");
  m.server.lock("/a", 0, 10);
  for (std::uint64_t i = 0; i < 3; ++i) {
    file->start_lock({1, true, {0, 10}}, [](const Status&) {}, 10h, {.tag = 7});
    m.pass(10ms);
    CHECK(m.client->cancel(7) == 1);
    m.pass(10ms);
  }
  file.reset();
  CHECK(ok(m.client->disconnect()));
  m.pass(30min);
  CHECK(m.place.loop().next_timer() == async::TimePoint::max());
}

TEST_CASE("adversary: nfsrdma_cancel counts no call that has ended, and takes no result away") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> cancelled = 0, counted = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([&] {
      std::array<char, 4> data{};
      while (!stop) {
        const nfsrdma_call call = call_with(nullptr, 1);
        CFailure failed;
        if (nfsrdma_pread(file, data.data(), 4, 0, &call, failed) == -1) ++cancelled;
      }
    });
  }
  const Stopwatch watch;
  while (watch.elapsed() < 300ms) counted += nfsrdma_cancel(v.client, 1);
  stop = true;
  for (auto& one : all) one.join();
  CHECK(counted == cancelled);
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: an open that is late while it truncates leaves no file open at the server") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  v.server.hold(nfs4::OP_SETATTR);
  nfsrdma_call call = call_with(nullptr, 1, 100);
  nfsrdma_file* file = nullptr;
  CHECK(nfsrdma_open(v.root(), "/a", NFSRDMA_READ | NFSRDMA_WRITE | NFSRDMA_TRUNCATE, 0, &file, &call,
                     nullptr) == -1);
  CHECK(file == nullptr);
  CHECK(v.server.count(nfs4::OP_SETATTR) == 1);
  v.server.release();
  CHECK(eventually([&] { return v.server.open_states() == 0; }, 2s));
}

TEST_CASE("adversary: a read_many that is late leaves no file open at the server") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.server.add_symlink("/link", "a");
  v.connect();
  v.server.hold(nfs4::OP_READ);
  std::array<char, 8> data{};
  nfsrdma_read_item item{};
  item.path = "/link";
  item.data = data.data();
  item.room = data.size();
  nfsrdma_call call = call_with(nullptr, 1, 200);
  CHECK(nfsrdma_read_many(v.root(), &item, 1, sizeof item, &call, nullptr) == 0);
  nfsrdma_error_free(item.error);
  CHECK(v.server.count(nfs4::OP_READ) >= 1);
  v.server.release();
  CHECK(eventually([&] { return v.server.open_states() == 0; }, 2s));
}

TEST_CASE("adversary: a size that is far too large is no reason to end the program") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect("timeo=5s&rsize=1024");
  nfsrdma_file* const file = v.open("/a");
  std::array<char, 4096> data{};
  nfsrdma_holes holes{};
  holes.struct_size = sizeof holes;
  // The server has four bytes, so no more are stored.
  (void)nfsrdma_pread_holes(file, data.data(), INT64_MAX, 0, &holes, nullptr, nullptr);
  nfsrdma_file_free(file);
}

// ---- descriptors ----

TEST_CASE("adversary: a poller learns of a retry that another thread's visit has scheduled") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  const int descriptor = nfsrdma_queue_descriptor(v.queue);
  nfsrdma_completion got{};
  std::array<char, 4> data{};
  std::int64_t worst = 0;
  for (int round = 0; round < 5; ++round) {
    v.server.answer(nfs4::OP_READ, nfs4::NFS4ERR_DELAY, 1);
    const nfsrdma_call call = call_with(v.queue, 1);
    CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == 0);
    const Stopwatch watch;
    for (int i = 0; i < 20; ++i) CHECK(nfsrdma_ping(v.client, nullptr, nullptr) >= 0);
    while (nfsrdma_reap(v.queue, &got, 1, 0, 0) == 0) {
      pollfd poll{descriptor, POLLIN, 0};
      REQUIRE(::poll(&poll, 1, 10'000) == 1);
    }
    worst = std::max<std::int64_t>(worst, watch.elapsed().count());
  }
  MESSAGE("longest until the retry was answered: ", worst, " ms");
  CHECK(worst < 600);
  nfsrdma_file_free(file);
}

TEST_CASE("adversary: a poller misses nothing while other threads run the loop, and does not spin") {
  CMounted v;
  v.server.add_file("/a", "text");
  v.connect();
  nfsrdma_file* const file = v.open("/a");
  const int descriptor = nfsrdma_queue_descriptor(v.queue);
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      std::array<char, 4> data{};
      while (!stop) CHECK(nfsrdma_pread(file, data.data(), 4, 0, nullptr, nullptr) == 4);
    });
  }
  std::array<char, 4> data{};
  unsigned polls = 0, slow = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const nfsrdma_call call = call_with(v.queue, i);
    CHECK(nfsrdma_pread(file, data.data(), 4, 0, &call, nullptr) == 0);
    nfsrdma_completion got{};
    const Stopwatch watch;
    while (nfsrdma_reap(v.queue, &got, 1, 0, 0) == 0) {
      pollfd poll{descriptor, POLLIN, 0};
      REQUIRE(::poll(&poll, 1, 10'000) == 1);
      ++polls;
    }
    if (watch.elapsed() > 200ms) ++slow;
    CHECK(got.tag == i);
  }
  stop = true;
  for (auto& one : others) one.join();
  CHECK(slow == 0);
  MESSAGE("polls for 300 calls: ", polls);
  // Another thread waits for an answer that does not come; nothing is due.
  v.server.hold(nfs4::OP_READ);
  std::thread waits([&] {
    std::array<char, 4> room{};
    (void)nfsrdma_pread(file, room.data(), 4, 0, nullptr, nullptr);
  });
  REQUIRE(eventually([&] { return v.server.held() == 1; }));
  // One that spins is never at rest. On a busy machine the other thread may take long to wait again after each visit.
  bool at_rest = false;
  for (int window = 0; window < 10 && !at_rest; ++window) {
    polls = 0;
    const Stopwatch watch;
    while (watch.elapsed() < 300ms) {
      pollfd poll{descriptor, POLLIN, 0};
      if (::poll(&poll, 1, 20) == 1) ++polls;
      nfsrdma_completion got{};
      CHECK(nfsrdma_reap(v.queue, &got, 1, 0, 0) == 0);
    }
    at_rest = polls < 50;
  }
  CHECK(at_rest);
  v.server.release();
  waits.join();
  nfsrdma_file_free(file);
}

// ---- everything at once ----

/// What eight threads do on one client, and how many completions they still expect.
struct Crowd {
  CMounted& v;
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> started = 0, delivered = 0, callbacks_started = 0, callbacks_run = 0;

  void blocking(unsigned seed) {
    std::mt19937 random(seed);
    nfsrdma_file* file = v.open("/a");
    std::array<char, 5000> data{};
    auto found = room_for_attributes();
    while (!stop) {
      nfsrdma_call call = call_with(nullptr, random() % 4, random() % 3 == 0 ? random() % 3 + 1 : 0);
      const nfsrdma_call* const how = random() % 2 == 0 ? &call : nullptr;
      switch (random() % 8) {
        case 0:
          nfsrdma_file_free(file);
          file = v.open("/a");
          break;
        case 1:
          (void)nfsrdma_pwrite(file, data.data(), data.size(), random() % 100'000, random() % 2, how,
                               nullptr);
          break;
        case 2:
          (void)nfsrdma_stat(v.root(), "/a", 0, &found, how, nullptr);
          break;
        case 3: {
          nfsrdma_listing* const listing = nfsrdma_listing_new(v.root(), "/", nullptr);
          (void)nfsrdma_listing_next(listing, how, nullptr);
          nfsrdma_listing_free(listing);
          break;
        }
        case 4: {
          nfsrdma_file* other = nullptr;
          CFailure failed;
          (void)nfsrdma_open(v.root(), "/b", NFSRDMA_READ, 0, &other, how, failed);
          nfsrdma_file_free(other);
          break;
        }
        default:
          (void)nfsrdma_pread(file, data.data(), random() % data.size(), 0, how, nullptr);
      }
    }
    nfsrdma_file_free(file);
  }

  void queued(unsigned seed) {
    std::mt19937 random(seed);
    nfsrdma_file* file = v.open("/a");
    nfsrdma_queue* queue = nfsrdma_queue_new(v.client, nullptr);
    std::array<std::array<char, 4096>, 32> data{};
    std::array<nfsrdma_completion, 32> got{};
    const auto reap = [&](std::size_t least, std::int64_t timeout) {
      const auto count = nfsrdma_reap(queue, got.data(), got.size(), least, timeout);
      for (const auto& one : std::span(got).first(static_cast<std::size_t>(count)))
        nfsrdma_error_free(one.error);
      delivered += count;
    };
    while (!stop) {
      for (auto& one : data) {
        nfsrdma_call call = call_with(queue, random() % 4, random() % 3 == 0 ? random() % 3 + 1 : 0);
        call.flags = random() % 2 == 0 ? 0U : static_cast<std::uint32_t>(NFSRDMA_MORE);
        const auto result = random() % 3 == 0
                                ? nfsrdma_pwrite(file, one.data(), one.size(), 0, 0, &call, nullptr)
                                : nfsrdma_pread(file, one.data(), one.size(), 0, &call, nullptr);
        if (result == 0) ++started;
      }
      if (random() % 4 == 0) nfsrdma_file_free(std::exchange(file, nullptr));
      if (random() % 2 == 0) {
        pollfd poll{nfsrdma_queue_descriptor(queue), POLLIN, 0};
        (void)::poll(&poll, 1, 1000);
        reap(0, 0);
      }
      if (random() % 8 == 0) {
        delivered += static_cast<std::int64_t>(nfsrdma_queue_pending(queue));
        nfsrdma_queue_free(queue);
        queue = nfsrdma_queue_new(v.client, nullptr);
      }
      while (nfsrdma_queue_pending(queue) != 0) reap(random() % 40, random() % 2 == 0 ? -1 : 1);
      if (file == nullptr) file = v.open("/a");
    }
    nfsrdma_file_free(file);
    nfsrdma_queue_free(queue);
  }

  struct Opening {
    Crowd& crowd;
    nfsrdma_file* file = nullptr;
    nfsrdma_attributes found = room_for_attributes();
  };
  static void opened(void* to, const nfsrdma_completion* completion) {
    auto* const me = static_cast<Opening*>(to);
    ++me->crowd.callbacks_run;
    if (completion->result == 0 && me->file != nullptr) {
      (void)nfsrdma_fstat(me->file, &me->found, nullptr, nullptr);  // blocks
      nfsrdma_file_free(me->file);
    }
    delete me;
  }
  void callbacks(unsigned seed) {
    std::mt19937 random(seed);
    while (!stop) {
      for (int i = 0; i < 4; ++i) {
        auto* const one = new Opening{*this};
        nfsrdma_call call = callback_call(&opened, one);
        call.tag = random() % 4;
        call.timeout = random() % 3 == 0 ? 1 : 0;
        const auto result = nfsrdma_open(v.root(), "/b", NFSRDMA_READ, 0, &one->file, &call, nullptr);
        CHECK(result == 0);
        ++callbacks_started;
      }
      for (int i = 0; i < 4; ++i) {
        if (random() % 2 == 0) {
          (void)nfsrdma_wait(v.client, random() % 3, nullptr, 0);
        } else {
          nfsrdma_service(v.client);
        }
      }
    }
  }
  void cancels(unsigned seed) {
    std::mt19937 random(seed);
    while (!stop) {
      (void)nfsrdma_cancel(v.client, random() % 4);
      if (random() % 4 == 0) nfsrdma_submit(v.client);
      if (random() % 4 == 0) nfsrdma_info_free(nfsrdma_info_get(v.client));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
  }
};

TEST_SUITE("threads") {
  TEST_CASE("adversary: eight threads do everything at once on one client") {
    CMounted v;
    v.server.add_file("/a", pattern(100'000));
    v.server.add_file("/b", "text");
    v.connect("timeo=20s");
    bool drops = false;
    SUBCASE("while all is well") {}
    SUBCASE("while connections are lost") {
      drops = true;
    }
    Crowd crowd{v};
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 2; ++i) all.emplace_back([&, i] { crowd.blocking(i + 1); });
    for (unsigned i = 0; i < 2; ++i) all.emplace_back([&, i] { crowd.queued(i + 10); });
    for (unsigned i = 0; i < 3; ++i) all.emplace_back([&, i] { crowd.callbacks(i + 20); });
    all.emplace_back([&] { crowd.cancels(30); });
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(100ms);
      if (drops && i % 2 == 0) v.server.drop_connections();
    }
    crowd.stop = true;
    for (auto& one : all) one.join();
    CHECK(crowd.started == crowd.delivered);
    const Stopwatch watch;
    while (crowd.callbacks_run < crowd.callbacks_started && watch.elapsed() < 10s)
      (void)nfsrdma_wait(v.client, 100, nullptr, 0);
    CHECK(crowd.callbacks_run == crowd.callbacks_started);
    MESSAGE("queued: ", crowd.started.load(), ", callbacks: ", crowd.callbacks_run.load());
    CHECK(eventually([&] { return v.server.open_states() == 0; }, 5s));
  }

  TEST_CASE("adversary: nfsrdma_disconnect while other threads call") {
    CMounted v;
    v.server.add_file("/a", pattern(100'000));
    v.server.add_file("/b", "text");
    v.connect("timeo=5s");
    std::atomic<bool> stop = false;
    std::vector<std::thread> all;
    for (unsigned i = 0; i < 4; ++i) {
      all.emplace_back([&, i] {
        nfsrdma_file* const file = v.open("/a");
        nfsrdma_queue* const queue = nfsrdma_queue_new(v.client, nullptr);
        std::array<char, 4096> data{};
        while (!stop) {
          const nfsrdma_call call = call_with(queue, i);
          (void)nfsrdma_pread(file, data.data(), data.size(), 0, &call, nullptr);
          (void)nfsrdma_pread(file, data.data(), data.size(), 0, nullptr, nullptr);
          nfsrdma_file* other = nullptr;
          if (nfsrdma_open(v.root(), "/b", NFSRDMA_READ, 0, &other, nullptr, nullptr) == 0)
            nfsrdma_file_free(other);
          nfsrdma_completion got{};
          CHECK(nfsrdma_reap(queue, &got, 1, 1, 10'000) == 1);
          nfsrdma_error_free(got.error);
        }
        nfsrdma_file_free(file);
        nfsrdma_queue_free(queue);
      });
    }
    std::this_thread::sleep_for(100ms);
    const Stopwatch watch;
    (void)nfsrdma_disconnect(v.client, nullptr);
    CHECK(watch.elapsed() < 4s);
    std::this_thread::sleep_for(50ms);
    stop = true;
    for (auto& one : all) one.join();
    CHECK(watch.elapsed() < 8s);
  }
}

}  // namespace
}  // namespace nfsrdma
