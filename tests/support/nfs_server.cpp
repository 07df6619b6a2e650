#include "support/nfs_server.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>

#include "async/loop.h"
#include "support/nfs_responder.h"
#include "support/nfs_server_venue.h"

namespace nfsrdma::testing {

using namespace nfs4;

class NfsServer::Impl {
 public:
  explicit Impl(std::unique_ptr<Venue> where);
  ~Impl();

  /// Runs `fn` where the server runs, and gives what it gives.
  template <class F>
  auto on_thread(F fn) {
    using T = std::invoke_result_t<F>;
    std::packaged_task<T()> task(std::move(fn));
    auto result = task.get_future();
    venue->run([&task] { task(); });
    return result.get();
  }

  void listen();
  /// Begins a Call to the client where the server runs, and waits for its status.
  std::optional<nfsstat4> answered(const std::function<CallbackQueue::Ticket(Responder::Done)>& begin,
                                   std::chrono::milliseconds most);
  std::string locks(const std::string& path);

  const std::unique_ptr<Venue> venue;
  sim::Network* network = nullptr;  // of a simulated one
  sim::Host* host = nullptr;
  std::atomic<std::uint16_t> port{0};

  // the server thread's
  Responder responder{venue->loop()};
  ServerState& state = responder.state;
  std::unique_ptr<fabric::Listener> listener;
};

NfsServer::Impl::Impl(std::unique_ptr<Venue> where) : venue(std::move(where)) {
  on_thread([this] {
    responder.keeps_calls = true;
    state.keeps_opens = true;
    listen();
  });
}

NfsServer::Impl::~Impl() {
  venue->end();
  responder.drop_connections();
  // Connections are destroyed in the next turn, and may leave something behind for the one after it.
  for (int i = 0; i < 2; ++i) venue->loop().turn(async::TimePoint::min());
  listener.reset();
}

void NfsServer::Impl::listen() {
  listener = venue->listen(
      [this](std::unique_ptr<fabric::Incoming> incoming) { responder.accept(std::move(incoming)); });
  port = listener->port();
}

std::string NfsServer::Impl::locks(const std::string& path) {
  const Inode* inode = state.find(path);
  std::vector<LockPiece> all;
  for (const auto& [number, one] : state.locks) {
    if (inode == nullptr || one.client == 0 || one.inode != inode->id) continue;
    all.insert(all.end(), one.pieces.begin(), one.pieces.end());
  }
  std::ranges::sort(all, {}, [](const LockPiece& one) { return std::pair(one.begin, one.end); });
  std::string out;
  for (const LockPiece& piece : all) {
    out += (out.empty() ? "" : " ") + std::to_string(piece.begin) + "-" +
           (piece.end == ~0ULL ? "" : std::to_string(piece.end)) + (piece.write ? "w" : "r");
  }
  return out;
}

std::optional<nfsstat4> NfsServer::Impl::answered(
    const std::function<CallbackQueue::Ticket(Responder::Done)>& begin, std::chrono::milliseconds most) {
  const auto promise = std::make_shared<std::promise<nfsstat4>>();
  auto status = promise->get_future();
  const auto ticket =
      on_thread([&] { return begin([promise](nfsstat4 answer) { promise->set_value(answer); }); });
  const auto is_there = [&] { return status.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  const bool in_time = venue->wait(is_there, most);
  on_thread([&] { responder.callbacks.drop(ticket); });
  if (!in_time) return std::nullopt;
  return status.get();
}

// ---- the public face: everything on the server's thread ----

NfsServer::NfsServer() : impl_(std::make_unique<Impl>(thread_venue())) {}
NfsServer::NfsServer(sim::Network& network, sim::Host& host)
    : impl_(std::make_unique<Impl>(sim_venue(network, host))) {
  impl_->network = &network;
  impl_->host = &host;
}
NfsServer::~NfsServer() = default;

sim::Network* NfsServer::network() const {
  return impl_->network;
}
sim::Host* NfsServer::host() const {
  return impl_->host;
}

std::uint16_t NfsServer::port() const {
  return impl_->port;
}

Target NfsServer::target(const std::string& options) const {
  Options base;
  const auto done = base.set_all("timeo=5s,port=" + std::to_string(port()) + "," + options);
  auto target = parse_target("127.0.0.1:/", base);
  if (!done || !target) {
    std::fprintf(stderr, "test options: %s\n", (done ? target.error() : done.error()).text().c_str());
    std::abort();
  }
  return std::move(*target);
}

connect::Target NfsServer::connect_target(const std::string& options) const {
  connect::Target target{"127.0.0.1", "/", {}};
  target.options.port = port();
  target.options.timeout = std::chrono::seconds(5);
  if (const auto done = target.options.set_all(options); !done) {
    std::fprintf(stderr, "test options: %s\n", done.error().text().c_str());
    std::abort();
  }
  return target;
}

// Every knob and every question runs on the server's thread.
#define ON_SERVER(...) return impl_->on_thread([&] { __VA_ARGS__; })

void NfsServer::add_file(const std::string& path, const std::string& data) {
  ON_SERVER(impl_->state.set_content(impl_->state.make(path, NF4REG), data));
}
void NfsServer::add_directory(const std::string& path) {
  ON_SERVER((void)impl_->state.make(path, NF4DIR));
}
void NfsServer::add_symlink(const std::string& path, const std::string& text) {
  ON_SERVER(impl_->state.make(path, NF4LNK).link = text);
}
void NfsServer::add_extent(const std::string& path, std::uint64_t begin, std::uint64_t end) {
  ON_SERVER(impl_->state.make(path, NF4REG).content.declare_data(begin, end));
}
std::optional<std::string> NfsServer::content(const std::string& path) const {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            return inode != nullptr ? std::optional(inode->content.data()) : std::nullopt);
}
std::optional<std::string> NfsServer::stable_content(const std::string& path) const {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            return inode != nullptr ? std::optional(inode->content.stable()) : std::nullopt);
}

