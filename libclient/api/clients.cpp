// The functions of the C interface on clients and queues, and the mount service.
#include "api/clients.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "api/names.h"
#include "connect/exports.h"
#include "connect/resolve.h"

using namespace nfsrdma;
using namespace nfsrdma::api;
using std::chrono::milliseconds;

Result<nfsrdma_options> nfsrdma::api::complete(const char* target, const nfsrdma_options* options) {
  nfsrdma_options out = options != nullptr ? *options : nfsrdma_options();
  if (target != nullptr) {
    if (Status done = aim(out, target); !done) return done.error();
  }
  if (out.target.host.empty()) return missing("target");
  constexpr milliseconds longest = std::chrono::years(1);
  for (milliseconds* time : {&out.target.options.timeout, &out.target.options.connect_timeout})
    *time = std::min(*time, longest);
  return out;
}

namespace {

async::TimePoint connect_deadline(const nfsrdma_options& options) {
  return async::Clock::now() + options.target.options.connect_timeout;
}

Result<std::unique_ptr<nfsrdma_client>> connected(const nfsrdma_options& options) {
  const connect::Target& target = options.target;
  const auto deadline = connect_deadline(options);
  auto addresses = connect::resolve(target.host, target.options.port, deadline, options.interrupt);
  if (!addresses) return addresses.error();
  Setup setup;
  setup.log = options.log;
  setup.log_data = options.log_data;
  setup.interrupt = options.interrupt;
  auto client = std::make_unique<nfsrdma_client>(target, *addresses, std::move(setup));
  if (auto done = client->start(deadline); !done) return done.error();
  return client;
}

async::Task<Status> succeeded() {
  co_return Status();
}

/// Makes a call on the client itself.
template <class R, class Make, class Finish>
std::int64_t on_client(nfsrdma_client* client, const nfsrdma_call* call, nfsrdma_error** error, Make make,
                       Finish finish, ClientCore::Needs needs = ClientCore::Needs::connection) {
  return guarded(error, [&]() -> std::int64_t {
    if (client == nullptr) return fail(error, missing("client"));
    const auto how = How::from(call, *client);
    if (!how) return fail(error, how.error());
    return client->call<R>(client->calls(), *how, error, make, finish, needs);
  });
}

milliseconds time_from(std::int64_t timeout) {
  return timeout < 0 ? milliseconds::max() : milliseconds(timeout);
}

}  // namespace

nfsrdma_client* nfsrdma_connect(const char* target, const nfsrdma_options* options, nfsrdma_error** error) {
  return guarded_object(error, [&]() -> nfsrdma_client* {
    const auto all = complete(target, options);
    if (!all) {
      (void)fail(error, all.error());
      return nullptr;
    }
    auto client = connected(*all);
    if (client) return client->release();
    (void)fail(error, client.error());
    return nullptr;
  });
}

int nfsrdma_disconnect(nfsrdma_client* client, nfsrdma_error** error) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    if (client == nullptr) return fail(error, missing("client"));
    auto done = client->disconnect();
    return done ? 0 : fail(error, done.error());
  }));
}

void nfsrdma_client_free(nfsrdma_client* client) {
  if (client != nullptr && !client->is_inherited()) delete client;
}

const char* nfsrdma_path(const nfsrdma_client* client) {
  return client != nullptr ? client->target().path.c_str() : "/";
}

nfsrdma_dir* nfsrdma_root(nfsrdma_client* client) {
  return client != nullptr ? &client->root() : nullptr;
}

void nfsrdma_submit(nfsrdma_client* client) {
  if (client != nullptr) client->submit();
}

int64_t nfsrdma_cancel(nfsrdma_client* client, uint64_t tag) {
  if (client == nullptr) return 0;
  return guarded(nullptr, [&] { return static_cast<std::int64_t>(client->cancel(tag)); });
}

// ---- completions ----

int64_t nfsrdma_post(nfsrdma_client* client, const nfsrdma_call* call, nfsrdma_error** error) {
  return on_client<Status>(client, call, error, &succeeded, nothing, ClientCore::Needs::nothing);
}

