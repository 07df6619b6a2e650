// The upper layer binding of NFS (RFC 8267 3 and 4): where in a Reply the DDP-eligible items are.
#include <algorithm>
#include <memory>
#include <tuple>

#include "bridge/reduce.h"
#include "rpc/message.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::bridge {
namespace {

using namespace nfs4;

constexpr std::uint32_t kProcReadlink = 5, kProcRead = 6;  // RFC 1094 2.2, RFC 1813 3.3: the same numbers
constexpr std::uint32_t kProcCompound = 1;                 // RFC 8881 16.2
constexpr std::size_t kFattr2 = 17 * 4;                    // RFC 1094 2.3.5
constexpr std::size_t kFattr3 = 84;                        // RFC 1813 2.3.5

/// A Reply being walked through.
struct Walk {
  ConstBytes reply;
  xdr::Decoder in;
  std::vector<Eligible> found;

  void item(ConstBytes data) {
    found.push_back({true, static_cast<std::size_t>(data.data() - reply.data()), data.size()});
  }
  void no_item() { found.emplace_back(); }
  bool opaque_item() {
    ConstBytes data;
    if (!in.opaque(xdr::kNoCap, data)) return false;
    item(data);
    return true;
  }
  bool skip(std::size_t length) {
    ConstBytes passed;
    return in.view(length, passed);
  }
};

/// RFC 1094 2.2.5 and 2.2.7.
void walk_v2(Walk& walk, std::uint32_t procedure) {
  std::uint32_t status = 0;
  if (!walk.in.u32(status)) return;
  if (status != 0) return walk.no_item();
  if (procedure == kProcRead && !walk.skip(kFattr2)) return;
  walk.opaque_item();
}

/// RFC 1813 3.3.5 and 3.3.6.
void walk_v3(Walk& walk, std::uint32_t procedure) {
  std::uint32_t status = 0, count = 0;
  bool attributes = false, eof = false;
  if (!walk.in.u32(status)) return;
  if (status != 0) return walk.no_item();
  if (!xdr::decode(walk.in, attributes) || (attributes && !walk.skip(kFattr3))) return;
  if (procedure == kProcRead && (!walk.in.u32(count) || !xdr::decode(walk.in, eof))) return;
  walk.opaque_item();
}

// ---- version 4: one result after the other ----

void note(Walk& walk, const READ4res& res) {
  const auto* good = res.get<NFS4_OK>();
  if (good != nullptr)
    walk.item(good->data.data);
  else
    walk.no_item();
}
void note(Walk& walk, const READLINK4res& res) {
  const auto* good = res.get<NFS4_OK>();
  if (good != nullptr)
    walk.item(good->link.data);
  else
    walk.no_item();
}
/// RFC 8267 4.1.1: the chunk belongs to the first element that has data.
void note(Walk& walk, const READ_PLUS4res& res) {
  if (const auto* good = res.get<NFS4_OK>()) {
    for (const read_plus_content& one : good->rpr_contents.value) {
      if (const auto* data = one.get<NFS4_CONTENT_DATA>()) return walk.item(data->d_data.data);
    }
  }
  walk.no_item();
}
template <class Res>
void note(Walk&, const Res&) {}

template <class Op>
bool pass(Walk& walk) {
  // On the heap: on the stack g++ 12 with sanitizers takes arms of the union for uninitialised.
  const auto res = std::make_unique<typename Op::Res>();
  if (!xdr::decode(walk.in, *res)) return false;
  note(walk, *res);
  return true;
}

using Pass = bool (*)(Walk&);
struct Row {
  std::uint32_t number;
  Pass pass;
};
template <class... Op>
constexpr std::array<Row, sizeof...(Op)> rows(std::tuple<Op...>*) {
  return {Row{Op::number, &pass<Op>}...};
}
constexpr auto kRows = rows(static_cast<op::All*>(nullptr));

/// Up to the result of the operation `last`, which is not passed: true if there is one.
bool walk_v4(Walk& walk, std::size_t most, std::optional<nfs_opnum4> last = {}) {
  COMPOUND4res_head head;
  if (!xdr::decode(walk.in, head)) return false;
  for (std::uint32_t i = 0; i < head.resarray_count && walk.found.size() < most; ++i) {
    std::uint32_t number = 0;
    if (!walk.in.u32(number)) return false;
    if (last && number == *last) return true;
    const auto* row = std::ranges::find(kRows, number, &Row::number);
    if (row == kRows.end() || !row->pass(walk)) return false;
  }
  return false;
}

}  // namespace

std::optional<std::size_t> find_read_plus(const Route& route, ConstBytes reply) {
  const bool is_compound =
      route.program == rpc::kNfsProgram && route.version == 4 && route.procedure == kProcCompound;
  if (!is_compound || !route.may_reduce) return std::nullopt;
  Walk walk{reply, xdr::Decoder(reply), {}};
  if (rpc::read_reply(walk.in).refusal != rpc::Refusal::none) return std::nullopt;
  const bool found = walk_v4(walk, ~std::size_t{0}, OP_READ_PLUS);
  return found ? std::optional(reply.size() - walk.in.remaining()) : std::nullopt;
}

std::vector<Eligible> find_eligible(const Route& route, ConstBytes reply, std::size_t most) {
  if (most == 0 || !route.may_reduce || route.program != rpc::kNfsProgram) return {};
  Walk walk{reply, xdr::Decoder(reply), {}};
  if (rpc::read_reply(walk.in).refusal != rpc::Refusal::none) return {};
  const bool one_item = route.procedure == kProcReadlink || route.procedure == kProcRead;
  if (route.version == 2 && one_item) walk_v2(walk, route.procedure);
  if (route.version == 3 && one_item) walk_v3(walk, route.procedure);
  if (route.version == 4 && route.procedure == kProcCompound) (void)walk_v4(walk, most);
  return std::move(walk.found);
}

}  // namespace nfsrdma::bridge
