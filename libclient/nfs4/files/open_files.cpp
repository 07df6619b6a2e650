#include "nfs4/files/open_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <initializer_list>
#include <utility>

#include "async/all.h"
#include "async/buggify.h"
#include "async/under_way.h"
#include "nfs4/files/convert.h"
#include "nfs4/files/locks.h"
#include "nfs4/state/open_arguments.h"
#include "wire/nfs4/status.h"
#include "writing/question.h"

namespace nfsrdma::nfs4 {
namespace {

/// Whether the OPEN is an exclusive create. The server recognises a repeated one by its verifier, in
/// EXCLUSIVE4_1 and in NFSv4.0's EXCLUSIVE4.
bool is_exclusive(const openflag4& how) {
  const createhow4* create = how.get<OPEN4_CREATE>();
  return create != nullptr &&
         (create->get<EXCLUSIVE4_1>() != nullptr || create->get<EXCLUSIVE4>() != nullptr);
}

bool has_one_of(const bitmap4& map, std::initializer_list<fattr4_number> numbers) {
  return std::ranges::any_of(numbers, [&map](fattr4_number number) { return has_bit(map, number); });
}

/// Returns what the client has to set after an exclusive create: the attributes of `wanted` that the server
/// did not set, and the times in which the server keeps the verifier. RFC 8881 18.16.3: `attrset` names both
/// kinds, and an attribute in it that was not asked for holds the verifier. In NFSv4.0 the verifier takes the
/// place of all attributes, so the SETATTR is needed anyway and sets both times, whatever `attrset` says.
SetAttributes left_to_set(SetAttributes wanted, const bitmap4& attrset, const MinorVersion& version) {
  if (has_bit(attrset, FATTR4_MODE)) wanted.mode.reset();
  if (has_bit(attrset, FATTR4_SIZE)) wanted.size.reset();
  const bool all = !version.sets_attributes_exclusively;
  wanted.accessed_now = all || has_one_of(attrset, {FATTR4_TIME_ACCESS, FATTR4_TIME_ACCESS_SET});
  wanted.modified_now = all || has_one_of(attrset, {FATTR4_TIME_MODIFY, FATTR4_TIME_MODIFY_SET});
  return wanted;
}

bool is_empty(const SetAttributes& changes) {
  return !changes.size && std::ranges::all_of(encode_changes_but_size(changes).attrmask.value,
                                              [](std::uint32_t word) { return word == 0; });
}

/// Whether the mode gives the file's owner this access. The OPEN that creates a file gets any access whatever
/// the mode, so a later open(2) by the same user may be refused.
bool owner_may(const std::optional<Attributes>& attributes, std::uint32_t access) {
  const bool reads = (access & OPEN4_SHARE_ACCESS_READ) != 0,
             writes = (access & OPEN4_SHARE_ACCESS_WRITE) != 0;
  const std::uint32_t needed = (reads ? S_IRUSR : 0U) | (writes ? S_IWUSR : 0U);
  return attributes && (attributes->mode & needed) == needed;
}

/// Takes the result of the GETATTR behind OPEN. Returns what take_getattr() returns.
bool take_attributes(OpenResult& out, const OPEN4resok& ok, CompoundReply& reply) {
  const bool taken = take_getattr(reply, out.object.attributes);
  if (out.object.attributes) {
    Open& open = out.file->state();
    Delegations::granted_with(open, ok.delegation, *out.object.attributes);
    open.record->holes.know(*out.object.attributes);
  }
  return taken;
}

openflag4 how_to_create(ClientLease& session, bool exclusive, const SetAttributes& changes,
                        const writing::RewriteWatch& watch) {
  async::Loop& loop = session.loop();
  createhow4 out;
  if (exclusive && !session.version().sets_attributes_exclusively) {
    out.emplace<EXCLUSIVE4>() = std::bit_cast<verifier4>(loop.random<std::uint64_t>());
  } else if (exclusive) {
    // Servers need not accept a size here (RFC 8881 18.16.3, suppattr_exclcreat). If the answer is lost, the
    // verifier makes a second OPEN find the file its own.
    out.emplace<EXCLUSIVE4_1>() = {std::bit_cast<verifier4>(loop.random<std::uint64_t>()),
                                   encode_changes_but_size(changes)};
  } else {
    out.emplace<UNCHECKED4>() = encode_changes(changes, watch);
  }
  return openflag4::of<OPEN4_CREATE>(std::move(out));
}

}  // namespace

// ---- who has what ----

std::uint64_t OpenFiles::owner_of(const Caller& caller) {
  auto [at, fresh] = owners_.try_emplace(caller ? std::optional(*caller) : std::nullopt);
  if (fresh) at->second = session_.opens().next_owner();
  return at->second;
}

/// Asks for read access as well, if a write delegation is wanted. Linux before 6.16 grants one only to an
/// OPEN for reading and writing.
void OpenFiles::widen(Opening& what) const {
  const bool wants = session_.delegations().wanted_for(what.access) == OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;
  if (wants) what.besides = OPEN4_SHARE_ACCESS_READ & ~what.access;
}

/// Called when an OPEN was refused. The server may have refused only the additional access of widen().
/// Returns true if the OPEN is to be sent again without it.
bool OpenFiles::narrows(Opening& what, const CompoundReply& reply) {
  const nfsstat4 refused = reply.failed_status();
  if (refused != NFS4ERR_ACCESS && refused != NFS4ERR_SHARE_DENIED) return false;
  return std::exchange(what.besides, 0) != 0;
}

/// Called when an OPEN failed. Returns true if it had a READ behind it, and is to be sent again without that, because the
/// server may have failed because of READ or of its chunk.
bool OpenFiles::opens_without_read(Opening& what, const FirstRead& read, const Error& failed) {
  const bool is_to_blame =
      failed.kind() == ErrorKind::protocol || is_too_large(static_cast<nfsstat4>(failed.status()));
  if (!read.is_added() || !is_to_blame) return false;
  what.first = {};
  note_first_read(FirstReads::refused);
  return true;
}

/// A server that has executed one READ behind OPEN can do that, and refuses a later one because of the moment.
void OpenFiles::note_first_read(FirstReads outcome) {
  if (first_reads_ != FirstReads::work) first_reads_ = outcome;
}

/// Takes the result of the READ behind OPEN and GETATTR, which have been taken.
void OpenFiles::take_first_read(OpenResult& out, FirstRead& read, CompoundReply& reply) {
  out.first = read.take(reply);
  if (out.first) note_first_read(FirstReads::work);
  if (read.is_useless()) note_first_read(FirstReads::refused);
}

void OpenFiles::add_open(Compound& compound, const Opening& what) {
  Open open;
  open.access = what.asked();
  open.owner = owner_of(what.caller);
  OPEN4args args = open_arguments(session_, open, session_.delegations().wanted_for(open.access));
  args.openhow = what.how;
  args.claim = what.claim;
  compound.by(open.owner);
  compound.add<op::OPEN>(args);
}

OpenRef OpenFiles::count_in(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  take_out(*file);
  file->count_in(access);
  return {shared_from_this(), std::move(file), access};
}

/// Puts the state from an OPEN's answer into the OpenFile of this caller if there is one, else into a new
/// one. If that state has been closed meanwhile, FileState::complete() has the file opened again, unless a
/// newer state is known.
OpenRef OpenFiles::adopt(const Opening& what, const nfs_fh4& handle, const OPEN4resok& ok,
                         const Openings::Guard& guard, const CompoundReply& reply) {
  const std::uint64_t owner = owner_of(what.caller);
  std::shared_ptr<OpenFile> file = known(handle, owner);
  if (!file || !file->is_open()) {
    const FileState::Whose whose{handle, owner, what.caller, what.label};
    file = std::make_shared<OpenFile>(session_, whose, ok.stateid);
    file->join(writes_of(file->state().record), file);
    file->state().user = file;
  }
  if (what.place) file->state().place = what.place;
  file->opened(ok, what.asked(), guard, reply);
  return count_in(std::move(file), what.access);
}

bool OpenFiles::any_in_doubt() const {
  const auto in_doubt = [](const auto& file) { return file->writes.in_doubt(); };
  return data()->bytes != 0 && session_.opens().files().find_if(in_doubt) != nullptr;
}

std::shared_ptr<OpenFile> OpenFiles::known(const nfs_fh4& handle, std::uint64_t owner) const {
  const auto record = session_.opens().file(handle);
  if (!record) return nullptr;
  const auto found = std::ranges::find(record->opens, owner, &Open::owner);
  return found != record->opens.end() ? (*found)->user : nullptr;
}

std::shared_ptr<OpenFile> OpenFiles::find(const Caller& caller, const nfs_fh4& file, std::uint32_t access) {
  const std::uint64_t owner = owner_of(caller);
  const auto record = session_.opens().file(file);
  if (!record) return nullptr;
  std::shared_ptr<OpenFile> out;
  for (const Open* open : record->opens) {
    if (!open->user || !open->user->serves(access)) continue;
    if (!out || open->owner == owner) out = open->user;
  }
  return out;
}

async::Task<void> OpenFiles::settle_doubt() {
  std::vector<std::shared_ptr<writing::WriteRecord>> doubtful;
  session_.opens().files().each([&](const auto& file) {
    if (file->writes.in_doubt()) doubtful.push_back(writes_of(file));
  });
  for (auto& record : doubtful) {
    writing::Question question(std::move(record));
    if (question.begin()) continue;
    auto done = co_await question.settle();
    // The server does not answer.
    if (!done) co_return;
  }
}

// ---- opening ----

async::Task<Result<OpenResult>> OpenFiles::open_at(Caller caller, Spot directory, std::string name,
                                                   std::uint32_t access,
                                                   std::optional<Engine::Creation> creation) {
  Opening what{std::move(caller), directory.text(name), access};
  SetAttributes changes;
  const writing::RewriteWatch watch(data());
  if (creation) {
    changes = with_mode(creation->mode);
    if (creation->truncate) changes.size = 0;
    what.how = how_to_create(session_, creation->exclusive, changes, watch);
  }
  what.claim = open_claim4::of<CLAIM_NULL>(component4{std::move(name)});
  widen(what);
  return open_name(std::move(what), std::move(directory), changes, watch);
}

async::Task<Result<OpenResult>> OpenFiles::open_handle(Caller caller, nfs_fh4 file, std::string label,
                                                       std::uint32_t access, std::optional<Place> found_at,
                                                       std::span<std::byte> first) {
  Opening what{std::move(caller), std::move(label), access};
  if (first_reads_ != FirstReads::refused && access == OPEN4_SHARE_ACCESS_READ) what.first = first;
  widen(what);
  return open_known(std::move(what), file, std::move(found_at));
}

namespace {

/// Asks for the attributes again if the file is in doubt, because those from the OPEN may lack data that a
/// restart lost.
async::Task<void> look_again(OpenResult& out) {
  if (!out.file->in_doubt()) co_return;
  auto now = co_await out.file->attributes();
  // The file is open even if its data or its locks are lost, so an Error of attributes() is ignored.
  if (now) out.object.attributes = std::move(*now);
  if (!now && out.object.attributes)
    out.object.attributes->size = std::max(out.object.attributes->size, out.file->end_in_doubt());
}

}  // namespace

async::Task<Result<OpenResult>> OpenFiles::open_name(Opening what, Spot directory, SetAttributes changes,
                                                     writing::RewriteWatch watch) {
  const Openings::Guard guard(session_.openings());
  const auto self = shared_from_this();
  std::array<Spot*, 1> spots{&directory};
  const bool needs_place = !session_.version().opens_by_handle;
  const bool creates = what.how.get<OPEN4_CREATE>() != nullptr;
  std::optional<CompoundReply> reply;
  OPEN4res res;
  GETFH4res handle, parent;
  for (;;) {
    auto compound = co_await compound_at(session_, "open", what.caller, spots, [&](Compound& out) {
      if (needs_place) out.add<op::GETFH>();
      out.add<op::SAVEFH>();
      add_open(out, what);
      out.add<op::GETFH>();
      add_getattr(out);
      out.add<op::RESTOREFH>();
      add_getattr(out);
    });
    if (!compound) co_return compound.error();
    auto answer = co_await session_.call(std::move(*compound));
    if (!answer) co_return answer.error();
    reply.emplace(std::move(*answer));
    if (take_walks(*reply, spots) && (!needs_place || reply->take<op::GETFH>(parent)) &&
        reply->take<op::SAVEFH>() && reply->take<op::OPEN>(res) && reply->take<op::GETFH>(handle))
      break;
    if (narrows(what, *reply)) continue;
    auto crossed = co_await cross(session_, what.caller, spots, *reply);
    if (!crossed) co_return crossed.error().about("open", what.label);
    if (!*crossed) co_return session_.error_of(*reply, "open", what.label);
  }
  OPEN4resok& ok = *res.get<NFS4_OK>();
  OpenResult out;
  out.object.handle = handle.get<NFS4_OK>()->object;
  // The new size is noted before the first co_await, so that data written during a wait is not discarded as
  // truncated. In NFSv4.0 the answer may belong to another OPEN, of another file, which settle_owner() finds
  // out.
  if (changes.size && !needs_place) resized(out.object.handle, *changes.size);
  out.to_be_cut_again = changes.size && watch.overtaken();
  if (needs_place) {
    what.place = Place{parent.get<NFS4_OK>()->object, what.claim.get<CLAIM_NULL>()->value};
    auto settled = co_await session_.settle_owner(*reply, ok, out.object.handle, what.caller);
    if (is_repeated_answer(settled)) {
      reply.reset();
      co_return co_await open_name(std::move(what), std::move(directory), changes, watch);
    }
    if (!settled) co_return settled.error();
    if (changes.size) resized(out.object.handle, *changes.size);
  }
  out.file = adopt(what, out.object.handle, ok, guard, *reply);
  if (take_attributes(out, ok, *reply) && reply->take<op::RESTOREFH>())
    (void)take_getattr(*reply, out.directory);
  if (creates && !owner_may(out.object.attributes, what.asked()))
    session_.delegations().rights_change(out.object.handle);
  if (auto done = co_await out.file->complete(); !done) co_return done.error();
  if (is_exclusive(what.how)) {
    // The SETATTR has a COMPOUND of its own: the new times replace the verifier, and a server that restarts
    // before its answer arrives would refuse the repeated OPEN with NFS4ERR_EXIST.
    const SetAttributes left = left_to_set(changes, ok.attrset, session_.version());
    if (!is_empty(left)) {
      auto done = co_await out.file->set_attributes(left, &out.object.attributes);
      if (!done) co_return done.error();
    }
  }
  co_await look_again(out);
  if (!out.object.attributes) {
    auto now = co_await out.file->attributes();
    if (now) out.object.attributes = std::move(*now);
  }
  co_return std::move(out);
}

namespace {

/// Result of the LOOKUP that a COMPOUND makes before it opens the file.
enum class NameCheck : std::uint8_t {
  leads_here,
  leads_elsewhere,
  not_allowed,  ///< the server refused the lookup, and the COMPOUND ended there
  failed,       ///< the Reply cannot be decoded
};

void add_name_check(Compound& compound, const Place& place) {
  compound.add<op::PUTFH>({place.directory});
  compound.add<op::LOOKUP>({{place.name}});
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

async::Task<Result<OpenResult>> OpenFiles::open_known(Opening what, nfs_fh4 handle,
                                                      std::optional<Place> found_at) {
  const auto self = shared_from_this();
  OpenResult out;
  out.object.handle = handle;
  const auto held = known(handle, owner_of(what.caller));
  const bool delegated = held && held->serves(what.access) && held->is_delegated_for(what.access) &&
                         !async::buggify(session_.loop());
  if (delegated) {
    // RFC 8881 10.4: while the delegation is held, no other client has changed the file, or who may read it.
    out.file = count_in(held, what.access);
    auto now = co_await out.file->attributes();
    if (!now) co_return now.error();
    out.object.attributes = std::move(*now);
    co_return std::move(out);
  }
  if (!session_.version().opens_by_handle) {
    what.place = std::move(found_at);
    co_return co_await open_found(std::move(what), handle);
  }
  if (found_at && found_at->fresh) found_at.reset();
  // A CLOSE of the file that is held back for a batch is sent now. Sent later it would overtake the answer to
  // this OPEN.
  if (held && held->needed() == 0) session_.close_batch().hurry();
  const Openings::Guard guard(session_.openings());
  Compound compound = session_.begin("open", what.caller, handle.mark);
  FirstRead first(session_, what.first.empty() ? nullptr : record(handle), what.first);
  if (found_at) add_name_check(compound, *found_at);
  compound.add<op::PUTFH>({handle});
  add_open(compound, what);
  add_getattr(compound);
  first.add_to(compound);
  const std::uint64_t as_of = session_.modifications().of(handle);
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) {
    if (opens_without_read(what, first, reply.error()))
      co_return co_await open_known(std::move(what), handle, std::move(found_at));
    co_return reply.error();
  }
  const NameCheck check = found_at ? take_name_check(*reply, handle) : NameCheck::leads_here;
  // A caller who got the handle from another one may open the file although he may not search the directory.
  if (check == NameCheck::not_allowed) co_return co_await open_known(std::move(what), handle, std::nullopt);
  OPEN4res res;
  if (check == NameCheck::failed || !reply->take<op::PUTFH>() || !reply->take<op::OPEN>(res)) {
    const Error refused = session_.error_of(*reply, "open", what.label);
    if (narrows(what, *reply) || opens_without_read(what, first, refused))
      co_return co_await open_known(std::move(what), handle, std::move(found_at));
    if (check != NameCheck::leads_elsewhere) co_return refused;
    co_return status_error(NFS4ERR_STALE, "open", what.label);
  }
  out.file = adopt(what, handle, *res.get<NFS4_OK>(), guard, *reply);
  // The file was opened although the name leads elsewhere. It is closed with `out`.
  if (check == NameCheck::leads_elsewhere) co_return status_error(NFS4ERR_STALE, "open", what.label);
  if (take_attributes(out, *res.get<NFS4_OK>(), *reply)) take_first_read(out, first, *reply);
  if (out.object.attributes) out.file->know(*out.object.attributes, as_of);
  if (auto done = co_await out.file->complete(); !done) co_return done.error();
  co_await look_again(out);
  co_return std::move(out);
}

/// Opens by the name at `what.place`, in NFSv4.0. The result is ESTALE if the name does not lead to the file.
async::Task<Result<OpenResult>> OpenFiles::open_found(Opening what, nfs_fh4 handle) {
  if (!what.place) {
    co_return Error(ErrorKind::server, ESTALE, "open", what.label,
                    "NFSv4.0 opens files by name, and no name of this file is known; look it up again");
  }
  what.claim = open_claim4::of<CLAIM_NULL>(component4{what.place->name});
  const Openings::Guard guard(session_.openings());
  Compound compound = session_.begin_on(what.place->directory, "open", what.caller);
  add_open(compound, what);
  compound.add<op::GETFH>();
  add_getattr(compound);
  const std::uint64_t as_of = session_.modifications().of(handle);
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  OPEN4res res;
  GETFH4res found;
  if (!reply->take<op::PUTFH>() || !reply->take<op::OPEN>(res) || !reply->take<op::GETFH>(found)) {
    const nfsstat4 status = reply->failed_status();
    const bool gone = status == NFS4ERR_NOENT || status == NFS4ERR_ISDIR || status == NFS4ERR_SYMLINK;
    if (gone) co_return status_error(NFS4ERR_STALE, "open", what.label);
    if (narrows(what, *reply)) co_return co_await open_found(std::move(what), handle);
    co_return session_.error_of(*reply, "open", what.label);
  }
  OPEN4resok& ok = *res.get<NFS4_OK>();
  OpenResult out;
  out.object.handle = found.get<NFS4_OK>()->object;
  auto settled = co_await session_.settle_owner(*reply, ok, out.object.handle, what.caller);
  if (is_repeated_answer(settled)) co_return co_await open_found(std::move(what), handle);
  if (!settled) co_return settled.error();
  out.file = adopt(what, out.object.handle, ok, guard, *reply);
  // The OPEN found another file. It is closed with `out`.
  if (out.object.handle != handle) co_return status_error(NFS4ERR_STALE, "open", what.label);
  (void)take_attributes(out, ok, *reply);
  if (out.object.attributes) out.file->know(*out.object.attributes, as_of);
  if (auto done = co_await out.file->complete(); !done) co_return done.error();
  co_await look_again(out);
  co_return std::move(out);
}

// ---- closing ----

/// Gives back the access or the state that no OpenRef needs any more. One such task at a time runs for a
/// file. The needed access may change while the server is asked.
async::Task<Status> OpenFiles::shrink(std::shared_ptr<OpenFile> file, bool may_park) {
  const auto self = shared_from_this();
  const async::Counted under_way(giving_, given_);
  const bool settled = co_await file->settled(session_.default_deadline());
  if (!settled || !file->is_open())
    // The task that is at work looks again, and gives back what is not needed.
    co_return Status();
  const FileState::Changing changing(*file);
  for (;;) {
    const std::uint32_t needed = file->needed();
    if (needed != 0) {
      auto given = co_await file->downgrade(needed);
      if (!given) co_return given.error();
      if (!*given || file->needed() == needed) co_return Status();
      continue;
    }
    auto& locks = file->state().locks;
    if (!locks.empty()) {
      // The program that holds the lock closed the file without unlocking. The server need not unlock at
      // CLOSE (18.2.3).
      const std::uint64_t owner = locks.begin()->first;
      auto released = co_await Locks(session_).release(file, owner);
      locks.erase(owner);
      continue;
    }
    if (may_park && park(file)) co_return Status();
    if (file->in_use()) {
      // READs that were sent ahead may still be under way. Behind a CLOSE the server would refuse their
      // stateid, and they would have the file opened again.
      const bool in_time = co_await file->unused(session_.default_deadline());
      if (in_time) continue;
    }
    auto done = co_await file->close_state();
    if (file->is_open()) continue;
    file->leave();
    file->state().user.reset();
    co_return done;
  }
}

// ---- parking ----

bool OpenFiles::park(const std::shared_ptr<OpenFile>& file) {
  Open& open = file->state();
  if (most_parked_ == 0 || async::buggify(session_.loop()) || session_.ending() ||
      !file->serves(open.access) || !file->is_delegated_for(open.access) || file->has_unstable_data()) {
    return false;
  }
  take_out(*file);
  open.parked = ++last_parked_;
  parked_.emplace_hint(parked_.end(), open.parked, file);
  if (parked_.size() > most_parked_)
    session_.background().spawn(shrink_in_background(shared_from_this(), take_first()));
  return true;
}

/// Ends the parking of the file here. Returns false if the file is not parked.
bool OpenFiles::take_out(OpenFile& file) {
  const auto at = parked_.find(file.state().parked);
  if (at == parked_.end() || at->second.get() != &file) return false;
  file.state().parked = 0;
  parked_.erase(at);
  return true;
}

/// Takes out the parked file that was used longest ago; null if there is none.
std::shared_ptr<OpenFile> OpenFiles::take_first() {
  if (parked_.empty()) return nullptr;
  const auto first = parked_.begin()->second;
  take_out(*first);
  return first;
}

void OpenFiles::unpark(const nfs_fh4& file) {
  if (!parked_.empty()) session_.background().spawn(unpark_soon(shared_from_this(), file));
}

/// Runs in the loop's next turn, because unpark() may be called from inside the code that ends a delegation.
async::Task<void> OpenFiles::unpark_soon(std::shared_ptr<OpenFiles> self, nfs_fh4 handle) {
  const async::Counted under_way(self->giving_, self->given_);
  co_await self->session_.loop().sleep_for({});
  self->unpark_now(handle);
}

void OpenFiles::unpark_now(const nfs_fh4& handle) {
  const auto record = session_.opens().file(handle);
  if (!record) return;
  std::vector<std::shared_ptr<OpenFile>> found;
  for (Open* open : record->opens) {
    if (!open->user) continue;
    if (take_out(*open->user)) {
      found.push_back(open->user);
    } else if (open->parked == 0) {
      // The file has been opened meanwhile.
      session_.delegations().finish_recall(*open);
    }
  }
  for (const auto& file : found) session_.background().spawn(shrink_in_background(shared_from_this(), file));
}

async::Task<void> OpenFiles::shrink_in_background(std::shared_ptr<OpenFiles> self,
                                                  std::shared_ptr<OpenFile> file) {
  (void)co_await self->shrink(file, false);
  self->session_.delegations().finish_recall(file->state());
}

async::Task<void> OpenFiles::unpark_all() {
  most_parked_ = 0;
  const auto self = shared_from_this();
  std::vector<async::Task<Status>> tasks;
  while (auto file = take_first()) tasks.push_back(shrink(std::move(file), false));
  session_.close_batch().hurry();
  (void)co_await async::all(session_.loop(), std::move(tasks));
  session_.close_batch().hurry();
  while (giving_ != 0) (void)co_await given_.wait_until(async::TimePoint::max());
}

std::shared_ptr<OpenFile> OpenFiles::delegated(const nfs_fh4& file) const {
  const auto record = session_.opens().file(file);
  if (!record || !record->delegation) return nullptr;
  for (const Open* open : record->opens) {
    const auto& user = open->user;
    if (user && user->serves(0) && open->delegated()) return user->relies_on_delegation() ? user : nullptr;
  }
  return nullptr;
}

async::Task<Status> OpenFiles::close(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  if (file->is_last_writer(access)) return close_last_writer(std::move(file), access);
  file->count_out(access);
  return shrink(std::move(file));
}

async::Task<Status> OpenFiles::close_last_writer(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  const auto self = shared_from_this();
  // The data is committed while the file is still open for writing.
  auto synced = co_await file->commit();
  file->count_out(access);
  auto done = co_await shrink(std::move(file));
  co_return synced ? done : synced;
}

async::Task<Status> OpenFiles::close(OpenRef ref) {
  const auto self = shared_from_this();
  if (!ref) co_return Status();
  Status synced;
  // The OpenRef is kept until the commit has ended, so that a task that is destroyed here still closes the
  // file.
  if (ref->is_last_writer(ref.access())) synced = co_await ref->commit();
  auto file = ref.take();
  auto done = co_await close(std::move(file), ref.access());
  co_return synced ? done : synced;
}

async::Task<void> OpenFiles::close_in_background(std::shared_ptr<OpenFiles> self,
                                                 std::shared_ptr<OpenFile> file, std::uint32_t access) {
  auto done = co_await self->close(std::move(file), access);
}

void OpenFiles::dropped(std::shared_ptr<OpenFile> file, std::uint32_t access) {
  if (session_.ending())
    file->count_out(access);
  else
    session_.background().spawn(close_in_background(shared_from_this(), std::move(file), access));
}

/// Breaks the cycle of an Open in the registry and its OpenFile, which hold each other.
OpenFiles::~OpenFiles() {
  std::vector<std::shared_ptr<OpenFile>> left;
  for (const auto& [number, open] : session_.opens().all()) left.push_back(std::move(open->user));
}

OpenRef& OpenRef::operator=(OpenRef&& other) noexcept {
  if (this == &other) return *this;
  const OpenRef dropped = std::move(*this);
  files_ = std::move(other.files_);
  file_ = std::move(other.file_);
  access_ = other.access_;
  return *this;
}

OpenRef::~OpenRef() {
  if (file_) files_->dropped(std::move(file_), access_);
}

}  // namespace nfsrdma::nfs4
