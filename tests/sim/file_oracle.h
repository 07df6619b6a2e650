// Which answers programs may get about one file that several clients change at the same time.
//
// The promises are those of nfsrdma-fuse(8), SEMANTICS. On one client a read that begins after a change has returned sees the
// change, as POSIX has it. Between clients a change is sure to be seen only if it was settled (by fsync, close, O_SYNC,
// an unlock, or since the server itself carried it out) before the reading client opened the file or was granted a lock.
// Until then a reader may see the change or not, byte by byte. So the oracle knows a set of permitted answers, not one.
//
// Each byte of the file is a register. Its value is an octet, or "absent" if the file ends before the byte. Changes act on
// ranges of registers:
//
//     write, append   set octets, and put zeros in front of them where the file was shorter
//     truncate        makes everything behind the new end absent, and puts zeros in front of it where the file was shorter.
//                     Another client whose kernel does not know of it yet may read zeros behind the new end
//     punch           puts zeros where bytes are present
//     allocate        puts zeros where bytes are absent
//     copy            sets any of the octets that the source may have had
//     store           sets octets through a mapping. Its pages are written as a whole: what other clients changed there, and
//                     this one did not know of when it stored, may be undone. Where another client had cut the file, and
//                     this one did not know of it when it stored, the store may be lost: its kernel drops the pages behind
//                     the new end, dirty or not, when it learns of that (fuse_change_attributes(), truncate_pagecache()). A
//                     restart of the server, which may lose what another client had not settled, cuts the file as well
//
// The file may have size N if byte N-1 may be present and byte N may be absent.
//
// A change begins, ends (its program was answered) and is settled (the server has it for good). Two changes of one client
// are in order if one ended before the other began, two changes of different clients only if one was settled before the
// other began. A value is a permitted answer unless a change that the reader is sure to see is behind it in that order.
// A change that failed, or whose outcome is unknown, is never sure to be seen.
//
// An append does not tell where it went. The oracle computes every size that the file may have had meanwhile; where there are
// several, the first read that shows the octets of the append decides. So appends should have octets that nobody else writes.
//
// Answers are checked when they arrive: a check takes "now" for the end of the question. Texts that the checks return are
// empty if the answer is permitted, and otherwise say which change the answer comes from and which change excludes it.
//
// Thread-safety: none. The OracleClock outlives it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::sim {

using Tick = std::uint64_t;

/// Gives every beginning and every end of an operation a tick of its own, so that any two of them have an order.
class OracleClock {
 public:
  Tick tick() { return ++now_; }
  [[nodiscard]] Tick now() const { return now_; }
  /// The beginning of the oldest operation that is under way.
  [[nodiscard]] Tick horizon() const { return under_way_.empty() ? now_ + 1 : *under_way_.begin(); }

  /// An operation under way. It ends with its scope, also if the program is killed.
  class Operation {
   public:
    explicit Operation(OracleClock& clock)
        : clock_(clock), begun_(clock.tick()), place_(clock.under_way_.insert(begun_)) {}
    ~Operation() { clock_.under_way_.erase(place_); }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    [[nodiscard]] Tick begun() const { return begun_; }

   private:
    OracleClock& clock_;
    const Tick begun_;
    const std::multiset<Tick>::iterator place_;
  };

 private:
  Tick now_ = 1;
  std::multiset<Tick> under_way_;
};

class FileOracle {
 public:
  /// Clients have numbers from 1 on. kServer sees what is settled, and all of it.
  using Client = unsigned;
  static constexpr Client kServer = 0;
  static constexpr std::size_t kMostClients = 5;  ///< and the server

  struct Who {
    Client client = kServer;
    std::string program;
  };
  enum class Outcome : std::uint8_t {
    done,
    failed,  ///< the program got an error; some of the change may have been made, and nothing of it comes later
    unknown,  ///< nobody knows whether it was made, or will be
  };
  /// A change of this file, by its place in the order of beginnings.
  using ChangeId = std::size_t;

  /// Whether the client may lose what it has not settled before it tells anybody: the disk is full, or state is revoked.
  /// Of kServer: whether a restart may have lost what was not settled.
  using Lossy = std::function<bool(Client client)>;
  /// The file is empty. Without `lossy` no client loses anything.
  FileOracle(std::string name, OracleClock& clock, Lossy lossy = nullptr);

