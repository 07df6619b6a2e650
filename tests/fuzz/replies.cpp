// Every XDR type of NFS and of the programs beside it that comes from a peer, the RPC header in front, and the
// readers that walk them.
//
// Input: what it is (Kind), an operation's number, how results are placed, how much was placed; then the XDR.
// A number stands for a typed operation; another one is taken modulo.
//
// Checked: what decodes has the size that encoded_size() says, within its type's bounds, and its encoding
// decodes to the same value; the decoder used as many bytes as that; nothing is written beside the memory for
// results.
#include <algorithm>
#include <array>
#include <string>

#include "async/loop.h"
#include "aux/programs.h"
#include "fuzz.h"
#include "nfs4/compound/compound.h"
#include "rpc/message.h"
#include "support/random_value.h"
#include "wire/nfs2/acl.h"
#include "wire/nfs3/acl.h"
#include "wire/nfs3/procedures.h"
#include "wire/nfs4/attributes.h"
#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

namespace {

enum Kind : unsigned {
  result,
  arguments,
  rpc_header,
  compound_reply,
  compound_call,
  readdir,
  attributes,
  changes,
  taken,
  result_v3,
  result_beside,
  kinds
};
enum PlacementFlags : unsigned {
  placement = 1,
  offered = 2,
  filled = 4,
  small = 8,
  no_memory = 16,
  two = 32
};

constexpr std::size_t kGuard = 32;
constexpr std::byte kGuardByte{0xa5};
constexpr std::size_t kRoom = 4096;

/// Where DDP-eligible results go, as the script says.
class Results {
 public:
  Results(unsigned flags, std::uint32_t placed) : memory_(kRoom + 2 * kGuard, kGuardByte) {
    if ((flags & placement) == 0) return;
    const std::size_t size = (flags & no_memory) != 0 ? 0 : (flags & small) != 0 ? 60 : kRoom;
    end_ = kGuard + size;
    const bool has_chunk = (flags & offered) != 0 && size != 0;
    list_.push_back({xdr::Bytes(memory_).subspan(kGuard, size), has_chunk,
                     has_chunk && (flags & filled) != 0 ? placed : 0});
    if ((flags & two) != 0) list_.push_back({});
  }
  [[nodiscard]] const std::vector<xdr::Placement>& list() const { return list_; }
  void check() const {
    const auto is_guard = [](std::byte b) { return b == kGuardByte; };
    FUZZ_CHECK(std::ranges::all_of(std::span(memory_).first(kGuard), is_guard));
    FUZZ_CHECK(std::ranges::all_of(std::span(memory_).subspan(end_), is_guard));
  }

 private:
  fuzz::Octets memory_;
  std::size_t end_ = kGuard;
  std::vector<xdr::Placement> list_;
};

/// What `in` has in front of it, decoded as a T that came from `size` bytes.
template <class T>
void check_value(const T& value, std::size_t used, bool something_placed) {
  const std::uint64_t size = xdr::encoded_size(value);
  FUZZ_CHECK(size >= xdr::bounds<T>.min && size <= xdr::bounds<T>.max);
  FUZZ_CHECK(something_placed ? used <= size : used == size);

  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, value);
  FUZZ_CHECK(message.unreduced_size() == size && message.stream.size() <= xdr::bounds<T>.max_reduced);
  const fuzz::Octets flat = test::flatten(message);
  FUZZ_CHECK(flat.size() == size);
  xdr::Decoder again(flat);
  T second{};
  FUZZ_CHECK(xdr::decode(again, second) && again.finish());
  FUZZ_CHECK(test::same(value, second));
  // Cut short, it does not decode.
  if (size != 0) {
    xdr::Decoder cut(fuzz::ConstOctets(flat).first(flat.size() - 1));
    T third{};
    FUZZ_CHECK(!xdr::decode(cut, third) && cut.fault() != xdr::Fault::none);
  }
}

template <class T>
void check_type(fuzz::ConstOctets bytes, const Results& results) {
  xdr::Decoder in(bytes, results.list());
  T value{};
  const bool good = xdr::decode(in, value);
  FUZZ_CHECK(good == in.ok());
  if (!good) {
    FUZZ_CHECK(in.remaining() == 0);  // a fault sticks
    return;
  }
  const std::size_t used = bytes.size() - in.remaining();
  const bool placed = !results.list().empty() && results.list()[0].placed != 0;
  check_value(value, used, placed);
  static_cast<void>(in.finish());
}

