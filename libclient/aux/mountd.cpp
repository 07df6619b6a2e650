#include "aux/mountd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "aux/rpcbind.h"

namespace nfsrdma::aux {
namespace {

constexpr std::array<Transport, 2> kTransports{Transport::tcp, Transport::udp};

std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    if (slash != 0) out.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return out;
}

bool begins_with(const std::vector<std::string>& names, const std::vector<std::string>& first) {
  return first.size() <= names.size() && std::equal(first.begin(), first.end(), names.begin());
}

std::vector<std::string> first_of(const std::vector<std::string>& names, std::size_t count) {
  return {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)};
}

Error refused(mountstat3 status, const std::string& server, const std::string& path) {
  const auto make = [&](int errno_value, const char* text) {
    return Error(ErrorKind::server, errno_value, status, "MNT", server + ":" + path, text);
  };
  switch (status) {
    case MNT3ERR_PERM:
    case MNT3ERR_ACCES:
      return make(EACCES,
                  "the server does not export this to this machine, or requires a privileged port "
                  "(exports(5): insecure); `nfsrdma-cli exports` lists what it exports");
    case MNT3ERR_NOENT:
      return make(ENOENT,
                  "there is no such directory on the server; `nfsrdma-cli exports` lists its exports");
    case MNT3ERR_NOTDIR:
      return make(ENOTDIR, "this is not a directory");
    case MNT3ERR_NAMETOOLONG:
      return make(ENAMETOOLONG, "the path is longer than the server's mount service takes");
    case MNT3ERR_INVAL:
      return make(EINVAL, "the server finds the path invalid");
    case MNT3ERR_NOTSUPP:
      return make(EOPNOTSUPP, "the server's mount service does not support this");
    default:
      return make(EIO, "the server's mount service failed; see its log");
  }
}

/// Numbers of the flavors in the answer to MNT, and their names in exports(5) (RFC 2623 2.3.1).
constexpr std::uint32_t kAuthNone = 0;
constexpr auto kPseudoFlavors = std::to_array<std::pair<std::uint32_t, Security>>(
    {{1, Security::sys}, {390003, Security::krb5}, {390004, Security::krb5i}, {390005, Security::krb5p}});

/// Returns true if a shorter path than the one refused may be exported.
bool may_be_shorter(const Error& error) {
  const int why = error.errno_value();
  return error.kind() == ErrorKind::server &&
         (why == EACCES || why == ENOENT || why == ENOTDIR || why == ENAMETOOLONG);
}

}  // namespace

std::string path_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += "/" + name;
  return out.empty() ? "/" : out;
}

// ---- reaching it ----

async::Task<Result<Remote>> Mountd::reach_over(Transport transport, const rpc::Address& address,
                                               async::TimePoint deadline) {
  std::uint16_t port = options_.port;
  if (port == 0) {
    const Service service{kMountProgram, options_.version,
                          transport == Transport::tcp ? Wire::tcp : Wire::udp};
    auto found =
        co_await find_port(loop_, address, options_.server, service, deadline, options_.rpcbind_port);
    if (!found) co_return found.error();
    if (!*found) {
      co_return Error(ErrorKind::server, EPROTONOSUPPORT, "MNT", options_.server,
                      "the server's rpcbind lists no mount service of version " +
                          std::to_string(options_.version) +
                          "; is mountd running there? Give its port with mountport= if it is not registered");
    }
    port = **found;
  }
  co_return Remote{with_port(address, port), options_.server, transport};
}

/// Finds mountd, unless it was found before.
async::Task<Status> Mountd::reach() {
  if (remote_) co_return Status();
  const auto deadline = loop_.now() + options_.timeout;
  std::optional<Error> first;
  for (const rpc::Address& address : options_.addresses) {
    for (const Transport transport : kTransports) {
      if (options_.transport && *options_.transport != transport) continue;
      auto found = co_await reach_over(transport, address, deadline);
      if (found) {
        remote_ = std::move(*found);
        co_return Status();
      }
      if (!first) first = found.error();
      // No rpcbind answers, so another transport need not be tried.
      if (found.error().kind() == ErrorKind::connection) break;
    }
  }
  if (first) co_return *first;
  co_return Error(ErrorKind::connection, EHOSTUNREACH, "MNT", options_.server, "the server has no address");
}

