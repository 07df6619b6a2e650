#include "nfs4/files/small_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "async/buggify.h"
#include "async/event.h"
#include "async/tasks.h"
#include "nfs4/files/convert.h"
#include "nfs4/files/first_read.h"
#include "nfs4/state/open_arguments.h"
#include "nfs4/state/walk.h"
#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {
namespace {

using engine::ManyRead;
using engine::ManyTold;
using engine::ManyWritten;
using engine::Named;
using Chunks = SmallFiles::Chunks;

constexpr std::size_t kBatchesInFlight = 16;

/// Attributes whose encoded values are short, so without owners.
const bitmap4& short_attributes() {
  static const bitmap4 map = bitmap_of({FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID,
                                        FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_SPACE_USED, FATTR4_TIME_ACCESS,
                                        FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY});
  return map;
}

/// The share of a COMPOUND's limits that one file uses: operations; bytes of the Call and of the Reply, with
/// data; bytes of the Reply that the server has to cache; memory chunks.
struct Share {
  std::size_t operations = 0, call = 0, reply = 0, kept = 0, chunks = 0;
  Share& operator+=(const Share& other) {
    operations += other.operations;
    call += other.call;
    reply += other.reply;
    kept += other.kept;
    chunks += other.chunks;
    return *this;
  }
};

template <class Op>
std::size_t result_of(const typename Op::Args& args = {}) {
  constexpr std::size_t kNumber = 4;
  return kNumber + static_cast<std::size_t>(reply_sizing::result_size<Op>(args).max_inline);
}
std::size_t text_size(const std::string& text) {
  return 4 + xdr::padded(text.size());
}

constexpr std::size_t kOperation = 4;  // the operation's number
constexpr std::size_t kStateid = 16;
constexpr std::size_t kPlainResult = 8;  // number and status

/// Returns the share of the walk to a directory, and of the SAVEFH that keeps it for the files after the
/// first.
Share share_of_walk(const Spot& directory) {
  Share out{.operations = 2 + directory.names.size(), .call = 2 * kOperation + text_size("")};
  if (directory.from) out.call += xdr::padded(directory.from->length);
  for (const std::string& name : directory.names) out.call += kOperation + text_size(name);
  out.reply = out.kept = out.operations * kPlainResult;
  return out;
}
constexpr Share kShareOfReturn{
    .operations = 1, .call = kOperation, .reply = kPlainResult, .kept = kPlainResult};

/// Result of one COMPOUND for one of its files.
enum class Fate : std::uint8_t {
  done,       ///< the file has its result
  again,      ///< the file has to be put into another COMPOUND
  alone,      ///< the file has to be done by the ordinary operations
  misplaced,  ///< the Reply cannot be decoded: data of the file may have been placed elsewhere
};

/// Whether the refused operation has ended the COMPOUND with a status that the ordinary operations would
/// return as well.
bool is_final(const CompoundReply& reply) {
  const nfsstat4 status = reply.failed_status();
  if (status != reply.status()) return false;
  switch (status) {
    case NFS4ERR_NOENT:
    case NFS4ERR_ACCESS:
    case NFS4ERR_NAMETOOLONG:
    case NFS4ERR_BADNAME:
    case NFS4ERR_BADCHAR:
    case NFS4ERR_SYMLINK:
    case NFS4ERR_NOTDIR:
    case NFS4ERR_ISDIR:
    case NFS4ERR_ROFS:
    case NFS4ERR_NOSPC:
    case NFS4ERR_DQUOT:
      return true;
    default:
      return false;
  }
}
/// Whether the operation may have been refused because of the operations before it in the COMPOUND.
bool is_of_company(const CompoundReply& reply) {
  const nfsstat4 status = reply.failed_status();
  return is_too_large(status) || status == NFS4ERR_DELAY || status == NFS4ERR_GRACE;
}

/// Returns the result of a GETATTR of short_attributes().
std::optional<Attributes> take_attributes(CompoundReply& reply) {
  std::optional<Attributes> out;
  (void)take_getattr(reply, out);
  return out;
}

// ---- what is done with each file ----

class Reading {
 public:
  using Item = ManyRead;
  static constexpr const char* kWhat = "READ";
  static constexpr bool kOpens = false;
  explicit Reading(ClientLease& session) : session_(session) {}

