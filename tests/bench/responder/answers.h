// What a server answers to a Call, for NFSv4.0, 4.1 and 4.2, NFSv3 and the MOUNT protocol, from a Tree in memory and
// without any memory of what was before: stateids are given out and not looked at, a slot keeps no reply, all rights are
// granted. It serves benchmarks, whose clients ask for nothing twice.
//
//     Reply reply;
//     if (!answers.answer(call, nullptr, reply)) …not a Call…
//     …reply.message: the stream, and beside it the bytes that READ gives, where the file has them…
//
// Thread-safety: confined to one thread. Several threads may answer from one Tree, each with Answers of its own. They wait
// for one another only while one of them answers a call that changes the tree, or that writes more than the memory of its file
// has room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "responder/tree.h"
#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::bench {

struct Reply {
  xdr::Message message;
  std::vector<std::shared_ptr<Memory>> memories;  // of the items
  /// For each READ that gives no bytes, how many items are in front of it: it has a Write chunk all the same.
  std::vector<std::size_t> empty;
  void clear() {
    message.clear();
    empty.clear();
    memories.clear();
  }
};

/// An argument that was taken out of a Call: the bytes of a WRITE.
struct Placed {
  std::size_t position = 0;  // in the Call's stream
  xdr::ConstBytes data;
};

/// Whoever calls, by AUTH_SYS; root where it says nothing.
struct Identity {
  std::uint32_t uid = 0, gid = 0;
};

/// Where such bytes belong.
struct Place {
  std::shared_ptr<Memory> memory;
  std::span<std::byte> bytes;
};

class Answers {
 public:
  /// What all threads of a server have in common.
  struct Server {
    Tree& tree;
    /// Whoever wants a delegation has it, and it is never recalled: for one client.
    bool delegates = false;
    /// Tells one start of the server from another.
    std::uint64_t boot;
  };
  Answers(const Server& server, unsigned thread);

  /// Of a Call whose argument at `position` is still to come. None: the Call is none that is known here.
  std::optional<Place> place_of(xdr::ConstBytes call, std::size_t position, std::size_t length);
  /// False: it is no Call.
  bool answer(xdr::ConstBytes call, const Placed* placed, Reply& reply);

  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  class Compound;

  /// Returns a number that was not given out before, by this thread or another.
  std::uint64_t next_number() { return given_ += tree_.lock().threads(); }

  Tree& tree_;
  const bool delegates_;
  const std::uint64_t boot_;
  const unsigned thread_;
  std::uint64_t calls_ = 0, given_;
};

}  // namespace nfsrdma::bench
