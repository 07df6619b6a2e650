// Rows U3, U6, U9: no legal Reply is larger than the estimate, and some Reply is as large, inline and
// reduced.
//
// Replies are built by encoding results of random legal contents, so the sizes that are compared come from
// the codec on one side and from reply_sizing's rules on the other.
#include "reply_sizing/nfs4_reply.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/random_value.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;
using reply_sizing::ReplySize;
using test::Filler;

namespace {

/// Which of the two sizes a largest result is to reach; only READ_PLUS has a different result for each.
enum class Goal { inline_size, reduced_size };

// ---- arguments that bound their result; any others will do as they are ----

template <class Args>
void random_args(Filler&, Args&) {}
void random_args(Filler& random, READ4args& args) {
  args.count = static_cast<count4>(random.below(3000));
}
void random_args(Filler& random, READ_PLUS4args& args) {
  args.rpa_count = static_cast<count4>(random.below(300));
}
void random_args(Filler& random, READDIR4args& args) {
  args.maxcount = static_cast<count4>(random.below(12000));
}
void random_args(Filler& random, LISTXATTRS4args& args) {
  args.lxa_maxcount = static_cast<count4>(random.below(9000));
}
void random_args(Filler& random, TEST_STATEID4args& args) {
  args.ts_stateids.value.resize(random.below(9));
}
void random_args(Filler& random, GETATTR4args& args) {
  for (std::uint32_t number = 0; number <= FATTR4_XATTR_SUPPORT; ++number) {
    if (has_bit(readable_attributes(), number) && random.one_in(2)) set_bit(args.attr_request, number);
  }
}

// ---- results that are legal for their arguments; with random.largest() the largest ones ----

/// Most results succeed, so that COMPOUNDs get long.
template <class Res>
bool fails(Filler& random, Res& res) {
  if (random.largest() || !random.one_in(6)) return false;
  set_status(res, NFS4ERR_DELAY);
  return true;
}

template <class Args, class Res>
void legal_result(Filler& random, const Args&, Res& res, Goal) {
  test::fill(random, res);
  if constexpr (requires { res.tag(); }) {
    if (random.largest() || random.one_in(4)) return;
    res.select(NFS4_OK);
    res.visit([&](auto& body) { test::fill(random, body); });
  } else if (random.largest() || !random.one_in(6)) {
    boost::pfr::get<0>(res) = NFS4_OK;
  }
}

void legal_result(Filler& random, const READ4args& args, READ4res& res, Goal) {
  if (fails(random, res)) return;
  const std::uint64_t length = random.largest() ? args.count : random.below(args.count + 1ULL);
  res.emplace<NFS4_OK>() = {random.one_in(2), {random.bytes(length)}};
}

void legal_result(Filler& random, const READ_PLUS4args& args, READ_PLUS4res& res, Goal goal) {
  if (fails(random, res)) return;
  auto& contents = res.emplace<NFS4_OK>().rpr_contents.value;
  const auto data = [&](std::uint64_t length) {
    contents.push_back(read_plus_content::of<NFS4_CONTENT_DATA>(data4{0, {random.bytes(length)}}));
  };
  const auto hole = [&](std::uint64_t length) {
    contents.push_back(read_plus_content::of<NFS4_CONTENT_HOLE>(data_info4{0, length}));
  };
  std::uint64_t left = args.rpa_count;
  if (random.largest()) {
    if (left == 0) return hole(1), hole(1);
    if (goal == Goal::inline_size) return hole(1), data(left);
    if (left <= 4) return hole(1), hole(1);
    return data(0), data(left);
  }
  for (std::uint64_t i = random.below(kReadPlusElements + 1); i > 0; --i) {
    if (random.one_in(3)) {
      hole(random.word());
    } else {
      const std::uint64_t length = random.below(left + 1);
      data(length);
      left -= length;
    }
  }
}

/// Fills READDIR's maxcount with entries without attributes, to the last byte if it can be done.
void legal_result(Filler& random, const READDIR4args& args, READDIR4res& res, Goal) {
  constexpr std::uint64_t kEmpty = 8 + 4 + 4;
  constexpr std::uint64_t kEntry = 4 + 8 + 4 + 4 + 4;  // but for the name
  if (args.maxcount < kEmpty) return set_status(res, NFS4ERR_TOOSMALL);
  if (fails(random, res)) return;
  auto& entries = res.emplace<NFS4_OK>().reply.entries.value;
  std::uint64_t left = (args.maxcount & ~3U) - kEmpty;
  while (left >= kEntry && (random.largest() || !random.one_in(20))) {
    std::uint64_t name = std::min(left - kEntry, random.largest() ? kComponentMax : random.below(60));
    // What stays behind has to be enough for another entry, or nothing.
    const std::uint64_t rest = left - kEntry - xdr::padded(name);
    if (random.largest() && rest != 0 && rest < kEntry) name -= kEntry;
    entries.push_back({random.word(), {std::string(name, 'n')}, {}});
    left -= kEntry + xdr::padded(name);
  }
  CHECK(xdr::encoded_size(*res.get<NFS4_OK>()) <= args.maxcount);
}

void legal_result(Filler& random, const LISTXATTRS4args& args, LISTXATTRS4res& res, Goal) {
  constexpr std::uint64_t kEmpty = 8 + 4 + 4;
  if (args.lxa_maxcount < kEmpty) return set_status(res, NFS4ERR_TOOSMALL);
  if (fails(random, res)) return;
  auto& names = res.emplace<NFS4_OK>().lxr_names.value;
  std::uint64_t left = (args.lxa_maxcount & ~3U) - kEmpty;
  while (left >= 4 && (random.largest() || !random.one_in(20))) {
    const std::uint64_t name = std::min(left - 4, random.largest() ? kComponentMax : random.below(60));
    names.push_back({std::string(name, 'x')});
    left -= 4 + xdr::padded(name);
  }
  CHECK(xdr::encoded_size(*res.get<NFS4_OK>()) <= args.lxa_maxcount);
}

void legal_result(Filler& random, const GETATTR4args& args, GETATTR4res& res, Goal) {
  if (fails(random, res)) return;
  const auto attributes = test::filled<WireAttributes>(random);
  auto& fattr = res.emplace<NFS4_OK>().obj_attributes = encode_attributes(attributes, args.attr_request);
  // Words without a bit at the end are legal.
  if (random.largest() || random.one_in(3)) fattr.attrmask.value.resize(kBitmapWords);
}

void legal_result(Filler& random, const TEST_STATEID4args& args, TEST_STATEID4res& res, Goal) {
  if (fails(random, res)) return;
  res.emplace<NFS4_OK>().tsr_status_codes.value.resize(args.ts_stateids.value.size());
}

// ---- a Reply that grows operation by operation, beside its estimate ----

struct Trial {
  ReplySize estimate;
  xdr::Message reply;
  std::uint64_t in_stream = 0;        ///< eligible bytes that no chunk takes: of READ_PLUS's second element
  std::vector<std::uint64_t> placed;  ///< lengths of what a chunk takes, by eligible operation
  bool ended = false;

