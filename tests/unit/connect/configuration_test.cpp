// The configuration: what its files may say, whose word counts, and which files are trusted.
#include "connect/configuration.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "connect/mount_words.h"
#include "support/scratch.h"

namespace nfsrdma::connect {
namespace {

/// Returns the options as -o takes them, or the message of the error.
std::string words(const Result<std::vector<Setting>>& settings) {
  if (!settings) return settings.error().text();
  std::string out;
  for (const Setting& one : *settings) out += (out.empty() ? "" : ",") + one.word();
  return out;
}

std::string chosen(std::string_view text, const Subject& subject) {
  const auto sections = parse_configuration(text, "f");
  return sections ? words(settings_for(*sections, subject)) : sections.error().text();
}

std::string in_defaults(const std::string& line) {
  return chosen("[defaults]\n" + line + "\n", {"h", "/", ""});
}

/// A user's and a system's file.
class Files {
 public:
  Files() {
    sources.system_file = scratch_.path() + "/system";
    sources.user_file = scratch_.path() + "/user";
    sources.user = sources.administrator = ::geteuid();
  }
  static void write(const std::string& file, const std::string& text, unsigned mode = 0644) {
    std::ofstream(file) << text;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  [[nodiscard]] std::string read(const std::string& config = "") const {
    return words(read_settings(sources, config, {"host", "/export/dir", "/mnt/x"}));
  }

  Sources sources;

 private:
  testing::Scratch scratch_{"config"};
};

}  // namespace

TEST_CASE("configuration: a section counts for its server, its exports, or its mount point") {
  constexpr std::string_view text =
      "# a comment\n"
      "[defaults]\n  rsize = 64K\r\n"
      "; another\n\n"
      "[ Server \"Host.Example.\" ]\nwsize=128K\n"
      "[export \"host.example:/export/\"]\nnconnect = 2\n"
      "[export \"[fe80::1]:/\"]\nnconnect = 3\n"
      "[mountpoint \"/mnt/x/\"]\ncredits=\"9\"\n";
  CHECK(chosen(text, {"other", "/export", ""}) == "rsize=64K");
  CHECK(chosen(text, {"HOST.example", "/", ""}) == "rsize=64K,wsize=128K");
  CHECK(chosen(text, {"host.example", "/export/dir", ""}) == "rsize=64K,wsize=128K,nconnect=2");
  CHECK(chosen(text, {"host.example", "/exported", ""}) == "rsize=64K,wsize=128K");
  CHECK(chosen(text, {"host.example", "/export", "/mnt/x"}) == "rsize=64K,wsize=128K,nconnect=2,credits=9");
  CHECK(chosen(text, {"fe80::1", "/any", "/mnt/xx"}) == "rsize=64K,nconnect=3");
}

TEST_CASE("configuration: the particular section counts more, wherever it stands") {
  constexpr std::string_view text =
      "[mountpoint \"/m\"]\nrsize=5K\n"
      "[export \"h:/a/b\"]\nrsize=4K\n"
      "[export \"h:/a\"]\nrsize=3K\n"
      "[server \"h\"]\nrsize=2K\n"
      "[defaults]\nrsize=1K\nrsize=1025\n";
  CHECK(chosen(text, {"h", "/a/b/c", "/m"}) == "rsize=1K,rsize=1025,rsize=2K,rsize=3K,rsize=4K,rsize=5K");
}

TEST_CASE("configuration: options have the names and forms of nfsmount.conf(5), too") {
  CHECK(in_defaults("Rsize = 64K") == "rsize=64K");
  CHECK(in_defaults("Nfsvers=4.1") == "vers=4.1");
  CHECK(in_defaults("minorversion=0") == "vers=4.0");
  CHECK(in_defaults("v4.2") == "vers=4.2");
  CHECK(in_defaults("v3 = yes") == "vers=3");
  CHECK(in_defaults("mountaddr=10.0.0.1") == "mounthost=10.0.0.1");
  CHECK(in_defaults("soft") == "soft");
  CHECK(in_defaults("Soft=True") == "soft");
  CHECK(in_defaults("lock=false") == "nolock");
  CHECK(in_defaults("nolock=no") == "lock");
  CHECK(in_defaults("fsc=a name") == "fsc=a name");
  CHECK(in_defaults("fsc = off") == "nofsc");
  CHECK(in_defaults("acregmin=5") == "acregmin=5");
}

TEST_CASE("configuration: an error names the file, the line and what was meant") {
  CHECK(in_defaults("rsise=64K") == "f:2: unknown option 'rsise'; did you mean 'rsize'?");
  CHECK(in_defaults("acregmix=1") == "f:2: unknown option 'acregmix'; did you mean 'acregmin'?");
  CHECK(in_defaults("rsize=12") == "f:2: option 'rsize' takes bytes from 1024 to 16M, not '12'");
  CHECK(in_defaults("rsize").starts_with("f:2: option 'rsize' takes "));
  CHECK(in_defaults("soft=maybe") == "f:2: option 'soft' takes no value but yes or no");
  CHECK(in_defaults("soft=no") ==
        "f:2: option 'soft' has no opposite; leave the line out, or name another option");
  CHECK(in_defaults("acregmin").starts_with("f:2: option 'acregmin' takes a value"));
  CHECK(in_defaults("user").starts_with("f:2: option 'user' has no meaning here"));
  CHECK(in_defaults("remount").starts_with("f:2: option 'remount' has no meaning here"));
  CHECK(in_defaults("config=/x").starts_with("f:2: option 'config' has no meaning here"));
  CHECK(in_defaults("context=a,suid").starts_with("f:2: a value cannot have a comma"));
  CHECK(chosen("\nrsize=64K\n", {"h", "/", ""}).starts_with("f:2: an option precedes all sections"));
  // An error counts wherever it stands: the file is wrong for all servers.
  CHECK(chosen("[server \"other\"]\nrsize=1\n", {"h", "/", ""}).starts_with("f:2: "));
}

TEST_CASE("configuration: a heading that is no section is an error") {
  for (const char* heading : {"[defaults", "[default]", "[defaults \"x\"]", "[server]", "[server \"a/b\"]",
                              "[export \"h\"]", "[export \"h:relative\"]", "[mountpoint \"mnt\"]",
                              "[mountpoint]", "[]", "[ NFSMount_Global_Options ]"}) {
    CAPTURE(heading);
    const std::string message = chosen(heading, {"h", "/", ""});
    CHECK(message.starts_with("f:1: '"));
    CHECK(message.find("write [defaults], [server \"NAME\"]") != std::string::npos);
  }
}

TEST_CASE(
    "configuration: the user's file counts more than the system's, and NFSRDMA_OPTIONS more than both") {
  Files files;
  CHECK(files.read().empty());  // neither is there
  Files::write(files.sources.system_file, "[mountpoint \"/mnt/x\"]\nrsize=1K\n");
  Files::write(files.sources.user_file, "[defaults]\nrsize=2K\n");
  files.sources.options = "rsize=3K,,soft";
  CHECK(files.read() == "rsize=1K,rsize=2K,rsize=3K,soft");
  Files::write(files.path("other"), "[defaults]\nrsize=4K\n");
  files.sources.only = files.path("other");
  CHECK(files.read() == "rsize=4K,rsize=3K,soft");
  files.sources.only = "none";
  CHECK(files.read() == "rsize=3K,soft");
  CHECK(files.read(files.path("other")) == "rsize=4K,rsize=3K,soft");
  CHECK(files.read("none").empty());
  files.sources.options = "rsise=3K";
  CHECK(files.read() == "NFSRDMA_OPTIONS: unknown option 'rsise'; did you mean 'rsize'?");
  CHECK(files.read(files.path("missing")).find("No such file or directory") != std::string::npos);
}

TEST_CASE("configuration: a file that somebody else may have written is an error") {
  Files files;
  const std::string text = "[defaults]\nrsize=2K\n";
  Files::write(files.sources.user_file, text, 0664);
  CHECK(files.read().find("others may write the file, so its options are not used; run chmod go-w ") !=
        std::string::npos);
  Files::write(files.sources.user_file, text, 0642);
  CHECK(files.read().find("others may write the file") != std::string::npos);
  Files::write(files.sources.user_file, text, 0600);
  CHECK(files.read() == "rsize=2K");
  files.sources.user = files.sources.administrator = ::geteuid() + 1;
  if (::geteuid() == 0) {
    CHECK(files.read() == "rsize=2K");  // root's files count for everybody
    REQUIRE(::chown(files.sources.user_file.c_str(), 12345, 0) == 0);
    CHECK(files.read().find("the file belongs to user 12345") != std::string::npos);
    files.sources.administrator = 12345;  // as in a user namespace
    CHECK(files.read() == "rsize=2K");
  } else {
    CHECK(files.read().find("the file belongs to user ") != std::string::npos);
  }
}

TEST_CASE("configuration: only a regular file of a sensible size is read") {
  Files files;
  REQUIRE(::mkfifo(files.sources.system_file.c_str(), 0600) == 0);
  CHECK(files.read().find("name a regular file, or none") != std::string::npos);
  REQUIRE(::unlink(files.sources.system_file.c_str()) == 0);
  REQUIRE(::mkdir(files.sources.system_file.c_str(), 0700) == 0);
  CHECK(files.read().find("name a regular file, or none") != std::string::npos);
  files.sources.system_file = files.path("big");
  Files::write(files.sources.system_file, std::string((1U << 20) + 1, '#'));
  CHECK(files.read().find("File too large") != std::string::npos);
}

TEST_CASE("configuration: what was given counts more, and each value says where it comes from") {
  Files files;
  Files::write(files.sources.system_file, "[defaults]\nrsize=2K\nwsize=4K\nsoft\nsec=krb5\n");
  Options given;
  REQUIRE(given.set("wsize", "8K"));
  Result<Target> target = parse_target("nfs://host:2049/export?sec=sys", given);
  REQUIRE(target);
  REQUIRE(configure(*target, files.sources));
  const Options& options = target->options;
  CHECK(options.rsize == 2048);
  CHECK(options.wsize == 8192);
  CHECK(options.get("sec") == "sys");
  CHECK(options.origin("rsize") == files.sources.system_file + ":2");
  CHECK(options.origin("wsize") == "program");
  CHECK(options.origin("sec") == "target");
  CHECK(options.origin("port") == "target");
  CHECK(options.origin("crc") == "default");
}

TEST_CASE("configuration: a URL may refuse the files, and cannot choose one") {
  CHECK(parse_target("nfs://host/?config=none"));
  const auto chosen_file = parse_target("nfs://host/?config=/etc/shadow");
  REQUIRE_FALSE(chosen_file);
  CHECK(chosen_file.error().message().find("can only be none") != std::string::npos);
}

TEST_CASE("configuration: the environment names the user's file") {
  const auto user_file = [](const char* directory, const char* home) {
    directory != nullptr ? ::setenv("XDG_CONFIG_HOME", directory, 1) : ::unsetenv("XDG_CONFIG_HOME");
    home != nullptr ? ::setenv("HOME", home, 1) : ::unsetenv("HOME");
    return Sources::of_process().user_file;
  };
  const char* const before = ::getenv("HOME");
  const std::string home = before != nullptr ? before : "/";
  CHECK(user_file("/xdg", "/home/u") == "/xdg/nfsrdma.conf");
  CHECK(user_file("relative", "/home/u") == "/home/u/.config/nfsrdma.conf");
  CHECK(user_file(nullptr, nullptr).empty());
  CHECK(user_file(nullptr, home.c_str()) == home + "/.config/nfsrdma.conf");
}

}  // namespace nfsrdma::connect
