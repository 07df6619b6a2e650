#include "fuse/metrics_writer.h"

#include <system_error>
#include <thread>
#include <utility>

namespace nfsrdma::fuse {
namespace {

constexpr std::chrono::milliseconds kMoment{1000};

/// Runs the job on a thread of its own, which outlives the caller if it has to. Returns no valid future if no
/// thread is left.
std::future<Status> in_background(std::function<Status()> job) {
  try {
    std::packaged_task<Status()> task(std::move(job));
    std::future<Status> out = task.get_future();
    std::thread(std::move(task)).detach();
    return out;
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace

MetricsWriter::MetricsWriter(async::Loop& loop, std::shared_ptr<MetricsFile> file,
                             std::chrono::seconds interval, std::function<std::string()> text, Log log)
    : loop_(loop),
      file_(std::move(file)),
      interval_(interval),
      text_(std::move(text)),
      log_(std::move(log)) {}

void MetricsWriter::begin() {
  write();
  collect(kMoment);
  loop_.set(*this, loop_.now() + interval_);
}

void MetricsWriter::on_time() {
  loop_.set(*this, loop_.now() + interval_);
  if (collect({})) write();
}

void MetricsWriter::write() {
  writing_ = in_background([file = file_, text = text_()] { return file->write(text); });
}

bool MetricsWriter::collect(std::chrono::milliseconds patience) {
  if (!writing_.valid()) return true;
  if (writing_.wait_for(patience) != std::future_status::ready) return false;
  const Status done = writing_.get();
  if (!done && !has_failed_) log_(done.error().text() + " (the mount works without; trying again)");
  if (done && has_failed_) log_("metrics are written again");
  has_failed_ = !done;
  return true;
}

void MetricsWriter::end() {
  cancel();
  if (!collect(kMoment)) return;
  writing_ = in_background([file = file_]() -> Status {
    file->remove();
    return {};
  });
  collect(kMoment);
}

}  // namespace nfsrdma::fuse