template <class P>
async::Task<Result<typename P::Res>> Mountd::ask(typename P::Args args) {
  if (auto there = co_await reach(); !there) co_return there.error();
  auto answer =
      co_await call<P>(loop_, *remote_, options_.identity, std::move(args), loop_.now() + options_.timeout);
  // mountd may have another port since it was found.
  if (!answer && answer.error().kind() == ErrorKind::connection) remote_.reset();
  co_return answer;
}

template <class P, class Q>
async::Task<Result<typename P::Res>> Mountd::ask_either(typename P::Args args) {
  return options_.version == P::version ? ask<P>(std::move(args)) : ask<Q>(std::move(args));
}

// ---- lists and roots ----

async::Task<Result<std::vector<Export>>> Mountd::exports() {
  auto answer = co_await ask_either<EXPORT3, EXPORT1>(xdr::Void());
  if (!answer) co_return answer.error();
  std::vector<Export> out;
  for (exportnode& node : answer->list.value) {
    Export& one = out.emplace_back();
    one.path = std::move(node.ex_dir.value);
    for (groupnode& group : node.ex_groups.value) one.clients.push_back(std::move(group.gr_name.value));
  }
  co_return std::move(out);
}

async::Task<Result<std::vector<MountedBy>>> Mountd::mounts() {
  auto answer = co_await ask_either<DUMP3, DUMP1>(xdr::Void());
  if (!answer) co_return answer.error();
  std::vector<MountedBy> out;
  for (mountbody& one : answer->list.value)
    out.push_back({std::move(one.ml_hostname.value), std::move(one.ml_directory.value)});
  co_return std::move(out);
}

async::Task<Result<engine::FileHandle>> Mountd::root_of(dirpath path) {
  const std::string text = path.path.value;
  engine::FileHandle handle;
  const auto is = [&handle](std::span<const std::byte> bytes) {
    handle.length = static_cast<std::uint32_t>(bytes.size());
    std::ranges::copy(bytes, handle.bytes.begin());
  };
  if (options_.version == MNT1::version) {
    auto answer = co_await ask<MNT1>(std::move(path));
    if (!answer) co_return answer.error();
    if (answer->tag() != MNT3_OK) co_return refused(answer->tag(), options_.server, text);
    is(*answer->get<MNT3_OK>());
    co_return handle;
  }
  auto answer = co_await ask<MNT3>(std::move(path));
  if (!answer) co_return answer.error();
  const mountres3_ok* ok = answer->get<MNT3_OK>();
  if (ok == nullptr) co_return refused(answer->tag(), options_.server, text);
  // An empty handle is refused, because find() returns one to mean a directory above the exports.
  if (ok->fhandle.length == 0) {
    co_return Error(ErrorKind::protocol, EPROTO, "MNT", options_.server + ":" + text,
                    "the server's mount service returned an empty file handle; please report this with a "
                    "capture of the traffic");
  }
  is(std::span(ok->fhandle.bytes).first(ok->fhandle.length));
  auto mark = co_await choose(ok->auth_flavors.value);
  if (!mark) co_return mark.error().about("MNT", text);
  handle.mark = *mark;
  co_return handle;
}

/// Chooses the flavor for an export for which the mount service offers these flavors.
async::Task<Result<security::Mark>> Mountd::choose(std::vector<std::uint32_t> offered) {
  // A server that offers AUTH_NONE, or nothing, leaves the flavors open (Linux does so).
  const bool told = !offered.empty() && std::ranges::count(offered, kAuthNone) == 0;
  if (!options_.flavor) co_return security::Mark{0};
  const auto is_avoided = [&](std::string_view name) {
    return std::ranges::any_of(avoided_,
                               [&](security::Mark mark) { return options_.flavor->name_of(mark) == name; });
  };
  if (!told && is_avoided(options_.flavor->name_of(0))) co_return security::not_offered({});
  if (!told) co_return security::Mark{0};
  std::vector<Security> offers;
  for (const auto& [number, security] : kPseudoFlavors) {
    const bool offers_it = std::ranges::count(offered, number) != 0;
    if (offers_it && !is_avoided(security_name(security))) offers.push_back(security);
  }
  co_return co_await options_.flavor->choose(std::move(offers), nullptr, loop_.now() + options_.timeout);
}

