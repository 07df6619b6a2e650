// Contents of a file on the server, written to standard output: the part that cat, get, head and tail share.
// A whole file that is small takes one request to the server.
#pragma once

#include <optional>

#include "cli/byte_ranges.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/transfer.h"

namespace nfsrdma::cli {

/// Opens a file to be read. `at_directory` says what to do about a directory.
Result<RemoteSource> open_remote(const Remote& remote, const char* command, const char* at_directory);

/// Copies an open file to standard output: all of it, or a part. Without a part, data by which the file grows
/// meanwhile is copied as well; any other change of the file is an error. An error of standard output is left
/// to main(), because a closed pipe ends the program in its own way.
Status copy_to_stdout(Call& call, const Remote& remote, RemoteSource source, std::optional<Span> part,
                      Progress& progress);
/// Copies all of the file. Its first bytes are read without opening it (read_many()), in one request with
/// their attributes; a file that ends there is never opened. The rest is read as of an open file.
Status copy_to_stdout(Call& call, const Remote& remote, Progress& progress);

}  // namespace nfsrdma::cli
