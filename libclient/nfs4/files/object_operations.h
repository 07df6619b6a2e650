// The engine's operations on names and objects at a Spot (engine/spot.h). Nfs4Engine (engine.h) adds files.
//
// Each operation is one COMPOUND. It walks to the spot first, and also returns the attributes of the object
// and of its directory as they are after the operation. An operation that changed something has succeeded
// even if its attributes could not be read any more: the result then has none, and the caller asks for them.
//
// A failed operation returns the server's status as an Error. DELAY and GRACE are waited for. If a Reply is
// lost, the request is sent again in its slot, and the server returns the cached Reply (RFC 8881 2.10.6), so
// that no request is executed twice while the server keeps its session. If the session was lost, as in a
// restart of the server, outcome.cpp looks at the names to learn whether the operation was executed.
//
// Confined to the loop's thread. Arguments are taken by value, because a task may outlive the caller's
// variables.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/directory_stamps.h"
#include "engine/engine.h"
#include "nfs4/state/client_lease.h"
#include "nfs4/state/walk.h"
#include "wire/nfs4/attributes.h"
#include "writing/unstable_data.h"

namespace nfsrdma::nfs4 {

using namespace engine;  // NOLINT: what these files say in the words of all versions

class ObjectOperations : public Engine {
 public:
  explicit ObjectOperations(ClientLease& session) : session_(session) {}

  async::Task<Result<Object>> find(Caller caller, Spot spot) override;
  async::Task<Result<Object>> parent(Caller caller, FileHandle directory) override;
  async::Task<Result<Attributes>> attributes(Caller caller, FileHandle object) override;
  async::Task<Result<Rights>> access(Caller caller, Spot spot, unsigned wanted) override;
  async::Task<Result<std::string>> read_link(Caller caller, Spot spot) override;
  async::Task<Result<Space>> space(Caller caller, Spot spot) override;
  async::Task<Result<Made>> make_directory(Caller caller, Spot directory, std::string name,
                                           std::uint32_t mode) override;
  async::Task<Result<Made>> make_symlink(Caller caller, Spot directory, std::string name,
                                         std::string text) override;
  async::Task<Result<Made>> make_node(Caller caller, Spot directory, std::string name, FileType type,
                                      Device device, std::uint32_t mode) override;
  async::Task<Result<Made>> link(Caller caller, Spot object, Spot directory, std::string name) override;
  async::Task<Result<std::optional<Attributes>>> remove(Caller caller, Spot directory, std::string name,
                                                        Removed what) override;
  async::Task<Result<Renamed>> rename(Caller caller, Spot from, std::string old_name, Spot to,
                                      std::string new_name, std::optional<FileHandle> object) override;
  async::Task<Result<Page>> list(Caller caller, Spot directory, std::uint64_t cookie,
                                 ListVerifier verifier) override;

  // ---- xattrs.cpp; NFSv4.1 has none: NFS4ERR_NOTSUPP ----

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                        std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) override;

  // ---- acls.cpp ----

  AclForm acl_form() const override { return AclForm::nfs4; }
  async::Task<Result<bool>> has_acls(Caller caller, FileHandle object) override;
  async::Task<Result<Acl>> get_acl(Caller caller, FileHandle object) override;
  async::Task<Status> set_acl(Caller caller, FileHandle object, Acl acl) override;

  // ---- operations that the others are made of ----

  /// Result of lookup(). Without an object the directory has no such name, at the time of `directory`.
  struct Looked {
    std::optional<Object> object;
    std::optional<Attributes> directory;
  };
  /// Looks a name up. `with_attributes`: the object's attributes are returned, too.
  async::Task<Result<Looked>> lookup(Caller caller, Spot directory, std::string name,
                                     bool with_attributes = true);
  /// Sets attributes under `stateid`: that of an open file if the size is set, else zero (RFC 8881 18.30.3).
  /// A caller that sets a size must then call OpenFiles::resized(), so that uncommitted data behind the new
  /// size is not written again, and must hold `turn` until then. The result has no attributes if they were
  /// set and could not be read afterwards.
  async::Task<Result<std::optional<Attributes>>> set_with_stateid(Caller caller, FileHandle object,
                                                                  stateid4 stateid, SetAttributes changes,
                                                                  const writing::Turn& turn);

 protected:
  ClientLease& session_;

