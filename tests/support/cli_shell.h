// Commands of nfsrdma-cli as a shell gives them, on the test server, and directories of this machine for them.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "support/nfs_fixture.h"
#include "support/nfs_responder.h"
#include "support/scratch.h"

namespace nfsrdma::cli {

using namespace nfsrdma::testing;

/// While one lives a descriptor of this process leads to memory.
class Redirected {
 public:
  explicit Redirected(int fd, const std::string& text = "")
      : fd_(fd), before_(::dup(fd)), memory_(::memfd_create("redirected", MFD_CLOEXEC)) {
    REQUIRE(memory_ >= 0);
    REQUIRE(::pwrite(memory_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    std::fflush(stdout);
    REQUIRE(::dup2(memory_, fd_) == fd_);
  }
  ~Redirected() {
    // In one step: the server's thread opens descriptors, too.
    if (before_ >= 0)
      ::dup2(before_, fd_);
    else
      ::close(fd_);
    ::close(before_);
    ::close(memory_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;
  [[nodiscard]] std::string text() const {
    struct stat facts{};
    if (::fstat(memory_, &facts) != 0) return "";
    std::string out(static_cast<std::size_t>(facts.st_size), '\0');
    const ssize_t count = ::pread(memory_, out.data(), out.size(), 0);
    out.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return out;
  }

 private:
  const int fd_, before_, memory_;
};

/// What became of a command.
struct Ran {
  int status = 0;
  std::string out, err;
};

/// The parts of a text, in order, with blanks between.
inline std::string in_order(std::vector<std::string> parts) {
  std::ranges::sort(parts);
  std::string out;
  for (const std::string& one : parts) out += (out.empty() ? "" : " ") + one;
  return out;
}

/// The same of lines.
inline std::string lines_in_order(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return in_order(std::move(lines));
}

/// Puts the name that commands have for the test server in place of its address.
inline std::string with_name(std::string text) {
  constexpr std::string_view address = "127.0.0.1:/";
  for (std::size_t at = 0; (at = text.find(address, at)) != std::string::npos;)
    text.replace(at, address.size(), "srv:/");
  return text;
}

/// Runs commands on the test server, which they call "srv". Their output calls it that, too.
class Shell {
 public:
  Shell() : servers_(server.target().options) {
    std::signal(SIGALRM, SIG_IGN);  // of an interrupt::Grace; the program has a handler for it
  }
  ~Shell() {
    servers_.end();
    CHECK(server.problems() == "");
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  /// The words without "nfsrdma-cli". `input`: what stands in a file that standard input leads to.
  Ran run(std::vector<std::string> words, const std::string& input = "") {
    const std::span<const Command> all = all_commands();
    const auto command =
        std::ranges::find(all, words.front(), [](const Command& one) { return std::string(one.name); });
    const bool is_known = command != all.end();
    REQUIRE(is_known);
    for (std::string& word : words) {
      if (word.starts_with("srv:")) word.replace(0, 3, "127.0.0.1");
    }
    const Result<Arguments> arguments = parse_arguments(*command, {words.begin() + 1, words.end()});
    Ran ran;
    if (!arguments) {
      ran.status = exit_usage;
      ran.err = arguments.error().text();
      return ran;
    }
    const Redirected in(STDIN_FILENO, input), out(STDOUT_FILENO), err(STDERR_FILENO);
    {
      Output output;
      Call call{*command, *arguments, servers_, output};
      run_command(call);
      output.flush();
      ran.status = call.status;
    }
    ran.out = with_name(out.text());
    ran.err = err.text();
    return ran;
  }
  /// Only the status.
  int status(const std::vector<std::string>& words, const std::string& input = "") {
    return run(words, input).status;
  }
  /// Only what it wrote, where it went well.
  std::string told(const std::vector<std::string>& words) {
    Ran ran = run(words);
    if (ran.status != 0) FAIL_CHECK(ran.err);
    return std::move(ran.out);
  }

  void be_verbose() { servers_.be_verbose(); }
  [[nodiscard]] std::string statistics(bool as_json) const { return servers_.statistics(as_json); }

  /// The one that commands have, too.
  Client& client() {
    const Result<Remote> root = servers_.at("127.0.0.1:/");
    if (!root) FAIL(root.error().text());
    return *root->client;
  }
  std::string names(const std::string& directory) {
    std::vector<std::string> out;
    CHECK(ok(client().list(directory, [&](const DirectoryEntry& entry) {
      out.push_back(entry.name);
      return true;
    })));
    return in_order(std::move(out));
  }
  bool is_there(const std::string& path) { return client().stat(path, false).has_value(); }
  std::uint32_t mode(const std::string& path) {
    const auto facts = client().stat(path);
    return ok(facts) ? facts->mode : 0;
  }
  void set_mode(const std::string& path, std::uint32_t bits, std::int64_t modified = 5) {
    SetAttributes changes;
    changes.mode = bits;
    changes.modified = Time{modified, 7};
    CHECK(ok(client().set_attributes(path, changes)));
  }
  [[nodiscard]] std::string content(const std::string& path) const {
    return server.content(path).value_or("(nothing)");
  }

  NfsServer server;

 private:
  Servers servers_;
};

/// A directory on this machine.
class Place {
 public:
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return (name.empty() ? path_ : path_ / name).string();
  }
  void write(const std::string& name, const std::string& text, unsigned mode = 0644) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    REQUIRE(::chmod(path(name).c_str(), mode) == 0);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path_ / name);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(nothing)";
  }
  [[nodiscard]] struct stat facts(const std::string& name) const {
    struct stat out{};
    CHECK(::lstat(path(name).c_str(), &out) == 0);
    return out;
  }
  [[nodiscard]] std::string names() const {
    std::vector<std::string> out;
    for (const auto& one : std::filesystem::directory_iterator(path_))
      out.push_back(one.path().filename().string());
    return in_order(std::move(out));
  }

 private:
  Scratch scratch_{"cli"};
  const std::filesystem::path path_ = scratch_.path();
};

}  // namespace nfsrdma::cli
