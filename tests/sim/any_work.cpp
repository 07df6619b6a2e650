#include "sim/any_work.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostOpen = 4;
constexpr std::uint64_t kPage = 4096;

}  // namespace

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
  if (commons_.stripes && random_.one_in(12)) co_return co_await stripes();
  if (kernel() != nullptr && random_.one_in(25)) co_return co_await lengthen_and_map();
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
  if (kind < 19 && file->writes() && random_.one_in(2)) co_return co_await touch(file);
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
  return kSharedNames.at(random_.below(commons_.names.size()));
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

void AnyWorker::count(Coverage::Operation operation, const Open& file, std::uint64_t size, bool past) {
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
  commons_.coverage.count(operation, file.flags, size, states, past);
}

void AnyWorker::count_whole(Coverage::Operation operation, const Open& file) {
  const auto sizes = oracle(file).sizes(client(), commons_.clock.now());
  count(operation, file, sizes.empty() ? 0 : sizes.back());
}

void AnyWorker::keep_open(const OpenRef& file) {
  file->restarts = findings_.restarts;
  if (const std::uint64_t number = file->handle->inode().attributes.number(); number != 0)
    commons_.numbers[number] = file->key;
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

// ---- the end ----

/// Each file is opened by each of its names, and read whole.
async::Task<void> AnyWorker::look_once_more() {
  for (const auto& [name, oracle_of_name] : commons_.names) {
    begin("look at", name);
    const Operation operation(commons_.clock);
    std::uint64_t inode = 0;
    auto opened = co_await open_by_name(name, O_RDONLY, {false, static_cast<std::uint32_t>(owner_)}, &inode);
    const bool is_absent = !opened && opened.error().errno_value() == ENOENT;
    if (is_absent && !commons_.name(name).may_lead_to("", operation.begun()))
      wrong("it is said not to be there");
    if (!opened && !is_absent) may_fail("open", opened.error(), "");
    if (!opened) continue;
    const auto file = std::make_shared<Open>();
    file->handle = std::move(opened->handle);
    file->inode = inode;
    file->flags = O_RDONLY;
    file->key = key_of(*file->handle);
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
    for (const auto& [key, file] : commons_.files) {
      if (!oracle.may_lead_to(key, now)) continue;
      verdict = file->check_final(*there);
      if (verdict.empty()) break;
    }
    if (!verdict.empty()) wrong(name + " on the server: " + verdict);
  }
}

}  // namespace nfsrdma::sim
