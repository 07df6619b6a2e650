#include "engine/engine.h"

#include "engine/roots.h"

namespace nfsrdma::engine {

ServerFile::~ServerFile() = default;
Engine::~Engine() = default;
Roots::~Roots() = default;

}  // namespace nfsrdma::engine
