// Access control lists from any octets: as text, and as the values of extended attributes.
//
// What is read is written in a form that is read as the same list.
#include "nfsrdma/acl.h"

#include "acl/octets.h"
#include "fuzz.h"

using namespace nfsrdma;

namespace {

void check_text(fuzz::ConstOctets octets) {
  const std::string_view text(reinterpret_cast<const char*>(octets.data()), octets.size());
  const auto list = parse_acl(text);
  if (!list) return;
  const auto again = parse_acl(acl_text(*list));
  FUZZ_CHECK(again.has_value());
  const bool empty = acl_text(*list).empty();  // whose form nothing tells
  FUZZ_CHECK(empty || acl_text(*again) == acl_text(*list));
}

void check_octets(fuzz::ConstOctets octets) {
  if (const auto list = acl::posix_of(octets)) FUZZ_CHECK(*acl::posix_of(acl::posix_octets(*list)) == *list);
  if (const auto list = acl::nfs4_of(octets)) FUZZ_CHECK(*acl::nfs4_of(acl::nfs4_octets(*list)) == *list);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ConstOctets input = fuzz::Script(data, size, 4096).rest();
  check_text(input);
  check_octets(input);
  return 0;
}
