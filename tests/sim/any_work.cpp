#include "sim/any_work.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/quick_read.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::array kSharedNames{"a", "b", "c", "d"};
constexpr std::size_t kMostOpen = 4;
constexpr std::uint64_t kFurthest = 120'000;  // where a write may begin
constexpr unsigned kLooks = 10;               // at a name that leads elsewhere each time
constexpr std::uint64_t kPage = 4096;

std::string key_of(const fs::FileHandle& handle) {
  return {reinterpret_cast<const char*>(handle.bytes.data()), handle.length};
}

std::string flags_text(int flags) {
  std::string out = (flags & O_ACCMODE) == O_RDWR ? "rw" : (flags & O_ACCMODE) == O_WRONLY ? "w" : "r";
  const auto add = [&](int flag, const char* text) {
    if ((flags & flag) == flag) out += text;
  };
  add(O_CREAT, " creat");
  add(O_EXCL, " excl");
  add(O_TRUNC, " trunc");
  add(O_APPEND, " append");
  add(O_DIRECT, " direct");
  add(O_SYNC, " sync");
  return out;
}

std::string range_text(std::uint64_t offset, std::uint64_t length) {
  return std::to_string(offset) + "+" + std::to_string(length);
}

bool overlap(const LockRange& a, const LockRange& b) {
  return a.offset < b.end() && b.offset < a.end();
}

}  // namespace

Commons::Commons(const Findings& all) : findings(all) {
  for (const char* const name : kSharedNames) names.emplace(name, NameOracle(clock));
}

FileOracle& Commons::file(const std::string& key) {
  auto& out = files[key];
  if (!out) {
    out = std::make_unique<FileOracle>(
        "file " + std::to_string(files.size()), clock,
        [this](unsigned client) { return findings.disk_fills || lost_state.contains(client); });
  }
  return *out;
}

void Commons::kill(FileOracle::Client client) {
  for (const auto& [key, file] : files) file->kill(client);
  std::erase_if(locks, [&](const Lock& one) { return one.client == client; });
  for (auto& [key, by_client] : opens) by_client.erase(client);
}

bool AnyWorker::Open::reads() const {
  return (flags & O_ACCMODE) != O_WRONLY;
}
bool AnyWorker::Open::writes() const {
  return (flags & O_ACCMODE) != O_RDONLY;
}

AnyWorker::AnyWorker(SimClient& client, std::string name, std::string mounted, std::uint64_t seed,
                     unsigned operations, Findings& findings, Commons& commons)
    : Job(client, std::move(name), std::move(mounted), seed, operations, findings),
      commons_(commons),
      owner_(++commons.members) {}

async::Task<void> AnyWorker::run() {
  std::vector<OpenRef> open;
  open_ = &open;
  has_lock_ = false;
  const bool entered = co_await enter("any", true);
  if (!entered) co_return;
  while (left_ > 0) {
    co_await one_operation();
    co_await end_operation();
    co_await rest();
  }
  while (!open.empty()) {
    if (open.back()->writes()) co_await sync(open.back());
    co_await close(open.back());
  }
  co_await look_once_more();
  co_await released();
  leave();
  done_ = true;
}

/// Some leave their files open for a while, and some until the server has restarted or failed over.
async::Task<void> AnyWorker::rest() {
  if (random_.one_in(15)) co_await loop().sleep_for(random_.between(Duration{}, 5s));
  const bool awaits =
      findings_.data_is_lost && !open_->empty() && restarts_to_await_ > 0 && random_.one_in(6);
  if (!awaits) co_return;
  --restarts_to_await_;
  const std::uint64_t before = findings_.restarts;
  for (auto left = 40s; left > 0s && findings_.restarts == before; left -= 1s) co_await loop().sleep_for(1s);
}

void AnyWorker::killed() {
  open_ = nullptr;
  commons_.kill(client());
}

async::Task<void> AnyWorker::one_operation() {
  // Of a client that the server has taken state from, what is not synced may be lost before it hears of it.
  if (findings_.lost_state(client_)) commons_.lost_state.insert(client());
  const std::uint64_t kind = random_.below(40);
  if (open_->empty() || (kind < 5 && open_->size() < kMostOpen)) co_return co_await open();
  if (kind == 5) co_return co_await rename();
  if (kind == 6) co_return co_await link();
  if (kind == 7) co_return co_await remove();
  if (kind == 8) co_return co_await list();
  if (kind < 11) {
    const OpenRef from = any_open(true, false), to = any_open(false, true);
    if (from && to && from->key != to->key) co_await copy(from, to);
    co_return;
  }
  co_await on_open_file((*open_)[random_.below(open_->size())]);
}

