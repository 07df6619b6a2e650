#include "sim/work.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace nfsrdma::sim {
namespace {

constexpr std::size_t kMostFiles = 8;
constexpr std::size_t kLargest = 40'000;
constexpr std::size_t kBlock = 512;
}  // namespace

std::string Worker::fresh_name() {
  return "f" + std::to_string(++last_name_);
}

std::string Worker::any_name() {
  return sim::any_name(files_, random_);
}

std::string Worker::content(const std::string& name, std::size_t size) {
  return text_of(name_ + "/" + name + " v" + std::to_string(++version_), size);
}

async::Task<void> Worker::run() {
  const bool entered = co_await enter(name_, false);
  if (entered) {
    while (left_ > 0) {
      co_await one_operation();
      co_await end_operation();
    }
    co_await check_all();
    co_await released();
    leave();
  }
  done_ = true;
}

async::Task<void> Worker::one_operation() {
  const std::uint64_t kind = random_.below(25);
  if (files_.empty() || (kind < 5 && files_.size() < kMostFiles)) co_return co_await create();
  if (kind < 9) co_return co_await read_back(any_name());
  if (kind < 12) co_return co_await rewrite();
  if (kind < 14) co_return co_await rename();
  if (kind < 16) co_return co_await remove();
  if (kind < 17) co_return co_await list();
  if (kind < 18) co_return co_await truncate();
  if (kind < 20) co_return co_await change_holes();
  if (kind < 22) co_return co_await copy();
  if (kind < 24) co_return co_await xattr();
  co_return co_await stat(any_name());
}

/// Looks a name up that has to be there. 0: it is not, which has been said.
async::Task<std::uint64_t> Worker::find(std::string name) {
  auto found = co_await fs().lookup(kOwn, directory_, name);
  if (!found) {
    wrong("lookup of " + name, found.error());
    co_return 0;
  }
  if (found->inode == 0) wrong("it is not there");
  co_return found->inode;
}

