// Unstable data on virtual time, against a server of one file that keeps apart what it has on its disk, and that
// restarts, refuses and stalls where the test says so.
#include "writing/unstable_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <random>

#include "support/virtual_world.h"
#include "writing/question.h"

namespace nfsrdma::writing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = 1U << 20;

Error refusal(int number = EIO) {
  return {ErrorKind::server, number, "TEST", "a file", "the server says no"};
}

/// The server. Each call takes a millisecond there and one back, and has its effect in between.
struct Scripted final : Writer {
  explicit Scripted(async::Loop& the_loop) : loop(the_loop) {}

  void restart() {
    memory = disk;
    ++instance;
  }
  async::Task<Result<Written>> write_piece(const Piece& piece, How how, After* after) override {
    ++writes;
    co_await loop.sleep_for(write_takes);
    if (!before_writes.empty()) take(before_writes)();
    if (!write_errors.empty()) co_return take(write_errors);
    Written out;
    out.count = std::min({piece.data.size(), most_at_once, most});
    const std::string_view text(reinterpret_cast<const char*>(piece.data.data()), out.count);
    put(memory, piece.offset, text);
    out.stable = (how != How::unstable || all_stable) && !never_stable;
    if (out.stable) put(disk, piece.offset, text);
    stable_writes += how == How::unstable ? 0 : 1;
    out.verifier = verifier_now();
    tell(after);
    co_await loop.sleep_for(1ms);
    out.count += claims_more;
    co_return out;
  }
  async::Task<Result<Verifier>> commit_file(After* after) override {
    ++commits;
    co_await loop.sleep_for(commit_takes);
    if (!before_commits.empty()) take(before_commits)();
    if (!commit_errors.empty()) co_return take(commit_errors);
    disk = memory;
    tell(after);
    const Verifier now = verifier_now();
    co_await loop.sleep_for(1ms);
    co_return now;
  }
  std::size_t most_written() const override { return most; }
  async::TimePoint deadline() override { return loop.now() + 10s; }
  const std::string& path() const override { return name; }
  std::uint64_t server_instance() const override { return instance; }

  async::Loop& loop;
  const std::string name = "a file";
  std::string memory, disk;
  std::size_t most = kMiB, most_at_once = kMiB, claims_more = 0;
  async::Clock::duration commit_takes = 1ms;
  async::Clock::duration write_takes = 1ms;
  bool all_stable = false, never_stable = false;
  bool restless = false;  // each of its answers has another verifier
  int writes = 0, stable_writes = 0, commits = 0;
  std::deque<std::function<void()>> before_writes, before_commits;  // one for each call
  std::deque<Error> write_errors, commit_errors;                    // the same

 private:
  template <class T>
  static T take(std::deque<T>& from) {
    T out = std::move(from.front());
    from.pop_front();
    return out;
  }
  static void put(std::string& to, std::uint64_t offset, std::string_view text) {
    if (to.size() < offset + text.size()) to.resize(offset + text.size(), '.');
    to.replace(offset, text.size(), text);
  }
  void tell(After* after) const {
    if (after != nullptr) after->emplace().size = memory.size();
  }
  [[nodiscard]] Verifier verifier_now() {
    Verifier out{};
    out[0] = static_cast<std::byte>(instance);
    if (restless) xdr::store_u32(out.data() + 4, ++answers);
    return out;
  }
  unsigned instance = 1;
  std::uint32_t answers = 0;
};

struct Ground {
  testing::VirtualWorld world;
  async::Loop loop{world};
  Scripted server{loop};
  std::shared_ptr<AllFiles> all = std::make_shared<AllFiles>();
  std::shared_ptr<WriteRecord> record = std::make_shared<WriteRecord>(loop, all, FileHandle{});
  std::vector<Error> told;

  void has_sink() {
    all->lost = [this](const FileHandle&, const Error& error) { told.push_back(error); };
  }
  template <class T>
  T run(async::Task<T> task) {
    return loop.run(std::move(task));
  }
  template <class T>
  T run(async::Soon<T> soon) {
    return loop.run(std::move(soon));
  }
  async::Task<void> pause(async::Clock::duration time) { co_await loop.sleep_for(time); }
  void pass(async::Clock::duration time) { run(pause(time)); }
  void start(async::Task<void> task) { loop.spawn(std::move(task)); }
};

