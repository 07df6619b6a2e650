// The client: one NFS server over RDMA. Operations by path are in names.h, operations on an open file in
// file.h, plain values in types.h, access control lists in acl.h.
//
//     auto target = nfsrdma::parse_target("nfs://server/export/file");
//     auto client = nfsrdma::Client::connect(*target);
//     if (!client) { std::cerr << client.error().text() << '\n'; return 1; }
//     auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
//     std::vector<std::byte> data(1 << 20);
//     auto count = (*file)->read(data, 0);          // placed by the server straight into `data`
//
// Thread-safety: a Client, its Files and its Directories may be used from any thread, and several threads may
// use the same File. Blocking calls of different threads are in flight at the same time; one that waits
// delays no other. A thread of the library keeps the lease alive while the program makes no calls.
// disconnect() may be called at any time; it ends the calls of other threads, and those that were started,
// with an error. Do not destroy a File or a Client while another thread is inside a call on it.
//
// Asynchronous calls (start_...) do what the blocking call of the same name does, and report the result to a
// callback: exactly once, whatever went wrong, and never from inside the call that started it. The callback
// runs on a thread that is inside a call on that Client (usually wait() or service(), but any blocking call
// of any thread may run it), one callback at a time. A callback may start further asynchronous calls, and may
// destroy Files and Directories. It must not destroy the Client, must not throw (an exception ends the
// program), and must not make blocking calls: they fail with EDEADLK. The destructor of a File cancels what
// was started on the file, and the destructor of the Client cancels what was started by path; the callbacks
// of cancelled calls never run.
//
//     client->start_open("/export/file", nfsrdma::OpenMode::read, [&](auto opened) {
//       if (!opened) return failed(opened.error());
//       file = std::move(*opened);
//       file->start_read(data, 0, [&](auto count) {
//         ...;
//         file->start_close([&](auto closed) { file.reset(); });
//       });
//     });
//     while (...) client->wait(std::chrono::seconds(1));
//
// Deadlines: every call ends, at the latest when Options::timeout has passed without an answer. Until then
// the library makes lost connections again and recovers lost sessions and open files; it reports this to the
// Observer.
//
// Interruption: connect() takes a descriptor, `interrupt`. While it is readable, blocking calls (connect()
// itself, too) end within a second with ErrorKind::cancelled, and wait() returns at once; started calls
// continue. A signal handler that writes to an eventfd is all that a program needs. The program reads the
// eventfd empty before it makes calls that are to work again, for example to clean up.
//
// fork(2): the child may not use the Clients, Files and Directories of its parent, because their sessions,
// locks and open files belong to the parent alone. In the child every call on one of them fails at once with
// ENOTCONN (info() is empty, descriptor() is -1), nothing is sent, and the callbacks of what the parent
// started do not run. Destroying one in the child does not affect the parent; its memory stays allocated in
// the child until the child ends or calls exec(2). The child may connect Clients of its own; over RDMA
// devices only if its parent had not used any. A process made by vfork(2) or posix_spawn(3) is not concerned:
// it neither uses the Client nor affects it.
//
// Memory: a buffer given to read or write is exposed to the server for that one operation. It is out of the
// server's reach when the call returns or the callback runs, even if the operation failed.
//
// Errors are values (result.h). No exception leaves the library.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/export.h"
#include "nfsrdma/file.h"
#include "nfsrdma/names.h"
#include "nfsrdma/options.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// The negotiated parameters. Every field describes what this connection really uses.
struct Info {
  std::string server, address, fabric, fabric_detail, fabric_reason;
  std::string device;  ///< the RDMA device; empty on the iwarp fabric
  /// The device has memory windows of type 2, so no buffer is registered for remote access.
  bool memory_windows = false;
  unsigned mpa_revision = 0;
  bool crc = false;
  std::uint32_t ird = 0, ord = 0;
  /// Largest inline message to the server, and from it.
  std::uint32_t call_threshold = 0, reply_threshold = 0;
  std::string security;  ///< the flavor used for the target: "sys", "krb5", ...
  /// The number of calls with each flavor, if the client may use several flavors.
  std::vector<std::pair<std::string, std::uint64_t>> calls_by_security;
  bool private_data = false;          ///< the server sent RFC 8797 private data
  bool remote_invalidation = false;   ///< agreed on by both sides' private data
  bool invalidation_offered = false;  ///< our private data offers it: a server may invalidate our handles
  std::uint32_t credits_wanted = 0, credits_granted = 0;
  std::string version;         ///< NFS version: "4.2", "3"
  unsigned minor_version = 0;  ///< minor version of NFSv4
  std::string ping_call;       ///< what Client::ping() asks the server
  /// Which locking service is used in NFSv3 and NFSv2; empty with NFSv4, which has locks of its own.
  std::string locks;
  std::string read_plus;         ///< how the server answers READ_PLUS; empty if it was not used yet
  std::uint64_t hole_bytes = 0;  ///< bytes read so far that lay in holes and were therefore not sent
  std::uint32_t slots = 0;       ///< most calls in flight
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t rsize = 0, wsize = 0;
  std::uint32_t lease_seconds = 0;
  std::string implementation_name, implementation_domain;  ///< empty if the server does not report them
  std::optional<Time> implementation_date;
  std::string server_owner, server_scope;
  std::uint64_t client_id = 0;
  std::string session_id;       ///< hexadecimal
  bool protects_state = false;  ///< only this machine may end the session (SP4_MACH_CRED)
  bool backchannel = false;     ///< the server can call back, so it can grant delegations
  /// NFSv4.0: the address at which it calls back, as a universal address (RFC 5665)
  std::string callback_address;
  std::uint32_t connections = 0;  ///< those of Options::connections that are up and belong to the session
  std::uint64_t calls = 0, retransmissions = 0, reconnects = 0;  ///< totals of all connections
};

