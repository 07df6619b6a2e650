// NFSv4.0's owners (nfs4/v40/owners.h): the order of their requests, and what becomes of the count where an answer is
// lost (RFC 7530 9.1.7).
#include "nfs4/v40/owners.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "support/virtual_world.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;
using Whose = OwnedOperation::Whose;

constexpr std::uint64_t kName = std::uint64_t{1} << 32U;  // of the first epoch

struct Counted {
  testing::VirtualWorld world;
  async::Loop loop{world};
  Owners owners{loop};
  std::shared_ptr<Owners::Turn> turn;

  async::Task<void> taking(std::uint64_t number, Whose whose) {
    turn = co_await owners.take(whose, number, loop.now() + 10ms);
  }
  Owners::Turn& take(std::uint64_t number = 7, Whose whose = Whose::open_owner) {
    turn.reset();
    loop.run(taking(number, whose));
    REQUIRE(turn);
    return *turn;
  }
  /// The seqid of the owner's next request, which the server answers so.
  seqid4 request(nfsstat4 status, std::uint64_t epoch = 1) {
    Owners::Turn& mine = take();
    const seqid4 seqid = mine.seqid(epoch);
    mine.answered(status, true);
    return seqid;
  }
};

}  // namespace

TEST_CASE("owners: each request has the seqid behind that of the one before") {
  Counted m;
  CHECK(m.request(NFS4_OK) == 1);
  CHECK(m.request(NFS4_OK) == 2);
  // These count, too: they were looked at.
  for (const nfsstat4 status : {NFS4ERR_NOENT, NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_EXPIRED, NFS4ERR_DENIED})
    (void)m.request(status);
  CHECK(m.request(NFS4_OK) == 8);
  // These do not.
  for (const nfsstat4 status : {NFS4ERR_STALE_CLIENTID, NFS4ERR_STALE_STATEID, NFS4ERR_BAD_STATEID,
                                NFS4ERR_BADXDR, NFS4ERR_RESOURCE, NFS4ERR_NOFILEHANDLE, NFS4ERR_MOVED})
    CHECK(m.request(status) == 9);
  CHECK(m.take(8).seqid(1) == 1);
  CHECK(m.take(7, Whose::lock_owner).seqid(1) == 1);
}

TEST_CASE("owners: one request at a time") {
  Counted m;
  Owners::Turn& first = m.take();
  CHECK(first.seqid(1) == 1);
  const auto held = m.turn;
  m.loop.run(m.taking(7, Whose::open_owner));
  CHECK(m.turn == nullptr);  // not in time
  m.loop.run(m.taking(8, Whose::open_owner));
  CHECK(m.turn != nullptr);
}

TEST_CASE("owners: a request that never left, or was not come to, has used up nothing") {
  Counted m;
  CHECK(m.take().seqid(1) == 1);
  m.turn->unsent();
  CHECK(m.request(NFS4_OK) == 1);
}

