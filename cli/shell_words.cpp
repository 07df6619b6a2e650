// See shell_words.h.
#include "cli/shell_words.h"

#include <algorithm>
#include <cerrno>

#include "cli/glob.h"

namespace nfsrdma::cli {
namespace {

constexpr char quote_mark = '\0';

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// Reads a line character by character.
class Scanner {
 public:
  explicit Scanner(std::string_view line) : line_(line) {}

  [[nodiscard]] bool is_at_end() const { return at_ == line_.size(); }
  [[nodiscard]] char peek() const { return line_[at_]; }
  [[nodiscard]] std::size_t position() const { return at_; }
  char take() { return line_[at_++]; }
  std::string_view take_rest() {
    const std::string_view rest = line_.substr(at_);
    at_ = line_.size();
    return rest;
  }
  void skip_blanks() {
    while (!is_at_end() && is_blank(peek())) ++at_;
  }
  /// Takes a word. `is_open`: a quote was not closed.
  ShellWord take_word(bool& is_open) {
    ShellWord out;
    is_open = false;
    while (!is_at_end() && !is_open && !is_blank(peek()) && peek() != ';') take_part(out, is_open);
    return out;
  }

 private:
  static void add_quoted(ShellWord& out, char c) {
    if (is_special_in_glob(c)) out += quote_mark;
    out += c;
  }
  void take_part(ShellWord& out, bool& is_open) {
    const char c = take();
    if (c == '\'' || c == '"') return take_quoted(out, c, is_open);
    if (c != '\\') {
      out += c;
    } else if (is_at_end()) {
      is_open = true;
    } else {
      add_quoted(out, take());
    }
  }
  void take_quoted(ShellWord& out, char quote, bool& is_open) {
    while (!is_at_end()) {
      const char c = take();
      if (c == quote) return;
      const bool escapes = quote == '"' && c == '\\' && !is_at_end() &&
                           std::string_view("\"\\$`").find(peek()) != std::string_view::npos;
      add_quoted(out, escapes ? take() : c);
    }
    is_open = true;
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

Error open_quote() {
  return {ErrorKind::usage, EINVAL, "", "",
          "a quote is not closed; close it, or write a backslash before a quote that is part of a name"};
}

void add_command(ShellCommand& command, std::vector<ShellCommand>& out) {
  if (command.is_local || !command.words.empty()) out.push_back(std::move(command));
  command = {};
}

void add_component(std::string_view component, std::string& out) {
  if (component.empty() || component == ".") return;
  if (component == "..") {
    out.resize(out.empty() ? 0 : out.rfind('/'));
  } else {
    out += '/';
    out += component;
  }
}

}  // namespace

std::string plain(const ShellWord& word) {
  std::string out = word;
  std::erase(out, quote_mark);
  return out;
}

std::string for_pattern(const ShellWord& word) {
  std::string out = word;
  std::ranges::replace(out, quote_mark, '\\');
  return out;
}

Result<std::vector<ShellCommand>> split_line(std::string_view line) {
  if (line.find(quote_mark) != std::string_view::npos)
    return Error(ErrorKind::usage, EINVAL, "", "", "the line contains a NUL character; remove it");
  std::vector<ShellCommand> out;
  ShellCommand command;
  for (Scanner scanner(line);;) {
    scanner.skip_blanks();
    if (scanner.is_at_end() || scanner.peek() == '#') break;
    if (scanner.peek() == ';') {
      scanner.take();
      add_command(command, out);
    } else if (scanner.peek() == '!' && command.words.empty()) {
      scanner.take();
      command.is_local = true;
      command.local = scanner.take_rest();
    } else {
      bool is_open = false;
      command.words.push_back(scanner.take_word(is_open));
      if (is_open) return open_quote();
    }
  }
  add_command(command, out);
  return out;
}

UnfinishedWord word_at_end(std::string_view line) {
  UnfinishedWord out;
  out.begin = line.size();
  for (Scanner scanner(line);;) {
    scanner.skip_blanks();
    if (scanner.is_at_end()) return out;
    if (scanner.peek() == ';') {
      scanner.take();
      out.before.clear();
      continue;
    }
    const std::size_t begin = scanner.position();
    bool is_open = false;
    std::string word = plain(scanner.take_word(is_open));
    if (!scanner.is_at_end()) {
      out.before.push_back(std::move(word));
      continue;
    }
    out.text = std::move(word);
    out.begin = begin;
    return out;
  }
}

std::string with_backslashes(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_blank(c) || std::string_view("'\"\\;#!*?[]{}$`&|<>()~").find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

std::string resolved_path(std::string_view directory, std::string_view path) {
  std::string out;
  const bool keeps_slash = path.ends_with('/');
  for (std::string_view rest : {path.starts_with('/') ? std::string_view() : directory, path}) {
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('/'), rest.size());
      add_component(rest.substr(0, end), out);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return keeps_slash || out.empty() ? out + "/" : out;
}

}  // namespace nfsrdma::cli
