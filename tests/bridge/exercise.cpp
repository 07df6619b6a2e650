// Mixed operations through a bridge that commits faults, on the public API alone, and what became of them.
//
//   exercise --target URL --local DIR [--clean URL] [--operations N] [--seed N] [--deadline SECONDS]
//
// The rule that is checked: an operation that says it succeeded did, and one that failed says why and leaves
// what was there before or what was wanted, nothing else. Every operation ends before its deadline, and the
// client goes on working. In the end what is on the server is compared with what is known to be there: in
// DIR, the same directory as the server sees it, and, with --clean, read through a bridge without faults.
//
// An object whose operation failed is a Suspect from then on: it is not touched again, because the failed
// operation may still be on its way to the server; in the end it must be as before or as wanted. No name is
// used twice.
//
// Exit status: 0, or 1 with what was wrong on stderr. A summary goes to stdout.
#include <signal.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "nfsrdma/client.h"

namespace po = boost::program_options;
namespace fs = std::filesystem;
using namespace nfsrdma;
using Clock = std::chrono::steady_clock;

namespace {

struct Settings {
  std::string target, local, clean;
  unsigned operations = 1000;
  std::uint64_t seed = 1;
  double deadline = 20;
  unsigned give_up = 40;  // failures one after the other: the client is not working any more
  bool verbose = false;
};

constexpr std::size_t kMostFiles = 30;
constexpr std::size_t kLargestFile = 300000;

// ---- a hang ends the program ----

void on_alarm(int) {
  constexpr char kText[] = "HANG: an operation did not end\n";
  [[maybe_unused]] const auto said = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(3);
}

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// An object that may be as before or as wanted.
struct Suspect {
  std::vector<std::string> names;  ///< where it may be; in one place only
  std::string before, after;       ///< each byte is one of the two, or zero where a hole would be
  bool may_be_gone = false;
  std::string why;
};

class Exercise {
 public:
  explicit Exercise(Settings settings)
      : settings_(std::move(settings)), target_(*parse_target(settings_.target)), dice_(settings_.seed) {}

  int run();

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return target_.path + "/" + name; }
  std::uint64_t pick(std::uint64_t limit) { return dice_() % limit; }
  std::string fresh_name(const char* kind) { return std::string(kind) + std::to_string(next_name_++); }
  std::string data(std::size_t size);
  std::map<std::string, std::string>::iterator some_file();
  void wrong(const std::string& what) {
    std::cerr << "WRONG: " << what << " (operation " << done_ << ", seed " << settings_.seed << ")\n";
    ++wrong_;
  }

  /// Notes an outcome: true if it is a success.
  template <class T>
  bool good(const Result<T>& result, const char* what);
  void suspect(std::vector<std::string> names, std::string before, std::string after, bool may_be_gone,
               const char* why);

  bool connect();
  void one_operation();
  void create();
  void write();
  void read();
  void rename();
  void remove();
  void truncate();
  void list();
  void stat();

  void check_local();
  void check_suspect(const Suspect& one);
  void check_clean();

  const Settings settings_;
  const Target target_;
  std::mt19937_64 dice_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> files_;  // what is certainly there
  std::vector<Suspect> suspects_;
  unsigned next_name_ = 0, done_ = 0, failed_ = 0, failed_in_a_row_ = 0, wrong_ = 0;
  bool failed_now_ = false;
  std::map<std::string, unsigned> errors_;
};

std::string Exercise::data(std::size_t size) {
  std::string out(size, '\0');
  std::uint64_t word = dice_();
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    out[i] = static_cast<char>(word >> (56U - 8 * (i % 8)));
  }
  return out;
}

std::map<std::string, std::string>::iterator Exercise::some_file() {
  auto at = files_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(pick(files_.size())));
  return at;
}

template <class T>
bool Exercise::good(const Result<T>& result, const char* what) {
  if (result) return true;
  failed_now_ = true;
  const Error& error = result.error();
  if (error.message().empty() || error.errno_value() == 0)
    wrong(std::string(what) + " failed without a reason");
  ++errors_[std::string(what) + ": " + error.text()];
  if (settings_.verbose) std::cerr << done_ << ": " << what << ": " << error.text() << '\n';
  return false;
}

void Exercise::suspect(std::vector<std::string> names, std::string before, std::string after,
                       bool may_be_gone, const char* why) {
  for (const std::string& name : names) files_.erase(name);
  suspects_.push_back({std::move(names), std::move(before), std::move(after), may_be_gone,
                       std::string(why) + " in operation " + std::to_string(done_)});
}

// ---- operations ----

void Exercise::create() {
  const std::string name = fresh_name("file-");
  auto file =
      client_->open(path(name), OpenMode::write, {.create = true, .exclusive = pick(2) == 0, .mode = 0644});
  if (!good(file, "create")) return suspect({name}, "", "", true, "create");
  files_[name] = "";
  good((*file)->close(), "close");
}

