// Crossing to another security flavour. If a server wants another flavour from some directory on (WRONGSEC,
// RFC 8881 2.6.3), it is asked which flavours it takes there (SECINFO), one of them is chosen, and the walk
// goes on from the handle that is found with it.
//
//     root of the server (sys) -> "mnt" -> "secret": WRONGSEC -> SECINFO: krb5p, krb5i
//         -> a handle marked krb5p -> "file"
//
// Crossings remembers the places that walks from the server's root have crossed to. Later walks begin there,
// as long as the handles are valid. Walks from a handle need no such memory, because the handle carries the
// mark of its flavour.
//
// Confined to the loop's thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "async/soon.h"
#include "engine/spot.h"
#include "nfs4/compound/compound.h"

namespace nfsrdma::nfs4 {

class CallLayer;
class ClientLease;

/// The places that walks from the server's root have crossed to.
class Crossings {
 public:
  using Names = std::vector<std::string>;
  struct Place {
    Names names;
    nfs_fh4 handle;
  };

  /// Records the place that these names lead to, and replaces the one known before.
  void learn(Names names, const nfs_fh4& handle);
  /// Records the place that the first `names` of the spot lead to, if the spot begins at the root
  /// or at a known place.
  void learn(const engine::Spot& spot, std::size_t names, const nfs_fh4& handle);
  /// Lets the spot begin at the deepest known place that its names lead to.
  void shorten(engine::Spot& spot) const;
  /// Called when the server refused the handle that the spot begins at. If that is a known place, forgets the
  /// place and lets the spot begin at the root again. Returns false if it is not.
  bool lengthen(engine::Spot& spot);

  /// Mark of the flavour with which the root itself is asked about.
  [[nodiscard]] security::Mark root() const { return root_; }
  void set_root(security::Mark mark) { root_ = mark; }
  void refused_root() { roots_refused_.push_back(root_); }
  [[nodiscard]] const std::vector<security::Mark>& roots_refused() const { return roots_refused_; }
  [[nodiscard]] security::Mark mark_of(const engine::Spot& spot) const {
    return spot.from ? spot.from->mark : root_;
  }
  /// Mark of the flavour of the place that the client was set up for.
  [[nodiscard]] security::Mark target() const { return target_; }
  void set_target(security::Mark mark) { target_ = mark; }
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

  /// The server's answer about the target in the first call: its handle, and the flavours that the
  /// server takes there, in the server's order of preference.
  struct Offer {
    nfs_fh4 handle;
    std::vector<Security> flavors;
  };
  void set_offer(Offer offer) { offer_ = std::move(offer); }
  [[nodiscard]] std::optional<Offer> take_offer() { return std::exchange(offer_, std::nullopt); }

 private:
  static constexpr std::size_t kMost = 64;
  security::Mark root_ = 0, target_ = 0;
  std::vector<security::Mark> roots_refused_;
  std::vector<Place> places_;
  std::optional<Offer> offer_;
};

/// Whether a Call has failed because of its flavour: the server knows the flavour and cannot use it, or
/// refuses it for this object.
bool is_of_flavor(const Error& error);

using Spots = std::span<engine::Spot* const>;

/// Called when the server has refused a COMPOUND that begins with walks to these spots. Returns true if the
/// reason was where a spot begins or which flavour vouched for the caller there; the spots have been changed
/// then, and the COMPOUND is worth another try. Returns false for any other reason. An Error says that this
/// client has no flavour that the server takes, or that the spots are on different file systems.
async::Soon<Result<bool>> cross(ClientLease& session, Caller caller, Spots spots, const CompoundReply& reply);

/// Chooses another flavour for the root, because the server refuses the present one. `in_recovery`: the calls
/// are made by call_in_recovery(), because the session is not open.
async::Task<Status> cross_root(CallLayer& calls, Crossings& crossings, security::Flavor& flavor,
                               async::TimePoint deadline, bool in_recovery);

/// Returns the object of that name, for which the server wants another flavour than for the directory.
async::Task<Result<nfs_fh4>> cross_to(ClientLease& session, Caller caller, nfs_fh4 directory,
                                      std::string name);

/// Asks which flavours the server takes at the target, in a COMPOUND that stands at the root: LOOKUP of each
/// name, GETFH and SECINFO_NO_NAME. So the first call of a session can ask for more than this.
void ask_about_target(Compound& compound, const Crossings::Names& target);
/// Takes the results into `crossings` for negotiate(). If the server has refused one of them, negotiate()
/// asks again.
void take_about_target(CompoundReply& reply, const Crossings::Names& target, Crossings& crossings);

/// Chooses the flavour for the client's target among those that the server offers there. Does nothing
/// if there is no choice.
async::Task<Status> negotiate(ClientLease& session, std::vector<std::string> target);

}  // namespace nfsrdma::nfs4
