#include "fs/freshness.h"

#include <sys/stat.h>

#include <algorithm>

#include "async/buggify.h"
#include "fs/open_handle.h"

namespace nfsrdma::fs {
namespace {

/// So often a WRITE of a file brings its attributes, for those who ask while others are under way.
constexpr auto kBringEvery = std::chrono::milliseconds(100);

bool is_earlier(const Time& a, const Time& b) {
  return a.seconds != b.seconds ? a.seconds < b.seconds : a.nanoseconds < b.nanoseconds;
}

/// Whoever has the file open knows of all who have.
std::uint64_t end_in_doubt(const Inode& inode) {
  return inode.open.empty() ? 0 : inode.open.front()->file()->end_in_doubt();
}

}  // namespace

Freshness::Freshness(Engine& engine, Numbering& numbering, const CacheOptions& options)
    : engine_(engine), loop_(engine.loop()), numbering_(numbering), options_(options) {}

/// A file's changes whenever this client may change it; a directory's when it may have got another place,
/// while Naming sees to the rest.
std::uint64_t Freshness::version(const Inode& inode) const {
  return inode.type == FileType::directory ? renames_ : engine_.modifications(inode.handle);
}

// ---- what the server says ----

/// Longer the longer ago it changed, as nfs(5) has it.
Seconds Freshness::valid(const Attributes& attributes) const {
  if (async::buggify(loop_)) return Seconds(0);
  const bool directory = attributes.type == FileType::directory;
  const Seconds least = directory ? options_.directory_min : options_.file_min;
  const Seconds most = std::max(least, directory ? options_.directory_max : options_.file_max);
  const auto age = static_cast<double>(loop_.wall_seconds() - attributes.changed.seconds) / 10;
  return std::clamp(Seconds(age), least, most);
}

/// A delegation lifts the times, up to what the server promises to wait for us. Who wants no caching gets
/// none.
Seconds Freshness::valid(Inode& inode, const Attributes& attributes) {
  const Seconds plain = valid(attributes);
  if (plain == Seconds(0) || !engine_.delegated(inode.handle)) return plain;
  inode.lifted = true;
  return std::max(plain, Seconds(engine_.delegated_for()));
}

void Freshness::tell(Inode& inode, const Attributes& attributes, std::uint64_t when) {
  inode.number = attributes.file_id;
  inode.size = attributes.size;
  inode.pages.may_end_at(attributes.size);
  inode.sticky = attributes.type == FileType::directory && (attributes.mode & S_ISVTX) != 0;
  inode.set_id = attributes.type == FileType::regular && (attributes.mode & (S_ISUID | S_ISGID)) != 0;
  inode.told = std::max(inode.told, when);
  inode.searchers.heed(attributes.changed);
}

Attributed Freshness::attributed(Inode& inode, const Attributes& told, std::uint64_t as_of,
                                 std::uint64_t when) {
  learn(inode, told, as_of);
  Attributed out = corrected(inode, told, as_of);
  tell(inode, out.attributes, when);
  // Answers overtake each other on their way to the kernel, too: of two states it is not known which it believes in.
  const bool one_state = !inode.told_change || inode.told_change == told.change;
  inode.told_change = one_state && out.valid > Seconds(0) ? std::optional(told.change) : std::nullopt;
  return out;
}

/// Where writes were under way since they were asked for, or lost by a restart of the server, the file is as large as
/// these say at least, and the rest is not believed for longer than it takes to tell it.
Attributed Freshness::corrected(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  Attributed out;
  out.attributes = numbering_.numbered(told);
  out.valid = valid(inode, out.attributes);
  if (const std::uint64_t end = end_in_doubt(inode); end > out.attributes.size) {
    out.attributes.size = end;
    out.valid = Seconds(0);
  }
  if (inode.writes.empty() && inode.changed <= as_of && !stale(inode, as_of)) return out;
  out.valid = Seconds(0);
  out.attributes.size = std::max(out.attributes.size, inode.writes.written_since(as_of).value_or(0));
  return out;
}

/// What was read ahead of another state of the file is not given out any more.
void Freshness::learn(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  if (as_of < inode.said.as_of) return;
  if (inode.said.change != told.change) ++inode.contents;
  inode.said = {as_of, told.change, told.size, loop_.now()};
}

/// FUSE drops attributes whenever it changes a file or a directory, and asks for them again at once.
void Freshness::keep(Inode& inode, const Attributes& told, const Asked& asked) {
  learn(inode, told, asked.as_of);
  if (stale(inode, asked.as_of) || (inode.fresh && asked.as_of < inode.fresh->as_of)) return;
  if (version(inode) != asked.version || !inode.writes.empty() || end_in_doubt(inode) > told.size) return;
  Inode::Fresh fresh;
  fresh.attributes = numbering_.numbered(told);
  tell(inode, fresh.attributes, count());
  const Seconds time = valid(fresh.attributes);
  if (time == Seconds(0)) return;
  fresh.until = loop_.now() + std::chrono::duration_cast<async::Clock::duration>(time);
  fresh.as_of = asked.as_of;
  fresh.version = asked.version;
  inode.fresh = std::move(fresh);
}

void Freshness::keep_told(Inode& inode, const Attributes& told, std::uint64_t as_of) {
  const bool changed = std::max({inode.changed, inode.altered, inode.names.lost()}) > as_of;
  if (inode.naming == 0 && !changed) keep(inode, told, {as_of, version(inode)});
}

std::optional<Attributed> Freshness::kept(const Inode& inode) const {
  const Attributes* const attributes = unchanged(inode);
  if (attributes == nullptr) return std::nullopt;
  const Seconds left = inode.fresh->until - loop_.now();
  if (left <= Seconds(0)) return std::nullopt;
  return Attributed{*attributes, left};
}

const Attributes* Freshness::unchanged(const Inode& inode) const {
  const bool is_known =
      inode.fresh && inode.fresh->version == version(inode) && !stale(inode, inode.fresh->as_of);
  return is_known ? &inode.fresh->attributes : nullptr;
}

std::uint64_t Freshness::end_of(const Inode& inode, std::uint64_t size, std::uint64_t as_of) {
  return std::max(inode.writes.end_of(size, as_of), end_in_doubt(inode));
}

std::optional<std::uint64_t> Freshness::known_end(const Inode& inode) {
  const Inode::Said& said = inode.said;
  if (!said.change || stale(inode, said.as_of)) return std::nullopt;
  return end_of(inode, said.size, said.as_of);
}

void Freshness::search_granted(Inode& directory, const Caller& caller, async::TimePoint asked) {
  const auto time = std::chrono::duration_cast<async::Clock::duration>(options_.directory_min);
  if (options_.several_users && time > async::Clock::duration::zero())
    directory.searchers.granted(caller, asked + time);
}

// ---- what this mount does ----

Freshness::Asked Freshness::opening(Inode& inode) {
  opened(inode, count());
  return asking(inode);
}

void Freshness::opened(Inode& inode, std::uint64_t as_of) {
  inode.valid_from = std::max(inode.valid_from, as_of);
  inode.wanted_at = {};  // the next WRITE brings what is not stale
}

void Freshness::changed(Inode& inode) {
  inode.fresh.reset();
  for (OpenHandle* handle : inode.open) handle->drop_ahead();
  ++inode.contents;
  inode.changed = count();
  // The server clears set-id bits of a file that is written: a kernel that believed in them would still run
  // it with them. Whoever asks waits for the write.
  if (std::exchange(inode.set_id, false)) doubt(inode);
}

void Freshness::resized(Inode& inode) {
  others_may_have_changed(inode);
  inode.resized = inode.changed;
  inode.writes.forget_ended();
}

void Freshness::others_may_have_changed(Inode& inode) {
  changed(inode);
  opened(inode, inode.changed);
}

void Freshness::unlinked(Inode* inode) {
  unlinked_ = count();
  if (inode != nullptr) inode->names.lost_one(unlinked_);
}

/// A name that it has lost need not be remembered: with that is_outdated() does not believe what says that a file has
/// several, and a page that says that this was the only one has no other.
void Freshness::forgotten(const Inode& inode) {
  forgotten_ = std::max({forgotten_, inode.altered, inode.changed});
}

bool Freshness::is_outdated(const Attributes& listed, const Inode* inode, std::uint64_t as_of) const {
  // Which of its links a file has lost is not always known.
  if (listed.links > 1 && listed.type != FileType::directory && unlinked_ > as_of) return true;
  if (inode == nullptr) return forgotten_ > as_of;
  // What has been written has another size by now than the server said.
  if (!inode->writes.empty() || inode->naming != 0) return true;
  return stale(*inode, as_of) ||
         std::max({inode->changed, inode->altered, inode->names.lost(), inode->told}) > as_of;
}

Freshness::Naming::Naming(Freshness& all, std::shared_ptr<Inode> directory)
    : all_(all),
      directory_(std::move(directory)),
      number_(++directory_->named),
      as_of_(all.changes_),
      begun_(all.loop_.now()),
      alone_(directory_->naming == 0) {
  ++directory_->naming;
  ++all_.namings_;
  directory_->fresh.reset();
  directory_->altered = all_.count();
}

Freshness::Naming::Naming(Freshness& all, std::shared_ptr<Inode> directory, const std::string& name)
    : Naming(all, std::move(directory)) {
  changes(name);
}

Freshness::Naming::~Naming() {
  for (const Name& name : names_) directory_->entries.end(name.name, name.gone);
  directory_->altered = all_.count();
  --directory_->naming;
  ++all_.namings_;
}

void Freshness::Naming::changes(const std::string& name) {
  names_.push_back({name, false});
  directory_->entries.begin(name);
}

void Freshness::Naming::gone(const std::string& name) {
  const auto found = std::ranges::find(names_, name, &Name::name);
  if (found != names_.end()) found->gone = true;
}

void Freshness::Naming::brought(const std::optional<Attributes>& attributes) {
  if (!attributes || directory_->naming != 1 || directory_->named != number_) return;
  all_.keep(*directory_, *attributes, {as_of_, all_.version(*directory_)});
}

void Freshness::Naming::granted(const Caller& caller) {
  if (alone_ && directory_->naming == 1 && directory_->named == number_)
    all_.search_granted(*directory_, caller, begun_);
}

// ---- what WRITEs bring ----

Freshness::Sent Freshness::sending(Inode& inode, bool must) {
  Sent out;
  out.version = engine_.modifications_after_call(inode.handle);
  out.as_of = changes_;
  out.namings = namings_;
  out.asks = must || loop_.now() - inode.wanted_at >= kBringEvery;
  if (out.asks) inode.wanted_at = loop_.now();
  return out;
}

void Freshness::written(Inode& inode, const Sent& sent, const Attributes& after, bool all) {
  if (all) {
    is_as_written(inode, after, {sent.as_of, sent.version});
  } else {
    keep(inode, after, {sent.as_of, sent.version});
  }
  // Answers overtake each other: times do not go back, unless somebody set them.
  const auto& known = inode.brought;
  if (known && !stale(inode, known->as_of) && known->namings >= sent.namings &&
      is_earlier(after.modified, known->attributes.modified))
    return;
  inode.brought = Inode::Brought{after, loop_.now(), sent.as_of, sent.namings};
}

void Freshness::is_as_written(Inode& inode, const Attributes& after, const Asked& asked) {
  // Once data was lost the next open begins anew, which has the kernel drop its pages.
  if (inode.cached_change || inode.writes.errors().count() == 0) inode.cached_change = after.change;
  inode.synced = inode.changed;
  keep(inode, after, asked);
}

std::optional<Attributed> Freshness::while_writing(Inode& inode) {
  const auto& known = inode.brought;
  if (!known || inode.writes.empty()) return std::nullopt;
  const Seconds age = loop_.now() - known->when;
  const bool old = age >= std::min(options_.file_min, Seconds(1));
  if (old || known->namings != namings_ || stale(inode, known->as_of)) return std::nullopt;
  inode.told_change.reset();  // of no one state: what the writes will make of it is put in
  Attributed out = corrected(inode, known->attributes, known->as_of);
  inode.pages.may_end_at(out.attributes.size);
  return out;
}

// ---- doubt ----

void Freshness::doubt(const Inode& inode) const {
  if (doubt_) doubt_(inode.id);
}

/// Whoever it ends for may change the file next, and would not be noticed in what was read ahead.
void Freshness::delegation_ended(Inode& inode) {
  ++inode.contents;
  inode.fresh.reset();
  if (std::exchange(inode.lifted, false)) doubt(inode);
}

}  // namespace nfsrdma::fs
