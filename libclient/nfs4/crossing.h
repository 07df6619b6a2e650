// Where a server wants another flavour from some directory on (WRONGSEC, RFC 8881 2.6.3): it is asked for those that it
// takes there (SECINFO), one of them is chosen, and the walk goes on from the handle that is found with it.
//
//     root of the server (sys) → "mnt" → "secret": WRONGSEC → SECINFO: krb5p, krb5i → a handle marked krb5p → "file"
//
// A walk that begins at the server's root finds the places again that were crossed before, as long as their handles are
// good. From handles nothing is to be remembered: they have their mark.
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/task.h"
#include "engine/spot.h"
#include "nfs4/compound.h"

namespace nfsrdma::nfs4 {

class Calls;
class LeaseHolder;

/// Places that were crossed to on the way from the server's root.
class Crossings {
 public:
  using Names = std::vector<std::string>;
  struct Place {
    Names names;
    nfs_fh4 handle;
  };

  /// Another place for these names, in place of the one that was known.
  void learn(Names names, const nfs_fh4& handle);
  /// For the first `names` of the spot, if that began at the root.
  void learn(const engine::Spot& spot, std::size_t names, const nfs_fh4& handle);
  /// Lets the spot begin at the deepest place that its names lead to.
  void shorten(engine::Spot& spot) const;
  /// The spot began at a place whose handle is not good any more: it begins at the root again. False: it did not.
  bool lengthen(engine::Spot& spot);

  /// How the root itself is asked about.
  [[nodiscard]] security::Mark root() const { return root_; }
  void set_root(security::Mark mark) { root_ = mark; }
  void refused_root() { roots_refused_.push_back(root_); }
  [[nodiscard]] const std::vector<security::Mark>& roots_refused() const { return roots_refused_; }
  [[nodiscard]] security::Mark mark_of(const engine::Spot& spot) const {
    return spot.from ? spot.from->mark : root_;
  }
  /// How the place is that the client was set up for.
  [[nodiscard]] security::Mark target() const { return target_; }
  void set_target(security::Mark mark) { target_ = mark; }
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

 private:
  static constexpr std::size_t kMost = 64;
  security::Mark root_ = 0, target_ = 0;
  std::vector<security::Mark> roots_refused_;
  std::vector<Place> places_;
};

/// Whether a Call has come to nothing because of what vouched for it: the server knows the flavour, and cannot do it, or
/// refuses it there.
bool is_of_flavor(const Error& error);

using Spots = std::span<engine::Spot* const>;

/// The Reply to a COMPOUND that begins with walks to these spots was an error. True: that was because of where the spots
/// begin or what vouched for the caller there; they are other ones now, and it is worth another try. An Error: no flavour
/// is at hand that the server takes.
async::Task<Result<bool>> cross(LeaseHolder& session, Caller caller, Spots spots, const CompoundReply& reply);

/// The root is refused to what vouches there. In recovery: before the session is open.
async::Task<Status> cross_root(Calls& calls, Crossings& crossings, security::Flavor& flavor,
                               async::TimePoint deadline, bool in_recovery);

/// The object of that name, which the server wants another flavour for than for the directory.
async::Task<Result<nfs_fh4>> cross_to(LeaseHolder& session, Caller caller, nfs_fh4 directory,
                                      std::string name);

/// What the client uses for the place where its target is, of what the server offers there. Nothing where there is no
/// choice.
async::Task<Status> negotiate(LeaseHolder& session, std::vector<std::string> target);

}  // namespace nfsrdma::nfs4