  [[nodiscard]] bool takes(const Item& item) const {
    return !item.data.empty() && item.data.size() <= session_.most_read();
  }
  [[nodiscard]] Share share_of(const Item& item, bool in_stream) const {
    const READ4args read{stateid4(), 0, static_cast<count4>(item.data.size())};
    Share out{.operations = 3, .chunks = in_stream ? 0U : 1U};
    out.call = kOperation + text_size(item.file.name) + kOperation + kStateid + 8 + 4 + kGetattr;
    out.reply = kPlainResult + result_of<op::READ>(read) + attributes_;
    return out;
  }
  void add(Compound& compound, Item& item, bool in_stream) const {
    compound.add<op::LOOKUP>({{item.file.name}});
    compound.read(stateid4(), 0, item.data, in_stream);
    compound.add<op::GETATTR>({short_attributes()});
  }
  Fate take(CompoundReply& reply, Item& item, bool in_stream) const {
    if (!reply.take<op::LOOKUP>()) return refused(reply, item);
    READ4res res;
    if (!reply.take<op::READ>(res)) {
      const nfsstat4 status = reply.failed_status();
      if (status == NFS4_OK) return Fate::misplaced;
      // Only these two statuses are certain to be OPEN's answer too, because they tell the type of the
      // object.
      return status == NFS4ERR_SYMLINK || status == NFS4ERR_ISDIR ? refused(reply, item) : Fate::alone;
    }
    const READ4resok& ok = *res.get<NFS4_OK>();
    FileRead out{ok.data.data.size(), ok.eof, take_attributes(reply)};
    if (!out.attributes) return Fate::alone;
    const std::uint64_t size = out.attributes->size;
    const bool agrees = out.eof ? size == out.count : size > out.count && out.count == item.data.size();
    constexpr std::size_t kCount = 4;
    if (!agrees || (in_stream && out.count != 0 && out.count <= kCount)) return Fate::alone;
    item.result.emplace(std::move(out));
    return Fate::done;
  }
  [[nodiscard]] static std::size_t placed(const Item& item) { return (*item.result)->count; }

 private:
  static Fate refused(const CompoundReply& reply, Item& item) {
    const nfsstat4 status = reply.failed_status();
    if (status == NFS4_OK) return Fate::misplaced;
    if (!is_final(reply)) return Fate::alone;
    item.result.emplace(status_error(status, kWhat, item.file.text()));
    return Fate::done;
  }
  static constexpr std::size_t kGetattr = kOperation + 4 + 3 * 4;

  ClientLease& session_;
  const std::size_t attributes_ = result_of<op::GETATTR>({short_attributes()});
};

class Telling {
 public:
  using Item = ManyTold;
  static constexpr const char* kWhat = "LOOKUP";
  static constexpr bool kOpens = false;
  explicit Telling(ClientLease& /*session*/) {}

  [[nodiscard]] static bool takes(const Item& /*item*/) { return true; }
  [[nodiscard]] Share share_of(const Item& item, bool /*in_stream*/) const {
    Share out{.operations = 2};
    out.call = kOperation + text_size(item.file.name) + kOperation + 4 + 3 * 4;
    out.reply = kPlainResult + attributes_;
    return out;
  }
  static void add(Compound& compound, Item& item, bool /*in_stream*/) {
    compound.add<op::LOOKUP>({{item.file.name}});
    add_getattr(compound);
  }
  static Fate take(CompoundReply& reply, Item& item, bool /*in_stream*/) {
    std::optional<Attributes> attributes;
    if (reply.take<op::LOOKUP>()) {
      const bool told = take_getattr(reply, attributes);
      if (told && attributes && attributes->type != FileType::unknown) {
        item.result.emplace(std::move(*attributes));
        return Fate::done;
      }
      return Fate::alone;
    }
    const nfsstat4 status = reply.failed_status();
    if (!is_final(reply)) return Fate::alone;
    item.result.emplace(status_error(status, kWhat, item.file.text()));
    return Fate::done;
  }
  [[nodiscard]] static std::size_t placed(const Item& /*item*/) { return 0; }

 private:
  const std::size_t attributes_ = result_of<op::GETATTR>({public_attributes()});
};

class Writing {
 public:
  using Item = ManyWritten;
  static constexpr const char* kWhat = "WRITE";
  static constexpr bool kOpens = true;
  Writing(ClientLease& session, OpenFiles& files) : session_(session), files_(files) {}

