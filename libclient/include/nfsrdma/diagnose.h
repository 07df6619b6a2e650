// Finds out why a target cannot be used, or is slow.
//
//     auto target = nfsrdma::parse_target("nfs://server/export");
//     auto findings = nfsrdma::diagnose(*target);
//     for (const auto& one : *findings) std::cout << one.step << ": " << one.seen << '\n';
//
// The steps are in nfsrdma_diagnose(3). Nothing here is shared: each call has a connection and a session of its own,
// and may be made from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/options.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

enum class FindingState : std::uint8_t { ok, warning, failed, skipped };

/// The result of one step. The last one is the verdict.
struct Finding {
  std::string step;
  FindingState state = FindingState::ok;
  std::chrono::nanoseconds took{0};
  std::string seen;    ///< one sentence for people
  std::string advice;  ///< what to change; empty if there is nothing to change
  std::vector<std::pair<std::string, std::string>> facts;
};

/// Examinations that are made only if they are asked for, and the limit.
struct DiagnoseOptions {
  std::string read;    ///< a file to read from: an absolute path, or one below the target's; empty: none
  bool write = false;  ///< make a file in the target's directory, and remove it
  std::chrono::milliseconds limit{30000};  ///< for the whole diagnosis
};

/// Called with each finding as soon as its step has ended. Must not throw.
using FindingSink = std::function<void(const Finding&)>;

namespace api_detail {

inline Finding finding_from(const nfsrdma_finding& from) {
  Finding out{from.step,
              static_cast<FindingState>(from.state),
              std::chrono::nanoseconds(from.duration),
              from.seen,
              from.advice,
              {}};
  for (std::size_t i = 0; i < from.fact_count; ++i) {
    const nfsrdma_fact& fact = from.facts[i];
    out.facts.emplace_back(fact.name, fact.value);
  }
  return out;
}

}  // namespace api_detail

/// Examines the target step by step, and returns what was found. Fails only if the target is wrong or `interrupt`, a
/// descriptor or -1, became readable.
inline Result<std::vector<Finding>> diagnose(const Target& target, const DiagnoseOptions& wanted = {},
                                             const FindingSink& sink = nullptr, int interrupt = -1) {
  const Options options = target.options;
  nfsrdma_options* const how = options.handle();
  if (how == nullptr) return error_from(nullptr);
  nfsrdma_options_set_interrupt(how, interrupt);
  nfsrdma_diagnosis asked{};
  asked.struct_size = sizeof asked;
  asked.read = wanted.read.empty() ? nullptr : wanted.read.c_str();
  asked.limit = wanted.limit.count();
  asked.write = wanted.write ? 1 : 0;
  struct Taken {
    const FindingSink& sink;
    std::vector<Finding> findings;
  } taken{sink, {}};
  const auto take = [](void* to, const nfsrdma_finding* finding) {
    Taken& all = *static_cast<Taken*>(to);
    all.findings.push_back(api_detail::finding_from(*finding));
    if (all.sink) all.sink(all.findings.back());
  };
  api_detail::OwnedError error;
  const std::string url = api_detail::url_of(target);
  if (nfsrdma_diagnose(url.c_str(), how, &asked, take, &taken, error.room()) < 0)
    return error_from(error.get());
  return std::move(taken.findings);
}

}  // namespace nfsrdma
