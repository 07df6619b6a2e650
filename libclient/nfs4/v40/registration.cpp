#include "nfs4/v40/registration.h"

#include <cerrno>
#include <span>

#include "nfs4/state/limits.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma::nfs4 {
namespace {

/// Bytes around the data of a READ's Reply or a WRITE's Call. There is no session to agree on this limit.
constexpr std::uint32_t kEnvelope = 2048;
/// The most operations in one COMPOUND. Old servers accept no more, and NFSv4.0 has no way to ask.
constexpr std::uint32_t kMostOperations = 16;
/// Universal address that stands for "no callbacks" (as Linux's client sends it).
constexpr const char* kNowhere = "0.0.0.0.0.0";

}  // namespace

Registration::Registration(CallLayer& calls, const SessionOptions& options)
    : calls_(calls), options_(options), verifier_(options.verifier), turn_(calls.loop()) {
  facts_.minor_version = 0;
  facts_.slots = options.slots;
  facts_.max_request = options.wsize + kEnvelope;
  facts_.max_response = options.rsize + kEnvelope;
  facts_.max_operations = kMostOperations;
  facts_.backchannel = !options.callback.address.empty();
}

SETCLIENTID4args Registration::arguments() const {
  SETCLIENTID4args args;
  args.client.verifier = verifier_;
  const auto id = std::as_bytes(std::span(options_.owner_id.data(), options_.owner_id.size()));
  args.client.id.value.assign(id.begin(), id.end());
  args.callback.cb_program = NFS4_CALLBACK;
  const SessionOptions::Callback& callback = options_.callback;
  args.callback.cb_location.na_r_netid.value = callback.address.empty() ? "tcp" : callback.netid;
  args.callback.cb_location.na_r_addr.value = callback.address.empty() ? kNowhere : callback.address;
  args.callback_ident = callback.ident;
  return args;
}

async::Task<Status> Registration::set_client(async::TimePoint deadline) {
  Compound compound = calls_.begin("SETCLIENTID");
  compound.add<op::SETCLIENTID>(arguments());
  auto reply = co_await calls_.call_in_recovery(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  SETCLIENTID4res res;
  if (!reply->take<op::SETCLIENTID>(res)) {
    if (const netaddr4* other = res.get<NFS4ERR_CLID_INUSE>()) {
      co_return Error(ErrorKind::server, EADDRINUSE, NFS4ERR_CLID_INUSE, "SETCLIENTID", calls_.server(),
                      "a client of another user already uses this client's identifier (" +
                          other->na_r_addr.value + "); end it, or wait until its lease has expired");
    }
    co_return calls_.error_of(*reply, "SETCLIENTID", calls_.server());
  }
  co_return co_await confirm(*res.get<NFS4_OK>(), deadline);
}

async::Task<Status> Registration::confirm(SETCLIENTID4resok id, async::TimePoint deadline) {
  Compound compound = calls_.begin("SETCLIENTID_CONFIRM");
  compound.add<op::SETCLIENTID_CONFIRM>({id.clientid, id.setclientid_confirm});
  auto reply = co_await calls_.call_in_recovery(std::move(compound), deadline);
  if (!reply) co_return reply.error();
  if (!reply->take<op::SETCLIENTID_CONFIRM>())
    co_return calls_.error_of(*reply, "SETCLIENTID_CONFIRM", calls_.server());
  if (id.clientid != facts_.client_id) ++facts_.epoch;
  facts_.client_id = id.clientid;
  co_return Status();
}

async::Task<Status> Registration::fetch_limits(async::TimePoint deadline) {
  return nfs4::fetch_limits(calls_, facts_, deadline);
}

void Registration::be_another_instance() {
  for (std::byte& byte : verifier_) {
    byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
    if (byte != std::byte{0}) break;
  }
}

}  // namespace nfsrdma::nfs4
