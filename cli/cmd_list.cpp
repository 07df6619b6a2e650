// ls: entries as the server sends them, one line each, or sorted (list_order.h).
//
// No column is fitted to its longest cell, and nothing is sorted unless an option asks for it, because that
// needs the whole directory in memory. -R remembers the names of subdirectories that are still to be visited, for each level of the
// path.
#include <algorithm>
#include <ctime>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/list_order.h"
#include "cli/owners.h"

namespace nfsrdma::cli {
namespace {

class Lister {
 public:
  Lister(Call& call, const ListOrder& order)
      : call_(call),
        order_(order),
        owners_(call.has("numeric")),
        json_(call.json()),
        long_(call.has("long") || call.has("numeric")),
        headed_(call.has("recursive") || call.arguments.operands.size() > 1),
        now_(std::time(nullptr)) {}

  /// Lists a target as soon as it is found, or with the others by list_sorted().
  Status list(const Remote& remote);
  /// Lists the targets that were kept: the files among them, and then the directories.
  void list_sorted();

 private:
  /// A target that waits for the others, because they are to be sorted.
  struct Kept {
    Remote remote;
    DirectoryEntry entry;
    bool is_listed = false;  ///< its contents are shown, and not itself
  };
  Status list_one(const Remote& remote, const Attributes& attributes, bool is_listed);
  Status directory(const Remote& remote);
  /// Shows all entries of a directory in the order of the options.
  Status sorted_entries(const Remote& remote, std::vector<std::string>& directories);
  bool entry(const Remote& parent, const DirectoryEntry& entry, std::vector<std::string>& directories);
  bool show(const Remote& remote, const std::string& name, const std::optional<Attributes>& attributes);
  [[nodiscard]] std::string json_line(const Remote& remote, const std::string& name,
                                      const std::optional<Attributes>& attributes);
  [[nodiscard]] std::string long_line(const Remote& remote, const std::string& name,
                                      const std::optional<Attributes>& attributes);
  [[nodiscard]] std::string shown(const std::string& name) const { return call_.shown(name); }
  /// "." and ".." of -a, which the protocol does not list.
  bool show_dots(const Remote& remote);
  void heading(const Remote& remote);