void NfsServer::set_slots(std::uint32_t slots) {
  ON_SERVER(impl_->state.slots = slots);
}
void NfsServer::set_limits(std::uint32_t max_request, std::uint32_t max_response,
                           std::uint32_t max_operations) {
  ON_SERVER(impl_->state.max_request = max_request; impl_->state.max_response = max_response;
            impl_->state.max_operations = max_operations);
}
void NfsServer::set_newest_minor(std::uint32_t minor) {
  ON_SERVER(impl_->state.newest_minor = minor);
}
void NfsServer::set_lease(std::uint32_t seconds) {
  ON_SERVER(impl_->state.lease = seconds);
}
void NfsServer::set_credits(std::uint32_t credits) {
  ON_SERVER(impl_->responder.credits = credits);
}
void NfsServer::set_announce(bool announce) {
  ON_SERVER(impl_->responder.announce = announce);
}

void NfsServer::set_delegations(bool on) {
  ON_SERVER(impl_->state.habits.delegates = on ? Habits::Delegate::wanted : Habits::Delegate::never);
}
void NfsServer::set_write_delegations(bool only_for_both) {
  ON_SERVER(impl_->state.habits.delegates_writing = true;
            impl_->state.habits.delegates_writing_with_reading = only_for_both);
}
void NfsServer::set_backchannel(bool on) {
  ON_SERVER(impl_->state.habits.grants_backchannel = on);
}
std::optional<nfsstat4> NfsServer::recall(const std::string& path, std::chrono::milliseconds most) {
  return impl_->answered([&](Responder::Done done) { return impl_->responder.recall(path, std::move(done)); },
                         most);
}
std::future<nfsstat4> NfsServer::start_recall(const std::string& path) {
  const auto promise = std::make_shared<std::promise<nfsstat4>>();
  ON_SERVER(impl_->responder.recall(path, [promise](nfsstat4 answer) { promise->set_value(answer); });
            return promise->get_future());
}
std::optional<nfsstat4> NfsServer::recall_any(std::uint32_t objects_to_keep, const bitmap4& types) {
  return impl_->answered(
      [&](Responder::Done done) {
        return impl_->responder.recall_any(0, objects_to_keep, types, std::move(done));
      },
      kCallbackTime);
}
std::optional<nfsstat4> NfsServer::recall_slot(std::uint32_t target_highest_slot) {
  return impl_->answered(
      [&](Responder::Done done) {
        return impl_->responder.recall_slot(0, target_highest_slot, std::move(done));
      },
      kCallbackTime);
}
std::optional<nfsstat4> NfsServer::null_callback() {
  return impl_->answered(
      [&](Responder::Done done) { return impl_->responder.callbacks.add_null(std::move(done)); },
      kCallbackTime);
}
void NfsServer::lose_backchannels() {
  ON_SERVER(for (auto& [id, session] : impl_->state.sessions) session.backchannels.clear());
}
void NfsServer::revoke(const std::string& path) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            for (const auto& [number, one] : impl_->state.delegations) {
              if (inode != nullptr && one.inode == inode->id) {
                impl_->state.revoke_delegation(number, Revoked::recallable);
              }
            });
}

