#include "sim/any_commons.h"

#include <span>
#include <utility>

namespace nfsrdma::sim {

Commons::Commons(const Findings& all, std::size_t how_many, bool in_stripes)
    : findings(all), stripes(in_stripes) {
  for (const char* const name : std::span(kSharedNames).first(how_many))
    names.emplace(name, NameOracle(clock));
}

FileOracle& Commons::file(const std::string& key) {
  auto& out = files[key];
  if (!out) {
    const auto lossy = [this](FileOracle::Client client) {
      if (client == FileOracle::kServer) return findings.data_is_lost && findings.restarts != 0;
      return findings.disk_fills || lost_state.contains(client);
    };
    out = std::make_unique<FileOracle>("file " + std::to_string(files.size()), clock, lossy);
  }
  return *out;
}

Commons::CutRef Commons::begin_cut(const std::string& name, FileOracle::Who who, Tick begun) {
  const CutRef out = cuts.insert(cuts.end(), {name, std::move(who), begun, {}});
  may_lead(name, names.at(name).files(begun));
  return out;
}

void Commons::may_lead(const std::string& name, const std::vector<std::string>& keys) {
  for (Cut& cut : cuts) {
    if (cut.name != name) continue;
    for (const std::string& key : keys) {
      if (!cut.changes.contains(key)) cut.changes[key] = file(key).begin_truncate(cut.who, 0, cut.begun);
    }
  }
}

void Commons::kill(FileOracle::Client client) {
  for (const auto& [key, file] : files) file->kill(client);
  std::erase_if(cuts, [&](const Cut& one) { return one.who.client == client; });
  std::erase_if(locks, [&](const Lock& one) { return one.client == client; });
  for (auto& [key, by_client] : opens) by_client.erase(client);
}

}  // namespace nfsrdma::sim
