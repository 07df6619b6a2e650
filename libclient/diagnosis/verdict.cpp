// The last finding: the cause of what is wrong, and what to change. The first failed step is the cause, because the steps
// build on each other.
#include <algorithm>

#include "diagnosis/examination.h"

namespace nfsrdma::diagnosis {
namespace {

std::vector<const Finding*> in_state(const Examination& at, State state) {
  std::vector<const Finding*> out;
  for (const Finding& one : at.findings) {
    if (one.state == state) out.push_back(&one);
  }
  return out;
}

/// Returns the sentences of several findings, with the name of the step in front of each.
std::string sentences(const std::vector<const Finding*>& findings) {
  std::string out;
  for (const Finding* one : findings) out += (out.empty() ? "" : "; ") + one->step + ": " + one->seen;
  return out;
}

std::string advices(const std::vector<const Finding*>& findings) {
  std::string out;
  for (const Finding* one : findings) {
    if (!one->advice.empty()) out += (out.empty() ? "" : "; ") + one->advice;
  }
  return out;
}

std::string what_works(const Examination& at) {
  return "NFS " + at.info.version + " over " + at.info.fabric + " works";
}

}  // namespace

Finding verdict(const Examination& at) {
  const auto failed = in_state(at, State::failed), doubtful = in_state(at, State::warning);
  Finding out = found(what_works(at));
  if (!failed.empty()) {
    out = failure(sentences({failed.front()}), failed.front()->advice);
  } else if (!doubtful.empty()) {
    out = warning(what_works(at) + ", but " + sentences(doubtful), advices(doubtful));
  }
  out.step = "verdict";
  return out;
}

}  // namespace nfsrdma::diagnosis
