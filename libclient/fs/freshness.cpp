#include "fs/freshness.h"

#include <algorithm>

#include "async/buggify.h"
#include "fs/open_handle.h"

namespace nfsrdma::fs {
namespace {

/// The interval at which a WRITE of a file asks for its attributes, for programs that request them while
/// writes are in flight.
constexpr auto kBringEvery = std::chrono::milliseconds(100);

bool is_earlier(const Time& a, const Time& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.nanoseconds < b.nanoseconds;
}

}  // namespace

Freshness::Freshness(Engine& engine, Numbering& numbering, const CacheOptions& options)
    : engine_(engine), loop_(engine.loop()), numbering_(numbering), options_(options) {}

/// The version of a file changes with each operation of this client that may change it. That of a directory
/// changes when the directory may get another place; Naming handles its other changes.
std::uint64_t Freshness::version(const Inode& inode) const {
  return inode.type == FileType::directory ? renames_ : engine_.modifications(inode.handle);
}

// ---- what the server says ----

/// The longer ago the object changed, the longer its attributes are valid, as described in nfs(5).
Seconds Freshness::valid(const Attributes& attributes) const {
  if (async::buggify(loop_)) return Seconds(0);
  const bool directory = attributes.type == FileType::directory;
  const Seconds least = directory ? options_.directory_min : options_.file_min;
  const Seconds most = std::max(least, directory ? options_.directory_max : options_.file_max);
  const auto age = static_cast<double>(loop_.wall_seconds() - attributes.changed.seconds) / 10;
  return std::clamp(Seconds(age), least, most);
}

/// A delegation extends the validity to the time for which the server promises to wait for its holder. A
/// mount without caching gets none in any case.
Seconds Freshness::valid(Inode& inode, const Attributes& attributes) {
  const Seconds plain = valid(attributes);
  if (plain == Seconds(0) || !engine_.promises().delegated(inode.handle)) return plain;
  inode.attributes.lift();
  return std::max(plain, Seconds(engine_.promises().delegated_for()));
}

bool Freshness::learn(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  Attributes said = numbering_.numbered(told);
  // A restart may have cost the server data behind this size. This client writes it again, but no answer is sure to
  // report the end that this restores, because answers to earlier questions do not count. So the size includes it.
  said.size = std::max(said.size, inode.end_in_doubt());
  const bool is_newest = inode.attributes.learn(std::move(said), as_of, loop_.now());
  if (is_newest && inode.type == FileType::directory) inode.directory().searchers.handle_change(told.changed);
  return is_newest;
}

void Freshness::tell(Inode& inode, std::uint64_t size, std::uint64_t when) {
  inode.pages.may_end_at(size);
  inode.attributes.tell(when);
}

Attributed Freshness::attributed(Inode& inode, const Attributes& told, std::uint64_t as_of,
                                 std::uint64_t when, std::uint64_t kernel_asked) {
  learn(inode, told, as_of);
  Attributed out = corrected(inode);
  tell(inode, out.attributes.size, when);
  inode.attributes.tell_state(out.attributes.change, out.valid > Seconds(0), kernel_asked);
  inode.attributes.kernel_changes(when);
  return out;
}

/// Returns the newest answer, corrected. If writes were in flight since it was requested, or their data may
/// be lost by a restart of the server, the file is at least as large as these make it, and the validity is
/// zero.
Attributed Freshness::corrected(Inode& inode) {
  const KnownAttributes::Answer& newest = *inode.attributes.newest();
  Attributed out{newest.attributes, valid(inode, newest.attributes)};
  // An end that equals the size counts as well, because learn() may have put it there.
  if (const std::uint64_t end = inode.end_in_doubt(); end != 0 && end >= out.attributes.size) {
    out.attributes.size = end;
    out.valid = Seconds(0);
  }
  if (inode.writes.empty() && inode.attributes.changed() <= newest.as_of && inode.attributes.is_current())
    return out;
  out.valid = Seconds(0);
  out.attributes.size = std::max(out.attributes.size, inode.writes.written_since(newest.as_of).value_or(0));
  return out;
}

/// FUSE drops its attributes whenever it changes a file or a directory, and requests them again at once. They
/// are kept for that request.
void Freshness::keep(Inode& inode, const Attributes& told, const Asked& asked) {
  if (!learn(inode, told, asked.as_of) || !inode.attributes.is_current()) return;
  if (version(inode) != asked.version || !inode.writes.empty() || inode.end_in_doubt() > told.size) return;
  tell(inode, told.size, count());
  const Seconds time = valid(told);
  if (time == Seconds(0)) return;
  inode.attributes.keep(loop_.now() + std::chrono::duration_cast<async::Clock::duration>(time),
                        asked.version);
}

void Freshness::keep_told(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  if (!inode.changed_since(as_of)) keep(inode, told, {as_of, version(inode)});
}

std::optional<Attributed> Freshness::kept(const Inode& inode) const {
  const Attributes* const attributes = unchanged(inode);
  if (attributes == nullptr) return std::nullopt;
  const Seconds left = inode.attributes.kept_until() - loop_.now();
  if (left <= Seconds(0)) return std::nullopt;
  return Attributed{*attributes, left};
}

void Freshness::search_granted(Inode& directory, const Caller& caller, async::TimePoint asked) {
  const auto time = std::chrono::duration_cast<async::Clock::duration>(options_.directory_min);
  if (options_.several_users && time > async::Clock::duration::zero())
    directory.directory().searchers.granted(caller, asked + time);
}

// ---- what this mount does ----

Freshness::Asked Freshness::opening(Inode& inode) {
  inode.attributes.valid_from(count());
  return asking(inode);
}

void Freshness::changed(Inode& inode) {
  for (OpenHandle* handle : inode.open) handle->drop_ahead();
  inode.attributes.changed(count());
  // The server clears set-id bits of a file that is written. A kernel with the old attributes would still run
  // the file with them. Its next request for attributes waits for the write.
  if (inode.attributes.take_set_id()) doubt(inode);
}

void Freshness::resized(Inode& inode) {
  others_may_have_changed(inode);
  inode.attributes.resized();
  inode.writes.forget_ended();
}

void Freshness::others_may_have_changed(Inode& inode) {
  changed(inode);
  inode.attributes.valid_from(inode.attributes.changed());
}

void Freshness::unlinked(Inode* inode) {
  unlinked_ = count();
  if (inode != nullptr) inode->names.lost_one(unlinked_);
}

/// Notes the inode's last change. The loss of a name need not be noted: is_outdated() rejects each older
/// listing with a link count above one, and a listing in which the lost name was the only one has no other
/// name to show.
void Freshness::forgotten(const Inode& inode) {
  forgotten_ = std::max(forgotten_, inode.attributes.last_change());
}

bool Freshness::is_outdated(const Attributes& listed, const Inode* inode, std::uint64_t as_of) const {
  // A removed name cannot always be assigned to a file.
  if (listed.links > 1 && listed.type != FileType::directory && unlinked_ > as_of) return true;
  if (inode == nullptr) return forgotten_ > as_of;
  // Pending writes have changed the size since the server reported it.
  return !inode->writes.empty() || inode->changed_since(as_of) || inode->attributes.is_stale(as_of) ||
         inode->attributes.sent_to_kernel() > as_of;
}

Freshness::Naming::Naming(Freshness& all, std::shared_ptr<Inode> directory)
    : all_(all),
      directory_(std::move(directory)),
      as_of_(all.count()),
      begun_(all.loop_.now()),
      alone_(!directory_->attributes.is_being_altered()),
      number_(directory_->attributes.begin_altering(all.count())) {}

Freshness::Naming::Naming(Freshness& all, std::shared_ptr<Inode> directory, const std::string& name,
                          std::optional<std::uint64_t> kernel_asked)
    : Naming(all, std::move(directory)) {
  kernel_asked_ = kernel_asked.value_or(as_of_);
  changes(name);
}

Freshness::Naming::~Naming() {
  for (const Name& name : names_) directory_->directory().entries.end(name.name, name.gone);
  directory_->attributes.end_altering(all_.count());
}

void Freshness::Naming::changes(const std::string& name) {
  names_.push_back({name, false});
  directory_->directory().entries.begin(name);
}

void Freshness::Naming::gone(const std::string& name) {
  const auto found = std::ranges::find(names_, name, &Name::name);
  if (found != names_.end()) found->gone = true;
}

void Freshness::Naming::brought(const std::optional<Attributes>& attributes) {
  if (!attributes || !directory_->attributes.is_last_altering(number_)) return;
  all_.keep(*directory_, *attributes, {as_of_, all_.version(*directory_)});
}

void Freshness::Naming::granted(const Caller& caller) {
  if (alone_ && directory_->attributes.is_last_altering(number_))
    all_.search_granted(*directory_, caller, begun_);
}

// ---- what WRITEs bring ----

Freshness::Sent Freshness::sending(Inode& inode, bool must) {
  const std::uint64_t version = engine_.modifications_after_call(inode.handle);
  return {{count(), version}, inode.attributes.wants(loop_.now(), kBringEvery, must)};
}

void Freshness::written(Inode& inode, const Sent& sent, const Attributes& after, bool all) {
  // WRITEs may be answered out of order. Modification times do not go back, unless a program set them.
  const KnownAttributes::Answer* const known = times_of_write(inode);
  if (known != nullptr && is_earlier(after.modified, known->attributes.modified)) return;
  if (all) {
    is_as_written(inode, after, sent.asked);
  } else {
    keep(inode, after, sent.asked);
  }
  inode.attributes.came_with_write(sent.asked.as_of);
}

void Freshness::is_as_written(Inode& inode, const Attributes& after, const Asked& asked) {
  // A change attribute does not tell who made the changes before it: without a delegation another client may
  // have written between this mount's writes, so the kernel may have old pages. Once data was lost, too, the
  // next open drops them.
  const auto change = engine_.promises().delegated(inode.handle) ? std::optional(after.change) : std::nullopt;
  inode.attributes.saved(change, inode.writes.errors().count() != 0);
  keep(inode, after, asked);
}

/// Returns the newest answer if a WRITE carried it and this mount has altered nothing since, or null.
const KnownAttributes::Answer* Freshness::times_of_write(const Inode& inode) {
  const KnownAttributes& known = inode.attributes;
  if (!known.is_of_write() || !known.is_current()) return nullptr;
  const std::uint64_t as_of = known.newest()->as_of;
  return known.altered_since(as_of) || inode.names.lost() > as_of ? nullptr : known.newest();
}

std::optional<Attributed> Freshness::while_writing(Inode& inode) {
  const KnownAttributes::Answer* const known = times_of_write(inode);
  if (known == nullptr || inode.writes.empty()) return std::nullopt;
  const Seconds age = loop_.now() - known->came;
  if (age >= std::min(options_.file_min, Seconds(1))) return std::nullopt;
  inode.attributes.tell_no_state();  // the size is corrected, so the kernel gets no state of the server
  Attributed out = corrected(inode);
  inode.pages.may_end_at(out.attributes.size);
  return out;
}

// ---- doubt ----

void Freshness::doubt(const Inode& inode) const {
  if (doubt_) doubt_(inode.id);
}

/// Read-ahead data is dropped, because a change by the client for which the delegation ends would not be
/// noticed.
void Freshness::delegation_ended(Inode& inode) {
  inode.attributes.contents_may_differ();
  inode.attributes.forget();
  if (inode.attributes.take_lifted()) doubt(inode);
}

}  // namespace nfsrdma::fs
