// Every type of arguments: what is encoded is what is decoded; truncated or garbled, it is a fault.
#include <doctest/doctest.h>

#include "unit/wire/nfs4/round_trip.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using test::AnyValue;

namespace {

constexpr std::uint64_t kSeeds = 40;

xdr::Message message_of(const AnyValue& value) {
  xdr::Message message;
  xdr::Encoder out(message);
  value.encode(out);
  return message;
}

void round_trip(const AnyValue& value) {
  const xdr::Message message = message_of(value);
  const auto wire = test::flatten(message);
  CHECK(wire.size() == value.size());
  CHECK(wire.size() == message.unreduced_size());
  CHECK(wire.size() >= value.bounds().min);
  CHECK(wire.size() <= value.bounds().max);

  xdr::Decoder in(wire);
  const auto back = value.another();
  CHECK(back->decode(in));
  CHECK(in.finish());
  CHECK(value.same(*back));
  CHECK(test::flatten(message_of(*back)) == wire);
}

/// Any prefix of a value is truncated; nothing is read behind its end.
void truncations(const AnyValue& value) {
  const auto wire = test::flatten(message_of(value));
  const std::size_t step = 1 + wire.size() / 64;
  for (std::size_t length = 0; length < wire.size(); length += step) {
    const std::vector<std::byte> part(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(length));
    xdr::Decoder in(part);
    CHECK_FALSE(value.another()->decode(in));
    CHECK(in.fault() == xdr::Fault::truncated);
  }
}

/// Garbage gives a fault or a value, nothing else.
void garbage(const AnyValue& type, test::Filler& random) {
  xdr::Decoder in(random.bytes(random.below(80) * 4));
  const auto value = type.another();
  if (value->decode(in)) CHECK(value->size() <= 80 * 4);
}

template <class... Op>
void exercise_args(std::tuple<Op...>*) {
  (test::check_codec(Op::name, test::ValueOf<typename Op::Args>()), ...);
}
}  // namespace

void test::check_codec(const char* name, AnyValue&& value) {
  CAPTURE(name);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Filler random(seed);
    value.fill(random);
    round_trip(value);
    truncations(value);
    garbage(value, random);
  }
}

TEST_CASE("nfs4 types: arguments survive encoding and decoding") {
  exercise_args(static_cast<op::All*>(nullptr));
}
