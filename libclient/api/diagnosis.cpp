// The function of the C interface that finds out why a target cannot be used.
#include "diagnosis/diagnosis.h"

#include <vector>

#include "api/clients.h"
#include "api/outcome.h"

using namespace nfsrdma;
using namespace nfsrdma::api;

namespace {

constexpr std::size_t kShortestDiagnosis = NFSRDMA_LENGTH_TO(nfsrdma_diagnosis, reserved);

static_assert(static_cast<int>(diagnosis::State::ok) == NFSRDMA_FINDING_OK);
static_assert(static_cast<int>(diagnosis::State::warning) == NFSRDMA_FINDING_WARNING);
static_assert(static_cast<int>(diagnosis::State::failed) == NFSRDMA_FINDING_FAILED);
static_assert(static_cast<int>(diagnosis::State::skipped) == NFSRDMA_FINDING_SKIPPED);

Result<diagnosis::Wanted> wanted_from(const nfsrdma_diagnosis* given) {
  diagnosis::Wanted out;
  if (given == nullptr) return out;
  nfsrdma_diagnosis all{};
  if (auto why = load("nfsrdma_diagnosis", given, all, kShortestDiagnosis)) return *why;
  constexpr std::uint32_t kWrite = 1;
  if (auto why = unknown_flags(all.write, kWrite)) return *why;
  if (all.read != nullptr) out.read = all.read;
  out.write = all.write != 0;
  constexpr std::chrono::milliseconds longest = std::chrono::hours(1);
  if (all.limit > 0) out.limit = std::min(std::chrono::milliseconds(all.limit), longest);
  return out;
}

void pass_on(const diagnosis::Finding& finding, nfsrdma_report report, void* data) {
  std::vector<nfsrdma_fact> facts;
  facts.reserve(finding.facts.size());
  for (const diagnosis::Fact& one : finding.facts) facts.push_back({one.name.c_str(), one.value.c_str()});
  nfsrdma_finding out{};
  out.struct_size = sizeof out;
  out.step = finding.step.c_str();
  out.seen = finding.seen.c_str();
  out.advice = finding.advice.c_str();
  out.facts = facts.data();
  out.fact_count = facts.size();
  out.duration = finding.took.count();
  out.state = static_cast<std::uint32_t>(finding.state);
  report(data, &out);
}

}  // namespace

int nfsrdma_diagnose(const char* target, const nfsrdma_options* options, const nfsrdma_diagnosis* wanted,
                     nfsrdma_report report, void* data, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    if (report == nullptr) return fail(error, missing("report"));
    const auto all = complete(target, options);
    if (!all) return fail(error, all.error());
    const auto asked = wanted_from(wanted);
    if (!asked) return fail(error, asked.error());
    async::Loop loop;
    diagnosis::Diagnosis diagnosis(loop, all->target, *asked, diagnosis::Means::system());
    const auto failures = diagnosis.run(
        [&](const diagnosis::Finding& finding) { pass_on(finding, report, data); }, all->interrupt);
    return failures ? static_cast<std::int64_t>(*failures) : fail(error, failures.error());
  }));
}
