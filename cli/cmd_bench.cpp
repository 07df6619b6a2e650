// bench: latency and throughput of a server, in parts with a bounded time each.
//
// Without --write nothing is changed on the server, and data is read from the file that the user names. With
// --write a scratch file is made in the directory, filled, used, and removed at the end, after a signal as
// well (remote_file.h). This program caches no data, but the server does: what is read again comes from its
// memory, and the results say so.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "cli/bench_load.h"
#include "cli/commands.h"
#include "cli/local.h"
#include "cli/parse.h"
#include "cli/remote_file.h"
#include "cli/transfer.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t random_size = 4096, small_size = 1024;
constexpr std::array<std::size_t, 3> random_depths{1, 16, 64};
constexpr std::uint64_t default_size = 64U << 20;
constexpr std::size_t most_block = 1U << 20;

struct BenchOptions {
  std::chrono::milliseconds time{2000};
  std::uint64_t size = default_size;
  std::set<std::string> parts;  ///< empty: all
  bool writes = false;
};

class Bench {
 public:
  /// The names of all parts, with commas between them.
  static std::string part_names();
  Bench(Call& call, Remote remote, BenchOptions options)
      : call_(call), remote_(std::move(remote)), client_(*remote_.client), options_(std::move(options)) {}

  void run(const Attributes& target);

 private:
  struct Part {
    const char* name;
    Status (Bench::*run)();
    bool needs_file, needs_scratch;
  };
  static const std::array<Part, 7>& parts();
  Status prepare(const Attributes& target);
  Status run_part(const Part& part);
  void finish();
  Status take(const Result<BenchResult>& result);

  Status ping();
  Status getattr();
  Status read();
  Status randread();
  Status write();
  Status randwrite();
  Status create();

  Status random_reads(std::size_t depth);
  Status random_writes(std::size_t depth);
  std::span<std::byte> buffers(std::size_t depth, std::size_t size);
  [[nodiscard]] std::uint64_t random_offset() { return random_() % (size_ / random_size) * random_size; }
  [[nodiscard]] std::size_t block() const;
  [[nodiscard]] std::size_t stream_depth() const;
  [[nodiscard]] Remote directory() const;

  Call& call_;
  const Remote remote_;
  Client& client_;
  const BenchOptions options_;
  bool is_directory_ = false;
  std::uint64_t size_ = 0;  ///< of the file that is read and written
  std::vector<std::byte> memory_;
  std::unique_ptr<File> file_;              ///< after the memory, so that it is destroyed before
  std::optional<RemoteTemporary> scratch_;  ///< likewise
  std::vector<BenchResult> results_;
  std::mt19937_64 random_{1};
};

const std::array<Bench::Part, 7>& Bench::parts() {
  static const std::array<Part, 7> all{{{"ping", &Bench::ping, false, false},
                                        {"getattr", &Bench::getattr, false, false},
                                        {"write", &Bench::write, false, true},
                                        {"read", &Bench::read, true, false},
                                        {"randread", &Bench::randread, true, false},
                                        {"randwrite", &Bench::randwrite, false, true},
                                        {"create", &Bench::create, false, true}}};
  return all;
}

std::string Bench::part_names() {
  std::string out;
  for (const Part& one : parts()) out += (out.empty() ? "" : ",") + std::string(one.name);
  return out;
}

std::size_t Bench::block() const {
  const Info info = client_.info();
  return std::min<std::size_t>({info.rsize, info.wsize, most_block});
}

std::size_t Bench::stream_depth() const {
  const Info info = client_.info();
  return choose_depth(block(), std::max<std::size_t>(1, std::min(info.slots, info.credits_granted)), {})
      .requests;
}

Remote Bench::directory() const {
  if (is_directory_) return remote_;
  return {&client_, std::string(directory_name(remote_.path)), remote_.host, {}};
}

