// The functions of the C interface on open files.
#include <algorithm>
#include <cerrno>
#include <climits>

#include "api/file_core.h"
#include "api/names.h"

using namespace nfsrdma;
using namespace nfsrdma::api;
using engine::Access;
using engine::ServerFile;

namespace {

constexpr Access kAny{};  // allowed whatever the file was opened for

std::int64_t as_count(std::size_t count) {
  return static_cast<std::int64_t>(count);
}

/// Makes a call on a file, after checking the arguments that all calls have.
template <class R, class Make, class Finish>
std::int64_t on_file(nfsrdma_file* file, Access access, const nfsrdma_call* call, nfsrdma_error** error,
                     Make make, Finish finish) {
  return guarded(error, [&]() -> std::int64_t {
    if (file == nullptr) return fail(error, missing("file"));
    const auto how = How::from(call, file->client(), &file->path());
    if (!how) return fail(error, how.error());
    return file->call<R>(access, *how, error, make, std::move(finish));
  });
}

/// Returns the parts of a vectored transfer, without empty ones.
Result<Parts> parts_of(const struct iovec* parts, std::size_t count) {
  if (parts == nullptr && count != 0) return missing("parts");
  Parts out;
  out.reserve(count);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    if (parts[i].iov_base == nullptr || parts[i].iov_len > SSIZE_MAX - sum) return missing("parts");
    sum += parts[i].iov_len;
    out.emplace_back(static_cast<std::byte*>(parts[i].iov_base), parts[i].iov_len);
  }
  return out;
}

Stability stability_of(std::uint32_t flags) {
  return (flags & NFSRDMA_ON_DISK) != 0 ? Stability::on_disk : Stability::unstable;
}

std::optional<Error> bad_memory(const void* data, std::size_t size) {
  if (size > SSIZE_MAX) return missing("size");
  if (data == nullptr && size != 0) return missing("data");
  return std::nullopt;
}

std::span<const std::byte> bytes(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace

// ---- reading ----

int64_t nfsrdma_pread(nfsrdma_file* file, void* data, size_t size, uint64_t offset, const nfsrdma_call* call,
                      nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (file == nullptr) return fail(error, missing("file"));
    if (auto why = bad_memory(data, size)) return fail(error, *why);
    const auto how = How::from(call, file->client(), &file->path());
    if (!how) return fail(error, how.error());
    return file->read({static_cast<std::byte*>(data), size}, offset, *how, error);
  });
}

int64_t nfsrdma_preadv(nfsrdma_file* file, const struct iovec* parts, size_t count, uint64_t offset,
                       const nfsrdma_call* call, nfsrdma_error** error) {
  auto all = parts_of(parts, count);
  if (!all) return fail(error, all.error());
  const auto read = [&](ServerFile& server_file) {
    return file->read_parts(server_file, std::move(*all), offset);
  };
  return on_file<Result<std::size_t>>(file, Access::read, call, error, read, as_count);
}

int64_t nfsrdma_pread_holes(nfsrdma_file* file, void* data, size_t size, uint64_t offset,
                            nfsrdma_holes* holes, const nfsrdma_call* call, nfsrdma_error** error) {
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_holes, hole_ends);
  if (auto why = bad_memory(data, size)) return fail(error, *why);
  if (auto why = short_struct("nfsrdma_holes", holes, kShortest)) return fail(error, *why);
  const auto read = [&](ServerFile& server_file) {
    return file->read_stretches(server_file, {static_cast<std::byte*>(data), size}, offset);
  };
  using Stretch = FileCore::Stretch;
  return on_file<Result<Stretch>>(file, Access::read, call, error, read, [holes](const Stretch& found) {
    const nfsrdma_holes out{0, found.has_holes ? 1U : 0U, found.hole_ends};
    (void)store(out, holes, kShortest);
    return as_count(found.count);
  });
}

// ---- writing ----

namespace {

std::int64_t write(nfsrdma_file* file, const void* data, std::size_t size, std::uint64_t offset,
                   std::uint32_t flags, std::shared_ptr<const void> keeper, const nfsrdma_call* call,
                   nfsrdma_error** error) {
  if (auto why = bad_memory(data, size)) return fail(error, *why);
  if (auto why = unknown_flags(flags, NFSRDMA_ON_DISK)) return fail(error, *why);
  const auto send = [&](ServerFile& server_file) {
    return file->write_all(server_file, bytes(data, size), offset, stability_of(flags), std::move(keeper));
  };
  return on_file<Result<std::size_t>>(file, Access::write, call, error, send, as_count);
}

}  // namespace

