#include "diagnosis/finding.h"

#include <algorithm>

namespace nfsrdma::diagnosis {
namespace {

Finding made(State state, std::string seen, std::string advice) {
  Finding out;
  out.state = state;
  out.seen = std::move(seen);
  out.advice = std::move(advice);
  return out;
}

/// Returns where the last part of a message begins, behind "; " or ". "; npos if the message has one part.
std::size_t next_step_in(const std::string& message) {
  const std::size_t semicolon = message.rfind("; "), stop = message.rfind(". ");
  if (semicolon == std::string::npos || stop == std::string::npos) return std::min(semicolon, stop);
  return std::max(semicolon, stop);
}

}  // namespace

Finding found(std::string seen) {
  return made(State::ok, std::move(seen), "");
}

Finding warning(std::string seen, std::string advice) {
  return made(State::warning, std::move(seen), std::move(advice));
}

Finding failure(std::string seen, std::string advice) {
  return made(State::failed, std::move(seen), std::move(advice));
}

Finding failure(const Error& error) {
  const std::string& message = error.message();
  const std::size_t at = next_step_in(message);
  if (at == std::string::npos) return failure(message, "");
  return failure(message.substr(0, at), message.substr(at + 2));
}

Finding skipped(std::string why) {
  return made(State::skipped, std::move(why), "");
}

}  // namespace nfsrdma::diagnosis
