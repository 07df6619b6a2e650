#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "api/client_impl.h"
#include "api/resolve.h"
#include "fabric/verbs/library.h"
#include "nfs4/types/status.h"

namespace nfsrdma {

Observer::~Observer() = default;
File::~File() = default;
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const Target& target, Observer* observer, int interrupt) {
  const auto deadline = async::Clock::now() + target.options.connect_timeout;
  auto addresses = api::resolve(target.host, target.options.port, deadline, interrupt);
  if (!addresses) return addresses.error();
  auto client = std::make_unique<api::ClientImpl>(target, *addresses, observer, interrupt);
  if (auto done = client->start(deadline); !done) return done.error();
  return std::unique_ptr<Client>(std::move(client));
}

namespace api {
namespace {

using namespace std::chrono_literals;

constexpr auto kGoodbye = 2s;
constexpr std::chrono::milliseconds kKeeperLook = 20ms;
constexpr unsigned kMostTurns = 64;  // of one service()
}  // namespace

ClientImpl::ClientImpl(const Target& target, const std::vector<rpc::Address>& addresses, Observer* observer,
                       int interrupt, Place place)
    : target_(target),
      observer_(observer),
      interrupt_fd_(interrupt),
      own_loop_(place.loop != nullptr ? nullptr : std::make_unique<async::Loop>()),
      loop_(place.loop != nullptr ? *place.loop : *own_loop_),
      crew_(loop_, own_loop_ != nullptr),
      server_(
          loop_, target, addresses, [this](const std::string& text) { notice(text); }, place.patience,
          std::move(place.surroundings)) {
  watch_interrupt();
}

ClientImpl::~ClientImpl() {
  stop_keeper();
  {
    const Crew::Inside inside(crew_);
    if (interrupt_watched_) loop_.unwatch(interrupt_fd_);
    interrupt_watched_ = false;
  }
  (void)disconnect();
  const Crew::Inside inside(crew_);
  server_.shut_down();
  loop_.drop_tasks();
}

void ClientImpl::notice(const std::string& text) {
  // Until there is a connection the Error that connect() returns says it all.
  if (!connected_) return;
  if (observer_ != nullptr) observer_->notice(text);
}

void ClientImpl::watch_interrupt() {
  if (interrupt_fd_ < 0) return;
  loop_.watch(interrupt_fd_, POLLIN, [this](std::uint32_t) {
    interrupted_ = true;
    crew_.interrupt();
  });
  interrupt_watched_ = true;
}

Error ClientImpl::interrupted() const {
  return {ErrorKind::cancelled, EINTR, "", target_.host, "interrupted"};
}

Error ClientImpl::called_from_callback() const {
  return {ErrorKind::usage, EDEADLK, "", target_.host,
          "a callback may not make blocking calls; start an asynchronous one"};
}

template <class R, class Make>
R ClientImpl::on_path(std::string_view text, Make make) {
  auto path = nfs4::Path::parse(text);
  if (!path) return path.error();
  return run<R>([&] { return make(std::move(*path)); });
}

template <class R, class Make>
R ClientImpl::on_paths(std::string_view first, std::string_view second, Make make) {
  auto from = nfs4::Path::parse(first);
  if (!from) return from.error();
  auto to = nfs4::Path::parse(second);
  if (!to) return to.error();
  return run<R>([&] { return make(std::move(*from), std::move(*to)); });
}

// ---- beginning and end ----

async::Task<Status> ClientImpl::start_task(async::TimePoint deadline) {
  if (auto done = co_await server_.connect(deadline); !done) co_return done;
  names_ = std::make_unique<nfs4::Namespace>(server_.session());
  co_return Status();
}

Status ClientImpl::start(async::TimePoint deadline) {
  auto done = run<Status>([&] { return start_task(deadline); });
  if (!done) return done;
  connected_ = true;
  if (own_loop_) keeper_ = std::thread([this] { keep(); });
  return {};
}

async::Task<Status> ClientImpl::say_goodbye() {
  Status first;
  for (FileImpl* file : std::vector(files_)) {
    if (std::ranges::find(files_, file) == files_.end()) continue;  // a callback destroyed it meanwhile
    const auto opened = file->file_;
    auto done = co_await opened->close();
    if (!done && first) first = done;
  }
  auto done = co_await server_.session().close(loop_.now() + kGoodbye);
  co_return first ? done : first;
}

Status ClientImpl::disconnect() {
  {
    const Crew::Inside inside(crew_);
    if (inside.nested()) return called_from_callback();
    if (!std::exchange(connected_, false)) return {};
  }
  stop_keeper();
  auto done = run<Status>([this] { return say_goodbye(); });
  const Crew::Inside inside(crew_);
  server_.shut_down();
  return done;
}

// ---- the keeper ----

void ClientImpl::stop_keeper() {
  keeper_stop_.set();
  if (keeper_.joinable()) keeper_.join();
}

/// A user leaves who may have left a timer that is due before the keeper looks.
void ClientImpl::tell_keeper() {
  if (crew_.led() || loop_.next_timer() >= keeper_looks_) return;
  keeper_looks_ = {};  // told once is enough
  keeper_wake_.set();
}

void ClientImpl::keep() {
  using std::chrono::milliseconds;
  std::array<pollfd, 3> fds{{{keeper_stop_.descriptor(), POLLIN, 0},
                             {keeper_wake_.descriptor(), POLLIN, 0},
                             {loop_.descriptor(), POLLIN, 0}}};
  // While users are inside they run the loop, and its descriptor is theirs: a look now and then is enough.
  bool users_inside = false;
  for (milliseconds pause = kKeeperLook;;) {
    ::poll(fds.data(), users_inside ? 1 : fds.size(), static_cast<int>(pause.count()));
    if (fds[0].revents != 0) return;
    const Crew::Inside inside(crew_, std::try_to_lock);
    users_inside = !inside || crew_.led() || (polled_ && loop_.now() - serviced_ < 2 * longest_pause());
    pause = kKeeperLook;
    if (users_inside) continue;
    keeper_wake_.clear();
    keeping_ = true;  // callbacks wait for a user's thread
    interrupted_ = false;
    while (loop_.turn(async::TimePoint::min())) {
      if (interrupted_) break;  // its descriptor stays readable
    }
    keeping_ = false;
    if (interrupted_) users_inside = true;  // do not spin on it
    const auto due = std::chrono::ceil<milliseconds>(loop_.next_timer() - loop_.now());
    // After a restart of the server the lease may be another one.
    const milliseconds lease = std::chrono::seconds(server_.session().facts().lease_seconds);
    pause = std::clamp(due, kKeeperLook, std::max(kKeeperLook, lease / 8));
    keeper_looks_ = loop_.now() + pause;
  }
}

// ---- asynchronous calls ----

async::Task<void> ClientImpl::callback_time() {
  while (starting_ != 0 || keeping_) {
    if (keeping_) {
      co_await user_here_.wait_until(async::TimePoint::max());
    } else {
      co_await loop_.sleep_until(async::TimePoint::min());
    }
  }
}

bool ClientImpl::wait(std::chrono::milliseconds most, std::span<const int> also) {
  const Crew::Inside inside(crew_);
  if (inside.nested()) return false;
  const UserScope scope(*this);
  std::vector<int> others(also.begin(), also.end());
  std::erase(others, interrupt_fd_);  // that one the loop watches already
  const std::uint64_t before = delivered_;
  loop_.end_turn();
  const auto delivered = [&] { return delivered_ != before; };
  return crew_.wait(delivered, loop_.now() + most, others) != Crew::Ended::late;
}

/// Of a program that polls. One that is not back after twice as long has its keeper do what it should.
std::chrono::milliseconds ClientImpl::longest_pause() {
  const std::chrono::milliseconds lease = std::chrono::seconds(server_.session().facts().lease_seconds);
  return std::min<std::chrono::milliseconds>(500ms, lease / 8);
}

int ClientImpl::descriptor() {
  const Crew::Inside inside(crew_);
  polled_ = true;
  serviced_ = loop_.now();
  return loop_.descriptor();
}

std::chrono::milliseconds ClientImpl::service() {
  using std::chrono::milliseconds;
  const Crew::Inside inside(crew_);
  if (inside.nested()) return milliseconds(0);
  const UserScope scope(*this);
  loop_.look_at_clock();
  loop_.end_turn();
  // Where a thread waits it runs the loop.
  for (unsigned i = 0; i < kMostTurns && !crew_.led() && loop_.turn(async::TimePoint::min()); ++i) {
  }
  serviced_ = loop_.now();
  const async::Clock::duration left = loop_.due() - std::min(loop_.due(), serviced_);
  return std::chrono::ceil<milliseconds>(std::min<async::Clock::duration>(left, longest_pause()));
}

// ---- operations ----

Result<std::chrono::nanoseconds> ClientImpl::ping() {
  const auto before = async::Clock::now();  // the loop's is for who is inside
  const auto once = [](nfs4::Session& session) -> async::Task<Status> {
    auto reply = co_await session.call(session.begin("SEQUENCE"));
    if (!reply) co_return reply.error();
    co_return Status();
  };
  if (auto done = run<Status>([&] { return once(server_.session()); }); !done) return done.error();
  return async::Clock::now() - before;
}

Result<Attributes> ClientImpl::stat(std::string_view path, bool follow) {
  auto node = on_path<Result<nfs4::Node>>(
      path, [&](nfs4::Path at) { return names_->find(std::move(at), follow, nfs4::public_attributes()); });
  if (!node) return node.error();
  Attributes out = nfs4::to_public(node->attributes);
  add_ids(std::span(&out, 1));
  return out;
}

/// Names that cannot be had in time have no numbers.
void ClientImpl::add_ids(std::span<Attributes> all) {
  ids::IdNames& names = ids::IdNames::system();
  std::vector<ids::Principal> wanted;
  for (const Attributes& one : all) names.add_wanted(one, wanted);
  const auto learn = [](async::Loop& loop, std::vector<ids::Principal> those) -> async::Task<Status> {
    co_await ids::IdNames::system().learn(loop, std::move(those));
    co_return Status();
  };
  if (!wanted.empty()) (void)run<Status>([&] { return learn(loop_, std::move(wanted)); });
  for (Attributes& one : all) names.fill_in(one);
}

Result<std::string> ClientImpl::read_link(std::string_view path) {
  return on_path<Result<std::string>>(path, [&](nfs4::Path at) { return names_->read_link(std::move(at)); });
}

Result<FilesystemSpace> ClientImpl::space(std::string_view path) {
  using namespace nfs4;
  static const bitmap4 wanted = bitmap_of({FATTR4_FILES_AVAIL, FATTR4_FILES_FREE, FATTR4_FILES_TOTAL,
                                           FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_TOTAL});
  auto node = on_path<Result<Node>>(path, [&](Path at) { return names_->find(std::move(at), true, wanted); });
  if (!node) return node.error();
  const WireAttributes& a = node->attributes;
  return FilesystemSpace{a.space_total.value_or(0), a.space_free.value_or(0), a.space_avail.value_or(0),
                         a.files_total.value_or(0), a.files_free.value_or(0), a.files_avail.value_or(0)};
}

Status ClientImpl::list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) {
  using namespace nfs4;
  static const bitmap4 wanted = [] {
    // RFC 8881 5.8.1.12: with it an entry that fails brings its reason instead of failing the whole READDIR.
    bitmap4 map = public_attributes();
    set_bit(map, FATTR4_RDATTR_ERROR);
    return map;
  }();
  auto listing = on_path<Result<Namespace::Listing>>(
      path, [&](Path at) { return names_->begin_list(std::move(at), wanted); });
  if (!listing) return listing.error();
  while (!listing->eof) {
    auto entries = run<Result<std::vector<entry4>>>([&] { return names_->list_some(*listing); });
    if (!entries) return entries.error();
    std::vector<WireAttributes> wire(entries->size());
    std::vector<Attributes> attributes(entries->size());
    for (std::size_t i = 0; i < entries->size(); ++i) {
      const entry4& e = (*entries)[i];
      if (!decode_attributes(e.attrs, wire[i])) {
        return undecodable_attributes(listing->path + "/" + e.name.value);
      }
      attributes[i] = to_public(wire[i]);
    }
    add_ids(attributes);
    for (std::size_t i = 0; i < entries->size(); ++i) {
      entry4& e = (*entries)[i];
      DirectoryEntry out;
      out.name = std::move(e.name.value);
      out.cookie = e.cookie;
      const bool sound = wire[i].rdattr_error.value_or(NFS4_OK) == NFS4_OK;
      if (sound) out.attributes.emplace(std::move(attributes[i]));
      if (!entry(out)) return {};
    }
  }
  return {};
}