TEST_CASE("owners: an answer that was lost") {
  Counted m;
  CHECK(m.request(NFS4_OK) == 1);
  SUBCASE("said") {
    CHECK(m.take().seqid(1) == 2);
    m.turn->doubt();
  }
  SUBCASE("by a task that went") {
    CHECK(m.take().seqid(1) == 2);
    m.turn.reset();
  }
  SUBCASE("and the server had counted it") {
    (void)m.take().seqid(1);
    m.turn.reset();
    CHECK(m.request(NFS4_OK) == 3);
    CHECK(m.request(NFS4_OK) == 4);
  }
  SUBCASE("and it had not") {
    (void)m.take().seqid(1);
    m.turn->doubt();
    Owners::Turn& next = m.take();
    CHECK(next.seqid(1) == 3);
    next.answered(NFS4ERR_BAD_SEQID, false);
    CHECK(next.try_again());
    CHECK(next.seqid(1) == 2);
    CHECK(next.generation() == kName);
    next.answered(NFS4_OK, false);
    CHECK_FALSE(next.try_again());
    CHECK(m.request(NFS4_OK) == 3);
  }
  SUBCASE("and those behind it, too, and the server had counted one of three") {
    for (const seqid4 seqid : {2U, 3U, 4U}) {
      CHECK(m.take().seqid(1) == seqid);
      m.turn->doubt();
    }
    Owners::Turn& next = m.take();
    for (const seqid4 seqid : {5U, 4U}) {
      CHECK(next.seqid(1) == seqid);
      next.answered(NFS4ERR_BAD_SEQID, false);
      CHECK(next.try_again());
    }
    CHECK(next.seqid(1) == 3);
    next.answered(NFS4_OK, false);
    CHECK(next.generation() == kName);
    CHECK(m.request(NFS4_OK) == 4);
  }
  SUBCASE("and many behind it, and the server had counted none: the owner keeps its name") {
    for (seqid4 seqid = 2; seqid != 22; ++seqid) {
      CHECK(m.take().seqid(1) == seqid);
      m.turn->doubt();
    }
    Owners::Turn& next = m.take();
    for (seqid4 seqid = 22; seqid != 2; --seqid) {
      CHECK(next.seqid(1) == seqid);
      next.answered(NFS4ERR_BAD_SEQID, true);
      CHECK(next.try_again());
    }
    CHECK(next.seqid(1) == 2);
    next.answered(NFS4_OK, true);
    CHECK(m.request(NFS4_OK) == 3);
    CHECK(m.take().generation() == kName);
  }
  SUBCASE("and many behind it, and then a request was sent twice that was not counted") {
    for (int i = 0; i < 6; ++i) {
      (void)m.take().seqid(1);
      m.turn->doubt();
    }
    CHECK(m.take().seqid(1) == 8);
    m.turn->answered(NFS4ERR_BAD_STATEID, false, 1);
    CHECK(m.take().seqid(1) == 9);
  }
  SUBCASE("and the server knows its state no more: it may not have counted") {
    CHECK(m.request(NFS4ERR_EXPIRED) == 2);
    Owners::Turn& next = m.take();
    CHECK(next.seqid(1) == 3);
    next.answered(NFS4ERR_BAD_SEQID, true);
    CHECK(next.try_again());
    CHECK(next.seqid(1) == 2);
    CHECK(next.generation() == kName);
  }
}

TEST_CASE("owners: where no seqid fits the owner goes on under another name") {
  Counted m;
  CHECK(m.request(NFS4_OK) == 1);
  Owners::Turn& turn = m.take();
  CHECK(turn.seqid(1) == 2);
  SUBCASE("for what is of the one in use") {}
  SUBCASE("not for what is of the old one") {
    turn.answered(NFS4ERR_BAD_SEQID, false);
    CHECK_FALSE(turn.try_again());
    CHECK(m.take().generation() == kName);
    return;
  }
  turn.answered(NFS4ERR_BAD_SEQID, true);
  CHECK(turn.try_again());
  CHECK(turn.generation() == kName + 1);
  CHECK(turn.seqid(1) == 1002);  // of the old name nothing is taken for its last
  SUBCASE("which the server accepts") {
    turn.answered(NFS4_OK, true);
    CHECK(m.request(NFS4_OK) == 1003);
    CHECK(m.take().generation() == kName + 1);
  }
  SUBCASE("once for each request") {
    turn.answered(NFS4ERR_BAD_SEQID, true);
    CHECK_FALSE(turn.try_again());
    CHECK(m.request(NFS4ERR_BAD_SEQID) == 1002);
    CHECK(m.turn->try_again());
    CHECK(m.turn->generation() == kName + 2);
  }
}

TEST_CASE("owners: a request takes one new name for each client id that it is sent under") {
  Counted m;
  Owners::Turn& turn = m.take();
  for (std::uint64_t epoch = 1; epoch != 3; ++epoch) {
    (void)turn.seqid(epoch);
    turn.answered(NFS4ERR_BAD_SEQID, true);
    CHECK(turn.try_again());
    CHECK(turn.generation() == epoch * kName + epoch);
  }
  turn.unsent();
}

namespace {

/// An open owner and a lock owner with doubts, the turns of both, and the server's count of their requests.
struct Pair {
  static constexpr std::uint64_t kOpener = 7, kLocker = 8;
  Counted m;
  std::shared_ptr<Owners::Turn> open, lock;
  seqid4 open_last = 0, lock_last = 0;  // what the server has counted
  int looked_below = 0;                 // times that the server looked at a seqid that it had counted
  int sent = 0;
  std::set<std::pair<seqid4, seqid4>> tried;