struct Row {
  nfs_opnum4 number;
  void (*check_result)(fuzz::ConstOctets, const Results&);
  void (*check_arguments)(fuzz::ConstOctets, const Results&);
  bool (*next_result)(xdr::Decoder&);
  bool (*next_arguments)(xdr::Decoder&);
  bool (*take)(CompoundReply&);
};
template <class Op>
bool next_result(xdr::Decoder& in) {
  typename Op::Res value{};
  if (!decode_op<Op>(in, value)) return false;
  static_cast<void>(status_of(value));
  // From the reader's point of view placed and inline are the same.
  static_cast<void>(test::encoded(value));
  return true;
}
template <class Op>
bool next_arguments(xdr::Decoder& in) {
  typename Op::Args value{};
  std::uint32_t number = 0;
  if (!in.u32(number) || !xdr::decode(in, value)) return false;
  xdr::Message message;
  xdr::Encoder out(message);
  encode_op<Op>(out, value);
  FUZZ_CHECK(message.unreduced_size() == 4 + xdr::encoded_size(value));
  return true;
}
template <class... Op>
constexpr auto rows(std::tuple<Op...>*) {
  return std::array{Row{Op::number, check_type<typename Op::Res>, check_type<typename Op::Args>,
                        next_result<Op>, next_arguments<Op>,
                        [](CompoundReply& reply) { return reply.take<Op>(); }}...};
}
constexpr auto kRows = rows(static_cast<op::All*>(nullptr));

const Row* find_row(std::uint32_t number) {
  const auto found =
      std::ranges::find(kRows, number, [](const Row& row) { return std::uint32_t{row.number}; });
  return found == kRows.end() ? nullptr : found;
}
const Row& row_of(std::uint32_t number) {
  const Row* row = find_row(number);
  return row != nullptr ? *row : kRows[number % kRows.size()];
}

using Check = void (*)(fuzz::ConstOctets, const Results&);
template <class... P>
constexpr auto results_of(std::tuple<P...>*) {
  return std::array<Check, sizeof...(P)>{check_type<typename P::Res>...};
}
constexpr auto kResultsV3 = results_of(static_cast<nfs3::proc::All*>(nullptr));
constexpr auto kResultsBeside =
    results_of(static_cast<std::tuple<aux::PMAP_GETPORT, aux::RPCB4_DUMP, aux::MNT3, aux::DUMP3, aux::EXPORT3,
                                      nfs3::proc::GETACL, nfs3::proc::SETACL, nfs2::proc::GETACL>*>(nullptr));

template <class Head>
void check_compound(fuzz::ConstOctets bytes, const Results& results, bool (*Row::*next)(xdr::Decoder&)) {
  xdr::Decoder in(bytes, results.list());
  Head head;
  if (!xdr::decode(in, head)) return;
  check_value(head, bytes.size() - in.remaining(), false);
  // Every operation takes four bytes at least, so that this ends.
  while (in.ok() && in.remaining() >= 4) {
    const Row* row = find_row(xdr::load_u32(bytes.data() + (bytes.size() - in.remaining())));
    if (row == nullptr) return;
    const std::size_t before = in.remaining();
    if (!(row->*next)(in)) FUZZ_CHECK(!in.ok());
    FUZZ_CHECK(in.remaining() < before);
  }
  static_cast<void>(in.finish());
}

void check_readdir(fuzz::ConstOctets bytes) {
  xdr::Decoder in(bytes);
  READDIR4res value;
  if (!xdr::decode(in, value)) {
    FUZZ_CHECK(!in.ok());
    return;
  }
  const READDIR4resok* list = value.get<NFS4_OK>();
  if (list == nullptr) return;
  for (const entry4& entry : list->reply.entries.value) {
    WireAttributes attributes;
    (void)decode_attributes(entry.attrs, attributes);
  }
}

