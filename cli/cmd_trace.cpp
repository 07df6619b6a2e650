// trace: what the option trace=FILE has recorded, one line for each message. libclient/trace/reading decodes;
// this command reads the file, filters, and prints.
//
// With a filter, a Call is kept until its Reply shows whether both are wanted.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cli/commands.h"
#include "cli/descriptor.h"
#include "cli/parse.h"
#include "cli/trace_lines.h"
#include "trace/reading/decoder.h"

namespace nfsrdma::cli {
namespace {

using trace::EventKind;

/// The lines that the user wants.
struct Filter {
  std::set<std::uint32_t> xids;
  std::optional<std::chrono::nanoseconds> slow;
  bool errors = false;

  /// Returns true if only a Reply tells whether its Call is wanted.
  [[nodiscard]] bool waits_for_reply() const { return slow || errors; }
  [[nodiscard]] bool has_xid(const trace::Event& event) const {
    return xids.empty() || xids.contains(event.xid);
  }
  [[nodiscard]] bool wants_reply(const trace::Event& event) const {
    const bool is_slow = slow && event.round_trip && *event.round_trip >= *slow;
    const bool is_error = errors && (event.failed || event.sends > 1);
    return has_xid(event) && (is_slow || is_error);
  }
  /// Judges what is neither a Call nor a Reply.
  [[nodiscard]] bool wants_other(const trace::Event& event) const {
    if (!xids.empty() || slow) return false;
    return !errors || event.kind == EventKind::strange || event.kind == EventKind::disconnected;
  }
};

/// Prints the events that pass the filter, and sums up all of them.
class Printer {
 public:
  Printer(Call& call, Filter filter) : call_(call), filter_(std::move(filter)), quiet_(call.has("summary")) {}

