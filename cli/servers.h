// One client per server, and targets on it.
//
// Two targets share a client when host and options are the same. Clients live until the program ends; notices
// of the library go to stderr as they come.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// A target with its connection.
struct Remote {
  Client* client = nullptr;
  std::string path;
  std::string host;

  /// "host:/path", for people.
  [[nodiscard]] std::string text() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + path;
  }
  [[nodiscard]] Remote child(std::string_view name) const;
};

class Servers : private Observer {
 public:
  explicit Servers(const Options& base) : base_(base) {}

  /// Connects unless that has been done.
  Result<Remote> at(std::string_view target);
  Result<Remote> at(const Target& target);
  /// Only parses, so that mistakes are found before anything is done.
  [[nodiscard]] Result<Target> parse(std::string_view target) const { return parse_target(target, base_); }
  /// Ends all sessions.
  void end() { servers_.clear(); }

 private:
  struct Server {
    Target target;
    std::unique_ptr<Client> client;
  };
  void notice(const std::string& text) override;

  Options base_;
  std::vector<Server> servers_;
};

/// "/a/b/" and "c" are "/a/b/c".
std::string join(std::string_view directory, std::string_view name);
/// The last name of a path, "" for "/".
std::string_view base_name(std::string_view path);
/// What is before it: "/" for "/a", "." for "a".
std::string_view directory_name(std::string_view path);
/// Whether it can be the name of an entry of a directory, and of nothing else: a server may list anything.
bool is_plain_name(std::string_view name);

}  // namespace nfsrdma::cli
