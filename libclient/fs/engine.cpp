#include "fs/engine.h"

namespace nfsrdma::fs {

ServerFile::~ServerFile() = default;
Engine::~Engine() = default;

}  // namespace nfsrdma::fs
