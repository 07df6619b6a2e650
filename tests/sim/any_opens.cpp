// AnyWorkers open, sync and close.
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

#include "sim/any_work.h"

namespace nfsrdma::sim {
namespace {

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

}  // namespace

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
  (void)co_await open(name, flags);
}

async::Task<AnyWorker::OpenRef> AnyWorker::open(std::string name, int flags) {
  begin("open", name + " " + flags_text(flags));
  const Operation operation(commons_.clock);
  NameOracle& names = commons_.name(name);
  const bool creates = (flags & O_CREAT) != 0;
  const bool cuts = (flags & O_TRUNC) != 0;
  const std::optional<NameOracle::ChangeId> making = creates ? std::optional(names.begin({})) : std::nullopt;
  std::optional<Commons::CutRef> cut;
  if (cuts) cut = commons_.begin_cut(name, who(), operation.begun());
  std::uint64_t inode = 0;
  const Opening how{creates && random_.one_in(2), static_cast<std::uint32_t>(owner_)};
  auto opened = co_await open_by_name(name, flags, how, &inode);
  if (!opened) {
    const Error& error = opened.error();
    const int code = error.errno_value();
    if (making) names.end(*making, outcome_of(error), {});
    // Nobody has cut what was not found. Else a file may have been cut before it could not be opened.
    const bool is_found = code != ENOENT && code != EEXIST && code != ESTALE;
    for (const auto& [key, change] : end_cut(cut)) {
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
    co_return nullptr;
  }
  const auto file = std::make_shared<Open>();
  file->handle = std::move(opened->handle);
  file->inode = inode;
  file->flags = flags;
  file->key = key_of(*file->handle);
  file->opened = operation.begun();
  const bool is_new = !commons_.files.contains(file->key);
  const bool may_be_absent = names.may_lead_to("", operation.begun());
  const bool may_be_it = names.may_lead_to(file->key, operation.begun());
  if (making) names.end(*making, Outcome::done, {file->key}, is_new || (flags & O_EXCL) != 0);
  // Who takes the name away, or gives it to another file, could not know that it led to this one.
  if (!names.is_quiet_since(operation.begun(), making)) commons_.unnamed.insert(file->key);
  if (!is_new && !may_be_it)
    wrong("another file is opened than " + name + " leads to: " + oracle(*file).name());
  if (creates && (flags & O_EXCL) != 0 && !may_be_absent && findings_.creates_exclusively)
    wrong("it is made with O_EXCL, and was there");
  // F24
  if ((flags & O_EXCL) != 0 && findings_.keeps_verifier(file->key)) wrong("it has a verifier for times");
  FileOracle& contents = oracle(*file);
  commons_.may_lead(name, {file->key});
  for (const auto& [key, change] : end_cut(cut)) {
    if (key == file->key)
      contents.end(change, Outcome::done, true);
    else
      commons_.file(key).cancel(change);
  }
  // A client whose state the server has lost may open files by itself that it believes to have open.
  const bool asked_server = !findings_.lost_state(client_) && findings_.restarts == 0;
  if (asked_server && findings_.delegations_exclude) contents.end_left_behind(client());
  contents.opened(client(), operation.begun());
  if (cuts && kernel() != nullptr) contents.cut_by_open(client(), operation.begun());
  keep_open(file);
  co_return file;
}

/// What an open(2) with O_TRUNC that is over has begun, by the file's handle.
std::map<std::string, FileOracle::ChangeId> AnyWorker::end_cut(const std::optional<Commons::CutRef>& cut) {
  if (!cut) return {};
  auto out = std::move((*cut)->changes);
  commons_.cuts.erase(*cut);
  return out;
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
    // Behind close(2) the data may be under way under a delegation, and be lost with the lease, with the client, or on a full
    // disk.
    const bool may_be_lost = (findings_.leases_end || findings_.clients_die || findings_.disk_fills) &&
                             (deferred || findings_.delegated(file->key));
    if (may_be_lost)
      contents.leave_behind(client(), operation.begun());
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

}  // namespace nfsrdma::sim
