// The client: one NFS server over RDMA. What can be done by path is in names.h, what with an open file in
// file.h, plain values in types.h, access control lists in acl.h.
//
//     auto target = nfsrdma::parse_target("nfs://server/export/file");
//     auto client = nfsrdma::Client::connect(*target);
//     if (!client) { std::cerr << client.error().text() << '\n'; return 1; }
//     auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
//     std::vector<std::byte> data(1 << 20);
//     auto count = (*file)->read(data, 0);          // placed by the server straight into `data`
//
// Thread-safety: a Client, its Files and its Directories may be used from any thread, also the same File from several.
// Blocking calls of different threads are in flight at the same time: one that waits holds up no other. A thread
// of the library's own keeps the lease alive while nobody calls. disconnect() may be called at any time, and ends
// the calls of other threads, and those that were started, with an error. Do not destroy a File while another
// thread is inside a call on it, nor a Client.
//
// Asynchronous calls, start_…, do what the blocking call of the same name does, and tell a callback how it went:
// once, whatever went wrong, and never from inside the call that started it. It runs on a thread that is inside
// a call on that Client (most often in wait() or service(), but any blocking call of any thread will do), one
// callback at a time. It may start further asynchronous calls and destroy Files and Directories. It must not
// destroy the Client, throw (that ends the program), or call what blocks, which fails with EDEADLK. The
// destructor of a File cancels what was started on the file, that of the Client what was started by path: those
// callbacks never run.
//
//     client->start_open("/export/file", nfsrdma::OpenMode::read, [&](auto opened) {
//       if (!opened) return failed(opened.error());
//       file = std::move(*opened);
//       file->start_read(data, 0, [&](auto count) { …; file->start_close([&](auto closed) { file.reset(); }); });
//     });
//     while (…) client->wait(std::chrono::seconds(1));
//
// Deadlines: every call ends, at the latest when Options::timeout has passed without an answer. Meanwhile lost
// connections are made anew, and lost sessions and open files recovered; an Observer hears of it.
//
// Interruption: while the descriptor given to connect() as `interrupt` is readable, blocking calls (connect()
// itself too) end within a second with ErrorKind::cancelled, and wait() returns at once; what was started goes
// on. A signal handler that writes to an eventfd is all that a program needs; it reads the eventfd empty before
// calls that shall work again, such as those that clean up.
//
// fork(2): the child may use none of the Clients, Files and Directories of its parent, whose sessions, locks and open files
// are the parent's alone. Every call on one of them fails there at once with ENOTCONN (info() is empty, descriptor() is
// -1), nothing is sent, and callbacks of what the parent started do not run. Destroying them in the child leaves the parent
// as it is; what memory they take stays the child's until it ends or calls exec(2). The child may connect Clients of its
// own, over RDMA devices only where its parent had not used any. A process that vfork(2) or posix_spawn(3) makes has
// nothing to do with the Client at all.
//
// Memory: buffers given to read and write are exposed to the server for the one operation, and are out of its
// reach when the call returns or the callback runs, also when it failed.
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