Status ClientImpl::make_directory(std::string_view path, std::uint32_t mode) {
  return on_path<Status>(path, [&](nfs4::Path at) { return names_->make_directory(std::move(at), mode); });
}
Status ClientImpl::remove_file(std::string_view path) {
  return on_path<Status>(path, [&](nfs4::Path at) { return names_->remove(std::move(at), false); });
}
Status ClientImpl::remove_directory(std::string_view path) {
  return on_path<Status>(path, [&](nfs4::Path at) { return names_->remove(std::move(at), true); });
}
Status ClientImpl::rename(std::string_view from, std::string_view to) {
  return on_paths<Status>(
      from, to, [&](nfs4::Path a, nfs4::Path b) { return names_->rename(std::move(a), std::move(b)); });
}
Status ClientImpl::link(std::string_view existing, std::string_view created) {
  return on_paths<Status>(existing, created, [&](nfs4::Path a, nfs4::Path b) {
    return names_->link(std::move(a), std::move(b));
  });
}
Status ClientImpl::symlink(std::string_view text, std::string_view created) {
  return on_path<Status>(created,
                         [&](nfs4::Path at) { return names_->symlink(std::string(text), std::move(at)); });
}
Status ClientImpl::set_attributes(std::string_view path, const SetAttributes& changes, bool follow) {
  return on_path<Status>(
      path, [&](nfs4::Path at) { return names_->set_attributes(std::move(at), changes, follow); });
}
Result<unsigned> ClientImpl::access(std::string_view path, unsigned wanted) {
  return on_path<Result<unsigned>>(path,
                                   [&](nfs4::Path at) { return names_->access(std::move(at), wanted); });
}

