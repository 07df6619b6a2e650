// What commands on trees stand on, without a server: checksums, names that are none, and what get -r makes here.
#include "cli/local_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/servers.h"
#include "cli/sha256.h"
#include "support/nfs_fixture.h"
#include "support/scratch.h"

namespace nfsrdma {
namespace {

std::string sum_of(const std::string& text, std::size_t piece) {
  cli::Sha256 sum;
  for (std::size_t at = 0; at < text.size(); at += piece)
    sum.add(testing::bytes(text).subspan(at, std::min(piece, text.size() - at)));
  return sum.finish();
}

/// A directory on this machine with the file "f", which has a mode that the usual umask would cut.
struct LocalTree {
  LocalTree() {
    std::ofstream(place / "f") << "old";
    REQUIRE(::chmod((place / "f").c_str(), 0666) == 0);
    auto opened = cli::LocalDirectory::open(scratch.path());
    if (!opened) FAIL(opened.error().text());
    directory = *opened;
  }
  [[nodiscard]] std::string content() const {
    std::ifstream file(place / "f");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] auto names() const {
    return std::distance(std::filesystem::directory_iterator(place), std::filesystem::directory_iterator());
  }

  testing::Scratch scratch{"tree"};
  const std::filesystem::path place = scratch.path();
  cli::LocalDirectory::Ref directory;
};

}  // namespace

TEST_CASE("cli: SHA-256, by the examples of FIPS 180-4 and in pieces of any size") {
  CHECK(sum_of("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sum_of("abc", 3) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  CHECK(sum_of(two, 56) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string million(1'000'000, 'a');
  for (const std::size_t piece : {1U, 63U, 64U, 65U, 1000U, 1'000'000U})
    CHECK(sum_of(million, piece) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  for (std::size_t size = 50; size < 70; ++size) {
    const std::string text = testing::pattern(size);
    CHECK(sum_of(text, 7) == sum_of(text, size));
  }
}

TEST_CASE("cli: what a server lists leads nowhere else") {
  for (const char* name : {"a", ".a", "...", "a..", "-r", " "}) CHECK(cli::is_plain_name(name));
  for (const char* name : {"", ".", "..", "/", "../a", "a/b", "/etc/passwd", "a/"})
    CHECK_FALSE(cli::is_plain_name(name));
  CHECK_FALSE(cli::is_plain_name(std::string_view("a\0b", 3)));
}

TEST_CASE("cli: get -r: a file that is replaced keeps its mode, whatever the umask, and stays until then") {
  LocalTree tree;
  Attributes traits;
  traits.mode = 0640;
  auto file = tree.directory->create("f", traits.mode);
  if (!file) FAIL(file.error().text());
  CHECK(testing::ok(cli::write_all(file->fd.get(), testing::bytes("new"), "f")));
  CHECK(tree.content() == "old");
  CHECK(testing::ok(tree.directory->finish(*file, traits, cli::Keep::nothing)));
  CHECK(tree.content() == "new");
  struct stat facts{};
  REQUIRE(::stat((tree.place / "f").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777U) == 0666);
  CHECK(tree.names() == 1);
}

TEST_CASE("cli: get -r: a symbolic link takes the place of a file, and not of a directory") {
  LocalTree tree;
  CHECK(testing::ok(tree.directory->symlink("nowhere", "f")));
  CHECK(std::filesystem::read_symlink(tree.place / "f").string() == "nowhere");
  CHECK(testing::ok(tree.directory->symlink("elsewhere", "f")));
  CHECK(std::filesystem::read_symlink(tree.place / "f").string() == "elsewhere");
  std::filesystem::create_directory(tree.place / "d");
  CHECK(testing::errno_of(tree.directory->symlink("nowhere", "d")) == EISDIR);
  CHECK(tree.names() == 2);
}

}  // namespace nfsrdma
