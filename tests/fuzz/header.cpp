// The RPC-over-RDMA header from any bytes. The input is a message.
//
// What decodes has one encoding only: the bytes that it was decoded from. A header that is cut short by one
// octet does not decode. Storage that is reused gives what new storage does.
#include "rpcrdma/header.h"

#include <algorithm>

#include "fuzz.h"
#include "rpcrdma/reply_check.h"

using namespace nfsrdma;
using namespace nfsrdma::rpcrdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ConstOctets message = fuzz::Script(data, size, 16384).rest();
  rdma_msg header;
  const Decoded decoded = decode(message, header);
  FUZZ_CHECK(decoded.size <= message.size());
  FUZZ_CHECK((decoded.fault == HeaderFault::none) == (decoded.size != 0));

  // Storage of an earlier message.
  static rdma_msg reused;
  FUZZ_CHECK(decode(message, reused).fault == decoded.fault && reused == header);

  if (decoded.fault != HeaderFault::none) return 0;
  FUZZ_CHECK(encoded_size(header) == decoded.size);
  xdr::Buffer again;
  encode(header, again);
  FUZZ_CHECK(std::ranges::equal(again.bytes(), message.first(decoded.size)));
  rdma_msg cut;
  FUZZ_CHECK(decode(message.first(decoded.size - 1), cut).fault != HeaderFault::none);

  // What comes behind it: neither may trip over anything.
  static_cast<void>(kind_of(header, message.subspan(decoded.size), nullptr));
  static_cast<void>(kind_of(header, message.subspan(decoded.size), &reused));
  static_cast<void>(reply_fault(header, reused, message.size() - decoded.size));
  return 0;
}
