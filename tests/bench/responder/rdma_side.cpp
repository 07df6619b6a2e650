#include "responder/rdma_side.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"

namespace nfsrdma::bench {
namespace {

using fabric::ConstBytes;
using fabric::RemoteSegment;
using rpcrdma::rdma_proc;

constexpr std::size_t kReceiveSize = 4096;
constexpr std::uint32_t kCredits = 128;
constexpr std::uint32_t kSpareReceives = 8;
constexpr std::uint64_t kNobodys = 0;  // the cookie of what is done when the Send behind it is

}  // namespace

/// One connection.
class RdmaSide::Peer final : public fabric::Handler {
 public:
  Peer(RdmaSide& side, std::uint32_t reply_threshold) : side_(side), reply_threshold_(reply_threshold) {}

  void begin(std::unique_ptr<fabric::Connection> connection) {
    connection_ = std::move(connection);
    for (std::uint32_t i = 0; i < kCredits + kSpareReceives; ++i)
      connection_->post_receive(fabric::ReceiveBuffer(kReceiveSize));
  }
  void close() { connection_->close(); }

  void on_established(const fabric::Established&) override {}
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t>) override {
    Work& work = take();
    work.buffer.emplace(std::move(buffer));
    const auto decoded = rpcrdma::decode(work.buffer->message(), work.asked);
    const bool is_call = decoded.fault == rpcrdma::HeaderFault::none &&
                         (work.asked.proc == rdma_proc::RDMA_MSG || work.asked.proc == rdma_proc::RDMA_NOMSG);
    if (!is_call) {
      std::fprintf(stderr, "responder: a message that is no Call\n");
      return finish(work);
    }
    work.call = work.buffer->message().subspan(decoded.size);
    if (work.asked.rdma_reads.empty()) return answer(work);
    fetch(work);
  }
  void on_completed(std::uint64_t cookie) override {
    if (cookie == kNobodys) return;
    Work& work = *all_[cookie / 2 - 1];
    if (cookie % 2 != 0) return finish(work);
    if (--work.to_fetch == 0) answer(work);
  }
  void on_closed(const Error& why) override {
    if (why.kind() != ErrorKind::connection)
      std::fprintf(stderr, "responder: a client is gone: %s\n", why.message().c_str());
    // Not from inside the connection's own callback.
    side_.loop_.post([&side = side_, this] {
      std::erase_if(side.peers_, [this](const auto& one) { return one.get() == this; });
    });
  }

 private:
  /// One Call, until its Reply has left.
  struct Work {
    std::uint64_t number = 0;
    std::optional<fabric::ReceiveBuffer> buffer;
    rpcrdma::rdma_msg asked, said;
    ConstBytes call;
    // What was fetched: the whole Call, or one argument of it.
    std::size_t to_fetch = 0;
    std::optional<Placed> placed;
    std::shared_ptr<Memory> into;
    std::vector<std::byte> scratch;
    Reply reply;
    xdr::Buffer bytes;             // the header, and the stream where it goes with it
    std::vector<std::byte> whole;  // for a Reply chunk
  };

