#include "sim/any_commons.h"

#include <span>
#include <utility>

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

Commons::Cutting::Cutting(Commons& all, FileOracle::Who who, std::string name, Tick begun)
    : all_(all), who_(std::move(who)), name_(std::move(name)), begun_(begun) {
  for (const std::string& key : all_.name(name_).files(begun_)) add(key);
  all_.cutting_.push_back(this);
}

void Commons::Cutting::add(const std::string& key) {
  if (!key.empty() && !changes_.contains(key)) changes_[key] = all_.file(key).begin_truncate(who_, 0, begun_);
}

void Commons::led_to(const std::string& name, const std::vector<std::string>& keys) {
  for (Cutting* const one : cutting_) {
    if (one->name_ != name) continue;
    for (const std::string& key : keys) one->add(key);
  }
}

void Commons::kill(FileOracle::Client client) {
  for (const auto& [key, file] : files) file->kill(client);
  std::erase_if(locks, [&](const Lock& one) { return one.client == client; });
  for (auto& [key, by_client] : opens) by_client.erase(client);
}
}  // namespace nfsrdma::sim
