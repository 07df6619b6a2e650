// Lists as text: the forms of getfacl(1) and of nfs4_getfacl(1), with their order of letters.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>

#include "acl/lists.h"

namespace nfsrdma::acl {
namespace {

struct Letter {
  char letter;
  std::uint32_t bits;
};
/// ACE types (RFC 8881 6.2.1.1).
constexpr auto kTypes = std::to_array<Letter>({{'A', 0}, {'D', 1}, {'U', 2}, {'L', 3}});
/// ACE flags (RFC 8881 6.2.1.4); O is ACE4_INHERITED_ACE (6.4.3.2), which nfs4_getfacl does not show.
constexpr auto kFlags = std::to_array<Letter>(
    {{'f', 0x01}, {'d', 0x02}, {'n', 0x04}, {'i', 0x08}, {'S', 0x10}, {'F', 0x20}, {'g', 0x40}, {'O', 0x80}});
/// ACE permissions (RFC 8881 6.2.1.3).
constexpr auto kMask = std::to_array<Letter>({{'r', 0x1},
                                              {'w', 0x2},
                                              {'a', 0x4},
                                              {'D', 0x40},
                                              {'d', 0x10000},
                                              {'x', 0x20},
                                              {'t', 0x80},
                                              {'T', 0x100},
                                              {'n', 0x8},
                                              {'N', 0x10},
                                              {'c', 0x20000},
                                              {'C', 0x40000},
                                              {'o', 0x80000},
                                              {'y', 0x100000}});
/// Abbreviations of nfs4_setfacl(1): rntcy, watTNcCy, xtcy. "D", which that program adds to W for
/// directories, must be given.
constexpr auto kAliases = std::to_array<Letter>({{'R', 0x120089}, {'W', 0x160196}, {'X', 0x1200a0}});

Error malformed(std::string_view entry, const std::string& why) {
  return {ErrorKind::usage, EINVAL, "acl", "",
          "'" + std::string(entry) + "' is not a valid ACL entry: " + why};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Calls f(part) for each part between `separators`, until f returns an Error.
template <class F>
Status for_each_part(std::string_view text, std::string_view separators, const F& f) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (Status good = f(text.substr(0, end)); !good) return good;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// ---- NFSv4 ----

void add_letters(std::string& out, std::uint32_t bits, std::span<const Letter> letters) {
  for (const Letter& one : letters) {
    if ((bits & one.bits) == one.bits) out += one.letter;
  }
}

std::string ace_text(const Nfs4Ace& ace) {
  std::string out(1, '?');
  for (const Letter& type : kTypes) {
    if (ace.type == type.bits) out[0] = type.letter;
  }
  out += ':';
  add_letters(out, ace.flags, kFlags);
  out += ':' + ace.who + ':';
  add_letters(out, ace.mask, kMask);
  return out + '\n';
}

std::optional<std::uint32_t> bits_of(char letter, std::span<const Letter> letters) {
  for (const Letter& one : letters) {
    if (one.letter == letter) return one.bits;
  }
  return std::nullopt;
}

bool read_letters(std::string_view text, std::span<const Letter> letters, std::span<const Letter> aliases,
                  std::uint32_t& out) {
  for (const char letter : text) {
    auto bits = bits_of(letter, letters);
    if (!bits) bits = bits_of(letter, aliases);
    if (!bits) return false;
    out |= *bits;
  }
  return true;
}

Status read_ace(std::string_view entry, Nfs4Acl& out) {
  const std::size_t flags = entry.find(':');
  const std::size_t who = flags == std::string_view::npos ? flags : entry.find(':', flags + 1);
  const std::size_t mask = entry.rfind(':');
  if (who == std::string_view::npos || mask == who)
    return malformed(entry, "write it as A:flags:principal:permissions");
  const auto type = flags == 1 ? bits_of(entry[0], kTypes) : std::nullopt;
  if (!type) return malformed(entry, "it must begin with A, D, U or L");
  Nfs4Ace ace;
  ace.type = *type;
  if (!read_letters(entry.substr(flags + 1, who - flags - 1), kFlags, {}, ace.flags))
    return malformed(entry, "its flags must be letters of fdniSFg");
  ace.who = entry.substr(who + 1, mask - who - 1);
  if (ace.who.empty()) return malformed(entry, "it names no principal");
  if (!read_letters(entry.substr(mask + 1), kMask, kAliases, ace.mask))
    return malformed(entry, "its permissions must be letters of rwaDdxtTnNcCoy, or R, W and X");
  out.push_back(std::move(ace));
  return {};
}

Result<Acl> read_nfs4(std::string_view text) {
  Nfs4Acl out;
  const Status good = for_each_part(text, "\n", [&out](std::string_view line) -> Status {
    if (trimmed(line).starts_with('#')) return {};
    return for_each_part(line, ",\t", [&out](std::string_view part) -> Status {
      part = trimmed(part);
      return part.empty() ? Status() : read_ace(part, out);
    });
  });
  if (!good) return good.error();
  return Acl(std::move(out));
}

// ---- POSIX ----

std::string permissions_text(std::uint32_t permissions) {
  std::string out = "---";
  if ((permissions & 4U) != 0) out[0] = 'r';
  if ((permissions & 2U) != 0) out[1] = 'w';
  if ((permissions & 1U) != 0) out[2] = 'x';
  return out;
}

std::string class_name(AclTag tag) {
  switch (tag) {
    case AclTag::owner:
    case AclTag::user:
      return "user";
    case AclTag::owning_group:
    case AclTag::group:
      return "group";
    case AclTag::mask:
      return "mask";
    case AclTag::other:
      break;
  }
  return "other";
}

std::string list_text(const PosixAcl& list, const std::string& prefix, const AclNames& names) {
  std::uint32_t mask = 7;
  for (const PosixAce& ace : list) {
    if (ace.tag == AclTag::mask) mask = ace.permissions;
  }
  std::string out;
  for (const PosixAce& ace : list) {
    const bool named = ace.tag == AclTag::user || ace.tag == AclTag::group;
    out += prefix + class_name(ace.tag) + ":";
    if (named) out += names.name ? names.name(ace.tag == AclTag::group, ace.id) : std::to_string(ace.id);
    out += ":" + permissions_text(ace.permissions);
    const bool bounded = named || ace.tag == AclTag::owning_group;
    if (bounded && (ace.permissions & ~mask) != 0)
      out += "\t#effective:" + permissions_text(ace.permissions & mask);
    out += '\n';
  }
  return out;
}

std::optional<std::uint32_t> read_permissions(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '7') return static_cast<std::uint32_t>(text[0] - '0');
  std::uint32_t out = 0;
  for (const char letter : text) {
    if (letter == '-') continue;
    const auto bit = std::string_view("xwr").find(letter);
    if (bit == std::string_view::npos) return std::nullopt;
    out |= 1U << bit;
  }
  if (text.empty()) return std::nullopt;
  return out;
}

std::optional<std::uint32_t> read_id(bool group, std::string_view text, const AclNames& names) {
  std::uint32_t out = 0;
  const auto [at, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (fault == std::errc() && at == text.data() + text.size()) return out;
  if (!names.id) return std::nullopt;
  return names.id(group, std::string(text));
}

/// Returns true for a word of setfacl and for its first letter: "user" and "u".
bool is_word(std::string_view text, std::string_view word) {
  return text == word || (text.size() == 1 && text[0] == word[0]);
}

Status read_entry(std::string_view entry, PosixAcls& out, const AclNames& names) {
  std::vector<std::string_view> words;
  for (std::string_view rest = entry;; rest.remove_prefix(words.back().size() + 1)) {
    words.push_back(rest.substr(0, rest.find(':')));
    if (words.back().size() == rest.size()) break;
  }
  const bool inherited = is_word(trimmed(words[0]), "default");
  if (inherited) words.erase(words.begin());
  // "mask:rwx" and "other:rwx" are accepted, too.
  if (words.size() == 2) words.insert(words.begin() + 1, std::string_view());
  if (words.size() != 3) return malformed(entry, "write it as user:NAME:rwx, or default:user:NAME:rwx");
  for (std::string_view& word : words) word = trimmed(word);
  PosixAce ace;
  const bool named = !words[1].empty();
  if (is_word(words[0], "user")) {
    ace.tag = named ? AclTag::user : AclTag::owner;
  } else if (is_word(words[0], "group")) {
    ace.tag = named ? AclTag::group : AclTag::owning_group;
  } else if (is_word(words[0], "mask") && !named) {
    ace.tag = AclTag::mask;
  } else if (is_word(words[0], "other") && !named) {
    ace.tag = AclTag::other;
  } else {
    return malformed(entry, "it must begin with user, group, mask or other");
  }
  const auto permissions = read_permissions(words[2]);
  if (!permissions) return malformed(entry, "its permissions must be letters of rwx-, or a digit up to 7");
  ace.permissions = *permissions;
  if (named) {
    const auto id = read_id(ace.tag == AclTag::group, words[1], names);
    if (!id) return malformed(entry, "this machine does not know the name; give a number");
    ace.id = *id;
  }
  (inherited ? out.inherited : out.access).push_back(ace);
  return {};
}

Result<Acl> read_posix(std::string_view text, const AclNames& names) {
  PosixAcls out;
  const Status good = for_each_part(text, "\n", [&](std::string_view line) {
    return for_each_part(line.substr(0, line.find('#')), ",", [&](std::string_view part) -> Status {
      part = trimmed(part);
      return part.empty() ? Status() : read_entry(part, out, names);
    });
  });
  if (!good) return good.error();
  return Acl(std::move(out));
}

/// Recognizes the form of a list by the first line that is no comment.
bool is_nfs4(std::string_view text) {
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty() && line[0] != '#')
      return line.size() > 1 && line[1] == ':' && bits_of(line[0], kTypes).has_value();
    if (end == text.size()) return false;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string text(const Acl& acl, const AclNames& names) {
  if (const auto* lists = std::get_if<PosixAcls>(&acl))
    return list_text(lists->access, "", names) + list_text(lists->inherited, "default:", names);
  std::string out;
  for (const Nfs4Ace& ace : std::get<Nfs4Acl>(acl)) out += ace_text(ace);
  return out;
}

Result<Acl> parse(std::string_view text, const AclNames& names) {
  return is_nfs4(text) ? read_nfs4(text) : read_posix(text, names);
}

}  // namespace nfsrdma::acl
