// The clients, one for each server, and targets on their servers.
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

/// A target as the user wrote it, without the options of a URL.
struct Given {
  std::string text;           ///< ends in '/' if it names the root
  std::string query;          ///< "?opt=val", or ""
  bool is_url = false;        ///< names that are appended must be percent-encoded
  std::size_t path_size = 0;  ///< of the path that `text` stands for
};

/// A target and the text that it was parsed from.
struct Operand {
  Target target;
  std::shared_ptr<const Given> given;
};

/// A target with its connection.
struct Remote {
  Client* client = nullptr;
  std::string path;
  std::string host;
  /// The operand that the path begins with; null if the path was found in another way.
  std::shared_ptr<const Given> given = {};

  /// Returns the target that other commands take: the operand as it was written, and what follows it in the
  /// path, as find(1) prints names.
  [[nodiscard]] std::string target() const;
  /// "host:/path", for people.
  [[nodiscard]] std::string text() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + path;
  }
  [[nodiscard]] Remote child(std::string_view name) const;
};

class Servers : private Observer {
 public:
  explicit Servers(const Options& base) : base_(base) {}

  /// Returns a target with its client, and connects the client if that has not been done.
  Result<Remote> at(std::string_view target);
  Result<Remote> at(const Operand& operand);
  Result<Remote> at(const Target& target);
  /// Only parses, so that mistakes are found before anything is done.
  [[nodiscard]] Result<Operand> parse(std::string_view target) const;
  /// Says on stderr what is connected, and what was negotiated.
  void be_verbose() { is_verbose_ = true; }
  /// Returns the statistics of all servers, as lines for people or as one object of JSON.
  [[nodiscard]] std::string statistics(bool as_json) const;
  /// Makes other options those of the targets that are parsed from now on.
  void use(const Options& base) { base_ = base; }
  /// Ends all sessions.
  void end() { servers_.clear(); }

 private:
  struct Server {
    Target target;
    std::unique_ptr<Client> client;
  };
  void notice(const std::string& text) override;

  Options base_;
  bool is_verbose_ = false;
  std::vector<Server> servers_;
};

/// Returns true if the targets share a client.
bool are_on_same_server(const Target& one, const Target& other);
/// Returns a part of a path as a URL has it (RFC 3986 2.1). The special characters of patterns are encoded,
/// too, so that they stand for themselves.
std::string percent_encoded(std::string_view path);
/// Joins a directory and a name: "/a/b/" and "c" are "/a/b/c".
std::string join(std::string_view directory, std::string_view name);
/// Returns the last name of a path, "" for "/".
std::string_view base_name(std::string_view path);
/// Returns the directory of the last name: "/" for "/a", "." for "a".
std::string_view directory_name(std::string_view path);
/// Returns true if the text can be the name of a directory entry, and nothing else. A server may list
/// anything.
bool is_plain_name(std::string_view name);

}  // namespace nfsrdma::cli
