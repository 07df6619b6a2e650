#include "acl/octets.h"

#include <cerrno>

#include "acl/lists.h"
#include "xdr/xdr.h"

namespace nfsrdma::acl {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kHeader = 4, kEntry = 8;
/// The id of an entry that has none (ACL_UNDEFINED_ID).
constexpr std::uint32_t kNoId = 0xffffffff;

void put(std::vector<std::byte>& out, std::uint32_t value, unsigned octets) {
  for (unsigned i = 0; i < octets; ++i) out.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xffU));
}
std::uint32_t take(std::span<const std::byte> in, std::size_t at, unsigned octets) {
  std::uint32_t out = 0;
  for (unsigned i = 0; i < octets; ++i) out |= std::to_integer<std::uint32_t>(in[at + i]) << (8 * i);
  return out;
}

Error malformed_octets(const char* what) {
  return {ErrorKind::usage, EINVAL, "acl", "",
          std::string("the value is not an access control list in the format of ") + what +
              "; use setfacl or nfs4_setfacl"};
}

/// nfsace4. `who` needs no bound of its own, because it cannot be longer than the octets that it is decoded
/// from.
struct Ace {
  std::uint32_t type = 0, flag = 0, access_mask = 0;
  xdr::String<> who{};
};
using Aces = xdr::Array<Ace>;

}  // namespace

std::vector<std::byte> posix_octets(const PosixAcl& list) {
  std::vector<std::byte> out;
  out.reserve(kHeader + kEntry * list.size());
  put(out, kVersion, 4);
  for (const PosixAce& ace : list) {
    const bool named = ace.tag == AclTag::user || ace.tag == AclTag::group;
    put(out, static_cast<std::uint32_t>(ace.tag), 2);
    put(out, ace.permissions, 2);
    put(out, named ? ace.id : kNoId, 4);
  }
  return out;
}

Result<PosixAcl> posix_of(std::span<const std::byte> octets) {
  if (octets.empty()) return PosixAcl();
  const bool whole = octets.size() >= kHeader && (octets.size() - kHeader) % kEntry == 0;
  if (!whole || take(octets, 0, 4) != kVersion) return malformed_octets("system.posix_acl_access");
  PosixAcl out;
  for (std::size_t at = kHeader; at < octets.size(); at += kEntry)
    out.push_back(
        {static_cast<AclTag>(take(octets, at, 2)), take(octets, at + 4, 4), take(octets, at + 2, 2)});
  return ordered(std::move(out));
}

std::vector<std::byte> nfs4_octets(const Nfs4Acl& list) {
  Aces wire;
  for (const Nfs4Ace& ace : list) wire.value.push_back({ace.type, ace.flags, ace.mask, {ace.who}});
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, wire);
  const xdr::ConstBytes bytes = message.stream.bytes();
  return {bytes.begin(), bytes.end()};
}

Result<Nfs4Acl> nfs4_of(std::span<const std::byte> octets) {
  xdr::Decoder in(octets);
  Aces wire;
  if (!xdr::decode(in, wire) || !in.finish()) return malformed_octets("system.nfs4_acl");
  Nfs4Acl out;
  out.reserve(wire.value.size());
  for (Ace& ace : wire.value) out.push_back({ace.type, ace.flag, ace.access_mask, std::move(ace.who.value)});
  return out;
}

}  // namespace nfsrdma::acl
