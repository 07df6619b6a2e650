// Identities, and how AUTH_SYS says them.
#include "security/sys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "xdr/decoder.h"

namespace nfsrdma::security {
namespace {

Caller user(std::uint32_t uid, std::uint32_t gid, std::size_t groups) {
  auto out = std::make_shared<Identity>();
  out->uid = uid;
  out->gid = gid;
  out->groups.resize(groups);
  std::iota(out->groups.begin(), out->groups.end(), 500);
  return out;
}

bool same(const rpc::Credential& credential, const rpc::Credential& other) {
  return std::ranges::equal(credential.encoded(), other.encoded());
}

}  // namespace

TEST_CASE("security: AUTH_SYS says who asks, or who set the client up") {
  Identity own;
  own.uid = 7;
  Sys sys("host", own);
  CHECK(same(sys.credential(nullptr), rpc::Credential::sys("host", 7, 0, {})));
  const auto one = user(1, 2, 3);
  const std::vector<std::uint32_t> groups{500, 501, 502};
  CHECK(same(sys.credential(one), rpc::Credential::sys("host", 1, 2, groups)));
  CHECK(same(sys.credential(user(2, 2, 0)), rpc::Credential::sys("host", 2, 2, {})));
  CHECK(same(sys.credential(one), rpc::Credential::sys("host", 1, 2, groups)));
  CHECK(same(sys.credential(nullptr), rpc::Credential::sys("host", 7, 0, {})));
}

TEST_CASE("security: the same numbers are the same user, whoever brings them") {
  CHECK(*user(1, 2, 3) == *user(1, 2, 3));
  CHECK(*user(1, 2, 3) != *user(1, 2, 4));
  CHECK(*user(1, 2, 3) != *user(1, 3, 3));
  Sys sys("host", {});
  const rpc::Credential& first = sys.credential(user(1, 2, 3));
  CHECK(&first == &sys.credential(user(1, 2, 3)));
  CHECK(&first != &sys.credential(user(1, 2, 4)));
}

TEST_CASE("security: more than 16 groups are said to be too many, once for each user") {
  std::vector<std::string> notices;
  Sys sys("host", {}, [&](const std::string& text) { notices.push_back(text); });
  const auto most = user(1, 2, 16);
  CHECK(same(sys.credential(most), rpc::Credential::sys("host", 1, 2, most->groups)));
  CHECK(notices.empty());
  const auto many = user(1, 2, 40);
  CHECK(same(sys.credential(many), rpc::Credential::sys("host", 1, 2, most->groups)));
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].find("user 1 is in 40 groups") != std::string::npos);
  CHECK(notices[0].find("manage-gids") != std::string::npos);
  (void)sys.credential(user(1, 2, 41));
  CHECK(notices.size() == 1);
  (void)sys.credential(user(3, 2, 41));
  CHECK(notices.size() == 2);
}

TEST_CASE("security: many users cost bounded memory, and each has his own credential") {
  Sys sys("host", {});
  for (std::uint32_t round = 0; round < 2; ++round) {
    for (std::uint32_t uid = 0; uid < 2500; ++uid) {
      const bool right = same(sys.credential(user(uid, 1, 0)), rpc::Credential::sys("host", uid, 1, {}));
      if (!right) FAIL(uid);
    }
  }
}

TEST_CASE("security: a caller's address says nothing about the next one's") {
  Sys sys("host", {});
  for (std::uint32_t uid = 0; uid < 100; ++uid) {
    // Freed, and made again, mostly where the one before was.
    const auto caller = user(uid, 1, 0);
    if (!same(sys.credential(caller), rpc::Credential::sys("host", uid, 1, {}))) FAIL(uid);
  }
}

}  // namespace nfsrdma::security
