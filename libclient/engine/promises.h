// Promises of a server about the files of one client: delegations (RFC 8881 10.4), and what they allow. A version
// whose servers make none uses this class as it stands, which answers that nothing is promised.
//
// A file may be kept open after its last close, because its delegation would end with the open.
//
// Confined to the loop's thread. A Promises belongs to an Engine, and ends with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "async/task.h"
#include "engine/spot.h"
#include "engine/write_back_owner.h"

namespace nfsrdma::engine {

class ServerFile;

class Promises {
 public:
  Promises() = default;
  virtual ~Promises() = default;
  Promises(const Promises&) = delete;
  Promises& operator=(const Promises&) = delete;

  /// Returns whether this client has a delegation of the file, so that the server recalls it before another
  /// client changes the file. Engine::attributes() then makes no call.
  [[nodiscard]] virtual bool delegated(const FileHandle& /*file*/) const { return false; }
  /// Returns how long, at least, the server waits for the holder of a delegation before it lets another
  /// client change the file: the lease time.
  [[nodiscard]] virtual std::chrono::seconds delegated_for() const { return {}; }
  /// `sink` is called with the file when its delegation ends, before the server learns of that.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): an engine with delegations keeps the sink
  virtual void on_delegation_end(std::function<void(const FileHandle&)> /*sink*/) {}

  /// Sets the object that keeps data after close(2) has returned; null removes it. The object must outlive
  /// the tasks that use it.
  virtual void write_back_owner(WriteBackOwner* /*who*/) {}
  /// Returns the largest size up to which close(2) may leave the file's data to the WriteBackOwner. A write
  /// delegation allows that: no other client sees the file before the data is written out, and the server has
  /// reserved the space. Returns 0 if close(2) has to wait.
  [[nodiscard]] virtual std::uint64_t max_size_for_deferred_close(const FileHandle& /*file*/) const {
    return 0;
  }
  /// Called when close(2) of the file has returned before its data was with the server, as
  /// max_size_for_deferred_close() allows. If the delegation is lost before the server has what was written
  /// through `file`, that data is discarded: its write() or commit() fails, or Engine::on_lost_data() reports
  /// it.
  virtual void close_is_deferred(const std::shared_ptr<ServerFile>& /*file*/) {}

  /// Sets how many files, at most, are kept open for the sake of their delegations after their last close.
  virtual void keep_delegated(std::size_t /*most*/) {}
  /// Called when the file is not expected to be used again. It is no longer kept open for its delegation.
  virtual void forget(const FileHandle& /*file*/) {}
  /// Closes all files that are kept open. Ends when there are none.
  virtual async::Task<void> forget_all() { co_return; }
  [[nodiscard]] virtual std::size_t kept_files() const { return 0; }

  /// Called once no program waits for Engine::close() any more. A CLOSE may then be held back for some
  /// milliseconds, to leave together with others.
  virtual void hold_closes() {}
  /// Sends the CLOSEs that are held back now, because a caller waits for them.
  virtual void hurry_closes() {}
};

}  // namespace nfsrdma::engine
