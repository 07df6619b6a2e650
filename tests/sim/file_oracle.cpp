#include "sim/file_oracle.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::sim {
namespace {

/// More places than that are not told apart: the append may be anywhere behind the first of them.
constexpr std::size_t kMostPlaces = 32;
/// A segment with fewer entries is not worth a look at which of them can go.
constexpr std::size_t kPruneFrom = 4;
/// So many octets in a row are taken for a sign of the change that has them.
constexpr std::size_t kTelling = 6;
constexpr std::uint64_t kMappedPage = 4096;

std::string shown(char octet) {
  if (octet > ' ' && octet <= '~') return std::string("'") + octet + "'";
  return "octet " + std::to_string(static_cast<unsigned char>(octet));
}

std::string tick_text(Tick tick) {
  return tick == 0 ? "?" : std::to_string(tick);
}

}  // namespace

FileOracle::FileOracle(std::string name, OracleClock& clock, Lossy lossy)
    : name_(std::move(name)), clock_(clock), lossy_(std::move(lossy)) {
  Change& empty = changes_.emplace_back();
  empty.begun = empty.ended = empty.settled = 1;
  segments_[0].push_back({&empty, Effect::cut});
}

// ---- changes ----

FileOracle::ChangeId FileOracle::add(What what, Who who, std::uint64_t offset, std::uint64_t length) {
  Change& change = changes_.emplace_back();
  change.id = changes_.size() - 1;
  change.what = what;
  change.who = std::move(who);
  change.begun = clock_.tick();
  change.offset = offset;
  change.length = length;
  return change.id;
}

FileOracle::ChangeId FileOracle::begin_write(Who who, std::uint64_t offset, std::string octets) {
  const ChangeId id = add(What::write, std::move(who), offset, octets.size());
  changes_[id].octets = std::move(octets);
  set_octets(changes_[id], offset, true);
  return id;
}

FileOracle::ChangeId FileOracle::begin_append(Who who, std::string octets) {
  const ChangeId id = add(What::append, std::move(who), 0, octets.size());
  changes_[id].octets = std::move(octets);
  return id;
}

FileOracle::ChangeId FileOracle::begin_truncate(Who who, std::uint64_t size, Tick begun) {
  const ChangeId id = add(What::truncate, std::move(who), size, 0);
  if (begun != 0) changes_[id].begun = begun;
  act(changes_[id], Effect::cut, size, kEnd);
  act(changes_[id], Effect::fill, 0, size);
  return id;
}

FileOracle::ChangeId FileOracle::begin_punch(Who who, std::uint64_t offset, std::uint64_t length) {
  const ChangeId id = add(What::punch, std::move(who), offset, length);
  act(changes_[id], Effect::zero, offset, offset + length);
  return id;
}

FileOracle::ChangeId FileOracle::begin_allocate(Who who, std::uint64_t offset, std::uint64_t length) {
  const ChangeId id = add(What::allocate, std::move(who), offset, length);
  act(changes_[id], Effect::fill, 0, offset + length);
  return id;
}

FileOracle::ChangeId FileOracle::begin_store(Who who, std::uint64_t offset, std::string octets) {
  const ChangeId id = add(What::store, std::move(who), offset, octets.size());
  changes_[id].octets = std::move(octets);
  const std::uint64_t last = offset + changes_[id].length - 1;
  act(changes_[id], Effect::undo, offset / kMappedPage * kMappedPage, (last / kMappedPage + 1) * kMappedPage);
  set_octets(changes_[id], offset, true);
  return id;
}

/// Until it has ended nobody knows what it copies.
FileOracle::ChangeId FileOracle::begin_copy(Who who, std::uint64_t offset, std::uint64_t length) {
  const ChangeId id = add(What::copy, std::move(who), offset, length);
  Change& change = changes_[id];
  change.anything = true;
  act(change, Effect::set, offset, offset + length, offset, false);
  act(change, Effect::fill, 0, offset + length, 0, false);
  return id;
}