  Call& call_;
  const ListOrder order_;
  std::vector<Kept> kept_;
  Owners owners_;
  bool json_, long_, headed_;
  bool heading_follows_line_ = false;
  std::int64_t now_;
};

Status Lister::list(const Remote& remote) {
  // A link that is named stands for its directory, unless its own attributes are asked for, as with ls(1).
  const bool itself = call_.has("directory");
  const Result<Attributes> attributes = remote.client->stat(remote.path, !itself && !long_);
  if (!attributes) return attributes.error();
  const bool is_listed = attributes->type == FileType::directory && !itself;
  if (!order_.is_sorted()) return list_one(remote, *attributes, is_listed);
  kept_.push_back({remote, {remote.target(), 0, *attributes}, is_listed});
  return {};
}

Status Lister::list_one(const Remote& remote, const Attributes& attributes, bool is_listed) {
  if (is_listed) return directory(remote);
  show(remote, headed_ ? remote.text() : remote.path, attributes);
  heading_follows_line_ = true;
  return {};
}

void Lister::list_sorted() {
  std::ranges::stable_sort(kept_, [&](const Kept& one, const Kept& other) {
    if (one.is_listed != other.is_listed) return other.is_listed;
    return comes_before(order_, one.entry, other.entry);
  });
  for (const Kept& one : kept_) {
    if (!call_.going()) return;
    const Status listed = list_one(one.remote, *one.entry.attributes, one.is_listed);
    if (!listed) call_.failed_at(one.remote, listed.error());
  }
}

void Lister::heading(const Remote& remote) {
  if (!headed_ || json_) return;
  if (heading_follows_line_) call_.out.line("");
  call_.out.line(shown(remote.text()) + ":");
  heading_follows_line_ = true;
}

bool Lister::show_dots(const Remote& remote) {
  for (const char* name : {".", ".."}) {
    const Remote dot = remote.child(name);
    const Result<Attributes> attributes = remote.client->stat(dot.path);
    if (!show(dot, name, attributes ? std::optional(*attributes) : std::nullopt)) return false;
  }
  return true;
}

Status Lister::directory(const Remote& remote) {
  heading(remote);
  std::vector<std::string> directories;
  if (order_.is_sorted()) {
    if (Status status = sorted_entries(remote, directories); !status) return status;
  } else {
    if (call_.has("all") && !show_dots(remote)) return {};
    Status status = remote.client->list(
        remote.path, [&](const DirectoryEntry& found) { return entry(remote, found, directories); });
    if (!status) return status;
  }
  for (const std::string& name : directories) {
    if (!call_.going()) return {};
    // A directory that cannot be read does not keep the others from being listed.
    if (Status below = directory(remote.child(name)); !below) call_.failed(below.error());
  }
  return {};
}

Status Lister::sorted_entries(const Remote& remote, std::vector<std::string>& directories) {
  std::vector<DirectoryEntry> entries;
  if (call_.has("all")) entries = {{".", 0, {}}, {"..", 0, {}}};
  Status status = remote.client->list(remote.path, [&](const DirectoryEntry& found) {
    entries.push_back(found);
    return call_.going();
  });
  if (!status) return status;
  for (DirectoryEntry& one : entries) {
    if (one.attributes || !order_.needs_attributes()) continue;
    if (const auto asked = remote.client->stat(remote.child(one.name).path, false)) one.attributes = *asked;
  }
  sort_entries(order_, entries);
  for (const DirectoryEntry& one : entries) {
    if (!entry(remote, one, directories)) break;
  }
  return {};
}

bool Lister::entry(const Remote& parent, const DirectoryEntry& entry, std::vector<std::string>& directories) {
  const bool hidden = entry.name.starts_with('.') && !call_.has("all") && !call_.has("almost-all");
  if (hidden) return call_.going();
  const Remote child = parent.child(entry.name);
  std::optional<Attributes> attributes = entry.attributes;
  // A listing has no attributes of an export that requires another security flavor than the directory.
  if (!attributes && (long_ || json_ || call_.has("recursive"))) {
    if (const Result<Attributes> asked = child.client->stat(child.path, false)) attributes = *asked;
  }
  // An invalid name such as ".." would lead back here, and the listing would never end.
  const bool leads_down = attributes && attributes->type == FileType::directory && is_plain_name(entry.name);
  if (call_.has("recursive") && leads_down) directories.push_back(entry.name);
  return show(child, entry.name, attributes);
}

bool Lister::show(const Remote& remote, const std::string& name,
                  const std::optional<Attributes>& attributes) {
  if (json_) {
    call_.out.line(json_line(remote, name, attributes));
  } else {
    call_.out.line(long_ ? long_line(remote, name, attributes) : shown(name));
  }
  return call_.going();
}

std::string Lister::json_line(const Remote& remote, const std::string& name,
                              const std::optional<Attributes>& attributes) {
  json::Object out;
  out.text("name", name);
  if (headed_) out.text("path", remote.path);
  out.text("type", type_name(attributes ? attributes->type : FileType::unknown));
  if (!attributes) return out.str();
  out.text("mode", octal_mode(attributes->mode)).number("nlink", attributes->links);
  attributes->uid ? out.number("uid", *attributes->uid) : out.null("uid");
  attributes->gid ? out.number("gid", *attributes->gid) : out.null("gid");
  out.text("owner", attributes->owner).text("group", attributes->group);
  out.number("size", attributes->size).raw("mtime", decimal_time(attributes->modified));
  out.number("fileid", attributes->file_id);
  if (long_ && attributes->type == FileType::symlink) {
    if (const Result<std::string> text = remote.client->read_link(remote.path)) out.text("target", *text);
  }
  return out.str();
}

std::string Lister::long_line(const Remote& remote, const std::string& name,
                              const std::optional<Attributes>& attributes) {
  if (!attributes) return "??????????   ? ?        ?               ?            ? " + shown(name);
  const Attributes& facts = *attributes;
  const bool device = facts.type == FileType::block || facts.type == FileType::character;
  std::string size = call_.has("human") ? human_size(facts.size) : std::to_string(facts.size);
  if (device) size = std::to_string(facts.device_major) + ", " + std::to_string(facts.device_minor);
  std::string line = mode_string(facts.type, facts.mode) + " " + right(std::to_string(facts.links), 3) + " " +
                     left(owners_.user(facts), 8) + " " + left(owners_.group(facts), 8) + " " +
                     right(std::move(size), call_.has("human") ? 5 : 12) + " " +
                     list_time(facts.modified, now_) + " " + shown(name);
  if (facts.type == FileType::symlink) {
    const Result<std::string> text = remote.client->read_link(remote.path);
    line += " -> " + (text ? shown(*text) : "?");
  }
  return line;
}

}  // namespace

void run_ls(Call& call) {
  if (!call.choose_line_end()) return;
  const std::optional<ListOrder> order = wanted_order(call);
  if (!order) return;
  Lister lister(call, *order);
  call.each(0, [&](const Remote& remote) { return lister.list(remote); });
  lister.list_sorted();
}

}  // namespace nfsrdma::cli
