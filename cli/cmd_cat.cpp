// cat, head: contents of files, from their beginning or in ranges, on standard output.
#include <string>

#include "cli/line_scan.h"
#include "cli/parse.h"
#include "cli/remote_text.h"
#include "cli/to_stdout.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* range_values = "--range takes bytes such as 0-499, 500- or -500, not '";

/// Returns all ranges of the command line, in its order. Returns nothing if one is malformed, which is
/// reported.
std::optional<std::vector<ByteRange>> wanted_ranges(Call& call) {
  std::vector<ByteRange> out;
  const auto given = call.arguments.given.find("range");
  if (given == call.arguments.given.end()) return out;
  for (const std::string& text : given->second) {
    const auto ranges = parse_ranges(text);
    if (!ranges) call.misused(range_values + text + "'");
    if (!ranges) return std::nullopt;
    out.insert(out.end(), ranges->begin(), ranges->end());
  }
  return out;
}

Status cat_range(Call& call, const Remote& remote, const ByteRange& range, Progress& silent) {
  Result<RemoteSource> source = open_remote(remote, "cat", "use ls to list it");
  if (!source) return source.error();
  const std::optional<Span> part = resolve(range, source->attributes.size);
  if (!part) {
    return Error(ErrorKind::usage, ERANGE, "cat", remote.text(),
                 "the range begins at or behind the end of the file, which has " +
                     std::to_string(source->attributes.size) + " bytes; choose an earlier one");
  }
  return copy_to_stdout(call, remote, *std::move(source), part, silent);
}

Status cat(Call& call, const Remote& remote, const std::vector<ByteRange>& ranges) {
  Progress silent("", {}, false);
  if (ranges.empty()) return copy_to_stdout(call, remote, silent);
  for (const ByteRange& range : ranges) {
    if (!call.going()) return {};
    if (Status done = cat_range(call, remote, range, silent); !done) return done;
  }
  return {};
}

Status head(Call& call, const Remote& remote, std::uint64_t count, bool is_lines) {
  Result<RemoteSource> source = open_remote(remote, "head", "use ls to list it");
  if (!source) return source.error();
  const std::uint64_t size = source->attributes.size;
  Result<std::uint64_t> end = std::min(count, size);
  if (is_lines) end = end_of_first_lines(text_of(*source->file), size, count);
  if (!end) return end.error();
  Progress silent("", {}, false);
  return copy_to_stdout(call, remote, *std::move(source), Span{0, *end}, silent);
}

}  // namespace

void run_cat(Call& call) {
  const auto ranges = wanted_ranges(call);
  if (!ranges) return;
  call.each(0, [&](const Remote& remote) { return cat(call, remote, *ranges); });
}

void run_head(Call& call) {
  const auto lines = call.arguments.value("lines"), bytes = call.arguments.value("bytes");
  if (lines && bytes) return call.misused("--lines and --bytes cannot be used together");
  const auto count = parse_size(bytes ? *bytes : lines.value_or("10"));
  if (!count && bytes) return call.misused("--bytes takes a number such as 100 or 4K, not '" + *bytes + "'");
  if (!count) return call.misused("--lines takes a number, not '" + *lines + "'");
  Headings headings(call);
  call.each(0, [&](const Remote& remote) {
    headings.show(remote);
    return head(call, remote, *count, !bytes);
  });
}

}  // namespace nfsrdma::cli
