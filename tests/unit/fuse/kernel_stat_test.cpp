// Attributes as stat(2) has them.
#include "fuse/kernel_stat.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace nfsrdma::fuse {
TEST_CASE("fuse: attributes are what stat(2) says of them") {
  Attributes of;
  of.type = FileType::regular;
  of.mode = 04755;
  of.links = 3;
  of.uid = 1000;
  of.gid = 100;
  of.size = (std::uint64_t{1} << 40) + 1;
  of.space_used = 513;
  of.file_id = 0xfeed'0000'0001;
  of.accessed = {-1, 5};
  of.modified = {1'700'000'000, 999'999'999};
  of.changed = {3, 4};
  const struct stat got = to_stat(of);
  CHECK(got.st_mode == (S_IFREG | 04755U));
  CHECK(got.st_nlink == 3);
  CHECK(got.st_uid == 1000);
  CHECK(got.st_gid == 100);
  CHECK(got.st_size == (off_t{1} << 40) + 1);
  CHECK(got.st_blocks == 2);  // of 512 bytes, the last one in part
  CHECK(got.st_ino == 0xfeed'0000'0001);
  CHECK(got.st_atim.tv_sec == -1);
  CHECK(got.st_atim.tv_nsec == 5);
  CHECK(got.st_mtim.tv_sec == 1'700'000'000);
  CHECK(got.st_mtim.tv_nsec == 999'999'999);
  CHECK(got.st_ctim.tv_sec == 3);
  CHECK(got.st_ctim.tv_nsec == 4);
  of.space_used = 512;
  CHECK(to_stat(of).st_blocks == 1);
  of.mode = 0170644;  // bits that no server has to send there
  CHECK(to_stat(of).st_mode == (S_IFREG | 0644U));
}

TEST_CASE("fuse: each type of file is that of stat(2), devices have their numbers, strangers are nobody's") {
  struct Row {
    FileType type;
    mode_t bits;
  };
  for (const Row& row :
       {Row{FileType::regular, S_IFREG}, Row{FileType::directory, S_IFDIR}, Row{FileType::symlink, S_IFLNK},
        Row{FileType::block, S_IFBLK}, Row{FileType::character, S_IFCHR}, Row{FileType::fifo, S_IFIFO},
        Row{FileType::socket, S_IFSOCK}, Row{FileType::unknown, 0}}) {
    CHECK(type_bits(row.type) == row.bits);
  }
  Attributes of;
  of.type = FileType::character;
  of.device_major = 300;
  of.device_minor = 70'000;
  CHECK(to_stat(of).st_rdev == makedev(300, 70'000));
  of.owner = "nobody knows him@nowhere.example";
  of.group = "1234";  // a number is its own
  CHECK(to_stat(of).st_uid == 65534);
  CHECK(to_stat(of).st_gid == 1234);
}

}  // namespace nfsrdma::fuse
