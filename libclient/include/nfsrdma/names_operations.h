// The operations on names, each as one call of the C interface; many_operations.h has those on many files at
// once. Names makes blocking and started calls of them; calling.h describes the mechanism.
//
// Thread-safety: pure functions. Nothing in namespace api_detail is part of the interface.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfsrdma/acl.h"
#include "nfsrdma/calling.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/types.h"

namespace nfsrdma::api_detail {

// ---- attributes ----

inline auto stat_operation(nfsrdma_dir* dir, std::string_view path, bool follow) {
  return Operation(
      AttributesRoom(),
      on_path(path,
              [=, flags = follow_flags(follow)](const char* text, AttributesRoom& room, How how) {
                return nfsrdma_stat(dir, text, flags, room.ready(), how.call, how.error);
              }),
      AsValue{[](const AttributesRoom& room, std::int64_t) { return room.value(); }});
}

inline auto set_attributes_operation(nfsrdma_dir* dir, std::string_view path, const SetAttributes& changes,
                                     bool follow) {
  return Operation(
      c_changes(changes),
      on_path(path,
              [=, flags = follow_flags(follow)](const char* text, const nfsrdma_changes& wanted, How how) {
                return nfsrdma_set_attributes(dir, text, flags, &wanted, how.call, how.error);
              }),
      AsStatus{});
}

inline auto access_operation(nfsrdma_dir* dir, std::string_view path, unsigned wanted) {
  return Operation(
      Nothing{},
      on_path(path, [=](const char* text, Nothing&,
                        How how) { return nfsrdma_access(dir, text, wanted, how.call, how.error); }),
      AsNumber<unsigned>{});
}

inline auto space_operation(nfsrdma_dir* dir, std::string_view path) {
  return Operation(
      sized<nfsrdma_space>(),
      on_path(path, [=](const char* text, nfsrdma_space& space,
                        How how) { return nfsrdma_statfs(dir, text, &space, how.call, how.error); }),
      AsValue{[](const nfsrdma_space& space, std::int64_t) { return space_from(space); }});
}

// ---- texts and values whose length is not known before ----

/// Rooms for a value: as large as Linux lets a path or an extended attribute be, and the largest that
/// run_growing() tries.
constexpr std::size_t kPathRoom = 4096, kXattrRoom = 64U << 10, kMostRoom = 16U << 20;

/// Makes the blocking call of make(room), with more and more room until the value fits.
template <class Make>
auto run_growing(Make make, std::size_t room, const CallOptions& options) {
  auto result = run(make(room), options);
  while (!result && result.error().errno_value() == ERANGE && room < kMostRoom) {
    room *= 16;
    result = run(make(room), options);
  }
  return result;
}

inline auto read_link_operation(nfsrdma_dir* dir, std::string_view path, std::size_t room) {
  return Operation(std::string(room, '\0'),
                   on_path(path,
                           [=](const char* text, std::string& out, How how) {
                             return nfsrdma_readlink(dir, text, out.data(), out.size(), how.call, how.error);
                           }),
                   AsValue{[](const std::string& out, std::int64_t length) {
                     return out.substr(0, static_cast<std::size_t>(length));
                   }});
}

inline auto get_xattr_operation(nfsrdma_dir* dir, std::string_view path, std::string_view name, bool follow,
                                std::size_t room) {
  using Value = std::vector<std::byte>;
  return Operation(
      Value(room),
      on_texts(path, name,
               [=, flags = follow_flags(follow)](const char* text, const char* key, Value& value, How how) {
                 return nfsrdma_get_xattr(dir, text, flags, key, value.data(), value.size(), how.call,
                                          how.error);
               }),
      AsValue{[](const Value& value, std::int64_t length) {
        return Value(value.begin(), value.begin() + length);
      }});
}

inline auto list_xattrs_operation(nfsrdma_dir* dir, std::string_view path, bool follow, std::size_t room) {
  return Operation(
      std::string(room, '\0'),
      on_path(path,
              [=, flags = follow_flags(follow)](const char* text, std::string& names, How how) {
                return nfsrdma_list_xattrs(dir, text, flags, names.data(), names.size(), how.call, how.error);
              }),
      AsValue{[](const std::string& names, std::int64_t length) {
        std::string_view left = std::string_view(names).substr(0, static_cast<std::size_t>(length));
        std::vector<std::string> out;
        while (!left.empty()) {
          out.emplace_back(left.substr(0, left.find('\0')));
          left.remove_prefix(std::min(left.size(), out.back().size() + 1));
        }
        return out;
      }});
}

// ---- extended attributes and access control lists ----

inline auto set_xattr_operation(nfsrdma_dir* dir, std::string_view path, std::string_view name,
                                std::span<const std::byte> value, XattrMode mode, bool follow) {
  std::uint32_t how_to_set = 0;
  if (mode == XattrMode::create) how_to_set = NFSRDMA_XATTR_CREATE;
  if (mode == XattrMode::replace) how_to_set = NFSRDMA_XATTR_REPLACE;
  return Operation(
      Nothing{},
      on_texts(path, name,
               [=, flags = follow_flags(follow)](const char* text, const char* key, Nothing&, How how) {
                 return nfsrdma_set_xattr(dir, text, flags, key, value.data(), value.size(), how_to_set,
                                          how.call, how.error);
               }),
      AsStatus{});
}

inline auto remove_xattr_operation(nfsrdma_dir* dir, std::string_view path, std::string_view name,
                                   bool follow) {
  return Operation(
      Nothing{},
      on_texts(path, name,
               [=, flags = follow_flags(follow)](const char* text, const char* key, Nothing&, How how) {
                 return nfsrdma_remove_xattr(dir, text, flags, key, how.call, how.error);
               }),
      AsStatus{});
}

inline auto get_acl_operation(nfsrdma_dir* dir, std::string_view path, bool follow) {
  return Operation(OwnedAcl(),
                   on_path(path,
                           [=, flags = follow_flags(follow)](const char* text, OwnedAcl& acl, How how) {
                             return nfsrdma_get_acl(dir, text, flags, acl.room(), how.call, how.error);
                           }),
                   AsValue{[](const OwnedAcl& acl, std::int64_t) { return acl_from(acl.get()); }});
}

/// Sets an access control list. A list that the C interface cannot take is an Error of the call.
class SetAcl {
 public:
  SetAcl(nfsrdma_dir* dir, std::string_view path, const Acl& acl, bool follow)
      : dir_(dir), path_(path), acl_(c_acl(acl)), flags_(follow_flags(follow)) {}
  [[nodiscard]] std::optional<Error> fault() const {
    if (!acl_) return acl_.error();
    if (has_nul(path_)) return nul_error(path_);
    return std::nullopt;
  }
  std::int64_t operator()(Nothing&, How how) {
    return nfsrdma_set_acl(dir_, path_.c_str(), flags_, acl_->get(), how.call, how.error);
  }

