#include "nfs4/files/file_data.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nfs4/files/object_operations.h"
#include "nfs4/files/owners.h"
#include "writing/question.h"

namespace nfsrdma::nfs4 {
namespace {

// Adds a GETATTR behind an operation that changes the file, if the caller wants the attributes.
void add_after(Compound& compound, const writing::After* after) {
  if (after != nullptr) add_getattr(compound);
}
bool take_after(CompoundReply& reply, writing::After* after) {
  return after == nullptr || take_getattr(reply, *after);
}

/// While it exists, each WRITE of data of this origin is followed by a SETATTR of the times.
class TimesOf {
 public:
  TimesOf(DataOrigin& origin, std::shared_ptr<TimesBehind> times) : origin_(origin) {
    origin_.times = std::move(times);
  }
  ~TimesOf() { origin_.times = nullptr; }
  TimesOf(const TimesOf&) = delete;
  TimesOf& operator=(const TimesOf&) = delete;

 private:
  DataOrigin& origin_;
};

}  // namespace

FileData::FileData(FileState& state)
    : state_(state), session_(state.session()), unstable_(session_.loop(), *this) {}

/// `holes` may be null.
async::Task<Result<std::size_t>> FileData::read_all(std::span<std::byte> data, std::uint64_t offset,
                                                    std::unique_ptr<SentRequest> sent_request,
                                                    engine::ReportedHoles* holes) {
  std::size_t total = 0;
  // The last READ_PLUS returned no byte but an end of the file, which READ has to confirm.
  bool is_end_to_confirm = false;
  writing::Question question(record());
  while (total < data.size()) {
    if (sent_request) {
      question.has_begun(sent_request->as_of);
    } else if (!question.begin()) {
      if (auto done = co_await question.settle(); !done) co_return done.error();
    }
    // A request that has been sent already asks for all of the data.
    const std::size_t most = sent_request ? data.size() : session_.most_read();
    const auto rest = data.subspan(total, std::min(data.size() - total, most));
    ReadPiece piece;
    const bool by_read_plus = !sent_request && !is_end_to_confirm && asks_for_holes();
    if (!by_read_plus && !sent_request) passed_over_holes();
    auto task = by_read_plus ? read_plus(rest, offset + total, piece)
                             : read_piece(rest, offset + total, piece, std::exchange(sent_request, nullptr));
    const Status done = co_await std::move(task);
    // The session that the piece was cut for has been replaced by one with smaller limits.
    if (!done && rest.size() > session_.most_read()) continue;
    if (!done) co_return done.error();
    if (piece.otherwise) continue;
    // A restart that shows only now may have cost the server data, so the bytes may be older
    // than what was written.
    if (piece.eof ? question.again(offset + total + piece.count) : question.again()) continue;
    if (std::exchange(is_end_to_confirm, false) && piece.count != 0) session_.hole_reads().gave_a_wrong_end();
    is_end_to_confirm = by_read_plus && piece.eof && piece.count == 0 && !session_.hole_reads().knows_ends();
    if (is_end_to_confirm) continue;
    total += piece.count;
    if (holes != nullptr) *holes = {holes->any || piece.holes.any, piece.holes.hole_ends};
    if (piece.eof) break;
    if (piece.count == 0) {
      co_return Error(ErrorKind::protocol, EIO, "READ", state_.path(),
                      "the server returned neither data nor the end of the file; please report this");
    }
  }
  co_return total;
}

/// Reads a piece by one READ.
async::Task<Status> FileData::read_piece(std::span<std::byte> data, std::uint64_t offset, ReadPiece& out,
                                         std::unique_ptr<SentRequest> sent_request) {
  RangeStateid stateid(state_.state(), {offset, data.size()}, RangeStateid::Use::read);
  co_return co_await state_.call(
      "READ", [&](Compound& compound) { compound.read(stateid.now(), offset, data); },
      [&out](CompoundReply& reply) {
        READ4res res;
        if (!reply.take<op::READ>(res) || !reply.finish()) return false;
        out.count = res.get<NFS4_OK>()->data.data.size();
        out.eof = res.get<NFS4_OK>()->eof;
        return true;
      },
      std::move(sent_request), &stateid);
}

/// The piece's origin is a DataOrigin, or null.
async::Task<Result<writing::Writer::Written>> FileData::write_piece(const Piece& piece, writing::How how,
                                                                    After* after) {
  Written out;
  const auto* const from = static_cast<const DataOrigin*>(piece.origin.get());
  const std::shared_ptr<TimesBehind> times = from != nullptr ? from->times : nullptr;
  RangeStateid stateid(state_.state(), {piece.offset, piece.data.size()}, RangeStateid::Use::write, from);
  auto done = co_await state_.call(
      "WRITE",
      [&](Compound& compound) {
        compound.add<op::WRITE>(
            {stateid.now(), piece.offset, static_cast<stable_how4>(how), xdr::DdpOpaque<>{piece.data}});
        compound.data_stays_in(piece.memory);
        if (times) {
          compound.rest_is_optional();
          compound.add<op::SETATTR>({stateid4(), times->values});
        }
        add_after(compound, after);
      },
      [&](CompoundReply& reply) {
        WRITE4res res;
        if (!reply.take<op::WRITE>(res)) return false;
        const WRITE4resok& ok = *res.get<NFS4_OK>();
        out.count = ok.count;
        out.stable = ok.committed != UNSTABLE4;
        out.verifier = ok.writeverf;
        // The data is written, whatever becomes of the times.
        if (times) times->are_set = reply.take<op::SETATTR>();
        if (times && !times->are_set) return true;
        return take_after(reply, after) && reply.finish();
      },
      nullptr, &stateid);
  if (!done && stateid.is_discarded() && !std::exchange(from->permit->reported, true)) {
    CallLayer& calls = session_;
    calls.notice(calls.server() + ": " + done.error().text());
  }
  if (!done) co_return done.error();
  co_return out;
}

async::Task<Result<engine::WrittenWithTimes>> FileData::write_and_set_times(
    std::span<const std::byte> data, async::Memory memory, std::uint64_t offset, SetAttributes changes,
    After* after, std::shared_ptr<DataOrigin> origin) {
  const auto times = std::make_shared<TimesBehind>(TimesBehind{encode_changes_but_size(changes, {})});
  const TimesOf guard(*origin, times);
  auto count = co_await write(data, offset, FILE_SYNC4, after, std::move(memory), origin);
  if (!count) co_return count.error();
  co_return engine::WrittenWithTimes{*count, times->are_set};
}

async::Task<Result<verifier4>> FileData::commit_file(After* after) {
  verifier4 verifier{};
  auto done = co_await state_.call(
      "COMMIT",
      [after](Compound& compound) {
        compound.add<op::COMMIT>({0, 0});
        add_after(compound, after);
      },
      [&verifier, after](CompoundReply& reply) {
        COMMIT4res res;
        if (!reply.take<op::COMMIT>(res)) return false;
        verifier = res.get<NFS4_OK>()->writeverf;
        return take_after(reply, after);
      });
  if (!done) co_return done.error();
  co_return verifier;
}

async::Task<Result<Attributes>> FileData::attributes() {
  if (state_.relies_on_delegation()) {
    const auto& known = state_.state().delegation()->known;
    if (known && known->modifications == session_.modifications().of(state_.handle()))
      co_return known->attributes;
  }
  // Attributes known under a delegation that cannot be relied upon now must not count when it can be again.
  if (Delegation* const one = state_.state().delegation()) one->known.reset();
  for (writing::Question question(record());;) {
    if (!question.begin()) {
      if (auto done = co_await question.settle(); !done) co_return done.error();
    }
    GETATTR4res res;
    const std::uint64_t before = session_.modifications().of(state_.handle());
    auto done = co_await state_.call(
        "GETATTR", [](Compound& compound) { add_getattr(compound); },
        [&](CompoundReply& reply) { return reply.take<op::GETATTR>(res); });
    if (!done) co_return done.error();
    auto attributes = to_public(res.get<NFS4_OK>()->obj_attributes);
    if (!attributes) co_return undecodable_attributes(state_.path());
    if (question.again(attributes->size)) continue;
    if (HoleHint* const hint = hole_hint()) hint->know(*attributes);
    attributes->size = question.corrected(attributes->size);
    know(*attributes, before);
    co_return std::move(*attributes);
  }
}

void FileData::know(const Attributes& attributes, std::uint64_t as_of) {
  if (in_doubt()) return;
  if (!state_.state().delegated() || as_of != session_.modifications().of(state_.handle())) return;
  state_.state().delegation()->known = Delegation::Known{as_of, attributes};
}

async::Task<Status> FileData::set_attributes(SetAttributes changes, After* after) {
  auto of = changes.size ? record() : nullptr;
  const auto turn = co_await writing::take_turn(std::move(of), deadline(), "SETATTR");
  if (!turn) co_return turn.error();
  co_return co_await set_attributes(changes, *turn, after);
}

async::Task<Status> FileData::set_attributes(SetAttributes changes, const writing::Turn& turn, After* after) {
  ids::OwnerNames names;
  // A SETATTR of the size carries a lock's stateid, as a WRITE does (state/range_stateid.h): if the server
  // executes it a second time, it cuts off what was written behind that size since.
  RangeStateid stateid(state_.state(), {changes.size.value_or(0)}, RangeStateid::Use::write);
  for (;;) {
    // `values` is a variable because g++ 12 destroys what a lambda captures by value twice.
    const fattr4 values = encode_changes(changes, turn, names);
    auto done = co_await state_.call(
        "SETATTR",
        [&](Compound& compound) {
          compound.add<op::SETATTR>({stateid.now(), values});
          add_after(compound, after);
        },
        [after](CompoundReply& reply) { return reply.take<op::SETATTR>() && take_after(reply, after); },
        nullptr, &stateid);
    if (done && changes.size) record()->resized(*changes.size);
    if (done) co_return done;
    const bool again = co_await wants_names(session_, done.error(), changes, names);
    if (!again) co_return done;
  }
}

}  // namespace nfsrdma::nfs4
