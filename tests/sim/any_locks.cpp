// AnyWorkers lock ranges of files, and unlock them.
#include <algorithm>
#include <cerrno>

#include "sim/any_work.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

bool overlap(const LockRange& a, const LockRange& b) {
  return a.offset < b.end() && b.offset < a.end();
}

}  // namespace

/// Locks of one owner do not lie upon each other: a new one replaces, and an unlock ends, what the owner has had of the range.
/// The parts of older locks in front of the range and behind it stay (fcntl(2)).
void AnyWorker::end_locks(const std::string& key, const LockRange& range, Tick released) {
  std::vector<Commons::Lock> left;
  for (Commons::Lock& one : commons_.locks) {
    const bool ends =
        one.owner == owner_ && one.file == key && one.released == 0 && overlap(one.range, range);
    if (!ends) continue;
    const LockRange whole = one.range;
    one.range = LockRange::between(std::max(whole.offset, range.offset), std::min(whole.end(), range.end()));
    one.released = released;
    for (const LockRange part : {LockRange{whole.offset, one.range.offset - whole.offset},
                                 LockRange::between(one.range.end(), whole.end())}) {
      if (part.length == 0 || part.offset == LockRange::kToTheEnd) continue;
      left.push_back({one.client, one.owner, one.file, part, one.write, 0});
    }
  }
  commons_.locks.insert(commons_.locks.end(), left.begin(), left.end());
}

/// S16: nobody else has it, and what its last holder did is to be seen.
void AnyWorker::granted(const Open& file, const LockRequest& request, Tick begun) {
  FileOracle& contents = oracle(file);
  for (const Commons::Lock& one : commons_.locks) {
    const bool conflicts = one.file == file.key && one.owner != owner_ && (one.write || request.write) &&
                           overlap(one.range, request.range);
    if (!conflicts) continue;
    if (one.released == 0 && !findings_.leases_end)
      wrong("owner " + std::to_string(one.owner) + " has a lock on " +
            range_text(one.range.offset, one.range.length));
    if (one.released != 0 && one.client != client()) contents.handed_over(one.client, client(), one.released);
  }
  end_locks(file.key, request.range, begun);
  std::erase_if(commons_.locks, [&](const Commons::Lock& one) {
    return one.file == file.key && one.released != 0 && overlap(one.range, request.range) &&
           one.owner == owner_;
  });
  contents.opened(client(), begun);
  commons_.locks.push_back({client(), owner_, file.key, request.range, request.write, 0});
  has_lock_ = true;
}

async::Task<void> AnyWorker::lock(OpenRef file) {
  LockRequest request{owner_, file->writes() && (!file->reads() || random_.one_in(2)), {}};
  if (random_.one_in(2)) request.range = {any_offset(*file), any_size()};
  begin("lock", oracle(*file).name() + (request.write ? " to write " : " to read ") +
                    range_text(request.range.offset, request.range.length));
  count_whole(Coverage::Operation::lock, *file);
  const Operation operation(commons_.clock);
  std::shared_ptr<locking::LockWait> wait;
  async::Loop::TimerId alarm{};
  if (random_.one_in(2)) {
    wait = std::make_shared<locking::LockWait>(loop());
    alarm = loop().at(loop().now() + random_.between(Duration{}, 2s), [wait] { wait->cancel(); });
  }
  auto done = co_await fs().lock(file->handle, request, wait);
  if (wait && !wait->cancelled()) loop().cancel(alarm);
  if (done) co_return granted(*file, request, operation.begun());
  const int code = done.error().errno_value();
  if (code != EAGAIN && code != EINTR) may_fail("lock", done.error(), file->key);
}

async::Task<void> AnyWorker::unlock() {
  const auto is_mine = [this](const Commons::Lock& one) { return one.owner == owner_ && one.released == 0; };
  const auto found = std::ranges::find_if(commons_.locks, is_mine);
  has_lock_ = false;
  if (found == commons_.locks.end()) co_return;
  const Commons::Lock held = *found;
  const auto file = std::ranges::find(*open_, held.file, [](const OpenRef& one) { return one->key; });
  if (file == open_->end()) co_return;
  const OpenRef through = *file;
  begin("unlock", oracle(*through).name());
  count_whole(Coverage::Operation::unlock, *through);
  const Operation operation(commons_.clock);
  end_locks(held.file, held.range, operation.begun());
  auto done = co_await fs().unlock(through->handle, owner_, held.range);
  if (done) {
    oracle(*through).unlocked(client(), operation.begun());
  } else {
    may_fail("unlock", done.error(), through->key);
    oracle(*through).doubt(client(), operation.begun());
  }
}

}  // namespace nfsrdma::sim
