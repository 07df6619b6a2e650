// Options and targets from text: what users type on command lines and in URLs.
#include "connect/options.h"

#include <doctest/doctest.h>

#include <cerrno>

using namespace nfsrdma;
using namespace std::chrono_literals;

namespace {

std::string message_of(const Status& status) {
  return status ? "" : status.error().message();
}

connect::Target parsed(std::string_view text, const connect::Options& base = {}) {
  const Result<connect::Target> target = connect::parse_target(text, base);
  REQUIRE_MESSAGE(target.has_value(), (target ? "" : target.error().text()));
  return *target;
}

std::string refused(std::string_view text) {
  const Result<connect::Target> target = connect::parse_target(text);
  REQUIRE_FALSE(target.has_value());
  CHECK(target.error().kind() == ErrorKind::usage);
  CHECK(target.error().errno_value() == EINVAL);
  CHECK(target.error().peer().empty());  // which is how a program tells a wrong command line (cli/main.cpp)
  return target.error().message();
}

}  // namespace

TEST_CASE("options: each sets its field") {
  connect::Options o;
  REQUIRE(
      o.set_all("vers=4.1,port=2049,fabric=iwarp,rsize=64K,wsize=1M,timeo=300,connect_timeout=2s,sec=sys,"
                "uid=1000,gid=0,crc=off,credits=8,busy_poll=50"));
  CHECK(o.minor_version == 1);
  CHECK(o.minor_version_fixed);
  CHECK(o.port == 2049);
  CHECK(o.fabric == Fabric::iwarp);
  CHECK(o.rsize == 65536);
  CHECK(o.wsize == 1U << 20);
  CHECK(o.timeout == 30s);  // tenths of a second, as nfs(5)
  CHECK(o.connect_timeout == 2s);
  CHECK(o.uid == 1000U);
  CHECK(o.gid == 0U);
  CHECK(o.crc == Crc::off);
  CHECK(o.credits == 8);
  CHECK(o.busy_poll == 50us);
  REQUIRE(o.set("fabric", "verbs"));
  CHECK(o.fabric == Fabric::verbs);
  REQUIRE(o.set("fabric", "auto"));
  CHECK(o.fabric == Fabric::automatic);
}

TEST_CASE("options: vers=4 asks for the highest and lets the server choose") {
  connect::Options o;
  REQUIRE(o.set_all("vers=4.1,vers=4"));
  CHECK(o.minor_version == 2);
  CHECK_FALSE(o.minor_version_fixed);
}

TEST_CASE("options: versions") {
  CHECK_FALSE(connect::Options().version);  // the highest of all
  connect::Options o;
  REQUIRE(o.set("vers", "4"));
  CHECK(o.version == 4U);
  REQUIRE(o.set_all("vers=4.2,vers=3,mounthost=there,mountport=635,mountproto=udp"));
  CHECK(o.version == 3U);
  CHECK_FALSE(o.minor_version_fixed);
  CHECK_FALSE(o.port_fixed);
  CHECK(o.mount_host == "there");
  CHECK(o.mount_port == 635);
  CHECK(o.mount_transport == "udp");
  REQUIRE(o.set("port", "20049"));
  CHECK(o.port_fixed);
}

TEST_CASE("options: where version 4.0 is called back") {
  connect::Options o;
  CHECK(o.callback_address.empty());
  CHECK(o.callback_port == 0);
  REQUIRE(o.set_all("clientaddr=192.0.2.1,callback_port=32764"));
  CHECK(o.callback_address == "192.0.2.1");
  CHECK(o.callback_port == 32764);
  for (const char* none : {"", "here", "1.2.3", "[::1]"}) CHECK_FALSE(o.set("clientaddr", none));
  for (const char* none : {"", "-1", "65536"}) CHECK_FALSE(o.set("callback_port", none));
  REQUIRE(o.set_all("clientaddr=2001:db8::1,callback_port=0"));
  CHECK(o.callback_address == "2001:db8::1");
  CHECK(o.callback_port == 0);
}

TEST_CASE("options: durations take units") {
  connect::Options o;
  REQUIRE(o.set("timeo", "45s"));
  CHECK(o.timeout == 45s);
  REQUIRE(o.set("timeo", "1500ms"));
  CHECK(o.timeout == 1500ms);
  CHECK_FALSE(o.set("connect_timeout", "10"));  // of what?
}

TEST_CASE("options: flavours, the one that is liked best first") {
  connect::Options o;
  CHECK(o.security.empty());
  REQUIRE(o.set("sec", "krb5p:krb5i:sys"));
  CHECK(o.security == std::vector{Security::krb5p, Security::krb5i, Security::sys});
  REQUIRE(o.set("sec", "krb5"));
  CHECK(o.security == std::vector{Security::krb5});
}

