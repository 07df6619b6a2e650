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