void check_attributes(fuzz::ConstOctets bytes) {
  xdr::Decoder in(bytes);
  WireAttributes values;
  if (!decode_attributes(in, values)) {
    FUZZ_CHECK(!in.ok());
    return;
  }
  xdr::Decoder raw(bytes);
  fattr4 attributes;
  FUZZ_CHECK(xdr::decode(raw, attributes) && raw.remaining() == in.remaining());
  FUZZ_CHECK(attributes.attr_vals.value.size() <= max_attr_size(attributes.attrmask));
  // Everything that was said can be said again.
  const fattr4 again = encode_attributes(values, attributes.attrmask);
  FUZZ_CHECK(again.attr_vals.value.size() == attributes.attr_vals.value.size());
  WireAttributes second;
  FUZZ_CHECK(decode_attributes(again, second));
  FUZZ_CHECK(test::same(encode_attributes(second, attributes.attrmask), again));
}

void check_changes(fuzz::ConstOctets bytes) {
  xdr::Decoder in(bytes);
  fattr4 attributes;
  WireChanges values;
  if (!xdr::decode(in, attributes) || !decode_changes(attributes, values)) return;
  const fattr4 again = encode_changes(values);
  WireChanges second;
  FUZZ_CHECK(decode_changes(again, second));
  FUZZ_CHECK(test::same(encode_changes(second), again));
}

void check_rpc_header(fuzz::ConstOctets bytes) {
  xdr::Decoder in(bytes);
  const rpc::ReplyHeader header = rpc::read_reply(in);
  if (header.refusal == rpc::Refusal::none) {
    FUZZ_CHECK(in.ok() && bytes.size() - in.remaining() >= rpc::kReplyHeaderSize);
  } else {
    FUZZ_CHECK(!rpc::refusal_error(header, {"NFS", 4}, "operation", "peer").text().empty());
  }
}

/// As the client reads it: the operations that it expects are in front, by their numbers.
void check_taken(fuzz::Script& script, const Results& results) {
  static async::Loop loop;
  static rpc::Channel channel(loop, {}, {});
  std::vector<const Row*> expected(script.u8() % 16);
  for (const Row*& row : expected) row = &row_of(script.u8());
  rpcrdma::Reply reply;
  const fuzz::ConstOctets bytes = script.rest();
  reply.long_reply.reset(new std::byte[bytes.size()]);
  std::ranges::copy(bytes, reply.long_reply.get());
  reply.message = {reply.long_reply.get(), bytes.size()};
  reply.placements.assign(results.list().begin(), results.list().end());
  CompoundReply reader(channel, std::move(reply));
  if (const Status begun = reader.begin(nullptr, "operation", "peer"); !begun) {
    FUZZ_CHECK(!begun.error().text().empty());
    return;
  }
  CompoundReply moved(std::move(reader));
  bool good = true;
  for (const Row* row : expected) {
    const bool now = row->take(moved);
    FUZZ_CHECK(good || !now);  // nothing is taken behind a failure
    good = now;
  }
  if (good && moved.finish()) FUZZ_CHECK(moved.fault() == xdr::Fault::none);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size, 8192);
  const unsigned kind = script.u8() % kinds;
  const std::uint8_t number = script.u8();
  const std::uint8_t flags = script.u8();
  const Results results(flags, script.u16());
  switch (kind) {
    case result:
      row_of(number).check_result(script.rest(), results);
      break;
    case arguments:
      row_of(number).check_arguments(script.rest(), results);
      break;
    case rpc_header:
      check_rpc_header(script.rest());
      break;
    case compound_reply:
      check_compound<COMPOUND4res_head>(script.rest(), results, &Row::next_result);
      break;
    case compound_call:
      check_compound<COMPOUND4args_head>(script.rest(), results, &Row::next_arguments);
      break;
    case readdir:
      check_readdir(script.rest());
      break;
    case attributes:
      check_attributes(script.rest());
      break;
    case changes:
      check_changes(script.rest());
      break;
    case taken:
      check_taken(script, results);
      break;
    case result_v3:
      kResultsV3[number % kResultsV3.size()](script.rest(), results);
      break;
    case result_beside:
      kResultsBeside[number % kResultsBeside.size()](script.rest(), results);
      break;
  }
  results.check();
  return 0;
}
