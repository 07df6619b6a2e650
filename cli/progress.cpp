// See progress.h.
#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "cli/format.h"

namespace nfsrdma::cli {
namespace {

constexpr RateMeter::Seconds shortest_sample{0.05};
constexpr RateMeter::Seconds time_constant{2.0};
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::size_t smallest_bar = 12, largest_bar = 40, smallest_name = 8;
constexpr std::chrono::seconds longest_shown{99 * 3600};

// The flag is one per process, as stderr is. Notices of the library come on threads of its own, so it is
// atomic.
std::atomic<bool> line_is_drawn = false;

void write_terminal(const std::string& text) {
  // A terminal that went away is no reason to end a transfer.
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string figures(const ProgressState& state) {
  std::string out = "  " + right(binary_size(static_cast<double>(state.done)), 8);
  out += "  " + right(binary_size(state.rate) + "/s", 10) + "  ";
  if (!state.total || state.done >= *state.total) return out + clock_time(state.elapsed);
  return out + "ETA " + (state.remaining ? clock_time(*state.remaining) : "-:--");
}

int percent(const ProgressState& state) {
  if (*state.total == 0) return 100;
  const double share = static_cast<double>(state.done) / static_cast<double>(*state.total);
  return static_cast<int>(std::min(1.0, share) * 100);
}

std::string bar(const ProgressState& state, std::size_t columns) {
  const std::size_t inner = columns - 4;  // " [" and "]" and the blank before
  const std::size_t filled = static_cast<std::size_t>(percent(state)) * inner / 100;
  std::string out(filled, '=');
  if (filled < inner) out += '>';
  return "  [" + left(out.substr(0, inner), inner) + "]";
}

}  // namespace

void RateMeter::update(std::uint64_t done, Seconds elapsed) {
  const Seconds span = elapsed - elapsed_;
  if (span < shortest_sample || done < done_) return;
  const double sample = static_cast<double>(done - done_) / span.count();
  const double weight = started_ ? 1 - std::exp(-span / time_constant) : 1;
  rate_ += (sample - rate_) * weight;
  started_ = true;
  done_ = done;
  elapsed_ = elapsed;
}

std::optional<std::chrono::seconds> RateMeter::remaining(std::uint64_t left) const {
  if (rate_ < 1) return std::nullopt;
  const double seconds = std::ceil(static_cast<double>(left) / rate_);
  if (seconds > static_cast<double>(longest_shown.count())) return std::nullopt;
  return std::chrono::seconds(static_cast<std::int64_t>(seconds));
}

std::string progress_line(const ProgressState& state, std::size_t width) {
  std::string tail = state.total ? "  " + right(std::to_string(percent(state)), 3) + "%" : "";
  const std::string numbers = figures(state);
  const std::size_t fixed_part = tail.size() + numbers.size();
  std::string name = printable(state.name);
  if (state.total && width >= fixed_part + smallest_name + smallest_bar) {
    const std::size_t room = width - fixed_part;
    const std::size_t named = std::min(name.size(), room - smallest_bar);
    tail += bar(state, std::clamp(room - named, smallest_bar, largest_bar));
  }
  tail += numbers;
  if (tail.size() >= width) return tail.substr(0, width);
  if (const std::size_t room = width - tail.size(); name.size() > room) {
    name = room > 3 ? name.substr(0, room - 3) + "..." : name.substr(0, room);
  }
  return name + tail;
}

Progress::Progress(std::string name, std::optional<std::uint64_t> total, bool wanted)
    : shown_(wanted && isatty(STDERR_FILENO) != 0), start_(Clock::now()), next_(start_ + redraw_interval) {
  state_.name = std::move(name);
  state_.total = total;
}

Progress::~Progress() {
  erase();
}

void Progress::update(std::uint64_t done) {
  if (!shown_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + redraw_interval;
  draw(done, now);
}

void Progress::finish(std::uint64_t done) {
  if (!shown_) return;
  state_.total = done;
  const auto now = Clock::now();
  const double seconds = std::max(1e-6, RateMeter::Seconds(now - start_).count());
  draw(done, now);
  state_.rate = static_cast<double>(done) / seconds;  // of the whole transfer, now that it is over
  erase();
  write_terminal(progress_line(state_, terminal_width() - 1) + "\n");
}

void Progress::draw(std::uint64_t done, Clock::time_point now) {
  meter_.update(done, now - start_);
  state_.done = done;
  state_.rate = meter_.rate();
  state_.elapsed = std::chrono::duration_cast<std::chrono::seconds>(now - start_);
  const std::uint64_t total = state_.total.value_or(done);
  state_.remaining = meter_.remaining(total - std::min(total, done));
  // The last column stays free, because a full line makes some terminals wrap.
  write_terminal("\r\033[K" + progress_line(state_, terminal_width() - 1));
  line_is_drawn = true;
}

void Progress::erase() {
  if (line_is_drawn.exchange(false)) write_terminal("\r\033[K");
}

}  // namespace nfsrdma::cli
