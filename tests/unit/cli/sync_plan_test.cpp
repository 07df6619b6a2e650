// What sync decides about each entry.
#include "cli/sync_plan.h"

#include <doctest/doctest.h>

#include <string>

namespace nfsrdma::cli {
namespace {

TreeEntry plan_entry(const std::string& name, FileType type, std::uint64_t size, Time modified,
                     std::uint32_t mode = 0644) {
  TreeEntry out{name, {}};
  out.attributes.type = type;
  out.attributes.size = size;
  out.attributes.modified = modified;
  out.attributes.mode = mode;
  return out;
}

TreeEntry plan_file(std::uint64_t size, Time modified, std::uint32_t mode = 0644) {
  return plan_entry("f", FileType::regular, size, modified, mode);
}

Verdict verdict_of(const TreeEntry& source, const TreeEntry& copy, const SyncRules& rules = {}) {
  return judge(source, &copy.attributes, rules).verdict;
}

}  // namespace

TEST_CASE("sync plan: times are the same as exactly as the coarser side stores them") {
  CHECK(are_same_times({5, 123'456'789}, {5, 123'456'789}));
  CHECK(are_same_times({5, 123'456'789}, {5, 123'456'000}));  // microseconds, NFSv2
  CHECK(are_same_times({5, 123'456'700}, {5, 123'456'789}));  // 100 ns
  CHECK(are_same_times({5, 123'456'789}, {5, 0}));            // seconds
  CHECK_FALSE(are_same_times({5, 123'456'789}, {5, 123'456'788}));
  CHECK_FALSE(are_same_times({5, 2'000}, {5, 1'000}));
  CHECK_FALSE(are_same_times({5, 0}, {6, 0}));
}

TEST_CASE("sync plan: a file is copied if its size or its time differs, later or earlier") {
  const TreeEntry source = plan_file(10, {100, 0});
  CHECK(verdict_of(source, plan_file(10, {100, 0})) == Verdict::unchanged);
  CHECK(verdict_of(source, plan_file(11, {100, 0})) == Verdict::copy);
  CHECK(verdict_of(source, plan_file(10, {101, 0})) == Verdict::copy);
  CHECK(verdict_of(source, plan_file(10, {99, 0})) == Verdict::copy);
  CHECK(std::string(judge(source, nullptr, {}).reason) == "new");
  const TreeEntry other = plan_file(11, {100, 0}, 0600);
  const SyncStep step = judge(source, &other.attributes, {});
  CHECK(std::string(step.reason) == "size");
  CHECK(step.source.kept_mode == 0600);
}

TEST_CASE("sync plan: with --checksum only files of one size are read") {
  SyncRules rules;
  rules.compare = Compare::contents;
  const TreeEntry source = plan_file(10, {100, 0});
  CHECK(verdict_of(source, plan_file(10, {100, 0}), rules) == Verdict::compare_contents);
  CHECK(verdict_of(source, plan_file(10, {7, 0}), rules) == Verdict::compare_contents);
  CHECK(verdict_of(source, plan_file(11, {100, 0}), rules) == Verdict::copy);
}

TEST_CASE("sync plan: --update skips a copy of the same size that is not older, and no other") {
  SyncRules rules;
  rules.compare = Compare::update;
  rules.keep = Keep::nothing;
  const TreeEntry source = plan_file(10, {100, 123'456'789});
  CHECK(verdict_of(source, plan_file(10, {100, 123'456'789}), rules) == Verdict::unchanged);
  CHECK(verdict_of(source, plan_file(10, {200, 0}), rules) == Verdict::unchanged);
  CHECK(verdict_of(source, plan_file(10, {100, 0}), rules) == Verdict::unchanged);  // cut to seconds
  CHECK(verdict_of(source, plan_file(10, {99, 0}), rules) == Verdict::copy);
  CHECK(verdict_of(source, plan_file(9, {200, 0}), rules) == Verdict::copy);  // as a copy that was cut off
}

TEST_CASE("sync plan: a mode alone counts only where modes are kept") {
  SyncRules rules;
  const TreeEntry source = plan_file(10, {100, 0}, 0640), copy = plan_file(10, {100, 0}, 0600);
  CHECK(verdict_of(source, copy, rules) == Verdict::unchanged);
  rules.keep = Keep::everything;
  CHECK(verdict_of(source, copy, rules) == Verdict::set_traits);
}

TEST_CASE("sync plan: types that differ are copied, and what no copy has is left out") {
  const TreeEntry file = plan_file(1, {1, 0}), link = plan_entry("f", FileType::symlink, 1, {1, 0}),
                  directory = plan_entry("f", FileType::directory, 1, {1, 0}),
                  fifo = plan_entry("f", FileType::fifo, 1, {1, 0});
  CHECK(verdict_of(file, directory) == Verdict::copy);
  CHECK(verdict_of(link, file) == Verdict::copy);
  CHECK(verdict_of(link, link) == Verdict::compare_texts);
  CHECK(verdict_of(directory, file) == Verdict::directory);
  CHECK(judge(directory, &file.attributes, {}).is_blocked());
  CHECK_FALSE(judge(directory, &directory.attributes, {}).is_blocked());
  CHECK(verdict_of(fifo, fifo) == Verdict::unsupported);
}

TEST_CASE("sync plan: the destination's further entries are extraneous, by their exact names") {
  const SyncPlan plan =
      make_plan({plan_entry("a", FileType::regular, 1, {1, 0}), plan_entry("\xff", FileType::fifo, 0, {})},
                {plan_entry("A", FileType::regular, 1, {1, 0}),
                 plan_entry("a", FileType::directory, 1, {1, 0}), plan_entry("\xff", FileType::fifo, 0, {})},
                {});
  CHECK(plan.steps.size() == 2);
  REQUIRE(plan.extraneous.size() == 1);
  CHECK(plan.extraneous[0].name == "A");
}

}  // namespace nfsrdma::cli
