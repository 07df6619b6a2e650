// How values of the C interface (nfsrdma.h) become values of C++ and back. The other headers use this one; a
// program needs it only if it calls the C interface itself.
//
// Thread-safety: pure functions. Nothing in namespace api_detail is part of the interface.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// Returns the Error that a function of the C interface has stored. The caller still frees `error`. A null
/// pointer, which a failed function leaves if there was no memory for an error, becomes ENOMEM.
inline Error error_from(const nfsrdma_error* error) {
  if (error == nullptr) return {ErrorKind::local, ENOMEM, "", "", "no memory; free some and try again"};
  return {static_cast<ErrorKind>(nfsrdma_error_kind(error)),
          nfsrdma_error_errno(error),
          nfsrdma_error_status(error),
          nfsrdma_error_operation(error),
          nfsrdma_error_peer(error),
          nfsrdma_error_message(error)};
}

namespace api_detail {

/// Owns an object of the C interface, and is room for a function that stores one.
template <class T, void (*Free)(T*)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) Free(object_);
  }
  [[nodiscard]] T* get() const { return object_; }
  /// Returns where a function is to store the object. Nothing may be owned yet.
  T** room() { return &object_; }
  T* release() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

using OwnedError = Owned<nfsrdma_error, nfsrdma_error_free>;
using OwnedFile = Owned<nfsrdma_file, nfsrdma_file_free>;
using OwnedDirectory = Owned<nfsrdma_dir, nfsrdma_dir_free>;
using OwnedListing = Owned<nfsrdma_listing, nfsrdma_listing_free>;
using OwnedAcl = Owned<nfsrdma_acl, nfsrdma_acl_free>;

/// Returns a struct of the C interface that may grow, with its size set and everything else 0.
template <class T>
T sized() {
  T out{};
  out.struct_size = sizeof out;
  return out;
}

/// Returns true if the text would end early as a text of C, which ends at its first zero.
inline bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}
inline Error nul_error(std::string_view text) {
  return {ErrorKind::usage, EINVAL, "", std::string(text.substr(0, text.find('\0'))),
          "the text contains a NUL character; leave it out"};
}

/// Returns how long to wait at most, in milliseconds as the C interface takes them: -1 is for ever. A program
/// computes `most` from a deadline, which may have passed, so a negative time is none.
inline std::int64_t c_timeout(std::chrono::milliseconds most) {
  if (most == std::chrono::milliseconds::max()) return -1;
  return std::max<std::int64_t>(most.count(), 0);
}

inline Time time_from(const nfsrdma_time& time) {
  return {time.seconds, time.nanoseconds};
}
inline nfsrdma_time c_time(const Time& time) {
  return {time.seconds, time.nanoseconds, 0};
}

inline Attributes attributes_from(const nfsrdma_attributes& from) {
  Attributes out;
  out.type = static_cast<FileType>(from.type);
  out.mode = from.mode;
  out.links = from.links;
  if (from.owner != nullptr) out.owner = from.owner;
  if (from.group != nullptr) out.group = from.group;
  if ((from.has & NFSRDMA_HAS_UID) != 0) out.uid = from.uid;
  if ((from.has & NFSRDMA_HAS_GID) != 0) out.gid = from.gid;
  out.size = from.size;
  out.space_used = from.space_used;
  out.file_id = from.file_id;
  out.change = from.change;
  out.filesystem_major = from.filesystem_major;
  out.filesystem_minor = from.filesystem_minor;
  out.device_major = from.device_major;
  out.device_minor = from.device_minor;
  out.accessed = time_from(from.accessed);
  out.modified = time_from(from.modified);
  out.changed = time_from(from.changed);
  return out;
}

/// Room for attributes together with the names of owner and group.
class AttributesRoom {
 public:
  // The texts are not zeroed as a whole, because they are large and most of them is never used.
  AttributesRoom() {  // NOLINT(cppcoreguidelines-pro-type-member-init)
    owner_[0] = group_[0] = '\0';
  }
  /// Makes `attributes` lead to this room, which must not move from then on.
  void provide(nfsrdma_attributes& attributes) {
    attributes.owner = owner_.data();
    attributes.owner_room = owner_.size();
    attributes.group = group_.data();
    attributes.group_room = group_.size();
  }
  nfsrdma_attributes* ready() {
    provide(attributes_);
    return &attributes_;
  }
  [[nodiscard]] Attributes value() const { return attributes_from(attributes_); }

 private:
  static constexpr std::size_t kNameRoom = 512;  // a name and a domain of 255 bytes each
  nfsrdma_attributes attributes_ = sized<nfsrdma_attributes>();
  std::array<char, kNameRoom> owner_;
  std::array<char, kNameRoom> group_;
};

inline nfsrdma_changes c_changes(const SetAttributes& from) {
  auto out = sized<nfsrdma_changes>();
  const auto take = [&out](const auto& value, auto& member, std::uint32_t flag) {
    if (!value) return;
    out.set |= flag;
    member = *value;
  };
  take(from.mode, out.mode, NFSRDMA_SET_MODE);
  take(from.uid, out.uid, NFSRDMA_SET_UID);
  take(from.gid, out.gid, NFSRDMA_SET_GID);
  take(from.size, out.size, NFSRDMA_SET_SIZE);
  const auto take_time = [&out](const std::optional<Time>& value, bool is_now, nfsrdma_time& member,
                                std::uint32_t flag, std::uint32_t flag_now) {
    if (value) member = c_time(*value);
    out.set |= is_now ? flag_now : value ? flag : 0U;
  };
  take_time(from.accessed, from.accessed_now, out.accessed, NFSRDMA_SET_ACCESSED, NFSRDMA_SET_ACCESSED_NOW);
  take_time(from.modified, from.modified_now, out.modified, NFSRDMA_SET_MODIFIED, NFSRDMA_SET_MODIFIED_NOW);
  return out;
}

inline FilesystemSpace space_from(const nfsrdma_space& from) {
  return {from.total, from.free, from.available, from.files_total, from.files_free, from.files_available};
}

inline nfsrdma_lock c_lock(std::uint64_t owner, const LockRange& range, bool is_exclusive) {
  auto out = sized<nfsrdma_lock>();
  out.owner = owner;
  out.write = is_exclusive ? 1 : 0;
  out.offset = range.offset;
  out.length = range.length;
  return out;
}
inline LockHolder lock_holder_from(const nfsrdma_lock& from) {
  return {{from.offset, from.length}, from.write != 0, from.ours != 0, from.owner};
}

inline std::uint32_t follow_flags(bool follow) {
  return follow ? 0U : static_cast<std::uint32_t>(NFSRDMA_NO_FOLLOW);
}

}  // namespace api_detail
}  // namespace nfsrdma
