// The engine's operations on names and objects in NFSv3 (RFC 1813 3.3); Nfs3Engine (engine.h) adds files. A
// server that speaks NFSv2 is asked with the same types, which nfs2/translation.h translates.
//
// An NFSv3 call concerns one object, so the names on the way to an object are looked up one after the other.
// If a path begins at the server's root, Roots finds the export's handle. Most answers carry attributes, as
// they are after the operation ("weak cache consistency", RFC 1813 2.6); if an answer has none, the caller
// may ask for them.
//
// Lost answers. A call is sent again when its connection was lost, and the server may execute it twice: its
// cache of recent calls is bounded, and lost in a restart (RFC 1813 4.8). Then this client's own MKDIR is
// answered EXIST, or its own REMOVE NOENT. If a call that was sent more than once is refused like that, the
// directory's time of change and the names decide whether it was done (outcome.cpp). If they do not tell of a
// RENAME, its Error says that the outcome is not known.
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/directory_stamps.h"
#include "engine/expected.h"
#include "engine/modifications.h"
#include "engine/roots.h"
#include "nfs3/above.h"
#include "nfs3/convert.h"
#include "nfs3/dialect.h"
#include "wire/nfs3/acl.h"
#include "wire/nfs3/procedures.h"

namespace nfsrdma::nfs3 {

using namespace engine;  // NOLINT: what these files say in the words of all versions

/// Limits that the server reports for a file system, asked for once (RFC 1813 3.3.19, 3.3.20).
struct Limits {
  std::uint32_t most_read = 1U << 20;
  std::uint32_t most_written = 1U << 20;
  std::uint32_t page = 64U << 10;  ///< size of one answer of READDIR or READDIRPLUS
  std::uint64_t largest_file = ~std::uint64_t{0};
  std::uint32_t longest_name = 255;
};

class ObjectOperations : public Engine {
 public:
  /// `version`: the NFS version, 3 or 2.
  ObjectOperations(ProcedureCalls& calls, Roots& roots, unsigned version);

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

  // ---- extended attributes, which NFSv3 does not have: EOPNOTSUPP ----

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                        std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) override;

  // ---- acls.cpp: NFSACL, a program next to NFSv3 on the same connections ----

  AclForm acl_form() const override { return AclForm::posix; }
  async::Task<Result<bool>> has_acls(Caller caller, FileHandle object) override;
  async::Task<Result<Acl>> get_acl(Caller caller, FileHandle object) override;
  async::Task<Status> set_acl(Caller caller, FileHandle object, Acl acl) override;

  // ---- helpers ----

  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// Asks FSINFO and PATHCONF, at the same time, for the file system of the object. From then on the answers
  /// limit all requests.
  async::Task<Status> learn_limits(FileHandle object);

 protected:
  template <class P>
  async::Task<Result<Answer<P>>> ask(Caller caller, typename P::Args args, std::span<std::byte> into = {}) {
    if (!has_good_names(args)) return refused<P>(NFS3ERR_NAMETOOLONG);
    return dialect_.ask<P>(std::move(caller), std::move(args), into);
  }
  /// Returns whether the name is within the server's limit (PATHCONF). Some servers treat a call with a
  /// longer name as malformed.
  [[nodiscard]] bool is_good(const diropargs3& place) const {
    return place.name.value.size() <= limits_.longest_name;
  }
  template <class Args>
  [[nodiscard]] bool has_good_names(const Args& args) const {
    if constexpr (requires { args.what.name; }) return is_good(args.what);
    if constexpr (requires { args.where.name; }) return is_good(args.where);
    if constexpr (requires { args.object.name; }) return is_good(args.object);
    if constexpr (requires { args.link.name; }) return is_good(args.link);
    if constexpr (requires { args.from.name; }) return is_good(args.from) && is_good(args.to);
    return true;
  }
  template <class P>
  static async::Task<Result<Answer<P>>> refused(nfsstat3 status) {
    Answer<P> out;
    if constexpr (requires { out.res.tag(); }) (void)out.res.select(status);
    co_return std::move(out);
  }
  /// The result of lookup(). No object means that the directory, in the state of its attributes here, has no
  /// such name.
  struct Looked {
    std::optional<Object> object;
    std::optional<Attributes> directory;
  };
  async::Task<Result<Looked>> lookup(Caller caller, FileHandle directory, std::string name, std::string text);
  /// Returns the object that the names lead to.
  async::Task<Result<Object>> walk(Caller caller, Spot spot);
  /// Like walk(), for a handle that the server knows: EROFS for a directory above its exports.
  async::Task<Result<FileHandle>> handle_of(Caller caller, Spot spot);
  using Expected = engine::Expected;
  /// Calls CREATE, MKDIR, SYMLINK or MKNOD with `args`, in which the place is filled in here.
  template <class P>
  async::Task<Result<Made>> make(Caller caller, Spot directory, std::string name, typename P::Args args,
                                 Expected expected);
  /// Calls CREATE so that it fails if the name is taken.
  async::Task<Result<Made>> make_file(Caller caller, Spot directory, std::string name, std::uint32_t mode);
  /// Turns the answer to a successful call into Made; looks up the handle if the answer has none.
  async::Task<Result<Made>> made(Caller caller, FileHandle directory, std::string name, made3resok ok,
                                 std::string text);
  /// Records the directory's time of change, which an answer has reported.
  void saw(const FileHandle& directory, const post_op_attr& attributes) {
    if (attributes) directories_.seen(directory, attributes->ctime, calls_.loop().now());
  }

  // ---- outcome.cpp: whether a call that was sent more than once was done ----

  /// `sends`: how often the call was sent. `before`: DirectoryStamps::of() the directory, before the call was
  /// sent first.
  struct Doubt {
    std::uint32_t sends = 1;
    std::optional<nfstime3> before;
  };
  /// Returns whether the call may have been executed before it was refused, judging by the directory's
  /// attributes after it.
  static bool may_be_own_effect(const Doubt& doubt, const post_op_attr& directory);
  /// The Error of a call that may have been executed before it was refused, where nothing tells whether it
  /// was.
  static Error unknown_outcome(const Error& refused);

  ProcedureCalls& calls_;
  Dialect dialect_;
  Roots& roots_;
  Limits limits_;
  engine::Modifications modifications_;
  engine::DirectoryStamps<nfstime3> directories_;

 private:
  template <class P>
  async::Task<Result<Page>> list_with(Caller caller, FileHandle directory, typename P::Args args);
  template <class P>
  async::Task<Result<std::optional<Attributes>>> remove_with(Caller caller, Spot directory, std::string name);
  async::Task<Status> look_at(Caller caller, std::shared_ptr<Page> page, std::size_t index);
  async::Task<void> ask_fsinfo(FileHandle object, Status& outcome);
  async::Task<void> ask_pathconf(FileHandle object, Status& outcome);
  async::Task<Result<Page>> list_once(Caller caller, FileHandle directory, std::uint64_t cookie,
                                      ListVerifier verifier);
  async::Task<Result<Page>> list_above(Above::Names names);
  Above above_;
  bool knows_limits_ = false;
  bool lists_plainly_ = false;  // the server does not have READDIRPLUS
  template <class P>
  async::Task<Result<Answer<P>>> ask_for_acl(Caller caller, typename P::Args args);
  bool has_acls_ = true;  // false once the server has said that it does not have NFSACL
};

/// The Error of an operation for which NFSv3 has no procedure.
Error unsupported(const char* what, std::string peer);
/// The Error of an operation that would change a directory above the server's exports (above.h).
Error above_error(const std::string& text);

}  // namespace nfsrdma::nfs3
