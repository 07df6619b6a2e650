// The queues of a connection over RDMA, and the memory that it exposes, on a device that only takes notes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fabric/verbs/exposures.h"
#include "fabric/verbs/receives.h"
#include "fabric/verbs/send_queue.h"
#include "support/virtual_world.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr std::size_t kPiece = 64;

std::byte* at_address(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): as a device does
}

/// Work requests, registrations and windows as it was given them.
struct NotingDevice : ibv_context {
  struct Given {
    std::uint64_t id = 0;
    ibv_wr_opcode opcode = IBV_WR_SEND;
    unsigned flags = 0;
    std::uint32_t handle = 0;  // bound, or invalidated
    std::vector<std::byte> octets;
  };
  struct Room {
    std::uint64_t id = 0;
    std::byte* memory = nullptr;
    std::size_t size = 0;
  };
  Library library;
  ibv_device hardware{};
  ibv_pd protection{};
  ibv_qp pair{};
  rdma_cm_id id{};
  std::vector<Given> sends;
  std::vector<Room> receives;
  std::map<const ibv_mr*, int> rights;  // of what is registered
  std::list<ibv_mr> regions;
  std::list<ibv_mw> windows;
  unsigned windows_given_back = 0;
  std::size_t registrations_left = SIZE_MAX;

  NotingDevice() : ibv_context{} {
    device = &hardware;
    protection.context = this;
    pair.context = this;
    id.qp = &pair;
    id.verbs = this;
    ops.post_send = [](ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** /*refused*/) {
      of(qp->context).take(first);
      return 0;
    };
    ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** /*refused*/) {
      for (const ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
        of(qp->context).receives.push_back({wr->wr_id, at_address(wr->sg_list->addr), wr->sg_list->length});
      }
      return 0;
    };
    ops.alloc_mw = [](ibv_pd* pd, ibv_mw_type /*type*/) {
      NotingDevice& self = of(pd->context);
      ibv_mw& one = self.windows.emplace_back();
      one.context = pd->context;
      one.rkey = static_cast<std::uint32_t>(self.windows.size()) << 8U;
      return &one;
    };
    ops.dealloc_mw = [](ibv_mw* window) {
      ++of(window->context).windows_given_back;
      return 0;
    };
    library.reg_mr = [](ibv_pd* pd, void* /*memory*/, std::size_t /*length*/, int access) -> ibv_mr* {
      NotingDevice& self = of(pd->context);
      if (self.registrations_left == 0) {
        errno = ENOMEM;
        return nullptr;
      }
      --self.registrations_left;
      ibv_mr& one = self.regions.emplace_back();
      one.context = pd->context;
      one.lkey = one.rkey = 0x50000U + static_cast<std::uint32_t>(self.regions.size());
      self.rights.emplace(&one, access);
      return &one;
    };
    library.dereg_mr = [](ibv_mr* one) {
      CHECK(of(one->context).rights.erase(one) == 1);
      return 0;
    };
  }

 private:
  static NotingDevice& of(ibv_context* context) { return *static_cast<NotingDevice*>(context); }
  void take(const ibv_send_wr* first) {
    for (const ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
      Given one;
      one.id = wr->wr_id;
      one.opcode = wr->opcode;
      one.flags = wr->send_flags;
      one.handle = wr->opcode == IBV_WR_BIND_MW ? wr->bind_mw.rkey : wr->invalidate_rkey;
      if (wr->num_sge != 0) {
        const std::byte* from = at_address(wr->sg_list->addr);
        one.octets.assign(from, from + wr->sg_list->length);
      }
      sends.push_back(std::move(one));
    }
  }
};

/// One connection's part of the device.
struct Bench {
  NotingDevice device;
  Endpoint endpoint{device.library};
  std::vector<std::uint64_t> done;  // cookies

