#include "nfs4/state/lock_waits.h"

#include <algorithm>

namespace nfsrdma::nfs4 {
namespace {

/// Prefix of the number, by which the name of a lock owner differs from any open owner's.
constexpr std::uint32_t kLockOwnerMark = 0x6c6f636b;
constexpr std::size_t kLockOwnerSize = 4 + 8;
constexpr std::size_t kUniqueSize = 8 + 8;  // `unique` and the generation, behind the number

std::optional<std::uint64_t> number_of(const lock_owner4& owner) {
  const auto& bytes = owner.owner.value;
  if (bytes.size() != kLockOwnerSize && bytes.size() != kLockOwnerSize + kUniqueSize) return std::nullopt;
  if (xdr::load_u32(bytes.data()) != kLockOwnerMark) return std::nullopt;
  return xdr::load_u64(bytes.data() + 4);
}

}  // namespace

lock_owner4 lock_owner_of(clientid4 client, std::uint64_t number, std::uint64_t unique) {
  lock_owner4 out;
  out.clientid = client;
  out.owner.value.resize(kLockOwnerSize + (unique != 0 ? kUniqueSize : 0));
  if (unique != 0) xdr::store_u64(out.owner.value.data() + kLockOwnerSize, unique);
  xdr::store_u32(out.owner.value.data(), kLockOwnerMark);
  xdr::store_u64(out.owner.value.data() + 4, number);
  return out;
}

std::optional<std::uint64_t> own_number(const lock_owner4& owner, clientid4 client) {
  return owner.clientid == client ? number_of(owner) : std::nullopt;
}

LockWaits::Guard::Guard(LockWaits& all, const nfs_fh4& file, std::uint64_t owner, LockWait& wait)
    : all_(all), file_(file), owner_(owner), wait_(wait) {
  all_.guards_.push_back(this);
}

LockWaits::Guard::~Guard() {
  std::erase(all_.guards_, this);
}

void LockWaits::notify(const nfs_fh4& file, const lock_owner4& owner) {
  // The backchannel is this client's, so the client id need not be compared.
  const auto number = number_of(owner);
  if (!number) return;
  for (Guard* guard : guards_) {
    if (guard->owner_ == *number && guard->file_ == file) guard->wait_.notify();
  }
}

}  // namespace nfsrdma::nfs4
