// Load generator on libnfsrdma's public API: `depth` READs or WRITEs in flight, each started anew from the callback of
// the one before, into buffers that stay the same; or the same by the C interface with a completion queue; or
// `depth` threads that read, each with one blocking call after the other. load_common.h has the options and the report.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "load_common.h"
#include "nfsrdma/client.h"
#include "nfsrdma/nfsrdma.h"

namespace {

constexpr const char* kTool = "load_nfsrdma";

[[noreturn]] void die(const nfsrdma::Error& error) {
  load_die(kTool, "failed", error.text().c_str());
}

/// One READ after the other. Its callback captures one pointer, which std::function stores without
/// allocating.
class Lane {
 public:
  /// `keeper` has the buffer, which nobody changes while it is written.
  Lane(nfsrdma::File& file, load_run& run, std::byte* buffer, std::shared_ptr<const void> keeper)
      : file_(file), run_(run), buffer_(buffer), keeper_(std::move(keeper)) {}

  void start(std::uint64_t now) {
    if (load_next(&run_, now, &offset_, &length_) == 0) return;
    started_ = now;
    if (keeper_) {
      file_.start_write(
          {buffer_, length_}, offset_, [this](nfsrdma::Result<std::size_t> put) { ended(put); }, keeper_);
      return;
    }
    file_.start_read({buffer_, length_}, offset_, [this](nfsrdma::Result<std::size_t> got) { ended(got); });
  }

 private:
  void ended(const nfsrdma::Result<std::size_t>& got) {
    if (!got) die(got.error());
    const std::uint64_t now = load_now();
    load_finished(&run_, started_, now, offset_, length_, *got, buffer_);
    start(now);
  }

