// The client: one NFS server over RDMA. Operations by path are in names.h, operations on an open file in
// file.h, plain values in types.h, access control lists in acl.h, completion queues in queue.h, and what
// coroutines await in await.h.
//
//     auto target = nfsrdma::parse_target("nfs://server/export/file");
//     auto client = nfsrdma::Client::connect(*target);
//     if (!client) { std::cerr << client.error().text() << '\n'; return 1; }
//     auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
//     std::vector<std::byte> data(1 << 20);
//     auto count = (*file)->read(data, 0);          // placed by the server straight into `data`
//
// These headers are C++20. Everything in them is inline and calls the C interface (nfsrdma.h), the only
// interface that the library exports. So a program may use other compilers and standard libraries than the
// library was built with, and runs with later versions of it. Functions named handle() lead to the C
// interface.
//
// Thread-safety: a Client, its Files and its Directories may be used from any thread, and several threads may
// use the same File. Blocking calls of different threads are in flight at the same time; one that waits
// delays no other. A thread of the library keeps the lease alive while the program makes no calls.
// disconnect() may be called at any time; it ends the calls of other threads, and those that were started,
// with an error. Do not destroy a File or a Client while another thread is inside a call on it.
//
// Started calls (start_...) do what the blocking call of the same name does, and report the result to a
// callback: exactly once, whatever went wrong. Callbacks run on a thread that is inside wait() or service()
// of the Client (or inside its destructor), nowhere else, and never inside the call that started them. A
// callback may make any calls, blocking ones too, and may destroy Files and Directories. It must not destroy
// the Client, and must not throw (an exception ends the program). If several threads are inside wait(), their
// callbacks may run at the same time. The destructor of a File cancels what was started on the file, and the
// destructor of the Client cancels what was started by path; the callbacks of cancelled calls never run.
// A call that was started need not be sent before the program calls wait() or service(), makes a blocking
// call, or calls submit(). Calls that are sent together cost less.
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
// Deadlines: every call ends, at the latest when the option `timeo` has passed without an answer, or earlier
// if its CallOptions say so. Until then the library makes lost connections again and recovers lost sessions
// and open files; it reports this to the Observer.
//
// Interruption: connect() takes a descriptor, `interrupt`. While it is readable, blocking calls (connect()
// itself, too) end within a second with ErrorKind::cancelled, and wait() returns at once; started calls
// continue. A signal handler that writes to an eventfd is all that a program needs. The program reads the
// eventfd empty before it makes calls that are to work again, for example to clean up.
//
// fork(2): the child may not use the Clients, Files and Directories of its parent, because their sessions,
// locks and open files belong to the parent alone. In the child every call on one of them fails with ENOTCONN
// (info() is empty, descriptor() is -1), nothing is sent, and the callbacks of what the parent started do not
// run. Destroying one in the child does not affect the parent; its memory stays allocated in the child until
// the child ends or calls exec(2). The child may connect Clients of its own; over RDMA devices only if its
// parent had not used any. A process made by vfork(2) or posix_spawn(3) is not concerned: it neither uses the
// Client nor affects it.
//
// Memory: a buffer given to read or write is exposed to the server for that one operation. It is out of the
// server's reach when the call returns or the callback runs, even if the operation failed.
//
// Errors are values (result.h). No function of the library throws; the headers themselves may throw
// std::bad_alloc.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
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

#include "nfsrdma/calling.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/file.h"
#include "nfsrdma/info.h"
#include "nfsrdma/names.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/options.h"
#include "nfsrdma/queue.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

/// Receives notices of what went wrong and how the library deals with it. Called on a thread that is inside a
/// call, or on the library's own thread.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = default;
  Observer& operator=(const Observer&) = default;
  virtual ~Observer() = default;
  /// `text` is one sentence for people: "server: connection lost (...), reconnecting". A notice may come
  /// while a READ is being completed. Therefore notice() must not call the Client or its Files, not even to
  /// start something, and must not destroy one of them.
  virtual void notice(const std::string& text) = 0;
};

namespace api_detail {

/// Reads the entries of an nfsrdma_info by name.
class Facts {
 public:
  explicit Facts(const nfsrdma_info* info) : info_(info) {}
  [[nodiscard]] std::string text(const char* name) const {
    const char* const found = nfsrdma_info_text(info_, name);
    return found != nullptr ? found : "";
  }
  [[nodiscard]] bool has(const char* name) const { return nfsrdma_info_text(info_, name) != nullptr; }
  [[nodiscard]] std::uint64_t number(const char* name) const { return nfsrdma_info_number(info_, name); }
  [[nodiscard]] bool flag(const char* name) const { return number(name) != 0; }
  void set(std::uint32_t& to, const char* name) const { to = static_cast<std::uint32_t>(number(name)); }
  /// Returns a time that is given as seconds since 1970, with or without a decimal fraction.
  [[nodiscard]] std::optional<Time> time(const char* name) const {
    const std::string value = text(name);
    Time out;
    const char* const end = value.data() + value.size();
    const auto [point, fault] = std::from_chars(value.data(), end, out.seconds);
    if (fault != std::errc()) return std::nullopt;
    std::uint32_t scale = 100'000'000;
    for (const char* at = point == end ? end : point + 1; at != end && scale != 0; ++at, scale /= 10) {
      if (*at < '0' || *at > '9') break;
      out.nanoseconds += static_cast<std::uint32_t>(*at - '0') * scale;
    }
    return out;
  }

