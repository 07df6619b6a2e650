// See to_stdout.h.
#include "cli/to_stdout.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "cli/changes.h"
#include "cli/local.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* stdout_name = "standard output";

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
  if (!call.out.flush()) return {};
  const Attributes before = source.attributes;
  if (part) source.attributes.size = part->end;
  Result<Download> download = make_download(*remote.client, std::move(source), Download::Holes::read);
  if (!download) return download.error();
  if (part) download->begin_at(part->begin);
  if (part) download->end_at(part->end);
  StreamSink sink(STDOUT_FILENO);
  const Result<std::uint64_t> size =
      download->run(sink, stdout_name, [&progress](std::uint64_t bytes) { progress.update(bytes); });
  if (size) {
    progress.finish(*size);
    return check_unchanged(download->file(), before, call.command.name, remote.text(), Growth::accepted);
  }
  if (size.error().kind() != ErrorKind::local || size.error().peer() != stdout_name) return size.error();
  call.out.set_error(size.error().errno_value());
  return {};
}

Status copy_to_stdout(Call& call, const Remote& remote, Progress& progress) {
  Result<RemoteSource> source = open_remote(remote, call.command.name, "use ls to list it");
  if (!source) return source.error();
  return copy_to_stdout(call, remote, *std::move(source), {}, progress);
}

}  // namespace nfsrdma::cli