void Exercise::write() {
  const auto at = some_file();
  const std::string name = at->first;
  std::string after = at->second;
  const std::size_t offset = pick(3) == 0 ? after.size() : pick(after.size() + 1);
  const std::string text = data(1 + (pick(4) == 0 ? pick(kLargestFile / 2) : pick(9000)));
  if (offset + text.size() > kLargestFile) return truncate();
  if (after.size() < offset + text.size()) after.resize(offset + text.size());
  after.replace(offset, text.size(), text);
  const std::string before = at->second;

  auto file = client_->open(path(name), OpenMode::write);
  if (!good(file, "open to write")) return;
  const auto wrote = (*file)->write(bytes(text), offset);
  const bool whole = good(wrote, "write") && good((*file)->sync(), "sync");
  if (!whole)
    suspect({name}, before, after, false, "write");
  else
    files_[name] = after;
  good((*file)->close(), "close");
}

void Exercise::read() {
  const auto at = some_file();
  auto file = client_->open(path(at->first), OpenMode::read);
  if (!good(file, "open to read")) return;
  const std::string& expected = at->second;
  const std::size_t offset = pick(2) == 0 ? 0 : pick(expected.size() + 1);
  std::string text(pick(3) == 0 ? 1 + pick(5000) : kLargestFile, '?');
  const auto count = (*file)->read(std::as_writable_bytes(std::span(text.data(), text.size())), offset);
  if (good(count, "read")) {
    const std::string there = expected.substr(offset, text.size());
    if (*count != there.size()) {
      wrong("read of " + at->first + " gave " + std::to_string(*count) + " bytes, not " +
            std::to_string(there.size()));
    } else if (text.compare(0, *count, there) != 0) {
      wrong("read of " + at->first + " gave other bytes than were written");
    }
  }
  good((*file)->close(), "close");
}

void Exercise::rename() {
  const auto at = some_file();
  const std::string from = at->first, to = fresh_name("moved-"), content = at->second;
  if (!good(client_->rename(path(from), path(to)), "rename"))
    return suspect({from, to}, content, content, false, "rename");
  files_.erase(from);
  files_[to] = content;
}

void Exercise::remove() {
  const auto at = some_file();
  const std::string name = at->first, content = at->second;
  if (!good(client_->remove_file(path(name)), "remove"))
    return suspect({name}, content, content, true, "remove");
  files_.erase(name);
}

void Exercise::truncate() {
  const auto at = some_file();
  const std::string name = at->first, before = at->second;
  std::string after = before;
  after.resize(pick(2) == 0 ? pick(before.size() + 1) : pick(kLargestFile));
  SetAttributes changes;
  changes.size = after.size();
  if (!good(client_->set_attributes(path(name), changes), "truncate"))
    return suspect({name}, before, after, false, "truncate");
  files_[name] = after;
}

void Exercise::list() {
  std::set<std::string> seen;
  const auto status = client_->list(target_.path, [&](const DirectoryEntry& entry) {
    if (!seen.insert(entry.name).second) wrong("list gave " + entry.name + " twice");
    return true;
  });
  if (!good(status, "list")) return;
  for (const auto& [name, content] : files_) {
    if (!seen.contains(name)) wrong("list left out " + name);
  }
  for (const Suspect& one : suspects_) {
    for (const std::string& name : one.names) seen.erase(name);
  }
  for (const std::string& name : seen) {
    if (!files_.contains(name)) wrong("list gave " + name + ", which was removed or renamed");
  }
}

void Exercise::stat() {
  const auto at = some_file();
  const auto attributes = client_->stat(path(at->first));
  if (good(attributes, "stat") && attributes->size != at->second.size())
    wrong("stat of " + at->first + " gave " + std::to_string(attributes->size) + " bytes, not " +
          std::to_string(at->second.size()));
}

void Exercise::one_operation() {
  struct Kind {
    void (Exercise::*run)();
    unsigned weight;
  };
  constexpr Kind kKinds[] = {{&Exercise::write, 25}, {&Exercise::read, 35},    {&Exercise::rename, 8},
                             {&Exercise::remove, 7}, {&Exercise::truncate, 8}, {&Exercise::list, 5},
                             {&Exercise::stat, 6},   {&Exercise::create, 6}};
  if (files_.size() < 3 || (files_.size() < kMostFiles && pick(10) == 0)) return create();
  std::uint64_t left = pick(100);
  for (const Kind& kind : kKinds) {
    if (left < kind.weight) return (this->*kind.run)();
    left -= kind.weight;
  }
}

// ---- the end ----

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void Exercise::check_local() {
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(settings_.local)) there.insert(entry.path().filename());
  for (const auto& [name, content] : files_) {
    if (there.erase(name) == 0) {
      wrong(name + " is not on the server");
    } else if (content_of(fs::path(settings_.local) / name) != content) {
      wrong(name + " has other contents on the server");
    }
  }
  for (const Suspect& one : suspects_) check_suspect(one);
  for (const Suspect& one : suspects_) {
    for (const std::string& name : one.names) there.erase(name);
  }
  for (const std::string& name : there) wrong(name + " is on the server, and was removed or renamed");
}

