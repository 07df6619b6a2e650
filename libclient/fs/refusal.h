// Errors of this layer itself, as opposed to those that a server returned.
#pragma once

#include <string>

#include "engine/engine.h"

namespace nfsrdma::fs {

[[nodiscard]] inline Error refusal(int code, const char* operation, const std::string& name,
                                   const char* why) {
  return {ErrorKind::usage, code, operation, name, why};
}

}  // namespace nfsrdma::fs
