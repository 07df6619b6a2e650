// Where lines begin in a file that can be read at any offset: what head and tail need to know.
//
// A line ends with a newline; a last line without one counts as well. The functions read the file in blocks,
// from its end backward or from its start forward, and keep one block in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

/// Returns up to `count` bytes from `offset`; fewer only at the end of the file.
using ReadAt = std::function<Result<std::string>(std::uint64_t offset, std::size_t count)>;

/// Returns the offset at which the last `lines` lines of the first `size` bytes begin.
Result<std::uint64_t> start_of_last_lines(const ReadAt& read, std::uint64_t size, std::uint64_t lines);

/// Returns the offset behind the first `lines` lines, or `size` if there are not so many.
Result<std::uint64_t> end_of_first_lines(const ReadAt& read, std::uint64_t size, std::uint64_t lines);

}  // namespace nfsrdma::cli
