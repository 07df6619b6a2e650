// The place of a mount: what is there, what can be done about it, and what is recorded of the mount.
#include "fuse/mountpoint.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuse/mount_record.h"

namespace nfsrdma::fuse {
namespace {

/// A directory that goes with the test.
struct Place {
  const std::string path = [] {
    std::string name = std::filesystem::temp_directory_path() / "nfsrdma-place-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return std::filesystem::canonical(name).string();
  }();
  ~Place() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("mount point: a missing one, a file and a directory") {
  const Place place;
  const std::string missing = place.path + "/none", file = place.path + "/file";
  std::ofstream(file) << "text";
  CHECK(check_mountpoint(place.path, "h:/p"));
  CHECK(find_mountpoint(place.path + "/../" + place.path.substr(place.path.rfind('/') + 1)).value() ==
        place.path);
  const auto not_there = find_mountpoint(missing);
  REQUIRE_FALSE(not_there);
  CHECK(not_there.error().errno_value() == ENOENT);
  CHECK(not_there.error().text().find("mkdir -p " + missing) != std::string::npos);
  const auto no_directory = check_mountpoint(file, "h:/p");
  REQUIRE_FALSE(no_directory);
  CHECK(no_directory.error().errno_value() == ENOTDIR);
  CHECK(no_directory.error().text().find(file) != std::string::npos);
}

TEST_CASE("mount point: an export that is mounted there already is refused, what lies below another is not") {
  const std::string info =
      "40 21 0:50 / /m rw - fuse.nfsrdma h:/a\\040b rw\n"
      "41 21 0:51 / /below rw - fuse.nfsrdma h:/p rw\n"
      "42 41 0:52 / /below rw - tmpfs tmpfs rw\n"
      "43 21 0:50 /sub /part rw - fuse.nfsrdma h:/p rw\n"
      "44 21 0:54 / /other rw - nfs4 h:/p rw\n";
  const auto mounted = check_not_mounted(info, "/m", "h:/a b");
  REQUIRE_FALSE(mounted);
  CHECK(mounted.error().errno_value() == EBUSY);
  CHECK(mounted.error().text().find("h:/a b is already mounted here") != std::string::npos);
  CHECK_FALSE(check_not_mounted(info, "/m", "h:/a b/"));
  CHECK_FALSE(check_not_mounted(info, "/m", "nfs://h:20050/a%20b"));
  CHECK(check_not_mounted(info, "/m", "other:/a b"));
  CHECK(check_not_mounted(info, "/m", "h:/p"));      // another export
  CHECK(check_not_mounted(info, "/below", "h:/p"));  // something else is on top
  CHECK(check_not_mounted(info, "/part", "h:/p"));   // a bind mount of a part
  CHECK(check_not_mounted(info, "/other", "h:/p"));  // another file system
  CHECK(check_not_mounted(info, "/free", "h:/p"));
}

TEST_CASE("mount point: /dev/fd/N is a descriptor, and must be one of /dev/fuse") {
  CHECK(passed_descriptor("/dev/fd/7") == 7);
  for (const char* path :
       {"/mnt", "/dev/fd/", "/dev/fd/x", "/dev/fd/7/x", "/dev/fd/-1", "/dev/fd/99999999999"}) {
    CAPTURE(path);
    CHECK_FALSE(passed_descriptor(path));
  }
  const auto refusal = [](int descriptor) {
    const auto done = check_passed_descriptor(descriptor);
    return done ? std::string() : done.error().message();
  };
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  REQUIRE(null >= 0);
  CHECK(refusal(null).starts_with("this is no descriptor of /dev/fuse"));
  ::close(null);
  CHECK(refusal(null).starts_with("no such descriptor is open"));
  const int fuse = ::open("/dev/fuse", O_RDWR);
  if (fuse < 0) return;  // a machine without FUSE; tests/bridge/containers.sh needs one
  CHECK(refusal(fuse).empty());
  CHECK((::fcntl(fuse, F_GETFD) & FD_CLOEXEC) != 0);  // programs that the mount starts do not get it
  ::close(fuse);
}

TEST_CASE("mount record: _netdev, and of the options those that are meant for mount(8) and systemd") {
  CHECK(recorded_options({}) == "_netdev");
  CHECK(recorded_options({"rw", "_netdev", "x-gvfs-hide", "port=1", "uhelper=udisks2", "noauto"}) ==
        "_netdev,x-gvfs-hide,uhelper=udisks2");
  const auto is_left_to_mount8 = [](const std::string& name, const std::string& list) {
    return is_recorded_by_mount8(*parse_command_line(name, {"h:/p", "/m", "-o", list}, true));
  };
  CHECK(is_left_to_mount8("mount.nfsrdma", "rw,_netdev"));
  CHECK_FALSE(is_left_to_mount8("mount.nfsrdma", "rw"));
  CHECK_FALSE(is_left_to_mount8("nfsrdma-fuse", "_netdev"));
}

}  // namespace nfsrdma::fuse
