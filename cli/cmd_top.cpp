// top: a live view of the mounts of this machine. It reads their statistics and asks no server.
//
// On a terminal, the first view shows averages since each mount was made, and the next ones what happened since the view
// before. Without a terminal (or with --once or --json), every report is about the time since the one before, and
// the first comes after that time.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <list>
#include <optional>
#include <thread>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/mount_reader.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/top_view.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// A mount, and the sample that the next one is compared with.
struct Watched {
  explicit Watched(std::string at) : mountpoint(std::move(at)), reader(mountpoint) {}
  std::string mountpoint;
  MountReader reader;
  MountSample before;
};

struct Wish {
  std::chrono::milliseconds interval{2000};
  std::optional<std::uint64_t> count;  ///< of reports
  RateOrder order = RateOrder::busy;
  bool reversed = false;
};

class Top {
 public:
  Top(Call& call, Wish wish) : call_(call), wish_(wish) {}

  /// Reads all mounts. Returns nothing while there is no mount to watch.
  std::vector<TopRow> read() {
    find_mounts();
    // Shorter than the pause between two views, and long enough for a busy mount.
    constexpr std::chrono::milliseconds least{500}, most{2000};
    const auto deadline = Clock::now() + std::clamp(wish_.interval, least, most);
    for (Watched& one : mounts_) one.reader.begin();
    std::vector<TopRow> out;
    for (Watched& one : mounts_) out.push_back(row_of(one, deadline));
    return out;
  }
  void batch();
  void live();

 private:
  /// Adds new mounts, and drops those that are gone. Mounts that the user names stay.
  void find_mounts() {
    std::vector<std::string> wanted = call_.arguments.operands;
    if (wanted.empty()) wanted = nfsrdma_mounts();
    std::erase_if(mounts_, [&](const Watched& one) {
      return std::ranges::find(wanted, one.mountpoint) == wanted.end();
    });
    for (const std::string& one : wanted) {
      if (std::ranges::find(mounts_, one, &Watched::mountpoint) == mounts_.end()) mounts_.emplace_back(one);
    }
  }
  TopRow row_of(Watched& of, Clock::time_point deadline) const {
    MountReading reading = of.reader.wait(deadline, interrupt::fd());
    TopRow out{of.mountpoint, std::move(reading.sample), {}, std::move(reading.trouble)};
    if (!out.sample) return out;
    out.rates = rates_between(of.before, *out.sample);
    sort_kinds(out.rates.kinds, wish_.order, wish_.reversed);
    of.before = *out.sample;
    return out;
  }
  [[nodiscard]] std::string view(const std::vector<TopRow>& rows) const;
  bool take(char key);
  void print(const std::vector<TopRow>& rows);
  static void rest_until(Clock::time_point next);

  Call& call_;
  Wish wish_;
  std::list<Watched> mounts_;
};

constexpr const char* nothing_there = "no mount of nfsrdma-fuse on this machine; see nfsrdma-fuse(8)";

// ---- without a terminal ----

void Top::print(const std::vector<TopRow>& rows) {
  bool is_first = true;
  for (const TopRow& row : rows) {
    if (call_.json()) {
      call_.out.line(top_json(row));
      continue;
    }
    call_.out.write((std::exchange(is_first, false) ? "" : "\n") + top_text(row, any_number));
  }
  call_.out.flush();
}

void Top::rest_until(Clock::time_point next) {
  while (!interrupt::raised() && Clock::now() < next) {
    constexpr std::chrono::milliseconds step{100};  // a signal ends a sleep early on this thread only
    std::this_thread::sleep_until(std::min(next, Clock::now() + step));
  }
}

