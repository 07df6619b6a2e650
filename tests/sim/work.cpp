#include "sim/work.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace nfsrdma::sim {
namespace {

constexpr std::size_t kMostFiles = 8;
constexpr std::size_t kLargest = 40'000;
const fs::Caller kNobodyElse;  // the session's own credential
constexpr std::size_t kMostWrong = 20;

/// Where two texts begin to differ, with what is there.
std::string difference(const std::string& expected, const std::string& got) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first - expected.begin());
  const auto part = [at](const std::string& text) {
    std::string out = at < text.size() ? text.substr(at, 40) : "its end";
    std::ranges::replace(out, '\n', ' ');
    std::ranges::replace(out, '\0', '0');
    return out;
  };
  return "at byte " + std::to_string(at) + " of " + std::to_string(got.size()) + " there is \"" + part(got) +
         "\", and not \"" + part(expected) + "\" as in its " + std::to_string(expected.size());
}

}  // namespace

Worker::Worker(SimClient& client, std::string name, std::uint64_t seed, unsigned operations,
               Findings& findings)
    : client_(client), name_(std::move(name)), random_(seed), operations_(operations), findings_(findings) {}

void Worker::wrong(const std::string& what) {
  const std::string text = name_ + ": " + doing_ + ": " + what;
  client_.host().simulation().say(client_.host().number(), "WRONG", text);
  if (findings_.wrong.size() < kMostWrong) findings_.wrong.push_back(text);
}

void Worker::wrong(const std::string& what, const Error& error) {
  wrong(what + " gives errno " + std::to_string(error.errno_value()) + " (" + error.text() + ")");
}

void Worker::begin(const char* what, const std::string& name) {
  doing_ = std::string(what) + " " + name;
  client_.host().simulation().say(client_.host().number(), what, name_ + "/" + name);
}

std::string Worker::fresh_name() {
  return "f" + std::to_string(++last_name_);
}

std::string Worker::any_name() {
  if (files_.empty()) return "";
  auto at = files_.begin();
  std::advance(at, random_.below(files_.size()));
  return at->first;
}

std::string Worker::content(const std::string& name, std::size_t size) {
  const std::string head = name_ + "/" + name + " v" + std::to_string(++version_) + " @";
  std::string out;
  out.reserve(size + 64);
  while (out.size() < size) out += head + std::to_string(out.size()) + "\n";
  out.resize(size);
  return out;
}

async::Task<void> Worker::run() {
  begin("mkdir", "");
  auto made = co_await fs().make_directory(kNobodyElse, fs::Inodes::kRoot, name_, 0755);
  if (made) {
    directory_ = made->inode;
    for (unsigned i = 0; i < operations_; ++i) {
      co_await one_operation();
      ++findings_.operations;
      if (random_.one_in(4)) {
        co_await client_.host().loop().sleep_for(random_.between(Duration{}, std::chrono::milliseconds(20)));
      }
    }
    co_await check_all();
    fs().forget(directory_, 1);
  } else {
    wrong("mkdir", made.error());
  }
  done_ = true;
}

async::Task<void> Worker::one_operation() {
  const std::uint64_t kind = random_.below(20);
  if (files_.empty() || (kind < 5 && files_.size() < kMostFiles)) co_return co_await create();
  if (kind < 9) co_return co_await read_back(any_name());
  if (kind < 12) co_return co_await rewrite();
  if (kind < 14) co_return co_await rename();
  if (kind < 16) co_return co_await remove();
  if (kind < 17) co_return co_await list();
  if (kind < 18) co_return co_await truncate();
  co_return co_await stat(any_name());
}

/// Looks a name up that has to be there. 0: it is not, which has been said.
async::Task<std::uint64_t> Worker::find(std::string name) {
  auto found = co_await fs().lookup(kNobodyElse, directory_, name);
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
      wrong("write", done.error());
      co_return;
    }
    begin += size;
  }
  if (!random_.one_in(4)) co_return;
  auto synced = co_await fs().sync(file);
  if (!synced) wrong("fsync", synced.error());
}

async::Task<void> Worker::shut(File file) {
  auto flushed = co_await fs().flush(file, 0);
  if (!flushed) wrong("close", flushed.error());
  auto closed = co_await fs().close(std::move(file));
  if (!closed) wrong("the last close", closed.error());
}

async::Task<void> Worker::create() {
  const std::string name = fresh_name();
  begin("create", name);
  const int flags = O_RDWR | O_CREAT | (random_.one_in(2) ? O_EXCL : 0);
  auto made = co_await fs().create(kNobodyElse, directory_, name, 0644, flags);
  if (!made) {
    wrong("create", made.error());
    co_return;
  }
  files_[name] = content(name, random_.below(random_.one_in(3) ? kLargest : 2000));
  co_await write_all(made->handle, name, 0);
  co_await shut(std::move(made->handle));
  fs().forget(made->entry.inode, 1);
}

async::Task<void> Worker::rewrite() {
  const std::string name = any_name();
  begin("rewrite", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  const bool whole = random_.one_in(2);
  auto opened = co_await fs().open(kNobodyElse, inode, whole ? O_WRONLY | O_TRUNC : O_WRONLY);
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
    co_await shut(std::move(opened->handle));
  } else {
    wrong("open", opened.error());
  }
  fs().forget(inode, 1);
}

async::Task<void> Worker::read_back(std::string name) {
  begin("read", name);
  const std::uint64_t inode = co_await find(name);
  if (inode == 0) co_return;
  auto opened = co_await fs().open(kNobodyElse, inode, O_RDONLY);
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
    co_await shut(std::move(opened->handle));
  } else {
    wrong("open", opened.error());
  }
  fs().forget(inode, 1);
}

async::Task<void> Worker::rename() {
  const std::string from = any_name();
  const bool over = random_.one_in(2);
  const std::string to = over ? any_name() : fresh_name();
  begin("rename", from + " " + to);
  auto done = co_await fs().rename(kNobodyElse, directory_, from, directory_, to);
  if (!done) {
    wrong("rename", done.error());
    co_return;
  }
  if (from == to) co_return;
  files_[to] = std::move(files_[from]);
  files_.erase(from);
}

async::Task<void> Worker::remove() {
  const std::string name = any_name();
  begin("remove", name);
  auto done = co_await fs().remove_file(kNobodyElse, directory_, name);
  if (!done) wrong("remove", done.error());
  files_.erase(name);
}

async::Task<void> Worker::list() {
  begin("list", "");
  auto opened = co_await fs().open_directory(kNobodyElse, directory_, 0);
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
  auto told = co_await fs().attributes(kNobodyElse, inode);
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
  std::string& text = files_[name];
  SetAttributes changes;
  changes.size = random_.below(text.size() + 100);
  auto done = co_await fs().set_attributes(kNobodyElse, inode, changes, nullptr);
  if (!done) wrong("truncate", done.error());
  text.resize(*changes.size);
  fs().forget(inode, 1);
}

async::Task<void> Worker::check_all() {
  co_await list();
  std::vector<std::string> names;
  for (const auto& [name, text] : files_) names.push_back(name);
  for (const std::string& name : names) co_await read_back(name);
}

}  // namespace nfsrdma::sim