void FileOracle::copied(ChangeId id, const FileOracle& source, std::uint64_t offset, std::uint64_t length) {
  Change& change = changes_[id];
  const Reader who = source.reader(change.who.client, change.begun);
  std::string octets;
  bool known = true;
  for (std::uint64_t at = 0; at < length && known; ++at) {
    std::string all;
    const Permitted may = source.permitted(source.segment_of(offset + at), who);
    known = !may.anything;
    if (may.zero) all += '\0';
    for (const Acting* one : may.sets) {
      const std::size_t index = offset + at - one->base;
      const auto several = one->change->alternatives.find(index);
      all +=
          several == one->change->alternatives.end() ? one->change->octets.substr(index, 1) : several->second;
    }
    std::ranges::sort(all);
    const auto twice = std::ranges::unique(all);
    all.erase(twice.begin(), twice.end());
    octets += all.empty() ? '\0' : all.front();
    if (all.size() > 1) change.alternatives[at] = std::move(all);
  }
  erase(change);
  change.length = length;
  change.anything = !known;
  change.octets = std::move(octets);
  change.octets.resize(length);
  if (length != 0) set_octets(change, change.offset, true);
}

void FileOracle::end(ChangeId id, Outcome outcome, bool settled) {
  Change& change = changes_[id];
  if (change.what == What::append) place_all();
  change.ended = clock_.tick();
  if (outcome != Outcome::done) change.sure = false;
  if (outcome == Outcome::unknown) change.loose = true;
  if (settled && outcome == Outcome::done) settle(change, change.ended);
  if (change.what != What::append || change.anything || !change.sure) return;
  if (change.places.size() == 1)
    decide(change, change.places.front());
  else
    fill_behind(change);
}

void FileOracle::cancel(ChangeId id) {
  Change& change = changes_[id];
  change.ended = clock_.tick();
  change.sure = false;
  erase(change);
}

void FileOracle::erase(const Change& change) {
  for (auto& [at, segment] : segments_)
    std::erase_if(segment, [&](const Acting& one) { return one.change == &change; });
}

void FileOracle::act(const Change& change, Effect effect, std::uint64_t from, std::uint64_t to,
                     std::uint64_t base, bool sure) {
  if (from >= to) return;
  const auto first = split(from);
  const auto last = to == kEnd ? segments_.end() : split(to);
  for (auto at = first; at != last; ++at) {
    at->second.push_back({&change, effect, base, sure});
    prune(at->second);
  }
}

/// Zeros may be seen where its own octets belong: parts of a write reach the server in any order.
void FileOracle::set_octets(const Change& change, std::uint64_t from, bool sure) {
  const std::uint64_t to = from + change.length;
  if (change.length == 0) return;
  act(change, Effect::set, from, to, from, sure);
  act(change, Effect::fill, 0, to, 0, sure);
}

FileOracle::Segments::iterator FileOracle::split(std::uint64_t at) {
  const auto before = std::prev(segments_.upper_bound(at));
  if (before->first == at) return before;
  return segments_.emplace(at, before->second).first;
}

/// What nobody can be told any more goes, so that segments stay short. A store that was overwritten on its own client still
/// undoes what other clients write later, until its page is written out: an ordinary write leaves the page dirty.
void FileOracle::prune(Segment& segment) const {
  if (segment.size() < kPruneFrom) return;
  Question question{segment};
  const auto is_over = [&](const Acting& one) {
    const Tick settled = one.change->settled;
    return std::ranges::any_of(segment, [&](const Acting& other) {
      const bool may_undo = one.effect == Effect::undo && (settled == 0 || settled >= other.change->begun);
      return other.sets() && other.change != one.change && !may_undo &&
             in_order(*one.change, *other.change) && known_to_all(question, other);
    });
  };
  Segment kept;
  for (const Acting& one : segment) {
    if (!is_over(one)) kept.push_back(one);
  }
  // Filling does nothing to bytes that are present.
  const bool may_be_absent =
      std::ranges::any_of(kept, [](const Acting& one) { return one.effect == Effect::cut; });
  if (!may_be_absent) {
    std::erase_if(kept, [](const Acting& one) {
      return one.effect == Effect::fill && one.change->settled != 0 && !one.change->loose;
    });
  }
  segment = std::move(kept);
}

bool FileOracle::known_to_all(Question& question, const Acting& acting) const {
  const Tick horizon = clock_.horizon();
  if (!is_seen(question, acting, {kServer, horizon, 0})) return false;
  for (Client client = 1; client < kMostClients; ++client) {
    // Who has not opened the file yet will have to.
    const bool has_opened = !opens_.at(client).empty() || client == acting.change->who.client;
    if (has_opened && !is_seen(question, acting, reader(client, horizon))) return false;
  }
  return true;
}

// ---- what makes changes sure ----

