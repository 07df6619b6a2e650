#include "nfs4/session/fast_reads.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "async/buggify.h"
#include "nfs4/state/file_state.h"

namespace nfsrdma::nfs4 {
namespace {

constexpr const char* kWhat = "READ";
constexpr std::uint32_t kOperationCount = 3;  // SEQUENCE, PUTFH, READ

// READ4args (RFC 8881 18.22.1)
constexpr std::size_t kStateidSize = 4 + sizeof(stateid4::other), kOffsetSize = 8, kCountSize = 4;

std::byte* put(std::byte* at, std::uint32_t word) {
  xdr::store_u32(at, word);
  return at + 4;
}

void put_read(std::byte* at, const stateid4& stateid, std::uint64_t offset, std::size_t count) {
  at = put_stateid(at, stateid);
  xdr::store_u64(at, offset);
  put(at + kOffsetSize, static_cast<std::uint32_t>(count));
}

/// Positions, in words, in a Reply in which nothing is unusual, up to READ's eof: the words with an expected
/// value, and the words to be read. RFC 5531 9, RFC 8881 16.2.4, 18.46.2, 18.22.2.
enum Word : std::uint8_t {
  kXid,
  kReply,
  kAccepted,
  kVerifier,
  kVerifierLength,
  kSuccess,
  kStatus,
  kTagLength,
  kResults,
  kSequence,
  kSequenceStatus,
  kSessionId,
  kSequenceId = kSessionId + 4,
  kSlot,
  kHighestSlot,
  kTargetSlot,
  kFlags,
  kPutfh,
  kPutfhStatus,
  kRead,
  kReadStatus,
  kEof,
  kWords
};
struct Expected {
  Word word;
  std::uint32_t value;
};
constexpr std::uint32_t on_the_wire(std::uint32_t value) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
}
constexpr std::array kExpected{Expected{kReply, 1},
                               Expected{kAccepted, 0},
                               Expected{kVerifierLength, 0},
                               Expected{kSuccess, 0},
                               Expected{kStatus, NFS4_OK},
                               Expected{kTagLength, 0},
                               Expected{kResults, kOperationCount},
                               Expected{kSequence, OP_SEQUENCE},
                               Expected{kSequenceStatus, NFS4_OK},
                               Expected{kPutfh, OP_PUTFH},
                               Expected{kPutfhStatus, NFS4_OK},
                               Expected{kRead, OP_READ},
                               Expected{kReadStatus, NFS4_OK}};
/// Whether the words with an expected value have it. Unrolled: the words are compared as they are on the
/// wire.
bool is_as_expected(const std::byte* message) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::uint32_t differ = 0;
    const auto raw = [message](std::size_t at) {
      std::uint32_t word = 0;
      std::memcpy(&word, message + at * 4, sizeof word);
      return word;
    };
    ((differ |= raw(kExpected[I].word) ^ on_the_wire(kExpected[I].value)), ...);
    return differ == 0;
  }(std::make_index_sequence<kExpected.size()>());
}

async::Task<Result<std::size_t>> fails(Error why) {
  co_return why;
}

}  // namespace

FastReads::~FastReads() {
  for (const auto& one : reads_.all()) {
    if (one->read == nullptr) continue;
    one->read->end();
    drop(*one);
  }
}

/// Encodes the Call by the ordinary path, once for each file. Returns whether the file's READs may take the
/// fast path.
bool FastReads::prepare(ClientLease& session, FastReadFile& file) {
  ReadTemplate& made = file.made;
  if (made.state != ReadTemplate::State::not_made) return made.state == ReadTemplate::State::good;
  FileState& state = file.file_state();
  Compound compound = session.begin_on(state.handle(), kWhat, state.state().caller);
  compound.read(state.stateid(), 0, {});
  const bool good = compound.protection() == nullptr && compound.count() == kOperationCount;
  made.state = good ? ReadTemplate::State::good : ReadTemplate::State::useless;
  made.sequence_at = compound.sequence_at();
  made.reply_inline = compound.reply_size().max_inline;
  made.reply_reduced = compound.reply_size().max_reduced;
  const xdr::ConstBytes call = compound.message().stream.bytes();
  made.call.assign(call.begin(), call.end());
  made.read_at = call.size() - (kStateidSize + kOffsetSize + kCountSize);
  return good;
}

rpc::Channel* FastReads::way_for(FastReadFile& file, const engine::FastRead& read) {
  ClientLease& session = parts_.session;
  FileState& state = file.file_state();
  if (!session.takes_calls() || !state.is_useful() || state.state().claiming_locks) return nullptr;
  if (read.data.empty() || read.data.size() > session.most_read()) return nullptr;
  rpc::Channel& channel = parts_.lanes.route(read.data.size());
  return channel.up() ? &channel : nullptr;
}

bool FastReads::start(FastReadFile& file, engine::FastRead& read) {
  ClientLease& session = parts_.session;
  rpc::Channel* const channel = way_for(file, read);
  if (channel == nullptr || async::buggify(session.loop()) || !prepare(session, file)) return false;
  One& one = reads_.take(*this);
  one.read = &read;
  one.file = &file;
  one.in_use = file.file_state().use();
  one.deadline = session.default_deadline();
  read.begin(one);
  if (auto use = parts_.slots.take_now())
    send(one, *channel, std::move(*use));
  else
    parts_.slots.join(one, one.deadline);
  return true;
}

