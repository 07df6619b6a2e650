// See remote_file.h.
#include "cli/remote_file.h"

#include <sys/random.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <string>

#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/report.h"
#include "cli/traits.h"

namespace nfsrdma::cli {
namespace {

constexpr int most_links = 40;      // as Linux's path walk
constexpr int most_attempts = 100;  // a name of six random characters is seldom taken

Error remote_error(int errno_value, const Remote& remote, std::string message) {
  return {ErrorKind::usage, errno_value, "put", remote.text(), std::move(message)};
}

}  // namespace

bool are_same(const Attributes& one, const Attributes& other) {
  return one.file_id == other.file_id && one.filesystem_major == other.filesystem_major &&
         one.filesystem_minor == other.filesystem_minor;
}

/// A rename would replace the link itself, so links are followed first.
Result<Remote> without_links(Remote remote) {
  for (int i = 0; i < most_links; ++i) {
    const Result<Attributes> attributes = remote.client->stat(remote.path, false);
    if (!attributes && attributes.error().errno_value() != ENOENT) return attributes.error();
    if (!attributes || attributes->type != FileType::symlink) return remote;
    const Result<std::string> text = remote.client->read_link(remote.path);
    if (!text) return text.error();
    remote.path = text->starts_with('/') ? *text : join(directory_name(remote.path), *text);
  }
  return remote_error(ELOOP, remote, "too many symbolic links; name the file itself");
}

namespace {

void fill_template(std::string& name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::array<unsigned char, 6> random{};
  [[maybe_unused]] const ssize_t count = getrandom(random.data(), random.size(), 0);
  for (std::size_t i = 0; i < random.size(); ++i) {
    name[name.size() - random.size() + i] = letters[random[i] % letters.size()];
  }
}

}  // namespace

std::string temporary_name(std::string_view name) {
  std::string out = temporary_template(name);
  fill_template(out);
  return out;
}

std::optional<std::uint32_t> Replaced::kept_mode() const {
  return there ? std::optional(there->mode & kPermissions) : std::nullopt;
}

Result<Replaced> find_replaced(const Remote& target, std::optional<std::string_view> name) {
  Remote remote = target;
  Result<Attributes> attributes = remote.client->stat(remote.path);
  if (attributes && attributes->type == FileType::directory) {
    if (!name) return remote_error(EISDIR, remote, "is a directory; omit -T to put the file into it");
    if (name->empty()) return remote_error(EISDIR, remote, "is a directory; name the file in it");
    remote = remote.child(*name);
    attributes = remote.client->stat(remote.path);
  } else if (remote.path.ends_with('/')) {
    return remote_error(ENOTDIR, remote,
                        "is not a directory; omit the trailing slash, or create it with mkdir");
  }
  if (!attributes && attributes.error().errno_value() != ENOENT) return attributes.error();
  if (attributes && attributes->type != FileType::regular) {
    return remote_error(EEXIST, remote,
                        std::string("is a ") +
                            (attributes->type == FileType::directory ? "directory" : "special file") +
                            "; choose another name");
  }
  Result<Remote> file = without_links(remote);
  if (!file) return file.error();
  Replaced out{*std::move(file), {}};
  if (attributes) out.there = *attributes;
  return out;
}

Result<RemoteTemporary> create_temporary(const Remote& to, std::uint32_t mode, OpenMode access) {
  const Remote directory{to.client, std::string(directory_name(to.path)), to.host};
  OpenFlags flags;
  flags.create = flags.exclusive = true;
  flags.mode = mode;
  for (int attempt = 1;; ++attempt) {
    RemoteTemporary out{directory.child(temporary_name(base_name(to.path))), nullptr};
    Result<std::unique_ptr<File>> file = to.client->open(out.remote.path, access, flags);
    if (!file && file.error().errno_value() == EEXIST && attempt < most_attempts) continue;
    if (!file) return file.error();
    out.file = *std::move(file);
    return out;
  }
}

void discard(RemoteTemporary& temporary) {
  const interrupt::Grace grace;
  temporary.file.reset();
  const Status status = temporary.remote.client->remove_file(temporary.remote.path);
  if (status || status.error().errno_value() == ENOENT) return;
  say(temporary.remote.text() + ": the temporary file could not be removed (" + status.error().message() +
      "); remove it once the server can be reached");
}

}  // namespace nfsrdma::cli