  [[nodiscard]] bool takes(const Item& item) const { return item.data.size() <= session_.most_written(); }
  [[nodiscard]] Share share_of(const Item& item, bool /*in_stream*/) const {
    Share out{.operations = 5};
    out.call = kOpenCall + text_size(item.file.name) + kOperation + kOperation + kStateid + 16 +
               xdr::padded(item.data.size()) + 2 * kOperation + kStateid + kGetattr;
    out.reply = open_ + handle_ + write_ + close_ + attributes_;
    // The Reply to be cached is one without a delegation, because OPEN asks for none.
    out.kept = kOpenKept + handle_ + write_ + close_ + attributes_;
    return out;
  }
  void add(Compound& compound, Item& item, const writing::RewriteWatch& watch) const {
    Open open;
    open.access = OPEN4_SHARE_ACCESS_WRITE;
    open.owner = owner_;
    OPEN4args args = open_arguments(session_, open, OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
    SetAttributes changes = with_mode(item.mode);
    changes.size = 0;
    args.openhow = openflag4::of<OPEN4_CREATE>(createhow4::of<UNCHECKED4>(encode_changes(changes, watch)));
    args.claim = open_claim4::of<CLAIM_NULL>(component4{item.file.name});
    compound.add<op::OPEN>(args);
    compound.add<op::GETFH>();
    if (!item.data.empty())
      compound.add<op::WRITE>({kCurrentStateid, 0, FILE_SYNC4, xdr::DdpOpaque<>{item.data}});
    compound.add<op::CLOSE>({0, kCurrentStateid});
    compound.add<op::GETATTR>({short_attributes()});
  }
  Fate take(CompoundReply& reply, Item& item, const Openings::Guard& guard) const {
    OPEN4res opened;
    if (!reply.take<op::OPEN>(opened)) {
      const nfsstat4 status = reply.failed_status();
      if (status == NFS4_OK) return Fate::misplaced;
      if (!is_final(reply)) return Fate::alone;
      item.result.emplace(status_error(status, "open", item.file.text()));
      return Fate::done;
    }
    GETFH4res found;
    if (!reply.take<op::GETFH>(found)) return Fate::alone;
    const OPEN4resok& ok = *opened.get<NFS4_OK>();
    const nfs_fh4& handle = found.get<NFS4_OK>()->object;
    files_.resized(handle, 0);
    const bool is_there = !guard.is_over(ok.stateid, reply);
    if (is_there) session_.delegations().return_stray(handle, ok.delegation);
    WRITE4res written;
    const bool wrote = item.data.empty() || reply.take<op::WRITE>(written);
    if (!wrote || !reply.take<op::CLOSE>()) {
      const bool is_faulty = reply.failed_status() == NFS4_OK;
      if (is_there) session_.leftovers().close_in_background(handle, ok.stateid, owner_);
      return is_faulty ? Fate::misplaced : Fate::alone;
    }
    if (!item.data.empty()) {
      const WRITE4resok& done = *written.get<NFS4_OK>();
      if (done.count != item.data.size() || done.committed != FILE_SYNC4) return Fate::alone;
    }
    item.result.emplace(FileWritten{take_attributes(reply)});
    return Fate::done;
  }
  [[nodiscard]] static std::size_t placed(const Item& item) { return item.data.size(); }

 private:
  static constexpr std::size_t kGetattr = kOperation + 4 + 3 * 4;
  // The parts are: operation, seqid, shares, owner, how, mode and size with their bitmap, claim.
  static constexpr std::size_t kOpenCall = 4 + 4 + 4 + 4 + 8 + 4 + 8 + 4 + 4 + 12 + 4 + 16 + 4;
  // The parts are: number, status, stateid, change_info4, flags, bitmap, no delegation and the reason.
  static constexpr std::size_t kOpenKept = 4 + 4 + 16 + 20 + 4 + 16 + 12;

  ClientLease& session_;
  OpenFiles& files_;
  const std::uint64_t owner_ = session_.opens().next_owner();
  const std::size_t attributes_ = result_of<op::GETATTR>({short_attributes()});
  const std::size_t open_ = result_of<op::OPEN>(), handle_ = result_of<op::GETFH>(),
                    write_ = result_of<op::WRITE>(), close_ = result_of<op::CLOSE>();
};

// ---- from files to COMPOUNDs ----

/// Processes all items, a few COMPOUNDs at a time.
template <class Kind>
class Batches {
 public:
  using Item = typename Kind::Item;

  Batches(ClientLease& session, OpenFiles& files, Kind kind, Chunks& chunks, Caller caller,
          const std::vector<Item*>& items)
      : session_(session),
        files_(files),
        kind_(std::move(kind)),
        chunks_(chunks),
        caller_(std::move(caller)),
        ended_(session.loop()),
        tasks_(session.loop()) {
    for (Item* item : items) (kind_.takes(*item) ? todo_ : alone_).push_back(item);
  }

  async::Task<std::vector<Item*>> run() {
    const std::size_t most = std::clamp<std::size_t>(session_.facts().slots / 2, 1, kBatchesInFlight);
    for (;;) {
      while (!todo_.empty() && running_ < (is_trying() ? 1 : most)) {
        ++running_;
        tasks_.spawn(one_batch());
      }
      if (running_ == 0) break;
      co_await ended_.wait_until(async::TimePoint::max());
    }
    co_return std::vector<Item*>(alone_.begin(), alone_.end());
  }

