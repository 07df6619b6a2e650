// The largest Replies of NFSv2's and NFSv3's procedures (RFC 8267 2.6, 3): no legal result is larger than what is provided
// for it, some result is as large, and both find room at the smallest thresholds.
//
// The sizes that are compared come from the codec, which encodes results of random legal contents, on one side, and from
// reply_sizing on the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "reply_sizing/nfs2_reply.h"
#include "reply_sizing/nfs3_reply.h"
#include "reply_sizing/plan.h"
#include "rpcrdma/header.h"
#include "support/random_value.h"

using namespace nfsrdma;
using reply_sizing::ReplySize;
using reply_sizing::ResultSize;
using test::Filler;

namespace {

/// What a listing may hold, for those of nearly nothing, too.
std::uint32_t random_count(Filler& random) {
  return static_cast<std::uint32_t>(random.one_in(4) ? random.below(300) : random.below(9000));
}

// ---- arguments that bound their result; any others will do as they are ----

template <class Args>
void random_args(Filler&, Args&) {}
void random_args(Filler& random, nfs3::READ3args& args) {
  args.count = random_count(random);
}
void random_args(Filler& random, nfs3::READDIR3args& args) {
  args.count = random_count(random);
}
void random_args(Filler& random, nfs3::READDIRPLUS3args& args) {
  args.dircount = random_count(random);
  args.maxcount = random_count(random);
}
void random_args(Filler& random, nfs2::readargs& args) {
  args.count = static_cast<std::uint32_t>(random.below(nfs2::MAXDATA + 1));
}
void random_args(Filler& random, nfs2::readdirargs& args) {
  args.count = random_count(random);
}

// ---- results that are legal for their arguments; with random.largest() the largest ones ----

template <class Args, class Res>
void legal_result(Filler& random, const Args&, Res& res) {
  test::fill(random, res);
  if constexpr (requires { res.tag(); }) {
    if (random.largest() || random.one_in(4)) return;
    res.select(static_cast<std::remove_cvref_t<decltype(res.tag())>>(0));
    res.visit([&](auto& body) { test::fill(random, body); });
  }
}

std::uint64_t length_up_to(Filler& random, std::uint64_t most) {
  return random.largest() ? most : random.below(most + 1);
}

void legal_result(Filler& random, const nfs3::READ3args& args, nfs3::READ3res& res) {
  nfs3::READ3resok& ok = res.emplace<nfs3::NFS3_OK>();
  test::fill(random, ok.file_attributes);
  ok.data.data = random.bytes(length_up_to(random, args.count));
  ok.count = static_cast<nfs3::count3>(ok.data.data.size());
}
void legal_result(Filler& random, const nfs2::readargs& args, nfs2::readres& res) {
  nfs2::readok& ok = res.emplace<nfs2::NFS_OK>();
  test::fill(random, ok.attributes);
  ok.data.data = random.bytes(length_up_to(random, args.count));
}

/// Fills a listing with entries, to the last of `left` octets if it can be done.
template <class Entry>
void fill_listing(Filler& random, std::vector<Entry>& entries, std::uint64_t left) {
  constexpr std::uint64_t kLongest = 255;
  const auto nameless = [&] {
    auto entry = test::filled<Entry>(random);
    entry.name.value.clear();
    return entry;
  };
  const auto size_of = [](const Entry& entry) {
    return 4 + xdr::encoded_size(entry);
  };  // another one follows
  const std::uint64_t least = size_of(nameless());
  while (left >= least && (random.largest() || !random.one_in(20))) {
    Entry entry = nameless();
    const std::uint64_t room = left - std::min(left, size_of(entry));
    std::uint64_t name = std::min(room, random.largest() ? kLongest : random.below(60));
    // What stays behind has to be enough for another entry, or nothing.
    const std::uint64_t rest = room - std::min(room, xdr::padded(name));
    if (random.largest() && rest != 0 && rest < least) name -= std::min(name, least);
    entry.name.value = std::string(name, 'n');
    if (size_of(entry) > left) return;
    left -= size_of(entry);
    entries.push_back(std::move(entry));
  }
}
template <class Ok, class Res>
void legal_listing(Filler& random, std::uint32_t count, Res& res) {
  Ok ok;
  test::fill(random, ok.dir_attributes);
  const std::uint64_t empty = xdr::encoded_size(ok);
  if (count < empty) {
    res.select(nfs3::NFS3ERR_TOOSMALL);
    res.visit([&](auto& body) { test::fill(random, body); });
    return;
  }
  fill_listing(random, ok.entries.value, (count & ~3U) - empty);
  CHECK(xdr::encoded_size(ok) <= count);
  res.template emplace<nfs3::NFS3_OK>() = std::move(ok);
}
void legal_result(Filler& random, const nfs3::READDIR3args& args, nfs3::READDIR3res& res) {
  legal_listing<nfs3::READDIR3resok>(random, args.count, res);
}
void legal_result(Filler& random, const nfs3::READDIRPLUS3args& args, nfs3::READDIRPLUS3res& res) {
  legal_listing<nfs3::READDIRPLUS3resok>(random, args.maxcount, res);
}
void legal_result(Filler& random, const nfs2::readdirargs& args, nfs2::readdirres& res) {
  fill_listing(random, res.emplace<nfs2::NFS_OK>().entries.value, args.count & ~3U);
}

// ---- a Reply beside its estimate ----

struct Trial {
  ReplySize estimate = reply_sizing::begin();
  std::uint64_t inline_size = reply_sizing::kRpcReplyHeader;
  std::uint64_t reduced_size = reply_sizing::kRpcReplyHeader;
  std::uint64_t placed = 0;  ///< of what may travel by itself
};

template <class P>
ResultSize estimate_of(const typename P::Args& args) {
  if constexpr (P::version == nfs2::NFS_V2) {
    return reply_sizing::result2<P>(args);
  } else {
    return reply_sizing::result<P>(args);
  }
}

template <class P>
Trial try_out(Filler& arguments, Filler& results) {
  typename P::Args args{};
  random_args(arguments, args);
  typename P::Res res{};
  legal_result(results, args, res);
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, res);
  Trial trial;
  reply_sizing::grow(trial.estimate, estimate_of<P>(args));
  trial.inline_size += message.unreduced_size();
  trial.reduced_size += message.stream.size();
  for (const xdr::Item& item : message.items) trial.placed += item.data.size();
  return trial;
}