/// Receives notices of what went wrong and how the library deals with it. Called on a thread that is inside a
/// call, or on the library's own thread.
class NFSRDMA_API Observer {
 public:
  virtual ~Observer();
  /// `text` is one sentence for people: "server: connection lost (...), reconnecting". A notice may come
  /// while a READ is being completed. Therefore notice() must not call the Client or its Files, not even to
  /// start something, and must not destroy one of them.
  virtual void notice(const std::string& text) = 0;
};

/// A connection to one server. Its paths begin at the server's root, with or without a leading "/".
class NFSRDMA_API Client : public Names {
 public:
  /// Connects, opens a session and finds the root. `observer` may be null and must outlive the client.
  /// `interrupt`: see "Interruption" above; -1 for none. The descriptor stays the caller's and must outlive
  /// the client.
  static Result<std::unique_ptr<Client>> connect(const Target& target, Observer* observer = nullptr,
                                                 int interrupt = -1);

  /// Ends the session on the server unless disconnect() did; waits three seconds at most, and ignores
  /// `interrupt`. If an open was started and has not ended, it is undone.
  ~Client() override;

  /// Closes all files, and destroys the session and the client id on the server.
  virtual Status disconnect() = 0;
  virtual Info info() = 0;
  /// Measures one round trip through the session (SEQUENCE alone; Info::ping_call names the call in other
  /// versions).
  virtual Result<std::chrono::nanoseconds> ping() = 0;

  /// Runs the client until something happened (a callback ran, a descriptor of `also` became readable, or
  /// `interrupt` did) or `most` passed; milliseconds::max() means for ever. Returns false if nothing
  /// happened.
  virtual bool wait(std::chrono::milliseconds most, std::span<const int> also = {}) = 0;

  // Programs with an event loop of their own use descriptor() and service() in place of wait(). Poll
  // descriptor() for POLLIN. Call service() when it is readable, when the time that service() returned has
  // passed, and after starting calls.

  /// Returns a descriptor that stays the Client's. After the first call the program is expected to poll it
  /// and to call service().
  virtual int descriptor() = 0;
  /// Does what is due now, callbacks included, without waiting. Returns how long the program may take until
  /// it calls service() again.
  virtual std::chrono::milliseconds service() = 0;

 protected:
  Client() = default;
};

/// A directory that the server exports by NFSv3 and NFSv2.
struct Export {
  std::string path;
  /// The clients that may mount it, as the server lists them; empty: everybody.
  std::vector<std::string> clients;
};
/// Asks the server's mount service for its exports, as showmount -e does; the server need not run NFS. The
/// target's path is ignored; of its options mounthost, mountport, mountproto and connect_timeout are used.
/// `interrupt`: as for connect(). May be called from any thread.
NFSRDMA_API Result<std::vector<Export>> list_exports(const Target& target, int interrupt = -1);

/// A client that has mounted an export by NFSv3 or NFSv2, as far as the server knows: a client that was
/// killed stays listed, and clients of NFSv4 do not register.
struct MountedBy {
  std::string client, path;
};
/// Asks the server's mount service who has mounted its exports, as showmount -a does. See list_exports().
NFSRDMA_API Result<std::vector<MountedBy>> list_mounts(const Target& target, int interrupt = -1);

}  // namespace nfsrdma