TEST_CASE("options: addresses of one server, one by one and in ranges") {
  connect::Options o;
  REQUIRE(o.set("remoteports", "10.0.0.254-10.0.1.1~10.2.0.1~fe80::1"));
  CHECK(o.remote_ports ==
        std::vector<std::string>{"10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1", "10.2.0.1", "fe80::1"});
  REQUIRE(o.set_all("remoteports=10.0.0.1-10.0.0.1,threads=3"));
  CHECK(o.remote_ports == std::vector<std::string>{"10.0.0.1"});
  CHECK(o.threads == 3);
}

TEST_CASE("options: an unknown one is refused by name with the nearest") {
  connect::Options o;
  CHECK(message_of(o.set("rsiz", "1")) == "unknown option 'rsiz'; did you mean 'rsize'?");
  CHECK(message_of(o.set("version", "4.2")).find("did you mean 'vers'?") != std::string::npos);
  CHECK(message_of(o.set("zzzzzz", "")).find("use one of vers, port") != std::string::npos);
  for (const char* far : {"noresvport", "sharecache", "rdirplus", "trunkdiscovery", "u"})
    CHECK(message_of(o.set(far, "1")).find("use one of vers, port") != std::string::npos);
  CHECK(message_of(o.set("uida", "1")).find("did you mean 'uid'?") != std::string::npos);
  CHECK(message_of(o.set("read", "1")).find("did you mean 'read_plus'?") != std::string::npos);
  CHECK_FALSE(o.set("", ""));
  CHECK_FALSE(o.set(std::string(100000, 'x'), ""));
}

TEST_CASE("options: a wrong value is refused with what the option takes, and changes nothing") {
  for (const char* item : {"rsize=",
                           "rsize=0",
                           "rsize=1023",
                           "rsize=16777217",
                           "rsize=17M",
                           "rsize=4294967296K",
                           "rsize=-1",
                           "rsize=1 ",
                           "rsize=K",
                           "port=0",
                           "port=65536",
                           "port=x",
                           "vers=5",
                           "vers=4.3",
                           "fabric=ib",
                           "sec=krb6",
                           "sec=",
                           "keytab=k",
                           "sec=krb5:",
                           "sec=:sys",
                           "sec=sys:sys",
                           "gssport=0",
                           "keytab=",
                           "crc=yes",
                           "ccache=",
                           "ccache=name",
                           "ccache=:name",
                           "ccache=FILE:",
                           "ccache=file:/x",
                           "ccache=1:/x",
                           "uid=-1",
                           "uid=4294967295",
                           "gid=root",
                           "timeo=0",
                           "timeo=s",
                           "timeo=99999999999999s",
                           "credits=0",
                           "credits",
                           "busy_poll=10001",
                           "busy_poll=5us",
                           "mountport=0",
                           "mountproto=rdma",
                           "mounthost=",
                           "mounthost=a/b",
                           "threads=0",
                           "threads=17",
                           "remoteports=",
                           "remoteports=~",
                           "remoteports=name",
                           "remoteports=10.0.0.1~",
                           "remoteports=10.0.0.1~~10.0.0.2",
                           "remoteports=10.0.0.2-10.0.0.1",
                           "remoteports=10.0.0.1-10.0.0.17",
                           "remoteports=::1-::2",
                           "remoteports=10.0.0.1-10.0.0.9~10.0.1.1-10.0.1.9",
                           "remoteports=10.0.0.256"}) {
    CAPTURE(item);
    connect::Options o;
    const Status status = o.set_all(item);
    REQUIRE_FALSE(status);
    CHECK(status.error().kind() == ErrorKind::usage);
    CHECK(status.error().message().find(" takes ") != std::string::npos);
    CHECK(o.rsize == connect::Options{}.rsize);
    CHECK(o.timeout == connect::Options{}.timeout);
    CHECK(o == connect::Options());
  }
}

TEST_CASE("options: empty items in a list are harmless, and what stands before an error stays set") {
  connect::Options o;
  CHECK(o.set_all(""));
  CHECK(o.set_all(",rsize=8K,,wsize=8K,"));
  CHECK_FALSE(o.set_all("rsize=4K,bad"));
  CHECK(o.rsize == 4096);
}

TEST_CASE("options: the help names every option once") {
  CHECK(connect::option_help().size() == 30);
  for (const connect::OptionHelp& help : connect::option_help()) {
    connect::Options o;
    const std::string text = message_of(o.set(help.name, "\x01"));
    CHECK(text.find(help.values) != std::string::npos);
  }
}

TEST_CASE("target: host:/path as mount has it, byte for byte") {
  CHECK(parsed("server:/export/file").host == "server");
  CHECK(parsed("server:/export/file").path == "/export/file");
  CHECK(parsed("server:").path == "/");
  CHECK(parsed("10.0.0.1:/a:b").path == "/a:b");
  CHECK(parsed("s:/a?rsize=1%20#x").path == "/a?rsize=1%20#x");
  CHECK(parsed("[fe80::1%eth0]:/x").host == "fe80::1%eth0");
  CHECK(parsed("[::1]:").path == "/");
}

