#include "connect/exports.h"

#include <sys/epoll.h>

#include <cerrno>
#include <optional>

#include "async/event.h"
#include "async/until.h"
#include "connect/protocol.h"
#include "connect/resolve.h"

namespace nfsrdma::connect {
namespace {

using Exports = Result<std::vector<aux::Export>>;

async::Task<void> ask(aux::Mountd& mountd, std::optional<Exports>& out, async::Event& told) {
  out.emplace(co_await mountd.exports());
  told.notify_all();
}

}  // namespace

Exports list_exports(const Target& target, async::TimePoint deadline, int interrupt) {
  const std::string& host = target.options.mount_host.empty() ? target.host : target.options.mount_host;
  auto addresses = resolve(host, 0, deadline, interrupt);
  if (!addresses) return addresses.error();
  async::Loop loop;
  aux::Mountd mountd(loop, mount_options(target, std::move(*addresses)));
  async::Event told(loop);
  std::optional<Exports> out;
  bool interrupted = false;
  const auto stop = [&](std::uint32_t) {
    interrupted = true;
    told.notify_all();
  };
  if (interrupt >= 0) loop.watch(interrupt, EPOLLIN, stop);
  loop.spawn(ask(mountd, out, told));
  const auto is_over = [&] { return out.has_value() || interrupted; };
  const bool in_time = loop.run(async::until(told, deadline, is_over));
  if (interrupt >= 0) loop.unwatch(interrupt);
  loop.drop_tasks();
  if (out) return std::move(*out);
  if (in_time) return Error(ErrorKind::cancelled, EINTR, "EXPORT", host, "interrupted");
  return Error(ErrorKind::timeout, ETIMEDOUT, "EXPORT", host,
               "the mount service does not answer; a firewall may be in the way");
}

}  // namespace nfsrdma::connect
