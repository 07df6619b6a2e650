// Parts of the mount that need no kernel: attributes as stat(2) has them, the mode of what is made, and what options mean.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "acl/octets.h"
#include "fuse/client_id.h"
#include "fuse/creation_mode.h"
#include "fuse/directory_offsets.h"
#include "fuse/kernel_stat.h"
#include "fuse/options.h"
#include "fuse/remount.h"
#include "support/mounted.h"
#include "support/v3_fixture.h"

namespace nfsrdma::fuse {
namespace {

using namespace testing;

MountOptions set_to(const std::string& list) {
  MountOptions out;
  REQUIRE(ok(set_options(out, list)));
  return out;
}
bool is_refused(const std::string& list) {
  MountOptions out;
  return !set_options(out, list);
}

PosixAcl default_list() {
  return {{AclTag::owner, 0, 7}, {AclTag::owning_group, 0, 5}, {AclTag::other, 0, 0}};
}

/// A directory on a server with access control lists, over NFSv4.
struct Making : MountedEngine {
  void mount() {
    server.on_server([](Responder& responder) { responder.state.habits.has_acls = true; });
    server.add_directory("/d");
    MountedEngine::mount();
    d = lookup("d").inode;
    server.clear_calls();
  }
  async::Task<std::uint32_t> asking(std::uint32_t mode, std::uint32_t umask) {
    return modes.of(*files, client->loop, who, d, mode, umask);
  }
  std::uint32_t of(std::uint32_t mode, std::uint32_t umask) { return client->run(asking(mode, umask)); }
  /// One that all have all rights by, with these flags.
  void set_list(std::uint32_t flags) {
    const Nfs4Acl list{{0, flags, 0x1601bf, "EVERYONE@"}};
    const auto set = client->run(files->set_xattr(who, d, "system.nfs4_acl", acl::nfs4_octets(list), 0));
    CHECK(ok(set));
  }

  CreationMode modes;
  std::uint64_t d = 0;
};

}  // namespace

// ---- stat(2) ----

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

// ---- places in a directory ----

TEST_CASE("F8 fuse: a place in a directory leads behind its name, whatever cookie the server has for that") {
  for (const std::uint64_t before_all : {0U, 1U, 2U}) CHECK(cookie_at(before_all) == 0);
  std::set<std::uint64_t> places{0, 1, 2};
  for (const std::uint64_t cookie : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                                     std::uint64_t{1} << 32U, ~std::uint64_t{0} >> 1U, ~std::uint64_t{0}}) {
    CAPTURE(cookie);
    CHECK(cookie_at(offset_behind(cookie)) == cookie);
    CHECK(places.insert(offset_behind(cookie)).second);
  }
  CHECK(static_cast<std::int64_t>(offset_behind(2)) > 0);
}

// ---- the mode of what is made ----

TEST_CASE("F16 creation mode: the umask counts, unless the directory has a default list") {
  Scene3 s;
  s.habits([](Habits& habits) { habits.has_acls = true; });
  const auto root = s.get(s.engine->find(s.who, engine::Spot(s.root)));
  const std::shared_ptr<engine::Engine> engine(std::shared_ptr<void>(), &*s.engine);
  fs::FileSystem files(engine, fs::CacheOptions(), root);
  const std::uint64_t d = s.get(files.make_directory(s.who, fs::Inodes::kRoot, "d", 0755)).inode;
  CreationMode modes;
  modes.believe_for(5s);
  const auto of = [&](std::uint32_t mode, std::uint32_t umask) {
    return s.run(modes.of(files, s.loop, s.who, d, mode, umask));
  };
  (void)s.asked();
  CHECK(of(0644, 0022) == 0644);
  CHECK(s.asked().empty());  // there is nothing to be taken away
  CHECK(of(0666, 0022) == 0644);
  CHECK_FALSE(s.asked().empty());
  CHECK(of(02777, 0077) == 02700);
  CHECK(s.asked().empty());  // believed for a while

  const std::string inherited = "system.posix_acl_default";
  CHECK(ok(s.run(files.set_xattr(s.who, d, inherited, acl::posix_octets(default_list()), 0))));
  modes.forget(d);
  CHECK(of(0666, 0022) == 0666);
  // Somebody else takes the list away, which is seen when the time is over.
  CHECK(ok(s.run(files.remove_xattr(s.who, d, inherited))));
  s.pass(4900ms);
  CHECK(of(0666, 0022) == 0666);
  s.pass(200ms);
  CHECK(of(0666, 0022) == 0644);
}

TEST_CASE(
    "F16 creation mode: an access list says nothing of it, nor does an NFSv4 list that is not inherited") {
  Making m;
  m.mount();
  CHECK(m.of(0666, 0022) == 0644);
  for (const std::uint32_t flags : {0x0U, 0x1U, 0x2U, 0x40U}) {
    CAPTURE(flags);
    m.set_list(flags);
    m.modes.forget(m.d);
    const bool is_inherited = (flags & 0x3U) != 0;  // RFC 8881 6.2.1.4: by files, by directories
    CHECK(m.of(0666, 0022) == (is_inherited ? 0666U : 0644U));
  }
}

TEST_CASE("F16 creation mode: what was asked for before a list was set is not believed behind that") {
  Making m;
  m.mount();
  m.server.hold(nfs4::OP_GETATTR);
  auto before = m.asking(0666, 0022);
  m.client->start(before);
  REQUIRE(m.client->turn_until([&] { return m.server.held() == 1; }));
  m.modes.forget(m.d);
  m.server.release();
  REQUIRE(m.client->turn_until([&] { return before.done(); }));
  CHECK(before.await_resume() == 0644);
  m.set_list(0x3);
  CHECK(m.of(0666, 0022) == 0666);
}

