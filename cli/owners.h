// Owners as ls -l shows them: the server's "name@domain" without its domain, and numbers by this machine's
// user database. Remembers a bounded number of look-ups.
#pragma once

#include <string>
#include <unordered_map>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

class Owners {
 public:
  explicit Owners(bool numeric) : numeric_(numeric) {}
  std::string user(const Attributes& attributes);
  std::string group(const Attributes& attributes);

 private:
  using Names = std::unordered_map<std::uint32_t, std::string>;
  std::string name(const std::string& text, const std::optional<std::uint32_t>& id, Names& names,
                   std::string (*look_up)(std::uint32_t)) const;
  bool numeric_;
  Names users_, groups_;
};

}  // namespace nfsrdma::cli
