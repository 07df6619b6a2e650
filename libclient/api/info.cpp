// The facts about a connection, as entries with names. The names are those of libnfsrdma(3), and of the
// members of struct Info in nfsrdma/info.h.
#include "api/info.h"

#include <memory>
#include <string>
#include <utility>

#include "api/client_core.h"
#include "api/clients.h"

namespace nfsrdma::api {
namespace {

void add_connection(nfsrdma_info& out, const Info& info) {
  out.add("server", info.server);
  out.add("address", info.address);
  out.add("fabric", info.fabric);
  out.add("fabric_detail", info.fabric_detail);
  out.add("fabric_reason", info.fabric_reason);
  out.add("device", info.device);
  out.add("memory_windows", info.memory_windows);
  out.add("mpa_revision", info.mpa_revision);
  out.add("crc", info.crc);
  out.add("ird", info.ird);
  out.add("ord", info.ord);
  out.add("call_threshold", info.call_threshold);
  out.add("reply_threshold", info.reply_threshold);
  out.add("private_data", info.private_data);
  out.add("remote_invalidation", info.remote_invalidation);
  out.add("invalidation_offered", info.invalidation_offered);
  out.add("credits_wanted", info.credits_wanted);
  out.add("credits_granted", info.credits_granted);
  out.add("connections", info.connections);
  out.add("shards", info.shards);
}

void add_protocol(nfsrdma_info& out, const Info& info) {
  out.add("security", info.security);
  out.add("version", info.version);
  out.add("minor_version", info.minor_version);
  out.add("ping_call", info.ping_call);
  out.add("locks", info.locks);
  out.add("read_plus", info.read_plus);
  out.add("slots", info.slots);
  out.add("max_request", info.max_request);
  out.add("max_response", info.max_response);
  out.add("max_response_cached", info.max_response_cached);
  out.add("max_operations", info.max_operations);
  out.add("rsize", info.rsize);
  out.add("wsize", info.wsize);
  out.add("lease_seconds", info.lease_seconds);
  out.add("client_id", info.client_id);
  out.add("session_id", info.session_id);
  out.add("protects_state", info.protects_state);
  out.add("backchannel", info.backchannel);
  out.add("callback_address", info.callback_address);
}

void add_server(nfsrdma_info& out, const Info& info) {
  out.add("implementation_name", info.implementation_name);
  out.add("implementation_domain", info.implementation_domain);
  if (info.implementation_date) {
    const Time& date = *info.implementation_date;
    std::string text = std::to_string(date.seconds);
    if (date.nanoseconds != 0) text += "." + std::to_string(1'000'000'000 + date.nanoseconds).substr(1);
    out.add("implementation_date", std::move(text), static_cast<std::uint64_t>(date.seconds));
  }
  out.add("server_owner", info.server_owner);
  out.add("server_scope", info.server_scope);
}

void add_counters(nfsrdma_info& out, const Info& info) {
  out.add("hole_bytes", info.hole_bytes);
  out.add("calls", info.calls);
  out.add("retransmissions", info.retransmissions);
  out.add("reconnects", info.reconnects);
  for (const auto& [flavor, calls] : info.calls_by_security) out.add("calls_" + flavor, calls);
}

}  // namespace
}  // namespace nfsrdma::api

nfsrdma_info* nfsrdma_info_get(nfsrdma_client* client) {
  return nfsrdma::api::guarded_object(nullptr, [&]() -> nfsrdma_info* {
    if (client == nullptr || client->is_inherited()) return nullptr;
    const nfsrdma::Info info = client->info();
    auto out = std::make_unique<nfsrdma_info>();
    nfsrdma::api::add_connection(*out, info);
    nfsrdma::api::add_protocol(*out, info);
    nfsrdma::api::add_server(*out, info);
    nfsrdma::api::add_counters(*out, info);
    return out.release();
  });
}

void nfsrdma_info_free(nfsrdma_info* info) {
  delete info;
}

const char* nfsrdma_info_name(const nfsrdma_info* info, size_t number) {
  return info != nullptr && number < info->entries.size() ? info->entries[number].name.c_str() : nullptr;
}

const char* nfsrdma_info_text(const nfsrdma_info* info, const char* name) {
  const auto* const found = info != nullptr ? info->find(name) : nullptr;
  return found != nullptr ? found->text.c_str() : nullptr;
}

uint64_t nfsrdma_info_number(const nfsrdma_info* info, const char* name) {
  const auto* const found = info != nullptr ? info->find(name) : nullptr;
  return found != nullptr ? found->number : 0;
}
