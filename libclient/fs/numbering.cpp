#include "fs/numbering.h"

namespace nfsrdma::fs {
namespace {

constexpr unsigned kPrefixShift = 48;
/// Set in every mask, so that no mask is zero, the mask of the export's own file system.
constexpr std::uint64_t kForeign = 1ULL << 63U;
/// The limit of remembered file systems: with half of the prefixes taken, the search for a free one still
/// ends at once, and a server that invents file systems gets no more memory than that.
constexpr std::size_t kMostFilesystems = 1U << 14U;

std::uint64_t hash_of(std::uint64_t major, std::uint64_t minor) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  return (major * kOdd + minor) * kOdd;
}

}  // namespace

Numbering::Numbering(const std::optional<Attributes>& root) {
  if (root) root_.emplace(root->filesystem_major, root->filesystem_minor);
}

std::uint64_t Numbering::mask_of(const FilesystemId& id) {
  if (const auto known = masks_.find(id); known != masks_.end()) return known->second;
  std::uint64_t mask = hash_of(id.first, id.second) | kForeign;
  if (masks_.size() >= kMostFilesystems) return mask;
  for (std::uint64_t salt = 1; prefixes_.contains(mask >> kPrefixShift); ++salt) {
    mask = hash_of(id.first + salt, id.second ^ mask) | kForeign;
  }
  prefixes_.insert(mask >> kPrefixShift);
  masks_.emplace(id, mask);
  return mask;
}

Attributes Numbering::numbered(Attributes attributes) {
  const FilesystemId id(attributes.filesystem_major, attributes.filesystem_minor);
  if (root_ && attributes.type != FileType::unknown && id != *root_) attributes.file_id ^= mask_of(id);
  return attributes;
}

}  // namespace nfsrdma::fs
