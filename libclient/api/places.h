// Where paths begin: struct nfsrdma_dir, and the functions of the C interface that take one.
//
// Thread-safety: an nfsrdma_dir does not change.
#pragma once

#include <optional>
#include <string_view>

#include "engine/path.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

namespace nfsrdma::api {
class ClientCore;
}

struct nfsrdma_dir {
  nfsrdma_dir(nfsrdma::api::ClientCore& of, std::optional<nfsrdma::engine::FileHandle> begin)
      : client(of), directory(begin) {}
  [[nodiscard]] nfsrdma::Result<nfsrdma::engine::Path> parse(std::string_view text) const {
    using nfsrdma::engine::Path;
    return directory ? Path::parse_at(*directory, text) : Path::parse(text);
  }
  nfsrdma::api::ClientCore& client;
  const std::optional<nfsrdma::engine::FileHandle> directory;  // none: the server's root
};
