// See line_scan.h.
#include "cli/line_scan.h"

#include <algorithm>

namespace nfsrdma::cli {
namespace {

constexpr std::uint64_t scan_block = 64 * 1024;

}  // namespace

Result<std::uint64_t> start_of_last_lines(const ReadAt& read, std::uint64_t size, std::uint64_t lines) {
  if (lines == 0) return size;
  std::uint64_t found = 0;
  for (std::uint64_t end = size; end != 0;) {
    const std::uint64_t begin = end - std::min(end, scan_block);
    const Result<std::string> block = read(begin, static_cast<std::size_t>(end - begin));
    if (!block) return block.error();
    for (std::size_t at = block->size(); at-- != 0;) {
      // The newline at the very end does not begin a further line.
      if ((*block)[at] != '\n' || begin + at + 1 == size) continue;
      if (++found == lines) return begin + at + 1;
    }
    end = begin;
  }
  return std::uint64_t{0};
}

Result<std::uint64_t> end_of_first_lines(const ReadAt& read, std::uint64_t size, std::uint64_t lines) {
  if (lines == 0) return std::uint64_t{0};
  std::uint64_t found = 0;
  for (std::uint64_t begin = 0; begin < size;) {
    const auto count = static_cast<std::size_t>(std::min(scan_block, size - begin));
    const Result<std::string> block = read(begin, count);
    if (!block) return block.error();
    for (std::size_t at = 0; at < block->size(); ++at) {
      if ((*block)[at] == '\n' && ++found == lines) return begin + at + 1;
    }
    if (block->size() < count) break;  // the file has become shorter
    begin += block->size();
  }
  return size;
}

}  // namespace nfsrdma::cli
