// The Reply to one Call while it is read: its header judged, opened where it was protected, and its buffer
// given back to the Channel in the end.
//
//     ReplyInHand reply(channel, std::move(*outcome.reply));
//     if (auto begun = reply.begin(protection, {"NFS", 3}, "READ", server); !begun) …
//     xdr::decode(reply.results(), res)
//
// Confined to the loop's thread. The Channel must outlive it. What is decoded as views lives as long as it does.
#pragma once

#include <string>
#include <utility>

#include "rpc/channel.h"
#include "rpc/message.h"
#include "rpc/protection.h"
#include "xdr/decoder.h"

namespace nfsrdma::rpc {

class ReplyInHand {
 public:
  ReplyInHand(Channel& channel, rpcrdma::Reply reply)
      : channel_(&channel), reply_(std::move(reply)), decoder_(reply_.message, reply_.placements) {}
  ReplyInHand(ReplyInHand&& other) noexcept
      : channel_(std::exchange(other.channel_, nullptr)),
        reply_(std::move(other.reply_)),
        decoder_(other.decoder_) {
    decoder_.placements_moved(reply_.placements);
  }
  ReplyInHand& operator=(ReplyInHand&&) = delete;
  ~ReplyInHand() {
    if (channel_ != nullptr) channel_->give_back(std::move(reply_));
  }

  /// Reads the header and opens what is protected. An Error, for `what` at `peer`, if it is none, is not the
  /// server's, or says that the Call was refused; `called`: what was.
  Status begin(Protection* protection, const Called& called, const char* what, const std::string& peer) {
    const ReplyHeader header = read_reply(decoder_);
    if (header.refusal != Refusal::none) return refusal_error(header, called, what, peer);
    if (protection == nullptr) return {};
    auto opened = protection->open(header, decoder_.rest());
    if (!opened) return opened.error();
    decoder_ = xdr::Decoder(*opened, reply_.placements);
    return {};
  }
  /// Stands at the results.
  [[nodiscard]] xdr::Decoder& results() { return decoder_; }
  [[nodiscard]] const xdr::Decoder& results() const { return decoder_; }
  /// How often the Call was sent.
  [[nodiscard]] std::uint32_t sends() const { return reply_.trip.sends; }

 private:
  Channel* channel_;
  rpcrdma::Reply reply_;
  xdr::Decoder decoder_;
};

}  // namespace nfsrdma::rpc
