// nfsrdma_sim: the client, whole, against a model server, on virtual time, from seeds.
//
//     nfsrdma_sim --seed N [--ops M] [--calm] [--without KINDS] [--trace]   one, and why it failed if it did
//     nfsrdma_sim --seeds A-B [--ops M]                                     all of them
//     nfsrdma_sim --long HOURS [--ops M]                                    new ones for so much real time
//
// In one of four worlds all workers do whatever they like to a few shared files (any_work.h). In one of three the server's
// restarts, verifiers, statuses and limits move apart (the groups in nfs_server_habits.cpp), but for the group "strangers",
// which fails in some seeds. --anything and --habits have every world so, --habits with "strangers".
//
// With --coverage it also prints which classes of operations the programs at "anything" (any_work.h) have done, and which
// they never did (coverage.h). The exit status is 4 if there are such, and no seed failed.
//
// KINDS: kinds of trouble (climate.cpp) that stay away, with commas between them. Of the first seed that
// fails the last lines of its trace are printed, and the command line of a run that is as small as it can be
// made and still fails.
//
// One run in twenty is done twice: the same seed must give the same hash. The last line says how many seeds
// and operations, how much virtual time, and the hash over all of their traces. The exit status is that of
// the first seed that failed: 1 wrong, 3 not finished in the time that it may take; 2 is a wrong command
// line.
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "sim/run.h"
#include "sim/shrink.h"

namespace {

using namespace nfsrdma::sim;

constexpr std::uint64_t kTwiceEvery = 20;
constexpr unsigned kMostFailures = 10;

struct Arguments {
  std::uint64_t first = 0, last = 0;
  std::optional<double> hours;
  bool covers = false;
  RunOptions run;
};

struct Sum {
  std::uint64_t seeds = 0, operations = 0, hash = 0xcbf29ce484222325U;
  Duration time{};
  unsigned failures = 0;
  Coverage coverage;
  Verdict verdict = Verdict::right;
};

std::uint64_t seed_now = 0;  // for a signal that ends the program in the middle of it

extern "C" void report_crash(int signal) {
  char text[100];
  const int length =
      std::snprintf(text, sizeof text, "\nseed %" PRIu64 " crashes with signal %d\n", seed_now, signal);
  if (::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) std::_Exit(4);
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 0);
  if (end == text || *end != '\0') {
    (void)std::fprintf(stderr, "nfsrdma_sim: %s is not a number\n", text);
    std::exit(2);
  }
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--seed" && more) {
      out.first = out.last = number(argv[++i]);
    } else if (word == "--seeds" && more) {
      const std::string range = argv[++i];
      const auto dash = range.find('-');
      out.first = number(range.substr(0, dash).c_str());
      out.last = dash == std::string::npos ? out.first : number(range.substr(dash + 1).c_str());
    } else if (word == "--long" && more) {
      out.hours = std::atof(argv[++i]);
    } else if (word == "--ops" && more) {
      out.run.operations = static_cast<unsigned>(number(argv[++i]));
    } else if (word == "--calm") {
      out.run.faults = false;
    } else if (word == "--without" && more) {
      out.run.without = argv[++i];
    } else if (word == "--anything") {
      out.run.anything = true;
    } else if (word == "--habits") {
      out.run.habits = true;
    } else if (word == "--coverage") {
      out.covers = true;
    } else if (word == "--trace") {
      out.run.prints = true;
    } else {
      (void)std::fprintf(stderr,
                         "usage: nfsrdma_sim --seed N | --seeds A-B | --long HOURS [--ops M] [--calm] "
                         "[--without KINDS] [--trace] [--anything] [--habits] [--coverage]\n");
      std::exit(2);
    }
  }
  if (out.hours) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    out.first =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
    out.last = UINT64_MAX;
  }
  return out;
}

void report(const RunOptions& options, const Outcome& outcome, Sum& sum) {
  const bool first = sum.failures++ == 0;
  if (first) sum.verdict = outcome.verdict;
  if (first) (void)std::printf("%s", outcome.tail.c_str());
  (void)std::printf("seed %" PRIu64 " %s:\n%s    again: %s\n", options.seed,
                    outcome.verdict == Verdict::wrong ? "is wrong" : "does not finish", outcome.text.c_str(),
                    command_line(options).c_str());
  (void)std::fflush(stdout);
  if (first && !options.prints) (void)std::printf("    small: %s\n", command_line(shrunk(options)).c_str());
  (void)std::fflush(stdout);
}

void run_one(const Arguments& arguments, std::uint64_t seed, Sum& sum) {
  RunOptions options = arguments.run;
  options.seed = seed_now = seed;
  Outcome outcome = run(options);
  if (outcome.verdict == Verdict::right && seed % kTwiceEvery == 0) {
    options.prints = false;
    const Outcome again = run(options);
    if (again.hash != outcome.hash) {
      outcome.verdict = Verdict::wrong;
      outcome.text = "run twice, it does not do the same: something depends on more than the seed\n";
    }
  }
  ++sum.seeds;
  sum.operations += outcome.operations;
  sum.coverage.add(outcome.coverage);
  sum.time += outcome.time;
  sum.hash = (sum.hash ^ outcome.hash) * 0x100000001b3U;
  if (outcome.verdict != Verdict::right) report(options, outcome, sum);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) (void)std::signal(signal, report_crash);
  using Real = std::chrono::steady_clock;
  const auto begun = Real::now();
  const auto is_over = [&] {
    return arguments.hours &&
           Real::now() - begun > std::chrono::duration<double, std::ratio<3600>>(*arguments.hours);
  };
  Sum sum;
  for (std::uint64_t seed = arguments.first; seed <= arguments.last && sum.failures < kMostFailures; ++seed) {
    if (is_over()) break;
    run_one(arguments, seed, sum);
  }
  if (arguments.covers) (void)std::printf("%s", sum.coverage.table().c_str());
  (void)std::printf(
      "%" PRIu64 " seeds, %" PRIu64 " operations, %.1f s of virtual time, %u failed, hash %016" PRIx64 "\n",
      sum.seeds, sum.operations, std::chrono::duration<double>(sum.time).count(), sum.failures, sum.hash);
  constexpr int kNotCovered = 4;
  if (arguments.covers && sum.verdict == Verdict::right && sum.coverage.missing() != 0) return kNotCovered;
  return static_cast<int>(sum.verdict);
}
