#include "nfs4/open_files.h"

#include <algorithm>
#include <array>

#include "async/all.h"
#include "async/buggify.h"
#include "async/under_way.h"
#include "nfs4/convert.h"
#include "nfs4/locks.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

bool is_attribute_left(const bitmap4& wanted, const bitmap4& set) {
  for (std::size_t i = 0; i < wanted.value.size(); ++i) {
    const std::uint32_t done = i < set.value.size() ? set.value[i] : 0;
    if ((wanted.value[i] & ~done) != 0) return true;
  }
  return false;
}

/// What EXCLUSIVE4_1 may set: servers keep the verifier in the times, and refuse those (RFC 8881 18.16.3,
/// suppattr_exclcreat; Linux: NFS4ERR_INVAL).
SetAttributes at_exclusive_create(SetAttributes changes) {
  changes.size.reset();
  changes.accessed.reset();
  changes.modified.reset();
  changes.accessed_now = changes.modified_now = false;
  return changes;
}

openflag4 how_to_create(async::Loop& loop, CreateMode how, const SetAttributes& changes) {
  createhow4 out;
  switch (how) {
    case CreateMode::unchecked:
      out.emplace<UNCHECKED4>() = encode_changes(changes);
      break;
    case CreateMode::guarded:
      out.emplace<GUARDED4>() = encode_changes(changes);
      break;
    case CreateMode::exclusive:
      // The verifier makes a second try after a lost answer find the file its own (RFC 8881 18.16.3).
      out.emplace<EXCLUSIVE4_1>() = {unique_verifier(loop), encode_changes(at_exclusive_create(changes))};
      break;
  }
  return openflag4::of<OPEN4_CREATE>(std::move(out));
}

}  // namespace

/// The files that nobody has open and that are kept for their delegations, those that were used longest ago
/// first. Whether a file is one of them is known in one place, which is its place in the list.
class ParkedFiles {
 public:
  void put_last(const std::shared_ptr<OpenFile>& file) {
    take_out(*file);
    file->sharing_.place = files_.insert(files_.end(), file);
    file->open_.parked = true;
  }
  /// False if it is not there.
  bool take_out(OpenFile& file) {
    const auto place = std::exchange(file.sharing_.place, std::nullopt);
    if (!place) return false;
    file.open_.parked = false;
    files_.erase(*place);
    return true;
  }
  /// The one that was used longest ago; null if there is none.
  std::shared_ptr<OpenFile> take_first() {
    if (files_.empty()) return nullptr;
    const auto first = files_.front();
    take_out(*first);
    return first;
  }
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  std::list<std::shared_ptr<OpenFile>> files_;
};

/// What OpenFiles and the OpenRefs share. Its tasks hold on to it.
class OpenTable : public std::enable_shared_from_this<OpenTable> {
 public:
  explicit OpenTable(Session& session) : session_(session), given_(session.loop()) {}

  /// An OPEN and what comes back of it, wherever the file was found.
  struct Opening {
    Caller caller;
    std::string label;
    std::uint32_t access = 0;
    openflag4 how = openflag4::of<OPEN4_NOCREATE>();
    open_claim4 claim = open_claim4::of<CLAIM_FH>();
  };
  async::Task<Result<OpenResult>> open_at(Opening what, Spot directory, SetAttributes changes, Wanted wanted);
  async::Task<Result<OpenResult>> open_handle(Opening what, nfs_fh4 handle, bitmap4 wanted,
                                              std::optional<Name> name);
  async::Task<Status> close(std::shared_ptr<OpenFile> file, std::uint32_t access);
  static async::Task<void> close_beside(std::shared_ptr<OpenTable> self, std::shared_ptr<OpenFile> file,
                                        std::uint32_t access) {
    auto done = co_await self->close(std::move(file), access);
  }