/// Who has the file open.
struct Opener {
  explicit Opener(Ground* g) : ground(*g) { data->join(g->record, data); }
  Result<std::size_t> write(std::uint64_t offset, std::string_view text, How how = How::unstable) {
    return ground.run(data->write(std::as_bytes(std::span(text)), offset, how, nullptr, {}));
  }
  Status commit() { return ground.run(data->commit(nullptr)); }
  async::Task<void> write_in_background(std::string text, std::uint64_t offset, Result<std::size_t>& out) {
    out = co_await data->write(std::as_bytes(std::span(text)), offset, How::unstable, nullptr, {});
  }
  async::Task<void> commit_in_background(std::optional<Status>& out) { out = co_await data->commit(nullptr); }

  Ground& ground;
  std::shared_ptr<UnstableData> data = std::make_shared<UnstableData>(ground.loop, ground.server);
};

struct Machine : Ground, Opener {
  Machine() : Opener(this) {}
};

std::string much(std::size_t bytes, char with = 'x') {
  return std::string(bytes, with);
}

}  // namespace

TEST_CASE("unstable data: what changes the file otherwise takes turns with what is written again") {
  Machine m;
  // A cut of the file, as a SETATTR is.
  const auto cut = [&m]() -> async::Task<bool> {
    const auto turn = co_await take_turn(m.record, m.loop.now() + 10s, "SETATTR");
    if (!turn) co_return false;
    co_await m.loop.sleep_for(1ms);
    m.server.memory.clear();
    co_await m.loop.sleep_for(1ms);
    m.record->replaced(0, ~std::uint64_t{0});
    co_return true;
  };
  const auto cut_in_background = [&cut]() -> async::Task<void> {
    const bool done = co_await cut();
    CHECK(done);
  };
  std::optional<Status> committed;
  CHECK(m.write(0, "of the time before"));
  m.server.restart();
  SUBCASE("it waits for that") {
    m.start(m.commit_in_background(committed));
    m.pass(2500us);
    REQUIRE(m.server.writes == 2);
    CHECK(m.run(cut()));
  }
  SUBCASE("that waits for it") {
    m.start(m.commit_in_background(committed));
    m.pass(500us);
    m.start(cut_in_background());
    m.pass(20ms);
    CHECK(m.server.writes == 1);
  }
  SUBCASE("for no longer than it may take") {
    ++m.record->turns.rewriting;
    CHECK_FALSE(m.run(cut()));
    --m.record->turns.rewriting;
    CHECK(m.run(cut()));
    return;
  }
  m.pass(20ms);
  REQUIRE(committed);
  CHECK(*committed);
  CHECK(m.server.memory.empty());
  CHECK(m.data->empty());
}

TEST_CASE("unstable data: a commit makes it stable, once") {
  Machine m;
  After after;
  REQUIRE(m.write(0, "hello"));
  CHECK(m.server.disk.empty());
  CHECK_FALSE(m.data->empty());
  CHECK(m.all->bytes == 5);
  CHECK(m.run(m.data->commit(&after)));
  CHECK(m.server.disk == "hello");
  CHECK(after->size == 5);
  CHECK(m.data->empty());
  CHECK(m.all->bytes == 0);
  CHECK(m.run(m.data->commit(&after)));
  CHECK_FALSE(after);  // there was nothing to commit
  CHECK(m.server.commits == 1);
}

TEST_CASE(
    "unstable data: what one WRITE does not take is written by the next, and what it cannot have is "
    "refused") {
  Machine m;
  m.server.most_at_once = 3;
  auto count = m.write(10, "eightful");
  REQUIRE(count);
  CHECK(*count == 8);
  CHECK(m.server.writes == 3);
  CHECK(m.commit());
  CHECK(m.server.disk == "..........eightful");
  for (const bool nothing : {true, false}) {
    CAPTURE(nothing);
    m.server.most_at_once = nothing ? 0 : 3;
    m.server.claims_more = nothing ? 0 : 6;
    auto refused = m.write(0, "eightful");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind() == ErrorKind::protocol);
    CHECK(refused.error().peer() == "a file");
  }
}

TEST_CASE("unstable data: limits that become smaller while a WRITE is under way cut the rest") {
  Machine m;
  m.server.before_writes.emplace_back([&] { m.server.most = 4; });
  m.server.write_errors.push_back(refusal(EINVAL));
  auto count = m.write(0, "0123456789");
  REQUIRE(count);
  CHECK(*count == 10);
  CHECK(m.server.writes == 4);
  m.server.most = 3;
  m.server.restart();  // pieces of four are written again three by three
  CHECK(m.commit());
  CHECK(m.server.disk == "0123456789");
}