void FastReads::take_slot(One& one, std::optional<SlotTable::Use> use) {
  engine::FastRead& read = *one.read;
  if (!use) {
    const ClientLease& session = parts_.session;
    return leave_to(one, fails(no_slot_in_time(kWhat, session.server())));
  }
  rpc::Channel* const channel = way_for(*one.file, read);
  if (channel != nullptr && !one.file->is_outdated(one.file->as_of()))
    return send(one, *channel, std::move(*use));
  use->unsent();
  leave_to(one, one.file->read_on(read.data, read.offset, nullptr));
}

void FastReads::send(One& one, rpc::Channel& channel, SlotTable::Use use) {
  const SessionFacts& facts = parts_.session.facts();
  const engine::FastRead& read = *one.read;
  const FileState& state = one.file->file_state();
  one.channel = &channel;
  one.sent = parts_.lease.at_turn();
  one.epoch = facts.epoch;
  one.as_of = one.file->as_of();
  one.sequence = {facts.session_id, use.sequence(), use.slot(), parts_.slots.table().highest_busy(), false};
  parts_.counters.highest_slot = std::max(parts_.counters.highest_slot, use.slot());
  one.use.emplace(std::move(use));

  const ReadTemplate& made = one.file->made;
  rpcrdma::Call call;
  call.message = channel.take_message();
  std::byte* const stream = call.message.stream.extend(made.call.size());
  std::memcpy(stream, made.call.data(), made.call.size());
  put_sequence(stream + made.sequence_at, one.sequence);
  RangeStateid stateid(state.state(), {read.offset, read.data.size()}, RangeStateid::Use::read);
  put_read(stream + made.read_at, stateid.now(), read.offset, read.data.size());
  call.results.push_back({read.data, false});
  // RFC 8267 4.2.2: ca_maxresponsesize bounds every Reply.
  call.reply_max_inline =
      std::min<std::uint64_t>(made.reply_inline + xdr::padded(read.data.size()), facts.max_response);
  call.reply_max_reduced = std::min<std::uint64_t>(made.reply_reduced, facts.max_response);
  call.deadline = one.deadline;
  channel.begin(std::move(call), one);
}

void FastReads::give_back(One& one) {
  one.read = nullptr;
  one.channel = nullptr;
  one.use.reset();  // if the request has not ended, its slot is retired
  one.in_use = {};
  reads_.give_back(one);
}

void FastReads::drop(One& one) {
  if (one.channel != nullptr)
    one.channel->leave(one);
  else
    one.stop_waiting();
  give_back(one);
}

/// The READ leaves the fast path: the caller is to run `rest`.
void FastReads::leave_to(One& one, async::Task<Result<std::size_t>> rest) {
  engine::FastRead& read = *one.read;
  read.end();
  give_back(one);
  read.goes_on(std::move(rest));
}

/// Returns how many bytes the READ returned; none if anything is unusual.
std::optional<std::size_t> FastReads::judge(const rpcrdma::Complete& how, std::size_t asked,
                                            SEQUENCE4resok& sequence) {
  if (how.failure != rpcrdma::Failure::none) return std::nullopt;
  const xdr::ConstBytes message = how.reply->message;
  if (message.size() < kWords * 4) return std::nullopt;
  const auto word = [&message](std::size_t at) { return xdr::load_u32(message.data() + at * 4); };
  const std::uint32_t eof = word(kEof);
  if (!is_as_expected(message.data()) || eof > 1) return std::nullopt;
  xdr::Decoder in(message.subspan(kWords * 4), how.reply->placements);
  xdr::ConstBytes data;
  if (!in.eligible(xdr::kNoCap, data) || !in.finish()) return std::nullopt;
  if (data.size() < asked && eof == 0) return std::nullopt;
  std::memcpy(sequence.sr_sessionid.data(), message.data() + kSessionId * 4, sequence.sr_sessionid.size());
  sequence.sr_sequenceid = word(kSequenceId);
  sequence.sr_slotid = word(kSlot);
  sequence.sr_highest_slotid = word(kHighestSlot);
  sequence.sr_target_highest_slotid = word(kTargetSlot);
  sequence.sr_status_flags = word(kFlags);
  return data.size();
}

void FastReads::count(const rpcrdma::Complete& how) {
  std::size_t received = how.reply->message.size();
  for (const xdr::Placement& one : how.reply->placements) received += one.placed;
  parts_.counters.of(kWhat).answered(how.message.unreduced_size(), received, how.reply->trip);
}

void FastReads::completed(One& one, rpcrdma::Complete& how) {
  engine::FastRead& read = *one.read;
  SEQUENCE4resok sequence;
  const auto got = judge(how, read.data.size(), sequence);
  if (got && !one.file->is_outdated(one.as_of)) {
    count(how);
    one.channel->give_back(std::move(*how.reply));
    one.channel->give_back(std::move(how.message));
    const bool current = one.use->current();
    one.use->answered();
    parts_.take_sequence(sequence, current, one.sent);
    read.end();
    give_back(one);
    return read.ended(*got);
  }
  auto sent_request = std::make_unique<SentRequest>(SentRequest{
      std::move(*one.use), one.sequence, *one.channel, one.sent, one.epoch, one.as_of, one.deadline,
      rpc::Outcome{how.failure, std::move(how.error), std::move(how.reply), std::move(how.message), how.sends,
                   how.losses},
      std::move(one.in_use)});
  leave_to(one, one.file->read_on(read.data, read.offset, std::move(sent_request)));
}

}  // namespace nfsrdma::nfs4