void Exercise::check_suspect(const Suspect& one) {
  std::vector<fs::path> found;
  for (const std::string& name : one.names) {
    if (fs::exists(fs::path(settings_.local) / name)) found.push_back(fs::path(settings_.local) / name);
  }
  const std::string who = one.names.front() + " (" + one.why + " failed)";
  if (found.size() > 1) return wrong(who + " is in two places");
  if (found.empty()) {
    if (!one.may_be_gone) wrong(who + " is gone");
    return;
  }
  const std::string is = content_of(found.front());
  const std::size_t least = std::min(one.before.size(), one.after.size());
  const std::size_t most = std::max(one.before.size(), one.after.size());
  if (is.size() < least || is.size() > most) return wrong(who + " has a size that nobody wanted");
  for (std::size_t i = 0; i < is.size(); ++i) {
    const bool hole = i >= one.before.size() && is[i] == 0;
    const bool old = i < one.before.size() && is[i] == one.before[i];
    const bool wanted = i < one.after.size() && is[i] == one.after[i];
    if (!hole && !old && !wanted) return wrong(who + " has bytes that nobody wrote, at " + std::to_string(i));
  }
}

void Exercise::check_clean() {
  if (settings_.clean.empty()) return;
  const auto target = parse_target(settings_.clean);
  auto clean = Client::connect(*target);
  if (!clean) return wrong("the clean connection: " + clean.error().text());
  for (const auto& [name, content] : files_) {
    auto file = (*clean)->open(target->path + "/" + name, OpenMode::read);
    if (!file) {
      wrong("clean: " + file.error().text());
      continue;
    }
    std::string text(content.size() + 1, '?');
    const auto count = (*file)->read(std::as_writable_bytes(std::span(text.data(), text.size())), 0);
    if (!count || *count != content.size() || text.compare(0, *count, content) != 0)
      wrong("clean: " + name + " has other contents");
  }
}

bool Exercise::connect() {
  for (unsigned attempt = 0; attempt < settings_.give_up; ++attempt) {
    ::alarm(static_cast<unsigned>(settings_.deadline));
    auto made = Client::connect(target_);
    ::alarm(0);
    if (good(made, "connect")) {
      client_ = std::move(*made);
      return true;
    }
  }
  wrong("no connection after " + std::to_string(settings_.give_up) + " attempts");
  return false;
}

int Exercise::run() {
  const auto begun = Clock::now();
  double slowest = 0;
  if (!connect()) return 1;
  for (; done_ < settings_.operations; ++done_) {
    const auto start = Clock::now();
    failed_now_ = false;
    ::alarm(static_cast<unsigned>(settings_.deadline));
    one_operation();
    ::alarm(0);
    slowest = std::max(slowest, std::chrono::duration<double>(Clock::now() - start).count());
    if (failed_now_) ++failed_;
    failed_in_a_row_ = failed_now_ ? failed_in_a_row_ + 1 : 0;
    if (failed_in_a_row_ >= settings_.give_up) {
      wrong(std::to_string(failed_in_a_row_) + " failures one after the other: the client does not recover");
      break;
    }
  }
  const Info info = client_->info();
  ::alarm(static_cast<unsigned>(settings_.deadline));
  client_.reset();
  check_local();
  check_clean();
  ::alarm(0);
  std::cout << done_ << " operations, " << failed_ << " failed, " << wrong_ << " wrong, " << info.reconnects
            << " reconnects, " << info.retransmissions << " calls sent again, slowest " << slowest << " s, "
            << std::chrono::duration<double>(Clock::now() - begun).count() << " s\n";
  for (const auto& [text, times] : errors_) std::cout << "  " << times << " x " << text << '\n';
  return wrong_ == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  po::options_description options("Options");
  auto add = options.add_options();
  add("target", po::value(&settings.target)->required(), "URL of an empty directory");
  add("local", po::value(&settings.local)->required(), "the same directory, as the server sees it");
  add("clean", po::value(&settings.clean), "the same URL by a way without faults");
  add("operations", po::value(&settings.operations), "how many");
  add("seed", po::value(&settings.seed), "of the choice of operations");
  add("deadline", po::value(&settings.deadline), "seconds that an operation may take");
  add("give-up", po::value(&settings.give_up), "failures in a row that are too many");
  add("verbose", po::bool_switch(&settings.verbose), "print every failure");
  try {
    po::variables_map values;
    po::store(po::parse_command_line(argc, argv, options), values);
    po::notify(values);
  } catch (const po::error& e) {
    std::cerr << "exercise: " << e.what() << '\n' << options;
    return 2;
  }
  for (const std::string* url : {&settings.target, &settings.clean}) {
    const auto target = parse_target(*url);
    if (!url->empty() && !target) {
      std::cerr << "exercise: " << target.error().text() << '\n';
      return 2;
    }
  }
  (void)::signal(SIGALRM, on_alarm);
  return Exercise(std::move(settings)).run();
}