  Work& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Work>());
      all_.back()->number = all_.size();
      return *all_.back();
    }
    Work& out = *free_.back();
    free_.pop_back();
    return out;
  }
  void finish(Work& work) {
    connection_->post_receive(std::move(*work.buffer));
    work.buffer.reset();
    work.placed.reset();
    work.into.reset();
    work.reply.clear();
    free_.push_back(&work);
  }

  /// The segments of one position are one chunk: the message itself, or a WRITE's bytes. Of several WRITEs each has one.
  void fetch(Work& work) {
    const auto& reads = work.asked.rdma_reads;
    const bool several = reads.front().position != reads.back().position;
    if (several) return fetch_several(work);
    std::size_t length = 0;
    for (const auto& one : reads) length += one.target.length;
    const std::size_t position = reads.front().position;
    std::span<std::byte> to;
    if (auto place = position == 0 ? std::nullopt : side_.answers_.place_of(work.call, position, length)) {
      work.into = std::move(place->memory);
      to = place->bytes;
    } else {
      work.scratch.resize(length);
      to = work.scratch;
    }
    if (position == 0) {
      work.call = to;
    } else {
      work.placed = Placed{position, to};
    }
    work.to_fetch = reads.size();
    for (const auto& one : reads) {
      connection_->post_rdma_read(to.first(one.target.length), one.target, work.number * 2);
      to = to.subspan(one.target.length);
    }
  }

  /// The whole Call is put together, each chunk at its position.
  void fetch_several(Work& work) {
    const auto& reads = work.asked.rdma_reads;
    std::size_t size = work.call.size();
    for (const auto& one : reads) size += one.target.length + xdr::padding(one.target.length);
    work.scratch.assign(size, std::byte{0});
    std::size_t from = 0, to = 0;
    work.to_fetch = reads.size();
    std::size_t position = 0;
    for (const auto& one : reads) {
      if (one.position != position) {
        to += xdr::padding(to);
        position = one.position;
        const std::size_t text = position > to ? std::min(position - to, work.call.size() - from) : 0;
        std::memcpy(work.scratch.data() + to, work.call.data() + from, text);
        from += text;
        to += text;
      }
      const auto place = std::span(work.scratch).subspan(to, one.target.length);
      connection_->post_rdma_read(place, one.target, work.number * 2);
      to += one.target.length;
    }
    to += xdr::padding(to);
    std::memcpy(work.scratch.data() + to, work.call.data() + from, work.call.size() - from);
    work.scratch.resize(to + work.call.size() - from);
    work.call = work.scratch;
  }

  void answer(Work& work) {
    const Placed* const placed = work.placed ? &*work.placed : nullptr;
    if (!side_.answers_.answer(work.call, placed, work.reply)) {
      std::fprintf(stderr, "responder: a message that is no Call\n");
      return finish(work);
    }
    rpcrdma::rdma_msg& said = work.said;
    said.clear();
    said.rdma_xid = work.asked.rdma_xid;
    said.rdma_credit = std::clamp(work.asked.rdma_credit, 1U, kCredits);
    place_items(work);
    const std::size_t header = rpcrdma::encoded_size(said);
    const std::size_t payload = work.reply.message.unreduced_size();
    if (header + payload <= reply_threshold_) {
      rpcrdma::encode(said, begin(work));
      write_payload(work.reply.message, work.bytes.extend(payload));
    } else {
      send_long(work, payload);
    }
    const std::array pieces{work.bytes.bytes()};
    connection_->post_send({.cookie = work.number * 2 + 1, .pieces = pieces, .invalidate = std::nullopt});
  }
  static xdr::Buffer& begin(Work& work) {
    work.bytes.clear();
    return work.bytes;
  }

  /// Each item goes to the Write chunk that is offered for it; the others stay in the stream.
  void place_items(Work& work) {
    const rpcrdma::WriteList& offered = work.asked.rdma_writes;
    auto& items = work.reply.message.items;
    const auto& empty = work.reply.empty;
    std::size_t kept = 0, next = 0, passed = 0;
    for (std::size_t i = 0; i < offered.size(); ++i) {
      const bool has_none = passed < empty.size() && empty[passed] == next;
      const bool has_item = !has_none && next < items.size();
      const bool takes = has_item && rpcrdma::chunk_length(offered[i]) >= items[next].data.size();
      ConstBytes left = takes ? items[next].data : ConstBytes();
      work.said.rdma_writes.add_chunk();
      for (RemoteSegment to : offered[i]) {
        to.length = static_cast<std::uint32_t>(std::min<std::size_t>(to.length, left.size()));
        if (to.length != 0) connection_->post_rdma_write(left.first(to.length), to, kNobodys);
        left = left.subspan(to.length);
        work.said.rdma_writes.add_segment(to);
      }
      if (has_none) ++passed;
      if (has_item && !takes) items[kept++] = items[next];
      if (has_item) ++next;
    }
    for (; next < items.size(); ++next) items[kept++] = items[next];
    items.resize(kept);
  }

  void send_long(Work& work, std::size_t payload) {
    rpcrdma::rdma_msg& said = work.said;
    if (rpcrdma::chunk_length(work.asked.rdma_reply) < payload) {
      std::fprintf(stderr, "responder: a client has no room for a Reply of %zu bytes\n", payload);
      said.clear();
      said.rdma_xid = work.asked.rdma_xid;
      said.rdma_credit = kCredits;
      said.proc = rdma_proc::RDMA_ERROR;
      rpcrdma::encode(said, begin(work));
      return;
    }
    work.whole.resize(payload);
    write_payload(work.reply.message, work.whole.data());
    said.proc = rdma_proc::RDMA_NOMSG;
    said.has_rdma_reply = true;
    ConstBytes left = work.whole;
    for (RemoteSegment to : work.asked.rdma_reply) {
      to.length = static_cast<std::uint32_t>(std::min<std::size_t>(to.length, left.size()));
      if (to.length != 0) connection_->post_rdma_write(left.first(to.length), to, kNobodys);
      left = left.subspan(to.length);
      said.rdma_reply.push_back(to);
    }
    rpcrdma::encode(said, begin(work));
  }

  /// The stream with the items that are left, and their padding, where they belong.
  static void write_payload(const xdr::Message& message, std::byte* to) {
    const ConstBytes stream = message.stream.bytes();
    std::size_t from = 0;
    const auto put = [&to](ConstBytes bytes) {
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    };
    for (const xdr::Item& item : message.items) {
      put(stream.subspan(from, item.stream_offset - from));
      put(item.data);
      const std::size_t pad = xdr::padding(item.data.size());
      std::memset(to, 0, pad);
      to += pad;
      from = item.stream_offset;
    }
    put(stream.subspan(from));
  }

  RdmaSide& side_;
  const std::uint32_t reply_threshold_;
  std::vector<std::unique_ptr<Work>> all_;  // by number, from 1
  std::vector<Work*> free_;
  std::unique_ptr<fabric::Connection> connection_;  // goes first: it has what is the others'
};

RdmaSide::RdmaSide(async::Loop& loop, Answers& answers) : loop_(loop), answers_(answers) {}

RdmaSide::~RdmaSide() {
  for (const auto& peer : peers_) peer->close();
}

void RdmaSide::accept(std::unique_ptr<fabric::Incoming> incoming) {
  const rpcrdma::PrivateData mine{.send_size = kReceiveSize, .receive_size = kReceiveSize};
  const auto said = rpcrdma::encode(mine);
  const auto negotiated = rpcrdma::negotiate(mine, rpcrdma::find_private_data(incoming->private_data()));
  auto peer = std::make_unique<Peer>(*this, negotiated.call_threshold);
  auto connection = incoming->accept({said.begin(), said.end()}, *peer);
  if (!connection) {
    std::fprintf(stderr, "responder: %s\n", connection.error().text().c_str());
    return;
  }
  peer->begin(std::move(*connection));
  peers_.push_back(std::move(peer));
}

}  // namespace nfsrdma::bench
