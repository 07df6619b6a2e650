// See byte_ranges.h.
#include "cli/byte_ranges.h"

#include <algorithm>
#include <limits>

#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint64_t last_byte = std::numeric_limits<std::uint64_t>::max();

/// Parses a number that may be absent. Returns false if the text is none.
bool parse_offset(std::string_view text, std::optional<std::uint64_t>& out) {
  out = parse_number<std::uint64_t>(text);
  return text.empty() || out;
}

std::optional<ByteRange> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos || text.size() < 2) return std::nullopt;
  const std::string_view first = text.substr(0, dash), last = text.substr(dash + 1);
  ByteRange out;
  if (!parse_offset(first, out.first) || !parse_offset(last, out.last)) return std::nullopt;
  if (out.first && out.last && *out.last < *out.first) return std::nullopt;
  if (!out.first && out.last == 0U) return std::nullopt;
  return out;
}

}  // namespace

std::optional<std::vector<ByteRange>> parse_ranges(std::string_view text) {
  std::vector<ByteRange> out;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::optional<ByteRange> range = parse_range(text.substr(0, comma));
    if (!range) return std::nullopt;
    out.push_back(*range);
    if (comma == text.size()) return out;
    text.remove_prefix(comma + 1);
  }
}

std::optional<Span> resolve(const ByteRange& range, std::uint64_t size) {
  if (!range.first) return Span{size - std::min(size, *range.last), size};
  if (*range.first >= size) return std::nullopt;
  const std::uint64_t last = std::min(range.last.value_or(last_byte), size - 1);
  return Span{*range.first, last + 1};
}

}  // namespace nfsrdma::cli
