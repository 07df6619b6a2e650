// The operations of NFSv4.2 on open files (RFC 7862 15): SEEK, READ_PLUS, ALLOCATE, DEALLOCATE, COPY, CLONE.
#include <algorithm>

#include "async/backoff.h"
#include "async/buggify.h"
#include "nfs4/files/file_data.h"
#include "nfs4/files/read_plus.h"
#include "nfs4/state/loss_limit.h"
#include "wire/nfs4/status.h"
#include "writing/question.h"

namespace nfsrdma::nfs4 {
namespace {

using namespace std::chrono_literals;

/// The most bytes of one COPY. It occupies the server until it is done, which must be
/// before the call times out.
constexpr std::uint64_t kMostCopied = 64U << 20;
constexpr int kMostCopies = 3;
/// First and longest interval at which the server is asked how far a copy in the background is: without a
/// backchannel, and with one, over which the server promised to call.
constexpr async::Clock::duration kFirstQuestion = 50ms, kSlowestQuestion = 1s;
constexpr async::Clock::duration kFirstQuestionWithCallback = 1s, kSlowestQuestionWithCallback = 15s;
/// How long to wait for a CB_OFFLOAD that other messages of the server may have overtaken.
constexpr async::Clock::duration kOffloadOvertaken = 200ms;
/// No file system has smaller blocks, and a range that does not begin at a block cannot be shared.
constexpr std::uint64_t kLeastBlock = 512;

}  // namespace

/// Returns an Error if the session's minor version does not have the operation.
std::optional<Error> FileData::missing(const char* what) const {
  if (session_.facts().minor_version >= 2) return std::nullopt;
  return status_error(NFS4ERR_NOTSUPP, what, path());
}

async::Task<Result<std::optional<std::uint64_t>>> FileData::seek(std::uint64_t offset, data_content4 what) {
  if (auto error = missing("SEEK")) co_return *std::move(error);
  for (writing::Question question(record());;) {
    if (!question.begin()) {
      if (auto done = co_await question.settle(); !done) co_return done.error();
    }
    std::optional<std::uint64_t> found;
    auto done = co_await state_.call(
        "SEEK", [&](Compound& compound) { compound.add<op::SEEK>({state_.stateid(), offset, what}); },
        [&](CompoundReply& reply) {
          SEEK4res res;
          if (!reply.take<op::SEEK>(res)) {
            // RFC 7862 15.11.3: there is nothing of the kind behind the offset
            return reply.failed_status() == NFS4ERR_NXIO;
          }
          const auto& ok = *res.get<NFS4_OK>();
          if (!ok.sr_eof) found = ok.sr_offset;
          return true;
        });
    if (!done) co_return done.error();
    // If there is no data at or behind the offset, the file ends there as far as its data is concerned.
    const bool ends = !found && what == NFS4_CONTENT_DATA;
    if (ends ? question.again(offset) : question.again()) continue;
    co_return found;
  }
}

// ---- READ_PLUS (RFC 7862 15.10, RFC 8267 4.1.1) ----

/// Reads a piece by one READ_PLUS, whose answer has two elements at most.
async::Task<Status> FileData::read_plus(std::span<std::byte> data, std::uint64_t offset, ReadPiece& out) {
  HoleReads& holes = session_.hole_reads();
  const HoleReads::Way way = holes.way();
  std::optional<Filled> filled;
  bool eof = false, doubled = false;
  RangeStateid stateid(state_.state(), {offset, data.size()}, RangeStateid::Use::read);
  auto done = co_await state_.call(
      "READ_PLUS",
      [&](Compound& compound) {
        compound.read_plus(stateid.now(), offset, data, way == HoleReads::Way::stream);
      },
      [&](CompoundReply& reply) {
        READ_PLUS4res res;
        if (!reply.take<op::READ_PLUS>(res)) return false;
        const read_plus_res4& ok = *res.get<NFS4_OK>();
        const std::size_t placed = first_data_of(ok);
        doubled = way == HoleReads::Way::chunk && placed != 0 && reply.pass_over(placed);
        if (!reply.finish()) return false;
        eof = ok.rpr_eof;
        filled = put_together(ok, data, offset);
        return true;
      },
      nullptr, &stateid);
  if (done && (!filled || (filled->count == 0 && !eof))) {
    done = Error(ErrorKind::protocol, EPROTO, "READ_PLUS", path(),
                 "the server's data and holes are not contiguous; please report this");
  }
  if (!done && holes.is_to_be_read_otherwise(done.error(), way)) {
    out.otherwise = true;
    co_return Status();
  }
  if (!done) co_return done;
  out.count = filled->count;
  out.eof = eof;
  out.holes = {filled->holes != 0, filled->hole_ends};
  const bool has_zeros = holes.is_open() && filled->holes == 0 && has_long_zeros(data.first(filled->count));
  holes.answered(*hole_hint(), {filled->holes, has_zeros, doubled});
  co_return Status();
}

// ---- space ----

async::Task<Status> FileData::allocate(std::uint64_t offset, std::uint64_t length) {
  if (auto error = missing("ALLOCATE")) co_return *std::move(error);
  RangeStateid stateid(state_.state(), {offset, length}, RangeStateid::Use::write);
  co_return co_await state_.call(
      "ALLOCATE", [&](Compound& compound) { compound.add<op::ALLOCATE>({stateid.now(), offset, length}); },
      [](CompoundReply& reply) { return reply.take<op::ALLOCATE>(); }, nullptr, &stateid);
}

async::Task<Status> FileData::deallocate(std::uint64_t offset, std::uint64_t length) {
  if (auto error = missing("DEALLOCATE")) co_return *std::move(error);
  const auto turn = co_await writing::take_turn(record(), deadline(), "DEALLOCATE");
  if (!turn) co_return turn.error();
  RangeStateid stateid(state_.state(), {offset, length}, RangeStateid::Use::write);
  auto done = co_await state_.call(
      "DEALLOCATE",
      [&](Compound& compound) { compound.add<op::DEALLOCATE>({stateid.now(), offset, length}); },
      [](CompoundReply& reply) { return reply.take<op::DEALLOCATE>(); }, nullptr, &stateid);
  // Data that was written to the range before must not be written again.
  if (done) record()->replaced(offset, length);
  co_return done;
}

// ---- from file to file ----

/// Makes a call of one operation, with the source in the saved and the target in the current filehandle.
/// `make` uses `stateid` for the target and the open's stateid for the source, because the server does not
/// say which of two stateids it has refused.
template <class Op, class Make>
async::Task<Status> FileData::between(FileState& from, FileState& to, RangeStateid& stateid, const char* what,
                                      Make make, typename Op::Res& res) {
  ClientLease& session = to.session();
  const async::TimePoint deadline = session.default_deadline();
  bool completed_from = false, completed_to = false;  // see FileState::regain_access()
  for (LossLimit losses(session.loop(), deadline);;) {
    if (auto claimed = co_await to.locks_claimed(what, deadline); !claimed) co_return claimed;
    for (const FileState* file : {&from, &to}) {
      if (auto error = file->useless_for(what)) co_return *std::move(error);
    }
    const stateid4 used_from = from.state().stateid;
    const stateid4 used_to = to.state().stateid;
    Compound compound = session.begin_on(from.handle(), what, to.state().caller);
    compound.add<op::SAVEFH>();
    compound.add<op::PUTFH>({to.handle()});
    compound.add<Op>(make());
    compound.stateid_from(stateid);
    auto reply = co_await session.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    if (reply->template take<op::PUTFH>() && reply->template take<op::SAVEFH>() &&
        reply->template take<op::PUTFH>() && reply->template take<Op>(res)) {
      co_return Status();
    }
    // The server does not say which of the two files it has refused.
    const nfsstat4 status = reply->failed_status();
    if (status == NFS4ERR_OPENMODE) {
      auto source = co_await from.regain_access(used_from, completed_from, deadline);
      if (!source) co_return source.error();
      auto target = co_await to.regain_access(used_to, completed_to, deadline);
      if (!target) co_return target.error();
      if (*source || *target) continue;
    }
    const bool again = co_await losses.again(CallLayer::is_lost_state(status));
    const Error error = session.error_of(*reply, what, to.path());
    if (!again) co_return error;
    if (stateid.is_to_be_tried_again(status)) continue;
    auto first = co_await from.reopen(used_from, status, deadline);
    if (!first) co_return first;
    if (&from != &to) {
      auto second = co_await to.reopen(used_to, status, deadline);
      if (!second) co_return second;
    }
    // If the source was opened again, the server may have refused the source's stateid alone.
    if (from.state().stateid.other == used_from.other) to.lose_lock_of(stateid, error);
  }
}

// ---- a copy that the server makes beside ----

struct FileData::BackgroundCopy {
  bool over = false, gone = false;  // gone: the outcome cannot be learnt any more
  bool answers = true;              // the server has OFFLOAD_STATUS
  std::uint64_t copied = 0;
  write_response4 written;  // valid if `over`
};

/// Waits for the end of the copy: by CB_OFFLOAD or, because that may be lost, by OFFLOAD_STATUS. A copy that
/// makes no progress is cancelled, so that it cannot later overwrite data that the caller has written itself.
async::Task<Status> FileData::copied_in_background(BackgroundCopies::One& copy, stateid4 stateid,
                                                   BackgroundCopy& out) {
  copy.is(stateid);
  // The file changes until the copy is over, which is long after COPY was answered. Attributes that are
  // fetched meanwhile must not be trusted after that.
  const engine::Modifications::Scope changing(session_.modifications(),
                                              {.any = false, .handle = engine::hash_of(state_.handle())});
  async::Loop& loop = session_.loop();
  // OFFLOAD_STATUS returns no verifier. If a COMMIT after the copy returns the verifier that this COMMIT
  // returns, the server has not restarted in between.
  auto verifier = co_await commit_file(nullptr);
  Status done = verifier ? Status() : verifier.error();
  if (verifier) out.written.wr_writeverf = *verifier;
  const bool told = session_.facts().backchannel;
  async::Backoff pause(told ? kFirstQuestionWithCallback : kFirstQuestion,
                       told ? kSlowestQuestionWithCallback : kSlowestQuestion);
  async::TimePoint last = loop.now() + session_.options().timeout;
  while (done && !out.over && !out.gone && loop.now() < last) {
    const async::TimePoint next = out.answers ? std::min(loop.now() + pause.take(), last) : last;
    if (!copy.outcome()) (void)co_await copy.until(next);
    const std::uint64_t before = out.copied;
    if (!copy.outcome() && out.answers) done = co_await ask_of_copy(stateid, out);
    if (out.gone && !copy.outcome()) (void)co_await copy.until(loop.now() + kOffloadOvertaken);
    if (const auto& outcome = copy.outcome()) {
      if (outcome->status != NFS4_OK) co_return status_error(outcome->status, "COPY", path());
      out.written = outcome->written;
      out.over = true;
    }
    if (out.copied > before) last = loop.now() + session_.options().timeout;
  }
  if (out.over || (done && out.gone)) co_return Status();
  co_await cancel_copy(stateid);
  if (!done) co_return done;
  co_return status_error(NFS4ERR_OFFLOAD_NO_REQS, "COPY", path());
}

async::Task<Status> FileData::ask_of_copy(stateid4 stateid, BackgroundCopy& out) {
  Compound compound = session_.begin_on(state_.handle(), "OFFLOAD_STATUS", state_.state().caller);
  compound.add<op::OFFLOAD_STATUS>({stateid});
  auto reply = co_await session_.call(std::move(compound));
  if (!reply) co_return reply.error();
  OFFLOAD_STATUS4res res;
  if (!reply->take<op::PUTFH>() || !reply->take<op::OFFLOAD_STATUS>(res)) {
    const Error error = session_.error_of(*reply, "OFFLOAD_STATUS", path());
    out.gone = CallLayer::is_lost_state(reply->failed_status());
    out.answers = !is_unsupported(error);
    co_return Status();
  }
  const OFFLOAD_STATUS4resok& ok = *res.get<NFS4_OK>();
  out.copied = ok.osr_count;
  if (ok.osr_complete.value.empty()) co_return Status();
  if (const nfsstat4 status = ok.osr_complete.value.front(); status != NFS4_OK)
    co_return status_error(status, "COPY", path());
  out.written.wr_count = ok.osr_count;
  out.written.wr_committed = UNSTABLE4;
  out.over = true;
  co_return Status();
}

/// Asks the server to cancel the copy. Its answer does not matter, because nothing more can be done.
async::Task<void> FileData::cancel_copy(stateid4 stateid) {
  Compound compound = session_.begin_on(state_.handle(), "OFFLOAD_CANCEL", state_.state().caller);
  compound.add<op::OFFLOAD_CANCEL>({stateid});
  auto cancelled = co_await session_.call(std::move(compound));
}

async::Task<Result<std::uint64_t>> FileData::copy(FileData& from, std::uint64_t from_offset, FileData& to,
                                                  std::uint64_t to_offset, std::uint64_t count) {
  if (auto error = to.missing("COPY")) co_return *std::move(error);
  if (count == 0) co_return std::uint64_t{0};  // to the server it would mean all of the rest
  // The server copies what it has, and a restart may have cost it data that was not stable.
  if (auto safe = co_await writing::make_stable(from.record()); !safe) co_return safe.error();
  count = std::min(count, async::buggify(to.session_.loop()) ? kLeastBlock : kMostCopied);
  COPY4res res;
  bool synchronous = true;
  RangeStateid target(to.state_.state(), {to_offset, count}, RangeStateid::Use::write);
  BackgroundCopies::One background_copy(to.session_.copies(), to.session_.loop());
  const auto arguments = [&] {
    COPY4args args;
    args.ca_src_stateid = from.state_.stateid();
    args.ca_dst_stateid = target.now();
    args.ca_src_offset = from_offset;
    args.ca_dst_offset = to_offset;
    args.ca_count = count;
    args.ca_consecutive = true;
    args.ca_synchronous = synchronous;
    return args;
  };
  for (int copies = 0; copies < kMostCopies;) {
    background_copy.is_unknown();
    // The turn is held during a copy in the background, too: a restart, after which data is written
    // again, ends the copy.
    const auto turn = co_await writing::take_turn(to.record(), to.deadline(), "COPY");
    if (!turn) co_return turn.error();
    auto done = co_await between<op::COPY>(from.state_, to.state_, target, "COPY", arguments, res);
    if (!done) {
      // RFC 7862 15.2.3: the answer says what kind of copy the server can make.
      const auto* able = res.get<NFS4ERR_OFFLOAD_NO_REQS>();
      const bool other_way = able != nullptr && synchronous && !able->cr_synchronous && able->cr_consecutive;
      if (!other_way) co_return done.error();
      synchronous = false;
      continue;
    }
    ++copies;
    write_response4 written = res.get<NFS4_OK>()->cr_response;
    if (!written.wr_callback_id.value.empty()) {
      BackgroundCopy progress;
      auto ended =
          co_await to.copied_in_background(background_copy, written.wr_callback_id.value.front(), progress);
      if (!ended) co_return ended.error();
      if (!progress.over) continue;
      written = progress.written;
    }
    if (written.wr_count > count) {
      co_return Error(ErrorKind::protocol, EIO, "COPY", to.path(),
                      "the server says it copied more than it was asked to; please report this");
    }
    if (written.wr_count == 0) {
      // Linux's server copies nothing, and reports success, while it is being stopped. To a program that would be the end of
      // the source.
      auto source = co_await from.attributes();
      if (!source) co_return source.error();
      if (from_offset >= source->size) co_return std::uint64_t{0};
      continue;
    }
    to.record()->replaced(to_offset, written.wr_count);
    if (written.wr_committed != UNSTABLE4) co_return written.wr_count;
    auto verifier = co_await to.commit_file(nullptr);
    if (!verifier) co_return verifier.error();
    if (*verifier == written.wr_writeverf) co_return written.wr_count;
    // The server has restarted between the two, or a write of another client has failed (Linux then changes
    // its verifier, too), so what it copied may be gone.
  }
  // The caller copies by READ and WRITE then; its own writes are repeated as often as it takes.
  co_return status_error(NFS4ERR_OFFLOAD_NO_REQS, "COPY", to.path());
}

async::Task<Status> FileData::clone(FileData& from, std::uint64_t from_offset, FileData& to,
                                    std::uint64_t to_offset, std::uint64_t count) {
  if (auto error = to.missing("CLONE")) co_return *std::move(error);
  if (auto safe = co_await writing::make_stable(from.record()); !safe) co_return safe;
  const auto turn = co_await writing::take_turn(to.record(), to.deadline(), "CLONE");
  if (!turn) co_return turn.error();
  CLONE4res res;
  RangeStateid target(to.state_.state(), {to_offset, count == 0 ? LockRange::kToTheEnd : count},
                      RangeStateid::Use::write);
  auto done = co_await between<op::CLONE>(
      from.state_, to.state_, target, "CLONE",
      [&] { return CLONE4args{from.state_.stateid(), target.now(), from_offset, to_offset, count}; }, res);
  if (done) to.record()->replaced(to_offset, count == 0 ? ~std::uint64_t{0} - to_offset : count);
  co_return done;
}

async::Task<Result<std::uint64_t>> FileData::clone_or_copy(FileData& from, std::uint64_t from_offset,
                                                           FileData& to, std::uint64_t to_offset,
                                                           std::uint64_t count) {
  if (to.clones_ && count != 0 && (from_offset | to_offset) % kLeastBlock == 0) {
    auto cloned = co_await clone(from, from_offset, to, to_offset, count);
    if (cloned) co_return count;
    switch (cloned.error().status()) {
      // The server cannot clone these blocks, or cannot clone between these two files.
      case NFS4ERR_INVAL:
      case NFS4ERR_XDEV:
      case NFS4ERR_WRONG_TYPE:
        break;
      default:
        if (!is_unsupported(cloned.error())) co_return cloned.error();
        to.clones_ = false;
    }
  }
  co_return co_await copy(from, from_offset, to, to_offset, count);
}

}  // namespace nfsrdma::nfs4
