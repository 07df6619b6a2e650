#include "engine/engine.h"

namespace nfsrdma::engine {

ServerFile::~ServerFile() = default;
Engine::~Engine() = default;

}  // namespace nfsrdma::engine
