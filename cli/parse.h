// Parses what users write: sizes, modes, owners, times. Pure, except that names are looked up in the user
// database, and the local time zone is used.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Parses all of the text as one number. `base`: of integers.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number out{};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  std::from_chars_result done{};
  if constexpr (std::is_floating_point_v<Number>)
    done = std::from_chars(begin, end, out);
  else
    done = std::from_chars(begin, end, out, base);
  return done.ec == std::errc() && done.ptr == end ? std::optional(out) : std::nullopt;
}
/// Takes the decimal number at the front of `text` off it.
std::optional<std::uint64_t> take_number(std::string_view& text);

/// "10", "64K", "1M", "2G", "3T" (powers of 1024; "KB" and the like are powers of 1000), within 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// The argument of truncate -s: "10M", or relative to the present size: "+1K", "-512".
struct SizeChange {
  enum class Kind : unsigned char { absolute, grow, shrink } kind = Kind::absolute;
  std::uint64_t amount = 0;
  /// Returns the new size, or no value if it does not fit in the protocol's 64 bits. Shrinking stops at 0.
  [[nodiscard]] std::optional<std::uint64_t> apply(std::uint64_t size) const;
};
std::optional<SizeChange> parse_size_change(std::string_view text);

/// The argument of chmod: "0644" or "u=rw,go-w,a+X" (POSIX chmod, "op" and "perm" as there).
class ModeChange {
 public:
  static std::optional<ModeChange> parse(std::string_view text);

  /// Returns true if the result depends on the mode that the file has.
  [[nodiscard]] bool relative() const { return !absolute_; }
  /// Returns the mode after the change. `mask`, the caller's umask, applies to clauses without a class
  /// ("+w").
  [[nodiscard]] std::uint32_t apply(std::uint32_t mode, bool directory, std::uint32_t mask) const;

 private:
  struct Action {
    std::uint32_t who = 0;  ///< the bits of the named classes: 04700, 02070, 01007
    bool masked = false;    ///< no class was named: all classes, less the umask
    char op = '=';
    std::uint32_t bits = 0;       ///< r, w, x, s, t for all classes
    bool execute_if_any = false;  ///< X
    char copy = 0;                ///< 'u', 'g' or 'o': take that class's rwx
  };
  static bool parse_clause(std::string_view clause, std::vector<Action>& actions);
  static std::uint32_t apply_action(const Action& action, std::uint32_t mode, bool directory,
                                    std::uint32_t mask);

  std::optional<std::uint32_t> absolute_;
  std::vector<Action> actions_;
};

/// The argument of chown: "1000", "1000:100", ":100", or names that the user database knows.
struct Ownership {
  std::optional<std::uint32_t> uid, gid;
};
Result<Ownership> parse_ownership(std::string_view text);

/// Parses the argument of touch -d: "now", "@1700000000.5", "2024-11-20", "2024-11-20 09:42[:01[.5]]". "T"
/// may stand for the blank, and "Z" at the end means UTC.
std::optional<Time> parse_date(std::string_view text);

/// Parses the argument of touch -t: [[CC]YY]MMDDhhmm[.ss].
std::optional<Time> parse_stamp(std::string_view text);

/// Parses seconds such as "1" and "0.2", from 0.001 to below a day.
std::optional<std::chrono::milliseconds> parse_interval(std::string_view text);

/// Parses a count from 1 on.
std::optional<std::uint64_t> parse_count(std::string_view text);

}  // namespace nfsrdma::cli
