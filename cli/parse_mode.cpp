// Modes as POSIX chmod takes them: clause[,clause…], clause = [ugoa]*(op perm)+, op = + - =,
// perm = [rwxXst]* or one of u g o.
#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint32_t user_bits = 04700, group_bits = 02070, other_bits = 01007, all_bits = 07777;

std::uint32_t who_bits(char c) {
  switch (c) {
    case 'u':
      return user_bits;
    case 'g':
      return group_bits;
    case 'o':
      return other_bits;
    case 'a':
      return all_bits;
    default:
      return 0;
  }
}

/// Returns the bits of one letter for all classes; Action::who narrows them later.
std::uint32_t permission_bits(char c) {
  switch (c) {
    case 'r':
      return 0444;
    case 'w':
      return 0222;
    case 'x':
      return 0111;
    case 's':
      return 06000;
    case 't':
      return 01000;
    default:
      return 0;
  }
}

bool is_op(char c) {
  return c == '+' || c == '-' || c == '=';
}

std::optional<std::uint32_t> octal(std::string_view text) {
  if (text.empty() || text.size() > 5) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint32_t>(c - '0');
  }
  return value <= all_bits ? std::optional(value) : std::nullopt;
}

/// Returns the rwx of one class, as bits for all classes.
std::uint32_t copied_bits(char from, std::uint32_t mode) {
  const unsigned shift = from == 'u' ? 6 : from == 'g' ? 3 : 0;
  return (mode >> shift & 7U) * 0111U;
}

}  // namespace

bool ModeChange::parse_clause(std::string_view clause, std::vector<Action>& actions) {
  std::uint32_t who = 0;
  std::size_t at = 0;
  for (; at < clause.size() && who_bits(clause[at]) != 0; ++at) who |= who_bits(clause[at]);
  if (at == clause.size()) return false;
  while (at < clause.size()) {
    if (!is_op(clause[at])) return false;
    Action action;
    action.who = who == 0 ? all_bits : who;
    action.masked = who == 0;
    action.op = clause[at++];
    if (at < clause.size() && clause[at] != 'a' && who_bits(clause[at]) != 0) {
      action.copy = clause[at++];
    } else {
      for (; at < clause.size() && !is_op(clause[at]); ++at) {
        if (clause[at] == 'X') {
          action.execute_if_any = true;
        } else if (permission_bits(clause[at]) != 0) {
          action.bits |= permission_bits(clause[at]);
        } else {
          return false;
        }
      }
    }
    actions.push_back(action);
  }
  return true;
}

std::optional<ModeChange> ModeChange::parse(std::string_view text) {
  ModeChange change;
  if (const auto absolute = octal(text)) {
    change.absolute_ = absolute;
    return change;
  }
  do {
    const std::string_view clause = text.substr(0, text.find(','));
    if (!parse_clause(clause, change.actions_)) return std::nullopt;
    if (clause.size() == text.size()) return change;
    text.remove_prefix(clause.size() + 1);
  } while (true);
}

std::uint32_t ModeChange::apply_action(const Action& action, std::uint32_t mode, bool directory,
                                       std::uint32_t mask) {
  std::uint32_t bits = action.bits;
  if (action.execute_if_any && (directory || (mode & 0111U) != 0)) bits |= 0111U;
  if (action.copy != 0) bits |= copied_bits(action.copy, mode);
  bits &= action.who;
  if (action.masked) bits &= ~(mask & 0777U);
  if (action.op == '+') return mode | bits;
  if (action.op == '-') return mode & ~bits;
  // A '=' leaves a directory's set-id bits that were not named, as in GNU chmod.
  const std::uint32_t kept = directory ? (mode & 06000U) : 0;
  return (mode & ~action.who) | kept | bits;
}

std::uint32_t ModeChange::apply(std::uint32_t mode, bool directory, std::uint32_t mask) const {
  if (absolute_) return *absolute_;
  for (const Action& action : actions_) mode = apply_action(action, mode, directory, mask);
  return mode;
}

}  // namespace nfsrdma::cli