TEST_CASE("unstable data: it is written again after a restart") {
  Machine m;
  const auto writes_all = [&] {
    REQUIRE(m.write(0, "aaaa"));
    REQUIRE(m.write(4, "bbbb"));
    REQUIRE(m.write(8, "cccc"));
  };
  SUBCASE("between the WRITEs") {
    REQUIRE(m.write(0, "aaaa"));
    m.server.restart();
    REQUIRE(m.write(4, "bbbb"));
    REQUIRE(m.write(8, "cccc"));
  }
  SUBCASE("before the COMMIT") {
    writes_all();
    m.server.restart();
  }
  SUBCASE("while the COMMIT is under way") {
    writes_all();
    m.server.before_commits.emplace_back([&] { m.server.restart(); });
  }
  SUBCASE("while it is written again, and before the COMMIT behind that") {
    writes_all();
    m.server.restart();
    m.server.before_writes.assign(2, [] {});
    m.server.before_writes.emplace_back([&] { m.server.restart(); });
    m.server.before_commits.emplace_back([] {});
    m.server.before_commits.emplace_back([&] { m.server.restart(); });
  }
  CHECK(m.commit());
  CHECK(m.server.disk == "aaaabbbbcccc");
  CHECK(m.data->empty());
}

TEST_CASE("unstable data: a restart puts in doubt what is not stable, until a COMMIT behind it") {
  Machine m;
  CHECK_FALSE(m.data->may_be_lost());
  REQUIRE(m.write(0, "te"));
  REQUIRE(m.write(2, "xt"));
  CHECK_FALSE(m.data->may_be_lost());
  m.server.restart();
  CHECK(m.data->may_be_lost());
  REQUIRE(m.write(4, "more"));
  CHECK(m.data->may_be_lost());
  REQUIRE(m.write(4, "MORE"));  // this answer has the verifier of the one before
  CHECK(m.data->may_be_lost());
  m.server.commit_takes = 100ms;
  std::optional<Status> committed;
  m.start(m.commit_in_background(committed));
  m.pass(150ms);  // what was lost is written again, and the COMMIT behind that is under way
  REQUIRE(m.server.commits == 2);
  REQUIRE(m.write(8, "behind"));
  m.pass(1s);
  REQUIRE(committed);
  CHECK(*committed);
  CHECK(m.server.disk.starts_with("textMORE"));
  CHECK(m.record->turns.rewrites == 2);  // one has begun, and ended
  CHECK_FALSE(m.data->empty());
  CHECK_FALSE(m.data->may_be_lost());
  m.server.restart();
  CHECK(m.data->may_be_lost());
  // Nothing of it is left to be in doubt.
  REQUIRE(m.write(8, "behind", How::file_sync));
  CHECK_FALSE(m.data->may_be_lost());
  REQUIRE(m.write(0, "last"));
  CHECK_FALSE(m.data->may_be_lost());
}

TEST_CASE("S25 unstable data: an answer from before lost data was written again does not count") {
  Machine m;
  REQUIRE(m.write(0, "text"));
  Question question(m.record);
  REQUIRE(question.begin());
  CHECK_FALSE(question.again());
  m.server.restart();
  CHECK(m.commit());
  REQUIRE_FALSE(m.record->in_doubt());
  CHECK(question.again());
  REQUIRE(question.begin());
  CHECK_FALSE(question.again());
}

TEST_CASE("unstable data: what a restart may have cost makes the file as large as it was written") {
  Machine m;
  Opener other(&m);
  REQUIRE(m.write(0, "text"));
  REQUIRE(other.write(4, "more"));
  CHECK(m.record->end_in_doubt() == 0);
  m.server.restart();
  CHECK(m.record->end_in_doubt() == 8);
  CHECK(m.record->end() == 8);
  CHECK(other.commit());
  CHECK(m.record->end_in_doubt() == 4);
  SUBCASE("until it is stable") {
    CHECK(m.commit());
  }
  SUBCASE("until it is cut") {
    m.record->replaced(0, ~std::uint64_t{0});
  }
  CHECK(m.record->end_in_doubt() == 0);
}

