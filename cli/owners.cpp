// See owners.h.
#include "cli/owners.h"

#include <grp.h>
#include <pwd.h>

namespace nfsrdma::cli {
namespace {

constexpr std::size_t most_remembered = 1024;

std::string look_up_user(std::uint32_t id) {
  const passwd* entry = getpwuid(id);
  return entry != nullptr ? entry->pw_name : std::to_string(id);
}

std::string look_up_group(std::uint32_t id) {
  const ::group* entry = getgrgid(id);
  return entry != nullptr ? entry->gr_name : std::to_string(id);
}

}  // namespace

std::string Owners::name(const std::string& text, const std::optional<std::uint32_t>& id, Names& names,
                         std::string (*look_up)(std::uint32_t)) const {
  if (numeric_) return id ? std::to_string(*id) : text;
  if (const std::size_t at = text.find('@'); at != std::string::npos && at != 0) return text.substr(0, at);
  if (!id) return text.empty() ? "?" : text;
  if (const auto found = names.find(*id); found != names.end()) return found->second;
  if (names.size() >= most_remembered) names.clear();
  return names[*id] = look_up(*id);
}

std::string Owners::user(const Attributes& attributes) {
  return name(attributes.owner, attributes.uid, users_, look_up_user);
}

std::string Owners::group(const Attributes& attributes) {
  return name(attributes.group, attributes.gid, groups_, look_up_group);
}

}  // namespace nfsrdma::cli
