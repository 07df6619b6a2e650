// Calls that come by RPC-over-RDMA version 1 (RFC 8166), over either fabric.
//
// The bytes of a WRITE are fetched to where the file has them, those of a READ sent from there. What a Call needs is kept
// for the next one: with a steady load nothing is allocated.
//
// Confined to the loop's thread.
#pragma once

#include <memory>
#include <vector>

#include "async/loop.h"
#include "fabric/listener.h"
#include "responder/answers.h"

namespace nfsrdma::bench {

class RdmaSide {
 public:
  RdmaSide(async::Loop& loop, Answers& answers);
  ~RdmaSide();
  RdmaSide(const RdmaSide&) = delete;
  RdmaSide& operator=(const RdmaSide&) = delete;

  /// The connection lives on this loop: the Incoming is the listener's of this loop, or was moved to it.
  void accept(std::unique_ptr<fabric::Incoming> incoming);

 private:
  class Peer;

  async::Loop& loop_;
  Answers& answers_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace nfsrdma::bench
