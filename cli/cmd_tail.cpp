// tail: the ends of files, and with -f what is appended to them later (follow.h).
#include <algorithm>
#include <string>

#include "cli/follow.h"
#include "cli/parse.h"
#include "cli/to_stdout.h"

namespace nfsrdma::cli {
namespace {

/// The argument of -n or -c: the last 10 of them, or, after a '+', everything from the tenth on.
struct Tail {
  std::uint64_t count = 10;
  bool is_lines = true;
  bool is_from_start = false;
};

/// Returns nothing if the command line is wrong, which is reported.
std::optional<Tail> wanted_tail(Call& call) {
  const auto lines = call.arguments.value("lines"), bytes = call.arguments.value("bytes");
  if (lines && bytes) call.misused("--lines and --bytes cannot be used together");
  if (lines && bytes) return std::nullopt;
  Tail out;
  const auto text = bytes ? bytes : lines;
  if (!text) return out;
  out.is_lines = lines.has_value();
  out.is_from_start = text->starts_with('+');
  const std::size_t sign = out.is_from_start || text->starts_with('-') ? 1 : 0;
  const auto count = parse_size(std::string_view(*text).substr(sign));
  if (!count) {
    call.misused(std::string(out.is_lines ? "--lines" : "--bytes") +
                 " takes a number such as 20, or +20 to begin there, not '" + *text + "'");
    return std::nullopt;
  }
  out.count = *count;
  return out;
}

/// Returns the offset at which the output begins.
Result<std::uint64_t> start_of(const Tail& tail, const ReadAt& text, std::uint64_t size) {
  if (!tail.is_from_start && tail.is_lines) return start_of_last_lines(text, size, tail.count);
  if (!tail.is_from_start) return size - std::min(size, tail.count);
  const std::uint64_t before = tail.count == 0 ? 0 : tail.count - 1;
  if (tail.is_lines) return end_of_first_lines(text, size, before);
  return std::min(size, before);
}

Status show_end(Call& call, Headings& headings, const Remote& remote, const Tail& tail) {
  Result<RemoteSource> source = open_remote(remote, "tail", "use ls to list it");
  if (!source) return source.error();
  const std::uint64_t size = source->attributes.size;
  const Result<std::uint64_t> begin = start_of(tail, text_of(*source->file), size);
  if (!begin) return begin.error();
  headings.show(remote);
  Progress silent("", {}, false);
  return copy_to_stdout(call, remote, *std::move(source), Span{*begin, size}, silent);
}

void show_and_follow(Call& call, Headings& headings, const Tail& tail,
                     std::optional<std::chrono::milliseconds> pause) {
  std::vector<Followed> files;
  call.each(0, [&](const Remote& remote) {
    Followed& file = files.emplace_back(remote);
    return file.begin(call, headings,
                      [&](const ReadAt& text, std::uint64_t size) { return start_of(tail, text, size); });
  });
  if (!call.going() || call.status == exit_usage) return;
  follow(call, headings, files, pause);
}

}  // namespace

void run_tail(Call& call) {
  const std::optional<Tail> tail = wanted_tail(call);
  if (!tail) return;
  const auto text = call.arguments.value("sleep-interval");
  const auto pause = text ? parse_interval(*text) : std::nullopt;
  if (text && !pause)
    return call.misused("--sleep-interval takes seconds from 0.001 on, not '" + *text + "'");
  Headings headings(call);
  if (call.has("follow")) return show_and_follow(call, headings, *tail, pause);
  call.each(0, [&](const Remote& remote) { return show_end(call, headings, remote, *tail); });
}

}  // namespace nfsrdma::cli
