#include "diagnosis/finding.h"

namespace nfsrdma::diagnosis {
namespace {

Finding made(State state, std::string seen, std::string advice) {
  Finding out;
  out.state = state;
  out.seen = std::move(seen);
  out.advice = std::move(advice);
  return out;
}

/// Returns the place of the last "; " or ". " that is not in parentheses; npos: there is none.
std::size_t last_separator(const std::string& message) {
  std::size_t found = std::string::npos;
  int depth = 0;
  for (std::size_t at = 0; at + 1 < message.size(); ++at) {
    const char c = message[at];
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && (c == ';' || c == '.') && message[at + 1] == ' ') found = at;
  }
  return found;
}

/// Returns where the next step is separated from the rest of a message; npos: the message has no next step. The
/// sentences about Kerberos have the form "what is wrong: what to do".
std::size_t next_step_in(const Error& error) {
  return error.operation() == "Kerberos" ? error.message().find(": ") : last_separator(error.message());
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
  const std::size_t at = next_step_in(error);
  if (at == std::string::npos) return failure(message, "");
  return failure(message.substr(0, at), message.substr(at + 2));
}

Finding skipped(std::string why) {
  return made(State::skipped, std::move(why), "");
}

}  // namespace nfsrdma::diagnosis
