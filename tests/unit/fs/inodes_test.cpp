// The numbers of inodes: whose they are, and how long they are remembered for open_by_handle_at(2).
#include "fs/inodes.h"

#include <cerrno>
#include <string>
#include <vector>

#include "support/mounted.h"
#include "support/virtual_world.h"

namespace nfsrdma {
namespace {

using namespace testing;
using fs::Inodes;

fs::FileHandle handle_number(std::uint32_t number) {
  fs::FileHandle out;
  out.length = 4;
  xdr::store_u32(out.bytes.data(), number);
  return out;
}

}  // namespace

TEST_CASE("F19 inodes: the number of a forgotten file is its own, and remembered") {
  VirtualWorld world;
  async::Loop loop(world);
  Inodes all(loop, handle_number(0));
  const auto number = [&](std::uint32_t file) {
    return all.look_up(handle_number(file), "f", FileType::regular)->id;
  };
  const std::uint64_t first = number(1), second = number(2);
  CHECK(first != second);
  CHECK(all.forget(first, 1));
  CHECK_FALSE(all.find(first));
  CHECK_FALSE(all.find(handle_number(1)));
  CHECK(all.handle_of(first) == handle_number(1));
  CHECK(all.handle_of(second) == handle_number(2));
  CHECK_FALSE(all.handle_of(second + 1));
  CHECK(all.size() == 2);
  CHECK(number(3) == second + 1);
  CHECK(number(1) == first);
  CHECK(all.find(first)->lookups == 1);
  CHECK(all.size() == 4);
}

TEST_CASE("F22 inodes: one goes when the kernel has forgotten each of its lookups") {
  VirtualWorld world;
  async::Loop loop(world);
  Inodes all(loop, handle_number(0));
  std::uint64_t id = 0;
  for (int i = 0; i < 5; ++i) id = all.look_up(handle_number(1), "f", FileType::regular)->id;
  CHECK_FALSE(all.forget(id, 1));
  CHECK_FALSE(all.forget(id, 3));
  REQUIRE(all.find(id));
  CHECK(all.find(id)->lookups == 1);
  CHECK(all.forget(id, 1));
  CHECK_FALSE(all.find(id));
}

TEST_CASE("F22 inodes: the indices of many inodes shrink when these are forgotten") {
  VirtualWorld world;
  async::Loop loop(world);
  Inodes all(loop, handle_number(0));
  constexpr std::uint32_t kMany = 20'000;
  std::vector<std::uint64_t> ids;
  for (std::uint32_t i = 1; i <= kMany; ++i) {
    const auto inode = all.look_up(handle_number(i), "f", FileType::regular);
    all.place(*inode, Inodes::kRoot, "file-" + std::to_string(i));
    ids.push_back(inode->id);
  }
  CHECK(all.buckets() >= 3 * std::size_t{kMany});
  while (ids.size() > 10) {
    REQUIRE(all.forget(ids.back(), 1));
    ids.pop_back();
  }
  CHECK(all.size() == 11);
  CHECK(all.buckets() < kMany);
  // Those that are left are still found by each of the three.
  for (std::uint32_t i = 1; i <= 10; ++i) {
    CHECK(all.find(handle_number(i))->id == ids[i - 1]);
    CHECK(all.at(Inodes::kRoot, "file-" + std::to_string(i)) == all.find(ids[i - 1]));
  }
}

TEST_CASE("F22 inodes: so many forgotten files are remembered and no more, those that went first go first") {
  VirtualWorld world;
  async::Loop loop(world);
  Inodes all(loop, handle_number(0));
  const auto touch = [&](std::uint32_t file) {
    const std::uint64_t id = all.look_up(handle_number(file), "f", FileType::regular)->id;
    all.forget(id, 1);
    return id;
  };
  const std::uint64_t first = touch(1), second = touch(2);
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < Inodes::kMostRemembered - 2; ++i) last = touch(3 + i);
  CHECK(all.handle_of(first));
  CHECK(touch(1) == first);  // the last one now
  last = touch(2'000'000);
  CHECK_FALSE(all.handle_of(second));
  CHECK(all.handle_of(first));
  CHECK(all.handle_of(last));
  CHECK(touch(2) > last);  // it has a new number
  CHECK(all.size() == 1);
}

TEST_CASE("F19 a file is found by its number after it was forgotten, and a directory by what is below it") {
  Scene m;
  m.server.add_file("/a/b/f", "text");
  EngineClient& c = m.connect();
  std::unique_ptr<fs::FileSystem> files = mounted(c, {});
  const auto look_up = [&](std::uint64_t directory, const std::string& name) {
    auto entry = c.run(files->lookup(nullptr, directory, name));
    if (!entry) FAIL(entry.error().text());
    return entry->inode;
  };
  const std::uint64_t a = look_up(Inodes::kRoot, "a"), b = look_up(a, "b"), f = look_up(b, "f");
  for (const std::uint64_t one : {f, b, a}) files->forget(one, 1);
  CHECK(files->holdings().inodes == 1);
  auto again = c.run(files->lookup(nullptr, f, "."));
  REQUIRE(ok(again));
  CHECK(again->inode == f);
  CHECK(again->attributes.size == 4);
  CHECK(again->name_valid.count() == 0);
  CHECK(look_up(b, ".") == b);
  CHECK(look_up(b, "..") == a);
  CHECK(look_up(a, "..") == Inodes::kRoot);
  CHECK(look_up(b, "f") == f);
  CHECK(files->holdings().inodes == 4);
  // What was never given out, and what is not there any more.
  CHECK(errno_of(c.run(files->lookup(nullptr, 999, "."))) == ESTALE);
  CHECK(errno_of(c.run(files->lookup(nullptr, 999, ".."))) == ESTALE);
  files->forget(f, 2);
  m.server.answer(nfs4::OP_PUTFH, nfs4::NFS4ERR_STALE);
  CHECK(errno_of(c.run(files->lookup(nullptr, f, "."))) == ESTALE);
  CHECK(files->holdings().inodes == 3);
  c.end();
  files.reset();
}

}  // namespace nfsrdma