void NfsServer::lock(const std::string& path, std::uint64_t begin, std::uint64_t end, bool write) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            if (inode != nullptr) impl_->state.lock_locally(inode->id, {begin, end, write}));
}
void NfsServer::unlock(const std::string& path) {
  ON_SERVER(const Inode* inode = impl_->state.find(path);
            if (inode != nullptr) impl_->state.unlock_locally(inode->id));
}
void NfsServer::set_notify_locks(bool on) {
  ON_SERVER(impl_->state.habits.notify_locks = on);
}
std::string NfsServer::locks(const std::string& path) const {
  ON_SERVER(return impl_->locks(path));
}
std::size_t NfsServer::lock_states() const {
  ON_SERVER(return static_cast<std::size_t>(
      std::ranges::count_if(impl_->state.locks, [](const auto& entry) { return entry.second.client != 0; })));
}
void NfsServer::set_synchronous_copies(bool on) {
  ON_SERVER(Habits& habits = impl_->state.habits;
            habits.copies = on ? Habits::Copies::at_once : Habits::Copies::in_background_unasked;
            habits.tells_of_copies = habits.knows_of_copies = on);
}
void NfsServer::set_unstable_copies(bool on) {
  ON_SERVER(impl_->state.habits.unstable_copies = on);
}
void NfsServer::set_gap(bool on) {
  ON_SERVER(impl_->state.gap = on);
}
void NfsServer::set_circular_listings(bool on) {
  ON_SERVER(impl_->state.circular_listing = on);
}
void NfsServer::set_careless_close(bool on) {
  ON_SERVER(impl_->state.habits.careless_close = on);
}
void NfsServer::set_xattrs_at_once(std::uint32_t most) {
  ON_SERVER(impl_->state.habits.xattrs_at_once = most);
}