int64_t nfsrdma_pwrite(nfsrdma_file* file, const void* data, size_t size, uint64_t offset, uint32_t flags,
                       const nfsrdma_call* call, nfsrdma_error** error) {
  return write(file, data, size, offset, flags, nullptr, call, error);
}

int64_t nfsrdma_pwrite_kept(nfsrdma_file* file, const void* data, size_t size, uint64_t offset,
                            uint32_t flags, void (*release)(void*), void* release_data,
                            const nfsrdma_call* call, nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (release == nullptr) return fail(error, missing("release"));
    std::shared_ptr<const void> keeper(data, [=](const void*) { release(release_data); });
    return write(file, data, size, offset, flags, std::move(keeper), call, error);
  });
}

int64_t nfsrdma_pwritev(nfsrdma_file* file, const struct iovec* parts, size_t count, uint64_t offset,
                        uint32_t flags, const nfsrdma_call* call, nfsrdma_error** error) {
  auto all = parts_of(parts, count);
  if (!all) return fail(error, all.error());
  if (auto why = unknown_flags(flags, NFSRDMA_ON_DISK)) return fail(error, *why);
  const auto send = [&](ServerFile& server_file) {
    return file->write_parts(server_file, std::move(*all), offset, stability_of(flags));
  };
  return on_file<Result<std::size_t>>(file, Access::write, call, error, send, as_count);
}

int64_t nfsrdma_sync(nfsrdma_file* file, const nfsrdma_call* call, nfsrdma_error** error) {
  const auto commit = [](ServerFile& server_file) { return server_file.commit(nullptr); };
  return on_file<Status>(file, kAny, call, error, commit, nothing);
}

// ---- attributes, extents, space, copies ----

int64_t nfsrdma_fstat(nfsrdma_file* file, nfsrdma_attributes* attributes, const nfsrdma_call* call,
                      nfsrdma_error** error) {
  if (auto why = unfit(attributes)) return fail(error, *why);
  const auto ask = [&](ServerFile& server_file) { return file->read_attributes(server_file); };
  return on_file<Result<Attributes>>(file, kAny, call, error, ask, [attributes](const Attributes& found) {
    (void)store(found, attributes);
    return std::int64_t{0};
  });
}

int64_t nfsrdma_fset_attributes(nfsrdma_file* file, const nfsrdma_changes* changes, const nfsrdma_call* call,
                                nfsrdma_error** error) {
  const auto given = changes_from(changes);
  if (!given) return fail(error, given.error());
  const auto set = [&](ServerFile& server_file) { return file->set_attributes(server_file, *given); };
  return on_file<Result<Attributes>>(file, kAny, call, error, set,
                                     [](const Attributes&) { return std::int64_t{0}; });
}

int64_t nfsrdma_next_extent(nfsrdma_file* file, uint64_t offset, nfsrdma_extent* extent,
                            const nfsrdma_call* call, nfsrdma_error** error) {
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_extent, is_hole);
  if (auto why = short_struct("nfsrdma_extent", extent, kShortest)) return fail(error, *why);
  using Found = std::optional<Extent>;
  const auto find = [&](ServerFile& server_file) { return file->find_extent(server_file, offset); };
  return on_file<Result<Found>>(file, kAny, call, error, find, [extent](const Found& found) {
    if (!found) return std::int64_t{0};
    const nfsrdma_extent out{0, found->offset, found->length, found->hole ? 1U : 0U, 0};
    (void)store(out, extent, kShortest);
    return std::int64_t{1};
  });
}

int64_t nfsrdma_seek(nfsrdma_file* file, uint64_t offset, int hole, uint64_t* found, const nfsrdma_call* call,
                     nfsrdma_error** error) {
  if (found == nullptr) return fail(error, missing("found"));
  using Place = std::optional<std::uint64_t>;
  const auto seek = [&](ServerFile& server_file) { return server_file.seek(offset, hole != 0); };
  return on_file<Result<Place>>(file, kAny, call, error, seek, [found](const Place& place) {
    if (place) *found = *place;
    return std::int64_t{place ? 1 : 0};
  });
}

