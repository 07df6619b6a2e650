// sync: which trees are compared, and how. sync_walk.h compares them and has copied what differs.
//
// A source without a slash at its end is copied to DESTINATION under its own name. One that ends in a slash, and with
// -T every one, is a directory that becomes DESTINATION itself. DESTINATION is a directory, and is made if it is
// missing. So the same command does the same again.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "cli/commands.h"
#include "cli/parse.h"
#include "cli/remote_file.h"
#include "cli/sync_walk.h"

namespace nfsrdma::cli {
namespace {

/// An operand: a path of this machine, or a target.
struct SyncPlace {
  std::string text;
  std::optional<Operand> target;

  [[nodiscard]] std::string path() const { return target ? target->target.path : text; }
  [[nodiscard]] bool is_local() const { return !target; }
};

/// Returns true if the text has the form of a target, even a wrong one: "host:path" and "nfs://...".
bool looks_like_target(const std::string& text) {
  const std::string_view first = std::string_view(text).substr(0, text.find('/'));
  return text.starts_with("nfs://") || first.find(':') != std::string_view::npos;
}

Result<SyncPlace> parse_place(const Call& call, const std::string& text) {
  if (text.empty()) return local_error(ENOENT, "sync", "''");
  if (!looks_like_target(text)) return SyncPlace{text, {}};
  Result<Operand> target = call.servers.parse(text);
  if (!target) {
    const Error& error = target.error();
    return Error(error.kind(), error.errno_value(), error.operation(), error.peer(),
                 error.message() + "; write ./" + text + " for a name on this machine");
  }
  return SyncPlace{text, *std::move(target)};
}

/// Returns true if the place stands for the contents of a directory, because it ends in a slash or has no name.
bool is_contents(const Call& call, const SyncPlace& place) {
  return call.has("no-target-directory") || place.path().ends_with('/') ||
         !is_plain_name(base_name(place.path()));
}

/// A source that was found.
struct SyncSource {
  TreeSpot spot;  ///< the directory itself, if its contents are meant; else the directory that has the entry
  TreeEntry entry;  ///< its name is "" if the contents are meant
  const Client* client = nullptr;
};

Error no_directory(const std::string& text) {
  return {ErrorKind::usage, ENOTDIR, "sync", text,
          "is not a directory; omit the slash at its end, or use get -u or put -u for one file"};
}

Result<SyncSource> find_local(const std::string& text, bool contents) {
  const auto spot = LocalDirectory::open(contents ? text : std::string(directory_name(text)));
  if (!spot) return contents && spot.error().errno_value() == ENOTDIR ? no_directory(text) : spot.error();
  if (!contents) {
    const auto entry = TreeSpot(*spot).entry(std::string(base_name(text)));
    if (!entry) return entry.error();
    return SyncSource{*spot, *entry};
  }
  struct stat facts{};
  if (::fstat((*spot)->fd(), &facts) != 0) return local_error(errno, "stat", text);
  return SyncSource{*spot, {"", attributes_of(facts)}};
}

Result<SyncSource> find_remote(Servers& servers, const Operand& operand, bool contents) {
  const auto remote = servers.at(operand);
  if (!remote) return remote.error();
  const auto attributes = remote->client->stat(remote->path, contents);
  if (!attributes) return attributes.error();
  if (contents && attributes->type != FileType::directory) return no_directory(remote->text());
  if (contents) return SyncSource{*remote, {"", *attributes}, remote->client};
  const Remote above{remote->client, std::string(directory_name(remote->path)), remote->host};
  return SyncSource{above, {std::string(base_name(remote->path)), *attributes}, remote->client};
}

/// DESTINATION.
struct SyncDestination {
  std::optional<TreeSpot> spot;     ///< none: it is missing, in a dry run
  std::optional<Attributes> there;  ///< none: it is new
  const Client* client = nullptr;
};

Result<SyncDestination> find_there(const SyncPlace& place, const std::optional<Remote>& remote) {
  SyncDestination out;
  if (remote) {
    const auto there = remote->client->stat(remote->path);
    if (!there && there.error().errno_value() != ENOENT) return there.error();
    if (there) out.there = *there;
    out.client = remote->client;
  } else {
    struct stat facts{};
    if (::stat(place.text.c_str(), &facts) == 0)
      out.there = attributes_of(facts);
    else if (errno != ENOENT)
      return local_error(errno, "stat", place.text);
  }
  if (out.there && out.there->type != FileType::directory)
    return Error(ErrorKind::usage, ENOTDIR, "sync", place.text,
                 "is not a directory; name one, or a new name");
  return out;
}

Status make_destination(const SyncPlace& place, const std::optional<Remote>& remote, std::uint32_t mode) {
  if (remote) return remote->client->make_directory(remote->path, mode);
  return ::mkdir(place.text.c_str(), mode) == 0 ? Status() : Status(local_error(errno, "mkdir", place.text));
}

/// Finds the destination, and makes it if it is missing. `mode`: its permissions then.
Result<SyncDestination> find_destination(Call& call, const SyncPlace& place, std::uint32_t mode) {
  std::optional<Remote> remote;
  if (!place.is_local()) {
    const auto found = call.servers.at(*place.target);
    if (!found) return found.error();
    remote = *found;
  }
  auto out = find_there(place, remote);
  if (!out || (!out->there && call.has("dry-run"))) return out;
  if (!out->there) {
    const std::uint32_t opened = remote ? mode | 0300U : mode;
    if (Status made = make_destination(place, remote, opened); !made) return made.error();
  }
  if (remote) {
    out->spot.emplace(*remote);
    return out;
  }
  auto local = LocalDirectory::open(place.text);
  if (!local) return local.error();
  if (!out->there) (*local)->open_up();
  out->spot.emplace(*std::move(local));
  return out;
}

/// Reads the options that say what is left out.
Status fill_filter(const Call& call, SyncFilter& filter) {
  for (const auto& [name, value] : call.arguments.in_order) {
    if (name == "include") filter.include(value);
    if (name == "exclude") filter.exclude(value);
    if (name != "exclude-from") continue;
    if (Status read = filter.add_file(value); !read) return read;
  }
  return {};
}

SyncRules sync_rules(const Call& call) {
  SyncRules rules;
  if (call.has("checksum")) rules.compare = Compare::contents;
  if (call.has("preserve")) rules.keep = Keep::everything;
  rules.removes = call.has("delete");
  rules.is_dry = call.has("dry-run");
  rules.verifies = call.has("verify");
  rules.resumes = call.has("resume");
  return rules;
}

/// Reports a command line that contradicts itself. Returns true if there is nothing to report.
bool check_places(Call& call, const std::vector<SyncPlace>& sources, const SyncPlace& destination) {
  const auto are_local = static_cast<std::size_t>(std::ranges::count_if(sources, &SyncPlace::is_local));
  if (are_local != 0 && are_local != sources.size()) {
    call.misused("the sources must all be on this machine, or all on servers");
  } else if (are_local != 0 && destination.is_local()) {
    call.misused("sync needs a server on at least one side; use rsync or cp on this machine");
  } else if (call.has("no-target-directory") && sources.size() != 1) {
    call.misused("sync -T takes one directory and the name that its copy gets");
  } else {
    return true;
  }
  return false;
}

/// With --delete, what one source brings must not be what another one lacks.
bool check_delete(Call& call, const std::vector<SyncPlace>& sources) {
  if (!call.has("delete") || sources.size() == 1) return true;
  std::set<std::string> names;
  for (const SyncPlace& one : sources) {
    const bool contents = is_contents(call, one);
    if (!contents && names.insert(std::string(base_name(one.path()))).second) continue;
    call.misused(
        "with --delete, '" + one.text +
        "' would remove what another source brings to the same directory; run sync once for each source");
    return false;
  }
  return true;
}

class Syncing {
 public:
  Syncing(Call& call, const SyncRules& rules, const SyncFilter& filter, std::uint64_t rate)
      : call_(call), rules_(rules), filter_(filter), rate_(rate) {}