  static bool is_last_writer(const OpenFile& file, std::uint32_t access);
  static async::Task<void> shrink_beside(std::shared_ptr<OpenTable> self, std::shared_ptr<OpenFile> file) {
    (void)co_await self->shrink(std::move(file), false);
  }
  /// In the loop's next turn: not from inside of what ends a delegation.
  static async::Task<void> unpark_soon(std::shared_ptr<OpenTable> self, nfs_fh4 handle) {
    const async::Counted under_way(self->giving_, self->given_);
    co_await self->session_.loop().sleep_for({});
    self->unpark(handle);
  }
  void keep_delegated(std::size_t most) { most_parked_ = most; }
  void unpark(const nfs_fh4& handle);
  async::Task<void> unpark_all();
  std::shared_ptr<OpenFile> delegated(const nfs_fh4& handle);
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// One opener fewer, without a word to the server.
  static void drop(OpenFile& file, std::uint32_t access) { --file.sharing_.counts[access]; }

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] std::size_t count() const { return files_.size(); }
  [[nodiscard]] writing::AllFiles& data() { return *data_; }
  void resized(const nfs_fh4& handle, std::uint64_t size);
  std::shared_ptr<OpenFile> find(const Caller& caller, const nfs_fh4& handle, std::uint32_t access);

 private:
  using Key = std::pair<std::string, std::uint64_t>;  // of the handle and the open owner
  /// Those of one file stand next to each other.
  [[nodiscard]] auto of_file(const nfs_fh4& handle) const {
    const std::string key(handle.chars());
    const auto begin = files_.lower_bound({key, 0});
    const auto end =
        std::find_if(begin, files_.end(), [&](const auto& one) { return one.first.first != key; });
    return std::ranges::subrange(begin, end);
  }
  std::uint64_t owner_of(const Caller& caller);
  [[nodiscard]] OPEN4args arguments(const Opening& what);
  OpenRef adopt(const Opening& what, const nfs_fh4& handle, const OPEN4resok& ok,
                const Openings::Guard& guard, const CompoundReply& reply);
  OpenRef count_in(std::shared_ptr<OpenFile> file, std::uint32_t access);
  void remember(const std::shared_ptr<OpenFile>& file);
  void forget(const OpenFile& file);
  async::Task<Status> complete(std::shared_ptr<OpenFile> file);
  async::Task<Status> shrink(std::shared_ptr<OpenFile> file, bool may_park = true);
  bool park(const std::shared_ptr<OpenFile>& file);

  Session& session_;
  std::map<std::vector<std::byte>, std::uint64_t> owners_;
  std::map<Key, std::shared_ptr<OpenFile>> files_;
  ParkedFiles parked_;
  std::size_t most_parked_ = 0;
  /// What is being given back to the server, or about to be: unpark_all() waits for it.
  unsigned giving_ = 0;
  async::Event given_;
  const std::shared_ptr<writing::AllFiles> data_ = std::make_shared<writing::AllFiles>();
};

// ---- who has what ----

std::uint64_t OpenTable::owner_of(const Caller& caller) {
  std::vector<std::byte> who;
  if (caller) who.assign(caller->encoded().begin(), caller->encoded().end());
  auto [at, fresh] = owners_.try_emplace(std::move(who));
  if (fresh) at->second = session_.opens().next_owner();
  return at->second;
}

OPEN4args OpenTable::arguments(const Opening& what) {
  Open open;
  open.access = what.access;
  open.owner = owner_of(what.caller);
  OPEN4args args = open_arguments(session_, open);
  args.openhow = what.how;
  args.claim = what.claim;
  return args;
}

void OpenTable::remember(const std::shared_ptr<OpenFile>& file) {
  const auto others = of_file(file->handle());
  file->unstable_.join(others.empty() ? std::make_shared<writing::Openers>(data_, file->handle())
                                      : others.begin()->second->unstable_.openers());
  files_[{std::string(file->handle().chars()), file->state().owner}] = file;
}

void OpenTable::forget(const OpenFile& file) {
  const auto found = files_.find({std::string(file.handle().chars()), file.open_.owner});
  if (found != files_.end() && found->second.get() == &file) files_.erase(found);
}

OpenRef OpenTable::count_in(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  parked_.take_out(*file);
  ++file->sharing_.counts[access];
  file->state_changed_.notify_all();
  return {shared_from_this(), std::move(file), access};
}

