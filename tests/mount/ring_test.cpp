// Rings on a real mount: a program's side, the daemon, and the kernel beside both (nfsrdma/ring.h).
//
// row: F1 F2 F13 F17 S18
#include "nfsrdma/ring.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>

#include "mount/mounting.h"
#include "ring/layout.h"
#include "support/skipped.h"

namespace nfsrdma {
namespace {

using namespace testing;

/// A ring with one file attached, in this process.
struct Ringed {
  explicit Ringed(int descriptor, unsigned depth = 32) : fd(descriptor) {
    const nfsrdma_ring_options options{depth, std::size_t{depth} * kPart};
    code = nfsrdma_ring_open(fd, &options, &ring);
    if (code == 0) code = nfsrdma_ring_attach(ring, fd, &file);
    if (ring != nullptr) memory = static_cast<char*>(nfsrdma_ring_memory(ring, nullptr));
  }
  ~Ringed() {
    if (ring != nullptr) nfsrdma_ring_close(ring);
  }
  Ringed(const Ringed&) = delete;
  Ringed& operator=(const Ringed&) = delete;

  [[nodiscard]] nfsrdma_ring_request request(nfsrdma_ring_operation operation, std::size_t part,
                                             std::size_t length, std::uint64_t offset) const {
    return {operation, &file, memory + part * kPart, length, offset, 0, part};
  }
  std::string read(std::uint64_t offset, std::size_t length) {
    const auto wanted = request(NFSRDMA_RING_READ, 0, length, offset);
    const ssize_t got = nfsrdma_ring_run(ring, &wanted, nullptr);
    return got < 0 ? "error " + std::to_string(got) : std::string(memory, static_cast<std::size_t>(got));
  }
  ssize_t write(std::uint64_t offset, const std::string& text, std::uint64_t* where = nullptr) {
    std::memcpy(memory, text.data(), text.size());
    const auto wanted = request(NFSRDMA_RING_WRITE, 0, text.size(), offset);
    return nfsrdma_ring_run(ring, &wanted, where);
  }
  /// Queued, one to each part.
  void read_many(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const auto wanted = request(NFSRDMA_RING_READ, i, 4, i);
      CHECK(nfsrdma_ring_queue(ring, &wanted) == 0);
    }
    nfsrdma_ring_submit(ring);
  }

  static constexpr std::size_t kPart = 64U << 10;
  const int fd;
  nfsrdma_ring* ring = nullptr;
  nfsrdma_ring_file file{};
  char* memory = nullptr;
  int code = 0;
};

std::string kernel_read(int fd, std::size_t length = 1000) {
  std::string out(length, '\0');
  const ssize_t got = ::pread(fd, out.data(), out.size(), 0);
  out.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return out;
}
off_t size_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? status.st_size : -1;
}
std::string statistics_of(const Mounting& m) {
  return content_of(m.path(".nfsrdma-stats"));
}
bool has_rings(const Mounting& m, unsigned count) {
  return statistics_of(m).find("ring state rings=" + std::to_string(count) + " ") != std::string::npos;
}

}  // namespace

TEST_CASE("F13 ring: the kernel and the ring see each other's data, sizes and cuts") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  CHECK(r.read(0, 100) == "some text");
  CHECK(kernel_read(fd) == "some text");
  CHECK(r.write(5, "TEXT") == 4);
  CHECK(kernel_read(fd) == "some TEXT");
  CHECK(::pwrite(fd, "SOME", 4, 0) == 4);
  CHECK(r.read(0, 100) == "SOME TEXT");
  CHECK(size_of(fd) == 9);
  CHECK(r.write(9, " and more") == 9);
  CHECK(size_of(fd) == 18);
  CHECK(::lseek(fd, 0, SEEK_END) == 18);
  CHECK(kernel_read(fd) == "SOME TEXT and more");
  REQUIRE(::ftruncate(fd, 4) == 0);
  CHECK(r.read(0, 100) == "SOME");
  CHECK(kernel_read(fd) == "SOME");
  CHECK(r.write(8, "end") == 3);
  CHECK(r.read(0, 100) == std::string("SOME\0\0\0\0end", 11));
  CHECK(::close(fd) == 0);
  CHECK(m.server.stable_content("/f") == std::string("SOME\0\0\0\0end", 11));
}