  explicit Bench(const Depths& depth, bool windows = false) {
    endpoint.id = &device.id;
    endpoint.pd = &device.protection;
    endpoint.depth = depth;
    endpoint.traits = {"noting0", windows, windows};
    REQUIRE(endpoint.send_slab.make(device.library, &device.protection, kPiece, depth.send_slots, 0) == 0);
    REQUIRE(endpoint.receive_slab.make(device.library, &device.protection, kPiece, depth.receives,
                                       IBV_ACCESS_LOCAL_WRITE) == 0);
  }
  ~Bench() {  // these are the device's here
    endpoint.id = nullptr;
    endpoint.pd = nullptr;
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  SendQueue::Done noting() {
    return [this](const Work& work) { done.push_back(work.cookie); };
  }
  /// Beside the two slabs.
  [[nodiscard]] std::size_t registered() const { return device.rights.size() - 2; }
  [[nodiscard]] std::uint64_t last_id() const { return device.sends.back().id; }
};

/// Of octets that do not outlive the call.
bool post(SendQueue& queue, std::size_t size, int value, std::optional<std::uint32_t> invalidate = {},
          bool solicited = false) {
  const std::vector<std::byte> octets(size, static_cast<std::byte>(value));
  const ConstBytes pieces[] = {std::span(octets).first(size / 2), std::span(octets).subspan(size / 2)};
  return queue.post_send({.cookie = 0, .pieces = pieces, .invalidate = invalidate, .solicited = solicited});
}
std::vector<std::byte> octets_of(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

Work work_of(Work::Kind kind, std::uint64_t cookie, ibv_mr* registration = nullptr) {
  Work out;
  out.kind = kind;
  out.cookie = cookie;
  out.registration = registration;
  return out;
}

}  // namespace

// ---- Sends ----

TEST_CASE("verbs queues: Sends leave whole and in their order, also more of them than the slab holds") {
  Bench m(Depths{.receives = 1, .send_slots = 2, .sends = 8});
  SendQueue queue(m.endpoint, m.noting());
  for (int i = 1; i <= 5; ++i) CHECK(post(queue, static_cast<std::size_t>(10 + i), i));
  for (const std::size_t given : {2U, 4U, 5U}) {
    CHECK(queue.flush() == 0);
    CHECK(queue.flush() == 0);  // no room is made by asking
    CHECK(m.device.sends.size() == given);
    CHECK(queue.awaits() == (given < 5));
    queue.retire(m.last_id());
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(m.device.sends[i].octets == octets_of(11 + i, static_cast<int>(i + 1)));
    CHECK(m.device.sends[i].opcode == IBV_WR_SEND);
  }
  CHECK(m.done.empty());
}

TEST_CASE("verbs queues: a Send that waits for room is not locked out by one that came later") {
  Bench m(Depths{.receives = 1, .send_slots = 1, .sends = 8});
  SendQueue queue(m.endpoint, m.noting());
  CHECK(post(queue, 10, 1));
  CHECK(queue.flush() == 0);
  CHECK(post(queue, 11, 2));
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 1);
  queue.retire(m.last_id());
  CHECK(post(queue, 12, 3));  // there is room now, which is the other's
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 2);
  CHECK(m.device.sends[1].octets == octets_of(11, 2));
  queue.retire(m.last_id());
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 3);
  CHECK(m.device.sends[2].octets == octets_of(12, 3));
  queue.retire(m.last_id());
  CHECK_FALSE(queue.awaits());
}

TEST_CASE("verbs queues: the device is never given more than its queue holds") {
  Bench m(Depths{.receives = 1, .send_slots = 8, .sends = 3});
  SendQueue queue(m.endpoint, m.noting());
  for (int i = 0; i < 7; ++i) CHECK(post(queue, 5, i));
  CHECK(queue.flush() == 0);
  CHECK(m.device.sends.size() == 3);
  queue.retire(m.device.sends[0].id);
  CHECK(queue.flush() == 0);
  CHECK(m.device.sends.size() == 4);
  queue.retire(m.device.sends[3].id);  // stands for all before it
  CHECK(queue.flush() == 0);
  CHECK(m.device.sends.size() == 7);
}

TEST_CASE("verbs queues: one in so many Sends is signalled, and all that somebody waits for") {
  Bench m(Depths{.receives = 1, .send_slots = 16, .sends = 64});
  SendQueue queue(m.endpoint, m.noting());
  for (int i = 0; i < 10; ++i) CHECK(post(queue, 5, i));
  queue.post(work_of(Work::Kind::invalidate, 1));
  queue.post(work_of(Work::Kind::write, 2));
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 12);
  unsigned run = 0;
  for (const auto& one : m.device.sends) {
    run = (one.flags & IBV_SEND_SIGNALED) != 0 ? 0 : run + 1;
    CHECK(run <= 4);  // a quarter of the slab
  }
  CHECK((m.device.sends[10].flags & IBV_SEND_SIGNALED) != 0);
  CHECK((m.device.sends[11].flags & IBV_SEND_SIGNALED) != 0);
}

