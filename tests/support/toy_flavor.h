// A security flavour of the tests' own: RPCSEC_GSS's framing and rules (RFC 2203 5.3), with arithmetic in the
// place of cryptography. ToyFlavor is the client's side, ToyGuard the server's. A context is had in no time, unless the
// flavour has a loop: then it takes a while, and may fail at first.
//
// A Call has a sequence number of its own at each sending, and a verifier over its header. With integrity its
// arguments stand in an opaque with a checksum behind it, with privacy masked in one. So do the results. The
// caller is an AUTH_SYS credential inside the flavour's, so that the server behind the guard needs to know
// nothing of it.
//
// Confined to one thread each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "async/event.h"
#include "security/flavor.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

/// By RPCSEC_GSS's numbers (RFC 2203 5.3.1).
enum class ToyService : std::uint32_t { none = 1, integrity = 2, privacy = 3 };

class ToyFlavor final : public security::Flavor {
 public:
  /// `context`: another for each client of a server. `callers` says who they are.
  ToyFlavor(ToyService service, std::uint64_t context, std::shared_ptr<security::Flavor> callers,
            async::Loop* loop = nullptr)
      : service_(service), context_(context), callers_(std::move(callers)), loop_(loop) {
    if (loop_ != nullptr) established_.emplace(*loop_);
  }

  [[nodiscard]] security::Voucher vouch(const security::Caller& caller) override;
  /// The next sending fails, as without a ticket.
  void fail_next() { fails_ = true; }
  [[nodiscard]] std::uint32_t sendings() const { return sequence_; }
  /// How many contexts there have been after the first.
  [[nodiscard]] unsigned renewed() const { return renewed_; }
  /// The next context cannot be had.
  void refuse_next() { refuses_ = true; }
  /// It has come to its end here.
  void expire() { has_context_ = false; }

 private:
  class Protection;
  async::Task<Status> have_context(async::TimePoint deadline);

  const ToyService service_;
  std::uint64_t context_;
  const std::shared_ptr<security::Flavor> callers_;
  async::Loop* const loop_;
  std::optional<async::Event> established_;  // somebody has tried to have a context
  bool has_context_ = true, establishing_ = false;
  unsigned renewed_ = 0;
  std::uint32_t sequence_ = 0;
  bool fails_ = false, refuses_ = false;
};

class ToyGuard {
 public:
  /// What a Call came with, for its Reply.
  struct Pass {
    ToyService service = ToyService::none;
    std::uint64_t context = 0;
    std::uint32_t sequence = 0;
  };
  enum class Lie : std::uint8_t { none, verifier, results, other_call };

  /// Puts the Call in clear, if it is one of the flavour's; `pass` is there then. What is wrong with it
  /// otherwise, or "". `auth_stat`: what it is to be refused with, as its context is not known.
  std::string open(Octets& call, std::optional<Pass>& pass, std::uint32_t& auth_stat);
  /// All contexts, as with a restart.
  void forget();
  /// Those that are made from now on, too.
  void forget_always(bool on) { forgets_ = on; }
  /// Protects the Reply to it: the header of an executed Call, and results.
  void seal(Octets& reply, const Pass& pass);
  /// From now on nothing comes in clear.
  void demand() { demands_ = true; }
  /// About the next Reply.
  void lie(Lie lie) { lie_ = lie; }
  [[nodiscard]] std::size_t opened() const { return opened_; }

 private:
  std::map<std::uint64_t, std::set<std::uint32_t>> seen_;  // sequence numbers, by context
  std::set<std::uint64_t> forgotten_;                      // contexts
  std::size_t opened_ = 0;
  bool demands_ = false, forgets_ = false;
  Lie lie_ = Lie::none;
};

}  // namespace nfsrdma::testing
