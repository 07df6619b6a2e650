// The tests of find: which objects it lists or deletes, as find(1) has them.
//
// An object passes if it passes all tests. A test that is given several times must pass each time. Pure; the
// times and references that tests compare with are given to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// A number to compare with: "10" (equal), "+10" (more), "-10" (less).
struct Comparison {
  enum class Sense : unsigned char { equal, more, less } sense = Sense::equal;
  std::uint64_t amount = 0;
  /// Takes the sign and the number off the front of `text`. Returns nothing if there is no number.
  static std::optional<Comparison> take(std::string_view& text);
  [[nodiscard]] bool holds(std::uint64_t value) const;
};

/// The argument of -size: a number of units, to which sizes are rounded up.
struct SizeTest {
  Comparison comparison;
  std::uint64_t unit = 512;
  static std::optional<SizeTest> parse(std::string_view text);
  [[nodiscard]] bool holds(std::uint64_t size) const;
};

/// The argument of -mtime or -mmin: an age in whole days or minutes.
struct AgeTest {
  Comparison comparison;
  std::int64_t unit = 0;  ///< seconds
  static std::optional<AgeTest> parse(std::string_view text, std::int64_t unit);
  [[nodiscard]] bool holds(const Time& modified, const Time& now) const;
};

/// Returns the types that the letters stand for: "f", or several with commas. Returns nothing if one is
/// unknown.
std::optional<std::vector<FileType>> parse_types(std::string_view letters);

class FindTests {
 public:
  /// Returns an Error (usage) with one sentence that names the wrong option.
  static Result<FindTests> parse(const Arguments& arguments);

  /// Adds a reference of -newer.
  void add_newer(const Time& reference) { newer_.push_back(reference); }
  /// Judges by everything but -empty.
  [[nodiscard]] bool pass(const std::string& path, const Attributes& attributes, const Time& now) const;

  bool wants_empty = false;  ///< -empty
  unsigned least_depth = 0, most_depth = ~0U;

 private:
  [[nodiscard]] bool pass_names(const std::string& path) const;
  std::vector<std::string> names_, names_without_case_, paths_;
  std::vector<std::vector<FileType>> types_;
  std::vector<SizeTest> sizes_;
  std::vector<AgeTest> ages_;
  std::vector<Time> newer_;
};

}  // namespace nfsrdma::cli
