#include "sim/job.h"

#include <fcntl.h>

#include <algorithm>

namespace nfsrdma::sim {
namespace {

constexpr std::size_t kMostWrong = 20;
constexpr unsigned kLooks = 10;  // at a name that leads elsewhere each time

}  // namespace

void Job::wrong(const std::string& what) {
  const std::string text = name_ + ": " + doing_ + ": " + what;
  client_.host().simulation().say(client_.host().number(), "WRONG", text);
  if (findings_.wrong.size() < kMostWrong) findings_.wrong.push_back(text);
}

void Job::wrong(const std::string& what, const Error& error) {
  wrong(what + " gives errno " + std::to_string(error.errno_value()) + " (" + error.text() + ")");
}

void Job::begin(const char* what, const std::string& name) {
  doing_ = std::string(what) + " " + name;
  client_.host().simulation().say(client_.host().number(), what, name_ + "/" + name);
}

async::Task<std::uint64_t> Job::root_of(std::string mounted) {
  if (mounted.empty()) co_return fs::Inodes::kRoot;
  auto found = co_await fs().lookup(kOwn, fs::Inodes::kRoot, mounted);
  if (!found) {
    wrong("lookup of " + mounted, found.error());
    co_return 0;
  }
  if (found->inode == 0) wrong(mounted + " is not there");
  co_return found->inode;
}

async::Task<bool> Job::enter(std::string directory, bool shared) {
  begin("mkdir", directory);
  directory_name_ = directory;
  root_ = co_await root_of(mounted_);
  if (root_ == 0) co_return false;
  for (;;) {
    auto made = co_await fs().make_directory(kOwn, root_, directory, 0777);
    if (!made && shared && made.error().errno_value() == EEXIST) {
      made = co_await fs().lookup(kOwn, root_, directory);
    }
    if (made) directory_ = made->inode;
    if (made && made->inode == 0) wrong("it is there, and is not");
    if (made) co_return made->inode != 0;
    if (!is_full(made.error())) {
      wrong("mkdir", made.error());
      co_return false;
    }
    co_await loop().sleep_for(std::chrono::milliseconds(100));
  }
}

void Job::leave() {
  fs().forget(directory_, 1);
  if (root_ != fs::Inodes::kRoot) fs().forget(root_, 1);
}

std::string Job::path_of(const std::string& name) const {
  return (mounted_.empty() ? "" : "/" + mounted_) + "/" + directory_name_ + "/" + name;
}

std::optional<std::string> Job::on_server(const std::string& name) const {
  return findings_.on_server(path_of(name));
}

async::Task<Result<fs::OpenedFile>> Job::open_by_name(std::string name, int flags, Opening how,
                                                      std::uint64_t* inode) {
  const bool creates = (flags & O_CREAT) != 0;
  for (unsigned looks = 0;; ++looks) {
    const std::uint64_t version = kernel() != nullptr ? kernel()->version() : 0;
    Result<fs::Entry> found = fs::Entry();
    // A kernel believes names that it has looked up, but not for O_EXCL, nor once more where the first one led to nothing.
    const bool believes = kernel() != nullptr && (flags & O_EXCL) == 0 && looks == 0;
    const std::uint64_t believed = believes ? kernel()->believed(directory_, name) : 0;
    if (believed != 0)
      found->inode = believed;
    else if (!creates || !how.believed_absent)
      found = co_await fs().lookup(kOwn, directory_, name);
    if (!found) co_return found.error();
    if (found->inode == 0 && !creates) co_return fs::refusal(ENOENT, "LOOKUP", name, "there is no such file");
    if (found->inode == 0) {
      auto made = co_await fs().create(kOwn, directory_, name, 0666, flags, how.thread);
      if (!made) co_return made;
      *inode = made->entry.inode;
      if (kernel() != nullptr) co_await kernel()->entered(made->entry, version);
      if (kernel() != nullptr) kernel()->believe_name(directory_, name, made->entry);
      if (kernel() != nullptr) co_await kernel()->opened(*made, *inode, flags);
      co_return made;
    }
    if (kernel() != nullptr && believed == 0) {
      kernel()->believe_name(directory_, name, *found);
      co_await kernel()->entered(*found, version);
    }
    if (creates && (flags & O_EXCL) != 0) {
      forget(found->inode);
      co_return fs::refusal(EEXIST, "LOOKUP", name, "the file is there");
    }
    auto opened = co_await fs().open(kOwn, found->inode, flags & ~(O_CREAT | O_EXCL), how.thread);
    if (opened) {
      *inode = found->inode;
      if (kernel() != nullptr) co_await kernel()->opened(*opened, *inode, flags);
      co_return opened;
    }
    if (kernel() != nullptr) kernel()->forget_name(directory_, name);
    forget(found->inode);
    if (opened.error().errno_value() != ESTALE || looks == kLooks) co_return opened;
  }
}

void Job::forget(std::uint64_t inode) {
  if (kernel() == nullptr) return fs().forget(inode, 1);
  kernel()->let_go(inode);
  if (random_.one_in(4)) kernel()->forget_unused(inode);
}

async::Task<Status> Job::release(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode) {
  if (findings_.closes_promise && random_.one_in(2)) {
    ++releasing_;
    loop().spawn(release_in_background(std::move(file), inode));
    co_return Status();
  }
  co_return co_await release_now(std::move(file), inode);
}

async::Task<Status> Job::release_now(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode) {
  auto closed = co_await fs().close(std::move(file));
  fs().forget(inode, 1);
  if (!closed) last_close_failed(closed.error());
  co_return closed;
}

async::Task<void> Job::release_in_background(std::shared_ptr<fs::OpenHandle> file, std::uint64_t inode) {
  (void)co_await release_now(std::move(file), inode);
  --releasing_;
}

async::Task<void> Job::released() {
  while (releasing_ != 0) co_await loop().sleep_for(std::chrono::milliseconds(1));
}

async::Task<void> Job::end_operation() {
  --left_;
  ++findings_.operations;
  if (!random_.one_in(4)) co_return;
  co_await loop().sleep_for(random_.between(Duration{}, std::chrono::milliseconds(20)));
}

std::string any_name(const std::map<std::string, std::string>& files, Random& random) {
  if (files.empty()) return "";
  auto at = files.begin();
  std::advance(at, random.below(files.size()));
  return at->first;
}

std::string key_of(const fs::OpenHandle& file) {
  const fs::FileHandle& handle = file.inode().handle;
  return {reinterpret_cast<const char*>(handle.bytes.data()), handle.length};
}

std::string lines_of(const std::string& owner, std::size_t size) {
  std::string out;
  out.reserve(size + 64);
  while (out.size() < size) out += owner + " @" + std::to_string(out.size()) + "\n";
  return out;
}

std::string text_of(const std::string& owner, std::size_t size) {
  std::string out = lines_of(owner, size);
  out.resize(size);
  return out;
}

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

}  // namespace nfsrdma::sim