  explicit Trial(std::uint64_t tag = 0, std::uint64_t verifier = 0)
      : estimate(reply_sizing::start(reply_sizing::kRpcReplyHeader + xdr::padded(verifier), tag)) {
    xdr::Encoder out(reply);
    for (int word = 0; word < 4; ++word) out.u32(0);  // xid, REPLY, MSG_ACCEPTED, the verifier's flavor
    out.opaque(std::vector<std::byte>(verifier));
    out.u32(0);  // SUCCESS
    xdr::encode(out, COMPOUND4res_head{NFS4_OK, {std::string(tag, 't')}, 0});
  }
  [[nodiscard]] std::uint64_t inline_size() const { return reply.unreduced_size(); }
  [[nodiscard]] std::uint64_t reduced_size() const { return reply.stream.size() + in_stream; }
};

/// How much of an operation's data a chunk takes: the first item's; for READ_PLUS the first element with
/// data.
template <class Res>
std::uint64_t first_item(const Res&, std::span<const xdr::Item> items) {
  return items.empty() ? 0 : items[0].data.size();
}
std::uint64_t first_item(const READ_PLUS4res& res, std::span<const xdr::Item>) {
  const auto* ok = res.get<NFS4_OK>();
  if (ok == nullptr) return 0;
  for (const auto& element : ok->rpr_contents.value) {
    if (const auto* data = element.get<NFS4_CONTENT_DATA>()) return data->d_data.data.size();
  }
  return 0;
}

/// Adds the operation to the estimate and a result to the Reply, unless that ended with a failure.
template <class Op>
void add_operation(Filler& arguments, Filler& results, Goal goal, Trial& trial) {
  typename Op::Args args{};
  random_args(arguments, args);
  const std::size_t eligible_before = trial.estimate.eligible_count;
  reply_sizing::add<Op>(trial.estimate, args);
  if (trial.ended) return;
  typename Op::Res res{};
  legal_result(results, args, res, goal);
  const std::size_t items_before = trial.reply.items.size();
  xdr::Encoder out(trial.reply);
  out.u32(Op::number);
  xdr::encode(out, res);
  const auto items = std::span(trial.reply.items).subspan(items_before);
  const std::uint64_t placed = first_item(res, items);
  for (const xdr::Item& item : items) trial.in_stream += xdr::padded(item.data.size());
  if (trial.estimate.eligible_count > eligible_before) {
    trial.placed.push_back(placed);
    trial.in_stream -= xdr::padded(placed);
  }
  trial.ended = status_of(res) != NFS4_OK;
}

struct Operation {
  const char* name;
  void (*add)(Filler&, Filler&, Goal, Trial&);
};
template <class... Op>
constexpr auto operations(std::tuple<Op...>*) {
  return std::array<Operation, sizeof...(Op)>{Operation{Op::name, &add_operation<Op>}...};
}
constexpr auto kAll = operations(static_cast<op::All*>(nullptr));

/// A READDIR of 20 to 39 bytes has room for more than nothing and less than an entry.
bool reachable(const char* name, const Trial& trial) {
  if (std::string_view(name) != "READDIR") return true;
  const std::uint64_t body = trial.estimate.max_inline - reply_sizing::start().max_inline - 8;
  return body <= 16 || body >= 40;
}

}  // namespace