  void take(const trace::Event& event) {
    const Key key{event.connection, event.xid, event.backward};
    if (event.kind == EventKind::call) {
      summary_.add(event, "");
      return take_call(key, event);
    }
    if (event.kind != EventKind::reply && event.kind != EventKind::error) {
      summary_.add(event, "");
      if (filter_.wants_other(event)) print(event);
      return;
    }
    const auto asked = calls_.find(key);
    summary_.add(event, asked != calls_.end() ? asked->second.kind : kind_of(event));
    if (!filter_.waits_for_reply() ? filter_.has_xid(event) : filter_.wants_reply(event)) {
      if (asked != calls_.end() && asked->second.held) print(*asked->second.held);
      print(event);
    }
    if (asked != calls_.end()) calls_.erase(asked);
  }
  void print_summary(std::size_t unanswered) {
    if (call_.json()) {
      call_.out.line(summary_json(summary_, unanswered));
      return;
    }
    if (!quiet_) call_.out.line("");
    for (const std::string& line : summary_lines(summary_, unanswered)) call_.out.line(line);
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, bool>;
  struct Asked {
    std::string kind;
    std::optional<trace::Event> held;
  };
  static constexpr std::size_t kMostCalls = 65536;

  static std::string kind_of(const trace::Event& event) {
    const std::string kind = event.kind_of_call();
    return event.backward ? "backward " + kind : kind;
  }
  void take_call(const Key& key, const trace::Event& event) {
    if (calls_.size() >= kMostCalls) calls_.erase(calls_.begin());
    Asked& asked = calls_[key];
    asked = {kind_of(event), std::nullopt};
    if (filter_.waits_for_reply()) {
      asked.held = event;
    } else if (filter_.has_xid(event)) {
      print(event);
    }
  }
  void print(const trace::Event& event) {
    if (quiet_) return;
    call_.out.line(call_.json() ? trace_json(event) : trace_line(event));
  }

  Call& call_;
  const Filter filter_;
  const bool quiet_;
  trace::Summary summary_;
  std::map<Key, Asked> calls_;
};

Descriptor open_file(const std::string& name) {
  return name == "-" ? Descriptor(STDIN_FILENO, true)
                     : Descriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Feeds the decoder with what the file has from here on. Returns false after an error, which it reports.
bool read_on(Call& call, const Descriptor& file, const std::string& name, trace::Decoder& decoder) {
  std::array<std::byte, 65536> piece{};
  while (call.going()) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) call.failed(local_error(errno, "trace", name));
    if (got <= 0) return got == 0;
    decoder.add(std::span(piece).first(static_cast<std::size_t>(got)));
    if (!decoder.fault().empty()) {
      call.failed(Error(ErrorKind::local, EINVAL, "trace", name, decoder.fault()));
      return false;
    }
  }
  return false;
}

/// Returns true if the name leads to another file than the open one: the trace was rotated.
bool is_replaced(const Descriptor& file, const std::string& name) {
  struct stat open{}, named{};
  if (::fstat(file.get(), &open) != 0 || ::stat(name.c_str(), &named) != 0) return false;
  return open.st_ino != named.st_ino || open.st_dev != named.st_dev;
}

/// Waits until more may have been written, or a signal has come.
void wait_a_moment() {
  constexpr int kMilliseconds = 200;
  pollfd signal{interrupt::fd(), POLLIN, 0};
  ::poll(&signal, 1, kMilliseconds);
}

/// Reads a file that is still written, until a signal comes.
void follow(Call& call, const std::string& name, trace::Decoder& decoder) {
  call.interruption_is_an_end = true;
  Descriptor file = open_file(name);
  if (file.get() < 0) return call.failed(local_error(errno, "trace", name));
  while (read_on(call, file, name, decoder)) {
    call.out.flush();
    wait_a_moment();
    if (name == "-" || !is_replaced(file, name)) continue;
    // Read the bytes that were written between the last read and the renaming.
    if (!read_on(call, file, name, decoder)) return;
    Descriptor next = open_file(name);
    if (next.get() < 0) continue;
    file = std::move(next);
    decoder.begin_file();
  }
}

void read_all(Call& call, const std::string& name, trace::Decoder& decoder) {
  const Descriptor file = open_file(name);
  if (file.get() < 0) return call.failed(local_error(errno, "trace", name));
  decoder.begin_file();
  if (!read_on(call, file, name, decoder) || decoder.pending_bytes() == 0) return;
  say(name + ": the last " + std::to_string(decoder.pending_bytes()) +
      " bytes are no complete block; the file was cut, or is still being written");
}

std::optional<std::uint32_t> parse_xid(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  return parse_number<std::uint32_t>(text, is_hex ? 16 : 10);
}

/// Parses "2.5ms", "300us" or "1s".
std::optional<std::chrono::nanoseconds> parse_time(std::string_view text) {
  double value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || !(value >= 0) || value > 86400e6) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(stop - text.data()));
  const double ns = unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" || unit.empty() ? 1e9 : 0;
  if (ns == 0) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value * ns));
}

/// Reads the options. Returns nothing if one is wrong, which is reported.
std::optional<Filter> filter_of(Call& call) {
  Filter out;
  out.errors = call.has("errors");
  if (const auto given = call.arguments.given.find("xid"); given != call.arguments.given.end()) {
    for (const std::string& text : given->second) {
      const auto xid = parse_xid(text);
      if (!xid) {
        call.misused("--xid takes a number such as 0x1234abcd, not '" + text + "'");
        return std::nullopt;
      }
      out.xids.insert(*xid);
    }
  }
  if (const auto text = call.arguments.value("slow")) {
    out.slow = parse_time(*text);
    if (out.slow) return out;
    call.misused("--slow takes a time such as 20ms, 300us or 1s, not '" + *text + "'");
    return std::nullopt;
  }
  return out;
}

}  // namespace

void run_trace(Call& call) {
  const auto filter = filter_of(call);
  if (!filter) return;
  const auto& names = call.arguments.operands;
  if (call.has("follow") && names.size() != 1) return call.misused("--follow takes one file");
  Printer printer(call, *filter);
  trace::Decoder decoder([&printer](const trace::Event& event) { printer.take(event); });
  if (call.has("follow")) {
    follow(call, names[0], decoder);
  } else {
    for (const std::string& name : names) read_all(call, name, decoder);
  }
  decoder.finish();
  printer.print_summary(decoder.unanswered());
}

}  // namespace nfsrdma::cli
