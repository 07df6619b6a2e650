// The files of a configuration: which ones a process reads, and whether it may trust them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "async/descriptor.h"
#include "connect/configuration.h"

namespace nfsrdma::connect {
namespace {

constexpr std::string_view none = "none";
constexpr std::size_t largest_file = 1U << 20;  // bounds a typing error such as config=/dev/sda

/// Returns "" if the variable is not set, or if the program has rights that its caller has not.
std::string from_environment(const char* name) {
  const char* const text = ::secure_getenv(name);
  return text != nullptr ? text : "";
}

std::string file_of_user() {
  constexpr const char* name = "/nfsrdma.conf";
  const std::string directory = from_environment("XDG_CONFIG_HOME"), home = from_environment("HOME");
  if (directory.starts_with('/')) return directory + name;  // a relative path is invalid there
  return home.starts_with('/') ? home + "/.config" + name : "";
}

/// A file, and what its absence means.
struct Wanted {
  std::string path;
  bool must_exist = false;
  /// The user's directories may be closed to this process, for example to a service that has the HOME of the
  /// user who started it.
  bool may_be_closed = false;
};

Error failure(const Wanted& file, int code, const std::string& next) {
  return {ErrorKind::local, code, "read", file.path, std::strerror(code) + ("; " + next)};
}

Error untrusted(const Wanted& file, const std::string& why, const std::string& command) {
  return {ErrorKind::local, EPERM, "read", file.path,
          why + ", so its options are not used; run " + command +
              ", or set NFSRDMA_CONFIG=none to read no such file"};
}

Status check_facts(const Wanted& file, const struct stat& facts, const Sources& sources) {
  if (!S_ISREG(facts.st_mode)) return failure(file, EINVAL, "name a regular file, or none");
  if (facts.st_uid != sources.user && facts.st_uid != sources.administrator && facts.st_uid != Sources::root)
    return untrusted(file, "the file belongs to user " + std::to_string(facts.st_uid),
                     "chown " + std::to_string(sources.user) + " " + file.path);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return untrusted(file, "others may write the file", "chmod go-w " + file.path);
  if (facts.st_size > static_cast<off_t>(largest_file)) return failure(file, EFBIG, "name a file of options");
  return {};
}

Result<std::string> content(const Wanted& file, int descriptor) {
  std::string out;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(file, errno, "check the file system");
    if (got == 0) return out;
    out.append(piece.data(), static_cast<std::size_t>(got));
    if (out.size() > largest_file) return failure(file, EFBIG, "name a file of options");
  }
}

bool is_absent(const Wanted& file, int code) {
  if (code == ENOENT || code == ENOTDIR) return !file.must_exist;
  return code == EACCES && file.may_be_closed;
}

Result<std::string> read_file(const Wanted& file, const Sources& sources) {
  // O_NONBLOCK: the open of a FIFO would wait for a writer.
  const int descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  const int code = errno;
  const async::Descriptor opened(descriptor);
  if (!opened.is_valid()) {
    if (is_absent(file, code)) return std::string();
    return failure(file, code, "make it readable, or set NFSRDMA_CONFIG=none to read no such file");
  }
  struct stat facts{};
  if (::fstat(opened.get(), &facts) != 0) return failure(file, errno, "check the file system");
  if (Status done = check_facts(file, facts, sources); !done) return done.error();
  return content(file, opened.get());
}

Status add_file(std::vector<Setting>& out, const Wanted& file, const Sources& sources,
                const Subject& subject) {
  const auto text = read_file(file, sources);
  if (!text) return text.error();
  const auto sections = parse_configuration(*text, file.path);
  if (!sections) return sections.error();
  const auto settings = settings_for(*sections, subject);
  out.insert(out.end(), settings.begin(), settings.end());
  return {};
}

/// Returns the files in the order of their precedence, the lowest first.
std::vector<Wanted> files_of(const Sources& sources, const std::string& config) {
  const std::string only = !config.empty() ? config : sources.only.value_or("");
  if (only == none) return {};
  if (!only.empty()) return {{only, true, false}};
  std::vector<Wanted> out{{sources.system_file, false, false}};
  if (!sources.user_file.empty()) out.push_back({sources.user_file, false, true});
  return out;
}

}  // namespace

Sources Sources::of_process() {
  Sources out;
  out.user_file = file_of_user();
  if (const std::string only = from_environment("NFSRDMA_CONFIG"); !only.empty()) out.only = only;
  out.options = from_environment("NFSRDMA_OPTIONS");
  out.user = ::geteuid();
  // A user namespace shows root's files, and so the root directory, as those of the overflow uid (65534).
  struct stat facts{};
  out.administrator = ::stat("/", &facts) == 0 ? facts.st_uid : root;
  return out;
}

Result<std::vector<Setting>> read_settings(const Sources& sources, const std::string& config,
                                           const Subject& subject) {
  std::vector<Setting> out;
  for (const Wanted& file : files_of(sources, config)) {
    if (Status done = add_file(out, file, sources, subject); !done) return done.error();
  }
  if (config == none) return out;
  auto words = parse_settings(sources.options, "NFSRDMA_OPTIONS");
  if (!words) return words.error();
  out.insert(out.end(), words->begin(), words->end());
  return out;
}

}  // namespace nfsrdma::connect
