// What the tests of the C interface (nfsrdma/nfsrdma.h) share: a client of it on a test server, errors that free
// themselves, and structs with their sizes filled in.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "nfsrdma/nfsrdma.h"
#include "support/nfs_server.h"

namespace nfsrdma::testing {

/// An error that frees itself.
struct CFailure {
  nfsrdma_error* error = nullptr;
  CFailure() = default;
  ~CFailure() { nfsrdma_error_free(error); }
  CFailure(const CFailure&) = delete;
  CFailure& operator=(const CFailure&) = delete;
  operator nfsrdma_error**() { return &error; }  // NOLINT: implicit on purpose
  [[nodiscard]] std::string text() const { return error == nullptr ? "" : nfsrdma_error_text(error); }
  [[nodiscard]] int number() const { return error == nullptr ? 0 : nfsrdma_error_errno(error); }
  [[nodiscard]] int kind() const { return error == nullptr ? -1 : nfsrdma_error_kind(error); }
};

inline nfsrdma_call call_with(nfsrdma_queue* queue, std::uint64_t tag, std::int64_t timeout = 0) {
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.queue = queue;
  call.tag = tag;
  call.timeout = timeout;
  return call;
}
inline nfsrdma_call callback_call(nfsrdma_done done, void* data) {
  nfsrdma_call call{};
  call.struct_size = sizeof call;
  call.done = done;
  call.data = data;
  return call;
}
inline nfsrdma_attributes room_for_attributes() {
  nfsrdma_attributes out{};
  out.struct_size = sizeof out;
  return out;
}

/// A server, and once connect() was called, a client of the C interface with one queue. At the end nobody may have broken a
/// rule.
struct CMounted {
  NfsServer server;
  nfsrdma_client* client = nullptr;
  nfsrdma_queue* queue = nullptr;

  ~CMounted() {
    nfsrdma_queue_free(queue);
    nfsrdma_client_free(client);
    CHECK(server.problems() == "");
  }
  void connect(const std::string& options = "timeo=5s", int interrupt = -1) {
    CFailure failure;
    nfsrdma_options* const how = nfsrdma_options_new();
    nfsrdma_options_set_interrupt(how, interrupt);
    const std::string url = "nfs://127.0.0.1:" + std::to_string(server.port()) + "/?" + options;
    client = nfsrdma_connect(url.c_str(), how, failure);
    nfsrdma_options_free(how);
    REQUIRE_MESSAGE(client != nullptr, failure.text());
    queue = nfsrdma_queue_new(client, failure);
    REQUIRE(queue != nullptr);
  }
  [[nodiscard]] nfsrdma_dir* root() const { return nfsrdma_root(client); }
  [[nodiscard]] nfsrdma_file* open(const char* path) const {
    CFailure failure;
    nfsrdma_file* file = nullptr;
    constexpr std::uint32_t kBoth = NFSRDMA_READ | NFSRDMA_WRITE;
    REQUIRE_MESSAGE(nfsrdma_open(root(), path, kBoth, 0666, &file, nullptr, failure) == 0, failure.text());
    return file;
  }
  [[nodiscard]] nfsrdma_call queued(std::uint64_t tag) const { return call_with(queue, tag); }
  /// Waits for the next completion of the queue.
  [[nodiscard]] nfsrdma_completion next() const {
    nfsrdma_completion out{};
    REQUIRE(nfsrdma_reap(queue, &out, 1, 1, 30'000) == 1);
    return out;
  }
};

}  // namespace nfsrdma::testing
