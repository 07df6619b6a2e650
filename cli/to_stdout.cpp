// See to_stdout.h.
#include "cli/to_stdout.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "cli/changes.h"
#include "cli/crowd.h"
#include "cli/local.h"
#include "cli/local_tree.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* stdout_name = "standard output";
constexpr std::uint32_t owner_reads = 0400;

/// The first bytes of a file.
struct Beginning {
  std::vector<std::byte> data;
  bool eof = false;       ///< the file ends there
  Attributes attributes;  ///< just after the read
};

/// Returns nothing if the file has to be opened, which also shows why it cannot be read. A file that was not
/// opened could be read by its owner against its mode.
std::optional<Beginning> read_beginning(const Remote& remote) {
  Beginning out;
  out.data.resize(std::min<std::size_t>(small_file, remote.client->info().rsize));
  const std::array items{ReadItem{remote.path, out.data}};
  const auto results = remote.client->read_many(items);
  const Result<FileRead>& read = results.front();
  if (!read || !read->attributes || (read->attributes->mode & owner_reads) == 0) return std::nullopt;
  out.data.resize(read->count);
  out.eof = read->eof;
  out.attributes = *read->attributes;
  return out;
}

/// Returns false if standard output has failed, which is left to main().
bool write_to_stdout(Call& call, std::span<const std::byte> data) {
  if (!call.out.flush()) return false;
  const Status done = write_all(STDOUT_FILENO, data, stdout_name);
  if (!done) call.out.set_error(done.error().errno_value());
  return done.has_value();
}

/// A copy leaves out the bytes before `begin`, and those from `end` on.
struct Limits {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;
};

Status copy_opened(Call& call, const Remote& remote, RemoteSource source, const Limits& limits,
                   Progress& progress) {
  if (!call.out.flush()) return {};
  const Attributes before = source.attributes;
  if (limits.end) source.attributes.size = *limits.end;
  Result<Download> download = make_download(*remote.client, std::move(source), Download::Holes::read);
  if (!download) return download.error();
  download->begin_at(limits.begin);
  if (limits.end) download->end_at(*limits.end);
  StreamSink sink(STDOUT_FILENO);
  const Result<std::uint64_t> size =
      download->run(sink, stdout_name, [&](std::uint64_t bytes) { progress.update(limits.begin + bytes); });
  if (size) {
    progress.finish(*size);
    return check_unchanged(download->file(), before, call.command.name, remote.text(), Growth::accepted);
  }
  if (size.error().kind() != ErrorKind::local || size.error().peer() != stdout_name) return size.error();
  call.out.set_error(size.error().errno_value());
  return {};
}

/// The attributes of `beginning` stand for those at the time of the open: the check at the end compares with
/// them.
Status copy_rest(Call& call, const Remote& remote, const Beginning& beginning, Progress& progress) {
  Result<std::unique_ptr<File>> file = remote.client->open(remote.path, OpenMode::read);
  if (!file) return file.error();
  return copy_opened(call, remote, {*std::move(file), beginning.attributes}, {beginning.data.size(), {}},
                     progress);
}

}  // namespace

Result<RemoteSource> open_remote(const Remote& remote, const char* command, const char* at_directory) {
  Result<std::unique_ptr<File>> file = remote.client->open(remote.path, OpenMode::read);
  if (!file && file.error().errno_value() == EISDIR)
    return Error(ErrorKind::server, EISDIR, command, remote.text(),
                 std::string("is a directory; ") + at_directory);
  if (!file) return file.error();
  Result<Attributes> attributes = (*file)->attributes();
  if (!attributes) return attributes.error();
  return RemoteSource{*std::move(file), *std::move(attributes)};
}

Status copy_to_stdout(Call& call, const Remote& remote, RemoteSource source, std::optional<Span> part,
                      Progress& progress) {
  const Limits limits = part ? Limits{part->begin, part->end} : Limits();
  return copy_opened(call, remote, std::move(source), limits, progress);
}

Status copy_to_stdout(Call& call, const Remote& remote, Progress& progress) {
  if (const auto beginning = read_beginning(remote)) {
    if (!write_to_stdout(call, beginning->data)) return {};
    if (!beginning->eof) return copy_rest(call, remote, *beginning, progress);
    progress.finish(beginning->data.size());
    return {};
  }
  Result<RemoteSource> source = open_remote(remote, call.command.name, "use ls to list it");
  if (!source) return source.error();
  return copy_to_stdout(call, remote, *std::move(source), {}, progress);
}

}  // namespace nfsrdma::cli
