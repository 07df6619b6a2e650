// What users of nfsrdma-cli write: sizes, modes, owners, times, command lines.
#include "cli/parse.h"

#include <doctest/doctest.h>

#include <array>
#include <ctime>
#include <limits>

#include "cli/command_line.h"

using namespace nfsrdma;
using namespace nfsrdma::cli;

namespace {

std::uint32_t changed(std::string_view text, std::uint32_t mode, bool directory = false,
                      std::uint32_t mask = 022) {
  const auto change = ModeChange::parse(text);
  REQUIRE_MESSAGE(change.has_value(), text);
  return change->apply(mode, directory, mask);
}

constexpr auto switches = std::to_array<Switch>({
    {'a', "all", nullptr, "everything"},
    {'c', "count", "N", "so many"},
});
const Command command = {"try", nullptr, "TARGET...", "tries", switches, 1, 3, true, false};
const Command mode_command = {"chmod", nullptr, "MODE TARGET...", "modes", {}, 2, any_number, false, true};

std::string usage_of(const Command& which, std::vector<std::string> words) {
  const Result<Arguments> arguments = parse_arguments(which, std::move(words));
  REQUIRE_FALSE(arguments.has_value());
  CHECK(arguments.error().kind() == ErrorKind::usage);
  return arguments.error().message();
}

}  // namespace

TEST_CASE("cli: sizes") {
  CHECK(parse_size("0") == 0U);
  CHECK(parse_size("512") == 512U);
  CHECK(parse_size("64K") == 65536U);
  CHECK(parse_size("64k") == 65536U);
  CHECK(parse_size("1MiB") == 1048576U);
  CHECK(parse_size("1MB") == 1000000U);
  CHECK(parse_size("15E") == 15ULL << 60);
  for (const char* bad :
       {"", "K", "1X", "1KK", "-1", "+1", " 1", "1 ", "16E", "18446744073709551616", "1.5K", "0x10"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_size(bad));
  }
}

TEST_CASE("cli: size changes") {
  CHECK(parse_size_change("10")->apply(99) == 10U);
  CHECK(parse_size_change("+1K")->apply(1) == 1025U);
  CHECK(parse_size_change("-512")->apply(1000) == 488U);
  CHECK(parse_size_change("-512")->apply(100) == 0U);
  CHECK_FALSE(parse_size_change("+1")->apply(UINT64_MAX));
  CHECK_FALSE(parse_size_change("--1"));
  CHECK_FALSE(parse_size_change("+"));
}

TEST_CASE("cli: octal modes") {
  CHECK(changed("644", 0) == 0644);
  CHECK(changed("0", 0777) == 0);
  CHECK(changed("07777", 0) == 07777);
  CHECK_FALSE(ModeChange::parse("644")->relative());
  for (const char* bad :
       {"", "8", "10000", "77777", "000644x", "u", "u+q", "+,", "u+x,", ",u+x", "z+x", "u+x g+x"}) {
    CAPTURE(bad);
    CHECK_FALSE(ModeChange::parse(bad));
  }
}

TEST_CASE("cli: symbolic modes") {
  CHECK(changed("u+x", 0644) == 0744);
  CHECK(changed("go-rwx", 0755) == 0700);
  CHECK(changed("a=r", 0777) == 0444);
  CHECK(changed("u=rw,go=r", 0) == 0644);
  CHECK(changed("u+x,g+w", 0600) == 0720);
  CHECK(changed("u+r-w", 0200) == 0400);
  CHECK(changed("g=u", 0640) == 0660);
  CHECK(changed("o=", 0647) == 0640);
  CHECK(changed("u+s", 0755) == 04755);
  CHECK(changed("g+s", 0755) == 02755);
  CHECK(changed("o+s", 0755) == 0755);
  CHECK(changed("+t", 0755) == 01755);
  CHECK(changed("ug-s", 06755) == 0755);
  CHECK(ModeChange::parse("u+x")->relative());
}

TEST_CASE("cli: who is not named gets what the umask leaves") {
  CHECK(changed("+w", 0444) == 0644);
  CHECK(changed("+w", 0444, false, 0) == 0666);
  CHECK(changed("a+w", 0444) == 0666);
  CHECK(changed("-w", 0666, false, 022) == 0466);
  CHECK(changed("=rw", 0777) == 0644);
}

TEST_CASE("cli: X is for directories and what can be executed") {
  CHECK(changed("a+X", 0644) == 0644);
  CHECK(changed("a+X", 0744) == 0755);
  CHECK(changed("a+X", 0644, true) == 0755);
  CHECK(changed("u=rwX,go=rX", 0, true) == 0755);
  CHECK(changed("g=rx", 02770, true) == 02750);  // '=' leaves a directory's set-group-id
}

TEST_CASE("cli: owners") {
  CHECK(parse_ownership("1000")->uid == 1000U);
  CHECK_FALSE(parse_ownership("1000")->gid);
  CHECK(parse_ownership("1000:100")->gid == 100U);
  CHECK_FALSE(parse_ownership(":100")->uid);
  CHECK(parse_ownership("root")->uid == 0U);
  CHECK(parse_ownership("root:")->gid == 0U);
  CHECK_FALSE(parse_ownership(""));
  CHECK_FALSE(parse_ownership(":"));
  CHECK_FALSE(parse_ownership("4294967295"));
  CHECK(parse_ownership("no-such-user-here").error().message().find("no-such-user-here") !=
        std::string::npos);
}

