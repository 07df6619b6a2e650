// AnyWorkers read, write, and change what a file holds in other ways.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "engine/fast_read.h"
#include "sim/any_work.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWhole = 200'000;  // as much as no file has

/// A file in Findings::truncated while this lives, also if the program is killed.
class Truncated {
 public:
  Truncated(std::multiset<std::string>& all, const std::string& key) : all_(all), place_(all.insert(key)) {}
  ~Truncated() { all_.erase(place_); }
  Truncated(const Truncated&) = delete;
  Truncated& operator=(const Truncated&) = delete;

 private:
  std::multiset<std::string>& all_;
  const std::multiset<std::string>::iterator place_;
};

}  // namespace

/// On a client with a kernel some reads and writes go past it, as those of a ring do (fuse/ring_service.h).
bool AnyWorker::goes_past_kernel() {
  return kernel() != nullptr && random_.one_in(4);
}

async::Task<Result<std::string>> AnyWorker::read_some(OpenRef file, std::uint64_t offset, std::size_t most,
                                                      bool past) {
  if (past) {
    const async::Memory memory = loop().memory().take(most);
    fs::FileSystem::DirectRead how;
    how.ahead = random_.one_in(2);
    auto got = co_await fs().read_direct(file->handle, memory, {memory.data.get(), most}, offset, how);
    if (!got) co_return got.error();
    co_return std::string(reinterpret_cast<const char*>(memory.data.get()), *got);
  }
  if (kernel() != nullptr) co_return co_await kernel()->read(file->handle, file->inode, offset, most);
  std::string out;
  if (random_.one_in(2) && fs().begin_plain_read(*file->handle, offset, most)) {
    const async::Memory memory = loop().memory().take(most);
    auto fast = co_await engine::FastReadWait(*file->handle->file(), {memory.data.get(), most}, offset);
    Result<std::size_t> got = fast.count;
    if (fast.rest) got = co_await std::move(*fast.rest);
    fs().end_plain_read(*file->handle, got ? *got : 0);
    if (!got) co_return got.error();
    co_return std::string(reinterpret_cast<const char*>(memory.data.get()), *got);
  }
  auto got = co_await fs().read(file->handle, offset, most);
  if (!got) co_return got.error();
  for (const iovec& piece : got->pieces) out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  co_return out;
}

async::Task<void> AnyWorker::read(OpenRef file) {
  const std::uint64_t offset = random_.one_in(3) ? 0 : any_offset(*file);
  const std::size_t most = random_.one_in(3) ? kWhole : any_size();
  co_await read(std::move(file), offset, most);
}

async::Task<void> AnyWorker::read(OpenRef file, std::uint64_t offset, std::size_t most) {
  const bool past = goes_past_kernel();
  begin(past ? "read by a ring" : "read", oracle(*file).name() + " " + range_text(offset, most));
  count(Coverage::Operation::read, *file, most, past);
  const Operation operation(commons_.clock);
  // Where more is wanted than one READ of the server's brings it is done by pieces, each of which is judged.
  constexpr std::size_t kPiece = 16'384;
  for (std::size_t at = 0; at < most; at += kPiece) {
    const std::size_t size = std::min(kPiece, most - at);
    const Operation piece(commons_.clock);
    auto got = co_await read_some(file, offset + at, size, past);
    if (!got) {
      may_fail("read", got.error(), file->key);
      co_return;
    }
    judge(oracle(*file).check_read(client(), piece.begun(), offset + at, size, *got), *file);
    if (got->size() < size) co_return;
  }
}

async::Task<void> AnyWorker::write(OpenRef file) {
  const std::uint64_t offset = any_offset(*file);
  const std::size_t size = any_size();
  co_await write(std::move(file), offset, size);
}

async::Task<Status> AnyWorker::write_some(OpenRef file, std::uint64_t offset, std::string octets, bool past) {
  if (kernel() != nullptr && !past)
    co_return co_await kernel()->write(file->handle, file->inode, std::move(octets), offset, file->flags);
  async::Memory memory = loop().memory().take(octets.size());
  std::memcpy(memory.data.get(), octets.data(), octets.size());
  const std::span<const std::byte> data(memory.data.get(), octets.size());
  if (!past) co_return co_await fs().write(file->handle, std::move(memory), data, offset, file->flags);
  auto where = co_await fs().write_direct(file->handle, std::move(memory), data, offset, file->flags);
  if (!where) co_return where.error();
  co_return Status();
}

