// What nfsrdma-cli prints: sizes, times, modes, JSON, the progress line.
#include "cli/format.h"

#include <doctest/doctest.h>

#include "cli/json.h"
#include "cli/local.h"
#include "cli/progress.h"
#include "cli/servers.h"
#include "cli/transfer.h"

using namespace nfsrdma;
using namespace nfsrdma::cli;
using namespace std::chrono_literals;

TEST_CASE("cli: human sizes round up, as ls -h") {
  CHECK(human_size(0) == "0");
  CHECK(human_size(1023) == "1023");
  CHECK(human_size(1024) == "1.0K");
  CHECK(human_size(1025) == "1.1K");
  CHECK(human_size(10240) == "10K");
  CHECK(human_size(10241) == "11K");
  CHECK(human_size((1U << 20) - 1) == "1.0M");
  CHECK(human_size(UINT64_MAX) == "16E");
}

TEST_CASE("cli: binary sizes keep three digits") {
  CHECK(binary_size(0) == "0 B");
  CHECK(binary_size(999) == "999 B");
  CHECK(binary_size(1536) == "1.50 KiB");
  CHECK(binary_size(15.25 * 1024) == "15.2 KiB");
  CHECK(binary_size(950.0 * 1024 * 1024) == "950 MiB");
}

TEST_CASE("cli: clock times") {
  CHECK(clock_time(0s) == "0:00");
  CHECK(clock_time(725s) == "12:05");
  CHECK(clock_time(3723s) == "1:02:03");
}

TEST_CASE("cli: mode strings") {
  CHECK(mode_string(FileType::regular, 0644) == "-rw-r--r--");
  CHECK(mode_string(FileType::directory, 01777) == "drwxrwxrwt");
  CHECK(mode_string(FileType::regular, 06755) == "-rwsr-sr-x");
  CHECK(mode_string(FileType::regular, 07000) == "---S--S--T");
  CHECK(mode_string(FileType::symlink, 0777) == "lrwxrwxrwx");
  CHECK(octal_mode(0644) == "0644");
  CHECK(octal_mode(0106755) == "6755");
}

TEST_CASE("cli: times before 1970 are one decimal number") {
  CHECK(decimal_time({1700000000, 5}) == "1700000000.000000005");
  CHECK(decimal_time({-1, 500000000}) == "-0.500000000");
  CHECK(decimal_time({-2, 500000000}) == "-1.500000000");
  CHECK(decimal_time({-2, 0}) == "-2.000000000");
}

TEST_CASE("cli: ls shows the hour of recent times and the year of others") {
  constexpr std::int64_t now = 1700000000;
  CHECK(list_time({now - 60, 0}, now).find(':') != std::string::npos);
  CHECK(list_time({now - 200LL * 86400, 0}, now).ends_with("  2023"));
  CHECK(list_time({now + 3600, 0}, now).find(':') == std::string::npos);
  CHECK_FALSE(list_time({INT64_MAX, 0}, now).empty());  // no calendar has it
}

TEST_CASE("cli: names cannot move the cursor") {
  CHECK(printable("a\x1b[2J\n\x7f"
                  "b") == "a?[2J??b");
  CHECK(printable("\xc2\x9b"
                  "2J\x9b"
                  "2J\xc3\xa9") == "?2J?2J\xc3\xa9");
}

TEST_CASE("cli: checksums have one line each, as sha256sum's") {
  CHECK(checksum_line("3a6e", "/a b\tc") == "3a6e  /a b\tc");
  CHECK(checksum_line("3a6e", "/a\nb\\c\rd") == R"(\3a6e  /a\nb\\c\rd)");
}

TEST_CASE("cli json: escapes") {
  CHECK(json::quoted("a\"b\\c/") == R"("a\"b\\c/")");
  CHECK(json::quoted(std::string_view("\0\x1f\n\t\r\b\f\x7f", 8)) == R"("\u0000\u001f\n\t\r\b\f\u007f")");
  CHECK(json::quoted("caf\xc3\xa9 \xf0\x9f\x92\xbe") == "\"caf\xc3\xa9 \xf0\x9f\x92\xbe\"");
}