async::Task<void> AnyWorker::on_open_file(OpenRef file) {
  const std::uint64_t kind = random_.below(32);
  // A mapping takes an open file that may be read, and for stores in it written, too. None is made through an O_DIRECT
  // descriptor: the file layer takes what the kernel reads for it for what passes its pages by, so that it does not know
  // of these pages, and lseek(2), unlock and copies do not fetch what was stored in them.
  const bool maps =
      kernel() != nullptr && file->reads() && (file->flags & O_DIRECT) == 0 && random_.one_in(3);
  const bool stores = maps && file->writes() && random_.one_in(2);
  if (stores) co_return co_await store(file);
  if (maps) co_return co_await load(file);
  const bool writes = file->writes() && (kind < 8 || !file->reads());
  if (kind < 15 && writes) co_return co_await write(file);
  if (kind < 15) co_return co_await read(file);
  if (kind < 18) co_return co_await stat(file);
  if (kind < 20 && file->writes()) co_return co_await truncate(file);
  if (kind < 22 && file->writes()) co_return co_await allocate(file, random_.one_in(2));
  if (kind < 24) co_return co_await seek(file);
  if (kind < 26 && has_lock_) co_return co_await unlock();
  if (kind < 26) co_return co_await lock(file);
  if (kind < 29) co_return co_await sync(file);
  co_return co_await close(file);
}

// ---- what is drawn ----

std::string AnyWorker::any_name() {
  return kSharedNames.at(random_.below(kSharedNames.size()));
}

AnyWorker::OpenRef AnyWorker::any_open(bool reads, bool writes) {
  std::vector<OpenRef> fit;
  for (const OpenRef& one : *open_) {
    if ((!reads || one->reads()) && (!writes || one->writes())) fit.push_back(one);
  }
  return fit.empty() ? nullptr : fit[random_.below(fit.size())];
}

/// One that the file may have now.
std::uint64_t AnyWorker::a_size(const Open& file) {
  const auto sizes = oracle(file).sizes(client(), commons_.clock.now());
  return sizes.empty() ? 0 : sizes[random_.below(sizes.size())];
}

void AnyWorker::count(Coverage::Operation operation, const Open& file, std::uint64_t size) {
  unsigned states = Coverage::kPlain;
  const auto& opens = commons_.opens[file.key];
  const auto is_other = [this](const auto& one) { return one.first != client() && one.second != 0; };
  const auto is_locked = [&](const Commons::Lock& one) {
    return one.owner == owner_ && one.file == file.key && one.released == 0;
  };
  if (oracle(file).has_unsettled(client())) states |= Coverage::kUnsynced;
  if (std::ranges::any_of(opens, is_other)) states |= Coverage::kElsewhere;
  if (std::ranges::any_of(commons_.locks, is_locked)) states |= Coverage::kLocked;
  if (file.restarts != findings_.restarts) states |= Coverage::kRestarted;
  if (commons_.unnamed.contains(file.key)) states |= Coverage::kNameless;
  if (findings_.delegated(file.key)) states |= Coverage::kDelegated;
  commons_.coverage.count(operation, file.flags, size, states);
}

void AnyWorker::count_whole(Coverage::Operation operation, const Open& file) {
  const auto sizes = oracle(file).sizes(client(), commons_.clock.now());
  count(operation, file, sizes.empty() ? 0 : sizes.back());
}

void AnyWorker::keep_open(const OpenRef& file) {
  file->restarts = findings_.restarts;
  open_->push_back(file);
  ++commons_.opens[file->key][client()];
  count_whole(Coverage::Operation::open, *file);
}