TEST_CASE("U3 reply sizing: no Reply to a random COMPOUND is larger than the estimate") {
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    CAPTURE(seed);
    Filler random(seed, seed % 8 == 0 ? 2000 : 40);
    Trial trial(random.below(kTagMax + 1), random.below(60));
    std::string names;
    for (std::uint64_t count = 1 + random.below(8); count > 0; --count) {
      const Operation& operation = kAll[random.below(kAll.size())];
      names += std::string(operation.name) + " ";
      operation.add(random, random, Goal::inline_size, trial);
    }
    CAPTURE(names);
    CHECK(trial.inline_size() <= trial.estimate.max_inline);
    CHECK(trial.reduced_size() <= trial.estimate.max_reduced);
    REQUIRE(trial.placed.size() <= trial.estimate.eligible_count);
    for (std::size_t i = 0; i < trial.placed.size(); ++i)
      CHECK(trial.placed[i] <= trial.estimate.eligible[i]);
  }
}

TEST_CASE("U3 reply sizing: the estimate of each operation is reached by some Reply, inline and reduced") {
  for (const Operation& operation : kAll) {
    CAPTURE(operation.name);
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      CAPTURE(seed);
      for (const Goal goal : {Goal::inline_size, Goal::reduced_size}) {
        Filler arguments(seed);
        Filler largest(Filler::Largest{0});
        Trial trial;
        operation.add(arguments, largest, goal, trial);
        if (!reachable(operation.name, trial)) continue;
        if (goal == Goal::inline_size) {
          CHECK(trial.inline_size() == trial.estimate.max_inline);
        } else {
          CHECK(trial.reduced_size() == trial.estimate.max_reduced);
        }
      }
    }
  }
}

TEST_CASE(
    "U3 reply sizing: the estimate of a COMPOUND is reached, if no operation but the last is larger "
    "failing") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    for (const Goal goal : {Goal::inline_size, Goal::reduced_size}) {
      Filler arguments(seed);
      Filler largest(Filler::Largest{0});
      Trial trial(seed % (kTagMax + 1), seed);
      for (std::uint64_t count = 1 + arguments.below(6); count > 0 && !trial.ended; --count) {
        const Operation& operation = kAll[arguments.below(kAll.size())];
        if (std::string_view(operation.name) == "READDIR") continue;  // may be unreachable
        operation.add(arguments, largest, goal, trial);
      }
      if (goal == Goal::inline_size) {
        CHECK(trial.inline_size() == trial.estimate.max_inline);
      } else {
        CHECK(trial.reduced_size() == trial.estimate.max_reduced);
      }
    }
  }
}

