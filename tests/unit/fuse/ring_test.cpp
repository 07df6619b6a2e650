// Whose a ring's slots are, on memory that a program writes what it likes to.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <set>

#include "fuse/daemon_ring.h"
#include "support/ring_program.h"

namespace nfsrdma::fuse {
namespace {

struct Slots {
  explicit Slots(unsigned count = 8) : bounds{count, std::uint64_t{count} * testing::RingProgram::kPart} {}
  const RingBounds bounds;
  const std::shared_ptr<std::byte> memory = testing::plain_ring_memory(bounds);
  Ring ring{bounds, memory};
  testing::RingProgram program{bounds, memory};
};

}  // namespace

TEST_CASE("ring: a slot is the program's, then the daemon's, then the program's again") {
  Slots m;
  CHECK(m.ring.collect());
  CHECK_FALSE(m.ring.has_pending());
  m.program.read(3, 7, 100, 50);
  REQUIRE(m.ring.collect());
  CHECK(m.ring.has_pending());
  const auto job = m.ring.begin();
  REQUIRE(job);
  CHECK(job->slot == 3);
  CHECK(job->request.file == 7);
  CHECK(job->request.offset == 100);
  CHECK_FALSE(m.ring.begin());
  m.ring.answer(*job, 50, 100);
  CHECK_FALSE(m.program.take(3));  // one turn's answers are told together
  CHECK_FALSE(m.ring.publish());   // nobody sleeps
  CHECK(m.program.take(3));
  CHECK(m.program.result(3) == 50);
  m.program.read(3, 7, 150, 50);
  CHECK(m.ring.collect());
  CHECK(m.ring.begin()->request.offset == 150);
}

TEST_CASE("ring: who sleeps is woken, once") {
  Slots m;
  CHECK_FALSE(m.ring.sleep());
  CHECK(m.program.daemon_sleeps());
  m.program.read(0, 0, 0, 1);
  CHECK(m.ring.sleep());  // what came meanwhile is not slept over
  std::atomic_ref(m.program.header().program_waits).store(1);
  REQUIRE(m.ring.collect());
  CHECK_FALSE(m.ring.publish());
  m.ring.answer(*m.ring.begin(), 1, 0);
  CHECK(m.ring.publish());
  CHECK_FALSE(m.ring.publish());
}

TEST_CASE("ring: who waits for several is woken when they are there") {
  Slots m;
  std::atomic_ref(m.program.header().program_waits).store(3);
  for (unsigned i = 0; i < 4; ++i) m.program.read(i, 0, 0, 1);
  REQUIRE(m.ring.collect());
  for (const bool wakes : {false, false, true, false}) {
    m.ring.answer(*m.ring.begin(), 1, 0);
    CHECK(m.ring.publish() == wakes);
  }
}

TEST_CASE("ring: one that is waited for alone is not told of among the others") {
  Slots m;
  m.program.read(2, 0, 0, 1, RING_ALONE);
  REQUIRE(m.ring.collect());
  const auto job = m.ring.begin();
  CHECK_FALSE(m.program.is_done(2));
  m.ring.answer(*job, -EIO, 0);
  CHECK(m.program.is_done(2));
  CHECK(m.program.result(2) == -EIO);
  CHECK_FALSE(m.ring.publish());
  CHECK_FALSE(m.program.take(2));
}

TEST_CASE("ring: slots that are not the program's to submit end the ring") {
  Slots m;
  SUBCASE("there is no such slot") {
    m.program.submit(8);
  }
  SUBCASE("nor in the last word") {
    m.program.header().submitted[3] = 1;
  }
  SUBCASE("it is to be begun") {
    m.program.submit(1);
    REQUIRE(m.ring.collect());
    m.program.submit(1);
  }
  SUBCASE("it is under way") {
    m.program.submit(1);
    REQUIRE(m.ring.collect());
    REQUIRE(m.ring.begin());
    m.program.submit(1);
  }
  CHECK_FALSE(m.ring.collect());
}

TEST_CASE("ring: all slots at once, each has its turn, whichever is submitted again") {
  Slots m(RING_MOST_SLOTS);
  for (unsigned i = 0; i < RING_MOST_SLOTS; ++i) m.program.read(i, 0, i, 1);
  REQUIRE(m.ring.collect());
  std::set<unsigned> seen;
  for (unsigned i = 0; i < RING_MOST_SLOTS; ++i) {
    const auto job = m.ring.begin();
    REQUIRE(job);
    CHECK(seen.insert(job->slot).second);
    // The first slot, again and again, is not in the others' way.
    m.ring.answer(*job, 1, 0);
    if (job->slot == 0) m.program.read(0, 0, 0, 1);
    REQUIRE(m.ring.collect());
  }
  CHECK(seen.size() == RING_MOST_SLOTS);
  CHECK(m.ring.begin()->slot == 0);
  CHECK_FALSE(m.ring.begin());
}

TEST_CASE("ring: whatever is written everywhere, what is begun are slots that there are, each once") {
  std::mt19937_64 random(2);
  unsigned begun = 0, ended = 0;
  for (int round = 0; round < 300; ++round) {
    Slots m(1 + static_cast<unsigned>(random() % RING_MOST_SLOTS));
    std::set<unsigned> under_way;
    std::vector<Ring::Job> jobs;
    for (int step = 0; step < 60; ++step) {
      for (int i = 0; i < 20; ++i) {
        m.memory.get()[random() % m.bounds.data_at()] = static_cast<std::byte>(random());
      }
      // Now and then with rules: else the first collect() would be the last.
      if (random() % 8 != 0) std::fill_n(m.program.header().submitted, RING_WORDS, 0);
      const auto slot = static_cast<unsigned>(random() % m.bounds.slots);
      if (!under_way.contains(slot) && random() % 2 == 0) m.program.submit(slot);
      if (!m.ring.collect()) {
        ++ended;
        break;
      }
      while (const auto job = m.ring.begin()) {
        REQUIRE(job->slot < m.bounds.slots);
        REQUIRE(under_way.insert(job->slot).second);
        jobs.push_back(*job);
        ++begun;
        if (judge(job->request, m.bounds) != 0 || job->request.length == 0) continue;
        if (job->request.operation != RING_READ) continue;
        const auto data = m.ring.data_of(job->request);
        REQUIRE(data.data() >= m.memory.get() + m.bounds.data_at());
        REQUIRE(data.data() + data.size() <= m.memory.get() + m.bounds.size());
      }
      if (!jobs.empty() && random() % 2 == 0) {
        under_way.erase(jobs.back().slot);
        m.ring.answer(jobs.back(), 0, 0);
        jobs.pop_back();
      }
      (void)m.ring.publish();
      (void)m.ring.sleep();
    }
  }
  CHECK(begun > 1000);
  CHECK(ended > 20);
}

TEST_CASE("ring: its memory cannot be made smaller, and a hole in it reads as zero") {
  const RingBounds bounds{4, 1U << 20};
  const RingMemory memory = make_ring_memory(bounds, 1, std::make_shared<RingBytes>());
  REQUIRE(memory.bytes);
  CHECK(::ftruncate(memory.descriptor, 0) == -1);
  CHECK(::ftruncate(memory.descriptor, 1 << 30) == -1);
  CHECK(::fcntl(memory.descriptor, F_ADD_SEALS, F_SEAL_WRITE) == -1);
  Ring ring(bounds, memory.bytes);
  const testing::RingProgram program(bounds, memory.bytes);
  program.read(1, 9, 9, 9);
  REQUIRE(::fallocate(memory.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(bounds.size())) == 0);
  CHECK(ring.collect());
  CHECK_FALSE(ring.has_pending());
  ::close(memory.descriptor);
}

TEST_CASE("F29 ring: the pages of a ring go with its last user, though its program keeps the descriptor") {
  const RingBounds bounds{4, 1U << 20};
  const auto held = std::make_shared<RingBytes>();
  RingMemory memory = make_ring_memory(bounds, 7, held);
  REQUIRE(memory.bytes);
  CHECK(held->of(7) == bounds.bytes);
  std::memset(memory.bytes.get(), 1, bounds.size());
  const auto blocks = [&] {
    struct stat now{};
    REQUIRE(::fstat(memory.descriptor, &now) == 0);
    return now.st_blocks;
  };
  REQUIRE(blocks() != 0);
  // A request that is under way when the ring ends.
  auto request = memory.bytes;
  SUBCASE("its program is gone") {
    memory.bytes.reset();
    CHECK(blocks() != 0);
    CHECK(held->all() == bounds.bytes);
    request.reset();
    CHECK(blocks() == 0);
  }
  SUBCASE("the daemon ends, and the program may still read answers") {
    held->keeps_pages = true;
    memory.bytes.reset();
    request.reset();
    CHECK(blocks() != 0);
  }
  CHECK(held->all() == 0);
  CHECK(held->of(7) == 0);
  ::close(memory.descriptor);
}

}  // namespace nfsrdma::fuse