  nfsrdma::File& file_;
  load_run& run_;
  std::byte* buffer_;
  const std::shared_ptr<const void> keeper_;  // null: it reads
  std::uint64_t offset_ = 0, started_ = 0;
  std::size_t length_ = 0;
};

/// One thread's part of the run.
void read_on_a_thread(nfsrdma::File& file, load_run& part, std::byte* buffer) {
  std::uint64_t started = load_now(), offset = 0;
  std::size_t length = 0;
  while (load_next(&part, started, &offset, &length) != 0) {
    const auto got = file.read({buffer, length}, offset);
    if (!got) die(got.error());
    const std::uint64_t now = load_now();
    load_finished(&part, started, now, offset, length, *got, buffer);
    started = now;
  }
  part.busiest = load_thread_seconds();
}

/// Blocking READs by as many threads as READs are to be in flight. The threads share the file and nothing of the measuring.
void read_on_threads(nfsrdma::File& file, load_run& run, std::byte* buffers, std::size_t stride,
                     unsigned depth) {
  std::vector<std::unique_ptr<load_run>> parts;
  for (unsigned i = 0; i < depth; ++i) {
    parts.push_back(std::make_unique<load_run>());
    load_part(&run, i, depth, parts.back().get());
  }
  std::vector<std::jthread> threads;
  threads.reserve(depth);
  for (unsigned i = 0; i < depth; ++i)
    threads.emplace_back([&, i] { read_on_a_thread(file, *parts[i], buffers + i * stride); });
  threads.clear();
  for (const auto& part : parts) load_add(&run, part.get());
}

/// READs of the C interface, whose completions come from a queue, as many at a time as there are.
void read_by_queue(nfsrdma_client* client, nfsrdma_file* file, load_run& run, std::byte* buffers,
                   std::size_t stride, unsigned depth) {
  nfsrdma_error* error = nullptr;
  nfsrdma_queue* const queue = nfsrdma_queue_new(client, &error);
  if (queue == nullptr) load_die(kTool, "no queue", nfsrdma_error_text(error));
  struct Flight {
    std::uint64_t offset, started;
    std::size_t length;
  };
  std::vector<Flight> flights(depth);
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.queue = queue;
  call.flags = NFSRDMA_MORE;
  const auto start = [&](std::uint64_t number, std::uint64_t now) {
    Flight& one = flights[number];
    if (load_next(&run, now, &one.offset, &one.length) == 0) return;
    one.started = now;
    call.tag = number;
    if (nfsrdma_pread(file, buffers + number * stride, one.length, one.offset, &call, &error) < 0)
      load_die(kTool, "a READ", nfsrdma_error_text(error));
  };
  for (unsigned i = 0; i < depth; ++i) start(i, load_now());
  std::vector<nfsrdma_completion> done(64);
  while (nfsrdma_queue_pending(queue) != 0) {
    const std::int64_t count = nfsrdma_reap(queue, done.data(), done.size(), 1, 1000);
    for (const nfsrdma_completion& one : std::span(done).first(static_cast<std::size_t>(count))) {
      if (one.result < 0) load_die(kTool, "a READ", nfsrdma_error_text(one.error));
      const Flight& flight = flights[one.tag];
      const std::uint64_t now = load_now();
      load_finished(&run, flight.started, now, flight.offset, flight.length,
                    static_cast<std::size_t>(one.result), buffers + one.tag * stride);
      start(one.tag, now);
    }
  }
  nfsrdma_queue_free(queue);
}

nfsrdma::Target target_of(const load_options& options) {
  nfsrdma::Target target;
  target.host = options.server;
  target.path = options.path;
  const auto set = [&](const char* name, const std::string& value) {
    if (auto done = target.options.set(name, value); !done) die(done.error());
  };
  if (options.version != nullptr) set("vers", options.version);
  if (options.port != 0) set("port", std::to_string(options.port));
  if (options.extra != nullptr) {
    if (auto done = target.options.set_all(options.extra); !done) die(done.error());
  }
  return target;
}

void run_load(const load_options& options) {
  const nfsrdma::Target target = target_of(options);
  auto client = nfsrdma::Client::connect(target);
  if (!client) die(client.error());
  const auto mode = options.write != 0 ? nfsrdma::OpenMode::write : nfsrdma::OpenMode::read;
  auto file = (*client)->open(target.path, mode);
  if (!file) die(file.error());
  const auto attributes = (*file)->attributes();
  if (!attributes) die(attributes.error());

  constexpr std::size_t page = 4096;
  const std::size_t stride = (options.size + page - 1) / page * page;
  const std::shared_ptr<std::byte> buffers(
      static_cast<std::byte*>(std::aligned_alloc(page, stride * options.depth)), &std::free);
  if (!buffers) load_die(kTool, "no memory", "lower --size or --depth");
  std::memset(buffers.get(), 'x', stride * options.depth);

  auto run = std::make_unique<load_run>();
  load_begin(run.get(), &options, attributes->size);
  if (options.queue != 0) {
    read_by_queue((*client)->handle(), (*file)->handle(), *run, buffers.get(), stride, options.depth);
  } else if (options.threads != 0) {
    read_on_threads(**file, *run, buffers.get(), stride, options.depth);
  } else {
    std::vector<Lane> lanes;
    std::shared_ptr<const void> keeper;
    if (options.write != 0) keeper = buffers;
    for (unsigned i = 0; i < options.depth; ++i)
      lanes.emplace_back(**file, *run, buffers.get() + i * stride, keeper);
    for (Lane& lane : lanes) lane.start(load_now());
    while (load_is_over(run.get()) == 0) (*client)->wait(std::chrono::seconds(1));
  }

  const nfsrdma::Info info = (*client)->info();
  load_report(run.get(), kTool, ("NFSv" + info.version + "/RDMA").c_str());
  if (auto done = (*file)->close(); !done) die(done.error());
}

}  // namespace

int main(int argc, char** argv) {
  const load_options options =
      load_parse(argc, argv, kTool, "4.1 or 4.2 (the highest that the server takes)");
  run_load(options);
  return 0;
}