  void take() {
    open = lock = nullptr;
    m.take(kOpener);
    open = m.turn;
    m.take(kLocker, Whose::lock_owner);
    lock = m.turn;
    m.turn.reset();
  }
  /// The last requests of the owners were lost. The server has counted some of them.
  void lose(seqid4 of_open, seqid4 counted_of_open, seqid4 of_lock, seqid4 counted_of_lock) {
    for (seqid4 i = 0; i < of_open; ++i) (void)m.take(kOpener).seqid(1);
    for (seqid4 i = 0; i < of_lock; ++i) (void)m.take(kLocker, Whose::lock_owner).seqid(1);
    m.turn.reset();
    open_last = counted_of_open;
    lock_last = counted_of_lock;
  }
  /// The server counts as Linux does: it looks at the lock owner's seqid if the open owner's is the next one.
  bool server_accepts(seqid4 of_open, seqid4 of_lock) {
    ++sent;
    if (of_open <= open_last) ++looked_below;
    if (of_open != open_last + 1) return false;
    if (lock->generation() != kName) return true;  // it does not know that name
    if (of_lock <= lock_last) ++looked_below;
    return of_lock == lock_last + 1;
  }
  /// Sends a LOCK until the server accepts it, or nothing is left to be tried.
  bool lock_once() {
    for (;;) {
      const seqid4 of_open = open->seqid(1), of_lock = lock->seqid(1);
      CHECK(tried.emplace(of_open, of_lock).second);
      if (server_accepts(of_open, of_lock)) {
        open->answered(NFS4_OK, false);
        lock->answered(NFS4_OK, true);
        return true;
      }
      Owners::Turn::refused_both(*open, *lock);
      if ((!open->try_again() && !lock->try_again()) || sent == 1000) return false;
    }
  }
};

}  // namespace

TEST_CASE(
    "owners: a LOCK with two seqids finds them, whichever of the lost requests the server has counted") {
  for (seqid4 of_open = 0; of_open < 5; ++of_open) {
    for (seqid4 of_lock = 0; of_lock < 5; ++of_lock) {
      for (seqid4 counted_of_open = 0; counted_of_open <= of_open; ++counted_of_open) {
        for (seqid4 counted_of_lock = 0; counted_of_lock <= of_lock; ++counted_of_lock) {
          CAPTURE(of_open);
          CAPTURE(of_lock);
          CAPTURE(counted_of_open);
          CAPTURE(counted_of_lock);
          Pair m;
          m.lose(of_open, counted_of_open, of_lock, counted_of_lock);
          m.take();
          CHECK(m.lock_once());
          CHECK(m.looked_below == 0);
          CHECK(m.sent <= static_cast<int>((of_open + 1) * (of_lock + 1)));
          CHECK(m.lock->generation() == kName);
          m.take();
          CHECK(m.open->generation() == kName);
          CHECK(m.open->seqid(1) == counted_of_open + 2);
          CHECK(m.lock->seqid(1) == counted_of_lock + 2);
        }
      }
    }
  }
}

TEST_CASE("owners: where no pair of seqids fits the lock owner goes on under another name, once") {
  Pair m;
  m.lose(2, 1, 1, 1);
  m.take();
  SUBCASE("the server counts the lock owner otherwise") {
    m.lock_last = 50;
    CHECK(m.lock_once());
    CHECK(m.sent == 3 * 2 + 2);
    m.take();
    CHECK(m.lock->generation() == kName + 1);
    CHECK(m.open->seqid(1) == 3);
  }
  SUBCASE("the server counts the open owner otherwise") {
    m.open_last = 50;
    CHECK_FALSE(m.lock_once());
    CHECK(m.sent == 3 * 2 + 3);
    m.take();
    CHECK(m.open->seqid(1) == 1);  // no seqid was right, so a request that names the owner goes on at once
    m.open->answered(NFS4ERR_BAD_SEQID, true);
    CHECK(m.open->try_again());
    CHECK(m.open->generation() == kName + 1);
  }
}

TEST_CASE("owners: a search for two seqids begins again where an answer was lost in it") {
  Pair m;
  m.lose(2, 0, 3, 3);
  m.take();
  for (int i = 0; i < 6; ++i) {
    (void)m.open->seqid(1);
    (void)m.lock->seqid(1);
    Owners::Turn::refused_both(*m.open, *m.lock);
  }
  // The next one is the third seqid of the lock owner with the second one of the open owner.
  CHECK(m.open->seqid(1) == 2);
  CHECK(m.lock->seqid(1) == 2);
  SUBCASE("lost") {
    m.open->doubt();
    m.lock->doubt();
  }
  SUBCASE("refused for another reason") {
    m.open->answered(NFS4ERR_BAD_STATEID, false);
    m.lock->answered(NFS4ERR_BAD_STATEID, true);
  }
  CHECK(m.open->seqid(1) == 3);
  CHECK(m.lock->seqid(1) == 4);
  m.open->unsent();
  m.lock->unsent();
  m.take();
  CHECK(m.lock_once());
  CHECK(m.looked_below == 0);
  CHECK(m.lock->generation() == kName);
}

