// How much memory the pages of open directories take, and that a directory which has lost its page goes on.
#include "fs/directory_pages.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <set>
#include <string>
#include <vector>

#include "support/plain_fixture.h"

namespace nfsrdma::fs {
namespace {

using nfsrdma::fs::plain::Plain;

constexpr std::size_t kNames = 900;

/// A root with names that take some memory.
struct Directories : Plain {
  Directories() {
    engine->tells = true;
    for (std::size_t i = 0; i < kNames; ++i) {
      const std::uint64_t id = i + 2;
      engine->nodes[id];
      engine->nodes.at(1).names.emplace(std::to_string(i) + std::string(200, 'n'), id);
    }
    // Of one page.
    const auto one = open(1);
    size = held();
    REQUIRE(size > kNames * 200);
  }
  std::shared_ptr<DirectoryHandle> open(std::uint32_t uid) {
    auto who = std::make_shared<security::Identity>();
    who->uid = uid;
    return get(files->open_directory(std::move(who), Inodes::kRoot, O_DIRECTORY));
  }
  [[nodiscard]] std::size_t held() const { return files->holdings().bytes_listed; }
  std::set<std::string> names(const std::shared_ptr<DirectoryHandle>& directory, std::uint64_t cookie = 0) {
    std::set<std::string> out;
    for (;;) {
      const auto page = get(files->list(directory, cookie));
      if (page.empty()) return out;
      for (const Listed& one : page) out.insert(one.name);
      cookie = page.back().cookie;
    }
  }
  std::size_t size = 0;
};

}  // namespace

TEST_CASE("F29 directories that are open hold no more than the bytes of their user") {
  Directories d;
  CHECK(d.held() == 0);  // the last one is closed
  const std::size_t many = 2 * DirectoryPages::kMostOfUser / d.size;
  std::vector<std::shared_ptr<DirectoryHandle>> open;
  for (std::size_t i = 0; i < many; ++i) open.push_back(d.open(1));
  CHECK(d.held() <= DirectoryPages::kMostOfUser);
  CHECK(d.held() > DirectoryPages::kMostOfUser - d.size);
  // What another has does not go for it.
  d.take_calls();
  const auto other = d.open(2);
  const std::size_t before = d.held();
  open.push_back(d.open(1));
  CHECK(d.held() == before);
  d.take_calls();
  CHECK(d.names(other).size() == kNames);
  CHECK(d.take_calls().find("list") == std::string::npos);
  // Who has lost his page is told everything all the same.
  CHECK(d.names(open.front()).size() == kNames);
  CHECK(d.take_calls().find("list") != std::string::npos);
  open.clear();
  CHECK(d.held() == d.size);
}

TEST_CASE("F29 directories that are open hold no more than the bytes of all users") {
  Directories d;
  const std::size_t of_one = DirectoryPages::kMostOfUser / d.size - 1;
  std::vector<std::shared_ptr<DirectoryHandle>> open;
  for (std::uint32_t user = 1; user <= 6; ++user)
    for (std::size_t i = 0; i < of_one; ++i) open.push_back(d.open(user));
  CHECK(d.held() <= DirectoryPages::kMost);
  CHECK(d.held() > DirectoryPages::kMost - d.size);
  CHECK(d.names(open.front()).size() == kNames);
}

TEST_CASE("F8 a directory that has lost its page goes on where it was, with the verifier of its listing") {
  Directories d;
  d.engine->page_size = 400;
  const auto directory = d.open(1);
  const auto first = d.get(d.files->list(directory, 0));
  const std::uint64_t middle = first[99].cookie;
  std::set<std::string> begun;
  for (std::size_t i = 0; i < 100; ++i) begun.insert(first[i].name);
  std::vector<std::shared_ptr<DirectoryHandle>> others;
  d.engine->page_size = 1000;
  while (!directory->read->page.entries.empty()) {
    others.push_back(d.open(1));
    REQUIRE(others.size() * d.size <= 2 * DirectoryPages::kMostOfUser);
  }
  // The names are there as long as somebody holds them.
  CHECK(first.front().name.size() > 200);
  CHECK(d.files->entry_of(*directory, first.front()).inode != 0);
  d.engine->page_size = 400;
  const auto rest = d.names(directory, middle);
  CHECK(rest.size() == kNames - 100);
  for (const std::string& name : begun) CHECK_FALSE(rest.contains(name));
}

}  // namespace nfsrdma::fs