void FileOracle::settle(Change& change, Tick at) const {
  change.settled = at;
  change.after_loss = is_lossy(kServer);
}

void FileOracle::settle(Client client, Tick begun, Tick opened) {
  const Tick now = clock_.tick();
  for (Change& change : changes_) {
    const bool covered =
        change.who.client == client && change.settled == 0 && change.ended != 0 && change.ended < begun;
    if (!covered) continue;
    if (change.begun < opened && is_lossy(client)) change.sure = false;
    settle(change, now);
  }
}

/// Whether data was lost is told by fsync(2) and close(2) only.
void FileOracle::unlocked(Client client, Tick begun) {
  if (!is_lossy(client)) settle(client, begun);
}

void FileOracle::doubt(Client client, Tick begun) {
  for (Change& change : changes_) {
    if (change.who.client == client && change.settled == 0 && change.ended != 0 && change.ended < begun)
      change.sure = false;
  }
}

void FileOracle::leave_behind(Client client, Tick begun) {
  for (Change& change : changes_) {
    const bool covered =
        change.who.client == client && change.settled == 0 && change.ended != 0 && change.ended < begun;
    if (!covered) continue;
    change.sure = false;
    change.behind = true;
  }
}

void FileOracle::end_left_behind(Client client) {
  const Tick now = clock_.tick();
  for (Change& change : changes_) {
    if (change.behind && change.settled == 0 && change.who.client != client) settle(change, now);
  }
}

void FileOracle::cut_by_open(Client client, Tick begun) {
  for (Change& change : changes_) {
    const bool may_come_late = change.what == What::store && change.who.client == client &&
                               (change.settled == 0 || change.settled > begun);
    if (!may_come_late) continue;
    change.sure = false;
    change.loose = true;
  }
}

void FileOracle::kill(Client client) {
  place_all();
  const Tick now = clock_.tick();
  for (Change& change : changes_) {
    if (change.who.client != client || change.settled != 0) continue;
    if (change.ended == 0) change.ended = now;
    change.sure = false;
    change.loose = true;
  }
}

void FileOracle::opened(Client client, Tick begun) {
  opens_.at(client).push_back({clock_.tick(), begun});
}

void FileOracle::handed_over(Client from, Client to, Tick released) {
  const Tick now = clock_.tick();
  for (Change& change : changes_) {
    const bool covered = change.who.client == from && change.ended != 0 && change.ended < released;
    if (!covered) continue;
    if (change.settled == 0 && !is_lossy(from)) settle(change, now);
    if (change.known.at(to) == 0) change.known.at(to) = now;
  }
}

bool FileOracle::has_unsettled(Client client) const {
  return std::ranges::any_of(changes_, [client](const Change& change) {
    return change.who.client == client && change.settled == 0 && change.sure;
  });
}

// ---- order ----

bool FileOracle::in_order(const Change& first, const Change& second) {
  if (first.loose) return false;
  const Tick over = first.who.client == second.who.client ? first.ended : first.settled;
  return over != 0 && over < second.begun;
}

FileOracle::Reader FileOracle::reader(Client client, Tick begun) const {
  Reader out{client, begun, 0};
  for (const Opened& one : opens_.at(client)) {
    if (one.done < begun) out.opened = std::max(out.opened, one.begun);
  }
  return out;
}

/// Whether a kernel may have taken the change out of this segment, so that no reader is sure to see it. The recursion through
/// is_dropped_by_restart() ends, because a store asks only about changes that had ended when it began.
bool FileOracle::may_be_missing(Question& question, const Change& change) const {
  const auto known = question.may_be_missing.find(change.id);
  if (known != question.may_be_missing.end()) return known->second;
  const bool answer = is_undone(question.segment, change) || is_dropped(question, change);
  question.may_be_missing.emplace(change.id, answer);
  return answer;
}

/// By a page that another client had stored in, and wrote out without knowing of the change. On one client this happens only
/// to what passed the pages by while the store was made (passes_pages_by()).
bool FileOracle::is_undone(const Segment& segment, const Change& change) const {
  return std::ranges::any_of(segment, [&](const Acting& one) {
    const Change& store = *one.change;
    if (one.effect != Effect::undo || store.id == change.id || in_order(store, change)) return false;
    if (store.loose) return true;
    if (store.who.client == change.who.client) return change.direct && !in_order(change, store);
    return !is_seen(change, reader(store.who.client, store.begun));
  });
}

