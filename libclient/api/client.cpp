#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "api/client_impl.h"
#include "connect/resolve.h"
#include "engine/cookie_loop.h"

namespace nfsrdma {

Observer::~Observer() = default;
File::~File() = default;
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const Target& target, Observer* observer, int interrupt) {
  const auto deadline = async::Clock::now() + target.options.connect_timeout;
  auto addresses = connect::resolve(target.host, target.options.port, deadline, interrupt);
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
    loop_.unwatch(interrupt_fd_);
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
  auto path = engine::Path::parse(text);
  if (!path) return path.error();
  return run<R>([&] { return make(std::move(*path)); });
}

template <class R, class Make>
R ClientImpl::on_paths(std::string_view first, std::string_view second, Make make) {
  auto from = engine::Path::parse(first);
  if (!from) return from.error();
  auto to = engine::Path::parse(second);
  if (!to) return to.error();
  return run<R>([&] { return make(std::move(*from), std::move(*to)); });
}

// ---- beginning and end ----

async::Task<Status> ClientImpl::start_task(async::TimePoint deadline) {
  if (auto done = co_await server_.connect(deadline); !done) co_return done;
  paths_.emplace(*server_.engine());
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
    auto done = co_await file->end();
    if (!done && first) first = done;
  }
  auto done = co_await server_.close(loop_.now() + kGoodbye);
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
    const milliseconds lease = server_.lease();
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
  return crew_.wait(delivered, loop_.now() + most, others);
}

/// Of a program that polls. One that is not back after twice as long has its keeper do what it should.
std::chrono::milliseconds ClientImpl::longest_pause() {
  const std::chrono::milliseconds lease = server_.lease();
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
  if (auto done = run<Status>([this] { return engine().ping(); }); !done) return done.error();
  return async::Clock::now() - before;
}

Result<Attributes> ClientImpl::stat(std::string_view path, bool follow) {
  using Found = Result<Attributes>;
  auto found = on_path<Found>(path, [&](engine::Path at) -> async::Task<Found> {
    const std::string text = at.text();
    auto object = co_await paths_->find(std::move(at), follow);
    if (!object) co_return object.error();
    if (object->attributes) co_return *object->attributes;
    co_return co_await engine().attributes(nullptr, object->handle);
  });
  if (found) add_ids(std::span(&*found, 1));
  return found;
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
  return on_path<Result<std::string>>(path,
                                      [&](engine::Path at) { return paths_->read_link(std::move(at)); });
}

Result<FilesystemSpace> ClientImpl::space(std::string_view path) {
  auto space =
      on_path<Result<engine::Space>>(path, [&](engine::Path at) { return paths_->space(std::move(at)); });
  if (!space) return space.error();
  return space->space;
}

Status ClientImpl::list(std::string_view path, const std::function<bool(const DirectoryEntry&)>& entry) {
  using Listing = Result<engine::Page>;
  auto page = on_path<Listing>(path, [&](engine::Path at) { return paths_->list(std::move(at)); });
  engine::CookieLoop circle;
  for (std::uint64_t cookie = 0;;) {
    if (!page) return page.error();
    if (circle.closes_with_page(cookie, page->entries))
      return engine::CookieLoop::error("READDIR", std::string(path));
    std::vector<Attributes> attributes;
    attributes.reserve(page->entries.size());
    for (engine::Listed& one : page->entries) attributes.push_back(std::move(one.attributes));
    add_ids(attributes);
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      engine::Listed& from = page->entries[i];
      DirectoryEntry out;
      out.name = std::move(from.name);
      out.cookie = cookie = from.cookie;
      if (attributes[i].type != FileType::unknown) out.attributes.emplace(std::move(attributes[i]));
      if (!entry(out)) return {};
    }
    if (page->eof) return {};
    const engine::Page last = std::move(*page);
    page = run<Listing>([&] { return engine().list(nullptr, last.directory, cookie, last.verifier); });
  }
}