/// What was negotiated. Every field is what this connection really uses.
struct Info {
  std::string server, address, fabric, fabric_detail, fabric_reason;
  std::string device;           ///< the RDMA device; empty on the iwarp fabric
  bool memory_windows = false;  ///< the device has windows of type 2: nothing is registered for remote access
  unsigned mpa_revision = 0;
  bool crc = false;
  std::uint32_t ird = 0, ord = 0;
  std::uint32_t call_threshold = 0, reply_threshold = 0;  ///< inline, to and from the server
  std::string security;  ///< what the target is asked about with: "sys", "krb5" …
  /// Calls by flavour, where it is not one for all.
  std::vector<std::pair<std::string, std::uint64_t>> calls_by_security;
  bool private_data = false;          ///< the server sent RFC 8797 private data
  bool remote_invalidation = false;   ///< agreed on by both sides' private data
  bool invalidation_offered = false;  ///< by ours: a server may invalidate our handles
  std::uint32_t credits_wanted = 0, credits_granted = 0;
  std::string version;           ///< of NFS: "4.2", "3"
  unsigned minor_version = 0;    ///< of version 4
  std::string ping_call;         ///< what Client::ping() asks the server
  std::string locks;             ///< how locks are done, where not by NFS itself
  std::string read_plus;         ///< what the server does with READ_PLUS; empty if it was not used yet
  std::uint64_t hole_bytes = 0;  ///< bytes read so far in holes that the server reported and did not send
  std::uint32_t slots = 0;       ///< calls under way at most
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t rsize = 0, wsize = 0;
  std::uint32_t lease_seconds = 0;
  std::string implementation_name, implementation_domain;  ///< empty where the server does not say
  std::optional<Time> implementation_date;
  std::string server_owner, server_scope;
  std::uint64_t client_id = 0;
  std::string session_id;         ///< hexadecimal
  bool protects_state = false;    ///< nobody but this machine may end the session (SP4_MACH_CRED)
  bool backchannel = false;       ///< the server can call back: delegations may be had
  std::string callback_address;   ///< NFSv4.0: where it does, as a universal address (RFC 5665)
  std::uint32_t connections = 0;  ///< that stand and belong to the session, of Options::connections
  std::uint64_t calls = 0, retransmissions = 0, reconnects = 0;  ///< of all connections
};

/// Hears of what went wrong and was, or is being, mended. Called on a thread that is inside a call, or on the
/// library's own.
class NFSRDMA_API Observer {
 public:
  virtual ~Observer();
  /// One sentence for people: "server: connection lost (…), reconnecting". It may come in the middle of the end of
  /// a READ: notice() must not call the Client or its Files, not even to start something, nor destroy one of them.
  virtual void notice(const std::string& text) = 0;
};

/// Its paths begin at the server's root, with or without "/".
class NFSRDMA_API Client : public Names {
 public:
  /// Connects, opens a session, finds the root. `observer` may be null and must outlive the client.
  /// `interrupt`: see above; -1 for none. It stays the caller's and must outlive the client.
  static Result<std::unique_ptr<Client>> connect(const Target& target, Observer* observer = nullptr,
                                                 int interrupt = -1);

  /// Ends the session on the server (within a second or so) unless disconnect() did. Tries also while
  /// `interrupt` is readable. An open that was started and has not ended is undone.
  ~Client() override;

  /// Closes files, destroys session and client id on the server.
  virtual Status disconnect() = 0;
  virtual Info info() = 0;
  /// One round trip through the session (SEQUENCE alone).
  virtual Result<std::chrono::nanoseconds> ping() = 0;

  /// Runs the client until something happened (a callback ran, a descriptor of `also` became readable) or
  /// `most` passed; milliseconds::max() is for ever. Returns false if nothing did.
  virtual bool wait(std::chrono::milliseconds most, std::span<const int> also = {}) = 0;

  // For programs with an event loop of their own, in place of wait(): poll descriptor() for POLLIN, and call
  // service() when it is readable, when the time has passed that service() gave, and after calls were
  // started.

  /// Stays the Client's. From the first call on the program is expected to look after it.
  virtual int descriptor() = 0;
  /// Does what is to be done now, callbacks included, without waiting. Gives how long it may be until the
  /// next time.
  virtual std::chrono::milliseconds service() = 0;

 protected:
  Client() = default;
};

/// What a server exports by NFSv3 and NFSv2.
struct Export {
  std::string path;
  std::vector<std::string> clients;  ///< for whom, as the server says it; none: for everybody
};
/// Asks the server's mount service, as showmount -e does; NFS need not be served. The target's path does not
/// matter, its options mounthost, mountport, mountproto and connect_timeout do. `interrupt`: as above. Any thread.
NFSRDMA_API Result<std::vector<Export>> list_exports(const Target& target, int interrupt = -1);

/// Who has mounted an export by NFSv3 or NFSv2. Clients that were killed, and those of NFSv4, tell the server nothing.
struct MountedBy {
  std::string client, path;
};
/// As list_exports(), and as showmount -a does.
NFSRDMA_API Result<std::vector<MountedBy>> list_mounts(const Target& target, int interrupt = -1);

}  // namespace nfsrdma
