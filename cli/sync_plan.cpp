// See sync_plan.h.
#include "cli/sync_plan.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace nfsrdma::cli {
namespace {

/// The steps in which file systems and versions of NFS store times, in nanoseconds.
constexpr std::array<std::uint32_t, 4> time_steps{100, 1'000, 1'000'000, 1'000'000'000};

bool has_other_owner(const Attributes& source, const Attributes& copy) {
  if (!gives_files_away()) return false;
  return (source.uid && copy.uid && source.uid != copy.uid) ||
         (source.gid && copy.gid && source.gid != copy.gid);
}

Verdict judge_update(const Attributes& source, const Attributes& there, const char*& reason) {
  if (is_up_to_date(source, there)) return Verdict::unchanged;
  reason = source.size == there.size ? "time" : "size";
  return Verdict::copy;
}

Verdict judge_file(const Attributes& source, const Attributes& there, const SyncRules& rules,
                   const char*& reason) {
  if (rules.compare == Compare::update) return judge_update(source, there, reason);
  reason = "size";
  if (source.size != there.size) return Verdict::copy;
  if (rules.compare == Compare::contents) return Verdict::compare_contents;
  reason = "time";
  if (!are_same_times(source.modified, there.modified)) return Verdict::copy;
  return have_other_traits(source, there, rules.keep) ? Verdict::set_traits : Verdict::unchanged;
}

}  // namespace

bool are_same_times(const Time& one, const Time& other) {
  if (one.seconds != other.seconds) return false;
  if (one.nanoseconds == other.nanoseconds) return true;
  return std::ranges::any_of(time_steps, [&](std::uint32_t step) {
    const std::uint32_t first = one.nanoseconds / step * step, second = other.nanoseconds / step * step;
    return first == second && (first == one.nanoseconds || second == other.nanoseconds);
  });
}

bool have_other_traits(const Attributes& source, const Attributes& copy, Keep keep) {
  if (keep == Keep::nothing) return false;
  if (!are_same_times(source.modified, copy.modified)) return true;
  if (keep != Keep::everything) return false;
  const bool has_other_owner_too = has_other_owner(source, copy);
  // A copy whose owner could not be kept has no set-id bits either (traits.h).
  const std::uint32_t compared = has_other_owner_too ? ~kSetIds : ~0U;
  return (source.mode & compared) != (copy.mode & compared) || has_other_owner_too;
}

bool is_up_to_date(const Attributes& source, const Attributes& copy) {
  const bool is_older = copy.modified < source.modified && !are_same_times(copy.modified, source.modified);
  return source.size == copy.size && !is_older;
}

SyncStep judge(const TreeEntry& source, const Attributes* there, const SyncRules& rules) {
  SyncStep out{source};
  if (there != nullptr) out.there = *there;
  const FileType type = source.attributes.type;
  if (type == FileType::directory) {
    out.verdict = Verdict::directory;
  } else if (type != FileType::regular && type != FileType::symlink) {
    out.verdict = Verdict::unsupported;
  } else if (there == nullptr || out.is_blocked()) {
    out.verdict = Verdict::copy;
    out.reason = there == nullptr ? "new" : "type";
  } else if (type == FileType::symlink) {
    out.verdict = Verdict::compare_texts;
    out.reason = "text";
  } else {
    out.verdict = judge_file(source.attributes, *there, rules, out.reason);
    if (rules.keep != Keep::everything) out.source.kept_mode = there->mode & kPermissions;
  }
  return out;
}

SyncPlan make_plan(const std::vector<TreeEntry>& source, const std::vector<TreeEntry>& there,
                   const SyncRules& rules) {
  std::unordered_map<std::string_view, const Attributes*> found;
  for (const TreeEntry& one : there) found.emplace(one.name, &one.attributes);
  SyncPlan plan;
  std::unordered_set<std::string_view> known;
  for (const TreeEntry& one : source) {
    known.insert(one.name);
    const auto at = found.find(one.name);
    plan.steps.push_back(judge(one, at == found.end() ? nullptr : at->second, rules));
  }
  for (const TreeEntry& one : there) {
    if (!known.contains(one.name)) plan.extraneous.push_back(one);
  }
  return plan;
}

}  // namespace nfsrdma::cli