namespace {

/// What was made is of no interest to whoever gave its path.
template <class T>
Status done_or_error(const Result<T>& result) {
  if (!result) return result.error();
  return {};
}

}  // namespace

Status ClientImpl::make_directory(std::string_view path, std::uint32_t mode) {
  return done_or_error(on_path<Result<engine::Made>>(
      path, [&](engine::Path at) { return paths_->make_directory(std::move(at), mode); }));
}
Status ClientImpl::remove_file(std::string_view path) {
  return on_path<Status>(
      path, [&](engine::Path at) { return paths_->remove(std::move(at), engine::Engine::Removed::file); });
}
Status ClientImpl::remove_directory(std::string_view path) {
  return on_path<Status>(path, [&](engine::Path at) {
    return paths_->remove(std::move(at), engine::Engine::Removed::directory);
  });
}
Status ClientImpl::rename(std::string_view from, std::string_view to) {
  return on_paths<Status>(
      from, to, [&](engine::Path a, engine::Path b) { return paths_->rename(std::move(a), std::move(b)); });
}
Status ClientImpl::link(std::string_view existing, std::string_view created) {
  return on_paths<Status>(existing, created, [&](engine::Path a, engine::Path b) {
    return paths_->link(std::move(a), std::move(b));
  });
}
Status ClientImpl::symlink(std::string_view text, std::string_view created) {
  return done_or_error(on_path<Result<engine::Made>>(
      created, [&](engine::Path at) { return paths_->make_symlink(std::string(text), std::move(at)); }));
}
Status ClientImpl::set_attributes(std::string_view path, const SetAttributes& changes, bool follow) {
  return on_path<Status>(
      path, [&](engine::Path at) { return paths_->set_attributes(std::move(at), changes, follow); });
}
Result<unsigned> ClientImpl::access(std::string_view path, unsigned wanted) {
  auto rights = on_path<Result<engine::Rights>>(
      path, [&](engine::Path at) { return paths_->access(std::move(at), wanted); });
  if (!rights) return rights.error();
  return rights->granted;
}

namespace {

engine::Access access_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::read:
      return engine::Access::read;
    case OpenMode::write:
      return engine::Access::write;
    case OpenMode::read_write:
      break;
  }
  return engine::Access::both;
}

std::optional<engine::Engine::Creation> creation_of(const OpenFlags& flags) {
  if (!flags.create) return std::nullopt;
  engine::Engine::Creation out;
  out.mode = flags.mode;
  out.exclusive = flags.exclusive;
  out.truncate = flags.truncate && !flags.exclusive;
  return out;
}

}  // namespace

async::Task<Result<engine::Opened>> ClientImpl::open_task(engine::Path path, OpenMode mode, OpenFlags flags) {
  auto opened = co_await paths_->open(std::move(path), access_of(mode), creation_of(flags));
  // With `create` the server has cut it already.
  if (!opened || !flags.truncate || flags.create) co_return std::move(opened);
  SetAttributes changes;
  changes.size = 0;
  auto cut = co_await engine().set_attributes(nullptr, opened->object.handle, changes, opened->file);
  if (cut) co_return std::move(opened);
  (void)co_await engine().close(std::move(opened->file));
  co_return cut.error();
}

Result<std::unique_ptr<File>> ClientImpl::open(std::string_view path, OpenMode mode, const OpenFlags& flags) {
  std::string text;
  auto opened = on_path<Result<engine::Opened>>(path, [&](engine::Path at) {
    text = at.text();
    return open_task(std::move(at), mode, flags);
  });
  if (!opened) return opened.error();
  return std::unique_ptr<File>(std::make_unique<FileImpl>(*this, std::move(*opened), std::move(text)));
}

Info ClientImpl::info() {
  const Crew::Inside inside(crew_);
  return server_.info();
}

}  // namespace api
}  // namespace nfsrdma
