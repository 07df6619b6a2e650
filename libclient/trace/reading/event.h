// The events of a decoded trace: one Event for each message, and for each beginning and end of a connection.
//
// Thread-safety: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nfsrdma::trace {

/// Chunks of one kind in a message.
struct ChunkSum {
  std::uint32_t chunks = 0, segments = 0;
  std::uint64_t bytes = 0;  ///< in a Call: offered; in a Reply: used
  friend bool operator==(const ChunkSum&, const ChunkSum&) = default;
};

struct Operation {
  std::string name;       ///< "READ"
  std::string arguments;  ///< of a Call: "offset=0 count=4096"; of a Reply: facts of the result
  std::string status;     ///< of a Reply: "OK", "NFS4ERR_NOENT"; else empty
};

enum class EventKind : std::uint8_t {
  connecting,
  connected,
  disconnected,
  call,
  reply,
  error,    ///< RDMA_ERROR in the place of a Reply
  strange,  ///< a message that cannot be decoded
};
[[nodiscard]] const char* to_string(EventKind kind);

struct Event {
  EventKind kind = EventKind::strange;
  std::uint64_t time_ns = 0;     ///< since 1970
  std::uint32_t connection = 0;  ///< counts from 1, in the order in which they begin
  std::string text;              ///< about a connection, or what is strange

  // ---- messages ----
  bool to_server = true;
  bool backward = false;  ///< a Call of the server's, or its Reply (RFC 8167)
  std::uint32_t xid = 0;
  std::uint32_t credits = 0;     ///< asked for by a Call, granted by a Reply
  std::uint64_t size = 0;        ///< of the Send
  bool cut = false;              ///< what was kept ends before the message does
  std::uint32_t sends = 1;       ///< a Call: how often it has been sent, with this time
  bool invalidates = false;      ///< a Reply that invalidates a memory handle
  ChunkSum reads, long_call;     ///< Read chunks of items; the Position Zero Read chunk
  ChunkSum writes, reply_chunk;  ///< Write chunks, the Reply chunk

  std::string protocol;   ///< "NFSv4.2", "NFSv3", "callback"; empty if it is not known
  std::string procedure;  ///< "COMPOUND", "READ"
  std::vector<Operation> operations;
  std::string status;   ///< of a Reply: "OK", a status of NFS, or why RPC refused
  bool failed = false;  ///< the status is a failure
  std::optional<std::chrono::nanoseconds> round_trip;  ///< of a Reply whose Call is in the trace
  std::uint64_t data_bytes = 0;                        ///< of a Reply: what READ and WRITE have moved

  /// The operations, each once, or the procedure: "OPEN+READ+CLOSE", without SEQUENCE, PUTFH and the like.
  [[nodiscard]] std::string kind_of_call() const;
};

}  // namespace nfsrdma::trace