/// What files_ has of it, from `begin` on.
async::Task<void> Worker::write_all(File file, std::string name, std::size_t begin) {
  const std::string& text = files_[name];
  const std::size_t most = random_.between(1000, 20'000);
  while (begin < text.size()) {
    const std::size_t size = std::min(most, text.size() - begin);
    async::Memory memory = client_.host().loop().memory().take(size);
    std::memcpy(memory.data.get(), text.data() + begin, size);
    const std::span<const std::byte> data(memory.data.get(), size);
    auto done = co_await fs().write(file, std::move(memory), data, begin);
    if (!done) {
      refused("write", done.error());
      co_return;
    }
    begin += size;
  }
  // What close(2) leaves under way is lost with its lease: who has to know what the file holds sees to that before.
  const bool syncs = random_.one_in(4) || findings_.leases_end;
  if (!syncs) co_return;
  auto synced = co_await fs().sync(file);
  if (!synced) refused("fsync", synced.error());
}

/// Does what programs that unpack or copy files do when they have written all of one. Returns the time of change that was
/// set; none if that failed.
async::Task<std::optional<nfsrdma::Time>> Worker::set_time(File file, std::uint64_t inode) {
  SetAttributes changes;
  changes.modified = nfsrdma::Time{static_cast<std::int64_t>(random_.between(1, 1'000'000'000)), 0};
  auto done = co_await fs().set_attributes(kOwn, inode, changes, std::move(file));
  if (!done) refused("utimensat", done.error());
  if (!done) co_return std::nullopt;
  check_time(*changes.modified, done->attributes);
  co_return changes.modified;
}

void Worker::check_time(nfsrdma::Time set, const Attributes& told) {
  if (told.modified == set) return;
  wrong("its time of change is " + std::to_string(told.modified.seconds) + ", and was set to " +
        std::to_string(set.seconds));
}

async::Task<void> Worker::shut(File file, std::uint64_t inode, std::string wrote) {
  std::optional<nfsrdma::Time> time;
  if (!wrote.empty() && random_.one_in(3)) time = co_await set_time(file, inode);
  // That meets what close(2) leaves under way.
  if (random_.one_in(2)) findings_.recall(path_of(wrote));
  auto flushed = co_await fs().flush(file, 0);
  if (!flushed) refused("close", flushed.error());
  if (flushed && !wrote.empty() && !disk_was_full_) {
    closed_.insert(wrote);
    look_at_closed(wrote);
    if (time) {
      auto told = co_await fs().attributes(kOwn, inode);
      if (told) check_time(*time, told->attributes);
    }
  }
  (void)co_await release(std::move(file), inode);
}

/// Whoever opens a file that has been closed sees what was written.
void Worker::look_at_closed(const std::string& name) {
  if (!findings_.closes_promise || !findings_.is_owed(path_of(name))) return;
  const std::string& expected = files_[name];
  const auto there = on_server(name);
  if (there != expected) {
    wrong(name + " is closed, and is not so on the server: " + difference(expected, there.value_or("")));
  }
}

void Worker::delegation_returned() {
  for (const std::string& name : closed_) look_at_closed(name);
}

/// A file that is held open and appended to, without an fsync(2), and looked at in between.
async::Task<void> Worker::keep_log() {
  const std::string name = fresh_name();
  begin("keep a log", name);
  auto made = co_await fs().create(kOwn, directory_, name, 0644, O_RDWR | O_CREAT | O_APPEND);
  if (!made) {
    refused("create", made.error());
    disk_was_full_ = false;
    co_return;
  }
  files_[name] = "";
  for (std::uint64_t left = random_.between(2, 8); left > 0 && !disk_was_full_; --left) {
    const std::string record = content(name, 1 + random_.below(3000));
    async::Memory memory = loop().memory().take(record.size());
    std::memcpy(memory.data.get(), record.data(), record.size());
    const std::span<const std::byte> data(memory.data.get(), record.size());
    // Where the kernel believes the end to be is of no account.
    auto done = co_await fs().write(made->handle, std::move(memory), data, random_.below(1000));
    if (!done) {
      refused("append", done.error());
      break;
    }
    files_[name] += record;
    if (random_.one_in(2)) co_await loop().sleep_for(random_.between(Duration{}, std::chrono::seconds(3)));
    if (random_.one_in(2)) co_await look_at_log(made->handle, name);
  }
  // As in write_all(): what close(2) leaves under way is lost with its lease.
  if (findings_.leases_end && !disk_was_full_) {
    auto synced = co_await fs().sync(made->handle);
    if (!synced) refused("fsync", synced.error());
  }
  co_await shut(std::move(made->handle), made->entry.inode, name);
  if (disk_was_full_) co_await give_up(name);
}

async::Task<void> Worker::look_at_log(File file, std::string name) {
  const std::string& expected = files_[name];
  const bool has_holes = findings_.has_v42 && random_.one_in(2);
  if (has_holes) {
    auto found = co_await fs().seek(file, random_.below(expected.size()), SEEK_DATA);
    if (!found && !findings_.disk_fills) wrong("seek", found.error());
    co_return;
  }
  auto got = co_await fs().read(file, 0, expected.size() + 1000);
  if (!got) {
    wrong("read", got.error());
    co_return;
  }
  std::string text;
  for (const iovec& piece : got->pieces) text.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  if (text != expected && !findings_.disk_fills) wrong("its log is another: " + difference(expected, text));
}

async::Task<void> Worker::create() {
  if (findings_.data_is_lost && random_.one_in(4)) co_return co_await keep_log();
  const std::string name = fresh_name();
  begin("create", name);
  const int flags = O_RDWR | O_CREAT | (random_.one_in(2) ? O_EXCL : 0);
  auto made = co_await fs().create(kOwn, directory_, name, 0644, flags);
  if (!made) {
    refused("create", made.error());
    disk_was_full_ = false;
    co_return;
  }
  // F24
  if ((flags & O_EXCL) != 0 && findings_.keeps_verifier(key_of(*made->handle)))
    wrong(name + " has a verifier for times");
  files_[name] = content(name, random_.below(random_.one_in(3) ? kLargest : 2000));
  co_await write_all(made->handle, name, 0);
  co_await shut(std::move(made->handle), made->entry.inode, name);
  if (disk_was_full_) co_await give_up(name);
}

async::Task<void> Worker::rewrite() {
  const std::string name = any_name();
  begin("rewrite", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  closed_.erase(name);
  const bool whole = random_.one_in(2);
  auto opened = co_await fs().open(kOwn, inode, whole ? O_WRONLY | O_TRUNC : O_WRONLY);
  if (opened) {
    std::string& text = files_[name];
    const std::size_t keeps = whole ? 0 : random_.below(text.size() + 1);
    const std::string fresh = content(name, keeps + random_.below(4000));
    text.resize(whole ? 0 : std::max(text.size(), fresh.size()));
    if (whole)
      text = fresh;
    else if (fresh.size() > keeps)
      text.replace(keeps, fresh.size() - keeps, fresh, keeps);
    co_await write_all(opened->handle, name, keeps);
    co_await shut(std::move(opened->handle), inode, name);
  } else {
    wrong("open", opened.error());
    fs().forget(inode, 1);
  }
  if (disk_was_full_) co_await give_up(name);
}

/// F3, F4: the disk was full, and this worker was told. What it reads now is what the server has.
async::Task<void> Worker::give_up(std::string name) {
  disk_was_full_ = false;
  const auto there = on_server(name);
  if (!there) {
    wrong(name + " is not on the server");
    co_return;
  }
  files_[name] = *there;
  co_await read_back(name);
  begin("remove", name);
  closed_.erase(name);
  auto done = co_await fs().remove_file(kOwn, directory_, name);
  if (!done) wrong("remove", done.error());
  files_.erase(name);
  xattrs_.erase(name);
}

void Worker::refused(const char* what, const Error& error) {
  if (is_full(error)) {
    disk_was_full_ = true;
  } else {
    wrong(what, error);
  }
}

/// What close(2) leaves under way is lost with its lease. A file that the disk had no room for was not synced before
/// (write_all()).
void Worker::last_close_failed(const Error& error) {
  if (!disk_was_full_ || !findings_.leases_end) refused("the last close", error);
}

async::Task<void> Worker::read_back(std::string name) {
  begin("read", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  auto opened = co_await fs().open(kOwn, inode, O_RDONLY);
  if (opened) {
    const std::string& expected = files_[name];
    std::string got;
    const std::size_t most = random_.between(1000, 20'000);
    for (;;) {
      auto data = co_await fs().read(opened->handle, got.size(), most);
      if (!data) {
        wrong("read", data.error());
        break;
      }
      for (const iovec& piece : data->pieces)
        got.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      if (data->size < most) break;
    }
    if (got != expected) wrong("its content is another: " + difference(expected, got));
    co_await shut(std::move(opened->handle), inode);
  } else {
    wrong("open", opened.error());
    fs().forget(inode, 1);
  }
}

async::Task<void> Worker::rename() {
  const std::string from = any_name();
  if (!findings_.exports.empty() && random_.one_in(4)) co_return co_await rename_across();
  const bool over = random_.one_in(2);
  const std::string to = over ? any_name() : fresh_name();
  begin("rename", from + " " + to);
  closed_.erase(from);
  closed_.erase(to);
  auto done = co_await fs().rename(kOwn, directory_, from, directory_, to);
  if (!done) {
    wrong("rename", done.error());
    co_return;
  }
  if (from == to) co_return;
  files_[to] = std::move(files_[from]);
  files_.erase(from);
  const auto value = xattrs_.extract(from);
  xattrs_.erase(to);
  if (value) xattrs_[to] = value.mapped();
}

/// Between exports nothing can be renamed or linked, whatever numbers their files have.
async::Task<void> Worker::rename_across() {
  const std::string name = any_name();
  const std::string other =
      mounted_.empty() ? findings_.exports[random_.below(findings_.exports.size())] : "";
  begin("rename into another export", name);
  const std::uint64_t root = co_await root_of(other);
  const std::uint64_t inode = co_await find(name);
  if (root == 0 || inode == 0) co_return;
  // The root's may be read-only, as the one that servers make of their exports is.
  const bool may_refuse = other.empty();
  const auto expect = [&](const char* what, bool done, int number) {
    if (done || (number != EXDEV && !(may_refuse && number == EROFS)))
      wrong(std::string(what) + " gives errno " + std::to_string(number));
  };
  auto renamed = co_await fs().rename(kOwn, directory_, name, root, name_ + name);
  expect("rename", static_cast<bool>(renamed), renamed ? 0 : renamed.error().errno_value());
  auto linked = co_await fs().link(kOwn, inode, root, name_ + name);
  expect("link", static_cast<bool>(linked), linked ? 0 : linked.error().errno_value());
  fs().forget(inode, 1);
  if (root != fs::Inodes::kRoot) fs().forget(root, 1);
}

async::Task<void> Worker::remove() {
  const std::string name = any_name();
  begin("remove", name);
  closed_.erase(name);
  auto done = co_await fs().remove_file(kOwn, directory_, name);
  if (!done) wrong("remove", done.error());
  files_.erase(name);
  xattrs_.erase(name);
}

async::Task<void> Worker::list() {
  begin("list", "");
  auto opened = co_await fs().open_directory(kOwn, directory_, 0);
  if (!opened) {
    wrong("opendir", opened.error());
    co_return;
  }
  const auto handle = *opened;
  std::set<std::string> got;
  std::uint64_t cookie = 0;
  for (;;) {
    auto page = co_await fs().list(handle, cookie);
    if (!page) {
      wrong("list", page.error());
      co_return;
    }
    if (page->empty()) break;
    for (const fs::Listed& one : *page) {
      if (!got.insert(one.name).second) wrong(one.name + " is listed twice");
      cookie = one.cookie;
    }
  }
  for (const auto& [name, text] : files_) {
    if (got.erase(name) == 0) wrong(name + " is not listed");
  }
  for (const std::string& name : got) wrong(name + " is listed, and should not be there");
}

async::Task<void> Worker::stat(std::string name) {
  begin("stat", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  auto told = co_await fs().attributes(kOwn, inode);
  if (!told) {
    wrong("stat", told.error());
  } else if (told->attributes.size != files_[name].size()) {
    wrong("its size is " + std::to_string(told->attributes.size) + ", and not " +
          std::to_string(files_[name].size()));
  }
  fs().forget(inode, 1);
}

async::Task<void> Worker::truncate() {
  const std::string name = any_name();
  begin("truncate", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  closed_.erase(name);
  std::string& text = files_[name];
  SetAttributes changes;
  changes.size = random_.below(text.size() + 100);
  auto done = co_await fs().set_attributes(kOwn, inode, changes, nullptr);
  if (!done) refused("truncate", done.error());
  if (!std::exchange(disk_was_full_, false)) text.resize(*changes.size);
  fs().forget(inode, 1);
}

/// A hole, or room behind the end.
async::Task<void> Worker::change_holes() {
  if (!findings_.has_v42) co_return;
  const std::string name = any_name();
  begin("change the holes of", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  closed_.erase(name);
  auto opened = co_await fs().open(kOwn, inode, O_RDWR);
  if (opened) {
    std::string& text = files_[name];
    const bool digs = random_.one_in(2);
    const std::size_t at = random_.below(text.size() + 1);
    const std::size_t length = 1 + random_.below(5000);
    const int mode = digs ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
    auto done = co_await fs().allocate(opened->handle, mode, at, length);
    if (!done) {
      refused("fallocate", done.error());
    } else if (digs) {
      const std::size_t dug = std::min(length, text.size() - at);
      text.replace(at, dug, dug, '\0');
    } else {
      text.resize(std::max(text.size(), at + length));
    }
    co_await shut(std::move(opened->handle), inode, name);
  } else {
    wrong("open", opened.error());
    fs().forget(inode, 1);
  }
  if (disk_was_full_) co_await give_up(name);
}

/// copy_file_range(2), as often as it takes.
async::Task<void> Worker::copy() {
  const std::string from = any_name();
  const std::string to = any_name();
  if (from == to) co_return;
  begin("copy", from + " " + to);
  const std::uint64_t source = co_await find(from);
  const std::uint64_t target = co_await find(to);
  if (source == 0 || target == 0) co_return;
  closed_.erase(to);
  auto in = co_await fs().open(kOwn, source, O_RDONLY);
  auto out = co_await fs().open(kOwn, target, O_WRONLY);
  if (in && out) {
    const std::string& text = files_[from];
    std::string& copied = files_[to];
    std::size_t begin = random_.below(text.size() + 1);
    std::size_t left = random_.below(text.size() - begin + 1);
    std::size_t at = random_.below(copied.size() + 1);
    if (random_.below(2) == 0) {  // as it may be cloned
      begin -= begin % kBlock;
      at -= at % kBlock;
      left = text.size() - begin;
    }
    while (left > 0) {
      auto done = co_await fs().copy(in->handle, begin, out->handle, at, left);
      if (!done && done.error().errno_value() == EOPNOTSUPP) {  // the kernel then writes what it has read
        copied.replace(at, std::min(left, copied.size() - at), text, begin, left);
        co_await write_all(out->handle, to, at);
        break;
      }
      if (!done) {
        refused("copy_file_range", done.error());
        break;
      }
      const std::size_t count = *done;
      if (count == 0 || count > left) {
        wrong("copy_file_range says " + std::to_string(count) + " of " + std::to_string(left));
        break;
      }
      if (copied.size() < at + count) copied.resize(at + count);
      copied.replace(at, count, text, begin, count);
      begin += count;
      at += count;
      left -= count;
    }
  }
  if (!in) wrong("open", in.error());
  if (!out) wrong("open", out.error());
  if (!in) fs().forget(source, 1);
  if (!out) fs().forget(target, 1);
  if (in) co_await shut(std::move(in->handle), source);
  if (out) co_await shut(std::move(out->handle), target, to);
  if (disk_was_full_) co_await give_up(to);
}

async::Task<void> Worker::xattr() {
  if (!findings_.has_v42) co_return;
  const std::string name = any_name();
  begin("xattr of", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  const auto known = xattrs_.find(name);
  const std::uint64_t kind = random_.below(3);
  if (kind == 0) {
    std::string value = name + std::to_string(random_.below(1000));
    const auto octets = std::as_bytes(std::span(value));
    std::vector<std::byte> bytes(octets.begin(), octets.end());
    auto done = co_await fs().set_xattr(kOwn, inode, "user.sim", std::move(bytes), 0);
    if (done) xattrs_[name] = std::move(value);
    if (!done) refused("setxattr", done.error());
    disk_was_full_ = false;
  } else if (kind == 1 && known != xattrs_.end()) {
    auto done = co_await fs().remove_xattr(kOwn, inode, "user.sim");
    if (!done) wrong("removexattr", done.error());
    xattrs_.erase(name);
  } else {
    auto got = co_await fs().get_xattr(kOwn, inode, "user.sim");
    const bool expected = known != xattrs_.end();
    if (got && expected) {
      const std::string text(reinterpret_cast<const char*>(got->data()), got->size());
      if (text != known->second) wrong("it is \"" + text + "\", and not \"" + known->second + "\"");
    } else if (got) {
      wrong("it has a value that nobody set");
    } else if (expected || got.error().errno_value() != ENODATA) {
      wrong("getxattr", got.error());
    }
  }
  fs().forget(inode, 1);
}

async::Task<void> Worker::check_all() {
  co_await list();
  std::vector<std::string> names;
  for (const auto& [name, text] : files_) names.push_back(name);
  for (const std::string& name : names) co_await read_back(name);
}

void Worker::check() {
  doing_ = "at the end";
  for (const auto& [name, text] : files_) {
    const auto there = on_server(name);
    if (!there) {
      wrong(name + " is not on the server");
    } else if (*there != text) {
      wrong(name + " has other content on the server: " + difference(text, *there));
    }
  }
}

}  // namespace nfsrdma::sim