TEST_CASE("unstable data: a server that leaves unstable what was to be stable is asked for a COMMIT") {
  Machine m;
  m.server.never_stable = true;
  REQUIRE(m.write(0, "text"));
  CHECK(m.server.commits == 0);
  for (const How how : {How::data_sync, How::file_sync}) {
    m.server.commits = 0;
    REQUIRE(m.write(0, "firm", how));
    CHECK(m.server.commits == 1);
    CHECK(m.data->empty());
    CHECK(m.server.disk == "firm");
  }
  // One of two pieces is left unstable.
  m.server.most = 4;
  for (const bool first : {true, false}) {
    CAPTURE(first);
    m.server.commits = 0;
    m.server.before_writes.emplace_back([&] { m.server.never_stable = first; });
    m.server.before_writes.emplace_back([&] { m.server.never_stable = !first; });
    REQUIRE(m.write(0, "firmness", How::file_sync));
    CHECK(m.server.commits == 1);
    CHECK(m.data->empty());
    CHECK(m.server.disk == "firmness");
    m.server.disk.clear();
  }
  m.server.never_stable = true;
  m.server.commit_errors.push_back(refusal(ENOSPC));
  const auto failed = m.write(0, "text", How::file_sync);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().errno_value() == ENOSPC);
}

TEST_CASE("S25 unstable data: where the verifier differs every time, the third rewrite is FILE_SYNC") {
  Machine m;
  m.server.restless = true;
  REQUIRE(m.write(0, "aaaa"));
  REQUIRE(m.write(8, "bbbb"));
  std::optional<Status> committed;
  m.start(m.commit_in_background(committed));
  m.pass(5s);
  REQUIRE(committed);
  CHECK(*committed);
  CHECK(m.server.disk == "aaaa....bbbb");
  CHECK(m.data->empty());
  CHECK(m.server.commits == 3);
  CHECK(m.server.writes == 2 + 3 * 2);
  CHECK(m.server.stable_writes == 2);
  // A COMMIT that matches ends the row of mismatches.
  m.server.restless = false;
  REQUIRE(m.write(0, "cccc"));
  CHECK(m.commit());
  REQUIRE(m.write(0, "dddd"));
  m.server.restart();
  CHECK(m.commit());
  CHECK(m.server.stable_writes == 2);
  CHECK(m.server.disk == "dddd....bbbb");
}

TEST_CASE("S25 unstable data: a commit ends at its deadline, whatever the server answers until then") {
  Machine m;
  std::optional<Status> committed;
  const auto ends_late = [&] {
    m.pass(9s);
    CHECK_FALSE(committed);
    m.pass(3s);
    REQUIRE(committed);
    REQUIRE_FALSE(*committed);
    CHECK(committed->error().kind() == ErrorKind::timeout);
  };
  SUBCASE("verifiers that differ, and FILE_SYNC that is not heeded") {
    m.server.restless = m.server.never_stable = true;
    REQUIRE(m.write(0, "text"));
    m.start(m.commit_in_background(committed));
    ends_late();
    m.server.restless = false;
    CHECK(m.commit());
    CHECK(m.server.disk == "text");
  }
  SUBCASE("many pieces that are written again slowly") {
    std::string text;
    for (unsigned i = 0; i < 30; ++i) {
      REQUIRE(m.write(i * 4, "text"));
      text += "text";
    }
    m.server.restart();
    m.server.write_takes = 1s;
    m.start(m.commit_in_background(committed));
    ends_late();
    // The pieces that reached the server need not be written once more.
    m.server.write_takes = 1ms;
    const int writes = m.server.writes;
    CHECK(m.commit());
    CHECK(m.server.writes - writes < 25);
    CHECK(m.server.disk == text);
  }
  SUBCASE("a write that waits for room") {
    m.server.restless = m.server.never_stable = true;
    REQUIRE(m.write(0, "text"));
    m.all->bytes += 65 * kMiB;
    Result<std::size_t> late = std::size_t{0};
    m.start(m.write_in_background("more", 4, late));
    m.pass(12s);
    CHECK_FALSE(late);
  }
}