async::Task<void> AnyWorker::write(OpenRef file, std::uint64_t offset, std::size_t size) {
  const bool appends = (file->flags & O_APPEND) != 0;
  const bool past = goes_past_kernel();
  std::string octets = fresh_octets(size);
  begin(appends ? (past ? "append by a ring" : "append") : (past ? "write by a ring" : "write"),
        oracle(*file).name() + " " + range_text(offset, octets.size()));
  count(appends ? Coverage::Operation::append : Coverage::Operation::write, *file, octets.size(), past);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change =
      appends ? contents.begin_append(who(), octets) : contents.begin_write(who(), offset, octets);
  // A ring's write has neither the kernel's lock of the file nor its pages.
  if (kernel() == nullptr || past) contents.may_be_divided(change);
  if (past || (kernel() != nullptr && (file->flags & O_DIRECT) != 0)) contents.passes_pages_by(change);
  const Status done = co_await write_some(file, offset, std::move(octets), past);
  contents.end(change, outcome_of(done), (file->flags & O_SYNC) == O_SYNC);
  if (done) co_return;
  may_fail("write", done.error(), file->key);
  // Linux takes the pages of a write that failed for not read (fuse_send_write_pages()), and what was stored in them through a
  // mapping goes when they are read again. Nobody is told of that but by the error of this write. With O_SYNC the error may
  // also be that of an earlier write (generic_write_sync()), which no later fsync(2) of this descriptor tells again.
  if (kernel() != nullptr && !past) contents.doubt(client(), operation.begun());
}

/// F23: all writers of the world agree who writes which stripe of a file, so that they need no locks. Each opens the file,
/// writes in his stripe, and closes it, several times; behind each open he reads what the others have closed by then.
async::Task<void> AnyWorker::stripes() {
  constexpr std::uint64_t kStripe = 2500;  // pages have parts of several stripes
  constexpr std::uint64_t kMostRounds = 5;
  const std::uint64_t own = owner_ * kStripe;
  for (std::uint64_t left = random_.between(2, kMostRounds); left > 0; --left) {
    const OpenRef file = co_await open(kSharedNames.front(), O_RDWR | O_CREAT);
    if (!file) co_return;
    co_await read(file, 0, kWhole);
    for (std::uint64_t writes = random_.between(1, 3); writes > 0; --writes) {
      const std::uint64_t within = random_.below(kStripe);
      co_await write(file, own + within, 1 + random_.below(kStripe - within));
      if (random_.one_in(2)) co_await loop().sleep_for(random_.between(Duration{}, 5ms));
      if (random_.one_in(2)) co_await read(file, 0, kWhole);
    }
    co_await close(file);
  }
}

/// F30: a program makes a file longer that it cannot map, and then maps it, or copies from it.
async::Task<void> AnyWorker::lengthen_and_map() {
  const std::string name = any_name();
  const OpenRef writer = co_await open(name, O_WRONLY | O_CREAT);
  if (!writer) co_return;
  for (std::uint64_t writes = random_.between(1, 3); writes > 0; --writes) {
    const std::uint64_t end = std::min(a_size(*writer), kFurthest);
    const std::size_t size = any_size();
    co_await write(writer, end, size);
    if (random_.one_in(3)) co_await sync(writer);
    if (random_.one_in(2)) co_await stat(writer);
  }
  const OpenRef reader = co_await open(name, O_RDONLY);
  const OpenRef target = any_open(false, true);
  if (reader) {
    const std::uint64_t size = a_size(*reader);
    if (random_.one_in(2)) co_await load(reader, size - std::min<std::uint64_t>(size, 1));
    if (target && target->key != reader->key) co_await copy(reader, target);
    co_await load(reader);
    co_await close(reader);
  }
  co_await close(writer);
}

async::Task<void> AnyWorker::load(OpenRef file) {
  const std::uint64_t offset = any_offset(*file);
  co_await load(std::move(file), offset);
}