int64_t nfsrdma_allocate(nfsrdma_file* file, uint64_t offset, uint64_t length, const nfsrdma_call* call,
                         nfsrdma_error** error) {
  const auto allocate = [&](ServerFile& server_file) { return server_file.allocate(offset, length); };
  return on_file<Status>(file, Access::write, call, error, allocate, nothing);
}

int64_t nfsrdma_punch(nfsrdma_file* file, uint64_t offset, uint64_t length, const nfsrdma_call* call,
                      nfsrdma_error** error) {
  const auto punch = [&](ServerFile& server_file) { return server_file.deallocate(offset, length); };
  return on_file<Status>(file, Access::write, call, error, punch, nothing);
}

int64_t nfsrdma_copy(nfsrdma_file* source, uint64_t source_offset, nfsrdma_file* file, uint64_t offset,
                     uint64_t count, const nfsrdma_call* call, nfsrdma_error** error) {
  if (source == nullptr) return fail(error, missing("source"));
  const auto copy = [&](ServerFile& /*server_file*/) {
    return file->copy_from(*source, source_offset, offset, count);
  };
  return on_file<Result<std::uint64_t>>(file, Access::write, call, error, copy, [](std::uint64_t copied) {
    return static_cast<std::int64_t>(copied);
  });
}

// ---- locks ----

namespace {

constexpr std::size_t kShortestLock = NFSRDMA_LENGTH_TO(nfsrdma_lock, length);

Result<LockRequest> lock_from(const nfsrdma_lock* from) {
  nfsrdma_lock given{};
  if (auto why = load("nfsrdma_lock", from, given, kShortestLock)) return *why;
  return LockRequest{given.owner, given.write != 0, {given.offset, given.length}};
}

}  // namespace

int64_t nfsrdma_lock_range(nfsrdma_file* file, const nfsrdma_lock* lock, int64_t wait,
                           const nfsrdma_call* call, nfsrdma_error** error) {
  const auto request = lock_from(lock);
  if (!request) return fail(error, request.error());
  const auto take = [&](ServerFile& server_file) {
    return file->lock(server_file, *request, std::chrono::milliseconds(std::max<std::int64_t>(wait, 0)));
  };
  return on_file<Status>(file, kAny, call, error, take, nothing);
}

int64_t nfsrdma_unlock_range(nfsrdma_file* file, const nfsrdma_lock* lock, const nfsrdma_call* call,
                             nfsrdma_error** error) {
  const auto request = lock_from(lock);
  if (!request) return fail(error, request.error());
  const auto release = [&](ServerFile& server_file) {
    return file->unlock(server_file, request->owner, request->range);
  };
  return on_file<Status>(file, kAny, call, error, release, nothing);
}

int64_t nfsrdma_test_lock(nfsrdma_file* file, const nfsrdma_lock* lock, nfsrdma_lock* holder,
                          const nfsrdma_call* call, nfsrdma_error** error) {
  const auto request = lock_from(lock);
  if (!request) return fail(error, request.error());
  if (auto why = short_struct("nfsrdma_lock", holder, kShortestLock)) return fail(error, *why);
  using Found = std::optional<LockHolder>;
  const auto test = [&](ServerFile& server_file) { return server_file.test_lock(*request); };
  return on_file<Result<Found>>(file, kAny, call, error, test, [holder](const Found& found) {
    if (!found) return std::int64_t{0};
    const nfsrdma_lock out{0,
                           found->owner,
                           found->write ? 1U : 0U,
                           found->ours ? 1U : 0U,
                           found->range.offset,
                           found->range.length};
    (void)store(out, holder, kShortestLock);
    return std::int64_t{1};
  });
}

// ---- the end ----

int64_t nfsrdma_close(nfsrdma_file* file, const nfsrdma_call* call, nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (file == nullptr) return fail(error, missing("file"));
    const auto how = How::from(call, file->client(), &file->path());
    if (!how) return fail(error, how.error());
    const auto end = [&] { return file->end(); };
    return file->client().call<Status>(file->calls(), *how, error, end, nothing, ClientCore::Needs::nothing);
  });
}

void nfsrdma_file_free(nfsrdma_file* file) {
  if (file != nullptr && !file->client().is_inherited()) delete file;
}