TEST_CASE("cli: dates") {
  CHECK(parse_date("@0") == Time{0, 0});
  CHECK(parse_date("@1700000000.5") == Time{1700000000, 500000000});
  CHECK(parse_date("@-1.25") == Time{-2, 750000000});
  CHECK(parse_date("2000-01-01T00:00:00Z") == Time{946684800, 0});
  CHECK(parse_date("2000-01-01 00:00:00.000000001Z") == Time{946684800, 1});
  CHECK(parse_date("2000-01-01Z") == Time{946684800, 0});
  CHECK(parse_date("now")->seconds >= std::time(nullptr) - 1);
  for (const char* bad :
       {"", "@", "@x", "yesterday", "2000-13-01", "2001-02-29", "2000-01-01 24:00", "2000-01-01 00:60",
        "2000-01-01T00:00:00+01", "2000-1-1", "2000-01-01 00:00:61", "2000-01-01 00:00:00."}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_date(bad));
  }
}

TEST_CASE("cli: stamps of touch -t") {
  CHECK(parse_stamp("200001020304.05") == parse_date("2000-01-02 03:04:05"));
  CHECK(parse_stamp("9901020304") == parse_date("1999-01-02 03:04"));
  CHECK(parse_stamp("6801020304") == parse_date("2068-01-02 03:04"));
  CHECK(parse_stamp("01020304").has_value());
  for (const char* bad :
       {"", "1", "000013010000", "20000102030", "200001020304.", "200001020304.5", "2000010203xx"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_stamp(bad));
  }
}

TEST_CASE("cli: seconds and their fractions, as far as there are any") {
  CHECK(parse_date("@-1.5") == Time{-2, 500'000'000});
  CHECK(parse_date("@-0.25") == Time{-1, 750'000'000});
  CHECK(parse_date("@-9223372036854775808") == Time{std::numeric_limits<std::int64_t>::min(), 0});
  CHECK_FALSE(parse_date("@-9223372036854775808.5"));
  CHECK_FALSE(parse_date("@9223372036854775808"));
}

TEST_CASE("cli: counts and intervals") {
  CHECK(parse_count("3") == 3U);
  CHECK_FALSE(parse_count("0"));
  CHECK_FALSE(parse_count("3x"));
  CHECK(parse_interval("0.2") == std::chrono::milliseconds(200));
  for (const char* bad : {"0", "-1", "nan", "inf", "1s", "86400", ""}) CHECK_FALSE(parse_interval(bad));
}

TEST_CASE("cli: a command line") {
  const Result<Arguments> arguments = parse_arguments(
      command, {"-ac", "5", "h:/x", "--json", "-o", "rsize=8K", "-", "-o", "crc=on", "--", "-y"});
  REQUIRE(arguments.has_value());
  CHECK(arguments->has("all"));
  CHECK(arguments->has("json"));
  CHECK_FALSE(arguments->has("count2"));
  CHECK(arguments->value("count") == "5");
  CHECK(arguments->operands == std::vector<std::string>{"h:/x", "-", "-y"});
  CHECK(arguments->base.get("rsize") == "8192");
  CHECK(arguments->base.get("crc") == "on");
}

TEST_CASE("cli: wrong command lines name what is wrong") {
  CHECK(usage_of(command, {}).find("needs TARGET...") != std::string::npos);
  CHECK(usage_of(command, {"a", "b", "c", "d"}).find("'d'") != std::string::npos);
  CHECK(usage_of(command, {"--bogus", "x"}).find("--bogus") != std::string::npos);
  CHECK(usage_of(command, {"-z", "x"}).find("-z") != std::string::npos);
  CHECK(usage_of(command, {"x", "--count"}).find("--count") != std::string::npos);
  CHECK(usage_of(command, {"--al", "x"}).find("--al") != std::string::npos);  // no guessing
  CHECK(usage_of(command, {"--operand=y"}).find("try --help") != std::string::npos);
  CHECK(usage_of(command, {"-o", "rsiz=1", "x"}).find("did you mean 'rsize'?") != std::string::npos);
  CHECK(parse_arguments(command, {"--help"})->help);
}

TEST_CASE("cli: the mode of chmod may look like an option") {
  const Result<Arguments> arguments = parse_arguments(mode_command, {"-x,g+w", "h:/f", "-o", "vers=4.1"});
  REQUIRE(arguments.has_value());
  CHECK(arguments->operands == std::vector<std::string>{"-x,g+w", "h:/f"});
  CHECK(arguments->base.get("vers") == "4.1");
  CHECK(usage_of(mode_command, {"-q", "h:/f"}).find("-q") != std::string::npos);
}

TEST_CASE("cli: help shows every option of a command and of the connection") {
  const std::string help = help_text(command);
  for (const char* part : {"usage: nfsrdma-cli try", "-a, --all", "-c, --count N", "--json", "-o, --options",
                           "--help", "rsize", "fabric"}) {
    CHECK(help.find(part) != std::string::npos);
  }
}