nfsrdma_queue* nfsrdma_queue_new(nfsrdma_client* client, nfsrdma_error** error) {
  return guarded_object(error, [&]() -> nfsrdma_queue* {
    if (client != nullptr) return new nfsrdma_queue(*client);
    (void)fail(error, missing("client"));
    return nullptr;
  });
}

void nfsrdma_queue_free(nfsrdma_queue* queue) {
  if (queue == nullptr || queue->client.is_inherited()) return;
  queue->client.cancel_all(*queue);
  const Crew::Inside inside(queue->client.crew());
  delete queue;
}

int64_t nfsrdma_reap(nfsrdma_queue* queue, nfsrdma_completion* completions, size_t most, size_t least,
                     int64_t timeout) {
  return guarded(nullptr, [&]() -> std::int64_t {
    if (queue == nullptr || (completions == nullptr && most != 0)) return 0;
    return queue->client.reap(*queue, {completions, most}, least, time_from(timeout));
  });
}

int nfsrdma_queue_descriptor(nfsrdma_queue* queue) {
  return queue == nullptr ? -1 : queue->client.descriptor(*queue);
}

size_t nfsrdma_queue_pending(nfsrdma_queue* queue) {
  return queue == nullptr ? 0 : queue->client.pending(*queue);
}

int nfsrdma_wait(nfsrdma_client* client, int64_t timeout, const int* descriptors, size_t count) {
  return static_cast<int>(guarded(nullptr, [&]() -> std::int64_t {
    if (client == nullptr) return 0;
    const std::span<const int> also(descriptors, descriptors == nullptr ? 0 : count);
    return client->wait(time_from(timeout), also) ? 1 : 0;
  }));
}

int nfsrdma_descriptor(nfsrdma_client* client) {
  return client == nullptr ? -1 : client->descriptor(client->callbacks());
}

void nfsrdma_service(nfsrdma_client* client) {
  (void)guarded(nullptr, [&]() -> std::int64_t {
    if (client != nullptr) client->service();
    return 0;
  });
}

// ---- the server ----

namespace {

using Measured = Result<std::chrono::nanoseconds>;

async::Task<Measured> measure(ClientCore& client) {
  const auto before = async::Clock::now();
  auto done = co_await client.engine().ping();
  if (!done) co_return done.error();
  co_return std::chrono::nanoseconds(async::Clock::now() - before);
}

}  // namespace

int64_t nfsrdma_ping(nfsrdma_client* client, const nfsrdma_call* call, nfsrdma_error** error) {
  return on_client<Measured>(
      client, call, error, [&] { return measure(*client); },
      [](std::chrono::nanoseconds time) { return std::int64_t{time.count()}; });
}

namespace {

/// Asks the mount service with `ask`, and calls `tell` for each answer.
template <class Ask, class Tell>
int list(const char* target, const nfsrdma_options* options, nfsrdma_error** error, Ask ask, Tell tell) {
  return static_cast<int>(guarded(error, [&]() -> std::int64_t {
    const auto all = complete(target, options);
    if (!all) return fail(error, all.error());
    auto listed = ask(all->target, connect_deadline(*all), all->interrupt);
    if (!listed) return fail(error, listed.error());
    for (const auto& one : *listed) tell(one);
    return 0;
  }));
}

}  // namespace

int nfsrdma_list_exports(const char* target, const nfsrdma_options* options, nfsrdma_export_entry entry,
                         void* data, nfsrdma_error** error) {
  if (entry == nullptr) return static_cast<int>(fail(error, missing("entry")));
  return list(target, options, error, connect::list_exports, [&](const aux::Export& one) {
    std::string clients;
    for (const std::string& client : one.clients) clients += (clients.empty() ? "" : " ") + client;
    entry(data, one.path.c_str(), clients.c_str());
  });
}

int nfsrdma_list_mounts(const char* target, const nfsrdma_options* options, nfsrdma_mount_entry entry,
                        void* data, nfsrdma_error** error) {
  if (entry == nullptr) return static_cast<int>(fail(error, missing("entry")));
  return list(target, options, error, connect::list_mounts,
              [&](const aux::MountedBy& one) { entry(data, one.client.c_str(), one.path.c_str()); });
}