TEST_CASE("U3 reply sizing: counts at the edges") {
  for (count4 count = 0; count <= 80; ++count) {
    CAPTURE(count);
    for (const Goal goal : {Goal::inline_size, Goal::reduced_size}) {
      READ_PLUS4res plus;
      Filler largest(Filler::Largest{0});
      const READ_PLUS4args plus_args{{}, 0, count};
      legal_result(largest, plus_args, plus, goal);
      const auto size = reply_sizing::result_size<op::READ_PLUS>(plus_args);
      if (goal == Goal::inline_size) CHECK(xdr::encoded_size(plus) == size.max_inline);
      if (goal == Goal::reduced_size) {
        CHECK(xdr::encoded_size(plus) - xdr::padded(first_item(plus, {})) == size.max_reduced);
      }
    }
    Filler largest(Filler::Largest{0});
    READDIR4res dir;
    const READDIR4args dir_args{0, {}, 0, count, {}};
    legal_result(largest, dir_args, dir, Goal::inline_size);
    const std::uint64_t dir_size = reply_sizing::result_size<op::READDIR>(dir_args).max_inline;
    if (count < 20 || count >= 40) CHECK(xdr::encoded_size(dir) == dir_size);
    CHECK(xdr::encoded_size(dir) <= dir_size);
    LISTXATTRS4res names;
    legal_result(largest, LISTXATTRS4args{0, count}, names, Goal::inline_size);
    CHECK(xdr::encoded_size(names) == reply_sizing::result_size<op::LISTXATTRS>({0, count}).max_inline);
  }
  const count4 most = 0xffffffff;
  CHECK(reply_sizing::result_size<op::READ>({{}, 0, most}).max_inline == 12 + 0x100000000);
  CHECK(reply_sizing::result_size<op::READDIR>({0, {}, 0, most, {}}).max_inline == 4 + 0xfffffffcULL);
}

TEST_CASE("U9 reply sizing: ca_maxresponsesize bounds any Reply, also one without a bound of its own") {
  ReplySize size = reply_sizing::start();
  reply_sizing::add<op::GETATTR>(size, {bitmap_of({FATTR4_FS_LOCATIONS})});
  CHECK(size.max_inline == xdr::kUnbounded);
  reply_sizing::add<op::READ>(size, {{}, 0, 100});  // does not wrap
  CHECK(size.max_reduced == xdr::kUnbounded);
  reply_sizing::bound(size, 70000);
  CHECK(size.max_inline == 70000);
  CHECK(size.max_reduced == 70000);
  CHECK(size.eligible_results().size() == 1);

  ReplySize small = reply_sizing::start();
  reply_sizing::bound(small, 70000);
  CHECK(small.max_inline == 36);
}

TEST_CASE("U10 reply sizing: more eligible results than chunks are counted as inline") {
  ReplySize size = reply_sizing::start();
  for (std::size_t i = 0; i < reply_sizing::kMaxEligible + 2; ++i) {
    reply_sizing::add<op::READ>(size, {{}, 0, static_cast<count4>(100 + i)});
  }
  CHECK(size.eligible_results().size() == reply_sizing::kMaxEligible);
  CHECK(size.eligible[3] == 103);
  CHECK(size.max_reduced == 36 + 18 * 16 + xdr::padded(116) + xdr::padded(117));
}

TEST_CASE("reply sizing: a refusal by the RPC layer is smaller than any COMPOUND's Reply") {
  constexpr std::uint64_t kProgMismatch = 6 * 4 + 8;  // with its two versions: the largest of RFC 5531 9
  CHECK(kProgMismatch < reply_sizing::start().max_inline);
}

TEST_CASE("reply sizing: bounds by number") {
  CHECK(reply_sizing::result_bounds(OP_PUTFH).max == 4);
  CHECK(reply_sizing::result_bounds(OP_SEQUENCE).max == 40);
  CHECK(reply_sizing::result_bounds(OP_READLINK).ddp_items == 1);
  CHECK(reply_sizing::result_bounds(OP_READDIR).max == xdr::kUnbounded);
  CHECK(reply_sizing::result_bounds(OP_LAYOUTGET).max == xdr::kUnbounded);
  CHECK(reply_sizing::result_bounds(OP_ILLEGAL).max == xdr::kUnbounded);
}