void Top::batch() {
  (void)read();  // where the first report begins
  if (mounts_.empty()) {
    say(nothing_there);
    call_.status = exit_failed;
    return;
  }
  for (std::uint64_t number = 1; call_.going(); ++number) {
    rest_until(Clock::now() + wish_.interval);
    if (interrupt::raised()) return;
    const auto rows = read();
    if (interrupt::raised()) return;
    if (number != 1 && !call_.json()) call_.out.line("");
    print(rows);
    const auto answers = [](const TopRow& row) { return row.sample.has_value(); };
    if (std::ranges::none_of(rows, answers)) call_.status = exit_failed;
    if (wish_.count && number >= *wish_.count) return;
  }
}

// ---- on a terminal ----

std::string Top::view(const std::vector<TopRow>& rows) const {
  const Screen::Size size = Screen::size();
  std::string out = "nfsrdma-cli top: every " + fixed(static_cast<double>(wish_.interval.count()) / 1e3, 1) +
                    " s, by " + std::string(name_of(wish_.order)) + (wish_.reversed ? ", reversed" : "") +
                    "; q quits, s sorts by another column, o reverses the order\n";
  if (rows.empty()) return out + nothing_there + "\n";
  // The lines of a mount that are not rows of its table: an empty one, three of figures, and the heading.
  constexpr std::size_t fixed_lines = 5;
  const std::size_t room = size.lines > 1 ? (size.lines - 1) / rows.size() : 0;
  for (const TopRow& row : rows) out += "\n" + top_text(row, room > fixed_lines ? room - fixed_lines : 0);
  std::string cut;
  std::size_t lines = 0;
  for (std::string_view rest = out; !rest.empty() && lines + 1 < size.lines; ++lines) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    cut += std::string(rest.substr(0, std::min(end, size.columns))) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return cut;
}

/// Returns false if the key ends the program.
bool Top::take(char key) {
  if (key == 's')
    wish_.order = static_cast<RateOrder>((static_cast<std::size_t>(wish_.order) + 1) % rate_orders);
  if (key == 'o') wish_.reversed = !wish_.reversed;
  return key != 'q' && key != 'Q';
}

void Top::live() {
  const Screen screen;
  for (std::uint64_t number = 1; !interrupt::raised(); ++number) {
    auto rows = read();
    if (interrupt::raised() || !screen.show(view(rows))) return;
    if (wish_.count && number >= *wish_.count) return;
    const auto next = Clock::now() + wish_.interval;
    while (!interrupt::raised() && Clock::now() < next) {
      const char key = Screen::key(next);
      if (!take(key)) return;
      for (TopRow& row : rows) sort_kinds(row.rates.kinds, wish_.order, wish_.reversed);
      if (key != 0 && !screen.show(view(rows))) return;
    }
  }
}

/// Reads the options. Returns nothing if one is wrong, which is reported.
std::optional<Wish> wish_of(Call& call) {
  Wish out;
  const std::string delay = call.arguments.value("delay").value_or("2");
  const auto interval = parse_interval(delay);
  if (!interval) {
    call.misused("--delay takes seconds from 0.001 on, not '" + delay + "'");
    return std::nullopt;
  }
  out.interval = *interval;
  const auto count = call.arguments.value("count");
  if (count) out.count = parse_count(*count);
  if (count && !out.count) {
    call.misused("--count takes a number from 1 on, not '" + *count + "'");
    return std::nullopt;
  }
  if (call.has("once")) out.count = 1;
  const std::string order = call.arguments.value("sort").value_or("busy");
  const auto known = rate_order(order);
  if (!known) {
    call.misused("--sort takes busy, rate, latency or name, not '" + order + "'");
    return std::nullopt;
  }
  out.order = *known;
  return out;
}

}  // namespace

void run_top(Call& call) {
  const auto wish = wish_of(call);
  if (!wish) return;
  call.interruption_is_an_end = true;
  Top top(call, *wish);
  const char* const kind = std::getenv("TERM");
  const bool can_draw = kind != nullptr && std::string_view(kind) != "dumb";
  if (call.out.terminal() && can_draw && !call.has("once") && !call.json()) return top.live();
  top.batch();
}

}  // namespace nfsrdma::cli
