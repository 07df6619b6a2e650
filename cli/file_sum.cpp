// See file_sum.h.
#include "cli/file_sum.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "cli/changes.h"
#include "cli/report.h"
#include "cli/sha256.h"

namespace nfsrdma::cli {
namespace {

/// Adds what a download brings to a checksum.
class SumSink final : public LocalEnd {
 public:
  int run(Chunk& chunk, const StopFlag& /*stop*/) override {
    sum_.add(chunk.memory.first(chunk.length));
    return 0;
  }
  [[nodiscard]] Sha256& sum() { return sum_; }

 private:
  Sha256 sum_;
};

}  // namespace

Result<FileSum> sum_of(const Remote& file, const Attributes& attributes, const char* operation,
                       const Moved& moved, std::uint64_t rate) {
  auto opened = file.client->open(file.path, OpenMode::read);
  if (!opened) return opened.error();
  auto download = make_download(*file.client, {*std::move(opened), attributes}, Download::Holes::read, rate);
  if (!download) return download.error();
  SumSink sink;
  const auto size = download->run(sink, file.text(), moved);
  if (!size) return size.error();
  const Status same = check_unchanged(download->file(), attributes, operation, file.text());
  if (!same) return same.error();
  return FileSum{sink.sum().finish(), *size};
}

Result<FileSum> sum_of(const LocalDirectory& directory, const std::string& name, const char* operation,
                       bool from_disk) {
  constexpr std::size_t piece = 1U << 20;
  LocalEntry entry{name, {}, {}};
  const auto fd = directory.open_file(entry, operation);
  if (!fd) return fd.error();
  if (from_disk && ::fdatasync(fd->get()) == 0) (void)::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_DONTNEED);
  const auto size = static_cast<std::size_t>(entry.facts.st_size);
  std::vector<std::byte> room(std::clamp<std::size_t>(size + 1, 1, piece));
  Sha256 sum;
  std::uint64_t total = 0;
  for (;;) {
    const ssize_t count = ::read(fd->get(), room.data(), room.size());
    if (interrupt::raised()) return interrupted();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return local_error(errno, "read", directory.path(name));
    if (count == 0) break;
    sum.add(std::span(room).first(static_cast<std::size_t>(count)));
    total += static_cast<std::uint64_t>(count);
  }
  if (has_changed(fd->get(), entry.facts)) return source_changed(operation, directory.path(name));
  return FileSum{sum.finish(), total};
}

}  // namespace nfsrdma::cli