 private:
  /// Makes one COMPOUND that begins with the walks to `spots`. `add(compound)` adds the operations behind
  /// them, and `take(reply, out)` takes the results of those. `text` names the objects in an Error.
  template <class Out, std::size_t n, class Add, class Take>
  async::Task<Result<Out>> at(Caller caller, std::array<Spot*, n> spots, std::string text, const char* what,
                              Add add, Take take);
  async::Task<Status> at_spots(Caller caller, Spots spots, std::string text, const char* what,
                               async::FunctionRef<void(Compound&)> add,
                               async::FunctionRef<bool(CompoundReply&)> take);
  /// Makes such a COMPOUND for one spot. An Error names the object at the spot, or the object in it that is
  /// called `name`.
  template <class Out, class Add, class Take>
  async::Task<Result<Out>> at(Caller caller, Spot& spot, std::string_view name, const char* what, Add add,
                              Take take) {
    const std::array<Spot*, 1> spots{&spot};
    return at<Out>(std::move(caller), spots, spot.text(std::string(name)), what, std::move(add),
                   std::move(take));
  }
  async::Task<Result<Looked>> lookup_across(Caller caller, Spot directory, std::string name);
  async::Task<Result<WireAttributes>> getattr(Caller caller, Spot spot, const bitmap4& wanted);
  template <class Op>
  async::Task<Result<typename Op::Res>> xattr(Caller caller, FileHandle object, std::string name,
                                              typename Op::Args args);
  // outcome.cpp
  using Stamp = std::optional<std::uint64_t>;
  /// Notes the directory's change attribute for outcome.cpp. With sessions nothing is noted, because stamps
  /// are not used there.
  void saw(const Spot& directory, const std::optional<Attributes>& now) {
    const bool wanted = !session_.version().has_sequence && directory.is_handle() && now;
    if (wanted) stamps_.seen(*directory.from, now->change, session_.loop().now());
  }
  [[nodiscard]] Stamp stamp_of(const Spot& directory) const {
    return directory.is_handle() ? stamps_.of(*directory.from, session_.loop().now()) : std::nullopt;
  }
  std::optional<Error> refusal(const Error& error, const Spot& directory, const Stamp& before,
                               const std::optional<Attributes>& now);
  /// Creates an object, and looks at the name if the answer is lost. `text`: that of a symbolic link.
  async::Task<Result<Made>> create(Caller caller, Spot directory, std::string name, createtype4 type,
                                   SetAttributes changes, std::string text, const char* what);
  // Each of these ends with ErrorKind::unknown_outcome if its session is lost while it is under way.
  async::Task<Result<Made>> create_once(Caller caller, Spot directory, std::string name, createtype4 type,
                                        SetAttributes changes, const char* what);
  async::Task<Result<std::optional<Attributes>>> remove_once(Caller caller, Spot directory, std::string name);
  async::Task<Result<Renamed>> rename_once(Caller caller, Spot from, std::string old_name, Spot to,
                                           std::string new_name);
  async::Task<Result<Made>> link_once(Caller caller, Spot object, Spot directory, std::string name);
  async::Task<Status> set_xattr_once(Caller caller, FileHandle object, std::string name,
                                     std::vector<std::byte> value, XattrMode mode);
  async::Task<Status> remove_xattr_once(Caller caller, FileHandle object, std::string name);

  engine::DirectoryStamps<std::uint64_t> stamps_;
};

template <class Out, std::size_t n, class Add, class Take>
async::Task<Result<Out>> ObjectOperations::at(Caller caller, std::array<Spot*, n> spots, std::string text,
                                              const char* what, Add add, Take take) {
  Out out{};
  const auto take_out = [&](CompoundReply& reply) {
    out = Out{};  // an earlier try may have filled it in part
    return take(reply, out);
  };
  auto done = co_await at_spots(std::move(caller), spots, std::move(text), what, add, take_out);
  if (!done) co_return done.error();
  co_return std::move(out);
}

// ---- for other files whose COMPOUNDs end in attributes (open_files.cpp, file_data.cpp) ----

/// Adds a GETATTR of public_attributes(), and takes its result or that of a GETATTR of fewer. take_getattr()
/// returns false if the Reply cannot be decoded. If the server refused, it returns true and `out` is empty.
void add_getattr(Compound& compound);
bool take_getattr(CompoundReply& reply, std::optional<Attributes>& out);

}  // namespace nfsrdma::nfs4