  // ---- changes ----
  ChangeId begin_write(Who who, std::uint64_t offset, std::string octets);
  ChangeId begin_append(Who who, std::string octets);
  /// Called for a change that has begun and passes the kernel's pages by: a write or an append with O_DIRECT, and a copy. A
  /// page that is read and stored in meanwhile is of before the change. If the kernel writes the page out, for the O_DIRECT
  /// write or for anybody's fsync(2) while a copy is under way (Linux locks no mapping for FUSE's copy_file_range(2)), the
  /// page undoes the change.
  void passes_pages_by(ChangeId change) { changes_[change].direct = true; }
  /// Called for a write or an append of a program without a kernel, whose lock of the file would keep other programs of the
  /// same client from cutting the file between two parts of it.
  void may_be_divided(ChangeId change) { changes_[change].divided = true; }
  /// `begun`: when it began, if that was before now.
  ChangeId begin_truncate(Who who, std::uint64_t size, Tick begun = 0);
  ChangeId begin_punch(Who who, std::uint64_t offset, std::uint64_t length);
  ChangeId begin_allocate(Who who, std::uint64_t offset, std::uint64_t length);
  ChangeId begin_store(Who who, std::uint64_t offset, std::string octets);
  ChangeId begin_copy(Who who, std::uint64_t offset, std::uint64_t length);
  /// Called before end() of a copy: it has copied so much from there.
  void copied(ChangeId change, const FileOracle& source, std::uint64_t offset, std::uint64_t length);
  /// `settled`: the server has it for good by now, as behind a write with O_SYNC, truncate, punch and allocate.
  void end(ChangeId change, Outcome outcome, bool settled = false);
  /// It has surely not been made.
  void cancel(ChangeId change);

  // ---- what makes changes sure ----
  /// fsync or close of the client began at `begun` and has succeeded. Where clients may lose data, errors are only
  /// reported to files that were open at the loss: `opened` is when this one was, and what is older becomes doubtful.
  void settle(Client client, Tick begun, Tick opened = 0);
  /// close(2) of the client, begun at `begun`, has succeeded, and what was not settled may be under way behind it, under a
  /// delegation: it may be lost with that, or come until the server lets another client open the file.
  void leave_behind(Client client, Tick begun);
  /// The server has let the client open the file, for which it took back what others had of it: what they had left behind
  /// comes no more (RFC 8881 10.4.2 lets them write it with the delegation's stateid alone).
  void end_left_behind(Client client);
  /// The client has given a lock back, which it began at `begun`: unless it may have lost data, the server has it all.
  void unlocked(Client client, Tick begun);
  /// fsync or close of the client, begun at `begun`, has failed: what was not settled may be lost.
  void doubt(Client client, Tick begun);
  /// open(2) with O_TRUNC of the client, begun at `begun`, has cut the file. Linux does not keep pages that were stored in
  /// from being written out meanwhile (fuse_open() without a write-back cache), so that they may come behind the cut.
  void cut_by_open(Client client, Tick begun);
  /// The client was killed: what was not settled may be lost, and may come later.
  void kill(Client client);
  /// The client's open(2), or lock, that began at `begun` has succeeded.
  void opened(Client client, Tick begun);
  /// `to` was granted a lock which `from` began to release at `released`: what `from` had changed by then is on the server.
  void handed_over(Client from, Client to, Tick released);

  // ---- answers ----
  /// read(2) of `asked` bytes that began at `begun` has brought `got`.
  [[nodiscard]] std::string check_read(Client client, Tick begun, std::uint64_t offset, std::uint64_t asked,
                                       std::string_view got);
  [[nodiscard]] std::string check_size(Client client, Tick begun, std::uint64_t size);
  /// SEEK_DATA and the like: every byte of the range may be zero or absent.
  [[nodiscard]] std::string check_hole(Client client, Tick begun, std::uint64_t from, std::uint64_t to);
  /// The server has this, and no client has the file open any more.
  [[nodiscard]] std::string check_final(std::string_view content);
  /// Every size that may be told.
  [[nodiscard]] std::vector<std::uint64_t> sizes(Client client, Tick begun);

  /// The client has made a change that is not settled.
  [[nodiscard]] bool has_unsettled(Client client) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  static constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

