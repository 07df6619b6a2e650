// See sync_report.h.
#include "cli/sync_report.h"

#include <algorithm>
#include <array>

#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

constexpr std::array<const char*, 4> action_names{"copy", "mkdir", "set", "delete"};

const char* name_of(SyncAction action) {
  return action_names.at(static_cast<std::size_t>(action));
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

SyncReport::SyncReport(const Call& call, Tree& tree, bool is_dry)
    : call_(call), tree_(tree), is_dry_(is_dry), has_lines_(call.json() || is_dry || call.has("verbose")) {}

void SyncReport::looked_at(std::uint64_t entries) {
  const std::lock_guard lock(mutex_);
  sums_.looked_at += entries;
}

void SyncReport::unchanged() {
  const std::lock_guard lock(mutex_);
  ++sums_.unchanged;
}

void SyncReport::did(SyncAction action, const std::string& path, const char* reason, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const std::array<std::uint64_t*, action_names.size()> counts{&sums_.copied, &sums_.directories,
                                                                 &sums_.changed, &sums_.removed};
    ++*counts.at(static_cast<std::size_t>(action));
    sums_.bytes += bytes;
  }
  if (!has_lines_) return;
  if (call_.json()) {
    json::Object object;
    object.text("action", name_of(action)).text("path", path);
    if (*reason != '\0') object.text("reason", reason);
    if (action == SyncAction::copy) object.number("bytes", bytes);
    tree_.line(object.boolean("dry_run", is_dry_).str());
    return;
  }
  const std::string why = *reason == '\0' ? "" : std::string(" (") + reason + ")";
  tree_.line(left(name_of(action), 6) + " " + call_.shown(path) + why);
}

double SyncReport::seconds() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begun_;
  return std::max(elapsed.count(), 1e-6);
}

std::string SyncReport::text() const {
  const double elapsed = seconds();
  std::string out = is_dry_ ? "dry run: " : "";
  out += counted(sums_.looked_at, "file", "files") + " looked at: " + std::to_string(sums_.copied) +
         " copied (" + binary_size(static_cast<double>(sums_.bytes)) + "), " +
         std::to_string(sums_.unchanged) + " unchanged, " + std::to_string(sums_.changed) +
         " with new mode or times, " + std::to_string(sums_.removed) + " deleted, " +
         std::to_string(tree_.failures()) + " failed; " + fixed(elapsed, 2) + " s";
  if (sums_.bytes != 0 && !is_dry_)
    out += ", " + binary_size(static_cast<double>(sums_.bytes) / elapsed) + "/s";
  return out;
}

std::string SyncReport::json() const {
  const double elapsed = seconds();
  return json::Object()
      .text("action", "summary")
      .number("files", sums_.looked_at)
      .number("copied", sums_.copied)
      .number("bytes", sums_.bytes)
      .number("unchanged", sums_.unchanged)
      .number("changed", sums_.changed)
      .number("directories", sums_.directories)
      .number("deleted", sums_.removed)
      .number("failed", tree_.failures())
      .raw("seconds", fixed(elapsed, 6))
      .raw("bytes_per_second", fixed(static_cast<double>(sums_.bytes) / elapsed, 0))
      .boolean("dry_run", is_dry_)
      .str();
}

void SyncReport::finish() {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    line = call_.json() ? json() : text();
  }
  if (call_.json() || !call_.has("quiet")) tree_.line(line);
}

}  // namespace nfsrdma::cli