struct Row {
  std::uint32_t version;
  const char* name;
  Trial (*try_out)(Filler&, Filler&);
};
template <class... P>
std::vector<Row> rows_of(std::tuple<P...>*) {
  return {Row{P::version, P::name, &try_out<P>}...};
}
std::vector<Row> all_rows() {
  std::vector<Row> out = rows_of(static_cast<nfs2::proc::All*>(nullptr));
  for (const Row& row : rows_of(static_cast<nfs3::proc::All*>(nullptr))) out.push_back(row);
  return out;
}

/// The Reply has somewhere to go, with the chunks that a Call offers at this threshold.
void check_room(const Trial& trial, std::uint32_t threshold) {
  std::vector<reply_sizing::ResultBound> bounds;
  for (const std::uint64_t length : trial.estimate.eligible_results()) bounds.push_back({length, false, 1});
  const reply_sizing::HeaderSizes header{rpcrdma::kMinHeader, rpcrdma::kWriteChunkHead, rpcrdma::kSegment};
  const auto plan = reply_sizing::plan_reply({trial.estimate.max_inline, trial.estimate.max_reduced, bounds},
                                             threshold, header);
  const std::uint64_t size = plan.write_list ? trial.reduced_size : trial.inline_size;
  const std::uint64_t list = plan.write_list ? reply_sizing::write_list_size(bounds, header) : 0;
  if (plan.reply_chunk != 0) {
    CHECK(size <= plan.reply_chunk);
  } else {
    CHECK(header.least + list + size <= threshold);
  }
}

}  // namespace

TEST_CASE(
    "U17 no Reply to a procedure of NFSv2 or NFSv3 is larger than what is provided, at 1024 bytes too") {
  for (const Row& row : all_rows()) {
    CAPTURE(row.version);
    CAPTURE(row.name);
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      CAPTURE(seed);
      Filler random(seed, seed % 8 == 0 ? 2000 : 40);
      const Trial trial = row.try_out(random, random);
      CHECK(trial.inline_size <= trial.estimate.max_inline);
      CHECK(trial.reduced_size <= trial.estimate.max_reduced);
      CHECK(trial.placed <= (trial.estimate.eligible_count == 0 ? 0 : trial.estimate.eligible[0]));
      for (const std::uint32_t threshold : {1024U, 4096U, 65536U}) check_room(trial, threshold);
    }
  }
}

TEST_CASE("U17 what is provided for a procedure of NFSv2 or NFSv3 is reached by some Reply") {
  for (const Row& row : all_rows()) {
    CAPTURE(row.version);
    CAPTURE(row.name);
    const bool is_listing = std::string(row.name).starts_with("READDIR");
    int reached = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      Filler arguments(seed);
      Filler largest(Filler::Largest{0});
      const Trial trial = row.try_out(arguments, largest);
      const bool is_as_large = trial.inline_size == trial.estimate.max_inline;
      // Listings do not come out even at every count.
      if (!is_listing) CHECK(is_as_large);
      if (!is_listing) CHECK(trial.reduced_size == trial.estimate.max_reduced);
      reached += is_as_large ? 1 : 0;
      for (const std::uint32_t threshold : {1024U, 4096U, 65536U}) check_room(trial, threshold);
    }
    CHECK(reached >= 10);
  }
}
