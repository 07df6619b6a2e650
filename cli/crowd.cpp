#include "cli/crowd.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace nfsrdma::cli {
namespace {

/// While one thread waits for its requests, others write the data that theirs have returned.
constexpr std::size_t threads = 6;

}  // namespace

void Crowd::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Crowd::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || working_ == 0; });
    if (tasks_.empty()) break;
    Task task = std::move(tasks_.back());
    tasks_.pop_back();
    ++working_;
    lock.unlock();
    task();
    task = nullptr;  // destroys what the task holds before other threads see that it is done
    lock.lock();
    --working_;
    if (tasks_.empty() && working_ == 0) changed_.notify_all();
  }
}

bool Crowd::add_thread(std::vector<std::jthread>& others) {
  try {
    others.emplace_back([this] { work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void Crowd::run() {
  std::vector<std::jthread> others;
  // If no more threads can be had, fewer do the work.
  for (bool more = true; more && others.size() + 1 < threads;) more = add_thread(others);
  work();
}

void Tree::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  const bool is_loss = error.kind() == ErrorKind::connection || error.kind() == ErrorKind::timeout;
  if (is_lost_ && is_loss) return;  // the first report stands for all
  if (error.kind() != ErrorKind::cancelled) ++failures_;
  call_.failed(error);
  if (is_loss && ends_when_lost_) is_lost_ = true;
}

bool Tree::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  return call_.out.line(text);
}

void Tree::moved(std::uint64_t bytes) {
  moved_there(bytes);
  pace_.wait(bytes);
}

void Tree::moved_there(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  progress_.update(bytes_);
}

std::function<void(std::uint64_t)> Tree::progress_of_one() {
  return [this, before = std::uint64_t{0}](std::uint64_t bytes) mutable {
    if (bytes != before) moved(bytes - std::exchange(before, bytes));
  };
}

Result<std::vector<TreeEntry>> Tree::list(const Remote& directory, std::size_t* left_out) {
  std::vector<TreeEntry> out;
  std::vector<std::string> untold;
  std::size_t unusable = 0;
  const Status status = directory.client->list(directory.path, [&](const DirectoryEntry& entry) {
    if (!is_plain_name(entry.name)) {
      failed(Error(ErrorKind::protocol, EPROTO, "list", directory.text(),
                   "the server lists an invalid file name; the entry is skipped"));
      ++unusable;
    } else if (entry.attributes) {
      out.push_back({entry.name, *entry.attributes});
    } else {
      untold.push_back(entry.name);
    }
    return going();
  });
  if (!status) return status.error();
  std::vector<std::string> paths;
  paths.reserve(untold.size());
  for (const std::string& name : untold) paths.push_back(join(directory.path, name));
  const auto told = directory.client->stat_many(paths, false);
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (told[i]) {
      out.push_back({untold[i], told[i].value()});
    } else {
      failed(told[i].error());
      ++unusable;
    }
  }
  if (left_out != nullptr) *left_out = unusable;
  return out;
}

void Tree::complete(std::function<Status()> act) {
  if (going()) {
    const Status done = act();
    if (done) return;
    if (done.error().kind() != ErrorKind::cancelled) return failed(done.error());
  }
  const std::lock_guard lock(mutex_);
  left_.push_back(std::move(act));
}

void Tree::settle() {
  if (left_.empty()) return;
  const interrupt::Grace grace;
  for (const auto& act : left_) {
    if (Status done = act(); !done && !is_lost_) failed(done.error());
  }
  left_.clear();
}

std::vector<Result<FileRead>> read_together(const Remote& directory, const std::vector<TreeEntry>& files,
                                            Rooms& rooms) {
  std::vector<ReadItem> items;
  items.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    items.push_back({join(directory.path, files[i].name), rooms[i]});
  return directory.client->read_many(items);
}

}  // namespace nfsrdma::cli