void Mountd::avoid(const engine::FileHandle& root) {
  avoided_.push_back(root.mark);
  mounted_.clear();
}

async::Task<Result<engine::FileHandle>> Mountd::mount(Names names) {
  if (const auto known = mounted_.find(names); known != mounted_.end()) co_return known->second;
  dirpath path;
  path.path.value = path_of(names);
  auto handle = co_await root_of(std::move(path));
  if (!handle) co_return handle.error();
  mounted_.emplace(std::move(names), *handle);
  co_return *handle;
}

/// Asks for the list of exports, unless it is known.
async::Task<Status> Mountd::list() {
  if (listed_) co_return Status();
  auto all = co_await exports();
  if (!all) co_return all.error();
  listed_.emplace();
  for (const Export& one : *all) listed_->push_back(names_in(one.path));
  co_return Status();
}

/// Returns how many of the names may lead to an export, the most likely count first.
std::vector<std::size_t> Mountd::candidates(const Names& names) const {
  std::vector<std::size_t> out;
  if (!listed_) {
    for (std::size_t count = names.size() + 1; count-- > 0;) out.push_back(count);
    return out;
  }
  for (const Names& one : *listed_) {
    if (begins_with(names, one)) out.push_back(one.size());
  }
  std::ranges::sort(out, std::greater<>());
  // The server may export more than it lists.
  if (out.empty()) out.push_back(names.size());
  return out;
}

async::Task<Result<engine::Root>> Mountd::find(Names names) {
  // If there is no list, all counts are tried.
  const bool is_listed = (co_await list()).has_value();
  if (is_listed) {
    const bool below =
        std::ranges::any_of(*listed_, [&](const Names& one) { return begins_with(names, one); });
    const bool above =
        std::ranges::any_of(*listed_, [&](const Names& one) { return begins_with(one, names); });
    if (above && !below) co_return engine::Root{{}, names.size()};
  }
  std::optional<Error> first;
  const std::vector<std::size_t> counts = candidates(names);
  for (const std::size_t count : counts) {
    auto handle = co_await mount(first_of(names, count));
    if (handle) co_return engine::Root{*handle, count};
    if (!first) first = handle.error();
    if (!may_be_shorter(handle.error())) break;
  }
  co_return *first;
}

async::Task<Result<std::vector<std::string>>> Mountd::towards_exports(Names names) {
  if (auto done = co_await list(); !done) co_return done.error();
  std::vector<std::string> out;
  for (const Names& one : *listed_) {
    if (one.size() > names.size() && begins_with(one, names)) out.push_back(one[names.size()]);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  co_return std::move(out);
}

void Mountd::forget(const engine::FileHandle& root) {
  std::erase_if(mounted_, [&root](const auto& one) { return one.second == root; });
  listed_.reset();
}

async::Task<void> Mountd::unmount(async::TimePoint deadline) {
  const auto all = std::exchange(mounted_, {});
  for (const auto& [names, handle] : all) {
    dirpath args;
    args.path.value = path_of(names);
    if (!remote_ || loop_.now() >= deadline) co_return;
    const bool newer = options_.version == UMNT3::version;
    auto told = newer ? call<UMNT3>(loop_, *remote_, options_.identity, std::move(args), deadline)
                      : call<UMNT1>(loop_, *remote_, options_.identity, std::move(args), deadline);
    auto done = co_await std::move(told);
    if (!done && done.error().kind() == ErrorKind::connection) co_return;
  }
}

}  // namespace nfsrdma::aux
