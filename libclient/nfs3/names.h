// The engine's operations on names and objects in NFSv3 (RFC 1813 3.3); Nfs3Engine (engine.h) adds files. A server of
// NFSv2 is spoken to in the same words, which nfs2/translation.h puts into its own.
//
// NFSv3 has one object for each call: names on the way to an object are looked up one after the other. Where they
// begin at the server's root, Roots knows the export's handle. Attributes come along with most answers, as they
// are behind the operation ("weak cache consistency", RFC 1813 2.6); where they did not, there are none, to be
// asked for again.
//
// A lost answer. A call is sent again when its connection was lost, and the server may execute it twice: its
// memory of recent calls is bounded, and gone after a restart (RFC 1813 4.8). Then one's own MKDIR is answered
// EXIST, one's own REMOVE NOENT. Where the call was sent more than once and is refused like that, the directory's
// time of change and the names tell (outcome.cpp).
//
// Confined to the loop's thread. Arguments are taken by value: a task may outlive what it was called with.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/directory_stamps.h"
#include "engine/engine.h"
#include "engine/modifications.h"
#include "engine/roots.h"
#include "nfs3/above.h"
#include "nfs3/convert.h"
#include "nfs3/dialect.h"
#include "nfs3/types/acl.h"
#include "nfs3/types/procedures.h"

namespace nfsrdma::nfs3 {

using namespace engine;  // NOLINT: what these files say in the words of all versions

/// What the server says of a file system once (RFC 1813 3.3.19, 3.3.20).
struct Limits {
  std::uint32_t most_read = 1U << 20;
  std::uint32_t most_written = 1U << 20;
  std::uint32_t page = 64U << 10;  ///< of a directory
  std::uint64_t largest_file = ~std::uint64_t{0};
  std::uint32_t longest_name = 255;
};

class Names : public Engine {
 public:
  /// `version`: of NFS, 3 or 2.
  Names(ProcedureCalls& calls, Roots& roots, unsigned version);

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
                                      std::string new_name) override;
  async::Task<Result<Page>> list(Caller caller, Spot directory, std::uint64_t cookie,
                                 ListVerifier verifier) override;

  // ---- NFSv3 has none: EOPNOTSUPP ----

  async::Task<Result<std::vector<std::byte>>> get_xattr(Caller caller, FileHandle object,
                                                        std::string name) override;
  async::Task<Status> set_xattr(Caller caller, FileHandle object, std::string name,
                                std::vector<std::byte> value, XattrMode mode) override;
  async::Task<Status> remove_xattr(Caller caller, FileHandle object, std::string name) override;
  async::Task<Result<std::vector<std::string>>> list_xattrs(Caller caller, FileHandle object) override;

  // ---- acls.cpp: NFSACL, beside NFSv3 on the same connection ----

  AclForm acl_form() const override { return AclForm::posix; }
  async::Task<Result<bool>> has_acls(Caller caller, FileHandle object) override;
  async::Task<Result<Acl>> get_acl(Caller caller, FileHandle object) override;
  async::Task<Status> set_acl(Caller caller, FileHandle object, Acl acl) override;

  // ---- what the others are made of ----

  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// FSINFO and PATHCONF of the file system that the object is on. From then on they bound what is asked for.
  async::Task<Status> learn_limits(FileHandle object);

 protected:
  template <class P>
  async::Task<Result<Answer<P>>> ask(Caller caller, typename P::Args args, std::span<std::byte> into = {}) {
    if (!has_good_names(args)) return refused<P>(NFS3ERR_NAMETOOLONG);
    return dialect_.ask<P>(std::move(caller), std::move(args), into);
  }
  /// The server's bound (PATHCONF). Asked for a longer name, some find the call itself malformed.
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
  /// No object: there is no such name, as of the directory's attributes.
  struct Looked {
    std::optional<Object> object;
    std::optional<Attributes> directory;
  };
  async::Task<Result<Looked>> lookup(Caller caller, FileHandle directory, std::string name, std::string text);
  /// The handle that the names lead to.
  async::Task<Result<Object>> walk(Caller caller, Spot spot);
  /// The same for what the server is asked about: EROFS for a directory above its exports.
  async::Task<Result<FileHandle>> handle_of(Caller caller, Spot spot);
  /// What is made, as somebody sees it who looks at it.
  struct Expected {
    FileType type = FileType::unknown;
    std::optional<std::uint32_t> mode;
    std::string text;  ///< of a symbolic link
  };
  /// CREATE, MKDIR, SYMLINK or MKNOD with `args`, in which the place is yet to be filled in.
  template <class P>
  async::Task<Result<Made>> make(Caller caller, Spot directory, std::string name, typename P::Args args,
                                 Expected expected);
  /// CREATE that fails where the name is taken.
  async::Task<Result<Made>> make_file(Caller caller, Spot directory, std::string name, std::uint32_t mode);
  /// Everything that a success tells.
  async::Task<Result<Made>> made(Caller caller, FileHandle directory, std::string name, made3resok ok,
                                 std::string text);
  /// Notes what an answer says of a directory.
  void saw(const FileHandle& directory, const post_op_attr& attributes) {
    if (attributes) directories_.seen(directory, attributes->ctime, calls_.loop().now());
  }

  // ---- outcome.cpp: what became of a call that was sent more than once ----

  /// `before`: DirectoryStamps::of() it, from before the call was sent first.
  struct Doubt {
    std::uint32_t sends = 1;
    std::optional<nfstime3> before;
  };
  /// Whether the call may have been executed before it was refused, as the directory looks behind it.
  static bool may_have_been_done(const Doubt& doubt, const post_op_attr& directory);
  async::Task<bool> is_as_made(Caller caller, Object object, Expected expected);

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
  async::Task<Result<Page>> list_once(Caller caller, FileHandle directory, std::uint64_t cookie,
                                      ListVerifier verifier);
  async::Task<Result<Page>> list_above(Above::Names names);
  Above above_;
  bool knows_limits_ = false;
  bool lists_plainly_ = false;  // the server has no READDIRPLUS
  template <class P>
  async::Task<Result<Answer<P>>> ask_for_acl(Caller caller, typename P::Args args);
  bool has_acls_ = true;  // until the server says that it has no NFSACL
};

/// Of what NFSv3 has no procedure for.
Error unsupported(const char* what, std::string peer);
/// Of what would change a directory above the server's exports (above.h).
Error above_error(const std::string& text);

}  // namespace nfsrdma::nfs3
