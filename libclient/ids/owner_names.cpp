#include "ids/owner_names.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "async/helper.h"
#include "ids/system_names.h"

namespace nfsrdma::ids {
namespace {

constexpr async::Clock::duration kPatience = std::chrono::seconds(3);

std::optional<OwnerNames> look_up(const SetAttributes& changes) {
  const std::string domain = "@" + local_nfs_domain();
  const auto name_of = [&](Kind kind, std::uint32_t id, std::optional<std::string>& out) {
    const auto name = system_name_of(kind, id);
    if (name) out = *name + domain;
    return name.has_value();
  };
  OwnerNames out;
  if (changes.uid && !name_of(Kind::user, *changes.uid, out.user)) return std::nullopt;
  if (changes.gid && !name_of(Kind::group, *changes.gid, out.group)) return std::nullopt;
  return out;
}

}  // namespace

async::Task<std::optional<OwnerNames>> owner_names(async::Loop& loop, SetAttributes changes,
                                                   async::TimePoint deadline) {
  using Names = std::optional<OwnerNames>;
  const std::function<Names()> work = [changes] { return look_up(changes); };
  auto found = co_await async::on_helper<Names>(loop, std::min(deadline, loop.now() + kPatience), work);
  if (!found) co_return std::nullopt;
  co_return std::move(*found);
}

}  // namespace nfsrdma::ids
