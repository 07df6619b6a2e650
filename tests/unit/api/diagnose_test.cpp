// nfsrdma_diagnose, and diagnose() of C++ on it.
#include "nfsrdma/diagnose.h"

#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "support/c_fixture.h"
#include "support/nfs_fixture.h"

namespace nfsrdma {
namespace {

using namespace testing;

std::string url_of(const NfsServer& server, const std::string& path) {
  return "nfs://127.0.0.1:" + std::to_string(server.port()) + path + "?fabric=iwarp&sec=sys";
}

void count_step(void* data, const nfsrdma_finding* finding) {
  auto& steps = *static_cast<std::map<std::string, std::uint32_t>*>(data);
  CHECK(finding->struct_size == sizeof *finding);
  steps.emplace(finding->step, finding->state);
}

}  // namespace

TEST_CASE("c: nfsrdma_diagnose reports each step once, and returns how many failed") {
  NfsServer server;
  server.add_file("/dir/file", "text");
  std::map<std::string, std::uint32_t> steps;
  nfsrdma_diagnosis wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.read = "file";
  wanted.write = 1;
  CHECK(nfsrdma_diagnose(url_of(server, "/dir").c_str(), nullptr, &wanted, count_step, &steps, nullptr) == 0);
  CHECK(steps.size() == 22);
  CHECK(steps.at("write") != NFSRDMA_FINDING_FAILED);
  steps.clear();
  CHECK(nfsrdma_diagnose(url_of(server, "/none").c_str(), nullptr, nullptr, count_step, &steps, nullptr) ==
        1);
  CHECK(steps.at("export") == NFSRDMA_FINDING_FAILED);
  CHECK(steps.at("rights") == NFSRDMA_FINDING_SKIPPED);
  CHECK(steps.at("verdict") == NFSRDMA_FINDING_FAILED);
  CHECK(steps.count("read") == 0);
  CHECK(server.problems() == "");
}

TEST_CASE("c: nfsrdma_diagnose names wrong arguments, and examines nothing") {
  std::map<std::string, std::uint32_t> steps;
  nfsrdma_diagnosis unset{}, later{};
  later.struct_size = sizeof later;
  later.write = 2;
  CFailure report, target, size, unknown;
  CHECK(nfsrdma_diagnose("server:/", nullptr, nullptr, nullptr, nullptr, report) == -1);
  CHECK(nfsrdma_diagnose("nonsense", nullptr, nullptr, count_step, &steps, target) == -1);
  CHECK(nfsrdma_diagnose("server:/", nullptr, &unset, count_step, &steps, size) == -1);
  CHECK(nfsrdma_diagnose("server:/", nullptr, &later, count_step, &steps, unknown) == -1);
  for (const CFailure* one : {&report, &target, &size, &unknown}) CHECK(one->number() == EINVAL);
  CHECK(steps.empty());
}

TEST_CASE("api: diagnose() returns what it reports, and an interruption ends it") {
  NfsServer server;
  server.add_directory("/dir");
  const auto target = parse_target(url_of(server, "/dir"));
  REQUIRE(ok(target));
  std::size_t reported = 0;
  const auto findings = diagnose(*target, {}, [&](const Finding&) { ++reported; });
  REQUIRE(ok(findings));
  CHECK(findings->size() == reported);
  CHECK(findings->back().step == "verdict");
  CHECK(findings->front().facts.front() == std::pair<std::string, std::string>("addresses", "127.0.0.1"));
  const Interrupt interrupt;
  interrupt.set();
  const auto ended = diagnose(*target, {}, nullptr, interrupt.fd());
  REQUIRE_FALSE(ended);
  CHECK(ended.error().kind() == ErrorKind::cancelled);
}

}  // namespace nfsrdma