Result<std::unique_ptr<File>> ClientImpl::open(std::string_view path, OpenMode mode, const OpenFlags& flags) {
  using Opened = Result<std::unique_ptr<nfs4::OpenFile>>;
  auto file = on_path<Opened>(path, [&](nfs4::Path at) {
    return nfs4::OpenFile::open(server_.session(), std::move(at), mode, flags);
  });
  if (!file) return file.error();
  return std::unique_ptr<File>(std::make_unique<FileImpl>(*this, std::move(*file)));
}

Info ClientImpl::info() {
  const Crew::Inside inside(crew_);
  const nfs4::SessionFacts& session = server_.session().facts();
  const rpc::Channel& first = *server_.channels().front();
  const rpcrdma::Facts& rdma = first.facts();
  const fabric::Established& fabric = first.established();
  Info out;
  out.server = target_.host;
  out.address = first.address();
  out.fabric = fabric.fabric;
  out.fabric_detail = fabric.detail;
  out.fabric_reason = fabric.reason;
  out.device = fabric.traits.device;
  out.memory_windows = fabric.traits.memory_windows;
  out.invalidation_offered = fabric.traits.remote_invalidation;
  out.mpa_revision = fabric.mpa_revision;
  out.crc = fabric.crc;
  out.ird = fabric.ird;
  out.ord = fabric.ord;
  out.call_threshold = rdma.call_threshold;
  out.reply_threshold = rdma.reply_threshold;
  out.private_data = rdma.private_data_seen;
  out.remote_invalidation = rdma.remote_invalidation;
  out.credits_wanted = target_.options.credits;
  out.credits_granted = rdma.granted;
  out.minor_version = session.minor_version;
  out.slots = session.slots;
  out.max_request = session.max_request;
  out.max_response = session.max_response;
  out.max_response_cached = session.max_response_cached;
  out.max_operations = session.max_operations;
  out.rsize = rsize();
  out.wsize = wsize();
  out.lease_seconds = session.lease_seconds;
  out.implementation_name = session.implementation_name;
  out.implementation_domain = session.implementation_domain;
  out.implementation_date = session.implementation_date;
  out.server_owner = session.server_owner;
  out.server_scope = session.server_scope;
  out.client_id = session.client_id;
  for (const std::byte b : session.session_id) {
    out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4U];
    out.session_id += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15U];
  }
  out.backchannel = session.backchannel;
  out.connections = static_cast<std::uint32_t>(server_.session().lanes().usable());
  for (const auto& channel : server_.channels()) {
    out.calls += channel->facts().calls;
    out.retransmissions += channel->facts().retransmissions;
    out.reconnects += channel->facts().reconnects;
  }
  return out;
}

}  // namespace api
}  // namespace nfsrdma
