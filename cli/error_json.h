// Errors as JSON objects, for programs: one line each on standard error (--json).
#pragma once

#include <string>

#include "nfsrdma/result.h"

namespace nfsrdma::cli {

/// The parts of an Error's message, which is "EXPLANATION; NEXT STEP (STATUS)" without the parts that are
/// missing.
struct MessageParts {
  std::string explanation, next_step;
  std::string status;  ///< the name from the server's protocol: "NFS4ERR_NOENT"
};
MessageParts parts_of(const std::string& message);

/// "ENOENT"; "" for a number that no errno has.
std::string errno_name(int errno_value);

/// Returns the object of an Error: kind, target, operation, errno, status, message, next_step. Members that
/// would be empty are left out.
std::string error_json(const Error& error);
/// Returns the object of a line that is no Error, such as "connection lost, reconnecting".
std::string notice_json(std::string_view text);

}  // namespace nfsrdma::cli