TEST_CASE("verbs queues: what is larger than was agreed on is not sent, and how each Send leaves") {
  Bench m(Depths{.receives = 1, .send_slots = 8, .sends = 8});
  m.endpoint.inline_limit = 16;
  SendQueue queue(m.endpoint, m.noting());
  CHECK_FALSE(post(queue, kPiece + 1, 1));
  CHECK(post(queue, kPiece, 2));
  CHECK(post(queue, 16, 3, {}, true));
  CHECK(post(queue, 17, 4));
  CHECK(post(queue, 16, 5, 0xabcdU));
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 4);
  const auto has = [&](std::size_t i, unsigned flag) { return (m.device.sends[i].flags & flag) != 0; };
  CHECK(m.device.sends[0].octets == octets_of(kPiece, 2));
  CHECK_FALSE(has(0, IBV_SEND_INLINE));
  CHECK(has(1, IBV_SEND_INLINE));
  CHECK(has(1, IBV_SEND_SOLICITED));
  CHECK_FALSE(has(2, IBV_SEND_INLINE));
  CHECK_FALSE(has(2, IBV_SEND_SOLICITED));
  CHECK(m.device.sends[3].opcode == IBV_WR_SEND_WITH_INV);
  CHECK(m.device.sends[3].handle == 0xabcdU);
  CHECK_FALSE(has(3, IBV_SEND_INLINE));  // siw refuses that
}

TEST_CASE("verbs queues: a completion stands for what was posted before, and each is told of once") {
  Bench m(Depths{.receives = 1, .send_slots = 4, .sends = 8});
  SendQueue queue(m.endpoint, m.noting());
  CHECK_FALSE(queue.awaits());
  queue.post(work_of(Work::Kind::write, 1));
  CHECK(post(queue, 5, 1));
  queue.post(work_of(Work::Kind::invalidate, 2));
  queue.post(work_of(Work::Kind::read, 3));
  CHECK(queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 4);
  CHECK(queue.awaits());
  queue.retire(m.device.sends[2].id);
  CHECK(m.done == std::vector<std::uint64_t>{1, 2});
  CHECK(queue.awaits());
  queue.retire(m.device.sends[2].id);
  queue.retire(m.device.sends[3].id);
  CHECK(m.done == std::vector<std::uint64_t>{1, 2, 3});
  CHECK_FALSE(queue.awaits());
}

TEST_CASE("verbs queues: at the end it hands out what is registered for work that was not done") {
  Bench m(Depths{.receives = 1, .send_slots = 4, .sends = 2});
  SendQueue queue(m.endpoint, m.noting());
  ibv_mr first{}, second{}, below_a_window{};
  ibv_mw window{};
  Work bind = work_of(Work::Kind::bind, 0, &below_a_window);
  bind.window = &window;
  queue.post(work_of(Work::Kind::write, 1, &first));
  queue.post(std::move(bind));
  queue.post(work_of(Work::Kind::read, 2, &second));
  CHECK(queue.flush() == 0);
  CHECK(m.device.sends.size() == 2);
  CHECK(queue.clear() == std::vector<ibv_mr*>{&first, &second});
  CHECK(queue.clear().empty());
  CHECK_FALSE(queue.awaits());
}

// ---- Receives ----

TEST_CASE("verbs queues: messages come in the buffers' order, and a buffer is offered as large as it is") {
  Bench m(Depths{.receives = 2, .send_slots = 1, .sends = 1});
  Receives receives(m.endpoint);
  for (const std::size_t capacity : {30U, 100U, 50U}) receives.add(ReceiveBuffer(capacity));
  CHECK(receives.flush() == 0);
  CHECK(receives.flush() == 0);
  REQUIRE(m.device.receives.size() == 2);  // no more than the device holds
  CHECK(m.device.receives[0].size == 30);
  CHECK(m.device.receives[1].size == kPiece);
  const auto come = [&](std::size_t which, std::size_t size, int value) {
    const auto& room = m.device.receives[which];
    std::ranges::fill(std::span(room.memory, size), static_cast<std::byte>(value));
    ibv_wc completion{};
    completion.wr_id = room.id;
    completion.byte_len = static_cast<std::uint32_t>(size);
    return receives.take(completion);
  };
  ReceiveBuffer one = come(0, 20, 1);
  CHECK(one.storage().size() == 30);
  CHECK(std::ranges::equal(one.message(), octets_of(20, 1)));
  CHECK(receives.flush() == 0);
  REQUIRE(m.device.receives.size() == 3);
  CHECK(m.device.receives[2].size == 50);
  CHECK(m.device.receives[2].memory == m.device.receives[0].memory);  // its piece is free again
  ReceiveBuffer two = come(1, kPiece, 2);
  CHECK(two.storage().size() == 100);
  CHECK(std::ranges::equal(two.message(), octets_of(kPiece, 2)));
  ReceiveBuffer three = come(2, 0, 3);
  CHECK(three.storage().size() == 50);
  CHECK(three.message().empty());
  CHECK(receives.flush() == 0);
  CHECK(m.device.receives.size() == 3);
}

