// What users write, as values: sizes, modes, owners, times. Pure but for the look-up of names in the user
// database and of the local time zone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// "10", "64K", "1M", "2G", "3T" (powers of 1024; "KB" and the like are powers of 1000), within 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// What truncate -s takes: "10M", or relative to what is there: "+1K", "-512".
struct SizeChange {
  enum class Kind : unsigned char { absolute, grow, shrink } kind = Kind::absolute;
  std::uint64_t amount = 0;
  /// Absent where the result does not fit in the protocol's 64 bits; shrinking stops at 0.
  [[nodiscard]] std::optional<std::uint64_t> apply(std::uint64_t size) const;
};
std::optional<SizeChange> parse_size_change(std::string_view text);

/// What chmod takes: "0644" or "u=rw,go-w,a+X" (POSIX chmod, "op" and "perm" as there).
class ModeChange {
 public:
  static std::optional<ModeChange> parse(std::string_view text);

  /// Whether the result depends on the mode that the file has.
  [[nodiscard]] bool relative() const { return !absolute_; }
  /// The mode after the change. `mask`, the caller's umask, counts for clauses that name nobody ("+w").
  [[nodiscard]] std::uint32_t apply(std::uint32_t mode, bool directory, std::uint32_t mask) const;

 private:
  struct Action {
    std::uint32_t who = 0;  ///< the bits of those who are named: 04700, 02070, 01007
    bool masked = false;    ///< nobody was named: all, less the umask
    char op = '=';
    std::uint32_t bits = 0;       ///< r, w, x, s, t for everybody
    bool execute_if_any = false;  ///< X
    char copy = 0;                ///< 'u', 'g' or 'o': take that one's rwx
  };
  static bool parse_clause(std::string_view clause, std::vector<Action>& actions);
  static std::uint32_t apply_action(const Action& action, std::uint32_t mode, bool directory,
                                    std::uint32_t mask);

  std::optional<std::uint32_t> absolute_;
  std::vector<Action> actions_;
};

/// What chown takes: "1000", "1000:100", ":100", with names where the user database knows them.
struct Ownership {
  std::optional<std::uint32_t> uid, gid;
};
Result<Ownership> parse_ownership(std::string_view text);

/// What touch -d takes: "now", "@1700000000.5", "2024-11-20", "2024-11-20 09:42[:01[.5]]" with "T" for the
/// blank and "Z" for UTC at will.
std::optional<Time> parse_date(std::string_view text);

/// What touch -t takes: [[CC]YY]MMDDhhmm[.ss].
std::optional<Time> parse_stamp(std::string_view text);

/// "1", "0.2": seconds, above nothing and below a day.
std::optional<std::chrono::milliseconds> parse_interval(std::string_view text);

/// A count from 1 on.
std::optional<std::uint64_t> parse_count(std::string_view text);

}  // namespace nfsrdma::cli