TEST_CASE("unstable data: a newer write is not written over by an older one") {
  Machine m;
  REQUIRE(m.write(0, "oldoldold"));
  REQUIRE(m.write(3, "new"));
  m.server.restart();
  SUBCASE("that came before the restart was known") {}
  SUBCASE("that comes while the older one is written again") {
    m.server.before_commits.emplace_back([] {});
    std::optional<Status> committed;
    m.start(m.commit_in_background(committed));
    m.pass(2500us);  // the first piece is under way
    CHECK(m.server.writes == 3);
    Result<std::size_t> late = std::size_t{0};
    m.start(m.write_in_background("NEW", 3, late));
    CHECK(m.server.writes == 3);  // it stands aside
    m.pass(1s);
    REQUIRE(committed);
    CHECK(*committed);
    CHECK(m.commit());
    CHECK(m.server.disk == "oldNEWold");
    return;
  }
  CHECK(m.commit());
  CHECK(m.server.disk == "oldnewold");
}

TEST_CASE("unstable data: a COMMIT's promise is of what was written before it") {
  Machine m;
  m.server.commit_takes = 100ms;
  REQUIRE(m.write(0, "before"));
  std::optional<Status> first, second;
  m.start(m.commit_in_background(first));
  m.pass(10ms);
  REQUIRE(m.write(6, "behind"));
  m.start(m.commit_in_background(second));  // waits for the first, and makes another
  m.pass(95ms);
  REQUIRE(first);
  CHECK(*first);
  CHECK_FALSE(second);
  CHECK_FALSE(m.data->empty());
  m.pass(1s);
  REQUIRE(second);
  CHECK(m.server.commits == 2);
  CHECK(m.server.disk == "beforebehind");
}

TEST_CASE("unstable data: stable writes replace what is not stable") {
  Machine m;
  REQUIRE(m.write(0, "aaaaaaaa"));
  REQUIRE(m.write(2, "SSSS", How::file_sync));
  CHECK(m.all->bytes == 4);
  m.server.restart();
  CHECK(m.commit());
  CHECK(m.server.disk == "aaSSSSaa");
  m.server.all_stable = true;
  REQUIRE(m.write(0, "zzzzzzzz"));
  CHECK(m.data->empty());
}

TEST_CASE("unstable data: what was replaced otherwise is not written again") {
  Machine m;
  REQUIRE(m.write(0, "aaaabbbb"));
  m.record->replaced(4, ~std::uint64_t{0} - 4);
  m.server.restart();
  CHECK(m.commit());
  CHECK(m.server.disk == "aaaa");
}

TEST_CASE("unstable data: of several openers of a file the last to write counts") {
  Machine m;
  Opener other(&m);
  REQUIRE(m.write(0, "aaaaaaaa"));
  CHECK(other.write(2, "bbb"));
  CHECK(m.all->bytes == 8);
  REQUIRE(m.write(4, "A"));
  m.server.restart();
  CHECK(other.commit());
  CHECK(m.commit());
  CHECK(m.server.disk == "aabbAaaa");
  REQUIRE(m.write(0, "aaaaaaaa"));
  m.record->replaced(0, 8);
  CHECK(m.data->empty());
}

TEST_CASE("unstable data: what is written again for one opener keeps no other's newer data from lasting") {
  Machine m;
  Opener other(&m);
  REQUIRE(m.write(0, "oldoldold"));
  m.server.restart();
  std::optional<Status> committed;
  m.start(m.commit_in_background(committed));
  m.pass(2500us);  // the old data is under way again
  CHECK(m.server.writes == 2);
  Result<std::size_t> late = std::size_t{0};
  m.start(other.write_in_background("NEW", 3, late));
  CHECK(m.server.writes == 2);  // it stands aside, whoever writes it
  m.pass(1s);
  REQUIRE(committed);
  CHECK(late.value_or(0) == 3);
  m.server.restart();  // before the new data is on the disk
  CHECK(m.commit());
  CHECK(other.commit());
  CHECK(m.server.disk == "oldNEWold");
}

TEST_CASE("unstable data: what could not be committed before the file was closed leaves no doubt behind") {
  Machine m;
  Opener other(&m);
  REQUIRE(m.write(0, "text"));
  REQUIRE(other.write(100, "more"));
  m.server.restart();
  m.server.commit_errors.emplace_back(ErrorKind::server, EIO, "COMMIT", "a file", "scripted");
  CHECK_FALSE(other.commit());
  CHECK(m.record->end_in_doubt() == 104);
  other.data->leave();
  CHECK(other.data->empty());
  CHECK(m.record->end_in_doubt() == 4);
  CHECK(m.all->bytes == 4);
  CHECK(m.commit());
  CHECK_FALSE(m.record->in_doubt());
  m.server.restart();
  REQUIRE(m.write(0, "text"));
  CHECK_FALSE(m.record->in_doubt());
  CHECK(m.record->end() == 4);
}