// ---- Exposed memory ----

namespace {

/// With the parts that belong together.
struct Shown : Bench {
  testing::VirtualWorld world;
  async::Loop loop{world};
  std::optional<Exposures> exposures;
  SendQueue queue;
  std::vector<RemoteSegment> to;
  std::vector<std::byte> memory = std::vector<std::byte>(10'000);

  explicit Shown(std::uint32_t windows)
      : Bench(Depths{.receives = 1, .send_slots = 4, .sends = 32, .windows = windows, .segment = 4096},
              windows != 0),
        queue(endpoint, [this](const Work& work) {
          if (const auto cookie = exposures->invalidated(work)) done.push_back(*cookie);
        }) {
    exposures.emplace(loop, endpoint, queue);
  }
  ~Shown() { exposures.reset(); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  /// The rights of what was registered last.
  [[nodiscard]] unsigned last_rights() const {
    const auto found = device.rights.find(&device.regions.back());
    REQUIRE(found != device.rights.end());
    return static_cast<unsigned>(found->second);
  }
};

}  // namespace

TEST_CASE("T26 verbs queues: without windows memory is registered with one right, and for one call") {
  Shown m(0);
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
  REQUIRE(m.to.size() == 3);
  CHECK(m.registered() == 3);
  CHECK(m.last_rights() == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  CHECK(m.to[0].offset == reinterpret_cast<std::uintptr_t>(m.memory.data()));
  CHECK(m.to[2].offset == m.to[0].offset + 8192);
  CHECK(m.to[2].length == 10'000 - 8192);
  CHECK(m.exposures->knows(m.to[1].handle));
  std::vector<RemoteSegment> readable;
  REQUIRE(m.exposures->expose(std::span(m.memory).first(5), Reach::remote_read, readable));
  CHECK(m.last_rights() == IBV_ACCESS_REMOTE_READ);
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::done);
  CHECK(m.registered() == 1);
  CHECK_FALSE(m.exposures->knows(m.to[1].handle));
  CHECK(m.exposures->knows(readable.front().handle));
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::done);  // gone already
  CHECK(m.exposures->revoke(readable, 8, false) == Exposures::Revoked::done);
  CHECK(m.registered() == 0);
  CHECK(m.queue.flush() == 0);
  CHECK(m.device.sends.empty());
}

TEST_CASE("verbs queues: memory that cannot be exposed as a whole is not exposed at all") {
  for (const std::uint32_t windows : {0U, 8U}) {
    CAPTURE(windows);
    Shown m(windows);
    m.to.resize(2);
    m.device.registrations_left = 2;
    const Status done = m.exposures->expose(m.memory, Reach::remote_read, m.to);
    REQUIRE_FALSE(done);
    CHECK(done.error().kind() == ErrorKind::local);
    CHECK(done.error().errno_value() == ENOMEM);
    CHECK(m.to.size() == 2);
    CHECK(m.registered() == 0);
    CHECK(m.queue.flush() == 0);
    CHECK(m.device.sends.empty());
    m.device.registrations_left = 3;
    CHECK(m.exposures->expose(m.memory, Reach::remote_read, m.to));
    CHECK(m.to.size() == 5);
  }
}

TEST_CASE("T26 verbs queues: with windows memory is out of reach when all of its Invalidates are done") {
  Shown m(8);
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
  CHECK(m.last_rights() == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));  // none for the peer
  CHECK(m.queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(m.device.sends[i].opcode == IBV_WR_BIND_MW);
    CHECK(m.device.sends[i].handle == m.to[i].handle);
  }
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::later);
  CHECK(m.exposures->invalidations() == 3);
  CHECK(m.queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 6);
  CHECK(m.device.sends[5].opcode == IBV_WR_LOCAL_INV);
  CHECK(m.device.sends[5].handle == m.to[2].handle);
  m.queue.retire(m.device.sends[4].id);
  CHECK(m.done.empty());
  CHECK(m.exposures->invalidations() == 1);
  CHECK(m.registered() == 1);
  m.queue.retire(m.device.sends[5].id);
  CHECK(m.done == std::vector<std::uint64_t>{7});
  CHECK(m.exposures->invalidations() == 0);
  CHECK(m.registered() == 0);
  // Its windows serve again, each under another handle than before.
  const std::vector<RemoteSegment> before = std::exchange(m.to, {});
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_read, m.to));
  CHECK(m.last_rights() == IBV_ACCESS_MW_BIND);
  CHECK(m.device.windows.size() == 3);
  for (const RemoteSegment& now : m.to) {
    for (const RemoteSegment& then : before) CHECK(now.handle != then.handle);
  }
}