 private:
  [[nodiscard]] bool in_stream() const { return chunks_ == Chunks::bad; }
  /// Whether the next COMPOUND still is a trial of chunks. COMPOUNDs with at most one file that has data
  /// prove nothing about chunks, so the number of trials is bounded.
  [[nodiscard]] bool is_trying() const { return chunks_ == Chunks::untried && tried_ < kTries; }

  async::Task<void> one_batch() {
    if (!Kind::kOpens && files_.any_in_doubt()) co_await files_.settle_doubt();
    const bool stream = in_stream();
    std::optional<Openings::Guard> guard;
    if (Kind::kOpens) guard.emplace(session_.openings());
    const writing::RewriteWatch watch(files_.data());
    Compound compound =
        session_.begin(Kind::kWhat, caller_, session_.crossings().mark_of(*todo_.front()->file.directory));
    const std::vector<Item*> batch = fill(compound, stream, watch);
    if (!batch.empty()) {
      auto reply = co_await session_.call(std::move(compound));
      if (reply) {
        // A restart that went unnoticed may have lost data of these files, so the answers may be out of date.
        const bool doubtful = watch.overtaken() || (!Kind::kOpens && files_.any_in_doubt());
        settle(batch, *reply, stream, guard, doubtful);
      } else {
        fail(batch, reply.error(), stream);
      }
    }
    --running_;
    ended_.notify_all();
  }

  /// Takes as many items from the front as fit into the COMPOUND. If not even the first one fits, it is left
  /// to the ordinary operations and none is returned.
  std::vector<Item*> fill(Compound& compound, bool stream, const writing::RewriteWatch& watch) {
    std::vector<Item*> out;
    const Spot* at = nullptr;
    const security::Mark mark = compound.mark();
    Share used{.operations = compound.count(),
               .call = compound.message().unreduced_size(),
               .reply = static_cast<std::size_t>(compound.reply_size().max_inline)};
    used.kept = used.reply;
    const bool one_only = async::buggify(session_.loop());
    // Protection (RPCSEC_GSS) makes the Call longer than `Share` counts.
    const bool is_sealed = Kind::kOpens && compound.protection() != nullptr;
    while (!todo_.empty() && !(one_only && out.size() == 1)) {
      Item& item = *todo_.front();
      const Spot& directory = *item.file.directory;
      Share wanted = kind_.share_of(item, stream);
      wanted += at == &directory ? kShareOfReturn : share_of_walk(directory);
      Share all = used;
      all += wanted;
      const bool good = fits(all) && (out.empty() || (fits_inline(all) && !is_sealed)) &&
                        (out.empty() || session_.crossings().mark_of(directory) == mark);
      if (!good && !out.empty()) break;
      todo_.pop_front();
      if (!good) {
        alone_.push_back(&item);
        break;
      }
      if (at == &directory) {
        compound.add<op::RESTOREFH>();
      } else {
        Spot spot = directory;
        std::array<Spot*, 1> spots{&spot};
        add_walks(compound, spots);
        compound.add<op::SAVEFH>();
        at = &directory;
      }
      if constexpr (Kind::kOpens) {
        kind_.add(compound, item, watch);
      } else {
        kind_.add(compound, item, stream);
      }
      used = all;
      out.push_back(&item);
    }
    return out;
  }
  [[nodiscard]] bool fits(const Share& room) const {
    const SessionFacts& facts = session_.facts();
    return room.operations <= facts.max_operations && room.call <= facts.max_request &&
           room.reply <= facts.max_response && (!Kind::kOpens || room.kept <= facts.max_response_cached) &&
           room.chunks <= reply_sizing::kMaxEligible;
  }
  /// Whether the Call fits inline with its transport header, which has a chunk of one segment for each READ
  /// and a Reply chunk (rpcrdma/header.h). The server has to fetch a longer Call before it can look at it,
  /// and may then write wrong data (small_files.h).
  [[nodiscard]] bool fits_inline(const Share& room) const {
    constexpr std::size_t kHeader = 28, kChunk = 24;
    return kHeader + (room.chunks + 1) * kChunk + room.call <= session_.call_threshold();
  }