/// With its page, by the kernel of its client, which learns only then that another client, or the server's restart, has cut
/// the file there.
bool FileOracle::is_dropped(Question& question, const Change& store) const {
  if (store.what != What::store) return false;
  const bool is_cut = std::ranges::any_of(question.segment, [&](const Acting& one) {
    const Change& cut = *one.change;
    return one.effect == Effect::cut && cut.what == What::truncate && cut.who.client != store.who.client &&
           !in_order(store, cut) && !is_seen(cut, reader(store.who.client, store.begun));
  });
  return is_cut || is_dropped_by_restart(question, store);
}

/// A restart may cut the file if it reached so far by what another client had not settled when the store was made. That client
/// writes it again, but until then the file is shorter.
bool FileOracle::is_dropped_by_restart(Question& question, const Change& store) const {
  const bool was_lost = store.settled != 0 ? store.after_loss : is_lossy(kServer);
  const Reader settled_then{store.who.client, store.begun, store.begun};
  return was_lost && permitted(question, settled_then, Appends::all).absent;
}

/// Whether zeros may be read behind the end that the truncation `cut` has set. A kernel puts them into a page of which READ
/// brought less than all, and shows them up to the end of the file that it believes in. It does not take the new end from the
/// READ if it was told attributes while that was under way, which may be from before the truncation
/// (fuse_read_update_size()). A store writes the page out as it is.
bool FileOracle::is_hidden(const Segment& segment, const Change& cut, const Reader& reader) const {
  if (cut.what != What::truncate) return false;
  const bool is_elsewhere = reader.client != kServer && reader.client != cut.who.client;
  return is_undone(segment, cut) || (is_elsewhere && !is_seen(cut, reader));
}

bool FileOracle::is_seen(Question& question, const Acting& acting, const Reader& reader) const {
  return acting.sure && is_seen(*acting.change, reader) && !may_be_missing(question, *acting.change);
}

bool FileOracle::is_seen(const Change& change, const Reader& reader) const {
  if (!change.sure || change.loose || change.ended == 0 || change.ended >= reader.begun) return false;
  const bool is_settled = change.settled != 0 && change.settled < reader.begun;
  if (reader.client == change.who.client) return is_settled || !is_lossy(reader.client);
  if (reader.client == kServer) return is_settled;
  const Tick known = change.known.at(reader.client);
  if (known != 0 && known < reader.begun && !is_lossy(change.who.client)) return true;
  return is_settled && change.settled <= reader.opened;
}

/// Gives what sets the bytes behind `setter`, as the reader is sure to see; null: nothing does.
const FileOracle::Acting* FileOracle::excluder(Question& question, const Acting& setter,
                                               const Reader& reader) const {
  const auto found = std::ranges::find_if(question.segment, [&](const Acting& other) {
    return other.sets() && other.change != setter.change && in_order(*setter.change, *other.change) &&
           is_seen(question, other, reader);
  });
  return found == question.segment.end() ? nullptr : &*found;
}

bool FileOracle::Permitted::has(std::uint64_t at, char octet) const {
  if (anything || (zero && octet == '\0')) return true;
  return std::ranges::any_of(sets, [&](const Acting* one) {
    const std::size_t index = at - one->base;
    const auto several = one->change->alternatives.find(index);
    if (several != one->change->alternatives.end()) return several->second.find(octet) != std::string::npos;
    return one->change->octets[index] == octet;
  });
}

FileOracle::Permitted FileOracle::permitted(const Segment& segment, const Reader& reader,
                                            Appends appends) const {
  Question question{segment};
  return permitted(question, reader, appends);
}