TEST_CASE("cli json: ill-formed UTF-8 is replaced, and given in hexadecimal beside it") {
  for (const char* bad : {"\xff", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\x80", "\xe2\x82", "\xf5\x80\x80\x80"}) {
    CAPTURE(bad);
    CHECK_FALSE(json::valid_utf8(bad));
    CHECK(json::valid_utf8(json::quoted(bad)));
  }
  CHECK(json::quoted("a\xff"
                     "b") ==
        "\"a\xef\xbf\xbd"
        "b\"");
  CHECK(json::quoted("\xc3(") == "\"\xef\xbf\xbd(\"");
  CHECK(json::Object().text("name", "x\xff").str() == "{\"name\":\"x\xef\xbf\xbd\",\"name_hex\":\"78ff\"}");
  CHECK(json::valid_utf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST_CASE("cli json: members in order") {
  json::Object object;
  object.text("a", "x").number("b", std::uint64_t{18446744073709551615U}).boolean("c", false).null("d");
  CHECK(object.str() == R"({"a":"x","b":18446744073709551615,"c":false,"d":null})");
  CHECK(json::Object().str() == "{}");
}

TEST_CASE("cli progress: the rate follows, and forgets") {
  RateMeter meter;
  CHECK_FALSE(meter.remaining(1));
  meter.update(1000, RateMeter::Seconds(1));
  CHECK(meter.rate() == doctest::Approx(1000));
  CHECK(meter.remaining(2500) == 3s);
  meter.update(5000, RateMeter::Seconds(1.01));  // too soon to tell: taken with the next
  CHECK(meter.rate() == doctest::Approx(1000));
  for (int i = 2; i < 12; ++i) meter.update(1000, RateMeter::Seconds(i));
  CHECK(meter.rate() < 10);  // stalled
}

TEST_CASE("cli progress: the line fits every width") {
  ProgressState state{"a-rather-long-file-name.bin", 42U << 20, 100U << 20, 1e9, 12s, 3s};
  for (std::size_t width = 0; width < 200; ++width) {
    CAPTURE(width);
    CHECK(progress_line(state, width).size() <= width);
  }
  const std::string wide = progress_line(state, 120);
  CHECK(wide.starts_with("a-rather-long-file-name.bin   42%  [="));
  CHECK(wide.ends_with("ETA 0:12"));
  CHECK(progress_line(state, 50).find('[') == std::string::npos);
  state.total.reset();
  CHECK(progress_line(state, 120).find('%') == std::string::npos);
  state.total = 0;
  state.done = 0;
  CHECK(progress_line(state, 120).find("100%") != std::string::npos);
  state.total = 1;
  state.done = 5;  // the file has grown meanwhile
  CHECK(progress_line(state, 120).find("100%") != std::string::npos);
}

TEST_CASE("cli: paths") {
  CHECK(join("/", "a") == "/a");
  CHECK(join("/a", "b") == "/a/b");
  CHECK(base_name("/a/b") == "b");
  CHECK(base_name("/a/b//") == "b");
  CHECK(base_name("/") == "");
  CHECK(base_name("a") == "a");
  CHECK(directory_name("/a/b/") == "/a");
  CHECK(directory_name("/a//b") == "/a");
  CHECK(directory_name("/a") == "/");
  CHECK(directory_name("a") == ".");
}

TEST_CASE("cli: names of temporaries fit") {
  CHECK(temporary_template("x") == ".x.nfsrdma-XXXXXX");
  CHECK(temporary_template(std::string(255, 'n')).size() == 255);
}

TEST_CASE("cli: as many requests as the way needs, and no more buffers than the file") {
  constexpr std::size_t mib = 1U << 20;
  CHECK(choose_depth(mib, 64, {}).requests == 16);
  CHECK(choose_depth(4096, 64, {}).requests == 64);     // as many as the session lets us
  CHECK(choose_depth(16 * mib, 64, {}).requests == 8);  // not fewer, however large
  CHECK(choose_depth(mib, 0, {}).requests == 1);
  CHECK(choose_depth(mib, 64, {}).places == 24);
  CHECK(choose_depth(mib, 64, {}).buffers == 24 + 64);
  CHECK(choose_depth(mib, 64, 0).places == 1);
  CHECK(choose_depth(mib, 64, 0).buffers == 1);
  CHECK(choose_depth(mib, 64, mib).places == 2);
  CHECK(choose_depth(16 * mib, 64, {}).buffers > choose_depth(16 * mib, 64, {}).places);
}

TEST_CASE("format: a word for a shell is quoted where it must be, and can always be printed") {
  using cli::shell_word;
  CHECK(shell_word("S:/a-b_c.d,e=f@g%20") == "S:/a-b_c.d,e=f@g%20");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("a*?~&") == "'a*?~&'");
  CHECK(shell_word("two\nlines") == "$'two\\x0alines'");
  CHECK(shell_word("\x1b\\'\xff") == "$'\\x1b\\\\\\'\\xff'");
}