/// Puts what the server said of its state where it belongs: with what is known of the file already, if the
/// same caller has it open. Where that state is there no more, complete() has the file opened again, if
/// nothing newer is known.
OpenRef OpenTable::adopt(const Opening& what, const nfs_fh4& handle, const OPEN4resok& ok,
                         const Openings::Guard& guard, const CompoundReply& reply) {
  const std::uint64_t owner = owner_of(what.caller);
  const auto found = files_.find({std::string(handle.chars()), owner});
  std::shared_ptr<OpenFile> file = found != files_.end() ? found->second : nullptr;
  if (!file || !file->is_open_) {
    file = std::make_shared<OpenFile>(session_);
    file->open_.file = handle;
    file->open_.owner = owner;
    file->open_.caller = what.caller;
    file->open_.path = what.label;
    file->open_.stateid = ok.stateid;
    file->open_.epoch = session_.epoch();
    file->open_.reclaimable = false;  // until it is known to be there
    session_.opens().hold(file->state_);
    file->is_open_ = true;
    remember(file);
  }
  Open& open = file->open_;
  if (guard.is_over(ok.stateid, reply)) {
    if (reply.epoch() == session_.epoch()) session_.delegations().take(open, ok.delegation);
    return count_in(std::move(file), what.access);
  }
  if (ok.stateid.other != open.stateid.other) {
    // The server knew nothing of the one before, or has closed it already.
    session_.lock_recovery().lose(open);
    open.lost.reset();
  }
  open.opened(ok.stateid, what.access);
  open.epoch = session_.epoch();
  open.reclaimable = true;
  open.notifies_locks = (ok.rflags & OPEN4_RESULT_MAY_NOTIFY_LOCK) != 0;
  session_.delegations().take(open, ok.delegation);
  return count_in(std::move(file), what.access);
}

void OpenTable::resized(const nfs_fh4& handle, std::uint64_t size) {
  const auto found = of_file(handle);
  if (!found.empty()) found.begin()->second->resized(size);
}

std::shared_ptr<OpenFile> OpenTable::find(const Caller& caller, const nfs_fh4& handle, std::uint32_t access) {
  const std::uint64_t owner = owner_of(caller);
  std::shared_ptr<OpenFile> out;
  for (const auto& [key, file] : of_file(handle)) {
    if (!file->is_open_ || (file->open_.access & access) != access || file->open_.unusable() != nullptr)
      continue;
    if (!out || key.second == owner) out = file;
  }
  return out;
}

// ---- opening ----

/// Where an OPEN showed that the server had lost the state before, it has to be told of the others who have
/// the file open, too; and of an OPEN that was undone before its Reply came.
async::Task<Status> OpenTable::complete(std::shared_ptr<OpenFile> file) {
  Open& open = file->open_;
  if ((file->sharing_.needed() & ~open.access) == 0) co_return Status();
  open.access |= file->sharing_.needed();
  co_return co_await session_.open_recovery().renew(file->state_);
}

async::Task<Result<OpenResult>> OpenTable::open_at(Opening what, Spot directory, SetAttributes changes,
                                                   Wanted wanted) {
  const Openings::Guard guard(session_.openings());
  const auto self = shared_from_this();
  std::array<Spot*, 1> spots{&directory};
  auto compound = co_await compound_at(session_, "open", what.caller, spots, [&](Compound& out) {
    add_walk(out, directory);
    out.add<op::SAVEFH>();
    out.add<op::OPEN>(arguments(what));
    out.add<op::GETFH>();
    add_getattr(out, wanted.object);
    out.add<op::RESTOREFH>();
    add_getattr(out, wanted.directory);
  });
  if (!compound) co_return compound.error();
  auto reply = co_await session_.call(std::move(*compound));
  if (!reply) co_return reply.error();
  OPEN4res res;
  GETFH4res handle;
  if (!take_walk(*reply, directory) || !reply->take<op::SAVEFH>() || !reply->take<op::OPEN>(res) ||
      !reply->take<op::GETFH>(handle)) {
    co_return session_.error_of(*reply, "open", what.label);
  }
  OPEN4resok& ok = *res.get<NFS4_OK>();
  OpenResult out;
  out.node.handle = handle.get<NFS4_OK>()->object;
  out.file = adopt(what, out.node.handle, ok, guard, *reply);
  out.directory.emplace().info = ok.cinfo;
  std::optional<WireAttributes> attributes;
  if (take_getattr(*reply, wanted.object, attributes) && reply->failed_status() == NFS4_OK &&
      reply->take<op::RESTOREFH>()) {
    (void)take_getattr(*reply, wanted.directory, out.directory->attributes);
  }
  if (auto done = co_await complete(out.file.file()); !done) co_return done.error();
  if (changes.size) out.file->resized(*changes.size);
  // What an exclusive create could not set (RFC 8881 18.16.3).
  const createhow4* how = what.how.get<OPEN4_CREATE>();
  const bool exclusive = how != nullptr && how->get<EXCLUSIVE4_1>() != nullptr;
  if (exclusive && is_attribute_left(encode_changes(changes).attrmask, ok.attrset)) {
    auto done = co_await out.file->set_attributes(changes);
    if (!done) co_return done.error();
    attributes.reset();
  }
  if (attributes) {
    out.node.attributes = std::move(*attributes);
  } else if (!wanted.object.value.empty()) {
    auto now = co_await out.file->attributes(wanted.object);
    if (now) out.node.attributes = std::move(*now);
  }
  co_return std::move(out);
}