void NfsServer::answer(nfs_opnum4 op, nfsstat4 status, unsigned times, unsigned skip) {
  ON_SERVER(impl_->state.rules.push_back({op, status, times, skip}));
}
void NfsServer::drop_before(nfs_opnum4 op) {
  ON_SERVER(impl_->responder.play(Responder::Trick::drop_before, op));
}
void NfsServer::drop_after(nfs_opnum4 op) {
  ON_SERVER(impl_->responder.play(Responder::Trick::drop_after, op));
}
void NfsServer::err_chunk(nfs_opnum4 op) {
  ON_SERVER(impl_->responder.play(Responder::Trick::err_chunk, op));
}
void NfsServer::garbage_args(nfs_opnum4 op) {
  ON_SERVER(impl_->responder.play(Responder::Trick::garbage_args, op));
}
void NfsServer::hold(nfs_opnum4 op, bool execute) {
  ON_SERVER(impl_->responder.hold(op, execute));
}
void NfsServer::release() {
  ON_SERVER(impl_->responder.release());
}
void NfsServer::release_first() {
  ON_SERVER(impl_->responder.release_first());
}
std::size_t NfsServer::held() const {
  ON_SERVER(return impl_->responder.held());
}
void NfsServer::set_reply_delay(std::chrono::milliseconds delay) {
  ON_SERVER(impl_->responder.reply_delay = delay);
}
void NfsServer::set_short_reads(std::uint32_t most) {
  ON_SERVER(impl_->state.habits.short_reads = most);
}
void NfsServer::set_short_writes(std::uint32_t most) {
  ON_SERVER(impl_->state.habits.short_writes = most);
}
void NfsServer::set_stable_writes(bool stable) {
  ON_SERVER(impl_->state.habits.stable_writes = stable);
}
void NfsServer::set_target_highest_slot(std::uint32_t slot) {
  ON_SERVER(impl_->state.target_highest = slot);
}
void NfsServer::set_sequence_flags(std::uint32_t flags, unsigned times) {
  ON_SERVER(impl_->state.flags = flags; impl_->state.flags_times = times);
}
void NfsServer::set_no_sequence_hint(bool on) {
  ON_SERVER(impl_->state.habits.no_sequence_hint = on);
}
void NfsServer::restart(std::chrono::milliseconds grace) {
  ON_SERVER(impl_->responder.restart(grace));
}
void NfsServer::on_server(const std::function<void(Responder&)>& fn) {
  ON_SERVER(fn(impl_->responder));
}
void NfsServer::forget_sessions() {
  ON_SERVER(impl_->state.sessions.clear());
}
void NfsServer::forget_stateids() {
  ON_SERVER(impl_->state.opens.clear(); impl_->state.delegations.clear();
            std::erase_if(impl_->state.locks, [](const auto& entry) { return entry.second.client != 0; }));
}
void NfsServer::drop_connections() {
  ON_SERVER(impl_->responder.drop_connections());
}
void NfsServer::drop_connection(unsigned number) {
  ON_SERVER(impl_->responder.drop_connection(number));
}
void NfsServer::stop_listening() {
  ON_SERVER(impl_->listener.reset());
}
void NfsServer::go_away() {
  ON_SERVER(impl_->listener.reset(); impl_->responder.drop_connections());
}
void NfsServer::come_back() {
  ON_SERVER(impl_->listen());
}

std::vector<SeenCall> NfsServer::calls() const {
  ON_SERVER(return impl_->responder.calls);
}
void NfsServer::clear_calls() {
  ON_SERVER(impl_->responder.calls.clear(); impl_->state.seen_ops.clear(); impl_->state.good_ops.clear();
            impl_->state.seen_opens.clear());
}
unsigned NfsServer::count(nfs_opnum4 op) const {
  ON_SERVER(return impl_->state.seen_ops[op]);
}
unsigned NfsServer::succeeded(nfs_opnum4 op) const {
  ON_SERVER(return impl_->state.good_ops[op]);
}
std::optional<EXCHANGE_ID4args> NfsServer::last_exchange_id() const {
  ON_SERVER(return impl_->state.last_exchange_id);
}
std::optional<CREATE_SESSION4args> NfsServer::last_create_session() const {
  ON_SERVER(return impl_->state.last_create_session);
}
std::vector<OPEN4args> NfsServer::opens() const {
  ON_SERVER(return impl_->state.seen_opens);
}
std::string NfsServer::credential() const {
  ON_SERVER(return std::string(reinterpret_cast<const char*>(impl_->responder.credential.data()),
                               impl_->responder.credential.size()));
}
std::size_t NfsServer::open_connections() const {
  ON_SERVER(return impl_->responder.open_connections());
}
unsigned NfsServer::connections() const {
  ON_SERVER(return impl_->responder.connections);
}
std::size_t NfsServer::open_states() const {
  ON_SERVER(return impl_->state.opens.size());
}
std::size_t NfsServer::delegations() const {
  ON_SERVER(return impl_->state.delegations.size());
}
std::size_t NfsServer::backchannels() const {
  ON_SERVER(std::set<unsigned> all; for (const auto& [id, session] : impl_->state.sessions)
                                        all.insert(session.backchannels.begin(), session.backchannels.end());
            return all.size());
}
std::size_t NfsServer::sessions() const {
  ON_SERVER(return impl_->state.sessions.size());
}
std::size_t NfsServer::clients() const {
  ON_SERVER(return impl_->state.clients.size());
}
std::string NfsServer::problems() const {
  ON_SERVER(return impl_->state.problems);
}

}  // namespace nfsrdma::testing