  void run(const std::vector<SyncPlace>& sources, const SyncPlace& destination);

 private:
  [[nodiscard]] std::optional<std::vector<SyncSource>> find_sources(const std::vector<SyncPlace>& places);
  [[nodiscard]] std::unique_ptr<EntryCopier> make_copier(Tree& tree, Crowd& crowd, bool from_here,
                                                         bool to_here) const;
  [[nodiscard]] bool check_same(const SyncSource& source, const SyncPlace& place,
                                const SyncDestination& destination, const SyncPlace& there);
  void start(SyncRun& run, const SyncSource& source, const SyncDestination& destination);
  void say_end(const Tree& tree) const;

  Call& call_;
  const SyncRules rules_;
  const SyncFilter& filter_;
  const std::uint64_t rate_;
  bool has_found_all_ = true;
};

std::optional<std::vector<SyncSource>> Syncing::find_sources(const std::vector<SyncPlace>& places) {
  std::vector<SyncSource> out;
  for (const SyncPlace& one : places) {
    const bool contents = is_contents(call_, one);
    auto found =
        one.is_local() ? find_local(one.text, contents) : find_remote(call_.servers, *one.target, contents);
    if (!found) {
      call_.failed(found.error());
      has_found_all_ = false;
    } else {
      out.push_back(*std::move(found));
    }
  }
  if (out.empty() || (!has_found_all_ && places.size() == 1)) return std::nullopt;
  return out;
}

std::unique_ptr<EntryCopier> Syncing::make_copier(Tree& tree, Crowd& crowd, bool from_here,
                                                  bool to_here) const {
  const CopyRules rules{rules_.keep, true, rules_.resumes};
  if (from_here) return make_putter(tree, crowd, rules);
  return to_here ? make_getter(tree, crowd, rules) : make_server_copier(tree, crowd, rules);
}

/// Returns false, after a report, if source and destination are one directory, or removing would remove the source.
bool Syncing::check_same(const SyncSource& source, const SyncPlace& place, const SyncDestination& destination,
                         const SyncPlace& there) {
  if (source.client == nullptr || source.client != destination.client || !destination.there) return true;
  const bool contents = source.entry.name.empty();
  const auto refuse = [&](const char* message) {
    call_.failed(Error(ErrorKind::usage, EINVAL, "sync", place.text, message));
    return false;
  };
  if (contents && are_same(source.entry.attributes, *destination.there))
    return refuse("is the destination itself; choose another destination");
  if (contents && rules_.removes && place.path().starts_with(join(there.path(), "")))
    return refuse("is inside the destination, and --delete would remove it; choose another destination");
  return true;
}

void Syncing::start(SyncRun& run, const SyncSource& source, const SyncDestination& destination) {
  const auto node = std::make_shared<SyncNode>(run, source.spot, "");
  node->to = destination.spot;
  node->there = destination.there;
  node->source = source.entry.attributes;
  if (source.client != nullptr && source.client == destination.client) {
    if (destination.there) run.set_copy(*destination.there);
    run.protect(source.entry.attributes);
  }
  if (source.entry.name.empty()) return run.add(node);
  node->is_named = false;
  std::vector<TreeEntry> there;
  if (node->to) {
    if (const auto entry = node->to->entry(source.entry.name)) there.push_back(*entry);
  }
  run.entries(node, {source.entry}, there);
}

void Syncing::say_end(const Tree& tree) const {
  if (!interrupt::raised() && !tree.is_lost()) return;
  const std::string line = line_for_shell(call_.command, call_.arguments, call_.arguments.operands);
  const char* const cause = interrupt::raised()
                                ? "interrupted"
                                : "the connection is lost, and temporary files (.*.nfsrdma-*) may be left";
  say(cause + std::string(", so the copy is not complete; to go on, run: ") + line);
}

void Syncing::run(const std::vector<SyncPlace>& sources, const SyncPlace& place) {
  const auto found = find_sources(sources);
  if (!found) return;
  const bool contents = found->front().entry.name.empty();
  const std::uint32_t mode = (contents ? found->front().entry.attributes.mode : 0777U) & kPermissions;
  auto destination = find_destination(call_, place, mode & ~creation_mask());
  if (!destination) return call_.failed(destination.error());
  for (std::size_t i = 0; i < found->size() && has_found_all_; ++i) {
    if (!check_same((*found)[i], sources[i], *destination, place)) return;
  }
  Progress progress("sync", {},
                    !call_.has("quiet") && !call_.json() && !call_.has("verbose") && !rules_.is_dry);
  Tree tree(call_, progress, rate_);
  tree.end_when_lost();
  Crowd crowd;
  SyncReport report(call_, tree, rules_.is_dry);
  const auto copier = make_copier(tree, crowd, sources.front().is_local(), place.is_local());
  {
    SyncRun run(SyncRun::Means{tree, crowd, *copier, filter_, &report}, rules_);
    if (!has_found_all_) run.unread();
    for (const SyncSource& one : *found) start(run, one, *destination);
    crowd.run();
    run.finish();
  }
  say_end(tree);
  tree.settle();
  if (place.is_local() && destination->spot && !rules_.is_dry &&
      ::syncfs(destination->spot->local()->fd()) != 0)
    call_.failed(local_error(errno, "syncfs", place.text));
  if (!interrupt::raised()) progress.finish(tree.bytes());
  report.finish();
}

}  // namespace

void run_sync(Call& call) {
  std::vector<SyncPlace> places;
  for (const std::string& operand : call.arguments.operands) {
    auto place = parse_place(call, operand);
    if (place)
      places.push_back(*std::move(place));
    else
      call.failed(place.error());
  }
  if (places.size() < call.arguments.operands.size()) return;
  const SyncPlace destination = places.back();
  places.pop_back();
  if (!check_places(call, places, destination) || !check_delete(call, places)) return;
  std::uint64_t rate = 0;
  if (const auto text = call.arguments.value("bwlimit")) {
    const auto parsed = parse_size(*text);
    if (!parsed || *parsed == 0)
      return call.misused("--bwlimit takes bytes per second, such as 500K or 10M, not '" + *text + "'");
    rate = *parsed;
  }
  SyncFilter filter;
  if (Status read = fill_filter(call, filter); !read) return call.failed(read.error());
  Syncing(call, sync_rules(call), filter, rate).run(places, destination);
}

}  // namespace nfsrdma::cli
