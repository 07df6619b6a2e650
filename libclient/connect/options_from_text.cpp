// Options from text: one row per option with its name, the values that it takes, and the function that sets
// it.
//
// Used by -o on a command line, by the query of an nfs:// URL and by the mount helper, so that all of them
// accept the same names and print the same messages. No function here uses the network.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <iterator>
#include <numeric>

#include "connect/options.h"

namespace nfsrdma::connect {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t smallest_io = 1024;      // as nfs(5)
constexpr std::uint32_t largest_io = 16U << 20;  // beyond what any server takes; bounds a typing error
constexpr std::uint32_t largest_credits = 1024;
constexpr std::uint32_t most_connections = 16;  // as nfs(5)
// Bounded, because the client does nothing else while it polls.
constexpr std::uint32_t longest_busy_poll_us = 10'000;
// A file that is smaller would hold little but the set-up of connections.
constexpr std::uint64_t smallest_trace = 64U << 10, largest_trace = 1ULL << 40;
constexpr std::uint64_t fewest_trace_bytes = 64, most_trace_bytes = 64U << 20;
constexpr std::int64_t longest_wait_ms = 24LL * 3600 * 1000;

template <class T>
std::optional<T> number(std::string_view text, T least, T most) {
  T value{};
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || stop != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

/// Parses a size such as "65536", "64K", "1M", "2G" or "1T".
std::optional<std::uint64_t> byte_count(std::string_view text, std::uint64_t least, std::uint64_t most) {
  constexpr std::string_view units = "kKmMgGtT";
  unsigned shift = 0;
  constexpr auto no_unit = std::string_view::npos;
  if (const auto unit = text.empty() ? no_unit : units.find(text.back()); unit != no_unit) {
    shift = 10 * (static_cast<unsigned>(unit) / 2 + 1);
    text.remove_suffix(1);
  }
  const auto value = number<std::uint64_t>(text, 1, most >> shift);
  if (!value || (*value << shift) < least) return std::nullopt;
  return *value << shift;
}
std::optional<std::uint32_t> io_size(std::string_view text) {
  const auto value = byte_count(text, smallest_io, largest_io);
  return value ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
}

bool ends_with(std::string_view text, std::string_view suffix, std::string_view& rest) {
  if (!text.ends_with(suffix)) return false;
  rest = text.substr(0, text.size() - suffix.size());
  return true;
}

/// Parses "30s" or "500ms". A bare number counts units of `bare`, and is refused if `bare` is zero.
std::optional<milliseconds> duration(std::string_view text, milliseconds bare) {
  std::int64_t unit = bare.count();
  std::string_view digits = text;
  if (ends_with(text, "ms", digits)) {
    unit = 1;
  } else if (ends_with(text, "s", digits)) {
    unit = 1000;
  }
  if (unit == 0) return std::nullopt;
  const auto value = number<std::int64_t>(digits, 1, longest_wait_ms / unit);
  if (!value) return std::nullopt;
  return milliseconds(*value * unit);
}

template <class T>
bool assign(T& field, std::optional<T> value) {
  if (!value) return false;
  field = *value;
  return true;
}

bool set_vers(Options& options, std::string_view text) {
  constexpr std::array<std::string_view, 6> known{"2", "3", "4", "4.0", "4.1", "4.2"};
  if (std::ranges::find(known, text) == known.end()) return false;
  options.version = static_cast<unsigned>(text.front() - '0');
  options.minor_version = text == "4.0" ? 0 : text == "4.1" ? 1 : Options{}.minor_version;
  options.minor_version_fixed = text.size() > 1;
  return true;
}

bool set_port(Options& options, std::string_view text) {
  if (!assign(options.port, number<std::uint16_t>(text, 1, 65535))) return false;
  options.port_fixed = true;
  return true;
}

bool set_mounthost(Options& options, std::string_view text) {
  const auto names_no_host = [](char c) { return c <= ' ' || c == '/' || c == '\x7f'; };
  if (text.empty() || std::ranges::any_of(text, names_no_host)) return false;
  options.mount_host = text;
  return true;
}
bool set_mountport(Options& options, std::string_view text) {
  return assign(options.mount_port, number<std::uint16_t>(text, 1, 65535));
}
bool set_mountproto(Options& options, std::string_view text) {
  // nfs(5) also has tcp6 and udp6. The address of the mount service decides between IPv4 and IPv6.
  if (text.ends_with('6')) text.remove_suffix(1);
  if (text != "tcp" && text != "udp") return false;
  options.mount_transport = text;
  return true;
}

bool is_address(const std::string& text) {
  in6_addr any{};  // large enough for either family
  return ::inet_pton(AF_INET, text.c_str(), &any) == 1 || ::inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

bool set_clientaddr(Options& options, std::string_view text) {
  const std::string address(text);
  if (!is_address(address)) return false;
  options.callback_address = address;
  return true;
}
bool set_callback_port(Options& options, std::string_view text) {
  return assign(options.callback_port, number<std::uint16_t>(text, 0, 65535));
}

bool set_fabric(Options& options, std::string_view text) {
  if (text != "auto" && text != "verbs" && text != "iwarp") return false;
  options.fabric = text == "auto" ? Fabric::automatic : text == "verbs" ? Fabric::verbs : Fabric::iwarp;
  return true;
}

bool set_rsize(Options& options, std::string_view text) {
  return assign(options.rsize, io_size(text));
}
bool set_wsize(Options& options, std::string_view text) {
  return assign(options.wsize, io_size(text));
}

bool set_read_plus(Options& options, std::string_view text) {
  if (text != "auto" && text != "yes" && text != "no") return false;
  options.read_plus = text == "auto" ? ReadPlus::automatic : text == "yes" ? ReadPlus::yes : ReadPlus::no;
  return true;
}

bool set_timeo(Options& options, std::string_view text) {
  // A bare number counts tenths of a second, as in nfs(5).
  return assign(options.timeout, duration(text, milliseconds(100)));
}

bool set_connect_timeout(Options& options, std::string_view text) {
  return assign(options.connect_timeout, duration(text, milliseconds(0)));
}

constexpr std::array kSecurities{Security::sys, Security::krb5, Security::krb5i, Security::krb5p};

/// Splits a list at `separator`. An empty string between separators is an item, too.
std::vector<std::string_view> items_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

/// Takes a list with ':' between the flavors, as in exports(5).
bool set_sec(Options& options, std::string_view text) {
  std::vector<Security> list;
  for (const std::string_view name : items_of(text, ':')) {
    const auto known = std::ranges::find(kSecurities, name, security_name);
    if (known == kSecurities.end() || std::ranges::count(list, *known) != 0) return false;
    list.push_back(*known);
  }
  options.security = std::move(list);
  return true;
}
bool set_keytab(Options& options, std::string_view text) {
  if (text.starts_with("FILE:")) text.remove_prefix(5);
  if (!text.starts_with('/')) return false;
  options.keytab = text;
  return true;
}

bool set_ccache(Options& options, std::string_view text) {
  // The value is "TYPE:rest" or a file's path.
  const std::size_t colon = text.find(':');
  const bool has_type =
      colon != std::string_view::npos && colon + 1 < text.size() &&
      std::ranges::all_of(text.substr(0, colon), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!text.starts_with('/') && !(has_type && colon > 0)) return false;
  options.ccache = text;
  return true;
}

bool set_gssport(Options& options, std::string_view text) {
  return assign(options.gss_port, number<std::uint16_t>(text, 1, 65535));
}

bool set_id(std::optional<std::uint32_t>& field, std::string_view text) {
  // 2^32 - 1 means "no id" to every system call that takes one.
  const auto value = number<std::uint32_t>(text, 0, UINT32_MAX - 1);
  if (value) field = value;
  return value.has_value();
}
bool set_uid(Options& options, std::string_view text) {
  return set_id(options.uid, text);
}
bool set_gid(Options& options, std::string_view text) {
  return set_id(options.gid, text);
}

bool set_crc(Options& options, std::string_view text) {
  if (text != "auto" && text != "on" && text != "off") return false;
  options.crc = text == "auto" ? Crc::automatic : text == "on" ? Crc::on : Crc::off;
  return true;
}

bool set_credits(Options& options, std::string_view text) {
  return assign(options.credits, number<std::uint32_t>(text, 1, largest_credits));
}

bool set_nconnect(Options& options, std::string_view text) {
  return assign(options.connections, number<std::uint32_t>(text, 1, most_connections));
}

/// Adds all addresses of a range such as "10.0.0.1-10.0.0.4". Returns false if the range is malformed or has
/// too many addresses.
bool add_range(std::vector<std::string>& to, const std::string& first, const std::string& last) {
  in_addr from{}, until{};
  if (::inet_pton(AF_INET, first.c_str(), &from) != 1 || ::inet_pton(AF_INET, last.c_str(), &until) != 1)
    return false;
  const std::uint32_t begin = ntohl(from.s_addr), end = ntohl(until.s_addr);
  if (end < begin || end - begin >= most_connections) return false;
  for (std::uint32_t one = begin; one <= end; ++one) {
    const in_addr address{htonl(one)};
    std::array<char, INET_ADDRSTRLEN> text{};
    to.emplace_back(::inet_ntop(AF_INET, &address, text.data(), text.size()));
  }
  return true;
}

/// The addresses are separated by '~', because a comma ends an option.
bool set_remoteports(Options& options, std::string_view text) {
  std::vector<std::string> all;
  for (const std::string_view item : items_of(text, '~')) {
    const std::string one(item);
    const auto dash = one.find('-');
    if (dash == std::string::npos && !is_address(one)) return false;
    if (dash == std::string::npos)
      all.push_back(one);
    else if (!add_range(all, one.substr(0, dash), one.substr(dash + 1)))
      return false;
  }
  if (all.size() >= most_connections) return false;
  options.remote_ports = std::move(all);
  return true;
}

bool set_shards(Options& options, std::string_view text) {
  return assign(options.shards, number<std::uint32_t>(text, 0, most_connections));
}
bool set_threads(Options& options, std::string_view text) {
  return assign(options.threads, number<std::uint32_t>(text, 1, most_connections));
}

bool set_busy_poll(Options& options, std::string_view text) {
  const auto value = number<std::uint32_t>(text, 0, longest_busy_poll_us);
  if (value) options.busy_poll = std::chrono::microseconds(*value);
  return value.has_value();
}

bool set_trace(Options& options, std::string_view text) {
  const auto is_control = [](char c) { return c >= '\0' && c < ' '; };
  options.trace = text;
  return !text.empty() && std::ranges::none_of(text, is_control);
}
bool set_trace_size(Options& options, std::string_view text) {
  return assign(options.trace_size, byte_count(text, smallest_trace, largest_trace));
}
bool set_trace_bytes(Options& options, std::string_view text) {
  const auto value = byte_count(text, fewest_trace_bytes, most_trace_bytes);
  if (value) options.trace_bytes = static_cast<std::uint32_t>(*value);
  return value.has_value();
}
bool set_config(Options& options, std::string_view text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (text.empty() || std::ranges::any_of(text, is_control)) return false;
  options.config = text;
  return true;
}

// ---- options as text ----

std::string text_of(const std::string& value) {
  return value;
}
std::string text_of(std::integral auto value) {
  return std::to_string(value);
}
std::string text_of(const std::optional<std::uint32_t>& value) {
  return value ? std::to_string(*value) : "";
}
std::string text_of(milliseconds value) {
  return std::to_string(value.count()) + "ms";
}
std::string text_of(std::chrono::microseconds value) {
  return std::to_string(value.count());
}
std::string text_of(Fabric value) {
  return value == Fabric::automatic ? "auto" : value == Fabric::verbs ? "verbs" : "iwarp";
}
std::string text_of(ReadPlus value) {
  return value == ReadPlus::automatic ? "auto" : value == ReadPlus::yes ? "yes" : "no";
}
std::string text_of(Crc value) {
  return value == Crc::automatic ? "auto" : value == Crc::on ? "on" : "off";
}
std::string text_of(const std::vector<Security>& value) {
  std::string out;
  for (const Security one : value) out += (out.empty() ? "" : ":") + std::string(security_name(one));
  return out;
}
std::string text_of(const std::vector<std::string>& value) {
  std::string out;
  for (const std::string& one : value) out += (out.empty() ? "" : "~") + one;
  return out;
}

template <auto Field>
std::string get(const Options& options) {
  return text_of(options.*Field);
}
std::string get_vers(const Options& options) {
  if (!options.version) return "";
  std::string out = std::to_string(*options.version);
  if (options.minor_version_fixed) out += "." + std::to_string(options.minor_version);
  return out;
}
/// Zero means that the option is not set.
std::string get_mountport(const Options& options) {
  return options.mount_port == 0 ? "" : text_of(options.mount_port);
}

struct Row {
  OptionHelp help;
  bool (*set)(Options&, std::string_view);
  std::string (*get)(const Options&);
};

constexpr auto rows = std::to_array<Row>({
    {{"vers", "4.2, 4.1, 4.0, 4, 3 or 2", "NFS version (default: the highest that the server supports)"},
     set_vers,
     get_vers},
    {{"port", "a port number",
      "the server's port for NFS over RDMA (default 20049; for version 3, the port that the server's rpcbind "
      "names)"},
     set_port,
     get<&Options::port>},
    {{"mounthost", "a host name", "for version 3: the host of the mount service (default: the server)"},
     set_mounthost,
     get<&Options::mount_host>},
    {{"mountport", "a port number", "the port of the mount service (default: the port that rpcbind names)"},
     set_mountport,
     get_mountport},
    {{"mountproto", "tcp or udp", "the transport protocol of the mount service (default: tcp, else udp)"},
     set_mountproto,
     get<&Options::mount_transport>},
    {{"clientaddr", "an IPv4 or IPv6 address",
      "for version 4.0: the address at which the server calls back (default: the address of this machine on "
      "the path to the server)"},
     set_clientaddr,
     get<&Options::callback_address>},
    {{"callback_port", "a port number, or 0",
      "for version 4.0: the TCP port on which the server calls back (default 0: any free port)"},
     set_callback_port,
     get<&Options::callback_port>},
    {{"fabric", "auto, verbs or iwarp",
      "the transport of RDMA: verbs is an RDMA device, iwarp is a TCP socket (default auto: verbs if a "
      "device leads to the server)"},
     set_fabric,
     get<&Options::fabric>},
    {{"rsize", "bytes from 1024 to 16M", "maximum number of bytes of one READ (default 1M)"},
     set_rsize,
     get<&Options::rsize>},
    {{"wsize", "bytes from 1024 to 16M", "maximum number of bytes of one WRITE (default 1M)"},
     set_wsize,
     get<&Options::wsize>},
    {{"read_plus", "auto, yes or no",
      "with version 4.2, let the server report the holes of files that are read instead of sending zeros "
      "(default auto: for sparse files, if the server reports holes)"},
     set_read_plus,
     get<&Options::read_plus>},
    {{"timeo", "tenths of a second, or a time such as 30s or 500ms",
      "time after which an operation without an answer fails (default 60s)"},
     set_timeo,
     get<&Options::timeout>},
    {{"connect_timeout", "a time such as 10s or 500ms",
      "time after which an attempt to connect is given up (default 10s)"},
     set_connect_timeout,
     get<&Options::connect_timeout>},
    {{"sec", "sys, krb5, krb5i, krb5p, or several separated by :",
      "how users prove their identity: by numbers (sys) or Kerberos tickets (krb5); krb5i also protects the "
      "data against changes, krb5p also against reading; of several, the first that the server accepts is "
      "used (default: the strongest that the server offers for the path and for which there is a ticket)"},
     set_sec,
     get<&Options::security>},
    {{"keytab", "a file",
      "for Kerberos: the file with this machine's keys (default: /etc/krb5.keytab for a mount by root; other "
      "users use their own tickets)"},
     set_keytab,
     get<&Options::keytab>},
    {{"ccache", "FILE:/path, a path, KEYRING:name or another form of KRB5CCNAME",
      "for Kerberos: the cache with the tickets to use instead of the one that KRB5CCNAME names"},
     set_ccache,
     get<&Options::ccache>},
    {{"gssport", "a port number",
      "for Kerberos: the server's port for NFS over TCP, where security contexts are created (default 2049)"},
     set_gssport,
     get<&Options::gss_port>},
    {{"uid", "a number", "user id that is sent to the server (default: the caller's)"},
     set_uid,
     get<&Options::uid>},
    {{"gid", "a number", "group id that is sent to the server (default: the caller's)"},
     set_gid,
     get<&Options::gid>},
    {{"crc", "auto, on or off", "CRC32C on the iwarp fabric (default auto: if the server requires it)"},
     set_crc,
     get<&Options::crc>},
    {{"credits", "a number from 1 to 1024",
      "maximum number of calls in flight, if the server grants as many (default 128)"},
     set_credits,
     get<&Options::credits>},
    {{"nconnect", "a number from 1 to 16",
      "number of connections to the server that share the work (default 1)"},
     set_nconnect,
     get<&Options::connections>},
    {{"remoteports", "numeric addresses separated by ~, or a range first-last",
      "more addresses of the server; each gets at least one connection (default: none)"},
     set_remoteports,
     get<&Options::remote_ports>},
    {{"threads", "a number from 1 to 16",
      "number of threads that share the work of the connections over TCP; there are at least as many "
      "connections (default 1)"},
     set_threads,
     get<&Options::threads>},
    {{"shards", "a number from 0 to 16",
      "number of further sessions, each with a connection, for parallel reads of a program's threads or of a "
      "mount (default 0)"},
     set_shards,
     get<&Options::shards>},
    {{"busy_poll", "microseconds from 0 to 10000",
      "on the verbs fabric, poll for answers for this time before sleeping (default 0: never)"},
     set_busy_poll,
     get<&Options::busy_poll>},
    {{"trace", "a file",
      "record the messages that go over RDMA to this file, for nfsrdma-cli trace or Wireshark; names, "
      "credentials and some data are in it (default: none)"},
     set_trace,
     get<&Options::trace>},
    {{"trace_size", "bytes from 64K to 1T",
      "size at which the trace is renamed to FILE.1, and a new one begins (default 64M)"},
     set_trace_size,
     get<&Options::trace_size>},
    {{"trace_bytes", "bytes from 64 to 64M",
      "how much of each message, and of the data that belongs to it, the trace keeps (default 1K: headers)"},
     set_trace_bytes,
     get<&Options::trace_bytes>},
    {{"config", "none, or a file",
      "read defaults for options from this file instead of /etc/nfsrdma.conf and ~/.config/nfsrdma.conf "
      "(none: from no file)"},
     set_config,
     get<&Options::config>},
});

/// Returns the Levenshtein distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Error usage(std::string message) {
  return {ErrorKind::usage, EINVAL, "", "", std::move(message)};
}

/// Returns true if a user who wrote `name` may have meant `known`: the two differ by a slip of the pen, or one
/// is the other without its end.
bool is_near(std::string_view name, std::string_view known) {
  constexpr std::size_t shortest = 3, longest_slip = 2, longest_end = 3;
  const std::size_t slip = distance(name, known);
  if (slip <= (name.size() <= shortest ? 1 : longest_slip)) return true;
  if (name.size() >= shortest && known.starts_with(name)) return true;
  return name.starts_with(known) && slip <= longest_end;
}

std::vector<std::string_view> names_of_rows() {
  std::vector<std::string_view> out;
  out.reserve(rows.size());
  for (const Row& row : rows) out.emplace_back(row.help.name);
  return out;
}

}  // namespace

Error unknown_option(std::string_view name, const std::vector<std::string_view>& known) {
  // Bounds the comparison and the message, because the text may be anything.
  constexpr std::size_t longest_name = 64;
  name = name.substr(0, longest_name);
  const auto distance_to = [name](std::string_view one) { return distance(name, one); };
  std::string text = "unknown option '" + std::string(name) + "'; ";
  std::vector<std::string_view> near;
  std::ranges::copy_if(known, std::back_inserter(near),
                       [name](std::string_view one) { return is_near(name, one); });
  if (!near.empty()) {
    return usage(text + "did you mean '" + std::string(std::ranges::min(near, {}, distance_to)) + "'?");
  }
  text += "use one of ";
  for (std::string_view separator; const std::string_view one : known) {
    text += std::string(separator) + std::string(one);
    separator = ", ";
  }
  return usage(std::move(text));
}

Status Options::set(std::string_view name, std::string_view value, std::string_view origin) {
  const auto row = std::ranges::find(rows, name, [](const Row& r) { return std::string_view(r.help.name); });
  if (row == rows.end()) return unknown_option(name, names_of_rows());
  if (row->set(*this, value)) {
    origins.texts.insert_or_assign(std::string(name), std::string(origin));
    return {};
  }
  return usage("option '" + std::string(name) + "' takes " + row->help.values + ", not '" +
               std::string(value) + "'");
}

Status Options::set_all(std::string_view list) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    if (item.empty()) continue;  // "a=1,,b=2" and a trailing comma are harmless, as in fstab(5)
    const std::size_t equals = item.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (Status status = set(item.substr(0, equals), value); !status) return status;
  }
  return {};
}

std::string_view Options::origin(std::string_view name) const {
  const auto known = origins.texts.find(name);
  return known == origins.texts.end() ? origin_default : std::string_view(known->second);
}

std::optional<std::string> Options::get(std::string_view name) const {
  const auto row = std::ranges::find(rows, name, [](const Row& r) { return std::string_view(r.help.name); });
  if (row == rows.end()) return std::nullopt;
  return row->get(*this);
}

const std::vector<OptionHelp>& option_help() {
  static const std::vector<OptionHelp> help = [] {
    std::vector<OptionHelp> out;
    out.reserve(rows.size());
    for (const Row& row : rows) out.push_back(row.help);
    return out;
  }();
  return help;
}

}  // namespace nfsrdma::connect
