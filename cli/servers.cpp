// See servers.h.
#include "cli/servers.h"

#include "cli/interrupt.h"
#include "cli/report.h"

namespace nfsrdma::cli {
namespace {

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

bool are_on_same_server(const Target& one, const Target& other) {
  return one.host == other.host && one.options == other.options;
}

std::string join(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.ends_with('/')) out += '/';
  return out += name;
}

std::string_view base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  return path.substr(path.rfind('/') + 1);
}

std::string_view directory_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return without_trailing_slashes(path.substr(0, slash == 0 ? 1 : slash));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Remote Remote::child(std::string_view name) const {
  return {client, join(path, name), host};
}

Result<Remote> Servers::at(std::string_view text) {
  const Result<Target> target = parse(text);
  if (!target) return target.error();
  return at(*target);
}

Result<Remote> Servers::at(const Target& target) {
  for (const Server& server : servers_) {
    if (are_on_same_server(server.target, target)) {
      return Remote{server.client.get(), target.path, target.host};
    }
  }
  Result<std::unique_ptr<Client>> client = Client::connect(target, this, interrupt::fd());
  if (!client) return client.error();
  servers_.push_back({target, *std::move(client)});
  return Remote{servers_.back().client.get(), target.path, target.host};
}

void Servers::notice(const std::string& text) {
  say(text);
}

}  // namespace nfsrdma::cli
