// The client: a session with one NFS server over RDMA, and files on it.
//
//     auto target = nfsrdma::parse_target("nfs://server/export/file");
//     auto client = nfsrdma::Client::connect(*target);
//     if (!client) { std::cerr << client.error().text() << '\n'; return 1; }
//     auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
//     std::vector<std::byte> data(1 << 20);
//     auto count = (*file)->read(data, 0);          // placed by the server straight into `data`
//
// Thread-safety: a Client and its Files may be used from any thread, also the same File from several.
// Blocking calls of different threads are in flight at the same time: one that waits holds up no other. A
// callback of the asynchronous calls runs on a thread that is inside a call on that Client (most often in
// wait(), but any blocking call of any thread will do), one callback at a time: it may start further
// asynchronous calls, and must not call the blocking ones, which fail with EDEADLK. A thread of the library's
// own keeps the lease alive while nobody calls. disconnect() may be called at any time, and ends the calls of
// other threads with an error. Do not destroy a File while another thread is inside a call on it, nor a
// Client.
//
// Deadlines: every blocking call ends, at the latest when Options::timeout has passed without an answer.
// Meanwhile lost connections are made anew, and lost sessions and open files recovered; an Observer hears of
// it.
//
// Interruption: while the descriptor given to connect() as `interrupt` is readable, blocking calls (connect()
// itself too) end within a second with ErrorKind::cancelled, and wait() returns at once. A signal handler
// that writes to an eventfd is all that a program needs; it reads the eventfd empty before calls that shall
// work again, such as those that clean up.
//
// Memory: buffers given to read and write are exposed to the server for the one operation, and are out of its
// reach when the call returns or the callback runs, also when it failed.
//
// Errors are values (result.h). No exception leaves the library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfsrdma/export.h"
#include "nfsrdma/options.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

enum class FileType : unsigned char { unknown, regular, directory, symlink, block, character, fifo, socket };

struct Time {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  friend bool operator==(const Time&, const Time&) = default;
};

struct Attributes {
  FileType type = FileType::unknown;
  std::uint32_t mode = 0;  ///< permission bits, 07777
  std::uint32_t links = 0;
  std::string owner, group;               ///< as the server says: a number or name@domain
  std::optional<std::uint32_t> uid, gid;  ///< where owner and group are, or map to, numbers
  std::uint64_t size = 0, space_used = 0, file_id = 0, change = 0;
  std::uint64_t filesystem_major = 0, filesystem_minor = 0;
  std::uint32_t device_major = 0, device_minor = 0;
  Time accessed, modified, changed;
};

struct SetAttributes {
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> accessed, modified;
  bool accessed_now = false, modified_now = false;  ///< the server's clock
};

struct DirectoryEntry {
  std::string name;
  std::uint64_t cookie = 0;
  /// Absent where the server could not tell (a mount point that fails, a permission).
  std::optional<Attributes> attributes;
};

struct FilesystemSpace {
  std::uint64_t total = 0, free = 0, available = 0;                    ///< bytes
  std::uint64_t files_total = 0, files_free = 0, files_available = 0;  ///< inodes
};

/// What was negotiated. Every field is what this connection really uses.
struct Info {
  std::string server, address, fabric, fabric_detail, fabric_reason;
  std::string device;           ///< the RDMA device; empty on the iwarp fabric
  bool memory_windows = false;  ///< the device has windows of type 2: nothing is registered for remote access
  unsigned mpa_revision = 0;
  bool crc = false;
  std::uint32_t ird = 0, ord = 0;
  std::uint32_t call_threshold = 0, reply_threshold = 0;  ///< inline, to and from the server
  bool private_data = false;                              ///< the server sent RFC 8797 private data
  bool remote_invalidation = false;                       ///< agreed on by both sides' private data
  bool invalidation_offered = false;                      ///< by ours: a server may invalidate our handles
  std::uint32_t credits_wanted = 0, credits_granted = 0;
  unsigned minor_version = 0;
  std::uint32_t slots = 0;
  std::uint32_t max_request = 0, max_response = 0, max_response_cached = 0, max_operations = 0;
  std::uint32_t rsize = 0, wsize = 0;
  std::uint32_t lease_seconds = 0;
  std::string implementation_name, implementation_domain;  ///< empty where the server does not say
  std::optional<Time> implementation_date;
  std::string server_owner, server_scope;
  std::uint64_t client_id = 0;
  std::string session_id;         ///< hexadecimal
  bool backchannel = false;       ///< the server can call back: delegations may be had
  std::uint32_t connections = 0;  ///< that stand and belong to the session, of Options::connections
  std::uint64_t calls = 0, retransmissions = 0, reconnects = 0;  ///< of all connections
};

/// Hears of what went wrong and was, or is being, mended. Called on the thread that is inside a call.
class NFSRDMA_API Observer {
 public:
  virtual ~Observer();
  /// One sentence for people: "server: connection lost (…), reconnecting".
  virtual void notice(const std::string& text) = 0;
};