TEST_CASE("unstable data: two openers' data is written again at the same time, and callers wait for both") {
  Machine m;
  Opener other(&m);
  REQUIRE(m.write(0, "aaaa"));
  CHECK(other.write(4, "bbbb"));
  REQUIRE(m.write(8, "cccc"));
  m.server.restart();
  std::optional<Status> first, second;
  m.start(m.commit_in_background(first));
  m.start(other.commit_in_background(second));
  m.pass(2500us);
  CHECK(m.server.writes == 5);  // a piece of each
  Result<std::size_t> late = std::size_t{0};
  m.start(m.write_in_background("NEW!", 4, late));
  m.pass(2ms);  // the other's is through, the first one's second piece is not
  CHECK(m.server.writes == 6);
  m.pass(1s);
  CHECK(m.server.writes == 7);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(m.commit());
  CHECK(other.commit());
  CHECK(m.server.disk == "aaaaNEW!cccc");
}

TEST_CASE("unstable data: where a COMMIT is refused it may be tried again") {
  Machine m;
  REQUIRE(m.write(0, "text"));
  m.server.commit_errors.push_back(refusal(ENOSPC));
  auto done = m.commit();
  REQUIRE_FALSE(done);
  CHECK(done.error().errno_value() == ENOSPC);
  CHECK(m.commit());
  CHECK(m.server.disk == "text");
}

TEST_CASE("unstable data: what a COMMIT is refused for is given up where somebody is told") {
  Machine m;
  m.has_sink();
  REQUIRE(m.write(0, "text"));
  m.server.commit_errors.push_back(refusal(ENOSPC));
  CHECK_FALSE(m.commit());
  REQUIRE(m.told.size() == 1);
  CHECK(m.told[0].errno_value() == ENOSPC);
  CHECK(m.data->empty());
  CHECK(m.commit());
  CHECK(m.server.commits == 1);
}

TEST_CASE("unstable data: a lost connection gives up nothing") {
  Machine m;
  m.has_sink();
  REQUIRE(m.write(0, "text"));
  m.server.commit_errors.emplace_back(ErrorKind::connection, ECONNRESET, "COMMIT", "a file", "gone");
  CHECK_FALSE(m.commit());
  m.server.restart();
  m.server.write_errors.emplace_back(ErrorKind::connection, ECONNRESET, "WRITE", "a file", "gone");
  CHECK_FALSE(m.commit());
  CHECK(m.told.empty());
  CHECK(m.commit());
  CHECK(m.server.disk == "text");
}

TEST_CASE("unstable data: what cannot be written again") {
  Machine m;
  REQUIRE(m.write(0, "aaaa"));
  REQUIRE(m.write(8, "bbbb"));
  m.server.restart();
  m.server.write_errors.push_back(refusal(EDQUOT));
  SUBCASE("is tried again by the next commit()") {
    auto done = m.commit();
    REQUIRE_FALSE(done);
    CHECK(done.error().errno_value() == EDQUOT);
    CHECK(m.commit());
    CHECK(m.server.disk == "aaaa....bbbb");
  }
  SUBCASE("is given up where somebody is told, and the rest is saved") {
    m.has_sink();
    CHECK_FALSE(m.commit());
    CHECK(m.told.size() == 1);
    CHECK(m.commit());
    CHECK(m.server.disk == "........bbbb");
  }
}

TEST_CASE("unstable data: a COMMIT goes out beside when there is much") {
  Machine m;
  const std::string text = much(33 * kMiB);
  REQUIRE(m.write(0, text));
  m.pass(10ms);
  CHECK(m.server.commits == 1);
  CHECK(m.all->bytes < 2 * kMiB);
  CHECK(m.commit());
  CHECK(m.server.disk == text);
}