namespace {

/// What a COMPOUND found out about a name, before it opens the file.
enum class NameCheck : std::uint8_t {
  leads_here,
  leads_elsewhere,
  not_allowed,  ///< the server refused to look it up: the COMPOUND ended there
  failed,       ///< the Reply is at fault
};

void add_name_check(Compound& compound, const Name& name) {
  compound.add<op::PUTFH>({name.directory});
  compound.add<op::LOOKUP>({{name.name}});
  compound.add<op::GETFH>();
}

NameCheck take_name_check(CompoundReply& reply, const nfs_fh4& handle) {
  const auto refused = [&] {
    switch (reply.failed_status()) {
      case NFS4_OK:
        return NameCheck::failed;
      case NFS4ERR_NOENT:
      case NFS4ERR_STALE:
      case NFS4ERR_BADHANDLE:
      case NFS4ERR_FHEXPIRED:
        return NameCheck::leads_elsewhere;
      default:
        return NameCheck::not_allowed;
    }
  };
  GETFH4res found;
  if (!reply.take<op::PUTFH>() || !reply.take<op::LOOKUP>() || !reply.take<op::GETFH>(found))
    return refused();
  return found.get<NFS4_OK>()->object == handle ? NameCheck::leads_here : NameCheck::leads_elsewhere;
}

}  // namespace

async::Task<Result<OpenResult>> OpenTable::open_handle(Opening what, nfs_fh4 handle, bitmap4 wanted,
                                                       std::optional<Name> name) {
  const auto self = shared_from_this();
  OpenResult out;
  out.node.handle = handle;
  const auto known = files_.find({std::string(handle.chars()), owner_of(what.caller)});
  const bool delegated = known != files_.end() && what.access == OPEN4_SHARE_ACCESS_READ &&
                         known->second->is_open_ && known->second->open_.delegated() &&
                         (known->second->open_.access & what.access) != 0 &&
                         known->second->open_.unusable() == nullptr && session_.delegations().good() &&
                         !async::buggify(session_.loop());
  if (delegated) {
    // RFC 8881 10.4: nobody changed it, nor who may read it.
    out.file = count_in(known->second, what.access);
    if (!wanted.value.empty()) {
      auto now = co_await out.file->attributes(wanted);
      if (!now) co_return now.error();
      out.node.attributes = std::move(*now);
    }
    co_return std::move(out);
  }
  const Openings::Guard guard(session_.openings());
  Compound compound = session_.begin("open", what.caller);
  if (name) add_name_check(compound, *name);
  compound.add<op::PUTFH>({handle});
  compound.add<op::OPEN>(arguments(what));
  add_getattr(compound, wanted);
  const std::uint64_t as_of = session_.modifications().of(handle);
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  const NameCheck check = name ? take_name_check(*reply, handle) : NameCheck::leads_here;
  // Whoever got the file from somebody else may open it where he may not look around.
  if (check == NameCheck::not_allowed)
    co_return co_await open_handle(std::move(what), handle, std::move(wanted), std::nullopt);
  OPEN4res res;
  if (check == NameCheck::failed || !reply->take<op::PUTFH>() || !reply->take<op::OPEN>(res)) {
    if (check != NameCheck::leads_elsewhere) co_return session_.error_of(*reply, "open", what.label);
    co_return status_error(NFS4ERR_STALE, "open", what.label);
  }
  out.file = adopt(what, handle, *res.get<NFS4_OK>(), guard, *reply);
  // It was opened all the same, and is closed with `out`.
  if (check == NameCheck::leads_elsewhere) co_return status_error(NFS4ERR_STALE, "open", what.label);
  std::optional<WireAttributes> attributes;
  (void)take_getattr(*reply, wanted, attributes);
  if (attributes) {
    out.file->know(wanted, *attributes, as_of);
    out.node.attributes = std::move(*attributes);
  }
  if (auto done = co_await complete(out.file.file()); !done) co_return done.error();
  co_return std::move(out);
}

