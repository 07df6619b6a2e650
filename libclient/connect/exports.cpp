#include "connect/exports.h"

#include <cerrno>
#include <optional>

#include "async/event.h"
#include "async/interrupt_watch.h"
#include "async/until.h"
#include "connect/protocol.h"
#include "connect/resolve.h"

namespace nfsrdma::connect {
namespace {

template <class List>
using Question = async::Task<Result<List>> (aux::Mountd::*)();

template <class List>
async::Task<void> ask(aux::Mountd& mountd, Question<List> question, std::optional<Result<List>>& out,
                      async::Event& told) {
  out.emplace(co_await (mountd.*question)());
  told.notify_all();
}

template <class List>
Result<List> ask_and_wait(const Target& target, Question<List> question, const char* name,
                          async::TimePoint deadline, int interrupt) {
  const std::string& host = target.options.mount_host.empty() ? target.host : target.options.mount_host;
  auto addresses = resolve(host, 0, deadline, interrupt);
  if (!addresses) return addresses.error();
  async::Loop loop;
  aux::Mountd mountd(loop, mount_options(target, std::move(*addresses)));
  async::Event told(loop);
  std::optional<Result<List>> out;
  const async::InterruptWatch watch(loop, interrupt, told);
  loop.spawn(ask(mountd, question, out, told));
  const auto is_over = [&] { return out.has_value() || watch.is_raised(); };
  const bool in_time = loop.run(async::until(told, deadline, is_over));
  loop.drop_tasks();
  if (out) return std::move(*out);
  if (in_time) return Error(ErrorKind::cancelled, EINTR, name, host, "interrupted");
  return Error(ErrorKind::timeout, ETIMEDOUT, name, host,
               "the mount service does not answer; a firewall may be in the way");
}

}  // namespace

Result<std::vector<aux::Export>> list_exports(const Target& target, async::TimePoint deadline,
                                              int interrupt) {
  return ask_and_wait(target, &aux::Mountd::exports, "EXPORT", deadline, interrupt);
}

Result<std::vector<aux::MountedBy>> list_mounts(const Target& target, async::TimePoint deadline,
                                                int interrupt) {
  return ask_and_wait(target, &aux::Mountd::mounts, "DUMP", deadline, interrupt);
}

}  // namespace nfsrdma::connect