TEST_CASE("F13 ring: what is stored in a mapping is read, and a mapping shows what was written") {
  Mounting m;
  m.server.add_file("/f", std::string(20000, ' '));
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  void* const mapped = ::mmap(nullptr, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  char* const text = static_cast<char*>(mapped);
  for (int i = 0; i < 20; ++i) {
    const std::string stored = "stored " + std::to_string(i), written = "written " + std::to_string(i);
    std::memcpy(text + 9000, stored.data(), stored.size());
    CHECK(r.read(9000, stored.size()) == stored);
    CHECK(r.write(9000, written) == static_cast<ssize_t>(written.size()));
    CHECK(std::string(text + 9000, written.size()) == written);
    // Stored beside it, in the same page.
    std::memcpy(text + 9100, stored.data(), stored.size());
    CHECK(r.write(9200, written) == static_cast<ssize_t>(written.size()));
    CHECK(r.read(9100, stored.size()) == stored);
  }
  ::munmap(mapped, 20000);
  ::close(fd);
}

TEST_CASE("F13 ring: a mapping reaches as far as the file that a ring has made longer") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  void* const mapped = ::mmap(nullptr, 1U << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  // In a child: beyond the end is SIGBUS.
  Child child([&] {
    Ringed own(fd);
    const auto at = [&](std::size_t offset) { return static_cast<volatile char*>(mapped)[offset]; };
    if (own.write(50'000, "x") != 1 || at(50'000) != 'x' || at(20'000) != 0) return 1;
    if (own.write(65'536, "y") != 1 || at(65'536) != 'y') return 2;  // the first byte of a page
    if (own.write(65'537, "z") != 1 || at(65'537) != 'z' || at(65'536) != 'y') return 3;
    if (::ftruncate(fd, 10) != 0 || own.write(30'000, "w") != 1 || at(30'000) != 'w') return 4;
    return at(20'000) == 0 ? 0 : 5;
  });
  CHECK(child.ended(5s) == 0);
  ::munmap(mapped, 1U << 20);
  ::close(fd);
}

TEST_CASE(
    "F13 ring: with a write-back cache what the kernel has gathered is read, and files to write are "
    "refused") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount("writeback_cache");
  const int writing = m.open("f");
  const int reading = ::open(m.path("f").c_str(), O_RDONLY);
  Ringed r(reading);
  REQUIRE(r.code == 0);
  for (int i = 0; i < 5; ++i) {
    const std::string text = "text " + std::to_string(i);
    CHECK(::pwrite(writing, text.data(), text.size(), 100) == static_cast<ssize_t>(text.size()));
    CHECK(r.read(100, 100) == text);
  }
  nfsrdma_ring_file file{};
  CHECK(nfsrdma_ring_attach(r.ring, writing, &file) == -EOPNOTSUPP);
  ::close(writing);
  ::close(reading);
}

TEST_CASE("F1 ring: O_APPEND of the descriptor counts, from two rings and the kernel in turns") {
  Mounting m;
  m.server.add_file("/f", "");
  m.mount();
  const int one = ::open(m.path("f").c_str(), O_WRONLY | O_APPEND);
  const int two = ::open(m.path("f").c_str(), O_WRONLY | O_APPEND);
  Ringed first(one), second(two);
  REQUIRE(first.code == 0);
  REQUIRE(second.code == 0);
  std::string all;
  for (int i = 0; i < 30; ++i) {
    const std::string text = std::to_string(i) + " ";
    std::uint64_t where = 0;
    if (i % 3 == 2) {
      CHECK(::write(one, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    } else {
      CHECK((i % 3 == 0 ? first : second).write(7, text, &where) == static_cast<ssize_t>(text.size()));
      CHECK(where == all.size());
    }
    all += text;
  }
  CHECK(size_of(one) == static_cast<off_t>(all.size()));
  ::close(one);
  ::close(two);
  CHECK(m.server.stable_content("/f") == all);
}

TEST_CASE("ring: many in flight, more than there is room for, around and around") {
  Mounting m;
  const std::string data = pattern(1U << 20);
  m.server.add_file("/f", data);
  m.mount();
  const int fd = ::open(m.path("f").c_str(), O_RDONLY);
  Ringed r(fd, 16);
  REQUIRE(r.code == 0);
  std::mt19937_64 random(1);
  std::array<std::uint64_t, 16> offsets{};
  std::array<std::size_t, 16> lengths{};
  std::vector<std::size_t> parts(16);
  std::iota(parts.begin(), parts.end(), 0);
  unsigned right = 0;
  for (unsigned ended = 0; ended < 5000;) {
    while (!parts.empty()) {
      const std::size_t part = parts.back();
      parts.pop_back();
      offsets[part] = random() % data.size();
      lengths[part] = random() % 20000;
      const auto wanted = r.request(NFSRDMA_RING_READ, part, lengths[part], offsets[part]);
      REQUIRE(nfsrdma_ring_queue(r.ring, &wanted) == 0);
    }
    const auto more = r.request(NFSRDMA_RING_NOTHING, 0, 0, 0);
    CHECK(nfsrdma_ring_queue(r.ring, &more) == -EAGAIN);
    nfsrdma_ring_submit(r.ring);
    std::array<nfsrdma_ring_completion, 5> done{};
    const int count = nfsrdma_ring_completions(r.ring, done.data(), 5, 1, -1);
    REQUIRE(count > 0);
    for (int i = 0; i < count; ++i, ++ended) {
      const auto& one = done.at(static_cast<std::size_t>(i));
      const auto part = static_cast<std::size_t>(one.tag);
      const std::string expected = data.substr(offsets.at(part), lengths.at(part));
      REQUIRE(one.result == static_cast<ssize_t>(expected.size()));
      right += std::memcmp(r.memory + part * Ringed::kPart, expected.data(), expected.size()) == 0 ? 1 : 0;
      parts.push_back(part);
    }
    if (ended >= 5000) CHECK(right == ended);
  }
  auto beyond = r.request(NFSRDMA_RING_READ, 16, 1, 0);
  CHECK(nfsrdma_ring_queue(r.ring, &beyond) == -EFAULT);
  ::close(fd);
}

TEST_CASE("ring: a program waits so long and no longer, or in poll(2) beside other things") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  nfsrdma_ring_completion done{};
  CHECK(nfsrdma_ring_completions(r.ring, &done, 1, 1, 0) == 0);
  CHECK(nfsrdma_ring_completions(r.ring, &done, 1, 1, 20) == 0);
  const auto is_told = [&](int timeout) {
    pollfd socket{nfsrdma_ring_descriptor(r.ring), POLLIN, 0};
    return ::poll(&socket, 1, timeout) == 1;
  };
  for (int i = 0; i < 3; ++i) {
    m.server.hold(nfs4::OP_READ);
    r.read_many(1);
    CHECK(nfsrdma_ring_completions(r.ring, &done, 1, 1, 20) == 0);
    CHECK(nfsrdma_ring_arm(r.ring) == 0);
    CHECK_FALSE(is_told(20));
    m.server.release();
    CHECK(is_told(5000));
    CHECK(nfsrdma_ring_arm(r.ring) == 1);
    CHECK(nfsrdma_ring_completions(r.ring, &done, 1, 1, 0) == 1);
    CHECK(done.result == 4);
  }
  // A signal ends the wait.
  m.server.hold(nfs4::OP_READ);
  Child child([&] {
    Ringed own(fd);
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    own.read_many(1);
    return nfsrdma_ring_completions(own.ring, &done, 1, 1, -1) == -EINTR ? 0 : 1;
  });
  REQUIRE(eventually([&] { return m.server.held() == 1; }));
  ::usleep(50'000);
  child.signal(SIGUSR1);
  CHECK(child.ended(3s) == 0);
  m.server.release();
  ::close(fd);
}

TEST_CASE("ring: only the owner of the token comes in, and only who has the file can attach it") {
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount("allow_other");
  const int fd = m.open("f");
  ring_open offer{RING_VERSION, 4, 4096, {}, {}};
  REQUIRE(::ioctl(fd, RING_OPEN, &offer) == 0);
  const auto come_in = [&](uid_t user, bool right_token) {
    Child child([&, user] {
      if (user != 0 && ::setuid(user) != 0) return 9;
      const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
      if (socket < 0) return 9;
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, offer.name, std::strlen(offer.name));
      const auto size = offsetof(sockaddr_un, sun_path) + 1 + std::strlen(offer.name);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)) != 0) {
        return 8;
      }
      auto token = std::to_array(offer.token);
      if (!right_token) ++token[3];
      if (::send(socket, token.data(), token.size(), MSG_NOSIGNAL) != RING_TOKEN_SIZE) return 7;
      char byte = 0;
      return ::recv(socket, &byte, 1, 0) == 1 ? 0 : 1;
    });
    const auto status = child.ended(5s);
    return status ? WEXITSTATUS(*status) : -1;
  };
  const auto sent_away = [](int status) { return status == 1 || status == 7; };
  CHECK(sent_away(come_in(65534, true)));
  CHECK(sent_away(come_in(0, false)));
  CHECK(come_in(0, true) == 0);
  CHECK(sent_away(come_in(0, true)));  // it is good once
  ring_attach asked{};
  CHECK(::ioctl(fd, RING_ATTACH, &asked) == -1);
  CHECK(errno == ENOENT);
  const int directory = ::open(m.place.c_str(), O_RDONLY | O_DIRECTORY);
  CHECK(::ioctl(directory, RING_OPEN, &offer) == -1);
  CHECK(errno == ENOTTY);
  ::close(directory);
  ::close(fd);
}

TEST_CASE("ring: noring, and files of other file systems, have none; a user has so many") {
  {
    Mounting m;
    m.server.add_file("/f", "text");
    m.mount("noring");
    const int fd = m.open("f");
    CHECK(Ringed(fd).code == -ENOTTY);
    ::close(fd);
  }
  Mounting m;
  m.server.add_file("/f", "text");
  m.mount();
  const int fd = m.open("f");
  const int elsewhere = ::memfd_create("elsewhere", 0);
  CHECK(Ringed(elsewhere).code == -ENOTTY);
  ::close(elsewhere);
  std::vector<std::unique_ptr<Ringed>> rings;
  for (int i = 0; i < 64; ++i) {
    rings.push_back(std::make_unique<Ringed>(fd, 1));
    REQUIRE(rings.back()->code == 0);
  }
  CHECK(Ringed(fd, 1).code == -EDQUOT);
  CHECK(rings.back()->read(0, 4) == "text");
  rings.clear();
  CHECK(eventually([&] { return Ringed(fd, 1).code == 0; }));
  CHECK(eventually([&] { return has_rings(m, 0); }));
  ::close(fd);
}

TEST_CASE("ring: a program that is killed with requests in flight leaves nothing behind") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  m.server.hold(nfs4::OP_READ);
  Child child([&] {
    const int own = m.open("f");
    Ringed ring(own);
    if (ring.code != 0) return 1;
    ring.read_many(32);
    ::pause();
    return 0;
  });
  REQUIRE(eventually([&] { return m.server.held() == 32; }));
  child.signal(SIGKILL);
  CHECK(child.ended(3s));
  CHECK(eventually([&] { return has_rings(m, 1); }));
  m.server.release();
  CHECK(r.read(0, 4) == "some");
  CHECK(eventually([&] { return m.server.open_states() == 1; }));
  ::close(fd);
}

TEST_CASE("ring: a file is closed on the server behind what is in flight on it") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount();
  const int fd = m.open("f"), other = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  nfsrdma_ring_file kept{};
  REQUIRE(nfsrdma_ring_attach(r.ring, other, &kept) == 0);
  m.server.hold(nfs4::OP_READ);
  r.read_many(2);
  REQUIRE(eventually([&] { return m.server.held() == 2; }));
  CHECK(::close(fd) == 0);
  m.server.release();
  std::array<nfsrdma_ring_completion, 4> done{};
  // More than are in flight is as many as are.
  REQUIRE(nfsrdma_ring_completions(r.ring, done.data(), 4, 4, 5000) == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(done.at(i).result == 4);
  CHECK(eventually([&] { return r.read(0, 4) == "error -9"; }));
  r.file = kept;
  CHECK(r.read(0, 4) == "some");
  ::close(other);
  CHECK(m.server.problems() == "");
}

TEST_CASE("S18 ring: a daemon that is killed, or asked to end, ends all waits of its programs") {
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    Mounting m;
    m.server.add_file("/f", "some text");
    m.mount();
    const std::array files{m.open("f"), m.open("f")};  // before READs are held, which an open may bring along
    m.server.hold(nfs4::OP_READ);
    Child child([&] {
      Ringed r(files[0]);
      if (r.code != 0) return 1;
      r.read_many(8);
      std::array<nfsrdma_ring_completion, 8> done{};
      for (int ended = 0; ended < 8;) {
        const int count = nfsrdma_ring_completions(r.ring, done.data(), 8, 1, -1);
        if (count <= 0) return 2;
        for (int i = 0; i < count; ++i) {
          if (done.at(static_cast<std::size_t>(i)).result != -ENOTCONN) return 3;
        }
        ended += count;
      }
      if (nfsrdma_ring_completions(r.ring, done.data(), 8, 1, -1) != -ENOTCONN) return 4;
      return r.read(0, 4) == "error -107" ? 0 : 5;
    });
    Child alone([&] {
      Ringed r(files[1]);
      return r.code == 0 && r.read(0, 4) == "error -107" ? 0 : 1;
    });
    REQUIRE(eventually([&] { return m.server.held() == 9; }));
    m.daemon->signal(signal);
    CHECK(child.ended(3s) == 0);
    CHECK(alone.ended(3s) == 0);
    m.server.release();
    for (const int file : files) ::close(file);
    CHECK(m.daemon->ended(15s));
  }
}

TEST_CASE("F17 ring: what was written by a ring is on the server when the mount has ended") {
  Mounting m;
  m.server.add_file("/f", "");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  const std::string data = pattern(60000);
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(r.write(i * data.size(), data) == 60000);
  m.daemon->signal(SIGTERM);
  CHECK(m.daemon->ended(8s) == 0);
  std::string all;
  for (int i = 0; i < 20; ++i) all += data;
  CHECK(m.server.stable_content("/f") == all);
  CHECK(m.server.clients() == 0);
  ::close(fd);
}

TEST_CASE("ring: a child of fork has none, and what it does is not its parent's") {
  Mounting m;
  m.server.add_file("/f", "some text");
  m.mount();
  const int fd = m.open("f");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  Child child([&] {
    nfsrdma_ring_completion done{};
    const auto wanted = r.request(NFSRDMA_RING_READ, 0, 4, 0);
    if (nfsrdma_ring_queue(r.ring, &wanted) != -ENOTCONN) return 1;
    if (nfsrdma_ring_completions(r.ring, &done, 1, 1, -1) != -ENOTCONN) return 2;
    if (nfsrdma_ring_run(r.ring, &wanted, nullptr) != -ENOTCONN) return 3;
    nfsrdma_ring_submit(r.ring);
    Ringed own(fd);
    return own.code == 0 && own.read(0, 4) == "some" ? 0 : 4;
  });
  CHECK(child.ended(5s) == 0);
  CHECK(r.read(5, 4) == "text");
  // One that outlives its parent, with its socket, does not keep the ring.
  ::pid_t grandchild = 0;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  Child parent([&] {
    Ringed own(fd);
    grandchild = ::fork();
    if (grandchild == 0) {
      ::pause();
      ::_exit(0);
    }
    (void)!::write(pipe[1], &grandchild, sizeof grandchild);
    return own.code;
  });
  CHECK(parent.ended(5s) == 0);
  REQUIRE(::read(pipe[0], &grandchild, sizeof grandchild) == sizeof grandchild);
  CHECK(eventually([&] { return has_rings(m, 1); }));
  ::kill(grandchild, SIGKILL);
  for (const int end : pipe) ::close(end);
  ::close(fd);
}

TEST_CASE("ring: whatever a program writes into the memory and the socket, the daemon goes on") {
  Mounting m;
  m.server.add_file("/f", std::string(100'000, 'x'));
  m.server.add_file("/g", "some text");
  m.mount();
  const int fd = m.open("g");
  Ringed r(fd);
  REQUIRE(r.code == 0);
  std::vector<std::unique_ptr<Child>> children;
  children.reserve(3);
  for (unsigned seed = 0; seed < 3; ++seed) {
    children.push_back(std::make_unique<Child>([&, seed] {
      const int own = m.open("f");
      std::mt19937_64 random(seed);
      const auto end = std::chrono::steady_clock::now() + 3s;
      while (std::chrono::steady_clock::now() < end) {
        Ringed bad(own, 8);
        if (bad.code != 0) continue;
        auto* const all =
            reinterpret_cast<unsigned char*>(bad.memory) - 8192;  // slots and header are before it
        for (int step = 0; step < 20000; ++step) {
          // Mostly requests that come far, whose slots change while they are looked at.
          auto& slot = reinterpret_cast<ring_slot*>(all + RING_SLOTS_AT)[random() % 8];
          slot.operation = static_cast<std::uint32_t>(random() % 4);
          slot.file = bad.file.number;
          slot.offset = random() % 200'000;
          slot.buffer = random() % 4 == 0 ? random() : random() % (8 * Ringed::kPart);
          slot.length = static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 70'000);
          if (random() % 50 == 0) all[random() % 8192] = static_cast<unsigned char>(random());
          // Often within the rules, or it would be over at once.
          if (random() % 4 != 0) {
            std::atomic_ref(reinterpret_cast<ring_header*>(all)->submitted[0]).fetch_or(1U << random() % 8);
          }
          if (random() % 16 == 0) {
            std::array<char, 100> noise{};
            if (::send(nfsrdma_ring_descriptor(bad.ring), noise.data(), random() % 100,
                       MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
                errno == EPIPE) {
              break;
            }
          }
        }
      }
      return 0;
    }));
  }
  for (int i = 0; i < 200; ++i) {
    CHECK(r.read(0, 9) == "some text");
    CHECK(kernel_read(fd) == "some text");
    ::usleep(10'000);
  }
  for (const auto& child : children) CHECK(child->ended(20s) == 0);
  CHECK(r.write(0, "SOME") == 4);
  CHECK(kernel_read(fd) == "SOME text");
  CHECK(m.stands());
  CHECK(eventually([&] { return has_rings(m, 1); }));
  CHECK(statistics_of(m).find(" broken=0 ") == std::string::npos);
  ::close(fd);
}

TEST_CASE("ring: preload: programs do the same as without, on a mount and through the ring") {
  const char* const work = std::getenv("NFSRDMA_PRELOAD_WORK");
  const char* const library = std::getenv("NFSRDMA_PRELOAD");
  if (work == nullptr || library == nullptr) {
    return skip("NFSRDMA_PRELOAD_WORK and NFSRDMA_PRELOAD are not set");
  }
  Mounting m;
  m.mount();
  const auto run = [&](const std::string& where) {
    Child child([&] {
      ::execl("/bin/bash", "bash", work, where.c_str(), library, nullptr);
      return 127;
    });
    const auto status = child.ended(120s);
    return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  };
  CHECK(run(m.place) == 0);
  const std::string seen = statistics_of(m);
  CHECK(seen.find("ring requests reads=0") == std::string::npos);
  CHECK(seen.find(" failed=0 ") != std::string::npos);
  CHECK(seen.find(" broken=0 ") != std::string::npos);
  CHECK(m.server.problems() == "");
}

}  // namespace nfsrdma
