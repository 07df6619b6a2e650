// The command line of nfsrdma-fuse and of mount.nfsrdma.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "fuse/mount_options.h"
#include "fuse/mountinfo.h"
#include "fuse/remount.h"
#include "fuse/statistics.h"
#include "support/nfs_fixture.h"

namespace nfsrdma::fuse {
namespace {

using testing::ok;

Result<MountOptions> parse(std::vector<std::string> words, const std::string& name = "nfsrdma-fuse",
                           bool is_root = true) {
  return parse_command_line(name, words, is_root);
}
Result<MountOptions> with(const std::string& list) {
  return parse({"h:/p", "/m", "-o", list});
}
bool has(const MountOptions& options, const std::string& word) {
  return std::ranges::find(options.kernel, word) != options.kernel.end();
}

MountOptions set_to(const std::string& list) {
  MountOptions out;
  REQUIRE(ok(set_options(out, list)));
  return out;
}
bool is_refused(const std::string& list) {
  MountOptions out;
  return !set_options(out, list);
}

}  // namespace

TEST_CASE("mount options: defaults are those of nfs(5)") {
  const auto options = parse({"server:/export", "/mnt"});
  REQUIRE(options);
  CHECK(options->target.host == "server");
  CHECK(options->target.path == "/export");
  CHECK(options->mountpoint == "/mnt");
  CHECK(options->hard);
  CHECK_FALSE(options->foreground);
  CHECK(options->cache.close_to_open);
  CHECK(options->cache.file_min.count() == 3);
  CHECK(options->cache.directory_max.count() == 60);
  CHECK_FALSE(has(*options, "allow_other"));
}

TEST_CASE("mount options: what each sets") {
  CHECK_FALSE(with("soft")->hard);
  CHECK(with("soft,hard")->hard);
  CHECK(with("retrans=5")->retrans == 5);
  CHECK(with("minorversion=1")->target.options.minor_version == 1);
  CHECK(with("vers=4.1")->target.options.minor_version_fixed);
  CHECK(with("v3")->target.options.version == 3U);
  CHECK(with("nfsvers=3,mountvers=3,mountport=635")->target.options.mount_port == 635);
  CHECK(with("nolock")->local_posix);
  CHECK(with("nolock")->local_flock);
  CHECK_FALSE(with("nolock,lock")->local_posix);
  CHECK(with("rsize=64K")->target.options.rsize == 65536);
  CHECK(with("actimeo=7")->cache.directory_min.count() == 7);
  CHECK(with("acregmax=9")->cache.file_max.count() == 9);
  CHECK(with("noac")->cache.sync);
  CHECK(with("noac")->cache.file_max.count() == 0);
  CHECK_FALSE(with("lookupcache=none")->cache.names);
  CHECK_FALSE(with("lookupcache=pos")->cache.negative_names);
  CHECK_FALSE(with("nocto")->cache.close_to_open);
  CHECK(with("sync")->ring);
  CHECK_FALSE(with("noring")->ring);
  CHECK(with("noring,ring")->ring);
  CHECK(with("local_lock=flock")->local_flock);
  CHECK_FALSE(with("local_lock=flock")->local_posix);
  CHECK(has(*with("ro"), "ro"));
  CHECK(has(*with("allow_other,noatime"), "noatime"));
  CHECK(with("defaults,_netdev,x-systemd.automount,nofail,proto=rdma,rw"));
  CHECK(with("nconnect=4,fabric=iwarp,timeo=100")->target.options.connections == 4);
}

TEST_CASE("mount options: an unknown one is refused by name, a wrong value with what it takes") {
  const auto refusal = [](const std::string& list) {
    const auto options = with(list);
    REQUIRE_FALSE(options);
    CHECK(options.error().kind() == ErrorKind::usage);
    return options.error().text();
  };
  CHECK(refusal("frobnicate").find("frobnicate") != std::string::npos);
  CHECK(refusal("frobnicate=1").find("frobnicate") != std::string::npos);
  CHECK(refusal("proto=sctp").find("rdma or rdma6") != std::string::npos);
  CHECK(refusal("retrans=many").find("0 to 100") != std::string::npos);
  CHECK(refusal("retrans").find("0 to 100") != std::string::npos);
  CHECK(refusal("hard=1").find("takes no value") != std::string::npos);
  CHECK(refusal("acregmin=-1").find("seconds from 0 to 86400, not '-1'") != std::string::npos);
  CHECK(refusal("lookupcache=some").find("all, none or pos") != std::string::npos);
  CHECK(refusal("vers=5").find("vers") != std::string::npos);
  CHECK(refusal("allow_other=1").find("allow_other") != std::string::npos);
}

namespace {

/// Options of nfs(5) in nfs-utils 2.6.2, and those that later versions of the page or of the kernel have added.
const std::vector<std::string> kOfNfs{
    "nfsvers=4.2", "vers=3", "soft", "softerr", "hard", "softreval", "nosoftreval", "intr", "nointr",
    "timeo=600", "retrans=2", "rsize=1048576", "wsize=1048576", "ac", "noac", "acregmin=3", "acregmax=60",
    "acdirmin=30", "acdirmax=60", "actimeo=5", "bg", "fg", "nconnect=4", "max_connect=2", "rdirplus",
    "nordirplus", "retry=1", "sec=krb5p", "sharecache", "nosharecache", "resvport", "noresvport",
    "lookupcache=positive", "fsc", "nofsc", "sloppy", "proto=rdma", "proto=rdma6", "proto=tcp", "proto=tcp6",
    "tcp", "rdma", "port=20049", "mountport=635", "mountproto=udp", "mounthost=other", "mountvers=3",
    "namlen=255", "lock", "nolock", "cto", "nocto", "acl", "noacl", "local_lock=flock", "minorversion=1",
    "clientaddr=192.0.2.1", "migration", "nomigration",
    // later versions
    "trunkdiscovery", "notrunkdiscovery", "xprtsec=none", "write=lazy", "write=eager", "write=wait",
    "rdirplus=force", "fatal_neterrors=none", "alignwrite", "noalignwrite",
    // nfs(5) leaves these to the kernel, and /proc/mounts shows them
    "mountaddr=192.0.2.1", "addr=192.0.2.1", "bsize=4096", "posix", "noposix", "v2", "v3", "v4", "v4.0",
    "v4.1", "v4.2", "fsc=name"};
const std::vector<std::string> kRefusedOfNfs{"udp", "proto=udp", "proto=udp6", "xprtsec=tls", "xprtsec=mtls"};

std::string name_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

}  // namespace

TEST_CASE("mount options: each one of nfs(5) is accepted, or refused with a reason") {
  for (const std::string& word : kOfNfs) {
    CAPTURE(word);
    MountOptions options;
    CHECK(ok(set_options(options, word)));
  }
  for (const std::string& word : kRefusedOfNfs) {
    CAPTURE(word);
    MountOptions options;
    const auto done = set_options(options, word);
    REQUIRE_FALSE(done);
    CHECK(done.error().text().find("'" + word + "' is not supported: ") != std::string::npos);
  }
}

TEST_CASE("mount options: what /proc/mounts has for the kernel's NFS is accepted as it is") {
  for (const char* line :
       {"rw,relatime,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,fatal_neterrors=none,proto=rdma,"
        "port=20049,timeo=600,retrans=2,sec=sys,clientaddr=192.0.2.5,local_lock=none,addr=192.0.2.1",
        "ro,nosuid,noatime,vers=3,rsize=65536,wsize=65536,namlen=255,soft,nolock,noresvport,proto=rdma6,"
        "nconnect=4,port=20049,timeo=100,retrans=3,sec=sys,mountaddr=2001:db8::1,mountvers=3,mountport=20048,"
        "mountproto=udp6,fsc,lookupcache=pos,local_lock=all,addr=2001:db8::1"}) {
    CAPTURE(line);
    MountOptions options;
    CHECK(ok(set_options(options, line)));
  }
  CHECK(set_to("mountproto=udp6").target.options.mount_transport == "udp");
  CHECK(is_refused("mountproto=6"));
}

TEST_CASE("mount options: the error for an unknown one names all, and --help says something of each") {
  const std::string unknown = with("zzzzzzzz").error().text(), help = help_text("mount.nfsrdma");
  for (const auto& list : {kOfNfs, kRefusedOfNfs, {"allow_other", "_netdev", "comment=", "uhelper="}}) {
    for (const std::string& word : list) {
      CAPTURE(word);
      CHECK((unknown + ",").find(" " + name_of(word) + ",") != std::string::npos);
      CHECK(help.find(" " + name_of(word)) != std::string::npos);
    }
  }
  CHECK(unknown.find("did you mean") == std::string::npos);
  CHECK(with("noresvpart").error().text().find("did you mean 'noresvport'?") != std::string::npos);
  CHECK(with("fsc4").error().text().find("did you mean 'fsc'?") != std::string::npos);
}

TEST_CASE("mount options: one without effect is noted with the reason, others are not") {
  CHECK(set_to("hard,rsize=64K,_netdev,allow_other,x-systemd.automount").notes.empty());
  const auto notes = set_to("tcp,fsc=a,max_connect=4").notes;
  REQUIRE(notes.size() == 3);
  CHECK(notes[0].find("option 'tcp' has no effect: the transport is always RDMA") == 0);
  CHECK(notes[1].find("option 'fsc=a' has no effect: ") == 0);
  CHECK(is_refused("max_connect=many"));
  CHECK(is_refused("tcp=1"));
  CHECK(is_refused("write=soon"));
  CHECK(set_to("write=wait").cache.sync);
  CHECK_FALSE(set_to("sync,write=eager").cache.sync);
  CHECK(set_to("mountaddr=192.0.2.1").target.options.mount_host == "192.0.2.1");
  CHECK(set_to("v4.1").target.options.minor_version == 1);
  CHECK(has(set_to("context=system_u:object_r:nfs_t:s0"), "context=system_u:object_r:nfs_t:s0"));
  CHECK(parse({"h:/p", "/m", "-v"})->verbose);
  CHECK(parse({"h:/p", "/m", "-v"}, "mount.nfsrdma")->verbose);
}

TEST_CASE("mount options: sloppy ignores what is not known, wherever it stands") {
  CHECK(with("frobnicate,sloppy"));
  CHECK(parse({"-o", "frobnicate", "h:/p", "/m", "-o", "ro,sloppy"}));
  CHECK(parse({"-ofrobnicate,sloppy", "h:/p", "/m"}));
  CHECK_FALSE(parse({"h:/sloppy", "sloppy", "-o", "frobnicate"}));
  CHECK_FALSE(with("sloppy,xprtsec=tls"));
}

TEST_CASE("mount options: the command line") {
  CHECK(parse({"--help"})->help);
  CHECK(parse({"-V"})->version);
  CHECK(parse({"h:/p", "/m", "-f"})->foreground);
  CHECK(has(*parse({"h:/p", "/m", "-d"}), "debug"));
  CHECK(parse({"h:/p", "/m", "--log", "/x"})->log == "/x");
  CHECK(parse({"h:/p", "/m", "--log-format", "json"})->json_log);
  CHECK(parse({"h:/p", "/m", "--log-format=json"})->json_log);
  CHECK_FALSE(parse({"h:/p", "/m", "--log-format=text"})->json_log);
  CHECK_FALSE(parse({"h:/p", "/m", "--log-format=xml"}));
  CHECK(has(*parse({"h:/p", "/m", "-oro,noatime"}), "noatime"));
  CHECK(has(*parse({"h:/p", "/m", "-r"}, "mount.nfsrdma"), "ro"));
  CHECK_FALSE(has(*parse({"h:/p", "/m", "-o", "ro", "-w"}), "ro"));
  CHECK_FALSE(parse({"h:/p", "/m", "-ofrobnicate"}));
  CHECK_FALSE(parse({}));
  CHECK_FALSE(parse({"h:/p"}));
  CHECK_FALSE(parse({"h:/p", "/m", "more"}));
  CHECK_FALSE(parse({"h:/p", "/m", "-o"}));
  CHECK_FALSE(parse({"h:/p", "/m", "-n"}));
  CHECK_FALSE(parse({"not-a-target", "/m"}));
}

TEST_CASE("mount options: as mount(8)'s helper") {
  const auto options = parse({"h:/p", "/m", "-f", "-n", "-s", "-v", "-o", "rw"}, "/sbin/mount.nfsrdma");
  REQUIRE(options);
  CHECK(options->fake);
  CHECK_FALSE(options->foreground);
  CHECK(has(*options, "allow_other"));
  CHECK(std::ranges::count(parse({"h:/p", "/m", "-o", "allow_other"}, "mount.nfsrdma")->kernel,
                           "allow_other") == 1);
}

TEST_CASE("mount options: mount(8)'s defaults are root's, and what is said counts more") {
  using Words = std::vector<std::string>;
  const auto kernel = [](const std::string& list, bool is_root) {
    const auto options = parse({"h:/p", "/m", "-o", list}, "mount.nfsrdma", is_root);
    REQUIRE(options);
    return options->kernel;
  };
  CHECK(kernel("hard", true) == Words{"suid", "dev", "allow_other"});
  CHECK(kernel("nosuid", true) == Words{"suid", "dev", "nosuid", "allow_other"});
  CHECK(kernel("allow_other", true) == Words{"suid", "dev", "allow_other"});
  for (const char* list : {"user", "users", "owner", "group"})
    CHECK(kernel(list, true) == Words{"allow_other"});
  CHECK(kernel("user,suid", true) == Words{"suid", "allow_other"});
  CHECK(kernel("noauto,user", false) == Words{});
  CHECK(kernel("nosuid", false) == Words{"nosuid"});
  CHECK(with("hard")->kernel == Words{});
}

TEST_CASE("mount options: what libfuse would split or take away has a backslash") {
  CHECK(escaped("h:/a b") == "h:/a b");
  CHECK(escaped("h:/x,allow_other") == "h:/x\\,allow_other");
  CHECK(escaped("h:/\\,") == "h:/\\\\\\,");
  CHECK(escaped("").empty());
}

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
  CHECK(set_to("metrics=/run/m.prom,metrics_interval=60").metrics == "/run/m.prom");
  CHECK(set_to("metrics_interval=60").metrics_interval == std::chrono::minutes(1));
  for (const char* wrong : {"metrics=", "metrics=m.prom", "metrics_interval=0", "metrics_interval=3601"})
    CHECK(is_refused(wrong));
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

TEST_CASE("fuse: a mount is found in mountinfo") {
  const std::string info =
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 21 0:50 / /mnt/with\\040space\\134 rw shared:9 - fuse.nfsrdma h:/ rw\n"
      "41 21 0:51 / /m rw - tmpfs tmpfs rw\n"
      "42 41 0:52 / /m rw,nosuid - fuse.nfsrdma h:/p ro,user_id=0\n"
      "broken\n";
  CHECK(topmost_mount(info, "/")->device == "8:1");
  CHECK(topmost_mount(info, "/")->type == "ext4");
  CHECK(topmost_mount(info, "/mnt/with space\\")->device == "0:50");
  CHECK(topmost_mount(info, "/m")->device == "0:52");  // what lies on top
  CHECK(topmost_mount(info, "/m")->options == "rw,nosuid");
  CHECK(topmost_mount(info, "/m")->super_options == "ro,user_id=0");
  CHECK_FALSE(topmost_mount(info, "/n"));
  CHECK_FALSE(topmost_mount("", "/"));
}

TEST_CASE(
    "fuse: a mount below a directory is found in mountinfo, one beside it with a name that begins alike is "
    "not") {
  const std::string info =
      "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "35 21 0:50 / /mnt/with\\040space/deep rw - fuse.nfsrdma srv:/ rw\n";
  CHECK(is_mounted_below(info, "/mnt/with space/deep"));
  CHECK(is_mounted_below(info, "/mnt/with space"));
  CHECK(is_mounted_below(info, "/mnt"));
  CHECK_FALSE(is_mounted_below(info, "/mnt/with space/de"));
  CHECK_FALSE(is_mounted_below(info, "/mn"));
  CHECK_FALSE(is_mounted_below(info, "/mnt/with space/deep/er"));
  CHECK_FALSE(is_mounted_below("", "/mnt"));
}

TEST_CASE("F18 remount changes what the kernel has, and refuses what the daemon has by name") {
  const std::string info = "42 41 0:52 / /m rw,nosuid,noatime - fuse.nfsrdma h:/p rw,user_id=0\n";
  const auto flags = [&](const std::vector<std::string>& words) { return remount_flags(info, "/m", words); };
  REQUIRE(flags({"remount", "ro"}));
  CHECK(*flags({"remount", "ro"}) == (MS_RDONLY | MS_NOSUID | MS_NOATIME));
  CHECK(*flags({"remount", "ro", "rw", "suid"}) == MS_NOATIME);
  CHECK(*flags({"remount", "noexec", "relatime"}) == (MS_NOSUID | MS_NOEXEC | MS_RELATIME));
  CHECK_FALSE(remount_flags(info, "/n", {"remount"}));
  CHECK_FALSE(remount_flags("21 1 8:1 / /m rw - ext4 /dev/sda1 rw\n", "/m", {"remount"}));

  const std::string in_force = "vers=4.2,rsize=65536,wsize=1048576,hard,timeo=600,acregmin=3,allow_other";
  CHECK(check_unchanged(in_force, {"remount", "ro", "hard", "rsize=1M", "vers=4", "allow_other", "_netdev",
                                   "timeo=60s", "bg", "retry=3", "x-what=ever"}));
  const auto refusal = [&](const std::string& word) {
    const auto done = check_unchanged(in_force, {"remount", word});
    REQUIRE_FALSE(done);
    return done.error().text();
  };
  for (const char* word : {"soft", "rsize=4096", "timeo=5s", "acregmin=4", "noac", "vers=4.1", "nosharing"}) {
    CHECK(refusal(word).find(word) != std::string::npos);
  }
}

TEST_CASE("F18 remount takes the protections that the one in force was chosen from, and no others") {
  const std::string in_force = options_text(*with("sec=krb5i,wsize=65536"));
  for (const char* word : {"sec=krb5i", "sec=krb5p:krb5i", "sec=krb5i:sys", "wsize=128K"})
    CHECK(check_unchanged(in_force, {"remount", word}));
  for (const char* word : {"sec=krb5p", "sec=krb5:sys", "wsize=32K"})
    CHECK_FALSE(check_unchanged(in_force, {"remount", word}));
}

TEST_CASE("F18 remount knows every option that the daemon was started with") {
  for (const char* word :
       {"vers=2", "vers=3", "connect_timeout=3s", "keytab=/k", "ccache=FILE:/c", "gssport=2050",
        "mounthost=other", "mountport=9", "mountproto=udp", "clientaddr=192.0.2.2", "callback_port=9",
        "remoteports=192.0.2.3-192.0.2.4~2001:db8::1"}) {
    CAPTURE(word);
    const std::string without = options_text(*with("hard")), with_it = options_text(*with(word));
    CHECK(check_unchanged(without, {"remount", "ro"}));
    CHECK_FALSE(check_unchanged(without, {"remount", word}));
    CHECK(check_unchanged(with_it, {"remount", word}));
  }
  CHECK_FALSE(check_unchanged(options_text(*with("keytab=/k")), {"remount", "keytab=/other"}));
  CHECK_FALSE(check_unchanged(options_text(*with("vers=2")), {"remount", "vers=4.2"}));
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

TEST_CASE("F18 bg, fg, retry and the options of fstab and mount are what nfs(5) says") {
  using std::chrono::minutes;
  CHECK(parse({"h:/p", "/m", "-o", "bg"}, "mount.nfsrdma")->patience() == minutes(10000));
  CHECK(parse({"h:/p", "/m", "-o", "bg,fg"}, "mount.nfsrdma")->patience() == minutes(2));
  CHECK(parse({"h:/p", "/m"}, "mount.nfsrdma")->patience() == minutes(2));
  CHECK(parse({"h:/p", "/m", "-o", "bg,retry=7"}, "mount.nfsrdma")->patience() == minutes(7));
  CHECK(with("retry=0,bg")->patience() == minutes(0));
  CHECK(with("hard")->patience() == minutes(0));
  CHECK(with("retry=1")->patience() == minutes(1));
  CHECK_FALSE(with("retry=soon"));
  CHECK(with("remount,ro")->remount);
  CHECK(with("bg")->background);
  CHECK_FALSE(has(*with("ro,rw"), "ro"));
  CHECK(
      with("rw,_netdev,auto,noauto,user,users,user=me,owner,group,nofail,x-systemd.automount,X-mount.mkdir,"
           "nousers,noowner,nogroup,uhelper=udisks2,"
           "comment=a note,defaults,addr=192.0.2.1,clientaddr=192.0.2.2,proto=rdma,port=20049,rdma,intr"));
  CHECK(with("clientaddr=192.0.2.2")->target.options.callback_address == "192.0.2.2");
  CHECK_FALSE(parse({"h:/p", "/m", "-o", "frobnicate,ro"}, "mount.nfsrdma"));
  const auto sloppy = parse({"h:/p", "/m", "-o", "frobnicate,ro", "-s"}, "mount.nfsrdma");
  REQUIRE(sloppy);
  CHECK(has(*sloppy, "ro"));
  CHECK_FALSE(parse({"h:/p", "/m", "-s", "-o", "rsize=none"}, "mount.nfsrdma"));
}

namespace {

/// Returns the options of a mount whose configuration has the settings.
Result<MountOptions> configured(const std::string& settings, std::vector<std::string> words) {
  const Defaults defaults = [&](const std::string&, const connect::Subject&) {
    return connect::parse_settings(settings, "file:7");
  };
  return parse_command_line("mount.nfsrdma", words, true, defaults);
}

}  // namespace

TEST_CASE("mount options: the configuration sets what the command line does not") {
  const auto options = configured("soft,acregmin=9,rsize=8K,wsize=8K,nosuid,ro,sec=krb5",
                                  {"nfs://h/p?sec=sys", "/m", "-o", "hard,wsize=16K", "-w"});
  REQUIRE(options);
  CHECK(options->hard);
  CHECK(options->cache.file_min.count() == 9);
  CHECK(options->cache.rsize == 8192);
  CHECK(options->target.options.wsize == 16384);
  CHECK(options->target.options.get("sec") == "sys");
  CHECK_FALSE(has(*options, "ro"));
  // Root's default "suid" precedes the configuration, and the last one counts.
  CHECK(std::ranges::find(options->kernel, "suid") < std::ranges::find(options->kernel, "nosuid"));
  CHECK(std::ranges::count(options->notes, "option 'soft' is set by file:7") == 1);
  CHECK(options->words == std::vector<std::string>{"hard", "wsize=16K", "rw"});
}

TEST_CASE("mount options: an error in the configuration names its place") {
  const auto wrong = configured("acregmin=x", {"h:/p", "/m"});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() == "file:7: option 'acregmin' takes seconds from 0 to 86400, not 'x'");
}

TEST_CASE("mount options: the configuration is asked for the mount, and not for a remount") {
  unsigned asked = 0;
  const Defaults defaults = [&](const std::string& config, const connect::Subject& subject) {
    ++asked;
    CHECK(config == "/etc/other");
    CHECK(subject.host == "h");
    CHECK(subject.path == "/p");
    CHECK(subject.mountpoint == "/m");
    return Result(std::vector<connect::Setting>());
  };
  CHECK(parse_command_line("nfsrdma-fuse", {"h:/p", "/m", "-oconfig=/etc/other"}, false, defaults));
  CHECK(asked == 1);
  CHECK(parse_command_line("mount.nfsrdma", {"h:/p", "/m", "-o", "remount,ro"}, true, defaults));
  CHECK(asked == 1);
}

}  // namespace nfsrdma::fuse