FileOracle::Permitted FileOracle::permitted(Question& question, const Reader& reader, Appends appends) const {
  const Segment& segment = question.segment;
  Permitted out;
  const auto is_left_out = [&](const Acting& one) {
    return appends == Appends::ended && one.change->what == What::append && one.change->ended == 0;
  };
  bool hides_cut = false;
  for (const Acting& setter : segment) {
    if (!setter.sets() || is_left_out(setter) || excluder(question, setter, reader) != nullptr) continue;
    bool may_zero = false, must_zero = false, may_fill = false, must_fill = false;
    const bool is_sure = reader.client == setter.change->who.client || is_seen(question, setter, reader);
    for (const Acting& one : segment) {
      const bool acts = one.effect == Effect::zero || one.effect == Effect::fill;
      if (!acts || one.change == setter.change || is_left_out(one)) continue;
      // Elsewhere an older change may still arrive behind the setter, as long as nobody is sure to see the setter.
      const bool was_settled = one.change->settled != 0 && one.change->settled < setter.change->begun;
      if (in_order(*one.change, *setter.change) && (is_sure || was_settled)) continue;
      const bool must = in_order(*setter.change, *one.change) && is_seen(question, one, reader);
      (one.effect == Effect::zero ? may_zero : may_fill) = true;
      if (must) (one.effect == Effect::zero ? must_zero : must_fill) = true;
    }
    if (setter.effect == Effect::cut) {
      out.absent = out.absent || !must_fill;
      out.zero = out.zero || may_fill;
      hides_cut = hides_cut || is_hidden(segment, *setter.change, reader);
      continue;
    }
    out.zero = out.zero || may_zero;
    if (must_zero) continue;
    if (setter.change->anything)
      out.anything = true;
    else
      out.sets.push_back(&setter);
  }
  out.zero = out.zero || (hides_cut && out.present());
  return out;
}

const FileOracle::Segment& FileOracle::segment_of(std::uint64_t at) const {
  return std::prev(segments_.upper_bound(at))->second;
}

std::vector<std::uint64_t> FileOracle::sizes(const Reader& reader, Appends appends) const {
  std::vector<std::uint64_t> out;
  bool may_be_present = true;
  for (const auto& [at, segment] : segments_) {
    const Permitted here = permitted(segment, reader, appends);
    if (here.absent && may_be_present) out.push_back(at);
    may_be_present = here.present();
  }
  return out;
}

std::vector<std::uint64_t> FileOracle::sizes(Client client, Tick begun) {
  place_all();
  return sizes(reader(client, begun), Appends::all);
}

// ---- appends ----

/// Whether the file may end where no change begins or ends: parts of another client's write may be on the server, and the
/// place of an append not be known, or a part of a write be lost, or cut off by another client before the rest came; also by
/// the same client, if no kernel is there to keep it from that.
bool FileOracle::may_end_inside(const Reader& reader) const {
  return std::ranges::any_of(segments_, [&](const auto& one) {
    const Segment& segment = one.second;
    const Permitted here = permitted(segment, reader, Appends::ended);
    if (!here.absent || !here.present()) return false;
    return std::ranges::any_of(segment, [&](const Acting& acting) {
      const Change& change = *acting.change;
      if (acting.effect != Effect::set) return false;
      if (change.who.client != reader.client || change.anything || !change.sure || is_lossy(reader.client))
        return true;
      return std::ranges::any_of(segment, [&](const Acting& other) {
        const Change& cut = *other.change;
        return other.effect == Effect::cut && (cut.who.client != change.who.client || change.divided) &&
               !in_order(cut, change) && !in_order(change, cut);
      });
    });
  });
}

/// Where it may be, as of now: at any size that the file may have had since it began, or behind others that are under way.
void FileOracle::place(Change& append) {
  Reader who = reader(append.who.client, append.begun);
  // A client that has nothing of its own under way asks the server for the size.
  const bool asks = std::ranges::none_of(changes_, [&](const Change& other) {
    return other.who.client == append.who.client && &other != &append && other.settled == 0 &&
           other.begun != append.begun;
  });
  if (asks) who.opened = append.begun;
  std::set<std::uint64_t> places;
  for (const std::uint64_t size : sizes(who, Appends::ended)) places.insert(size);
  for (const Change& other : changes_) {
    if (other.what != What::append || other.ended != 0 || &other == &append) continue;
    for (const std::uint64_t size : std::set(places)) places.insert(size + other.length);
    if (places.size() > kMostPlaces) break;
  }
  if (append.anything || places.size() > kMostPlaces || may_end_inside(who))
    return place_anywhere(append, *places.begin());
  for (const std::uint64_t place : places) {
    if (std::ranges::find(append.places, place) != append.places.end()) continue;
    append.places.push_back(place);
    set_octets(append, place, false);
  }
}

/// While it is under way another client may cut the file, so that it may begin further in front than was known.
void FileOracle::place_anywhere(Change& append, std::uint64_t from) {
  const std::uint64_t to = append.anything ? append.offset : kEnd;
  if (from >= to) return;
  if (!append.anything) act(append, Effect::fill, 0, kEnd, 0, false);
  act(append, Effect::set, from, to, 0, false);
  append.offset = from;
  append.anything = true;
}

