#include "diagnosis/diagnosis.h"

#include <array>
#include <cerrno>
#include <utility>

#include "async/event.h"
#include "async/interrupt_watch.h"
#include "async/until.h"
#include "diagnosis/examination.h"

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;

/// Time that is left for the verdict when the steps have to end.
constexpr auto kReserve = 500ms;

struct Row {
  const char* name;
  Step step;
  bool is_needed;  ///< no later step can work if this one fails
  bool (*is_wanted)(const Wanted& wanted) = nullptr;
};

constexpr auto kSteps = std::to_array<Row>({
    {"resolve", examine_name, true},
    {"route", examine_route, true},
    {"device", examine_device, true},
    {"port", examine_port, true},
    {"connection", examine_connection, true},
    {"private-data", examine_private_data, false},
    {"null", examine_null, true},
    {"mtu", examine_mtu, true},
    {"versions", examine_versions, true},
    {"latency", examine_latency, false},
    {"jitter", examine_jitter, false},
    {"security", examine_security, true},
    {"session", examine_session, true},
    {"backchannel", examine_backchannel, false},
    {"export", examine_export, false},
    {"replies", examine_replies, false},
    {"rights", examine_rights, false},
    {"read", examine_reading, false, [](const Wanted& wanted) { return !wanted.read.empty(); }},
    {"write", examine_writing, false, [](const Wanted& wanted) { return wanted.write; }},
    {"sizes", examine_sizes, false},
    {"credits", examine_credits, false},
});

/// The steps while they run.
struct Progress {
  explicit Progress(async::Loop& loop) : ended(loop) {}
  std::size_t next = 0;       ///< number of the step that runs
  async::TimePoint began;     ///< when that step began
  const Row* stop = nullptr;  ///< the failed step because of which the others are skipped
  bool is_complete = false;
  async::Event ended;
};

void take(Examination& at, const Report& report, Progress& progress, Finding finding) {
  const Row& row = kSteps.at(progress.next++);
  finding.step = row.name;
  finding.took = at.loop.now() - progress.began;
  if (finding.state == State::failed && row.is_needed && progress.stop == nullptr) progress.stop = &row;
  at.findings.push_back(std::move(finding));
  report(at.findings.back());
}

async::Task<void> run_steps(Examination& at, const Report& report, Progress& progress) {
  while (progress.next < kSteps.size() && progress.stop == nullptr) {
    const Row& row = kSteps.at(progress.next);
    if (row.is_wanted != nullptr && !row.is_wanted(at.wanted)) {
      ++progress.next;
      continue;
    }
    progress.began = at.loop.now();
    Finding finding = co_await row.step(at);
    at.loop.time_passed();
    take(at, report, progress, std::move(finding));
  }
  progress.is_complete = true;
  progress.ended.notify_all();
}

void skip_rest(Examination& at, const Report& report, Progress& progress) {
  while (progress.next < kSteps.size()) {
    const Row& row = kSteps.at(progress.next);
    progress.began = at.loop.now();
    if (row.is_wanted != nullptr && !row.is_wanted(at.wanted)) {
      ++progress.next;
    } else {
      take(at, report, progress, skipped(std::string("needs the step ") + progress.stop->name));
    }
  }
}

Error interrupted(const std::string& host) {
  return {ErrorKind::cancelled, EINTR, "diagnose", host, "interrupted"};
}

}  // namespace

Diagnosis::Diagnosis(async::Loop& loop, connect::Target target, Wanted wanted, Means means)
    : examination_(
          std::make_unique<Examination>(loop, std::move(target), std::move(wanted), std::move(means))) {}

Diagnosis::~Diagnosis() = default;

Result<std::size_t> Diagnosis::run(const Report& report, int interrupt) {
  Examination& at = *examination_;
  at.interrupt = interrupt;
  const async::TimePoint end = at.loop.now() + at.wanted.limit;
  at.deadline = end - kReserve;
  Progress progress(at.loop);
  const async::InterruptWatch watch(at.loop, interrupt, progress.ended);
  const std::uint64_t task = at.loop.spawn(run_steps(at, report, progress));
  const auto is_over = [&] { return progress.is_complete || watch.is_raised(); };
  (void)at.loop.run(async::until(progress.ended, end, is_over));
  if (!progress.is_complete) at.loop.drop(task);
  if (watch.is_raised()) return interrupted(at.target.host);
  if (!progress.is_complete) {
    progress.stop = &kSteps.at(progress.next);
    take(at, report, progress,
         failure("the step did not end within the time of the whole diagnosis",
                 "look at the server's log, and try again with a longer --limit"));
  }
  if (progress.stop != nullptr) skip_rest(at, report, progress);
  report(verdict(at));
  at.end();
  return static_cast<std::size_t>(std::ranges::count(at.findings, State::failed, &Finding::state));
}

}  // namespace nfsrdma::diagnosis