TEST_CASE("target: the options start from the base") {
  connect::Options base;
  base.rsize = 8192;
  CHECK(parsed("s:/", base).options.rsize == 8192);
  CHECK(parsed("nfs://s/", base).options.rsize == 8192);
  CHECK(parsed("nfs://s/?rsize=4096", base).options.rsize == 4096);
}

TEST_CASE("target: a URL has a port, percent-encoding and options") {
  const connect::Target t = parsed("nfs://server:2050/a%20b/%3f%25?rsize=64K&crc=on&");
  CHECK(t.host == "server");
  CHECK(t.path == "/a b/?%");
  CHECK(t.options.port == 2050);
  CHECK(t.options.rsize == 65536);
  CHECK(t.options.crc == Crc::on);
  CHECK(parsed("nfs://server").path == "/");
  CHECK(parsed("nfs://server?vers=4.1").options.minor_version == 1);
  CHECK(parsed("nfs://server:/x").options.port == 20049);  // RFC 3986 3.2.3: an empty port is the default
  CHECK(parsed("nfs://server//x").path == "//x");
  CHECK(parsed("nfs://h/%ff").path == "/\xff");
}

TEST_CASE("target: IPv6 in a URL") {
  CHECK(parsed("nfs://[::1]/x").host == "::1");
  CHECK(parsed("nfs://[::1]:1234/x").options.port == 1234);
  CHECK(parsed("nfs://[fe80::1%25eth0]/x").host == "fe80::1%eth0");
}

TEST_CASE("target: what is none is refused with what to write") {
  CHECK(refused("file").find("host:/path") != std::string::npos);
  CHECK(refused("").find("host:/path") != std::string::npos);
  CHECK(refused("/a:b").find("host:/path") != std::string::npos);
  CHECK(refused(":/x").find("host") != std::string::npos);
  CHECK(refused("host:file").find("absolute") != std::string::npos);
  CHECK(refused("::1:/x").find("brackets") != std::string::npos);
  CHECK(refused("host:20049:/x").find("-o port=") != std::string::npos);
  CHECK(refused("[::1:/x").find("not complete") != std::string::npos);
  CHECK(refused("[]:/x").find("not complete") != std::string::npos);
  CHECK(refused("[::1]/x").find("colon") != std::string::npos);
  CHECK(refused("http://h/x").find("nfs://") != std::string::npos);
  CHECK(refused("nfs:///x").find("host is missing") != std::string::npos);
  CHECK(refused("nfs://:20049/x").find("host") != std::string::npos);
  CHECK(refused("nfs://u@h/x").find("uid=") != std::string::npos);
  CHECK(refused("nfs://h:0/x").find("port") != std::string::npos);
  CHECK(refused("nfs://h:99999/x").find("port") != std::string::npos);
  CHECK(refused("nfs://::1/x").find("brackets") != std::string::npos);
  CHECK(refused("nfs://[::1]x/").find(":port") != std::string::npos);
  CHECK(refused("nfs://h/x#y").find("%23") != std::string::npos);
  CHECK(refused("nfs://h/%4").find("hexadecimal") != std::string::npos);
  CHECK(refused("nfs://h/%zz").find("hexadecimal") != std::string::npos);
  CHECK(refused("nfs://h/a%00b").find("00") != std::string::npos);
  CHECK(refused("nfs://h/?rsiz=1").find("did you mean 'rsize'?") != std::string::npos);
  CHECK(refused(std::string_view("h:/a\0b", 6)).find("NUL") != std::string::npos);
}

TEST_CASE("options: a trace, its size, and how much of each message it keeps") {
  connect::Options o;
  CHECK(o.get("trace") == "");
  REQUIRE(o.set_all("trace=/tmp/t,trace_size=1G,trace_bytes=1M"));
  CHECK(o.trace == "/tmp/t");
  CHECK(o.trace_size == 1U << 30);
  CHECK(o.trace_bytes == 1U << 20);
  CHECK(o.get("trace_size") == "1073741824");
  CHECK(message_of(o.set("trace_size", "63K")) ==
        "option 'trace_size' takes bytes from 64K to 1T, not '63K'");
  CHECK_FALSE(o.set("trace_size", "2000G"));
  CHECK_FALSE(o.set("trace_bytes", "63"));
  CHECK_FALSE(o.set("trace_bytes", "65M"));
  CHECK_FALSE(o.set("trace", ""));
  CHECK_FALSE(o.set("rsize", "1G"));  // the units are those of all sizes, the limits are not
}

TEST_CASE("options: a URL does not name a file that this program writes") {
  CHECK(refused("nfs://server/x?trace=/home/user/.profile").find("-o trace=FILE") != std::string::npos);
  CHECK(refused("nfs://server/x?%74race=x").find("-o trace=FILE") != std::string::npos);
  CHECK(parsed("nfs://server/x?trace_bytes=64").options.trace_bytes == 64);
}