/// Of those that are under way.
void FileOracle::place_all() {
  for (Change& change : changes_) {
    if (change.what == What::append && change.ended == 0 && change.length != 0) place(change);
  }
}

/// Appends of one client that may stand in any order do not stand upon each other: all of them together have made the file
/// so long at least, unless it was cut meanwhile.
void FileOracle::fill_behind(const Change& append) {
  std::uint64_t from = kEnd, length = 0;
  Tick begun = append.begun;
  for (const Change& other : changes_) {
    const bool counts = other.what == What::append && other.who.client == append.who.client && other.sure &&
                        other.ended != 0 && other.places.size() > 1 && !other.anything;
    if (!counts) continue;
    from = std::min(from, std::ranges::min(other.places));
    length += other.length;
    begun = std::min(begun, other.begun);
  }
  const bool is_cut = std::ranges::any_of(changes_, [&](const Change& other) {
    return other.what == What::truncate && (other.ended == 0 || other.loose || other.ended > begun);
  });
  if (!is_cut && length != 0) act(append, Effect::fill, 0, from + length);
}

void FileOracle::decide(Change& append, std::uint64_t place) {
  for (auto& [at, segment] : segments_) {
    std::erase_if(segment, [&](const Acting& one) {
      return one.change == &append && (one.effect == Effect::set || !one.sure);
    });
  }
  append.places = {place};
  append.offset = place;
  append.anything = false;
  set_octets(append, place, true);
}

/// Whether nothing but the append can have put all its octets there: they may have been copied from where it is.
bool FileOracle::tells_place(const Change& append, std::uint64_t place) const {
  for (std::uint64_t at = place; at < place + append.length; ++at) {
    const bool by_others = std::ranges::any_of(segment_of(at), [&](const Acting& one) {
      if (one.change == &append || one.effect != Effect::set) return false;
      Permitted other;
      other.anything = one.change->anything;
      other.sets = {&one};
      return other.has(at, append.octets[at - place]);
    });
    if (!by_others) return true;
  }
  return false;
}

/// A read has brought the octets of appends that might have been elsewhere.
void FileOracle::decide_by(std::uint64_t offset, std::string_view got) {
  for (Change& change : changes_) {
    if (change.what != What::append || change.ended == 0 || change.length < kTelling) continue;
    if (change.anything) {
      std::size_t found = got.find(change.octets, std::max(change.offset, offset) - offset);
      while (found != std::string_view::npos && !tells_place(change, offset + found))
        found = got.find(change.octets, found + 1);
      if (found != std::string_view::npos) decide(change, offset + found);
      continue;
    }
    if (change.places.size() < 2) continue;
    for (const std::uint64_t place : std::vector(change.places)) {
      const bool inside = place >= offset && place + change.length <= offset + got.size();
      if (!inside || got.substr(place - offset, change.length) != change.octets) continue;
      if (!tells_place(change, place)) continue;
      decide(change, place);
      break;
    }
  }
}

// ---- answers ----

std::string FileOracle::check(const Reader& reader, std::uint64_t offset, std::uint64_t asked,
                              std::string_view got) {
  place_all();
  decide_by(offset, got);
  const std::uint64_t end = offset + got.size();
  for (auto at = std::prev(segments_.upper_bound(offset)); at != segments_.end() && at->first < end; ++at) {
    const Permitted may = permitted(at->second, reader);
    const auto next = std::next(at);
    const std::uint64_t to = next == segments_.end() ? end : std::min(end, next->first);
    for (std::uint64_t byte = std::max(offset, at->first); byte < to; ++byte) {
      if (may.has(byte, got[byte - offset])) continue;
      return "at byte " + std::to_string(byte) + " there is " + shown(got[byte - offset]) +
             source_of(offset, got, byte, reader) + permitted_text(byte, reader);
    }
  }
  if (got.size() >= asked) return "";
  if (permitted(segment_of(end), reader).absent) return "";
  return "the file ends at " + std::to_string(end) + "; byte " + std::to_string(end) +
         " must be there:" + permitted_text(end, reader);
}

std::string FileOracle::check_read(Client client, Tick begun, std::uint64_t offset, std::uint64_t asked,
                                   std::string_view got) {
  if (got.size() > asked) return "more bytes than were asked for";
  // Behind the end nothing is read, and nothing is said of where the end is.
  return check(reader(client, begun), offset, asked, got);
}