/// The beginning, the end, somewhere in between, at a page's border, or behind the end.
std::uint64_t AnyWorker::any_offset(const Open& file) {
  const std::uint64_t size = std::min(a_size(file), kFurthest);
  switch (random_.below(6)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return size;
    case 3:
      return random_.below(size + 1);
    case 4:
      return random_.below(size + 1) / kPage * kPage;
    default:
      return size + random_.below(10'000);
  }
}

std::size_t AnyWorker::any_size() {
  switch (random_.below(6)) {
    case 0:
      return 1 + random_.below(20);
    case 1:
      return kPage;
    case 2:
      return 1 + random_.below(40'000);
    default:
      return 1 + random_.below(5000);
  }
}

/// Octets that show by a few in a row which change they are of.
std::string AnyWorker::fresh_octets(std::size_t size) {
  Random octets(++commons_.records);
  std::string out(size, '\0');
  for (char& octet : out) octet = static_cast<char>('!' + octets.below(94));
  return out;
}

// ---- judging ----

/// A file without a name is gone for those that have it open, over older versions if another client removes it, else when
/// the server restarts.
void AnyWorker::judge(const std::string& verdict, const Open& file) {
  const bool forgets = !findings_.files_outlive_names || findings_.restarts != 0;
  const bool may_be_gone = forgets && commons_.unnamed.contains(file.key);
  if (!verdict.empty() && !may_be_gone) wrong(verdict);
}

bool AnyWorker::may_fail(const char* what, const Error& error, const std::string& key) {
  const int code = error.errno_value();
  if (is_full(error)) return true;
  // The server may forget what has no name; and over NFSv4.0 a file is opened again by its name behind a restart.
  if ((code == ESTALE || code == ENOENT) && (key.empty() || commons_.unnamed.contains(key))) return true;
  if (code == EIO && findings_.lost_state(client_)) return true;
  if (error.kind() == ErrorKind::unknown_outcome && findings_.leases_end) return true;
  wrong(what, error);
  return false;
}

AnyWorker::Outcome AnyWorker::outcome_of(const Error& error) const {
  const bool is_answer = error.kind() == ErrorKind::server || error.kind() == ErrorKind::usage;
  return is_answer && error.errno_value() != EIO ? Outcome::failed : Outcome::unknown;
}

AnyWorker::Outcome AnyWorker::outcome_of(const Status& done) const {
  return done ? Outcome::done : outcome_of(done.error());
}

// ---- open, close ----

/// As the kernel does: by the inode that the name leads to, and by the name again if it leads elsewhere by then.
async::Task<Result<fs::OpenedFile>> AnyWorker::open_by_name(std::string name, int flags,
                                                            std::uint64_t* inode) {
  const bool creates = (flags & O_CREAT) != 0;
  const bool at_once = creates && random_.one_in(2);  // the kernel believes that it is not there
  for (unsigned looks = 0;; ++looks) {
    const std::uint64_t version = kernel() != nullptr ? kernel()->version() : 0;
    Result<fs::Entry> found = fs::Entry();
    if (!at_once) found = co_await fs().lookup(kOwn, directory_, name);
    if (!found) co_return found.error();
    if (found->inode == 0 && !creates) co_return fs::refusal(ENOENT, "LOOKUP", name, "there is no such file");
    if (found->inode == 0) {
      auto made = co_await fs().create(kOwn, directory_, name, 0666, flags);
      if (!made) co_return made;
      *inode = made->entry.inode;
      if (kernel() != nullptr) co_await kernel()->entered(made->entry, version);
      if (kernel() != nullptr) co_await kernel()->opened(*made, *inode, flags);
      co_return made;
    }
    if (kernel() != nullptr) co_await kernel()->entered(*found, version);
    if (creates && (flags & O_EXCL) != 0) {
      forget(found->inode);
      co_return fs::refusal(EEXIST, "LOOKUP", name, "the file is there");
    }
    auto opened = co_await fs().open(kOwn, found->inode, flags & ~(O_CREAT | O_EXCL),
                                     static_cast<std::uint32_t>(owner_));
    if (opened) {
      *inode = found->inode;
      if (kernel() != nullptr) co_await kernel()->opened(*opened, *inode, flags);
      co_return opened;
    }
    forget(found->inode);
    if (opened.error().errno_value() != ESTALE || looks == kLooks) co_return opened;
  }
}

/// Of what was looked up. A kernel keeps inodes for as long as it likes.
void AnyWorker::forget(std::uint64_t inode) {
  if (kernel() == nullptr) return fs().forget(inode, 1);
  kernel()->let_go(inode);
  if (random_.one_in(4)) kernel()->forget_unused(inode);
}

async::Task<void> AnyWorker::open() {
  const std::string name = any_name();
  static constexpr std::array kAccess{O_RDONLY, O_WRONLY, O_RDWR, O_RDWR};
  int flags = kAccess.at(random_.below(kAccess.size()));
  if (random_.one_in(2)) flags |= O_CREAT;
  if ((flags & O_CREAT) != 0 && random_.one_in(4)) flags |= O_EXCL;
  if ((flags & O_ACCMODE) != O_RDONLY && random_.one_in(5)) flags |= O_TRUNC;
  if (random_.one_in(4)) flags |= O_APPEND;
  if (random_.one_in(6)) flags |= O_DIRECT;
  if (random_.one_in(8)) flags |= O_SYNC;
  begin("open", name + " " + flags_text(flags));
  const Operation operation(commons_.clock);
  NameOracle& names = commons_.name(name);
  const bool creates = (flags & O_CREAT) != 0;
  const bool cuts = (flags & O_TRUNC) != 0;
  const std::optional<NameOracle::ChangeId> making = creates ? std::optional(names.begin({})) : std::nullopt;
  std::map<std::string, FileOracle::ChangeId> cutting;
  if (cuts) {
    for (const std::string& key : names.files(operation.begun()))
      cutting[key] = commons_.file(key).begin_truncate(who(), 0);
  }
  std::uint64_t inode = 0;
  auto opened = co_await open_by_name(name, flags, &inode);
  if (!opened) {
    const Error& error = opened.error();
    const int code = error.errno_value();
    if (making) names.end(*making, outcome_of(error), {});
    // Nobody has cut what was not found. Else a file may have been cut before it could not be opened.
    const bool is_found = code != ENOENT && code != EEXIST && code != ESTALE;
    for (const auto& [key, change] : cutting) {
      if (is_found)
        commons_.file(key).end(change, outcome_of(error));
      else
        commons_.file(key).cancel(change);
    }
    if (code == ENOENT && !creates) {
      if (!names.may_lead_to("", operation.begun())) wrong("it is said not to be there");
    } else if (code == EEXIST && (flags & O_EXCL) != 0) {
      // What another client has removed may be found in a directory's page that was read a while ago.
      if (error.kind() == ErrorKind::server && !names.may_lead_somewhere(operation.begun()))
        wrong("it is said to be there");
    } else {
      may_fail("open", error, "");
    }
    co_return;
  }
  const auto file = std::make_shared<Open>();
  file->handle = std::move(opened->handle);
  file->inode = inode;
  file->flags = flags;
  file->key = key_of(file->handle->inode().handle);
  file->opened = operation.begun();
  const bool is_new = !commons_.files.contains(file->key);
  const bool may_be_absent = names.may_lead_to("", operation.begun());
  const bool may_be_it = names.may_lead_to(file->key, operation.begun());
  if (making) names.end(*making, Outcome::done, {file->key}, is_new || (flags & O_EXCL) != 0);
  if (!is_new && !may_be_it)
    wrong("another file is opened than " + name + " leads to: " + oracle(*file).name());
  if (creates && (flags & O_EXCL) != 0 && !may_be_absent) wrong("it is made with O_EXCL, and was there");
  FileOracle& contents = oracle(*file);
  for (const auto& [key, change] : cutting) {
    if (key == file->key)
      contents.end(change, Outcome::done, true);
    else
      commons_.file(key).cancel(change);
  }
  if (cuts && !cutting.contains(file->key))
    contents.end(contents.begin_truncate(who(), 0, operation.begun()), Outcome::done, true);
  contents.opened(client(), operation.begun());
  if (cuts && kernel() != nullptr) contents.cut_by_open(client(), operation.begun());
  keep_open(file);
}

async::Task<void> AnyWorker::close(OpenRef file) {
  begin("close", oracle(*file).name());
  count_whole(Coverage::Operation::close, *file);
  std::erase(*open_, file);
  if (unsigned& opens = commons_.opens[file->key][client()]; opens != 0) --opens;
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  for (Commons::Lock& one : commons_.locks) {
    if (one.owner == owner_ && one.file == file->key && one.released == 0) one.released = operation.begun();
    if (one.owner == owner_ && one.file == file->key) has_lock_ = false;
  }
  const bool deferred = findings_.delegated(file->key);
  Status flushed;
  if (kernel() != nullptr)
    flushed = co_await kernel()->flush(file->handle, file->inode, owner_);
  else
    flushed = co_await fs().flush(file->handle, owner_);
  if (!flushed) {
    may_fail("close", flushed.error(), file->key);
    contents.doubt(client(), operation.begun());
  } else if (file->writes()) {
    // Behind close(2) the data may be under way under a delegation, and be lost with the lease or on a full disk.
    const bool may_be_lost =
        (findings_.leases_end || findings_.disk_fills) && (deferred || findings_.delegated(file->key));
    if (may_be_lost)
      contents.doubt(client(), operation.begun());
    else
      contents.settle(client(), operation.begun(), file->opened);
  }
  // A process loses all its locks of a file when it closes one of its descriptors.
  for (const OpenRef& other : std::vector(*open_)) {
    if (other->key != file->key) continue;
    auto released = co_await fs().release_locks(other->handle, owner_);
    if (!released) may_fail("close", released.error(), file->key);
  }
  if (kernel() == nullptr) {
    (void)co_await release(std::move(file->handle), file->inode);
    co_return;
  }
  kernel()->released(file->handle, file->inode);
  (void)co_await release(std::move(file->handle), 0);
  if (random_.one_in(4)) kernel()->forget_unused(file->inode);
}

void AnyWorker::last_close_failed(const Error& error) {
  // Which file it was is not said here.
  if (error.errno_value() != ESTALE) may_fail("the last close", error, "");
}

async::Task<void> AnyWorker::sync(OpenRef file) {
  begin("fsync", oracle(*file).name());
  count_whole(Coverage::Operation::sync, *file);
  const Operation operation(commons_.clock);
  Status done;
  if (kernel() != nullptr)
    done = co_await kernel()->sync(file->handle, file->inode);
  else
    done = co_await fs().sync(file->handle);
  FileOracle& contents = oracle(*file);
  if (done) {
    contents.settle(client(), operation.begun(), file->opened);
  } else {
    may_fail("fsync", done.error(), file->key);
    contents.doubt(client(), operation.begun());
  }
}

// ---- data ----

async::Task<Result<std::string>> AnyWorker::read_some(OpenRef file, std::uint64_t offset, std::size_t most) {
  if (kernel() != nullptr) co_return co_await kernel()->read(file->handle, file->inode, offset, most);
  std::string out;
  if (random_.one_in(2) && fs().begin_plain_read(*file->handle, offset, most)) {
    const async::Memory memory = loop().memory().take(most);
    auto quick = co_await engine::QuickWait(*file->handle->file(), {memory.data.get(), most}, offset);
    Result<std::size_t> got = quick.count;
    if (quick.rest) got = co_await std::move(*quick.rest);
    fs().end_plain_read(*file->handle, got ? *got : 0);
    if (!got) co_return got.error();
    co_return std::string(reinterpret_cast<const char*>(memory.data.get()), *got);
  }
  auto got = co_await fs().read(file->handle, offset, most);
  if (!got) co_return got.error();
  for (const iovec& piece : got->pieces) out.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  co_return out;
}

async::Task<void> AnyWorker::read(OpenRef file) {
  const std::uint64_t offset = random_.one_in(3) ? 0 : any_offset(*file);
  const std::size_t most = random_.one_in(3) ? 200'000 : any_size();
  begin("read", oracle(*file).name() + " " + range_text(offset, most));
  count(Coverage::Operation::read, *file, most);
  const Operation operation(commons_.clock);
  // Where more is wanted than one READ of the server's brings it is done by pieces, each of which is judged.
  constexpr std::size_t kPiece = 16'384;
  for (std::size_t at = 0; at < most; at += kPiece) {
    const std::size_t size = std::min(kPiece, most - at);
    const Operation piece(commons_.clock);
    auto got = co_await read_some(file, offset + at, size);
    if (!got) {
      may_fail("read", got.error(), file->key);
      co_return;
    }
    judge(oracle(*file).check_read(client(), piece.begun(), offset + at, size, *got), *file);
    if (got->size() < size) co_return;
  }
}

async::Task<void> AnyWorker::write(OpenRef file) {
  const bool appends = (file->flags & O_APPEND) != 0;
  const std::uint64_t offset = any_offset(*file);
  std::string octets = fresh_octets(any_size());
  begin(appends ? "append" : "write", oracle(*file).name() + " " + range_text(offset, octets.size()));
  count(appends ? Coverage::Operation::append : Coverage::Operation::write, *file, octets.size());
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change =
      appends ? contents.begin_append(who(), octets) : contents.begin_write(who(), offset, octets);
  Status done;
  if (kernel() != nullptr) {
    done = co_await kernel()->write(file->handle, file->inode, std::move(octets), offset, file->flags);
  } else {
    async::Memory memory = loop().memory().take(octets.size());
    std::memcpy(memory.data.get(), octets.data(), octets.size());
    const std::span<const std::byte> data(memory.data.get(), octets.size());
    done = co_await fs().write(file->handle, std::move(memory), data, offset, file->flags);
  }
  contents.end(change, outcome_of(done), (file->flags & O_SYNC) == O_SYNC);
  if (!done) may_fail("write", done.error(), file->key);
}

/// F30: a mapping reaches to the end of the file, as far as the program has to know it.
async::Task<void> AnyWorker::load(OpenRef file) {
  const std::uint64_t offset = any_offset(*file);
  begin("load", oracle(*file).name() + " " + std::to_string(offset));
  count_whole(Coverage::Operation::load, *file);
  const Operation operation(commons_.clock);
  auto got = co_await kernel()->load(file->handle, file->inode, offset);
  if (!got) {
    may_fail("load", got.error(), file->key);
    co_return;
  }
  std::string text = got->value_or("");
  // Behind the end of a file that another client has cut there may be zeros.
  text.erase(text.find_last_not_of('\0') + 1);
  const std::uint64_t asked = *got ? text.size() : 1;
  const std::string verdict = oracle(*file).check_read(client(), operation.begun(), offset, asked, text);
  judge(verdict.empty() || *got ? verdict : "SIGBUS: " + verdict, *file);
}

async::Task<void> AnyWorker::store(OpenRef file) {
  const std::uint64_t offset = random_.below(a_size(*file) + 1);
  const std::size_t size = kernel()->room(file->inode, offset, 1 + random_.below(300));
  if (size == 0) co_return;
  begin("store", oracle(*file).name() + " " + range_text(offset, size));
  count(Coverage::Operation::store, *file, size);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  std::string octets = fresh_octets(size);
  const FileOracle::ChangeId change = contents.begin_store(who(), offset, octets);
  auto done = co_await kernel()->store(file->handle, file->inode, offset, std::move(octets));
  if (done && *done != 0) co_return contents.end(change, Outcome::done);
  contents.cancel(change);
  if (!done) may_fail("store", done.error(), file->key);
}

async::Task<void> AnyWorker::stat(OpenRef file) {
  begin("fstat", oracle(*file).name());
  count_whole(Coverage::Operation::stat, *file);
  const Operation operation(commons_.clock);
  Result<std::uint64_t> size = 0;
  if (kernel() != nullptr) {
    size = co_await kernel()->size(file->inode);
  } else {
    auto told = co_await fs().attributes(kOwn, file->inode);
    if (told)
      size = told->attributes.size;
    else
      size = told.error();
  }
  if (size)
    judge(oracle(*file).check_size(client(), operation.begun(), *size), *file);
  else
    may_fail("fstat", size.error(), file->key);
}

async::Task<void> AnyWorker::truncate(OpenRef file) {
  SetAttributes changes;
  changes.size = any_offset(*file);
  const bool by_handle = random_.one_in(2);
  begin("truncate", oracle(*file).name() + " to " + std::to_string(*changes.size));
  count(Coverage::Operation::truncate, *file, *changes.size);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change = contents.begin_truncate(who(), *changes.size);
  Result<std::uint64_t> size = 0;
  if (kernel() != nullptr) {
    size = co_await kernel()->truncate(file->handle, file->inode, *changes.size, by_handle);
  } else {
    std::shared_ptr<fs::OpenHandle> handle;
    if (by_handle) handle = file->handle;
    auto done = co_await fs().set_attributes(kOwn, file->inode, changes, std::move(handle));
    if (done)
      size = done->attributes.size;
    else
      size = done.error();
  }
  contents.end(change, size ? Outcome::done : outcome_of(size.error()), true);
  if (size)
    judge(contents.check_size(client(), operation.begun(), *size), *file);
  else
    may_fail("truncate", size.error(), file->key);
}

async::Task<void> AnyWorker::allocate(OpenRef file, bool punches) {
  const std::uint64_t offset = any_offset(*file);
  const std::size_t length = any_size();
  begin(punches ? "punch" : "allocate", oracle(*file).name() + " " + range_text(offset, length));
  count(punches ? Coverage::Operation::punch : Coverage::Operation::allocate, *file, length);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*file);
  const FileOracle::ChangeId change =
      punches ? contents.begin_punch(who(), offset, length) : contents.begin_allocate(who(), offset, length);
  const int mode = punches ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
  Status done;
  if (kernel() != nullptr)
    done = co_await kernel()->allocate(file->handle, file->inode, mode, offset, length);
  else
    done = co_await fs().allocate(file->handle, mode, offset, length);
  if (!done && done.error().errno_value() == EOPNOTSUPP) {
    contents.cancel(change);
    co_return;
  }
  contents.end(change, outcome_of(done), true);
  if (!done) may_fail("fallocate", done.error(), file->key);
}

async::Task<void> AnyWorker::seek(OpenRef file) {
  const std::uint64_t offset = any_offset(*file);
  const bool for_hole = random_.one_in(2);
  begin(for_hole ? "seek to a hole" : "seek to data", oracle(*file).name() + " " + std::to_string(offset));
  count_whole(Coverage::Operation::seek, *file);
  const Operation operation(commons_.clock);
  const int whence = for_hole ? SEEK_HOLE : SEEK_DATA;
  auto found = co_await fs().seek(file->handle, offset, whence);
  FileOracle& contents = oracle(*file);
  const Tick begun = operation.begun();
  if (found && for_hole) {
    judge(contents.check_hole(client(), begun, *found, *found + 1), *file);
  } else if (found) {
    judge(contents.check_hole(client(), begun, offset, *found), *file);
  } else if (found.error().errno_value() == ENXIO) {
    judge(contents.check_hole(client(), begun, offset, for_hole ? offset + 1 : FileOracle::kEnd), *file);
  } else {
    may_fail("lseek", found.error(), file->key);
  }
}

async::Task<void> AnyWorker::copy(OpenRef from, OpenRef to) {
  const std::uint64_t at = any_offset(*from), offset = any_offset(*to);
  const std::size_t length = any_size();
  begin("copy", oracle(*from).name() + " " + range_text(at, length) + " to " + oracle(*to).name() + " " +
                    std::to_string(offset));
  count(Coverage::Operation::copy, *to, length);
  const Operation operation(commons_.clock);
  FileOracle& contents = oracle(*to);
  const FileOracle::ChangeId change = contents.begin_copy(who(), offset, length);
  Result<std::uint64_t> done = 0;
  if (kernel() != nullptr)
    done = co_await kernel()->copy(from->handle, from->inode, at, to->handle, to->inode, offset, length);
  else
    done = co_await fs().copy(from->handle, at, to->handle, offset, length);
  const int code = done ? 0 : done.error().errno_value();
  if (code == EOPNOTSUPP) {
    contents.cancel(change);
    co_return;
  }
  if (!done) {
    contents.end(change, outcome_of(done.error()));
    // The source may be shorter than what is to be copied, which the kernel looks at before it asks.
    if (code != EINVAL) {
      const bool is_source = commons_.unnamed.contains(from->key);
      may_fail("copy_file_range", done.error(), is_source ? from->key : to->key);
    }
    co_return;
  }
  if (*done > length)
    wrong("copy_file_range says " + std::to_string(*done) + " of " + std::to_string(length));
  contents.copied(change, oracle(*from), at, *done);
  contents.end(change, Outcome::done);
}

// ---- locks ----

/// S16: nobody else has it, and what its last holder did is to be seen.
void AnyWorker::granted(const Open& file, const LockRequest& request, Tick begun) {
  FileOracle& contents = oracle(file);
  for (const Commons::Lock& one : commons_.locks) {
    const bool conflicts = one.file == file.key && one.owner != owner_ && (one.write || request.write) &&
                           overlap(one.range, request.range);
    if (!conflicts) continue;
    if (one.released == 0 && !findings_.leases_end)
      wrong("owner " + std::to_string(one.owner) + " has a lock on " +
            range_text(one.range.offset, one.range.length));
    if (one.released != 0 && one.client != client()) contents.handed_over(one.client, client(), one.released);
  }
  std::erase_if(commons_.locks, [&](const Commons::Lock& one) {
    return one.file == file.key && one.released != 0 && overlap(one.range, request.range) &&
           one.owner == owner_;
  });
  contents.opened(client(), begun);
  commons_.locks.push_back({client(), owner_, file.key, request.range, request.write, 0});
  has_lock_ = true;
}

async::Task<void> AnyWorker::lock(OpenRef file) {
  LockRequest request{owner_, file->writes() && (!file->reads() || random_.one_in(2)), {}};
  if (random_.one_in(2)) request.range = {any_offset(*file), any_size()};
  begin("lock", oracle(*file).name() + (request.write ? " to write " : " to read ") +
                    range_text(request.range.offset, request.range.length));
  count_whole(Coverage::Operation::lock, *file);
  const Operation operation(commons_.clock);
  std::shared_ptr<locking::LockWait> wait;
  async::Loop::TimerId alarm{};
  if (random_.one_in(2)) {
    wait = std::make_shared<locking::LockWait>(loop());
    alarm = loop().at(loop().now() + random_.between(Duration{}, 2s), [wait] { wait->cancel(); });
  }
  auto done = co_await fs().lock(file->handle, request, wait);
  if (wait && !wait->cancelled()) loop().cancel(alarm);
  if (done) co_return granted(*file, request, operation.begun());
  const int code = done.error().errno_value();
  if (code != EAGAIN && code != EINTR) may_fail("lock", done.error(), file->key);
}

async::Task<void> AnyWorker::unlock() {
  const auto is_mine = [this](const Commons::Lock& one) { return one.owner == owner_ && one.released == 0; };
  const auto found = std::ranges::find_if(commons_.locks, is_mine);
  has_lock_ = false;
  if (found == commons_.locks.end()) co_return;
  const Commons::Lock held = *found;
  const auto file = std::ranges::find(*open_, held.file, [](const OpenRef& one) { return one->key; });
  if (file == open_->end()) co_return;
  const OpenRef through = *file;
  begin("unlock", oracle(*through).name());
  count_whole(Coverage::Operation::unlock, *through);
  const Operation operation(commons_.clock);
  found->released = operation.begun();
  auto done = co_await fs().unlock(through->handle, owner_, held.range);
  if (done) {
    oracle(*through).unlocked(client(), operation.begun());
  } else {
    may_fail("unlock", done.error(), through->key);
    oracle(*through).doubt(client(), operation.begun());
  }
}

// ---- names ----

async::Task<void> AnyWorker::rename() {
  const std::string from = any_name(), to = any_name();
  if (from == to) co_return;
  begin("rename", from + " " + to);
  count_name(Coverage::Operation::rename);
  const Operation operation(commons_.clock);
  NameOracle& source = commons_.name(from);
  NameOracle& target = commons_.name(to);
  const auto moved = source.files(operation.begun());
  for (const std::string& key : target.files(operation.begun())) commons_.unnamed.insert(key);
  commons_.unnamed.insert(moved.begin(), moved.end());
  const auto leaving = source.begin({""});
  const auto coming = target.begin({});
  auto done = co_await fs().rename(kOwn, directory_, from, directory_, to);
  const Outcome outcome = outcome_of(done);
  for (const std::string& key : target.files(operation.begun())) commons_.unnamed.insert(key);
  // Where both are names of one file nothing is done.
  const auto replaced = target.files(operation.begun());
  const bool sure = std::ranges::none_of(
      moved, [&](const std::string& key) { return std::ranges::find(replaced, key) != replaced.end(); });
  const bool may_be_missing = source.may_lead_to("", operation.begun());
  auto arrived = source.files(operation.begun());
  arrived.insert(arrived.end(), moved.begin(), moved.end());
  source.end(leaving, outcome, {""}, sure);
  target.end(coming, outcome, arrived, sure);
  if (done) co_return;
  if (done.error().errno_value() == ENOENT) {
    if (!may_be_missing) wrong(from + " is said not to be there");
    co_return;
  }
  may_fail("rename", done.error(), "");
}

async::Task<void> AnyWorker::link() {
  const std::string from = any_name(), to = any_name();
  if (from == to) co_return;
  begin("link", from + " " + to);
  count_name(Coverage::Operation::link);
  const Operation operation(commons_.clock);
  NameOracle& source = commons_.name(from);
  NameOracle& target = commons_.name(to);
  const std::uint64_t version = kernel() != nullptr ? kernel()->version() : 0;
  auto found = co_await fs().lookup(kOwn, directory_, from);
  if (kernel() != nullptr && found) co_await kernel()->entered(*found, version);
  if (!found || found->inode == 0) {
    if (!found) may_fail("lookup", found.error(), "");
    co_return;
  }
  const auto coming = target.begin({});
  const std::uint64_t linked = kernel() != nullptr ? kernel()->version() : 0;
  auto done = co_await fs().link(kOwn, found->inode, directory_, to);
  if (kernel() != nullptr && done) co_await kernel()->entered(*done, linked);
  if (done) forget(done->inode);
  forget(found->inode);
  const bool may_be_there = target.may_lead_somewhere(operation.begun());
  target.end(coming, done ? Outcome::done : outcome_of(done.error()), source.files(operation.begun()));
  if (done) co_return;
  const int code = done.error().errno_value();
  if (code == EEXIST && may_be_there) co_return;
  // What it led to may be gone by now.
  if (code != ENOENT) may_fail("link", done.error(), "");
}

async::Task<void> AnyWorker::remove() {
  const std::string name = any_name();
  begin("remove", name);
  count_name(Coverage::Operation::remove);
  const Operation operation(commons_.clock);
  NameOracle& names = commons_.name(name);
  for (const std::string& key : names.files(operation.begun())) commons_.unnamed.insert(key);
  const auto change = names.begin({""});
  auto done = co_await fs().remove_file(kOwn, directory_, name);
  for (const std::string& key : names.files(operation.begun())) commons_.unnamed.insert(key);
  names.end(change, outcome_of(done), {""});
  if (done) co_return;
  if (done.error().errno_value() == ENOENT) {
    if (!names.may_lead_to("", operation.begun())) wrong("it is said not to be there");
    co_return;
  }
  may_fail("remove", done.error(), "");
}

async::Task<void> AnyWorker::list() {
  begin("list", "any");
  count_name(Coverage::Operation::list);
  const Operation operation(commons_.clock);
  auto opened = co_await fs().open_directory(kOwn, directory_, 0);
  if (!opened) {
    may_fail("opendir", opened.error(), "");
    co_return;
  }
  std::multiset<std::string> got;
  for (std::uint64_t cookie = 0;;) {
    auto page = co_await fs().list(*opened, cookie);
    if (!page) {
      may_fail("readdir", page.error(), "");
      co_return;
    }
    if (page->empty()) break;
    for (const fs::Listed& one : *page) {
      if (!fs::FileSystem::is_gone(**opened, one)) got.insert(one.name);
      cookie = one.cookie;
    }
  }
  for (const auto& [name, oracle] : commons_.names) {
    if (!oracle.is_quiet_since(operation.begun())) continue;
    const std::size_t count = got.count(name);
    if (count > 1) wrong(name + " is listed " + std::to_string(count) + " times");
    if (count == 0 && !oracle.may_lead_to("", operation.begun())) wrong(name + " is not listed");
    if (count != 0 && !oracle.may_lead_somewhere(operation.begun()))
      wrong(name + " is listed, and is not there");
  }
}

// ---- the end ----

/// Each file is opened by each of its names, and read whole.
async::Task<void> AnyWorker::look_once_more() {
  for (const char* const name : kSharedNames) {
    begin("look at", name);
    const Operation operation(commons_.clock);
    std::uint64_t inode = 0;
    auto opened = co_await open_by_name(name, O_RDONLY, &inode);
    const bool is_absent = !opened && opened.error().errno_value() == ENOENT;
    if (is_absent && !commons_.name(name).may_lead_to("", operation.begun()))
      wrong("it is said not to be there");
    if (!opened && !is_absent) may_fail("open", opened.error(), "");
    if (!opened) continue;
    const auto file = std::make_shared<Open>();
    file->handle = std::move(opened->handle);
    file->inode = inode;
    file->flags = O_RDONLY;
    file->key = key_of(file->handle->inode().handle);
    file->opened = operation.begun();
    oracle(*file).opened(client(), operation.begun());
    keep_open(file);
    co_await stat(file);
    co_await read(file);
    co_await close(file);
  }
}

void AnyWorker::check() {
  doing_ = "at the end";
  if (owner_ != 1) return;  // one speaks for all
  for (const auto& [name, oracle] : commons_.names) {
    const auto there = on_server(name);
    const Tick now = commons_.clock.tick();
    if (!there) {
      if (!oracle.may_lead_to("", now)) wrong(name + " is not on the server");
      continue;
    }
    std::string verdict = "it leads to no file that is known";
    for (const std::string& key : oracle.files(now)) {
      verdict = commons_.file(key).check_final(*there);
      if (verdict.empty()) break;
    }
    if (!verdict.empty()) wrong(name + " on the server: " + verdict);
  }
}

}  // namespace nfsrdma::sim