/// F30: a mapping reaches to the end of the file, as far as the program has to know it.
async::Task<void> AnyWorker::load(OpenRef file, std::uint64_t offset) {
  begin("load", oracle(*file).name() + " " + std::to_string(offset));
  count_whole(Coverage::Operation::load, *file);
  const Operation operation(commons_.clock);
  auto got = co_await kernel()->load(file->handle, file->inode, offset);
  if (!got) {
    may_fail("load", got.error(), file->key);
    co_return;
  }
  std::string text = got->value_or("");
  // Behind the end of a file that another client has cut there may be zeros.
  text.erase(text.find_last_not_of('\0') + 1);
  const std::uint64_t asked = *got ? text.size() : 1;
  const std::string verdict = oracle(*file).check_read(client(), operation.begun(), offset, asked, text);
  judge(verdict.empty() || *got ? verdict : "SIGBUS: " + verdict, *file);
}

async::Task<void> AnyWorker::store(OpenRef file) {
  const std::uint64_t offset = random_.below(a_size(*file) + 1);
  const std::size_t size = kernel()->room(file->inode, offset, 1 + random_.below(300));
  if (size == 0) co_return;
  begin("store", oracle(*file).name() + " " + range_text(offset, size));
  count(Coverage::Operation::store, *file, size);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  std::string octets = fresh_octets(size);
  const FileOracle::ChangeId change = contents.begin_store(who(), offset, octets);
  auto done = co_await kernel()->store(file->handle, file->inode, offset, std::move(octets));
  if (done && *done != 0) co_return contents.end(change, Outcome::done);
  contents.cancel(change);
  if (!done) may_fail("store", done.error(), file->key);
}

async::Task<void> AnyWorker::stat(OpenRef file) {
  begin("fstat", oracle(*file).name());
  count_whole(Coverage::Operation::stat, *file);
  const Operation operation(commons_.clock);
  Result<std::uint64_t> size = 0;
  if (kernel() != nullptr) {
    size = co_await kernel()->size(file->inode);
  } else {
    auto told = co_await fs().attributes(kOwn, file->inode);
    if (told)
      size = told->attributes.size;
    else
      size = told.error();
  }
  if (size)
    judge(oracle(*file).check_size(client(), operation.begun(), *size), *file);
  else
    may_fail("fstat", size.error(), file->key);
}

/// Returns the size of the file behind the changes.
async::Task<Result<std::uint64_t>> AnyWorker::set_attributes(OpenRef file, SetAttributes changes,
                                                             bool by_handle) {
  if (kernel() != nullptr)
    co_return co_await kernel()->set_attributes(file->handle, file->inode, changes, by_handle);
  std::shared_ptr<fs::OpenHandle> handle;
  if (by_handle) handle = file->handle;
  auto done = co_await fs().set_attributes(kOwn, file->inode, changes, std::move(handle));
  if (!done) co_return done.error();
  co_return done->attributes.size;
}

async::Task<void> AnyWorker::truncate(OpenRef file) {
  SetAttributes changes;
  changes.size = any_offset(*file);
  const bool by_handle = random_.one_in(2);
  begin("truncate", oracle(*file).name() + " to " + std::to_string(*changes.size));
  count(Coverage::Operation::truncate, *file, *changes.size);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change = contents.begin_truncate(who(), *changes.size);
  std::optional<Truncated> by_name;
  if (!by_handle) by_name.emplace(findings_.truncated, file->key);
  const Result<std::uint64_t> size = co_await set_attributes(file, changes, by_handle);
  contents.end(change, size ? Outcome::done : outcome_of(size.error()), true);
  if (size)
    judge(contents.check_size(client(), operation.begun(), *size), *file);
  else
    may_fail("truncate", size.error(), file->key);
}

