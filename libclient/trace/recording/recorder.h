// The recorder of a trace: it makes Taps for connections (fabric/tap.h), and writes what they see as frames
// (trace/format/frames.h) into one file.
//
// How a message is shown. The Send is written as it went, up to Options::bytes of it. A message whose chunks
// are small enough to be kept as a whole is followed (a Call) or preceded (a Reply) by the RDMA Reads or
// Writes that moved them, so that tshark puts the pieces together. This side does not see when the peer reads
// or writes, so these frames have the time of the message. If the chunks are not kept as a whole:
//
//   a Call with Read chunks     a second frame with the RPC Call put together, without chunks, and cut
//   a Reply in the Reply chunk  the same for the RPC Reply
//   results in Write chunks     the Send claims to be longer than it is: what was placed counts as cut off
//
// tshark then sees each Call, each Reply and their operations up to the data that is missing.
//
// Comments of packets say what the frames cannot: "nfsrdma: " and words. A connection's first frame has the
// server's name, its second what was negotiated, its last why it ended. A message that is not kept as a whole
// has "message=3000 kept=1024 placed=1048576": its size, how much of it there is, and how much was placed in
// Write chunks and is not kept.
//
// A file that begins while connections are up (trace_size was reached, or the trace was switched on) begins
// with the set-up of each connection as soon as that is used.
//
// Failure. A failure of the file switches the recorder off, and is reported once, by the `warn` of the connection
// that has met with it.
//
// Thread-safety: a Recorder is used by connections of several loops on several threads; a mutex guards all of
// its state, and Taps hold it while they write. The Recorder lives as long as one of its Taps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/tap.h"
#include "nfsrdma/result.h"
#include "rpcrdma/header.h"
#include "trace/format/frames.h"
#include "trace/recording/trace_file.h"

namespace nfsrdma::trace {

struct Options {
  std::uint64_t size = 64ULL << 20;  ///< of a file, in bytes
  std::uint32_t bytes = 1024;        ///< kept of each message, and of each message's chunks
  /// Returns the time since 1970 in nanoseconds.
  std::function<std::uint64_t()> now;
  /// Returns this machine's address on the way to the server.
  std::function<sockaddr_storage(const sockaddr_storage& server)> local_address;
};

using Warn = std::function<void(const std::string&)>;

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(Options options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Begins a trace in a file, in place of the one that is being written. A relative name is taken from the
  /// working directory.
  Status start(const std::string& name);
  void stop();
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }
  /// The name of the current file, or of the last one; empty before the first.
  [[nodiscard]] std::string name() const;
  /// The bytes that were written since start().
  [[nodiscard]] std::uint64_t written() const;

  /// Makes Taps. The function keeps the Recorder alive. `warn` may be null; it must live as long as the Taps.
  [[nodiscard]] fabric::Tapper tapper(Warn warn);

 private:
  class Line;

  std::unique_ptr<fabric::Tap> tap(const fabric::Destination& to, const Warn& warn);
  // The callers of these hold the mutex.
  void put(const Octets& frame, std::uint32_t original_size, const std::string& text);
  void make_room(std::size_t count);
  void begin_file();
  void append(const Octets& blocks);
  void fail(const Error& why);

  const Options options_;
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // guards what follows
  TraceFile file_;
  std::uint64_t files_ = 0;  // begun so far
  std::uint64_t written_ = 0;
  std::uint64_t starts_ = 0;
  std::uint32_t connections_ = 0;
  std::optional<Error> failure_;  // a failure that has not been reported yet
  Octets block_;
};

/// Returns the Recorder of this process that writes to the file, so that several clients share one trace.
/// Makes and starts it if there is none. If the file cannot be written, `warn` is called at once, and the
/// Recorder is off.
std::shared_ptr<Recorder> recorder_of(const std::string& name, Options options, const Warn& warn);

}  // namespace nfsrdma::trace