// ---- closing ----

/// Gives back what nobody needs any more, one such task at a time for a file. What is needed may change while
/// the server is asked.
async::Task<Status> OpenTable::shrink(std::shared_ptr<OpenFile> file, bool may_park) {
  const auto self = shared_from_this();
  const async::Counted under_way(giving_, given_);
  OpenFile::Sharing& sharing = file->sharing_;
  const bool settled = co_await file->settled(session_.default_deadline());
  if (!settled || !file->is_open_)
    co_return Status();  // whoever is at it sees what is needed when he is done
  const async::Flagged changing(sharing.changing, file->state_changed_);
  for (;;) {
    const std::uint32_t needed = sharing.needed();
    if (needed == 0 && !file->open_.locks.empty()) {
      // Whoever locked it has closed it without saying so. The server need not do it by itself (18.2.3).
      const std::uint64_t owner = file->open_.locks.begin()->first;
      auto released = co_await Locks(session_).release(file, owner);
      file->open_.locks.erase(owner);
      continue;
    }
    if (needed == 0 && may_park && park(file)) co_return Status();
    if (needed == 0 && file->uses_ != 0) {
      // What was read ahead may still be under way. Behind a CLOSE it would find the stateid gone, and have
      // the file opened again.
      const bool in_time = co_await file->state_changed_.wait_until(session_.default_deadline());
      if (in_time) continue;
    }
    if (needed == 0) {
      auto done = co_await file->give_up_state();
      if (!done && file->is_open_ && sharing.needed() == 0) {
        session_.opens().release(file->open_);
        file->is_open_ = false;
      }
      if (!file->is_open_) {
        forget(*file);
        co_return done;
      }
      continue;
    }
    if ((file->open_.access & ~needed) == 0 || file->open_.lost) co_return Status();
    const async::Flagged downgrading(sharing.downgrading, file->state_changed_);
    auto done = co_await file->downgrade(needed);
    // The server gives back only what was had by an OPEN of its own (Linux), which is not so for what
    // recovery opened; then it keeps more than is needed until CLOSE.
    if (!done && done.error().status() == NFS4ERR_INVAL) co_return Status();
    if (!done) co_return done;
    // Of an OPEN that came first, and whose Reply has come since.
    if (auto completed = co_await complete(file); !completed) co_return completed;
    if (sharing.needed() == needed) co_return Status();
  }
}

// ---- parking ----

bool OpenTable::park(const std::shared_ptr<OpenFile>& file) {
  Open& open = file->open_;
  if (most_parked_ == 0 || async::buggify(session_.loop()) || session_.ending() || !open.delegated() ||
      open.unusable() != nullptr || open.access != OPEN4_SHARE_ACCESS_READ ||
      !session_.delegations().good()) {
    return false;
  }
  parked_.put_last(file);
  if (parked_.size() > most_parked_) {
    session_.beside().spawn(shrink_beside(shared_from_this(), parked_.take_first()));
  }
  return true;
}

void OpenTable::unpark(const nfs_fh4& handle) {
  std::vector<std::shared_ptr<OpenFile>> found;
  for (const auto& [key, file] : of_file(handle)) {
    if (parked_.take_out(*file)) found.push_back(file);
  }
  for (const auto& file : found) session_.beside().spawn(shrink_beside(shared_from_this(), file));
}

async::Task<void> OpenTable::unpark_all() {
  most_parked_ = 0;
  const auto self = shared_from_this();
  std::vector<async::Task<Status>> tasks;
  while (auto file = parked_.take_first()) tasks.push_back(shrink(std::move(file), false));
  (void)co_await async::all(session_.loop(), std::move(tasks));
  while (giving_ != 0) (void)co_await given_.wait_until(async::TimePoint::max());
}