async::Task<void> AnyWorker::touch(OpenRef file) {
  const bool by_handle = random_.one_in(2);
  begin("touch", oracle(*file).name());
  count_whole(Coverage::Operation::touch, *file);
  const Operation operation(commons_.clock);
  SetAttributes changes;
  changes.modified = nfsrdma::Time{static_cast<std::int64_t>(random_.between(1, 1'000'000'000)), 0};
  const Result<std::uint64_t> size = co_await set_attributes(file, changes, by_handle);
  if (size)
    judge(oracle(*file).check_size(client(), operation.begun(), *size), *file);
  else
    may_fail("utimensat", size.error(), file->key);
}

async::Task<void> AnyWorker::allocate(OpenRef file, bool punches) {
  const std::uint64_t offset = any_offset(*file);
  const std::size_t length = any_size();
  begin(punches ? "punch" : "allocate", oracle(*file).name() + " " + range_text(offset, length));
  count(punches ? Coverage::Operation::punch : Coverage::Operation::allocate, *file, length);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change =
      punches ? contents.begin_punch(who(), offset, length) : contents.begin_allocate(who(), offset, length);
  const int mode = punches ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
  Status done;
  if (kernel() != nullptr)
    done = co_await kernel()->allocate(file->handle, file->inode, mode, offset, length);
  else
    done = co_await fs().allocate(file->handle, mode, offset, length);
  if (!done && done.error().errno_value() == EOPNOTSUPP) {
    contents.cancel(change);
    co_return;
  }
  contents.end(change, outcome_of(done), true);
  if (!done) may_fail("fallocate", done.error(), file->key);
}

async::Task<void> AnyWorker::seek(OpenRef file) {
  const std::uint64_t offset = any_offset(*file);
  const bool for_hole = random_.one_in(2);
  begin(for_hole ? "seek to a hole" : "seek to data", oracle(*file).name() + " " + std::to_string(offset));
  count_whole(Coverage::Operation::seek, *file);
  const Operation operation(commons_.clock);
  const int whence = for_hole ? SEEK_HOLE : SEEK_DATA;
  auto found = co_await fs().seek(file->handle, offset, whence);
  FileOracle& contents = oracle(*file);
  const Tick begun = operation.begun();
  if (found && for_hole) {
    judge(contents.check_hole(client(), begun, *found, *found + 1), *file);
  } else if (found) {
    judge(contents.check_hole(client(), begun, offset, *found), *file);
  } else if (found.error().errno_value() == ENXIO) {
    judge(contents.check_hole(client(), begun, offset, for_hole ? offset + 1 : FileOracle::kEnd), *file);
  } else {
    may_fail("lseek", found.error(), file->key);
  }
}

async::Task<void> AnyWorker::copy(OpenRef from, OpenRef to) {
  const std::uint64_t at = any_offset(*from), offset = any_offset(*to);
  const std::size_t length = any_size();
  begin("copy", oracle(*from).name() + " " + range_text(at, length) + " to " + oracle(*to).name() + " " +
                    std::to_string(offset));
  count(Coverage::Operation::copy, *to, length);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*to);
  const FileOracle::ChangeId change = contents.begin_copy(who(), offset, length);
  if (kernel() != nullptr) contents.passes_pages_by(change);
  Result<std::uint64_t> done = 0;
  std::uint64_t asked = length;
  if (kernel() != nullptr)
    done =
        co_await kernel()->copy(from->handle, from->inode, at, to->handle, to->inode, offset, length, asked);
  else
    done = co_await fs().copy(from->handle, at, to->handle, offset, length);
  const int code = done ? 0 : done.error().errno_value();
  // The server has COPY in NFSv4.2: there the client says so where each time the verifier told that what was copied may be
  // lost. So the octets may be there. The kernel then reads and writes, which is not modelled here.
  if (code == EOPNOTSUPP) {
    if (findings_.has_v42)
      contents.end(change, Outcome::failed);
    else
      contents.cancel(change);
    co_return;
  }
  if (!done) {
    contents.end(change, outcome_of(done.error()));
    // The source may be shorter than what is to be copied, which the kernel looks at before it asks.
    if (code != EINVAL) {
      const bool is_source = commons_.unnamed.contains(from->key);
      may_fail("copy_file_range", done.error(), is_source ? from->key : to->key);
    }
    co_return;
  }
  if (*done > length)
    wrong("copy_file_range says " + std::to_string(*done) + " of " + std::to_string(length));
  // The kernel asks for less than the program only at the end of the file. The server may copy less, but nothing only there.
  FileOracle& source = oracle(*from);
  if (asked < length)
    judge(source.check_read(client(), operation.begun(), at + asked, length - asked, ""), *from);
  if (asked != 0 && *done == 0) judge(source.check_read(client(), operation.begun(), at, asked, ""), *from);
  contents.copied(change, source, at, *done);
  contents.end(change, Outcome::done);
  // What the server may have lost is copied once more (RFC 7862 15.1). If the source has been cut meanwhile the second copy is
  // shorter, and behind its end there is what the first one has brought.
  const bool may_be_second =
      *done < asked && source.check_read(client(), operation.begun(), at + *done, 1, "").empty();
  if (may_be_second) contents.end(contents.begin_copy(who(), offset + *done, asked - *done), Outcome::failed);
}

}  // namespace nfsrdma::sim
