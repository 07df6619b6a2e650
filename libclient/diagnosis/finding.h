// The result of one step of a diagnosis, as a plain value.
//
// `seen` and `advice` are for people: one sentence each, without a full stop at the end. `facts` are for programs.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/result.h"

namespace nfsrdma::diagnosis {

enum class State : std::uint8_t {
  ok,
  warning,  ///< works, but slower or with fewer rights than it could
  failed,
  skipped,  ///< not examined; `seen` says why
};

struct Fact {
  std::string name, value;
};

struct Finding {
  std::string step;  ///< name of the step; set by the code that runs the steps, as `took` is
  State state = State::ok;
  std::chrono::nanoseconds took{0};
  std::string seen;
  std::string advice;  ///< what to change; empty if there is nothing to change
  std::vector<Fact> facts;

  Finding& fact(std::string name, std::string value) {
    facts.push_back({std::move(name), std::move(value)});
    return *this;
  }
  Finding& fact(std::string name, std::unsigned_integral auto value) {
    return fact(std::move(name), std::to_string(value));
  }
};

/// Called with each Finding as soon as its step has ended.
using Report = std::function<void(const Finding&)>;

[[nodiscard]] Finding found(std::string seen);
[[nodiscard]] Finding warning(std::string seen, std::string advice);
[[nodiscard]] Finding failure(std::string seen, std::string advice);
/// Takes the Error's message apart: messages of this library end with the next step.
[[nodiscard]] Finding failure(const Error& error);
[[nodiscard]] Finding skipped(std::string why);

}  // namespace nfsrdma::diagnosis