std::shared_ptr<OpenFile> OpenTable::delegated(const nfs_fh4& handle) {
  if (files_.empty()) return nullptr;  // as mostly while a tree is listed
  for (const auto& [key, file] : of_file(handle)) {
    if (file->is_open_ && file->open_.delegated() && file->open_.unusable() == nullptr) {
      return session_.delegations().good() ? file : nullptr;
    }
  }
  return nullptr;
}

bool OpenTable::is_last_writer(const OpenFile& file, std::uint32_t access) {
  const unsigned* counts = file.sharing_.counts;
  return (access & OPEN4_SHARE_ACCESS_WRITE) != 0 &&
         counts[OPEN4_SHARE_ACCESS_WRITE] + counts[OPEN4_SHARE_ACCESS_BOTH] == 1;
}

async::Task<Status> OpenTable::close(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  Status synced;
  if (is_last_writer(*file, access)) synced = co_await file->commit();  // while it may still be written
  drop(*file, access);
  auto done = co_await shrink(std::move(file));
  co_return synced ? done : synced;
}

// ---- the public face ----

OpenRef& OpenRef::operator=(OpenRef&& other) noexcept {
  if (this == &other) return *this;
  const OpenRef dropped = std::move(*this);
  table_ = std::move(other.table_);
  file_ = std::move(other.file_);
  access_ = other.access_;
  return *this;
}

OpenRef::~OpenRef() {
  if (!file_) return;
  if (table_->session().ending()) {
    OpenTable::drop(*file_, access_);
    return;
  }
  async::Tasks& beside = table_->session().beside();
  beside.spawn(OpenTable::close_beside(std::move(table_), std::move(file_), access_));
}

OpenFiles::OpenFiles(Session& session) : table_(std::make_shared<OpenTable>(session)) {}
OpenFiles::~OpenFiles() = default;

async::Task<Result<OpenResult>> OpenFiles::open_at(Caller caller, Spot directory, std::string name,
                                                   std::uint32_t access, std::optional<CreateMode> how,
                                                   SetAttributes changes, Wanted wanted) {
  OpenTable::Opening what{std::move(caller), directory.text(name), access};
  if (how) what.how = how_to_create(table_->session().loop(), *how, changes);
  what.claim = open_claim4::of<CLAIM_NULL>(component4{std::move(name)});
  return table_->open_at(std::move(what), std::move(directory), changes, std::move(wanted));
}

async::Task<Result<OpenResult>> OpenFiles::open_handle(Caller caller, nfs_fh4 file, std::string label,
                                                       std::uint32_t access, bitmap4 wanted,
                                                       std::optional<Name> name) {
  return table_->open_handle({std::move(caller), std::move(label), access}, file, std::move(wanted),
                             std::move(name));
}

async::Task<Status> OpenFiles::close(OpenRef ref) {
  const auto table = ref.table_;
  if (!ref.file_) co_return Status();
  Status synced;
  // While the OpenRef is there: a task that is destroyed here closes it beside.
  if (OpenTable::is_last_writer(*ref.file_, ref.access_)) synced = co_await ref.file_->commit();
  auto file = std::move(ref.file_);
  auto done = co_await table->close(std::move(file), ref.access_);
  co_return synced ? done : synced;
}

void OpenFiles::on_lost_data(std::function<void(const nfs_fh4&, const Error&)> sink) {
  table_->data().lost = std::move(sink);
}

void OpenFiles::resized(const nfs_fh4& file, std::uint64_t size) {
  table_->resized(file, size);
}

std::shared_ptr<OpenFile> OpenFiles::find(const Caller& caller, const nfs_fh4& file,
                                          std::uint32_t access) const {
  return table_->find(caller, file, access);
}

void OpenFiles::keep_delegated(std::size_t most) {
  table_->keep_delegated(most);
}

void OpenFiles::unpark(const nfs_fh4& file) {
  if (table_->parked() == 0) return;
  table_->session().beside().spawn(OpenTable::unpark_soon(table_, file));
}

async::Task<void> OpenFiles::unpark_all() {
  return table_->unpark_all();
}

std::shared_ptr<OpenFile> OpenFiles::delegated(const nfs_fh4& file) const {
  return table_->delegated(file);
}

std::size_t OpenFiles::parked() const {
  return table_->parked();
}

std::size_t OpenFiles::count() const {
  return table_->count();
}
std::size_t OpenFiles::uncommitted_bytes() const {
  return table_->data().bytes;
}

}  // namespace nfsrdma::nfs4