enum class OpenMode : unsigned char { read, write, read_write };

struct OpenFlags {
  bool create = false;
  bool exclusive = false;  ///< with create: fail with EEXIST if it is there
  bool truncate = false;
  std::uint32_t mode = 0666;  ///< permissions of a file that is created; the server applies no umask
};

/// The name that `length` bytes at `offset` fall under: data or a hole (RFC 7862 SEEK).
struct Extent {
  std::uint64_t offset = 0, length = 0;
  bool hole = false;
};

class Client;

/// An open file. Closed by close() or, without a report of errors, by its destructor. Must not outlive its
/// Client. The destructor cancels what start_read and start_write began: when it returns, their buffers are
/// out of the server's reach and no callback of theirs runs any more.
class NFSRDMA_API File {
 public:
  using Done = std::function<void(Result<std::size_t>)>;

  virtual ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Reads up to data.size() bytes; fewer only at the end of the file. What is larger than rsize goes in
  /// pieces, several of them in flight; if one fails, the call does.
  virtual Result<std::size_t> read(std::span<std::byte> data, std::uint64_t offset) = 0;
  /// Writes all of it, not yet to stable storage: see sync(). Pieces as with read(). If it fails, parts of it
  /// may have been written.
  virtual Result<std::size_t> write(std::span<const std::byte> data, std::uint64_t offset) = 0;
  /// Starts a READ or WRITE of at most rsize/wsize bytes (more is an Error); `done` hears how many bytes
  /// went. A READ that gives fewer bytes has reached the end of the file. `data` must stay until then.
  virtual void start_read(std::span<std::byte> data, std::uint64_t offset, Done done) = 0;
  /// As start_read. After `done` the bytes are the library's duty: it keeps a copy until they are stable and
  /// writes them again if the server lost them, so `data` is free. An error of a later rewrite comes from
  /// sync().
  virtual void start_write(std::span<const std::byte> data, std::uint64_t offset, Done done) = 0;
  /// Makes everything written stable (COMMIT); rewrites what a restarted server lost.
  virtual Status sync() = 0;
  virtual Result<Attributes> attributes() = 0;
  virtual Status set_attributes(const SetAttributes& changes) = 0;
  /// The next extent at or after `offset`: a hole or data; nothing past the end of the file. Errc ENOTSUP
  /// where the server has no SEEK.
  virtual Result<std::optional<Extent>> next_extent(std::uint64_t offset) = 0;
  virtual Status close() = 0;

 protected:
  File() = default;
};

class NFSRDMA_API Client {
 public:
  /// Connects, opens a session, finds the root. `observer` may be null and must outlive the client.
  /// `interrupt`: see above; -1 for none. It stays the caller's and must outlive the client.
  static Result<std::unique_ptr<Client>> connect(const Target& target, Observer* observer = nullptr,
                                                 int interrupt = -1);

  /// Ends the session on the server (within a second or so) unless disconnect() did. Tries also while
  /// `interrupt` is readable.
  virtual ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Closes files, destroys session and client id on the server.
  virtual Status disconnect() = 0;
  virtual Info info() = 0;
  /// One round trip through the session (SEQUENCE alone).
  virtual Result<std::chrono::nanoseconds> ping() = 0;

  // Paths are absolute on the server, with "/" between names; "." and ".." are resolved here. Symbolic links
  // are followed in the middle, and at the end where it says so.
  virtual Result<Attributes> stat(std::string_view path, bool follow = true) = 0;
  virtual Result<std::string> read_link(std::string_view path) = 0;
  virtual Result<FilesystemSpace> space(std::string_view path) = 0;
  /// Calls `entry` for each entry in the server's order, without "." and ".."; stops when it returns false.
  /// Memory does not grow with the directory. `entry` may make other calls on this client, as for the text of
  /// a symbolic link: no lock is held while it runs.
  virtual Status list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) = 0;
  virtual Status make_directory(std::string_view path, std::uint32_t mode) = 0;
  virtual Status remove_file(std::string_view path) = 0;       ///< EISDIR for a directory
  virtual Status remove_directory(std::string_view path) = 0;  ///< ENOTDIR for anything else
  virtual Status rename(std::string_view from, std::string_view to) = 0;
  virtual Status link(std::string_view existing, std::string_view created) = 0;
  virtual Status symlink(std::string_view text, std::string_view created) = 0;
  virtual Status set_attributes(std::string_view path, const SetAttributes& changes, bool follow = true) = 0;
  /// Bits of access(2): 4 read, 2 write, 1 execute; gives those that the server grants.
  virtual Result<unsigned> access(std::string_view path, unsigned wanted) = 0;
  virtual Result<std::unique_ptr<File>> open(std::string_view path, OpenMode mode,
                                             const OpenFlags& flags = {}) = 0;

  /// Runs the client until something happened (a callback ran, a descriptor of `also` became readable) or
  /// `most` passed. Returns false if nothing did.
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

}  // namespace nfsrdma