std::string FileOracle::check_final(std::string_view content) {
  return check(reader(kServer, clock_.tick()), 0, kEnd, content);
}

std::string FileOracle::check_size(Client client, Tick begun, std::uint64_t size) {
  place_all();
  const Reader who = reader(client, begun);
  const bool ends = permitted(segment_of(size), who).absent;
  const bool reaches = size == 0 || permitted(segment_of(size - 1), who).present();
  if (ends && reaches) return "";
  std::string out = "the size is " + std::to_string(size) + ", and may be";
  for (const std::uint64_t one : sizes(who, Appends::all)) out += " " + std::to_string(one);
  const std::uint64_t at = ends ? size - 1 : size;
  return out + "; byte " + std::to_string(at) + (ends ? " cannot be there:" : " must be there:") +
         permitted_text(at, who);
}

std::string FileOracle::check_hole(Client client, Tick begun, std::uint64_t from, std::uint64_t to) {
  if (from >= to) return "";
  place_all();
  const Reader who = reader(client, begun);
  for (auto at = std::prev(segments_.upper_bound(from)); at != segments_.end() && at->first < to; ++at) {
    const Permitted may = permitted(at->second, who);
    if (may.absent || may.zero || may.anything) continue;
    const auto next = std::next(at);
    const std::uint64_t last = next == segments_.end() ? to : std::min(to, next->first);
    for (std::uint64_t byte = std::max(from, at->first); byte < last; ++byte) {
      if (may.has(byte, '\0')) continue;
      return "byte " + std::to_string(byte) +
             " is said to be in a hole, and has data:" + permitted_text(byte, who);
    }
  }
  return "";
}

// ---- texts ----

std::string FileOracle::text_of(const Change& change) const {
  static constexpr std::array kWhat{"the beginning", "write",    "append", "truncate",
                                    "punch",         "allocate", "copy",   "store"};
  if (change.what == What::empty) return "the empty file";
  std::string out = std::string(kWhat.at(static_cast<std::size_t>(change.what))) + " #" +
                    std::to_string(change.id) + " of " + change.who.program;
  if (change.what == What::append && change.places.size() != 1) {
    out += " at one of";
    for (const std::uint64_t place : change.places) out += " " + std::to_string(place);
  } else {
    out += " at " + std::to_string(change.offset);
  }
  if (change.length != 0) out += "+" + std::to_string(change.length);
  out += " (ticks " + tick_text(change.begun) + " to " + tick_text(change.ended) + ", settled " +
         tick_text(change.settled);
  if (change.loose)
    out += ", of unknown outcome";
  else if (!change.sure)
    out += ", may be lost";
  return out + ")";
}

/// The change that wrote what was read, as far as a few octets in a row tell.
std::string FileOracle::source_of(std::uint64_t offset, std::string_view got, std::uint64_t at,
                                  const Reader& reader) const {
  const std::string_view sign = got.substr(at - offset, kTelling);
  const bool zeros = sign.find_first_not_of('\0') == std::string_view::npos;
  if (zeros) return "";
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    const std::size_t index = change->octets.find(sign);
    if (index == std::string::npos) continue;
    std::string out = " (octet " + std::to_string(index) + " of " + text_of(*change);
    const Segment& segment = segment_of(at);
    const auto acting = std::ranges::find_if(
        segment, [&](const Acting& one) { return one.change == &*change && one.sets(); });
    if (acting == segment.end()) return out + ", which is not there or long overwritten)";
    Question question{segment};
    const Acting* const other = excluder(question, *acting, reader);
    return out + (other != nullptr ? ", overwritten by " + text_of(*other->change) : "") + ")";
  }
  return " (of no change)";
}

std::string FileOracle::permitted_text(std::uint64_t at, const Reader& reader) const {
  const Permitted may = permitted(segment_of(at), reader);
  std::string out = "; as of tick " + std::to_string(reader.begun) + ", opened at " +
                    std::to_string(reader.opened) + ", permitted:";
  if (may.absent) out += " [its end]";
  if (may.zero) out += " [zero]";
  for (const Acting* one : may.sets) {
    out += " [" + shown(one->change->octets[at - one->base]) + " of " + text_of(*one->change) + "]";
  }
  if (!may.present() && !may.absent) out += " nothing";
  return out;
}

}  // namespace nfsrdma::sim
