#include "nfs4/session/read_call.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "nfs4/state/client_lease.h"
#include "nfs4/state/file_state.h"

namespace nfsrdma::nfs4 {
namespace {

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

}  // namespace

void ReadTemplate::make(ClientLease& session, FileState& file) {
  Compound compound = session.begin_on(file.handle(), kReadCall, file.state().caller);
  compound.read(file.stateid(), 0, {});
  const bool good = compound.protection() == nullptr && compound.count() == kOperationCount;
  sequence_at = compound.sequence_at();
  reply_inline = compound.reply_size().max_inline;
  reply_reduced = compound.reply_size().max_reduced;
  const xdr::ConstBytes encoded = compound.message().stream.bytes();
  call.assign(encoded.begin(), encoded.end());
  read_at = encoded.size() - (kStateidSize + kOffsetSize + kCountSize);
  state = good ? State::good : State::useless;
}

void ReadTemplate::fill(rpcrdma::Call& out, const SEQUENCE4args& sequence, const stateid4& stateid,
                        std::uint64_t offset, std::span<std::byte> data, std::uint32_t max_response) const {
  std::byte* const stream = out.message.stream.extend(call.size());
  std::memcpy(stream, call.data(), call.size());
  put_sequence(stream + sequence_at, sequence);
  put_read(stream + read_at, stateid, offset, data.size());
  out.results.push_back({data, false});
  // RFC 8267 4.2.2: ca_maxresponsesize bounds every Reply.
  out.reply_max_inline = std::min<std::uint64_t>(reply_inline + xdr::padded(data.size()), max_response);
  out.reply_max_reduced = std::min<std::uint64_t>(reply_reduced, max_response);
}

std::optional<std::size_t> usual_read_reply(const rpcrdma::Reply& reply, std::size_t asked,
                                            SEQUENCE4resok& sequence) {
  const xdr::ConstBytes message = reply.message;
  if (message.size() < kWords * 4) return std::nullopt;
  const auto word = [&message](std::size_t at) { return xdr::load_u32(message.data() + at * 4); };
  const std::uint32_t eof = word(kEof);
  if (!is_as_expected(message.data()) || eof > 1) return std::nullopt;
  xdr::Decoder in(message.subspan(kWords * 4), reply.placements);
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

}  // namespace nfsrdma::nfs4
