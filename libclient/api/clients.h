// struct nfsrdma_client, and how a client is connected.
//
// Thread-safety: that of the client (crew.h).
#pragma once

#include "api/client_core.h"
#include "connect/options.h"

struct nfsrdma_client final : nfsrdma::api::ClientCore {
  using ClientCore::ClientCore;
};

struct nfsrdma_queue final : nfsrdma::api::Completions {
  explicit nfsrdma_queue(nfsrdma::api::ClientCore& of) : client(of) {}
  nfsrdma::api::ClientCore& client;
};

struct nfsrdma_options {
  nfsrdma::connect::Target target;
  nfsrdma_log log = nullptr;
  void* log_data = nullptr;
  int interrupt = -1;
  std::string answer;  // what nfsrdma_options_get() returned last
};

namespace nfsrdma::api {

/// Returns the options with the target, and with their timeouts limited to a year, because they are added to clock
/// times and multiplied. `target` may be null if the options have one; `options` may be null.
Result<nfsrdma_options> complete(const char* target, const nfsrdma_options* options);

}  // namespace nfsrdma::api