 private:
  const nfsrdma_info* const info_;
};

inline void set_connection(Info& out, const Facts& facts) {
  out.server = facts.text("server");
  out.address = facts.text("address");
  out.fabric = facts.text("fabric");
  out.fabric_detail = facts.text("fabric_detail");
  out.fabric_reason = facts.text("fabric_reason");
  out.device = facts.text("device");
  out.memory_windows = facts.flag("memory_windows");
  facts.set(out.mpa_revision, "mpa_revision");
  out.crc = facts.flag("crc");
  facts.set(out.ird, "ird");
  facts.set(out.ord, "ord");
  facts.set(out.call_threshold, "call_threshold");
  facts.set(out.reply_threshold, "reply_threshold");
  out.private_data = facts.flag("private_data");
  out.remote_invalidation = facts.flag("remote_invalidation");
  out.invalidation_offered = facts.flag("invalidation_offered");
  facts.set(out.credits_wanted, "credits_wanted");
  facts.set(out.credits_granted, "credits_granted");
  facts.set(out.connections, "connections");
  facts.set(out.shards, "shards");
  out.calls = facts.number("calls");
  out.retransmissions = facts.number("retransmissions");
  out.reconnects = facts.number("reconnects");
}

inline void set_protocol(Info& out, const Facts& facts) {
  out.version = facts.text("version");
  facts.set(out.minor_version, "minor_version");
  out.ping_call = facts.text("ping_call");
  out.locks = facts.text("locks");
  out.security = facts.text("security");
  for (const char* flavor : {"sys", "krb5", "krb5i", "krb5p"}) {
    const std::string name = std::string("calls_") + flavor;
    if (facts.has(name.c_str())) out.calls_by_security.emplace_back(flavor, facts.number(name.c_str()));
  }
  out.read_plus = facts.text("read_plus");
  out.hole_bytes = facts.number("hole_bytes");
  facts.set(out.rsize, "rsize");
  facts.set(out.wsize, "wsize");
}

inline void set_session(Info& out, const Facts& facts) {
  facts.set(out.slots, "slots");
  facts.set(out.max_request, "max_request");
  facts.set(out.max_response, "max_response");
  facts.set(out.max_response_cached, "max_response_cached");
  facts.set(out.max_operations, "max_operations");
  facts.set(out.lease_seconds, "lease_seconds");
  out.implementation_name = facts.text("implementation_name");
  out.implementation_domain = facts.text("implementation_domain");
  out.implementation_date = facts.time("implementation_date");
  out.server_owner = facts.text("server_owner");
  out.server_scope = facts.text("server_scope");
  out.client_id = facts.number("client_id");
  out.session_id = facts.text("session_id");
  out.protects_state = facts.flag("protects_state");
  out.backchannel = facts.flag("backchannel");
  out.callback_address = facts.text("callback_address");
}

inline void set_totals(Statistics& out, const Facts& facts) {
  out.connects = facts.number("connects");
  out.reconnects = facts.number("reconnects");
  out.sent = facts.number("calls");
  out.replies = facts.number("replies");
  out.retransmissions = facts.number("retransmissions");
  out.callbacks = facts.number("callbacks");
  out.bytes_sent = facts.number("bytes_sent");
  out.bytes_received = facts.number("bytes_received");
  out.credit_waits = facts.number("credit_waits");
  out.slot_waits = facts.number("slot_waits");
  out.slot_waited = std::chrono::microseconds(facts.number("slot_wait_us"));
  out.recoveries = facts.number("recoveries");
  out.hole_bytes = facts.number("hole_bytes");
  out.delegations_granted = facts.number("delegations_granted");
  out.delegations_recalled = facts.number("delegations_recalled");
  out.delegations_revoked = facts.number("delegations_revoked");
}

inline CallStatistics call_statistics(std::string name, const Facts& facts) {
  const auto number = [&](const char* key) { return facts.number((name + "." + key).c_str()); };
  const auto time = [&](const char* key) { return std::chrono::microseconds(number(key)); };
  CallStatistics out;
  out.count = number("count");
  out.refused = number("refused");
  out.failed = number("failed");
  out.sent_again = number("sent_again");
  out.bytes_sent = number("bytes_sent");
  out.bytes_received = number("bytes_received");
  out.waited = time("wait_us");
  out.longest_wait = time("wait_max_us");
  out.total = time("total_us");
  out.p50 = time("p50_us");
  out.p99 = time("p99_us");
  out.longest = time("max_us");
  out.name = std::move(name);
  return out;
}

/// Returns the kinds of calls: each has an entry "NAME.count".
inline std::vector<CallStatistics> all_call_statistics(const nfsrdma_info* info) {
  std::vector<CallStatistics> out;
  for (std::size_t number = 0; const char* const entry = nfsrdma_info_name(info, number); ++number) {
    constexpr std::string_view end = ".count";
    const std::string_view name = entry;
    if (name.ends_with(end))
      out.push_back(call_statistics(std::string(name.substr(0, name.size() - end.size())), Facts(info)));
  }
  return out;
}

inline auto post_operation(nfsrdma_client* client) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_post(client, how.call, how.error); }, AsStatus{});
}