  bool take_way(CompoundReply& reply, const Spot& directory, const Spot*& at) {
    if (at == &directory) return reply.take<op::RESTOREFH>();
    at = &directory;
    Spot spot = directory;
    std::array<Spot*, 1> spots{&spot};
    return take_walks(reply, spots) && reply.take<op::SAVEFH>();
  }
  Fate take(CompoundReply& reply, Item& item, bool stream, const std::optional<Openings::Guard>& guard) {
    if constexpr (Kind::kOpens) {
      return kind_.take(reply, item, *guard);
    } else {
      return kind_.take(reply, item, stream);
    }
  }

  /// Gives each item of the batch its result. `doubtful`: the results may be out of date, so items that
  /// succeeded are done once more by the ordinary operations, which check each file.
  void settle(const std::vector<Item*>& batch, CompoundReply& reply, bool stream,
              const std::optional<Openings::Guard>& guard, bool doubtful) {
    const Spot* at = nullptr;
    const Spot* lost = nullptr;  // a directory that could not be reached
    std::size_t next = 0, placed = 0;
    for (; next < batch.size(); ++next) {
      Item& item = *batch[next];
      const bool is_there = take_way(reply, *item.file.directory, at);
      Fate fate = is_there ? take(reply, item, stream, guard) : Fate::alone;
      if (!is_there && reply.failed_status() == NFS4_OK) fate = Fate::misplaced;
      if (!is_there) lost = item.file.directory;
      if (fate == Fate::done) {
        if (*item.result && Kind::placed(item) != 0) ++placed;
        if (*item.result && doubtful) {
          item.result.reset();
          alone_.push_back(&item);
        }
        if (reply.failed_status() == NFS4_OK) continue;
        // The item's own failure has ended the COMPOUND, or its GETATTR has.
        ++next;
        break;
      }
      if (fate == Fate::misplaced && !stream && batch.size() > 1) {
        chunks_ = Chunks::bad;
        break;
      }
      if (fate == Fate::alone && next != 0 && is_of_company(reply)) break;
      alone_.push_back(&item);
      ++next;
      break;
    }
    ++tried_;
    if (!stream && placed > 1 && chunks_ == Chunks::untried) chunks_ = Chunks::good;
    put_back(batch, next, lost);
  }

  /// Puts the items from `next` on in front of all others. Items in the directory `lost` are left to the
  /// ordinary operations.
  void put_back(const std::vector<Item*>& batch, std::size_t next, const Spot* lost) {
    for (std::size_t i = batch.size(); i > next; --i) {
      Item* const item = batch[i - 1];
      if (lost != nullptr && item->file.directory == lost) {
        alone_.push_back(item);
      } else {
        todo_.push_front(item);
      }
    }
  }

  void fail(const std::vector<Item*>& batch, const Error& why, bool stream) {
    const bool is_refusal = why.kind() == ErrorKind::protocol || why.kind() == ErrorKind::server ||
                            why.kind() == ErrorKind::local;
    if (is_refusal && batch.size() > 1 && !stream) {
      chunks_ = Chunks::bad;
      return put_back(batch, 0, nullptr);
    }
    if (is_refusal) {
      alone_.insert(alone_.end(), batch.begin(), batch.end());
      return;
    }
    // The server does not answer, or the client is closing: no other COMPOUND would succeed.
    for (Item* item : batch) give(*item, why);
    for (Item* item : todo_) give(*item, why);
    todo_.clear();
  }
  static void give(Item& item, const Error& why) {
    item.result.emplace(why.about(Kind::kWhat, item.file.text()));
  }

  static constexpr unsigned kTries = 4;

  ClientLease& session_;
  OpenFiles& files_;
  const Kind kind_;
  Chunks& chunks_;
  const Caller caller_;
  std::deque<Item*> todo_, alone_;
  unsigned tried_ = 0;
  std::size_t running_ = 0;
  async::Event ended_;
  async::Tasks tasks_;  // the last member, because tasks use the others
};

}  // namespace

async::Task<std::vector<ManyRead*>> SmallFiles::read(Caller caller, std::vector<ManyRead*> items) {
  Batches<Reading> batches(session_, files_, Reading(session_), chunks_, std::move(caller), items);
  co_return co_await batches.run();
}

async::Task<std::vector<ManyWritten*>> SmallFiles::write(Caller caller, std::vector<ManyWritten*> items) {
  Chunks none = Chunks::bad;
  Batches<Writing> batches(session_, files_, Writing(session_, files_), none, std::move(caller), items);
  co_return co_await batches.run();
}

async::Task<std::vector<ManyTold*>> SmallFiles::tell(Caller caller, std::vector<ManyTold*> items) {
  Chunks none = Chunks::good;
  Batches<Telling> batches(session_, files_, Telling(session_), none, std::move(caller), items);
  co_return co_await batches.run();
}

}  // namespace nfsrdma::nfs4