/// Returns memory for `depth` operations, whose bytes no compression makes smaller.
std::span<std::byte> Bench::buffers(std::size_t depth, std::size_t size) {
  const std::size_t before = memory_.size();
  if (depth * size > before) memory_.resize(depth * size);
  for (std::size_t i = before; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(random_());
  return memory_;
}

Status Bench::take(const Result<BenchResult>& result) {
  if (!result) return result.error();
  results_.push_back(*result);
  call_.out.line(call_.json() ? bench_json(*result) : bench_row(*result));
  call_.out.flush();
  return {};
}

Status Bench::ping() {
  auto result = run_load(
      client_, {"ping", 1, 0, options_.time},
      [&](std::size_t, const CallOptions& how, const OperationEnded& ended) {
        client_.start_ping(
            [ended](const Result<std::chrono::nanoseconds>& time) { ended(time ? Status() : time.error()); },
            how);
      });
  if (result) result->call = client_.info().ping_call;
  return take(result);
}

Status Bench::getattr() {
  return take(run_load(
      client_, {"getattr", 1, 0, options_.time},
      [&](std::size_t, const CallOptions& how, const OperationEnded& ended) {
        client_.start_stat(
            remote_.path,
            [ended](const Result<Attributes>& facts) { ended(facts ? Status() : facts.error()); }, true, how);
      }));
}

void ended_by(const OperationEnded& ended, const Result<std::size_t>& count) {
  ended(count ? Status() : count.error());
}

Status Bench::read() {
  const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(block(), size_)),
                    depth = stream_depth();
  const std::span<std::byte> memory = buffers(depth, size);
  File& file = scratch_ ? *scratch_->file : *file_;
  std::uint64_t next = 0;
  return take(run_load(client_, {"read", depth, size, options_.time},
                       [&](std::size_t slot, const CallOptions& how, const OperationEnded& ended) {
                         if (next + size > size_) next = 0;
                         file.start_read(
                             memory.subspan(slot * size, size), std::exchange(next, next + size),
                             [ended](const Result<std::size_t>& count) { ended_by(ended, count); }, how);
                       }));
}

Status Bench::random_reads(std::size_t depth) {
  const std::span<std::byte> memory = buffers(depth, random_size);
  File& file = scratch_ ? *scratch_->file : *file_;
  return take(run_load(client_, {"randread", depth, random_size, options_.time},
                       [&](std::size_t slot, const CallOptions& how, const OperationEnded& ended) {
                         file.start_read(
                             memory.subspan(slot * random_size, random_size), random_offset(),
                             [ended](const Result<std::size_t>& count) { ended_by(ended, count); }, how);
                       }));
}

Status Bench::randread() {
  for (const std::size_t depth : random_depths) {
    if (Status done = random_reads(depth); !done) return done;
  }
  return {};
}

Status Bench::write() {
  const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(block(), size_)),
                    depth = stream_depth();
  const std::span<const std::byte> memory = buffers(depth, size);
  File& file = *scratch_->file;
  std::uint64_t next = 0;
  return take(run_load(
      client_, {"write", depth, size, options_.time},
      [&](std::size_t slot, const CallOptions& how, const OperationEnded& ended) {
        if (next + size > size_) next = 0;
        file.start_write(
            memory.subspan(slot * size, size), std::exchange(next, next + size),
            [ended](const Result<std::size_t>& count) { ended_by(ended, count); }, nullptr,
            Stability::unstable, how);
      },
      [&] { return file.sync(); }));
}

Status Bench::random_writes(std::size_t depth) {
  const std::span<const std::byte> memory = buffers(depth, random_size);
  File& file = *scratch_->file;
  return take(run_load(
      client_, {"randwrite", depth, random_size, options_.time},
      [&](std::size_t slot, const CallOptions& how, const OperationEnded& ended) {
        file.start_write(
            memory.subspan(slot * random_size, random_size), random_offset(),
            [ended](const Result<std::size_t>& count) { ended_by(ended, count); }, nullptr,
            Stability::unstable, how);
      },
      [&] { return file.sync(); }));
}

Status Bench::randwrite() {
  for (const std::size_t depth : random_depths) {
    if (Status done = random_writes(depth); !done) return done;
  }
  return {};
}

/// Makes a small file in the directory of `like` and removes it, with blocking calls.
Status make_and_remove(const Remote& like, std::span<const std::byte> data) {
  Result<RemoteTemporary> small = create_temporary(like, 0600);
  if (!small) return small.error();
  const Result<std::size_t> written = small->file->write(data, 0);
  Status done = written ? small->file->close() : Status(written.error());
  if (!done) discard(*small);
  if (!done) return done;
  done = small->remote.client->remove_file(small->remote.path);
  if (!done) discard(*small);
  return done;
}

Status Bench::create() {
  const std::span<const std::byte> data = buffers(1, small_size).first(small_size);
  BenchResult result{"create", 1, small_size, 0, {}};
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  for (auto at = begun; at < begun + options_.time;) {
    if (interrupt::raised()) return interrupted();
    if (Status done = make_and_remove(directory().child(".nfsrdma-bench"), data); !done) return done;
    result.latencies.add(Clock::now() - std::exchange(at, Clock::now()));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  return take(result);
}

/// Fills a scratch file, so that it is read in its whole size.
Status fill_scratch(File& file, std::uint64_t size, std::span<const std::byte> block) {
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    if (interrupt::raised()) return interrupted();
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size - at));
    const Result<std::size_t> written = file.write(block.first(count), at);
    if (!written) return written.error();
  }
  return file.sync();
}