inline auto ping_operation(nfsrdma_client* client) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_ping(client, how.call, how.error); },
      AsValue{[](Nothing&, std::int64_t time) { return std::chrono::nanoseconds(time); }});
}

}  // namespace api_detail

/// A connection to one server. Its paths begin at the server's root, with or without a leading "/".
class Client : public Names {
 public:
  using Pinged = std::function<void(Result<std::chrono::nanoseconds>)>;

  /// Connects, opens a session and finds the root. `observer` may be null and must outlive the client.
  /// `interrupt`: see "Interruption" above; -1 for none. The descriptor stays the caller's and must outlive
  /// the client.
  static Result<std::unique_ptr<Client>> connect(const Target& target, Observer* observer = nullptr,
                                                 int interrupt = -1) {
    const Options options = target.options;
    nfsrdma_options* const how = options.handle();
    if (how == nullptr) return error_from(nullptr);
    if (observer != nullptr) nfsrdma_options_set_log(how, &notify, observer);
    nfsrdma_options_set_interrupt(how, interrupt);
    api_detail::OwnedError error;
    nfsrdma_client* const client = nfsrdma_connect(api_detail::url_of(target).c_str(), how, error.room());
    if (client == nullptr) return error_from(error.get());
    return adopt(client);
  }
  /// Makes a Client of one that was connected by the C interface. The Client owns it from then on.
  static std::unique_ptr<Client> adopt(nfsrdma_client* client) {
    return std::unique_ptr<Client>(new Client(client));
  }

  /// Ends the session on the server unless disconnect() did; waits three seconds at most, and ignores
  /// `interrupt`. If an open was started and has not ended, it is undone. The Client's Files, Directories,
  /// Listings and Queues must have been destroyed before. Must not be called inside a callback.
  ~Client() {
    state().life.end();
    nfsrdma_client_free(client_);
  }

  /// Closes all files, and destroys the session and the client id on the server.
  Status disconnect() {
    api_detail::OwnedError error;
    if (nfsrdma_disconnect(client_, error.room()) < 0) return error_from(error.get());
    return {};
  }
  /// Returns what was negotiated, and the counters, as they are now.
  Info info() {
    const std::unique_ptr<nfsrdma_info, void (*)(nfsrdma_info*)> found(nfsrdma_info_get(client_),
                                                                       &nfsrdma_info_free);
    Info out;
    if (found == nullptr) return out;
    const api_detail::Facts facts(found.get());
    api_detail::set_connection(out, facts);
    api_detail::set_protocol(out, facts);
    api_detail::set_session(out, facts);
    return out;
  }
  /// Returns what the calls have cost so far.
  Statistics statistics() {
    const std::unique_ptr<nfsrdma_info, void (*)(nfsrdma_info*)> found(nfsrdma_statistics_get(client_),
                                                                       &nfsrdma_info_free);
    Statistics out;
    if (found == nullptr) return out;
    api_detail::set_totals(out, api_detail::Facts(found.get()));
    out.calls = api_detail::all_call_statistics(found.get());
    return out;
  }
  /// Measures one round trip through the session (SEQUENCE alone; Info::ping_call names the call in other
  /// versions).
  Result<std::chrono::nanoseconds> ping(const CallOptions& options = {}) {
    return api_detail::run(api_detail::ping_operation(client_), options);
  }
  void start_ping(Pinged done, const CallOptions& options = {}) {
    start(api_detail::ping_operation(client_), std::move(done), options);
  }