 private:
  nfsrdma_dir* dir_;
  std::string path_;
  Result<OwnedAcl> acl_;
  std::uint32_t flags_;
};
inline auto set_acl_operation(nfsrdma_dir* dir, std::string_view path, const Acl& acl, bool follow) {
  return Operation(Nothing{}, SetAcl(dir, path, acl, follow), AsStatus{});
}

// ---- making, removing and renaming ----

inline auto make_directory_operation(nfsrdma_dir* dir, std::string_view path, std::uint32_t mode) {
  return Operation(
      Nothing{},
      on_path(path, [=](const char* text, Nothing&,
                        How how) { return nfsrdma_mkdir(dir, text, mode, how.call, how.error); }),
      AsStatus{});
}

inline auto make_node_operation(nfsrdma_dir* dir, std::string_view path, FileType type, std::uint32_t mode,
                                std::uint32_t major, std::uint32_t minor) {
  return Operation(Nothing{},
                   on_path(path,
                           [=](const char* text, Nothing&, How how) {
                             return nfsrdma_mknod(dir, text, static_cast<std::uint32_t>(type), mode, major,
                                                  minor, how.call, how.error);
                           }),
                   AsStatus{});
}

inline auto symlink_operation(nfsrdma_dir* dir, std::string_view text, std::string_view created) {
  return Operation(Nothing{},
                   on_texts(text, created,
                            [=](const char* content, const char* path, Nothing&, How how) {
                              return nfsrdma_symlink(dir, content, path, how.call, how.error);
                            }),
                   AsStatus{});
}

inline auto remove_file_operation(nfsrdma_dir* dir, std::string_view path) {
  return Operation(Nothing{},
                   on_path(path, [=](const char* text, Nothing&,
                                     How how) { return nfsrdma_unlink(dir, text, how.call, how.error); }),
                   AsStatus{});
}

inline auto remove_directory_operation(nfsrdma_dir* dir, std::string_view path) {
  return Operation(Nothing{},
                   on_path(path, [=](const char* text, Nothing&,
                                     How how) { return nfsrdma_rmdir(dir, text, how.call, how.error); }),
                   AsStatus{});
}

inline auto rename_operation(nfsrdma_dir* from_dir, std::string_view from, nfsrdma_dir* to_dir,
                             std::string_view to) {
  return Operation(Nothing{},
                   on_texts(from, to,
                            [=](const char* old_path, const char* new_path, Nothing&, How how) {
                              return nfsrdma_rename(from_dir, old_path, to_dir, new_path, how.call,
                                                    how.error);
                            }),
                   AsStatus{});
}

inline auto link_operation(nfsrdma_dir* existing_dir, std::string_view existing, nfsrdma_dir* created_dir,
                           std::string_view created) {
  return Operation(Nothing{},
                   on_texts(existing, created,
                            [=](const char* old_path, const char* new_path, Nothing&, How how) {
                              return nfsrdma_link(existing_dir, old_path, created_dir, new_path, how.call,
                                                  how.error);
                            }),
                   AsStatus{});
}

// ---- opening: `made` makes the C++ object of the one that the C interface has opened ----

inline std::uint32_t open_flags(OpenMode mode, const OpenFlags& flags) {
  unsigned out = mode == OpenMode::read    ? NFSRDMA_READ
                 : mode == OpenMode::write ? NFSRDMA_WRITE
                                           : NFSRDMA_READ | NFSRDMA_WRITE;
  if (flags.create) out |= NFSRDMA_CREATE;
  if (flags.exclusive) out |= NFSRDMA_EXCLUSIVE;
  if (flags.truncate) out |= NFSRDMA_TRUNCATE;
  return out;
}

template <class Made>
auto open_operation(nfsrdma_dir* dir, std::string_view path, OpenMode mode, const OpenFlags& flags,
                    const Made& made) {
  return Operation(OwnedFile(),
                   on_path(path,
                           [dir, how_to_open = open_flags(mode, flags), permissions = flags.mode](
                               const char* text, OwnedFile& file, How how) {
                             return nfsrdma_open(dir, text, how_to_open, permissions, file.room(), how.call,
                                                 how.error);
                           }),
                   AsValue{[made](OwnedFile& file, std::int64_t) { return made(file.release()); }});
}

template <class Made>
auto open_directory_operation(nfsrdma_dir* dir, std::string_view path, const Made& made) {
  return Operation(
      OwnedDirectory(),
      on_path(path, [=](const char* text, OwnedDirectory& opened,
                        How how) { return nfsrdma_open_dir(dir, text, opened.room(), how.call, how.error); }),
      AsValue{[made](OwnedDirectory& opened, std::int64_t) { return made(opened.release()); }});
}

}  // namespace nfsrdma::api_detail
