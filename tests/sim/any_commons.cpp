#include "sim/any_commons.h"

#include <span>

namespace nfsrdma::sim {

Commons::Commons(const Findings& all, std::size_t how_many) : findings(all) {
  for (const char* const name : std::span(kSharedNames).first(how_many))
    names.emplace(name, NameOracle(clock));
}

FileOracle& Commons::file(const std::string& key) {
  auto& out = files[key];
  if (!out) {
    out = std::make_unique<FileOracle>(
        "file " + std::to_string(files.size()), clock,
        [this](unsigned client) { return findings.disk_fills || lost_state.contains(client); });
  }
  return *out;
}

void Commons::kill(FileOracle::Client client) {
  for (const auto& [key, file] : files) file->kill(client);
  std::erase_if(locks, [&](const Lock& one) { return one.client == client; });
  for (auto& [key, by_client] : opens) by_client.erase(client);
}
}  // namespace nfsrdma::sim
