// RPC records (RFC 5531 11) from any bytes, in any cuts: what a stranger sends to the port for callbacks.
//
// Input: a limit of the records' size, cuts; then the peer's bytes.
//
// Checked: the records are the same as those read octet by octet, none is larger than the limit, and no more memory
// is filled than bytes have come.
#include <algorithm>

#include "aux/record_reader.h"
#include "fuzz.h"

using namespace nfsrdma;
using aux::RecordReader;

namespace {

struct Read {
  std::vector<fuzz::Octets> records;
  bool too_large = false;
  friend bool operator==(const Read&, const Read&) = default;
};

Read read(fuzz::ConstOctets input, std::size_t limit, fuzz::Cuts cuts) {
  Read out;
  RecordReader reader(limit);
  std::size_t marks_and_data = 0;
  while (!input.empty()) {
    fuzz::ConstOctets piece = input.first(std::min(cuts.next(), input.size()));
    input = input.subspan(piece.size());
    while (!piece.empty()) {
      const std::size_t before = piece.size();
      const auto found = reader.take(piece);
      FUZZ_CHECK(piece.size() < before);
      marks_and_data += before - piece.size();
      FUZZ_CHECK(reader.record().size() <= limit && reader.record().size() <= marks_and_data);
      if (found == RecordReader::Found::too_large) {
        out.too_large = true;
        return out;
      }
      FUZZ_CHECK(found == RecordReader::Found::record || piece.empty());
      FUZZ_CHECK(found != RecordReader::Found::record || !reader.in_the_middle());
      if (found != RecordReader::Found::record) continue;
      out.records.emplace_back(reader.record().begin(), reader.record().end());
      reader.next();
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 16384);
  const std::size_t limit = script.u16();
  const fuzz::Cuts cuts(script.u8());
  constexpr std::uint8_t kOctetByOctet = 14;  // pieces of at most 2^(14 % 14)
  FUZZ_CHECK(read(script.rest(), limit, cuts) == read(script.rest(), limit, fuzz::Cuts(kOctetByOctet)));
  return 0;
}
