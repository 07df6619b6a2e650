#include "fs/early_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace nfsrdma::fs {

namespace {
constexpr auto kEarlyWait = std::chrono::milliseconds(5);
}  // namespace

/// The first bytes of a file that is being opened.
struct EarlyReads::Early {
  Early(async::Loop& loop, std::size_t size)
      : memory(loop.memory().take(size)), wanted(size), begun(loop.now()), ended(loop) {}
  async::Memory memory;
  const std::size_t wanted;
  const async::TimePoint begun;
  std::uint64_t changed = 0;  ///< KnownAttributes::changed() when the READ began
  bool done = false;
  std::optional<Engine::EarlyRead> got;
  async::Event ended;
};

std::shared_ptr<EarlyReads::Early> EarlyReads::begin(const Caller& caller, const Inode& inode, int flags) {
  constexpr std::size_t kMost = 16U << 10, kPage = 4096;
  constexpr unsigned kNowAndThen = 16;
  const bool plain = access_of(flags) == Access::read && (flags & (O_TRUNC | O_DIRECT)) == 0;
  const std::uint64_t size = inode.end();
  if (!plain || size == 0 || size > kMost || inode.type != FileType::regular) return nullptr;
  if (inode.attributes.is_cached() || !inode.open.empty() || !inode.writes.empty()) return nullptr;
  if (engine_->promises().delegated(inode.handle)) return nullptr;
  if (early_worth_ <= 0 && ++early_tries_ % kNowAndThen != 0) return nullptr;
  const auto out = std::make_shared<Early>(loop_, (size + kPage - 1) / kPage * kPage);
  out->changed = inode.attributes.changed();
  background_.spawn(read(engine_, caller, inode.handle, out));
  return out;
}

async::Task<void> EarlyReads::read(std::shared_ptr<Engine> engine, Caller caller, FileHandle handle,
                                   std::shared_ptr<Early> early) {
  auto got =
      co_await engine->read_early(std::move(caller), handle, {early->memory.data.get(), early->wanted});
  if (got) early->got = *got;
  early->done = true;
  early->ended.notify_all();
}

async::Task<void> EarlyReads::take(std::shared_ptr<Early> early, std::shared_ptr<OpenHandle> file,
                                   Attributes told) {
  const auto last = loop_.now() + kEarlyWait;
  while (!early->done) {
    const bool in_time = co_await early->ended.wait_until(last);
    if (!in_time) co_return;
  }
  const Inode& inode = file->inode();
  const bool same =
      early->got && early->got->change == told.change && inode.attributes.changed() == early->changed;
  if (same && inode.writes.empty())
    file->has_read(std::move(early->memory), early->wanted, early->got->size, early->begun);
}

void EarlyReads::judge(const OpenHandle& file) {
  if (file.early_read)
    early_worth_ = std::clamp(early_worth_ + (file.used_early() ? 1 : -1), 0, kMostEarlyWorth);
}

}  // namespace nfsrdma::fs
