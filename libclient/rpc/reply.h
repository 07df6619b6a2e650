// The Reply to one Call while it is read: checks its header, opens it if it is protected, and finally gives
// its buffer back to the Channel.
//
//     ReplyInHand reply(channel, std::move(*outcome.reply));
//     if (auto begun = reply.begin(protection, {"NFS", 3}, "READ", server); !begun) …
//     xdr::decode(reply.results(), res)
//
// Confined to the loop's thread. The Channel must outlive it. Views that were decoded from it are valid as
// long as it exists.
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

  /// Reads the header, and opens protected results. Returns an Error, for `what` at `peer`, if the message is
  /// not a Reply, does not come from the server, or says that the Call to `called` was refused.
  Status begin(Protection* protection, const Called& called, const char* what, const std::string& peer) {
    const ReplyHeader header = read_reply(decoder_);
    if (header.refusal != Refusal::none) return refusal_error(header, called, what, peer);
    if (protection == nullptr) return {};
    auto opened = protection->open(header, decoder_.rest());
    if (!opened) return opened.error();
    decoder_ = xdr::Decoder(*opened, reply_.placements);
    return {};
  }
  /// The decoder, which is at the results after begin().
  [[nodiscard]] xdr::Decoder& results() { return decoder_; }
  [[nodiscard]] const xdr::Decoder& results() const { return decoder_; }
  /// Returns how often the Call was sent.
  [[nodiscard]] std::uint32_t sends() const { return reply_.trip.sends; }

 private:
  Channel* channel_;
  rpcrdma::Reply reply_;
  xdr::Decoder decoder_;
};

}  // namespace nfsrdma::rpc
