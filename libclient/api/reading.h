// A started READ: on the fast path (engine/fast_read.h) if it qualifies, else as any other call. A client
// reuses these objects, so that a READ on the fast path allocates nothing.
//
// Thread-safety: that of the client (crew.h).
#pragma once

#include <cstddef>
#include <optional>

#include "api/client_core.h"

namespace nfsrdma::api {

class Reading final : public engine::FastRead, public StartedCall {
 public:
  explicit Reading(ClientCore& client) : StartedCall(client) {}
  /// Does the READ as a task. Called if the fast path does not take it.
  void go_on(async::Task<Result<std::size_t>> rest) { client().work(*this, result_, std::move(rest)); }
  void release() override {
    result_.reset();
    client().readings().give_back(*this);
  }

 private:
  void ended(std::size_t count) override {
    result_.emplace(count);
    StartedCall::ended();
  }
  void goes_on(async::Task<Result<std::size_t>> rest) override { go_on(std::move(rest)); }
  void drop() override {
    FastRead::drop();
    StartedCall::drop();
  }
  Result<std::int64_t> finish() override {
    if (!*result_) return result_->error();
    return static_cast<std::int64_t>(**result_);
  }
  std::optional<Result<std::size_t>> result_;
};

}  // namespace nfsrdma::api