TEST_CASE("unstable data: what a COMMIT beside was refused for the next call says") {
  Machine m;
  SUBCASE("once, and then it is tried again") {
    m.server.commit_errors.push_back(refusal(ENOSPC));
    REQUIRE(m.write(0, much(33 * kMiB)));
    m.pass(10ms);
    auto late = m.write(0, "more");
    REQUIRE_FALSE(late);
    CHECK(late.error().errno_value() == ENOSPC);
    CHECK_FALSE(m.commit());
    CHECK(m.commit());
    CHECK(m.server.disk.size() == 33 * kMiB);
  }
  SUBCASE("but where somebody has been told") {
    m.server.commit_errors.push_back(refusal(ENOSPC));
    m.has_sink();
    REQUIRE(m.write(0, much(33 * kMiB)));
    m.pass(10ms);
    CHECK(m.told.size() == 1);
    CHECK(m.write(0, "more"));
    CHECK(m.commit());
  }
  SUBCASE("and commit() tries again where the connection was at fault, and somebody is told of refusals") {
    m.has_sink();
    m.server.commit_errors.emplace_back(ErrorKind::connection, ECONNRESET, "COMMIT", "a file", "gone");
    REQUIRE(m.write(0, much(33 * kMiB)));
    m.pass(10ms);
    CHECK_FALSE(m.write(0, "more"));
    CHECK(m.commit());
    CHECK(m.server.disk.size() == 33 * kMiB);
    CHECK(m.told.empty());
  }
}

TEST_CASE("unstable data: the bound of all files") {
  Machine m;
  SUBCASE("whoever has much of it commits early") {
    m.all->bytes = 48 * kMiB;
    REQUIRE(m.write(0, much(kMiB - 1)));
    m.pass(10ms);
    CHECK(m.server.commits == 0);
    REQUIRE(m.write(kMiB - 1, "xx"));
    m.pass(10ms);
    CHECK(m.server.commits == 1);
    CHECK(m.all->bytes == 48 * kMiB);
  }
  SUBCASE("whoever has nothing of it writes stably") {
    m.all->bytes = 65 * kMiB;
    REQUIRE(m.write(0, "text"));
    CHECK(m.server.stable_writes == 1);
    CHECK(m.data->empty());
  }
  SUBCASE("whoever has some of it waits for its COMMIT, but not for ever") {
    REQUIRE(m.write(0, "text"));
    m.all->bytes += 65 * kMiB;
    SUBCASE("that comes") {
      REQUIRE(m.write(4, "more"));
      CHECK(m.server.commits == 1);
      CHECK(m.server.disk == "textmore");
    }
    SUBCASE("that is late") {
      m.server.commit_takes = 1min;
      auto late = m.write(4, "more");
      REQUIRE_FALSE(late);
      CHECK(late.error().kind() == ErrorKind::timeout);
      CHECK(late.error().text() == "a file: COMMIT: the server does not commit in time");
      auto done = m.commit();
      REQUIRE_FALSE(done);
      CHECK(done.error().kind() == ErrorKind::timeout);
    }
  }
}

TEST_CASE("unstable data: it may go while a COMMIT beside is under way") {
  Machine m;
  m.server.commit_takes = 1min;
  m.all->bytes = 7;
  REQUIRE(m.write(0, much(33 * kMiB)));
  CHECK(m.server.commits == 1);
  SUBCASE("before it is answered") {}
  SUBCASE("while what was lost is written again") {
    m.server.restart();
    m.pass(1min + 10ms);
    CHECK(m.server.writes > 34);
  }
  m.data.reset();
  CHECK(m.all->bytes == 7);
  CHECK(m.record->openers.empty());
  m.pass(5min);
  CHECK(m.server.commits == 1);
}

TEST_CASE("unstable data: whatever is written, committed and lost, the disk has the last of it at the end") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
    Machine m;
    m.server.most = 1 + below(6);
    m.server.most_at_once = 1 + below(6);
    std::string model(32, '.');
    std::deque<std::optional<Status>> commits;
    for (unsigned step = 0; step < 60; ++step) {
      const unsigned offset = below(24), kind = below(10);
      const std::string text(1 + below(8), static_cast<char>('a' + below(26)));
      if (kind < 6) {
        const auto count = m.write(offset, text, kind == 0 ? How::file_sync : How::unstable);
        REQUIRE(count);
        model.replace(offset, text.size(), text);
      }
      if (kind == 6) m.start(m.commit_in_background(commits.emplace_back()));
      if (kind == 7) m.pass(std::chrono::microseconds(below(4000)));
      if (kind == 8) m.server.restart();
      if (kind == 9) CHECK(m.commit());
    }
    CHECK(m.commit());
    CHECK(m.data->empty());
    m.server.disk.resize(model.size(), '.');
    CHECK(m.server.disk == model);
    for (const auto& one : commits) CHECK((one && *one));
  }
}

}  // namespace nfsrdma::writing
