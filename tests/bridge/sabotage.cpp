#include "bridge/sabotage.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "rpcrdma/private_data.h"

namespace nfsrdma::bridge {
namespace {

using rpcrdma::chunk_length;
using rpcrdma::kWord;
using rpcrdma::rpc_rdma_errcode;
using rpcrdma::WriteList;

// ---- the chunk lists ----

using Chunk = std::vector<RemoteSegment>;

/// The chunks of a Reply in a form that can be changed.
struct Chunks {
  std::vector<Chunk> writes;
  Chunk* some(rdma_msg& header) {
    if (!writes.empty() && !writes.front().empty()) return &writes.front();
    return header.has_rdma_reply && !header.rdma_reply.empty() ? &header.rdma_reply : nullptr;
  }
};

/// Applies `change` to the chunks; what it gives tells whether there was anything to change.
template <class Change>
bool change_chunks(rdma_msg& header, const Change& change) {
  Chunks chunks;
  for (std::size_t i = 0; i < header.rdma_writes.size(); ++i)
    chunks.writes.emplace_back(header.rdma_writes[i].begin(), header.rdma_writes[i].end());
  const bool changed = change(chunks);
  header.rdma_writes.clear();
  for (const Chunk& one : chunks.writes) header.rdma_writes.add_chunk(one);
  return changed;
}

bool drop_a_chunk(rdma_msg& header, bool whole) {
  return change_chunks(header, [&](Chunks& chunks) {
    if (whole && !chunks.writes.empty()) {
      chunks.writes.pop_back();
      return true;
    }
    Chunk* const one = chunks.some(header);
    if (one != nullptr) one->pop_back();
    return one != nullptr;
  });
}

bool add_a_chunk(rdma_msg& header, bool whole) {
  const RemoteSegment invented{0xbadbadU, 4096, 0};
  return change_chunks(header, [&](Chunks& chunks) {
    Chunk* const one = chunks.some(header);
    if (whole || one == nullptr)
      chunks.writes.push_back({invented});
    else
      one->push_back(invented);
    return true;
  });
}

bool rename_a_chunk(rdma_msg& header, bool handle) {
  return change_chunks(header, [&](Chunks& chunks) {
    Chunk* const one = chunks.some(header);
    if (one == nullptr) return false;
    if (handle)
      one->front().handle ^= 0x5a5aU;
    else
      one->front().offset += 8;
    return true;
  });
}

bool lengthen_a_chunk(rdma_msg& header, const Offer& offer, std::uint64_t how) {
  return change_chunks(header, [&](Chunks& chunks) {
    Chunk* const one = chunks.some(header);
    if (one == nullptr) return false;
    const bool is_write = !chunks.writes.empty() && one == &chunks.writes.front();
    // A chunk that the fault more_chunks has invented was not offered.
    if (is_write ? offer.writes.segment_count() == 0 : offer.reply_chunk.empty()) return false;
    const std::uint32_t offered =
        is_write ? offer.writes[0].front().length : offer.reply_chunk.front().length;
    one->front().length = how == 0 ? offered + 4 : 0xffffffffU;
    return true;
  });
}

void sabotage_chunks(const Offer& offer, rdma_msg& header, Faults& faults) {
  const auto coin = [&](Fault fault) { return faults.pick(fault, 2) == 0; };
  if (faults.strikes(Fault::more_chunks)) add_a_chunk(header, coin(Fault::more_chunks));
  if (offer.writes.segment_count() == 0 && offer.reply_chunk.empty()) return;
  if (faults.strikes(Fault::fewer_chunks)) drop_a_chunk(header, coin(Fault::fewer_chunks));
  if (faults.strikes(Fault::other_handle)) rename_a_chunk(header, coin(Fault::other_handle));
  if (faults.strikes(Fault::overlong_chunk))
    lengthen_a_chunk(header, offer, faults.pick(Fault::overlong_chunk, 2));
}

// ---- the message ----

xdr::Buffer words(std::initializer_list<std::uint32_t> list) {
  xdr::Buffer out;
  for (const std::uint32_t word : list) xdr::store_u32(out.extend(kWord), word);
  return out;
}

/// RFC 8166 4.6: fixed fields, alignment and threshold, three empty lists, and nothing else.
xdr::Buffer msgp(std::uint32_t xid, std::uint32_t credits) {
  return words({xid, rpcrdma::kRpcRdmaVersion, credits, 2, 0, 0, 0, 0, 0});
}
/// A client that does not know it would take it for an empty message, were it shorter than 28 bytes.
xdr::Buffer done(std::uint32_t xid, std::uint32_t credits) {
  return words({xid, rpcrdma::kRpcRdmaVersion, credits, 3, 0, 0, 0});
}
/// RFC 8167 5.1: a Call of procedure 0 of a program in the transient range, with AUTH_NONE.
xdr::Buffer backward_call(std::uint32_t xid) {
  constexpr std::uint32_t kTransientProgram = 0x40000000;
  return words(
      {xid, rpcrdma::kRpcRdmaVersion, 1, 0, 0, 0, 0, xid, kCall, 2, kTransientProgram, 1, 0, 0, 0, 0, 0});
}

/// A count that is too large: the first reduced item's, or where nothing was reduced the length of the tag
/// (of a COMPOUND) that follows the RPC header and the status.
void oversize_count(Delivery& delivery) {
  constexpr std::size_t kTagLength = 6 * kWord + kWord;
  const std::size_t at =
      rpcrdma::encoded_size(delivery.plan.header) + delivery.plan.reduced_count.value_or(kTagLength);
  if (delivery.plan.header.proc != rdma_proc::RDMA_MSG || at + kWord > delivery.message.size()) return;
  xdr::store_u32(delivery.message.data() + at, 0x7fffffffU);
}

void shorten(xdr::Buffer& message, std::size_t size) {
  xdr::Buffer out;
  std::memcpy(out.extend(size), message.data(), size);
  message = std::move(out);
}

void sabotage_message(Delivery& delivery, std::uint32_t receive_size, Faults& faults) {
  xdr::Buffer& message = delivery.message;
  if (faults.strikes(Fault::oversized_count)) oversize_count(delivery);
  if (faults.strikes(Fault::wrong_xid)) {
    const std::uint32_t wrong = xdr::load_u32(message.data()) + 0x10000000U;
    xdr::store_u32(message.data(), wrong);
    const std::size_t payload = rpcrdma::encoded_size(delivery.plan.header);
    if (faults.pick(Fault::wrong_xid, 2) == 0 && payload + kWord <= message.size())
      xdr::store_u32(message.data() + payload, wrong);
  }
  if (faults.strikes(Fault::truncated_header)) {
    const std::size_t header = rpcrdma::encoded_size(delivery.plan.header);
    shorten(message, 1 + static_cast<std::size_t>(faults.pick(Fault::truncated_header, header - 1)));
  }
  if (faults.strikes(Fault::oversized_message)) {
    const std::size_t more = receive_size + 1 - std::min<std::size_t>(receive_size, message.size());
    std::memset(message.extend(more), 0, more);
  }
}

void sabotage_timing(Delivery& delivery, std::uint64_t number, Faults& faults) {
  delivery.drop = faults.strikes(Fault::drop_reply);
  if (faults.strikes(Fault::delay_reply))
    delivery.delay = std::chrono::milliseconds(1 + faults.pick(Fault::delay_reply, 200));
  delivery.twice = faults.strikes(Fault::duplicate_reply);
  delivery.behind = faults.strikes(Fault::reorder_reply);
  if (!delivery.plan.writes.empty()) {
    delivery.cut_write = faults.strikes(Fault::disconnect_in_write);
    delivery.late_write = faults.strikes(Fault::late_write);
  }
  if (number == faults.number(Fault::disconnect_at)) {
    delivery.disconnect = true;
    faults.count(Fault::disconnect_at);
  }
}

}  // namespace

Delivery plan_delivery(const Offer& offer, ConstBytes reply, const Limits& limits, std::uint64_t number,
                       std::uint32_t receive_size, Faults& faults) {
  Limits own = limits;
  if (faults.strikes(Fault::lower_grant))
    own.credits = 1 + static_cast<std::uint32_t>(faults.pick(Fault::lower_grant, 3));
  if (faults.strikes(Fault::zero_grant)) own.credits = 0;
  if (!offer.writes.empty() && faults.strikes(Fault::left_inline)) own.reduce = false;

  Delivery delivery;
  delivery.plan = plan_reply(offer, reply, own);
  const bool vers = faults.strikes(Fault::err_vers);
  if (vers || faults.strikes(Fault::err_chunk)) {
    delivery.plan = ReplyPlan();
    delivery.plan.header = error_header(offer.xid, rpcrdma::kRpcRdmaVersion, own.credits,
                                        vers ? rpc_rdma_errcode::ERR_VERS : rpc_rdma_errcode::ERR_CHUNK);
    delivery.plan.why = "a fault";
  }
  if (delivery.plan.header.proc != rdma_proc::RDMA_ERROR)
    sabotage_chunks(offer, delivery.plan.header, faults);
  delivery.message = delivery.plan.compose();
  sabotage_message(delivery, receive_size, faults);
  sabotage_timing(delivery, number, faults);
  if (faults.strikes(Fault::msgp)) delivery.before.push_back(msgp(offer.xid, own.credits));
  if (faults.strikes(Fault::done)) delivery.before.push_back(done(offer.xid, own.credits));
  if (faults.strikes(Fault::backward_call)) {
    delivery.before.push_back(
        backward_call(static_cast<std::uint32_t>(faults.pick(Fault::backward_call, 1ULL << 32U))));
  }
  return delivery;
}

std::vector<std::byte> sabotaged_private_data(std::vector<std::byte> usual, Faults& faults) {
  if (!faults.strikes(Fault::private_data)) return usual;
  const auto said = [](std::uint32_t send, std::uint32_t receive) {
    const auto octets = rpcrdma::encode(rpcrdma::PrivateData{false, send, receive});
    return std::vector<std::byte>(octets.begin(), octets.end());
  };
  switch (faults.pick(Fault::private_data, 5)) {
    case 0:
      return {};
    case 1:
      return said(1024, 1024);
    case 2:
      return said(8192, 2048);
    case 3: {
      auto other_version = said(4096, 4096);
      other_version[4] = std::byte{2};
      return other_version;
    }
    default: {
      auto cut_short = said(4096, 4096);
      cut_short.resize(6);
      return cut_short;
    }
  }
}

}  // namespace nfsrdma::bridge