  /// Runs callbacks. Waits until something has happened (a callback ran, a descriptor of `also` became
  /// readable, or `interrupt` did) or `most` has passed; milliseconds::max() means for ever. Returns false if
  /// nothing happened.
  bool wait(std::chrono::milliseconds most, std::span<const int> also = {}) {
    return nfsrdma_wait(client_, api_detail::c_timeout(most), also.data(), also.size()) != 0;
  }

  // Programs with an event loop of their own use descriptor() and service() in place of wait(). Poll
  // descriptor() for POLLIN, without a time limit: it also becomes readable when one of the client's timers
  // is due. Call service() when it is readable, and after starting calls.

  /// Returns a descriptor that stays the Client's. After the first call the program is expected to poll it
  /// and to call service().
  int descriptor() { return nfsrdma_descriptor(client_); }
  /// Does what is due now, callbacks included, without waiting.
  void service() { nfsrdma_service(client_); }
  /// Has a thread that is inside wait() or service() run the function, and wakes one that waits. The function
  /// may do what callbacks may do. It does not run if the Client is destroyed before.
  void post(std::function<void()> function) {
    start(api_detail::post_operation(client_), [run = std::move(function)](const Status&) { run(); }, {});
  }
  /// Sends the calls that were started, and runs no callbacks. wait(), service(), Queue::reap() and blocking
  /// calls do this as well.
  void submit() { nfsrdma_submit(client_); }
  /// Ends all calls that have this tag (CallOptions::tag) and are under way, blocking ones too, with
  /// ErrorKind::cancelled. When it returns, their buffers are out of the server's reach. Returns how many
  /// calls it ended.
  std::size_t cancel(std::uint64_t tag) {
    return static_cast<std::size_t>(std::max<std::int64_t>(nfsrdma_cancel(client_, tag), 0));
  }

  /// Returns the path of the target: absolute, "/" if the target named none.
  [[nodiscard]] std::string path() const { return nfsrdma_path(client_); }
  /// Returns the client of the C interface. It stays this object's.
  [[nodiscard]] nfsrdma_client* handle() const { return client_; }

 private:
  explicit Client(nfsrdma_client* client)
      : Names(nfsrdma_root(client), std::make_shared<api_detail::ClientState>(client)), client_(client) {}
  static void notify(void* observer, const char* text) { static_cast<Observer*>(observer)->notice(text); }

  nfsrdma_client* const client_;
};

inline Result<std::unique_ptr<Queue>> Queue::create(Client& client) {
  api_detail::OwnedError error;
  nfsrdma_queue* const queue = nfsrdma_queue_new(client.handle(), error.room());
  if (queue == nullptr) return error_from(error.get());
  return std::unique_ptr<Queue>(new Queue(client.handle(), queue));
}

// ---- the server's mount service, of NFSv3 and NFSv2 ----

namespace api_detail {

/// Calls ask(url, options, error), with the interrupt descriptor among the options.
template <class Ask>
Status ask_mount_service(const Target& target, int interrupt, Ask ask) {
  const Options options = target.options;
  nfsrdma_options* const how = options.handle();
  if (how == nullptr) return error_from(nullptr);
  nfsrdma_options_set_interrupt(how, interrupt);
  OwnedError error;
  if (ask(url_of(target).c_str(), how, error.room()) < 0) return error_from(error.get());
  return {};
}

inline std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (!word.empty()) out.emplace_back(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return out;
}

}  // namespace api_detail

/// Asks the server's mount service for its exports, as showmount -e does; the server need not run NFS. The
/// target's path is ignored; of its options mounthost, mountport, mountproto and connect_timeout are used.
/// `interrupt`: as for connect(). May be called from any thread.
inline Result<std::vector<Export>> list_exports(const Target& target, int interrupt = -1) {
  std::vector<Export> out;
  const auto add = [](void* to, const char* path, const char* clients) {
    static_cast<std::vector<Export>*>(to)->push_back({path, api_detail::words(clients)});
  };
  const Status asked = api_detail::ask_mount_service(
      target, interrupt, [&](const char* url, nfsrdma_options* options, nfsrdma_error** error) {
        return nfsrdma_list_exports(url, options, add, &out, error);
      });
  if (!asked) return asked.error();
  return out;
}

/// Asks the server's mount service who has mounted its exports, as showmount -a does. See list_exports().
inline Result<std::vector<MountedBy>> list_mounts(const Target& target, int interrupt = -1) {
  std::vector<MountedBy> out;
  const auto add = [](void* to, const char* client, const char* path) {
    static_cast<std::vector<MountedBy>*>(to)->push_back({client, path});
  };
  const Status asked = api_detail::ask_mount_service(
      target, interrupt, [&](const char* url, nfsrdma_options* options, nfsrdma_error** error) {
        return nfsrdma_list_mounts(url, options, add, &out, error);
      });
  if (!asked) return asked.error();
  return out;
}

}  // namespace nfsrdma