TEST_CASE("owners: a search for two seqids ends with the client id") {
  Pair m;
  m.lose(2, 0, 3, 3);
  m.take();
  (void)m.open->seqid(1);
  (void)m.lock->seqid(1);
  Owners::Turn::refused_both(*m.open, *m.lock);
  CHECK(m.open->seqid(2) == 1);
  CHECK(m.lock->seqid(2) == 1);
  m.open->unsent();
  m.lock->unsent();
}

namespace {

stateid4 open_stateid(int number, std::uint32_t seqid = 1) {
  stateid4 out;
  out.seqid = seqid;
  out.other[0] = static_cast<std::byte>(number);
  return out;
}

}  // namespace

TEST_CASE("owners: behind a request that was sent twice the next one counts it twice, and then once") {
  Counted m;
  CHECK(m.take().seqid(1) == 1);
  m.turn->answered(NFS4_OK, true, 1);
  CHECK(m.turn->opened(open_stateid(1)));
  CHECK(m.take().seqid(1) == 3);
  SUBCASE("the server has counted it twice") {
    m.turn->answered(NFS4_OK, false);
    CHECK(m.take().seqid(1) == 4);
  }
  SUBCASE("the server has counted it once") {
    m.turn->answered(NFS4ERR_BAD_SEQID, false);
    CHECK(m.turn->try_again());
    CHECK(m.turn->seqid(1) == 2);
    m.turn->answered(NFS4_OK, false);
    CHECK(m.take().seqid(1) == 3);
  }
  m.turn->unsent();
  CHECK(m.take().generation() == kName);
}

TEST_CASE(
    "owners: a request that was executed twice, of which the second time was refused, may have been "
    "counted") {
  Counted m;
  CHECK(m.take().seqid(1) == 1);
  m.turn->answered(NFS4ERR_BAD_STATEID, false, 1);
  CHECK(m.take().seqid(1) == 2);
  m.turn->answered(NFS4ERR_BAD_SEQID, false);
  CHECK(m.turn->try_again());
  CHECK(m.turn->seqid(1) == 1);
}

TEST_CASE(
    "owners: an answer to an OPEN that is the one before once more is found out, as often as it may be one") {
  Counted m;
  std::uint32_t sent_again = 0;
  SUBCASE("nothing was sent twice: the server does not count in its stateids") {}
  SUBCASE("the OPEN before was sent twice") {
    sent_again = 1;
  }
  CHECK(m.take().seqid(1) == 1);
  m.turn->answered(NFS4_OK, true, sent_again);
  CHECK(m.turn->opened(open_stateid(1)));
  (void)m.take().seqid(1);
  m.turn->answered(NFS4_OK, true);
  CHECK(m.turn->opened(open_stateid(1)) == (sent_again == 0));
  (void)m.take().seqid(1);
  m.turn->answered(NFS4_OK, true);
  CHECK(m.turn->opened(open_stateid(1)));
}

TEST_CASE("owners: another client id counts from the beginning, under another name") {
  Counted m;
  for (seqid4 seqid = 1; seqid < 4; ++seqid) CHECK(m.request(NFS4_OK, 1) == seqid);
  (void)m.take().seqid(1);
  m.turn->doubt();
  CHECK(m.request(NFS4_OK, 2) == 1);
  CHECK(m.request(NFS4_OK, 2) == 2);
  CHECK(m.take().generation() == 2 * kName);
}

TEST_CASE("owners: one that was forgotten is another one") {
  Counted m;
  CHECK(m.request(NFS4_OK) == 1);
  m.turn.reset();
  CHECK(m.owners.count() == 1);
  m.owners.forget(Whose::open_owner, 7);
  CHECK(m.owners.count() == 0);
  CHECK(m.request(NFS4_OK) == 1);
}

}  // namespace nfsrdma::nfs4
