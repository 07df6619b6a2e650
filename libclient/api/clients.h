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
  /// The target, with the options in force: those that were given, and defaults of the configuration.
  nfsrdma::connect::Target target;
  /// The options that the program, its user or the target gave.
  nfsrdma::connect::Options given;
  nfsrdma_log log = nullptr;
  void* log_data = nullptr;
  int interrupt = -1;
  std::string answer;  // what nfsrdma_options_get() returned last
};

namespace nfsrdma::api {

/// Sets the target and its options, and the defaults that the configuration has for it.
Status aim(nfsrdma_options& options, const char* target);
/// Sets the defaults that the configuration has for the target, in place of those that it had before.
Status configure(nfsrdma_options& options);

/// Returns the options with the target, and with their timeouts limited to a year, because they are added to clock
/// times and multiplied. `target` may be null if the options have one; `options` may be null.
Result<nfsrdma_options> complete(const char* target, const nfsrdma_options* options);

}  // namespace nfsrdma::api
