// Ranges of bytes as users write them, in the form of "curl -r", and the parts of a file that they stand for.
//
// A range is given before the size of the file is known. So a ByteRange keeps what was written, and resolve()
// applies it to a size. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace nfsrdma::cli {

/// A range: "FIRST-LAST" (both included), "FIRST-" (to the end), or "-COUNT" (the last bytes).
struct ByteRange {
  std::optional<std::uint64_t> first;  ///< absent: `last` is a number of bytes before the end
  std::optional<std::uint64_t> last;   ///< absent: up to the end
};

/// Bytes of a file from `begin` up to, and without, `end`.
struct Span {
  std::uint64_t begin = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

/// Parses ranges with commas between them. Returns nothing if one of them is malformed.
std::optional<std::vector<ByteRange>> parse_ranges(std::string_view text);

/// Returns the bytes that the range stands for in a file of this size. Returns nothing if the range begins at
/// the end of the file or behind it, as an HTTP server refuses such a range (RFC 9110 14.1.1).
std::optional<Span> resolve(const ByteRange& range, std::uint64_t size);

}  // namespace nfsrdma::cli