 private:
  enum class What : std::uint8_t { empty, write, append, truncate, punch, allocate, copy, store };
  struct Change {
    ChangeId id = 0;
    What what = What::empty;
    Who who;
    Tick begun = 0, ended = 0, settled = 0;  // 0: not yet
    bool sure = true;                        // false: it may not have been made, or be lost
    bool loose = false;                      // it may be made at any time since it began
    bool behind = false;                     // close(2) has left it behind
    bool after_loss = false;                 // when it was settled, a restart might have lost data
    bool direct = false;                     // passes_pages_by()
    bool divided = false;                    // may_be_divided()
    bool anything = false;                   // its octets, or its place, are not known
    // The offset of an append that may be anywhere is the least one that it may have.
    std::uint64_t offset = 0, length = 0;
    std::string octets;
    std::map<std::size_t, std::string> alternatives;  // by index: all octets that may be there
    std::vector<std::uint64_t> places;                // of an append: where it may be
    std::array<Tick, kMostClients> known{};           // since when a client knows of it through a lock
  };
  /// What a change does to the bytes of a segment.
  enum class Effect : std::uint8_t { set, cut, zero, fill, undo };
  struct Acting {
    const Change* change;
    Effect effect;
    std::uint64_t base = 0;  // of `set`: where its first octet stands
    bool sure = true;        // whether the change is sure to act here, if it is made at all
    [[nodiscard]] bool sets() const { return effect == Effect::set || effect == Effect::cut; }
  };
  /// Bytes that the same changes act on, up to the next segment.
  using Segment = std::vector<Acting>;
  using Segments = std::map<std::uint64_t, Segment>;
  /// A segment, and a memo of what may_be_missing() has answered for its changes. It is valid until a change begins, ends or is
  /// settled. The answer for a store depends on those for all older changes: without the memo the time would be exponential in
  /// the number of stores.
  struct Question {
    const Segment& segment;
    std::map<ChangeId, bool> may_be_missing = {};
  };
  struct Reader {
    Client client;
    Tick begun;
    Tick opened;  // the latest open(2) or lock that had succeeded by then began at that tick
  };
  enum class Appends : std::uint8_t { all, ended };
  struct Permitted {
    bool absent = false, zero = false, anything = false;
    std::vector<const Acting*> sets;
    [[nodiscard]] bool present() const { return zero || anything || !sets.empty(); }
    [[nodiscard]] bool has(std::uint64_t at, char octet) const;
  };

  /// The server has the change for good as of that tick.
  void settle(Change& change, Tick at) const;
  ChangeId add(What what, Who who, std::uint64_t offset, std::uint64_t length);
  void act(const Change& change, Effect effect, std::uint64_t from, std::uint64_t to, std::uint64_t base = 0,
           bool sure = true);
  void set_octets(const Change& change, std::uint64_t from, bool sure);
  Segments::iterator split(std::uint64_t at);
  [[nodiscard]] bool tells_place(const Change& append, std::uint64_t place) const;
  void erase(const Change& change);
  void prune(Segment& segment) const;
  [[nodiscard]] bool is_lossy(Client client) const { return lossy_ && lossy_(client); }
  [[nodiscard]] bool known_to_all(Question& question, const Acting& acting) const;
  [[nodiscard]] bool may_be_missing(Question& question, const Change& change) const;
  [[nodiscard]] bool is_undone(const Segment& segment, const Change& change) const;
  [[nodiscard]] bool is_dropped(Question& question, const Change& store) const;
  [[nodiscard]] bool is_dropped_by_restart(Question& question, const Change& store) const;
  [[nodiscard]] bool is_hidden(const Segment& segment, const Change& cut, const Reader& reader) const;
  [[nodiscard]] static bool in_order(const Change& first, const Change& second);
  /// The change, and what it does in this segment.
  [[nodiscard]] bool is_seen(const Change& change, const Reader& reader) const;
  [[nodiscard]] bool is_seen(Question& question, const Acting& acting, const Reader& reader) const;
  [[nodiscard]] const Acting* excluder(Question& question, const Acting& setter, const Reader& reader) const;
  [[nodiscard]] Permitted permitted(const Segment& segment, const Reader& reader,
                                    Appends appends = Appends::all) const;
  [[nodiscard]] Permitted permitted(Question& question, const Reader& reader, Appends appends) const;
  [[nodiscard]] Reader reader(Client client, Tick begun) const;
  [[nodiscard]] std::vector<std::uint64_t> sizes(const Reader& reader, Appends appends) const;
  [[nodiscard]] bool may_end_inside(const Reader& reader) const;
  void place(Change& append);
  void place_anywhere(Change& append, std::uint64_t from);
  void place_all();
  void fill_behind(const Change& append);
  void decide(Change& append, std::uint64_t place);
  void decide_by(std::uint64_t offset, std::string_view got);
  [[nodiscard]] const Segment& segment_of(std::uint64_t at) const;
  [[nodiscard]] std::string text_of(const Change& change) const;
  [[nodiscard]] std::string source_of(std::uint64_t offset, std::string_view got, std::uint64_t at,
                                      const Reader& reader) const;
  [[nodiscard]] std::string permitted_text(std::uint64_t at, const Reader& reader) const;
  [[nodiscard]] std::string check(const Reader& reader, std::uint64_t offset, std::uint64_t asked,
                                  std::string_view got);

  const std::string name_;
  OracleClock& clock_;
  const Lossy lossy_;
  std::deque<Change> changes_;
  Segments segments_;
  struct Opened {
    Tick done, begun;
  };
  std::array<std::vector<Opened>, kMostClients> opens_;
};

}  // namespace nfsrdma::sim