Status Bench::prepare(const Attributes& target) {
  is_directory_ = target.type == FileType::directory;
  if (options_.writes) {
    size_ = options_.size;
    Result<RemoteTemporary> scratch =
        create_temporary(directory().child(".nfsrdma-bench"), 0600, OpenMode::read_write);
    if (!scratch) return scratch.error();
    scratch_ = *std::move(scratch);
    const std::size_t size = block();
    return fill_scratch(*scratch_->file, size_, buffers(1, size).first(size));
  }
  if (is_directory_) return {};
  Result<std::unique_ptr<File>> file = client_.open(remote_.path, OpenMode::read);
  if (!file) return file.error();
  file_ = *std::move(file);
  size_ = std::min(target.size, options_.size);
  if (size_ >= random_size) return {};
  return Error(ErrorKind::usage, EINVAL, "bench", remote_.text(),
               "is too small to be read at random; name a file of at least 4096 bytes");
}

Status Bench::run_part(const Part& part) {
  const bool is_wanted = options_.parts.empty() || options_.parts.contains(part.name);
  const bool is_possible = (!part.needs_file || scratch_ || file_) && (!part.needs_scratch || scratch_);
  if (!is_wanted) return {};
  if (is_possible) return (this->*part.run)();
  say(std::string("the part ") + part.name + " is left out: " +
      (part.needs_scratch ? "it writes; give --write to allow that"
                          : "there is nothing to read; name a file, or give --write"));
  return {};
}

void Bench::run(const Attributes& target) {
  Status done = prepare(target);
  if (done && !call_.json()) call_.out.line(bench_heading());
  for (const Part& part : parts()) {
    if (done && call_.going()) done = run_part(part);
  }
  if (!done && done.error().kind() != ErrorKind::cancelled) call_.failed_at(remote_, done.error());
  if (scratch_) discard(*scratch_);
  if (!results_.empty() && !interrupt::raised()) finish();
}

Status write_picture(const std::string& path, const std::string& picture) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return local_error(errno, "open", path);
  for (std::string_view rest = picture; !rest.empty();) {
    const ssize_t count = ::write(file.get(), rest.data(), rest.size());
    if (count < 0 && (errno != EINTR || interrupt::raised())) return local_error(errno, "write", path);
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

/// Returns a line that says what ping has called, if it has run.
std::string explained_ping(const std::vector<BenchResult>& results) {
  const auto ping = std::ranges::find_if(results, [](const BenchResult& one) { return !one.call.empty(); });
  return ping == results.end() ? "" : "A ping is one call of " + ping->call + ", which touches no file.\n";
}

void Bench::finish() {
  const std::string summary = bench_summary(client_.info(), results_);
  if (!call_.json() && call_.has("plot")) {
    for (const BenchResult& one : results_) call_.out.write("\n" + bench_plot(one));
  }
  if (!call_.json()) {
    call_.out.line(
        "\n" + explained_ping(results_) +
        "Reads come from the server's cache as far as it holds the file; a client cannot bypass it." +
        std::string(scratch_ ? "\nThe scratch file was written just before, so it is likely cached." : "") +
        "\nWrites are made stable at the end of a part (COMMIT), which counts for its rate.");
    call_.out.line("\nFor a report: " + summary);
  }
  if (const auto path = call_.arguments.value("svg")) {
    if (Status written = write_picture(*path, bench_svg(results_, summary)); !written)
      call_.failed(written.error());
  }
}

/// Returns nothing if the command line is wrong, which is reported.
std::optional<BenchOptions> bench_options(Call& call) {
  BenchOptions out;
  out.writes = call.has("write");
  if (const auto text = call.arguments.value("time")) {
    const auto time = parse_interval(*text);
    if (!time) call.misused("--time takes seconds from 0.001 on, not '" + *text + "'");
    if (!time) return std::nullopt;
    out.time = *time;
  }
  if (const auto text = call.arguments.value("size")) {
    const auto size = parse_size(*text);
    const bool is_good = size && *size >= random_size;
    if (!is_good) call.misused("--size takes bytes from 4096 on, such as 64M, not '" + *text + "'");
    if (!is_good) return std::nullopt;
    out.size = *size;
  }
  std::string known = "," + Bench::part_names() + ",";
  for (std::string rest = call.arguments.value("parts").value_or(""); !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string name = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    if (known.find("," + name + ",") == std::string::npos) {
      call.misused("--parts takes some of " + Bench::part_names() + ", not '" + name + "'");
      return std::nullopt;
    }
    out.parts.insert(name);
  }
  return out;
}

}  // namespace

void run_bench(Call& call) {
  const auto options = bench_options(call);
  if (!options) return;
  call.each(0, [&](const Remote& remote) -> Status {
    const Result<Attributes> target = remote.client->stat(remote.path);
    if (!target) return target.error();
    if (target->type != FileType::directory && target->type != FileType::regular)
      return Error(ErrorKind::usage, EINVAL, "bench", remote.text(),
                   "is no file; name a file or a directory");
    Bench(call, remote, *options).run(*target);
    return {};
  });
}

}  // namespace nfsrdma::cli
