// Reading the statistics of mounts: which there are, and one that hangs.
#include "cli/mount_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support/cli_shell.h"

namespace nfsrdma::cli {
using namespace nfsrdma::testing;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

MountReading read_now(MountReader& reader, milliseconds most = milliseconds(60000)) {
  reader.begin();
  return reader.wait(Clock::now() + most, -1);
}

}  // namespace

TEST_CASE("top: the mounts of this machine are those of the kernel's list") {
  const std::vector<std::string> found = nfsrdma_mounts(
      "20 1 0:20 / / rw - ext4 /dev/sda rw\n"
      "30 20 0:30 / /mnt/a\\040b rw,nosuid shared:1 master:2 - fuse.nfsrdma server:/x rw\n"
      "31 20 0:31 / /mnt/other rw - fuse.sshfs a:/ rw\n"
      "32 20 0:32 / /mnt/a\\040b rw - fuse.nfsrdma server:/y rw\n"
      "malformed\n - fuse.nfsrdma\n"
      "33 20 0:33 / /mnt/c rw - fuse.nfsrdma server:/z rw");
  CHECK(found == std::vector<std::string>{"/mnt/a b", "/mnt/c"});
  CHECK(nfsrdma_mounts("").empty());
}

TEST_CASE("top: a mount without statistics says why") {
  const Place place;
  MountReader reader(place.path());
  CHECK(read_now(reader).trouble.starts_with("no statistics here"));
  place.write(".nfsrdma-stats", "nfsrdma-fuse statistics 9\n");
  CHECK(read_now(reader).trouble == "the statistics are of another version of nfsrdma-fuse");
  place.write(".nfsrdma-stats", "nfsrdma-fuse statistics 1\nage 2.5\n");
  const MountReading good = read_now(reader);
  REQUIRE(good.sample);
  CHECK(good.sample->age == doctest::Approx(2.5));
}

TEST_CASE("top: a mount that hangs has no answer, and is read again once it answers") {
  const Place place;
  const std::string file = place.path(".nfsrdma-stats");
  REQUIRE(::mkfifo(file.c_str(), 0600) ==
          0);  // its open waits for a writer, as that of a mount waits for a server
  MountReader reader(place.path());
  CHECK(read_now(reader, milliseconds(1)).trouble == "no answer");
  CHECK(read_now(reader, milliseconds(0)).trouble == "no answer");
  const int writer = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(writer >= 0);
  constexpr std::string_view text = "nfsrdma-fuse statistics 1\nage 7\n";
  REQUIRE(::write(writer, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(writer);
  const MountReading late = reader.wait(Clock::now() + milliseconds(60000), -1);
  REQUIRE(late.sample);
  CHECK(late.sample->age == doctest::Approx(7));
}

TEST_CASE("top: reports, and wrong options") {
  Shell shell;
  const Place place;
  place.write(".nfsrdma-stats", "nfsrdma-fuse statistics 1\nsource h:/x\nage 2.5\n");
  const std::string text = shell.told({"top", "--once", "-d", "0.001", place.path()});
  CHECK(text.starts_with(place.path() + " (h:/x): up 0:02, 0 of 0 connections"));
  CHECK(shell.told({"top", "--json", "-n", "2", "-d", "0.001", place.path()}).find("\n{\"mountpoint\":\"") !=
        std::string::npos);
  const Ran none = shell.run({"top", "--once", "-d", "0.001", place.path() + "/missing"});
  CHECK(none.status == 1);
  CHECK(none.out.find(": no statistics here") != std::string::npos);
  CHECK(shell.status({"top", "-d", "x"}) == 2);
  CHECK(shell.status({"top", "-n", "0"}) == 2);
  CHECK(shell.status({"top", "-s", "colour"}) == 2);
}

}  // namespace nfsrdma::cli
