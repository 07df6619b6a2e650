// Lines of the shell: words, quotes, commands, and the word at the cursor.
#include "cli/shell_words.h"

#include <doctest/doctest.h>

namespace nfsrdma::cli {
namespace {

/// The words of a line with "|" around them, and ";" between commands; "!" before a local line.
std::string split(std::string_view line) {
  const auto commands = split_line(line);
  if (!commands) return "error";
  std::string out;
  for (const ShellCommand& one : *commands) {
    if (!out.empty()) out += ";";
    if (one.is_local) out += "!" + one.local;
    for (const ShellWord& word : one.words) out += "|" + plain(word);
    if (!one.words.empty()) out += "|";
  }
  return out;
}

std::string pattern_of_first(std::string_view line) {
  const auto commands = split_line(line);
  return commands ? for_pattern(commands->front().words.front()) : "error";
}

}  // namespace

TEST_CASE("shell words: blanks, quotes, backslashes and comments as in sh") {
  CHECK(split("ls -l  'my dir'\tb") == "|ls|-l|my dir|b|");
  CHECK(split("a\"b c\"'d'\\ e") == "|ab cd e|");
  CHECK(split("\"a\\\"b\\\\c\\d\"") == "|a\"b\\c\\d|");
  CHECK(split("'' \"\"") == "|||");
  CHECK(split("a # b") == "|a|");
  CHECK(split("a#b") == "|a#b|");
  CHECK(split("").empty());
  CHECK(split("  \t").empty());
  CHECK(split("# all") == "");
}

TEST_CASE("shell words: several commands in a line, and lines for the local shell") {
  CHECK(split("cd a;ls;") == "|cd|a|;|ls|");
  CHECK(split(";; a ;") == "|a|");
  CHECK(split("ls 'a;b'") == "|ls|a;b|");
  CHECK(split("!ls | grep 'x; #") == "!ls | grep 'x; #");
  CHECK(split("pwd; ! date; date") == "|pwd|;! date; date");
  CHECK(split("echo !x") == "|echo|!x|");
}

TEST_CASE("shell words: a quote that is not closed is an error, and so is a NUL") {
  CHECK(split("a 'b") == "error");
  CHECK(split("a \"b'") == "error");
  CHECK(split("a \\") == "error");
  CHECK(split(std::string_view("a\0b", 3)) == "error");
}

TEST_CASE("shell words: quoted special characters are ordinary in a pattern") {
  CHECK(pattern_of_first("*.c") == "*.c");
  CHECK(pattern_of_first("'*.c'") == "\\*.c");
  CHECK(pattern_of_first("a\\*'[b]'*") == "a\\*\\[b\\]*");
  CHECK(pattern_of_first("\"a\\\\b\"") == "a\\\\b");
}

TEST_CASE("shell words: the word at the cursor, for completion") {
  const auto at = [](std::string_view line) {
    const UnfinishedWord word = word_at_end(line);
    std::string out;
    for (const std::string& one : word.before) out += one + "|";
    return out + word.text + "@" + std::to_string(word.begin);
  };
  CHECK(at("") == "@0");
  CHECK(at("l") == "l@0");
  CHECK(at("ls ") == "ls|@3");
  CHECK(at("ls my\\ d") == "ls|my d@3");
  CHECK(at("ls 'my d") == "ls|my d@3");
  CHECK(at("cd a; get b/c") == "get|b/c@10");
  CHECK(with_backslashes("my dir*'x'") == "my\\ dir\\*\\'x\\'");
  const auto again = split_line(with_backslashes("a b;c#d\\e\"f[g]"));
  REQUIRE(again);
  CHECK(plain(again->front().words.front()) == "a b;c#d\\e\"f[g]");
}

TEST_CASE("shell words: paths are resolved by their names") {
  CHECK(resolved_path("/a/b", "c") == "/a/b/c");
  CHECK(resolved_path("/a/b", "../c/./d") == "/a/c/d");
  CHECK(resolved_path("/a/b", "/x") == "/x");
  CHECK(resolved_path("/a", "../../..") == "/");
  CHECK(resolved_path("/", ".") == "/");
  CHECK(resolved_path("/a", "b/") == "/a/b/");
  CHECK(resolved_path("/a", "..") == "/");
}

}  // namespace nfsrdma::cli
