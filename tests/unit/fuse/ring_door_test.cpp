// The door of a mount's rings: who is let in, what he may attach, and how much each user may have. The programs are in
// this process, on a loop of its own.
#include "fuse/ring_door.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "support/mounted.h"

namespace nfsrdma {
namespace {

using namespace testing;

/// A program that comes to the door with what it was offered.
class Visitor {
 public:
  explicit Visitor(const ring_open& given) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::size_t length = ::strnlen(given.name, sizeof given.name);
    std::memcpy(address.sun_path + 1, given.name, length);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    REQUIRE(socket_ >= 0);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::send(socket_, given.token, sizeof given.token, MSG_NOSIGNAL) ==
            static_cast<ssize_t>(sizeof given.token));
  }
  ~Visitor() { ::close(socket_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;
  /// Whether it was let in; nothing: nobody has answered yet.
  [[nodiscard]] std::optional<bool> let_in() const {
    char byte = 0;
    const ssize_t got = ::recv(socket_, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    return got == 1;
  }

 private:
  const int socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
};

struct Doorway : MountedEngine {
  Doorway() {
    server.add_file("/f", "some text");
    mount();
    service.emplace(own_loop, *files, [] { return false; });
    door.emplace(own_loop, *service);
  }
  ~Doorway() {
    door.reset();
    own_loop.drop_tasks();
    service.reset();
  }
  Doorway(const Doorway&) = delete;
  Doorway& operator=(const Doorway&) = delete;

  int ask(uid_t user, ring_open& asked) { return door->open(user, asked); }
  int ask(uid_t user, std::uint64_t bytes) {
    ring_open asked{RING_VERSION, 4, bytes, {}, {}};
    return ask(user, asked);
  }
  ring_open offer(uid_t user) {
    ring_open asked{RING_VERSION, 4, RING_PAGE, {}, {}};
    CHECK(ask(user, asked) == 0);
    return asked;
  }
  bool lets_in(const Visitor& visitor) {
    std::optional<bool> in;
    const bool is_answered = eventually([&] {
      own_loop.turn(async::TimePoint::min());
      in = visitor.let_in();
      return in.has_value();
    });
    CHECK(is_answered);
    return in.value_or(false);
  }
  bool lets_in(const ring_open& given) { return lets_in(Visitor(given)); }
  int attach(ring_attach& asked, const ring_open& given, const fuse::RingService::Handle& file) {
    std::ranges::copy(given.token, asked.token);
    return door->attach(asked, file);
  }
  fuse::RingService::Handle open(int flags) { return get(files->open(who, lookup("f").inode, flags)).handle; }

  async::Loop own_loop;
  std::optional<fuse::RingService> service;
  std::optional<fuse::RingDoor> door;
};

}  // namespace

TEST_CASE("ring door: who has a token that was given to him comes in, once, and nobody else") {
  Doorway m;
  const uid_t me = ::geteuid();
  const ring_open mine = m.offer(me), theirs = m.offer(me + 1);
  ring_open wrong = mine;
  ++wrong.token[3];
  CHECK_FALSE(m.lets_in(wrong));
  CHECK_FALSE(m.lets_in(theirs));
  CHECK(m.service->empty());
  const Visitor visitor(mine);
  CHECK(m.lets_in(visitor));
  CHECK_FALSE(m.service->empty());
  CHECK_FALSE(m.lets_in(mine));
  // Somebody of whom nobody is expected is not even heard.
  CHECK_FALSE(m.lets_in(theirs));
}

TEST_CASE(
    "ring door: files are attached by the token of a ring that is there, with the rights that they have") {
  Doorway m;
  const ring_open mine = m.offer(::geteuid());
  const auto both = m.open(O_RDWR), reads = m.open(O_RDONLY), writes = m.open(O_WRONLY);
  ring_attach asked{};
  CHECK(m.attach(asked, mine, both) == ENOENT);  // it is only offered
  std::optional<Visitor> visitor(std::in_place, mine);
  REQUIRE(m.lets_in(*visitor));
  REQUIRE(m.attach(asked, mine, both) == 0);
  CHECK(asked.rights == std::uint32_t{RING_MAY_READ | RING_MAY_WRITE});
  const std::uint32_t number = asked.file;
  REQUIRE(m.attach(asked, mine, reads) == 0);
  CHECK(asked.rights == std::uint32_t{RING_MAY_READ});
  CHECK(asked.file != number);
  REQUIRE(m.attach(asked, mine, writes) == 0);
  CHECK(asked.rights == std::uint32_t{RING_MAY_WRITE});
  REQUIRE(m.attach(asked, mine, both) == 0);
  CHECK(asked.file == number);
  ring_open wrong = mine;
  ++wrong.token[15];
  CHECK(m.attach(asked, wrong, both) == ENOENT);
  both->closing = true;
  CHECK(m.attach(asked, mine, both) == EBADF);
  both->closing = false;
  // Whoever hangs up has ended his ring.
  visitor.reset();
  CHECK(eventually([&] {
    m.own_loop.turn(async::TimePoint::min());
    return m.service->empty();
  }));
  CHECK(m.attach(asked, mine, both) == ENOENT);
}

TEST_CASE("ring door: what is given is bounded, and each user has so much") {
  Doorway m;
  ring_open asked{RING_VERSION, 0, 1, {}, {}};
  REQUIRE(m.ask(1, asked) == 0);
  CHECK(asked.slots == 1);
  CHECK(asked.bytes == std::uint64_t{RING_PAGE});
  CHECK(std::strlen(asked.name) < sizeof asked.name);
  asked = {RING_VERSION, 1U << 20, 2 * RING_PAGE + 1, {}, {}};
  REQUIRE(m.ask(2, asked) == 0);
  CHECK(asked.slots == std::uint32_t{RING_MOST_SLOTS});
  CHECK(asked.bytes == std::uint64_t{2 * RING_PAGE});
  asked = {RING_VERSION, 1, ~std::uint64_t{0}, {}, {}};
  REQUIRE(m.ask(3, asked) == 0);
  CHECK(asked.bytes == fuse::RingDoor::kMostBytes);
  asked = {RING_VERSION + 1, 1, RING_PAGE, {}, {}};
  CHECK(m.ask(4, asked) == EPROTONOSUPPORT);
  for (int i = 0; i < 4; ++i) CHECK(m.ask(5, fuse::RingDoor::kMostBytes) == 0);
  CHECK(m.ask(5, RING_PAGE) == EDQUOT);
  for (std::size_t i = 0; i < fuse::RingDoor::kMostRingsOfUser; ++i) REQUIRE(m.ask(6, RING_PAGE) == 0);
  CHECK(m.ask(6, RING_PAGE) == EDQUOT);
  CHECK(m.ask(7, RING_PAGE) == 0);
  CHECK(m.service->counters().denied == 2);
  m.door->close();
  CHECK(m.ask(8, RING_PAGE) == ENOTCONN);
}

TEST_CASE(
    "F29 ring door: all users together have so many bytes, and those of a ring count while there is one") {
  Doorway m;
  const std::uint64_t most = fuse::RingDoor::kMostBytes;
  const uid_t me = ::geteuid();
  const ring_open mine = m.offer(me);
  std::optional<Visitor> visitor(std::in_place, mine);
  REQUIRE(m.lets_in(*visitor));
  CHECK(m.door->bytes().of(me) == std::uint64_t{RING_PAGE});
  for (std::uint64_t i = 0; i + 1 < fuse::RingDoor::kMostBytesOfAll / most; ++i)
    REQUIRE(m.ask(static_cast<uid_t>(me + 10 + i), most) == 0);
  CHECK(m.ask(me + 9, most) == EDQUOT);
  CHECK(m.ask(me + 9, most - RING_PAGE) == 0);
  visitor.reset();
  CHECK(eventually([&] {
    m.own_loop.turn(async::TimePoint::min());
    return m.door->bytes().all() == 0;
  }));
}

}  // namespace nfsrdma
