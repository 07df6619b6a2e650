// find: objects in trees, by their names and attributes (find_tests.h), listed or deleted.
//
// Without --delete and --depth a directory is listed before its contents, as soon as it is found. With one of
// them it comes after its contents: each task below a directory holds a reference to its Level, whose
// destructor acts on the directory. So a directory that has become empty by then can be deleted. Directories
// that the user names are never deleted.
#include <sys/stat.h>

#include <cerrno>
#include <ctime>
#include <memory>

#include "cli/find_tests.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/walk.h"

namespace nfsrdma::cli {
namespace {

class Finder {
 public:
  Finder(Call& call, Tree& tree, Crowd& crowd, const FindTests& tests)
      : call_(call),
        tree_(tree),
        crowd_(crowd),
        tests_(tests),
        json_(call.json()),
        deletes_(call.has("delete")),
        is_depth_first_(deletes_ || call.has("depth")),
        prints_(!deletes_ || call.has("print") || call.ends_lines_with_nul()) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    now_ = {now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)};
  }
  void look(const Remote& remote, const Attributes& attributes, unsigned depth) {
    look({remote, attributes, depth}, nullptr);
  }

 private:
  struct Object {
    Remote remote;
    Attributes attributes;
    unsigned depth = 0;
  };
  /// A directory that is acted on after everything below it.
  class Level {
   public:
    Level(Finder& finder, Object object, std::shared_ptr<Level> above)
        : finder_(finder), object_(std::move(object)), above_(std::move(above)) {}
    ~Level() { finder_.act(object_); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Finder& finder_;
    const Object object_;
    const std::shared_ptr<Level> above_;  // released after the destructor's work
  };

  void look(const Object& object, const std::shared_ptr<Level>& above) {
    const bool leads_on = object.attributes.type == FileType::directory && object.depth < tests_.most_depth;
    if (!is_depth_first_ || !leads_on) act(object);
    if (!leads_on) return;
    const auto level = is_depth_first_ ? std::make_shared<Level>(*this, object, above) : nullptr;
    crowd_.add([this, object, level] { directory(object, level); });
  }
  void directory(const Object& object, const std::shared_ptr<Level>& level) {
    if (!tree_.going()) return;
    const auto entries = tree_.list(object.remote);
    if (!entries) return tree_.failed(entries.error());
    for (const TreeEntry& one : entries.value())
      look({object.remote.child(one.name), one.attributes, object.depth + 1}, level);
  }
  void act(const Object& object) {
    if (!tree_.going() || object.depth < tests_.least_depth) return;
    if (!tests_.pass(object.remote.path, object.attributes, now_)) return;
    if (tests_.wants_empty && !is_empty(object)) return;
    if (deletes_ && !remove(object)) return;
    if (prints_ || json_) show(object);
  }
  /// Asks the server at the last moment, because find may have deleted what was there.
  bool is_empty(const Object& object) {
    if (object.attributes.type == FileType::regular) return object.attributes.size == 0;
    if (object.attributes.type != FileType::directory) return false;
    bool is_empty = true;
    const Status listed = object.remote.client->list(object.remote.path, [&](const DirectoryEntry&) {
      is_empty = false;
      return false;
    });
    if (!listed) tree_.failed(listed.error());
    return listed && is_empty;
  }
  /// Returns true if the object is gone.
  bool remove(const Object& object) {
    const bool is_directory = object.attributes.type == FileType::directory;
    if (is_directory && object.depth == 0) return false;
    Client& client = *object.remote.client;
    const Status removed =
        is_directory ? client.remove_directory(object.remote.path) : client.remove_file(object.remote.path);
    if (!removed) tree_.failed(removed.error());
    return removed.has_value();
  }
  void show(const Object& object) {
    if (!json_) {
      tree_.line(call_.shown(object.remote.target()));
      return;
    }
    json::Object out;
    out.text("path", object.remote.path).text("target", object.remote.target());
    if (deletes_) out.text("action", "remove");
    out.text("type", type_name(object.attributes.type)).text("mode", octal_mode(object.attributes.mode));
    out.number("size", object.attributes.size).raw("mtime", decimal_time(object.attributes.modified));
    tree_.line(out.str());
  }

  const Call& call_;
  Tree& tree_;
  Crowd& crowd_;
  const FindTests& tests_;
  const bool json_, deletes_, is_depth_first_, prints_;
  Time now_;
};

/// Returns when the object was modified: one on the server if the text is a target, else a local one.
Result<Time> modified(Call& call, const std::string& text) {
  if (const auto operand = call.servers.parse(text)) {
    const Result<Remote> remote = call.servers.at(*operand);
    if (!remote) return remote.error();
    const Result<Attributes> attributes = remote->client->stat(remote->path, false);
    if (!attributes) return attributes.error();
    return attributes->modified;
  }
  struct stat facts{};
  if (lstat(text.c_str(), &facts) != 0) return local_error(errno, "stat", text);
  return Time{facts.st_mtim.tv_sec, static_cast<std::uint32_t>(facts.st_mtim.tv_nsec)};
}

Status add_references(Call& call, FindTests& tests) {
  for (const std::string& text : call.arguments.given["newer"]) {
    const Result<Time> time = modified(call, text);
    if (!time) return time.error();
    tests.add_newer(*time);
  }
  return {};
}

}  // namespace

void run_find(Call& call) {
  Result<FindTests> tests = FindTests::parse(call.arguments);
  if (!tests) return call.misused(tests.error().message());
  if (call.has("newer")) {
    if (const Status added = add_references(call, *tests); !added) return call.failed(added.error());
  }
  const auto look = [](Finder& finder, const Remote& remote, const Attributes& attributes) {
    finder.look(remote, attributes, 0);
  };
  walk<Finder>(call, false, look, *tests);
}

}  // namespace nfsrdma::cli