// ---- options ----

TEST_CASE("mount options: each of the times is the one that it says, a day at most") {
  const auto times = [](const std::string& list) {
    const fs::CacheOptions cache = set_to(list).cache;
    return std::vector<double>{cache.file_min.count(), cache.file_max.count(), cache.directory_min.count(),
                               cache.directory_max.count()};
  };
  using Times = std::vector<double>;
  CHECK(times("ac") == Times{3, 60, 30, 60});
  CHECK(times("acregmin=5") == Times{5, 60, 30, 60});
  CHECK(times("acregmax=70") == Times{3, 70, 30, 60});
  CHECK(times("acdirmin=7") == Times{3, 60, 7, 60});
  CHECK(times("acdirmax=80") == Times{3, 60, 30, 80});
  CHECK(times("actimeo=9") == Times{9, 9, 9, 9});
  CHECK(times("noac") == Times{0, 0, 0, 0});
  CHECK(times("acregmax=86400") == Times{3, 86400, 30, 60});
  CHECK(is_refused("acregmax=86401"));
  CHECK(is_refused("actimeo=1s"));
}

TEST_CASE("mount options: those that stand for others, and those that take a part of them") {
  for (const char* soft : {"soft", "softerr"}) {
    CHECK_FALSE(set_to(soft).hard);
    CHECK(set_to(std::string(soft) + ",hard").hard);
  }
  CHECK(set_to("v2").target.options.version == 2U);
  CHECK(set_to("nfsvers=4.1").target.options.minor_version == 1);
  CHECK(is_refused("minorversion=3"));
  for (const char* known : {"mountvers=1", "mountvers=3", "proto=rdma6"}) CHECK_FALSE(is_refused(known));
  CHECK(is_refused("mountvers=2"));
  CHECK(set_to("retrans=100").retrans == 100);
  CHECK(is_refused("retrans=101"));
  CHECK(set_to("sync").cache.sync);
  CHECK_FALSE(set_to("sync,async").cache.sync);
  CHECK(set_to("nocto,cto").cache.close_to_open);
  CHECK(set_to("lookupcache=none,lookupcache=all").cache.names);
  CHECK(set_to("lookupcache=positive").cache.names);
  CHECK_FALSE(set_to("lookupcache=positive").cache.negative_names);
  CHECK_FALSE(set_to("lookupcache=none").cache.negative_names);
  CHECK(set_to("local_lock=posix").local_posix);
  CHECK_FALSE(set_to("local_lock=posix").local_flock);
  CHECK_FALSE(set_to("nolock,local_lock=none").local_flock);
  CHECK(set_to("clientid=" + std::string(200, 'x')).client_id.size() == 200);
  CHECK(is_refused("clientid=" + std::string(201, 'x')));
  CHECK(is_refused("clientid="));
  CHECK(set_to(",,soft,").words == std::vector<std::string>{"soft"});
}

TEST_CASE(
    "mount options: the kernel does not gather writes that are to be on the disk when they are answered") {
  const auto given = [](const std::string& list) {
    return parse_command_line("nfsrdma-fuse", {"h:/p", "/m", "-o", list}, false);
  };
  CHECK(given("writeback_cache")->cache.kernel_gathers);
  CHECK_FALSE(given("writeback_cache,sync"));
  CHECK_FALSE(given("noac,writeback_cache"));
  CHECK(given("writeback_cache,sync,async"));
  CHECK(given("rsize=64K,wsize=32K")->cache.rsize == 64U << 10);
  CHECK(given("rsize=64K,wsize=32K")->cache.wsize == 32U << 10);
}

TEST_CASE("F18 remount leaves of the kernel's flags what it was not asked to change") {
  const auto flags = [](const std::string& options, const std::string& super,
                        const std::vector<std::string>& words) {
    const auto found =
        remount_flags("42 41 0:52 / /m " + options + " - fuse.nfsrdma h:/p " + super + "\n", "/m", words);
    REQUIRE(found);
    return *found;
  };
  CHECK(flags("ro,nosuid", "rw", {}) == (MS_RDONLY | MS_NOSUID));
  CHECK(flags("rw", "ro,user_id=0", {}) == MS_RDONLY);
  CHECK(flags("rw", "rw,dirsync", {}) == MS_DIRSYNC);
  CHECK(flags("rw,nodev,noexec,nodiratime", "rw", {}) == (MS_NODEV | MS_NOEXEC | MS_NODIRATIME));
  CHECK(flags("rw,nodev,noexec,nodiratime", "rw", {"dev", "exec", "diratime"}) == 0UL);
  CHECK(flags("rw,noatime", "rw", {"atime"}) == 0UL);
  CHECK(flags("rw,noatime", "rw", {"strictatime"}) == MS_STRICTATIME);
  CHECK(flags("rw,relatime", "rw", {"noatime"}) == MS_NOATIME);
}

// ---- who a mount is ----

TEST_CASE("S17 who mounts by another principal, or for somebody else, is another client") {
  const auto name_with = [](const std::string& list) {
    MountOptions options = set_to(list);
    options.source = "h:/p";
    options.mountpoint = "/m";
    return client_name(identity_of(options), 0);
  };
  const std::set<std::string> all{name_with("hard"), name_with("sec=krb5"), name_with("sec=krb5p"),
                                  name_with("uid=77,gid=88"), name_with("port=20050")};
  CHECK(all.size() == 5);
  CHECK(name_with("sec=sys") == name_with("sec=sys,soft"));
}

}  // namespace nfsrdma::fuse
