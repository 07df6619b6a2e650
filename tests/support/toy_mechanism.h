// A mechanism of the tests' own for RPCSEC_GSS (gss/context.h), with arithmetic in the place of cryptography, and the
// server's side of the flavour (RFC 2203 5.3): ToyMechanism is the client's, ToyGuard the server's.
//
// A context's handle has its number and the caller's AUTH_SYS credential in it, so that the guard needs nothing else, and
// the server behind it nothing of the flavour. A context is had in no time, unless there is a loop.
//
// Confined to one thread each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "gss/flavor.h"
#include "support/nfs_server_state.h"

namespace nfsrdma::testing {

struct ToyTraits {
  std::uint32_t window = 128;
  async::Clock::duration life{};  ///< of a context; 0: it does not end
  unsigned no_kdc_one_in = 0;     ///< so often there is none; 0: never
};

class ToyMechanism final : public gss::Mechanism {
 public:
  /// `first`: the number of the first context, another for each client of a server. `callers` says who they are.
  ToyMechanism(std::uint64_t first, std::shared_ptr<security::Flavor> callers)
      : next_(first), callers_(std::move(callers)) {}
  /// With a KDC that answers late.
  ToyMechanism(std::uint64_t first, std::shared_ptr<security::Flavor> callers, async::Loop& loop,
               ToyTraits traits)
      : next_(first), callers_(std::move(callers)), loop_(&loop), traits_(traits) {}

  async::Task<Result<std::shared_ptr<gss::Context>>> establish(security::Caller caller) override;
  [[nodiscard]] std::string name_of(const security::Caller& /*caller*/) const override { return "somebody"; }
  [[nodiscard]] std::size_t longest_code() const override { return 8; }
  [[nodiscard]] std::size_t wrapping_adds() const override { return 8; }

  /// How many contexts there have been.
  [[nodiscard]] unsigned established() const { return established_; }
  /// How many Calls have been signed.
  [[nodiscard]] std::uint32_t sendings() const { return *sendings_; }
  /// The next context cannot be had.
  void refuse_next() { refuses_ = true; }
  /// Those that there are come to their end.
  void expire() { ++*life_; }

 private:
  std::uint64_t next_;
  const std::shared_ptr<security::Flavor> callers_;
  async::Loop* const loop_ = nullptr;
  const ToyTraits traits_;
  unsigned established_ = 0;
  bool refuses_ = false;
  const std::shared_ptr<unsigned> life_ = std::make_shared<unsigned>();
  const std::shared_ptr<std::uint32_t> sendings_ = std::make_shared<std::uint32_t>();
};

class ToyGuard {
 public:
  /// What a Call came with, for its Reply.
  struct Pass {
    gss::Service service = gss::Service::none;
    std::uint64_t context = 0;
    std::uint32_t number = 0;
  };
  enum class Lie : std::uint8_t {
    none,
    verifier,     ///< is wrong
    no_verifier,  ///< AUTH_NONE stands there
    results,      ///< a bit of them is wrong
    other_call,   ///< all of it is the Reply to the Call before
    other_body,   ///< the results alone are
    only_signed,  ///< results that privacy was asked for have integrity
    unprotected,  ///< results that a service was asked for are in clear
  };

  struct Verdict {
    std::string wrong;                     ///< no client may do that
    std::uint32_t auth_stat = 0;           ///< to refuse it with: its context is not known
    bool drops = false;                    ///< it comes too late (RFC 2203 5.3.3.1)
    std::vector<std::uint32_t> garbage{};  ///< behind the xid, where nothing can be made of it: GARBAGE_ARGS
  };
  /// Puts the Call in clear, if it is one of the flavour's; `pass` is there then.
  Verdict open(Octets& call, std::optional<Pass>& pass);
  /// All contexts, as with a restart.
  void forget();
  /// Those that are made from now on, too.
  void forget_always(bool on) { forgets_ = on; }
  /// Protects the Reply to it: the header of an executed Call, and results.
  void seal(Octets& reply, const Pass& pass);
  /// From now on nothing comes in clear but the NULL procedure.
  void demand() { demands_ = true; }
  /// Of the next `count` Calls nothing can be made, as if something had changed them on the way.
  void garble(unsigned count) { garbled_ = count; }
  /// About the next Reply.
  void lie(Lie lie) { lie_ = lie; }
  [[nodiscard]] std::size_t opened() const { return opened_; }
  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  std::map<std::uint64_t, std::set<std::uint32_t>> seen_;  // sequence numbers, by context
  std::set<std::uint64_t> forgotten_;                      // contexts
  std::size_t opened_ = 0, dropped_ = 0;
  bool demands_ = false, forgets_ = false;
  unsigned garbled_ = 0;
  Lie lie_ = Lie::none;
};

}  // namespace nfsrdma::testing
