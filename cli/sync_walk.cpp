// See sync_walk.h.
#include "cli/sync_walk.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "cli/remote_file.h"

namespace nfsrdma::cli {
namespace {

bool is_directory(const TreeEntry& entry) {
  return entry.attributes.type == FileType::directory;
}

/// Returns true if a directory stands where a copy is to be made that is none.
bool is_in_directory_place(const SyncStep& step) {
  return step.is_blocked() && step.there->type == FileType::directory;
}

/// Returns what a copy lacks, in one word.
const char* trait_of(const Attributes& source, const Attributes& copy) {
  return are_same_times(source.modified, copy.modified) ? "mode" : "time";
}

/// Gives a directory on a server what it keeps of its source. `mode`: sets that, too.
std::function<Status()> finish_remote(const Remote& directory, const Attributes& source, Keep keep,
                                      std::optional<std::uint32_t> mode) {
  if (keep == Keep::everything)
    return [directory, traits = traits_of(source)] { return apply_traits(directory, traits); };
  SetAttributes changes;
  changes.mode = mode;
  if (keep == Keep::times) changes.modified = source.modified;
  if (!changes.mode && !changes.modified) return {};
  return [directory, changes] { return directory.client->set_attributes(directory.path, changes); };
}

/// Returns the mode that a directory on a server has when its copy has ended, if it is not what it has now.
std::optional<std::uint32_t> last_mode(const SyncNode& node) {
  if (node.is_opened_up) return node.there->mode;
  const std::uint32_t mode = node.source.mode & kPermissions & ~creation_mask();
  const bool is_cut = !node.there && (mode & 0300U) != 0300U;
  return is_cut ? std::optional(mode) : std::nullopt;
}

SyncNode::Ref top_of(SyncNode::Ref node) {
  while (node->above) node = node->above;
  return node;
}

}  // namespace

std::string path_below(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

SyncNode::~SyncNode() {
  run.end(*this);
}

void SyncRun::end(SyncNode& node) {
  if (rules_.is_dry || !node.to || !node.is_named) return;
  const bool is_new = !node.there;
  if (!is_new && !node.is_touched && !have_other_traits(node.source, *node.there, rules_.keep)) return;
  if (node.to->is_local()) return node.to->local()->finish_with(node.source, rules_.keep);
  if (auto finish = finish_remote(node.to->remote(), node.source, rules_.keep, last_mode(node)))
    means_.tree.complete(std::move(finish));
}

void SyncRun::touch(SyncNode& node) {
  const std::lock_guard lock(mutex_);
  if (node.is_touched.exchange(true) || !node.there || !node.is_named || gives_files_away()) return;
  if (node.to->is_local()) return node.to->local()->open_up();
  if ((node.there->mode & 0300U) == 0300U) return;
  SetAttributes changes;
  changes.mode = node.there->mode | 0300U;
  const Remote& directory = node.to->remote();
  // If this fails, so does what follows, and is reported.
  node.is_opened_up = directory.client->set_attributes(directory.path, changes).has_value();
}

bool SyncRun::is_left_out(const std::string& path, const TreeEntry& entry) const {
  return is_part_name(entry.name) ||
         means_.filter.leaves_out(path_below(path, entry.name), is_directory(entry));
}

bool SyncRun::is_kept(const std::string& path, const TreeEntry& entry) const {
  const auto is_this = [&](const Attributes& one) { return are_same(one, entry.attributes); };
  return (rules_.resumes && is_part_name(entry.name)) || std::ranges::any_of(protected_, is_this) ||
         means_.filter.leaves_out(path_below(path, entry.name), is_directory(entry));
}

// ---- comparing ----

void SyncRun::add(SyncNode::Ref node) {
  means_.crowd.add([this, node = std::move(node)] { walk(node); });
}

Result<std::vector<TreeEntry>> SyncRun::list_there(const SyncNode& node) {
  if (!node.to || !node.there) return std::vector<TreeEntry>();
  auto listing = node.to->list(means_.tree);
  if (!listing) return listing.error();
  return std::move(listing->entries);
}

void SyncRun::walk(const SyncNode::Ref& node) {
  if (!means_.tree.going()) return;
  auto source = node->from.list(means_.tree);
  if (!source || !source->is_whole) unread();
  if (!source) return means_.tree.failed(source.error());
  const auto there = list_there(*node);
  if (!there) return means_.tree.failed(there.error());
  if (!means_.tree.going()) return unread();  // a listing may have ended early
  if (node->there && node->is_named && have_other_traits(node->source, *node->there, rules_.keep))
    did(SyncAction::set_traits, node->path.empty() ? "./" : node->path + "/",
        trait_of(node->source, *node->there));
  std::erase_if(source->entries, [&](const TreeEntry& one) { return is_left_out(node->path, one); });
  SyncPlan plan = make_plan(source->entries, *there, rules_);
  std::erase_if(plan.extraneous, [&](const TreeEntry& one) {
    return is_kept(node->path, one) || is_left_out(node->path, one);
  });
  carry_out(node, plan);
}

void SyncRun::entries(const SyncNode::Ref& node, const std::vector<TreeEntry>& source,
                      const std::vector<TreeEntry>& there) {
  std::vector<TreeEntry> taken;
  for (const TreeEntry& one : source) {
    if (!is_left_out(node->path, one)) taken.push_back(one);
  }
  SyncPlan plan = make_plan(taken, there, rules_);
  plan.extraneous.clear();
  carry_out(node, plan);
}

void SyncRun::carry_out(const SyncNode::Ref& node, const SyncPlan& plan) {
  std::map<const char*, std::vector<TreeEntry>> copies;  // by their reasons
  std::vector<SyncStep> blocked;
  for (const SyncStep& step : plan.steps) {
    if (step.verdict != Verdict::copy)
      act(node, step);
    else if (is_in_directory_place(step) && rules_.removes)
      blocked.push_back(step);
    else if (clear_way(node, step))
      copies[step.reason].push_back(step.source);
  }
  if (means_.report != nullptr)
    means_.report->looked_at(static_cast<std::uint64_t>(std::ranges::count_if(
        plan.steps, [](const SyncStep& one) { return one.verdict != Verdict::directory; })));
  note(*node, rules_.removes ? plan.extraneous : std::vector<TreeEntry>(), std::move(blocked));
  for (auto& [reason, entries] : copies) copy(node, reason, std::move(entries));
}

void SyncRun::act(const SyncNode::Ref& node, const SyncStep& step) {
  const auto later = [&](auto member) {
    means_.crowd.add([this, node, step, member] {
      if (means_.tree.going()) (this->*member)(node, step);
    });
  };
  switch (step.verdict) {
    case Verdict::directory:
      return later(&SyncRun::enter);
    case Verdict::compare_contents:
      return later(&SyncRun::compare_contents);
    case Verdict::compare_texts:
      return later(&SyncRun::compare_texts);
    case Verdict::set_traits:
      return later(&SyncRun::set_traits);
    case Verdict::unsupported:
      return means_.tree.failed(Error(ErrorKind::local, EOPNOTSUPP, means_.tree.operation(),
                                      node->from.text(step.source.name),
                                      "is a device, a FIFO or a socket; skipped"));
    case Verdict::unchanged:
    case Verdict::copy:
      return count_unchanged();
  }
}

/// Returns false if the entry cannot be copied because a directory stands in its place.
bool SyncRun::clear_way(const SyncNode::Ref& node, const SyncStep& step) {
  if (!is_in_directory_place(step) || rules_.is_dry || rules_.compare == Compare::update) return true;
  touch(*node);
  const Status removed = node->to->remove({step.source.name, *step.there});
  if (removed) return true;
  const int code = removed.error().errno_value();
  const bool is_full = code == ENOTEMPTY || code == EEXIST;
  means_.tree.failed(is_full ? Error(ErrorKind::local, ENOTEMPTY, means_.tree.operation(),
                                     node->to->text(step.source.name),
                                     "is a directory that is not empty; add --delete to replace it")
                             : removed.error());
  return false;
}

void SyncRun::enter(const SyncNode::Ref& above, const SyncStep& step) {
  const std::string& name = step.source.name;
  Tree& tree = means_.tree;
  const auto is_source = [&](const Attributes& one) { return are_same(one, step.source.attributes); };
  if (copy_ && (is_source(*copy_) || (step.there && is_source(*step.there)))) {
    return tree.failed(Error(ErrorKind::usage, EINVAL, tree.operation(), above->from.text(name),
                             "is the destination itself; skipped"));
  }
  auto from = above->from.child(name);
  if (!from) {
    unread();
    return tree.failed(from.error());
  }
  const auto node = std::make_shared<SyncNode>(*this, *std::move(from), path_below(above->path, name));
  node->source = step.source.attributes;
  node->above = above;
  const bool is_there = step.there && !step.is_blocked();
  if (is_there) {
    node->there = step.there;
  } else if (!rules_.is_dry) {
    touch(*above);
    const bool replaces = step.is_blocked() && rules_.compare != Compare::update;
    if (Status removed = replaces ? above->to->remove({name, *step.there}) : Status(); !removed)
      return tree.failed(removed.error());
  }
  if (!rules_.is_dry || is_there) {
    auto to = is_there ? above->to->child(name) : above->to->make_child(name, step.source.attributes);
    if (!to) return tree.failed(to.error());
    node->to.emplace(*std::move(to));
  }
  if (!is_there) did(SyncAction::make_directory, node->path + "/", "");
  walk(node);
}

void SyncRun::compare_contents(const SyncNode::Ref& node, const SyncStep& step) {
  const TreeEntry there{step.source.name, *step.there};
  const auto wanted = node->from.sum(step.source, means_.tree, false);
  if (!wanted) return means_.tree.failed(wanted.error());
  const auto found = node->to->sum(there, means_.tree, false);
  if (!found) return means_.tree.failed(found.error());
  if (wanted->sha256 != found->sha256) return copy(node, "contents", {step.source});
  if (have_other_traits(step.source.attributes, *step.there, rules_.keep)) return set_traits(node, step);
  count_unchanged();
}

void SyncRun::compare_texts(const SyncNode::Ref& node, const SyncStep& step) {
  const auto wanted = node->from.read_link(step.source.name);
  if (!wanted) return means_.tree.failed(wanted.error());
  const auto found = node->to->read_link(step.source.name);
  if (!found) return means_.tree.failed(found.error());
  if (*wanted != *found) return copy(node, "text", {step.source});
  count_unchanged();
}

void SyncRun::set_traits(const SyncNode::Ref& node, const SyncStep& step) {
  if (!rules_.is_dry) {
    const Status done = node->to->set_traits(step.source.name, step.source.attributes, rules_.keep);
    if (!done) return means_.tree.failed(done.error());
  }
  did(SyncAction::set_traits, path_below(node->path, step.source.name),
      trait_of(step.source.attributes, *step.there));
}

// ---- copying ----

void SyncRun::copy(const SyncNode::Ref& node, const char* reason, std::vector<TreeEntry> entries) {
  if (rules_.is_dry) {
    for (const TreeEntry& one : entries) {
      const bool has_data = one.attributes.type == FileType::regular;
      did(SyncAction::copy, path_below(node->path, one.name), reason, has_data ? one.attributes.size : 0);
    }
    return;
  }
  touch(*node);
  const auto done = [this, node, reason](const std::string& name, std::uint64_t size) {
    copied(*node, name, reason, size);
  };
  means_.copier.copy(std::make_shared<const Between>(node->from, *node->to, done), std::move(entries));
}

void SyncRun::copied(SyncNode& node, const std::string& name, const char* reason, std::uint64_t size) {
  if (rules_.verifies && !is_verified(node, name)) return;
  did(SyncAction::copy, path_below(node.path, name), reason, size);
}

bool SyncRun::is_verified(SyncNode& node, const std::string& name) {
  const auto source = node.from.entry(name), copy = node.to->entry(name);
  for (const auto* one : {&source, &copy}) {
    if (*one) continue;
    means_.tree.failed(one->error());
    return false;
  }
  if (source->attributes.type != FileType::regular) return true;
  const auto wanted = node.from.sum(*source, means_.tree, false),
             found = node.to->sum(*copy, means_.tree, true);
  if (wanted && found && wanted->sha256 == found->sha256) return true;
  if (!wanted || !found) {
    means_.tree.failed(wanted ? found.error() : wanted.error());
    return false;
  }
  // With the size and the time of its source it would be taken for unchanged from now on.
  const Status removed = node.to->remove(*copy);
  means_.tree.failed(Error(ErrorKind::local, EIO, "verify", node.to->text(name),
                           removed ? "differs from its source, and was removed; run the command again"
                                   : "differs from its source; remove it, and run the command again"));
  return false;
}

// ---- removing ----

void SyncRun::note(SyncNode& node, std::vector<TreeEntry> extraneous, std::vector<SyncStep> blocked) {
  if (extraneous.empty() && blocked.empty()) return;
  Later later{nullptr, node.path, node.source, *node.there, std::move(extraneous), std::move(blocked)};
  // The directory will have been completed by then.
  if (rules_.keep == Keep::everything) later.there.mode = node.source.mode;
  later.root = node.above ? top_of(node.above) : node.shared_from_this();
  const std::lock_guard lock(mutex_);
  later_.push_back(std::move(later));
}

Result<SyncNode::Ref> SyncRun::reopen(const Later& later) {
  if (later.path == later.root->path) return later.root;
  TreeSpot from = later.root->from, to = *later.root->to;
  for (std::string_view rest = later.path; !rest.empty();) {
    const std::string name(rest.substr(0, rest.find('/')));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    auto from_below = from.child(name), to_below = to.child(name);
    if (!from_below) return from_below.error();
    if (!to_below) return to_below.error();
    from = *std::move(from_below);
    to = *std::move(to_below);
  }
  auto node = std::make_shared<SyncNode>(*this, std::move(from), later.path);
  node->to.emplace(std::move(to));
  node->source = later.source;
  node->there = later.there;
  return node;
}

void SyncRun::do_later(const Later& later) {
  if (!means_.tree.going()) return;
  const auto node = reopen(later);
  if (!node) return means_.tree.failed(node.error());
  if (!rules_.is_dry) touch(**node);
  (void)remove(*(*node)->to, later.path, later.extraneous);
  for (const SyncStep& step : later.blocked) {
    if (remove(*(*node)->to, later.path, {{step.source.name, *step.there}})) {
      copy(*node, step.reason, {step.source});
    } else {
      means_.tree.failed(Error(ErrorKind::local, ENOTEMPTY, means_.tree.operation(),
                               (*node)->to->text(step.source.name),
                               "is a directory with entries that are kept, so the source is not copied"));
    }
  }
}

void SyncRun::finish() {
  const std::vector<Later> all = std::exchange(later_, {});
  if (all.empty() || !means_.tree.going()) return;
  if (!has_read_all_) {
    say("not everything of the source could be read, so nothing was deleted");
    for (const Later& later : all) {
      for (const SyncStep& step : later.blocked)
        means_.tree.failed(Error(ErrorKind::local, EEXIST, means_.tree.operation(),
                                 path_below(later.path, step.source.name),
                                 "is not copied, because the directory in its place was not deleted"));
    }
    return;
  }
  for (const Later& later : all) means_.crowd.add([this, &later] { do_later(later); });
  means_.crowd.run();
}

bool SyncRun::remove(const TreeSpot& in, const std::string& path, const std::vector<TreeEntry>& entries) {
  std::vector<TreeEntry> files;
  bool is_empty = true;
  for (const TreeEntry& one : entries) {
    if (!means_.tree.going() || is_kept(path, one))
      is_empty = false;
    else if (is_directory(one))
      is_empty = remove_directory(in, path, one) && is_empty;
    else
      files.push_back(one);
  }
  const auto results = rules_.is_dry ? std::vector<Status>(files.size()) : in.remove_files(files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (results[i]) {
      did(SyncAction::remove, path_below(path, files[i].name), "");
      continue;
    }
    means_.tree.failed(results[i].error());
    is_empty = false;
  }
  return is_empty;
}

bool SyncRun::remove_directory(const TreeSpot& in, const std::string& path, const TreeEntry& entry) {
  const auto below = in.child(entry.name);
  const auto listing = below ? below->list(means_.tree) : Result<TreeSpot::Listing>(below.error());
  if (!listing) {
    means_.tree.failed(listing.error());
    return false;
  }
  const std::string here = path_below(path, entry.name);
  if (!remove(*below, here, listing->entries) || !listing->is_whole) return false;
  if (Status removed = rules_.is_dry ? Status() : in.remove(entry); !removed) {
    means_.tree.failed(removed.error());
    return false;
  }
  did(SyncAction::remove, here + "/", "");
  return true;
}

Result<TreeRoot> make_root(const Remote& to, std::uint32_t source_mode) {
  const std::uint32_t mode = (source_mode & kPermissions & ~creation_mask()) | 0300U;
  const Status made = to.client->make_directory(to.path, mode);
  if (Status there = accept_existing(to, made); !there) return there.error();
  const Result<Attributes> attributes = to.client->stat(to.path);
  if (!attributes) return attributes.error();
  return TreeRoot{to, *attributes, made.has_value()};
}

void update_tree(const SyncRun::Means& means, Keep keep, const TreeSpot& from, const Attributes& source,
                 const TreeRoot& to) {
  SyncRules rules;
  rules.compare = Compare::update;
  rules.keep = keep;
  SyncRun run(means, rules);
  const bool is_one_server =
      !from.is_local() && !to.spot.is_local() && from.remote().client == to.spot.remote().client;
  if (is_one_server) run.set_copy(to.attributes);
  auto node = std::make_shared<SyncNode>(run, from, "");
  node->to = to.spot;
  node->source = source;
  if (!to.is_new) node->there = to.attributes;
  run.add(std::move(node));
  means.crowd.run();
}

}  // namespace nfsrdma::cli