TEST_CASE("verbs queues: a window that the device has not heard of is not invalidated but not bound") {
  Shown m(8);
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::done);
  CHECK(m.registered() == 0);
  CHECK(m.queue.flush() == 0);
  CHECK(m.device.sends.empty());
  CHECK(m.device.windows_given_back == 0);
}

TEST_CASE(
    "T28 verbs queues: at once means by giving the windows back, and where an Invalidate is unsafe, too") {
  for (const bool unsafe : {false, true}) {
    CAPTURE(unsafe);
    Shown m(3);
    m.endpoint.invalidate_is_unsafe = unsafe;
    REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
    CHECK(m.queue.flush() == 0);
    CHECK(m.exposures->revoke(m.to, 7, !unsafe) == Exposures::Revoked::done);
    CHECK(m.registered() == 0);
    CHECK(m.device.windows_given_back == 3);
    CHECK(m.exposures->invalidations() == 0);
    CHECK(m.queue.flush() == 0);
    CHECK(m.device.sends.size() == 3);  // the binds
    m.to.clear();
    CHECK(m.exposures->expose(m.memory, Reach::remote_write, m.to));  // there may be as many again
  }
}

TEST_CASE("P6 verbs queues: what the peer has invalidated is not invalidated again, the others are") {
  Shown m(8);
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
  CHECK(m.queue.flush() == 0);
  m.exposures->invalidated_remotely(m.to[2].handle);
  m.exposures->invalidated_remotely(0x77777777U);  // nobody's
  CHECK(m.registered() == 2);
  CHECK_FALSE(m.exposures->knows(m.to[2].handle));
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::later);
  CHECK(m.queue.flush() == 0);
  REQUIRE(m.device.sends.size() == 5);
  m.queue.retire(m.last_id());
  CHECK(m.done == std::vector<std::uint64_t>{7});
  CHECK(m.registered() == 0);
}

TEST_CASE("verbs queues: where windows are used up memory is not exposed, and what was stays") {
  Shown m(3);
  REQUIRE(m.exposures->expose(m.memory, Reach::remote_write, m.to));
  std::vector<RemoteSegment> more;
  const Status done = m.exposures->expose(std::span(m.memory).first(10), Reach::remote_write, more);
  REQUIRE_FALSE(done);
  CHECK(done.error().errno_value() == ENOMEM);
  CHECK(more.empty());
  CHECK(m.registered() == 3);
  CHECK(m.exposures->revoke(m.to, 7, false) == Exposures::Revoked::done);
  CHECK(m.exposures->expose(std::span(m.memory).first(10), Reach::remote_write, more));
}

TEST_CASE(
    "verbs queues: memory for a Read of ours may be written, by the peer too on iWARP; for a Write not") {
  Shown m(0);
  for (const bool is_iwarp : {false, true}) {
    CAPTURE(is_iwarp);
    m.device.hardware.transport_type = is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    ibv_mr* const sink = m.exposures->register_local(m.memory, Work::Kind::read);
    REQUIRE(sink != nullptr);
    unsigned expected = IBV_ACCESS_LOCAL_WRITE;
    if (is_iwarp) expected |= IBV_ACCESS_REMOTE_WRITE;
    CHECK(m.last_rights() == expected);
    ibv_mr* const source = m.exposures->register_local(m.memory, Work::Kind::write);
    REQUIRE(source != nullptr);
    CHECK(m.last_rights() == 0);
    for (ibv_mr* one : {sink, source}) CHECK(m.device.library.dereg_mr(one) == 0);
  }
}

}  // namespace nfsrdma::fabric::verbs
