// Parses targets: "nfs://host[:port]/path?opt=val&opt=val" (after RFC 2224, with an absolute path) and
// "host:/path", the form of mount(8).
//
// Only the URL is percent-decoded (RFC 3986 2.1). "host:/path" is taken literally, so that any byte that a
// file name may have can be typed. In both forms an IPv6 address stands in brackets, with its zone after '%'
// ("%25" in a URL, RFC 6874).
#include <algorithm>
#include <cerrno>
#include <charconv>

#include "connect/options.h"

namespace nfsrdma::connect {
namespace {

constexpr std::string_view scheme = "nfs://";

Error usage(std::string_view text, std::string_view message) {
  return {ErrorKind::usage, EINVAL, "", "", "'" + std::string(text) + "': " + std::string(message)};
}

/// Returns nothing if a '%' is not followed by two digits, or stands for a NUL, which no name can have.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    const auto parsed = std::from_chars(digits, digits + 2, byte, 16);
    if (parsed.ptr != digits + 2 || byte == 0) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

/// Removes "[address]" from the front of `rest` and returns the address.
std::optional<std::string_view> take_bracketed(std::string_view& rest) {
  const std::size_t end = rest.find(']');
  if (end == std::string_view::npos || end == 1) return std::nullopt;
  const std::string_view address = rest.substr(1, end - 1);
  rest.remove_prefix(end + 1);
  return address;
}

bool plain_host(std::string_view host) {
  return !host.empty() && std::ranges::none_of(host, [](unsigned char c) {
    return c <= ' ' || c == 0x7f || c == ':' || c == '/' || c == '@' || c == '[' || c == ']' || c == '?' ||
           c == '#';
  });
}

bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

Status set_query(Options& options, std::string_view text, std::string_view query) {
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    if (item.empty()) continue;
    const auto decoded = percent_decoded(item);
    if (!decoded) return usage(text, "a '%' must be followed by two hexadecimal digits other than 00");
    const std::size_t equals = decoded->find('=');
    const std::string name = decoded->substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : decoded->substr(equals + 1);
    // A URL may come from somebody else, who must not choose a file that this program writes.
    if (name == "trace")
      return usage(text,
                   "a URL cannot name a file for a trace; use -o trace=FILE, or the option of the library");
    // A program may take URLs from others, who must not choose a file that it reads and quotes in errors.
    if (name == "config" && value != "none")
      return usage(text, "in a URL, the option 'config' can only be none; give the file by -o");
    if (Status status = options.set(name, value, origin_target); !status) return status;
  }
  return {};
}

Status set_authority(Target& target, std::string_view text, std::string_view authority) {
  if (authority.find('@') != std::string_view::npos) {
    return usage(text, "NFS does not take a user name before '@'; use the options uid= and gid=");
  }
  std::string_view rest = authority;
  std::string_view host;
  if (rest.starts_with('[')) {
    const auto address = take_bracketed(rest);
    if (!address) return usage(text, "the IPv6 address is not complete; write it as [::1]");
    host = *address;
  } else {
    if (rest.find(':') != rest.rfind(':')) {
      return usage(text, "an IPv6 address belongs in brackets; write it as nfs://[::1]/path");
    }
    host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.size());
  }
  const auto decoded = percent_decoded(host);
  if (!decoded || has_nul(*decoded) || (authority[0] != '[' && !plain_host(*decoded))) {
    return usage(text, "the host's name is missing or malformed; write nfs://host/path");
  }
  target.host = *decoded;
  if (rest.empty() || rest == ":") return {};
  if (rest[0] != ':')
    return usage(text, "after the address, only :port or /path may follow; write nfs://[::1]:20049/path");
  return target.options.set("port", rest.substr(1), origin_target);
}

Result<Target> parse_url(std::string_view text, const Options& base) {
  std::string_view rest = text.substr(scheme.size());
  if (rest.find('#') != std::string_view::npos) {
    return usage(text, "a target cannot have a fragment; write '#' in a name as %23");
  }
  const std::size_t question = rest.find('?');
  const std::string_view query = question == std::string_view::npos ? "" : rest.substr(question + 1);
  rest = rest.substr(0, question);
  const std::string_view authority = rest.substr(0, rest.find('/'));
  if (authority.empty()) return usage(text, "the host is missing; write nfs://host/path");
  const auto path = percent_decoded(rest.substr(authority.size()));
  if (!path)
    return usage(text, "a '%' must be followed by two hexadecimal digits other than 00 (%25 is a '%')");
  Target target{"", path->empty() ? "/" : *path, base};
  if (Status status = set_authority(target, text, authority); !status) return status.error();
  if (Status status = set_query(target.options, text, query); !status) return status.error();
  return target;
}

Result<Target> parse_mount_form(std::string_view text, const Options& base) {
  std::string_view rest = text;
  std::string_view host;
  if (rest.starts_with('[')) {
    const auto address = take_bracketed(rest);
    if (!address) return usage(text, "the IPv6 address is not complete; write [::1]:/path");
    host = *address;
  } else {
    // Split at the last colon before the first slash, because a file's name may have colons and a host may
    // not.
    const std::size_t colon = rest.substr(0, rest.find('/')).rfind(':');
    if (colon == std::string_view::npos)
      return usage(text, "this is not a target; write host:/path or nfs://host/path");
    host = rest.substr(0, colon);
    rest.remove_prefix(colon);
    if (host.find(':') != std::string_view::npos) {
      return usage(text, "an IPv6 address belongs in brackets ([::1]:/path), and a port in '-o port='");
    }
    if (!plain_host(host)) return usage(text, "the host's name is missing or malformed; write host:/path");
  }
  if (!rest.starts_with(':')) return usage(text, "a colon must follow the host; write host:/path");
  rest.remove_prefix(1);
  if (!rest.empty() && rest[0] != '/') return usage(text, "the path is not absolute; write host:/path");
  return Target{std::string(host), rest.empty() ? "/" : std::string(rest), base};
}

}  // namespace

Result<Target> parse_target(std::string_view text, const Options& base) {
  if (has_nul(text))
    return usage(text.substr(0, text.find('\0')),
                 "a target cannot contain a NUL character; write nfs://host/path");
  if (text.starts_with(scheme)) return parse_url(text, base);
  if (text.find("://") != std::string_view::npos && text.find("://") < text.find('/')) {
    return usage(text, "only nfs:// is supported; write nfs://host/path");
  }
  return parse_mount_form(text, base);
}

}  // namespace nfsrdma::connect
