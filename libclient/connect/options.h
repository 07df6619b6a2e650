// Where to connect and how: targets and options, and how both are parsed from text.
//
// The library's programs set options by name (nfsrdma_options_set of the C interface); the mount and the
// library itself use the fields.
//
// Thread-safety: plain values; each thread may have its own copies.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/read_plus.h"
#include "fabric/choices.h"
#include "nfsrdma/result.h"
#include "security/names.h"

namespace nfsrdma::connect {

/// Where values of options come from: the name of an option, and the text that is shown for it. An option that
/// is not in it has its default.
struct Origins {
  std::map<std::string, std::string, std::less<>> texts;
  /// The comparison of two Options ignores their origins.
  friend bool operator==(const Origins&, const Origins&) { return true; }
};
constexpr std::string_view origin_default = "default";
constexpr std::string_view origin_program = "program";  ///< a program, or a user's -o
constexpr std::string_view origin_target = "target";    ///< the query or the port of a URL

struct Options {
  /// `vers=`: 4, 3 or 2. If not set, the highest version that the server speaks.
  std::optional<unsigned> version;
  unsigned minor_version = 2;        ///< minor version of NFSv4: the highest that is tried
  bool minor_version_fixed = false;  ///< `vers=4.0`, `4.1` or `4.2`: only this one is tried
  std::uint16_t port = 20049;        ///< RFC 8267 6
  bool port_fixed = false;  ///< `port=` was given: the server's rpcbind is not asked (versions 3 and 2)
  // ---- versions 3 and 2: their MOUNT protocol ----
  std::string mount_host;        ///< `mounthost`: the host where mountd runs; empty: the server
  std::uint16_t mount_port = 0;  ///< `mountport`; 0: the port that rpcbind reports
  std::string mount_transport;   ///< `mountproto`: "tcp" or "udp"; empty: tcp, else udp
  // ---- version 4.0: the address where its server calls back, over TCP ----
  std::string callback_address;     ///< `clientaddr`; empty: the local address of the route to the server
  std::uint16_t callback_port = 0;  ///< `callback_port`; 0: any free port
  Fabric fabric = Fabric::automatic;
  std::uint32_t rsize = 1U << 20;  ///< most bytes of one READ; lowered to what the server accepts
  std::uint32_t wsize = 1U << 20;  ///< most bytes of one WRITE
  ReadPlus read_plus = ReadPlus::automatic;
  /// `timeo`: an operation fails if it got no answer for this long. Connections without answers are replaced
  /// well before that.
  std::chrono::milliseconds timeout{60000};
  std::chrono::milliseconds connect_timeout{10000};
  /// `sec=`: the flavors that may be used, the preferred one first. Empty: AUTH_SYS in general; at the
  /// target, and where the server demands it, the strongest flavor that the server offers and for which there
  /// are tickets. Empty with a uid or gid: AUTH_SYS only.
  std::vector<Security> security;
  /// `keytab`: a file with this machine's Kerberos keys. Empty: a mount by root uses the system's keytab;
  /// other callers use their own tickets.
  std::string keytab;
  /// `ccache`: a credential cache to use in place of this process's own, named as in KRB5CCNAME
  /// ("FILE:/path").
  std::string ccache;
  /// With Kerberos this process has keys in its memory. If true, from the first key on the process leaves no
  /// core file and only root can trace it (PR_SET_DUMPABLE). No option text sets this; a program that wants
  /// it sets it.
  bool no_core = false;
  /// `gssport`: the server's port for NFS over TCP, where Kerberos contexts are made
  std::uint16_t gss_port = 2049;
  std::optional<std::uint32_t> uid;  ///< identity for AUTH_SYS; default: that of the process
  std::optional<std::uint32_t> gid;
  Crc crc = Crc::automatic;
  std::uint32_t credits = 128;    ///< most calls in flight on each connection, if the server grants that many
  std::uint32_t connections = 1;  ///< `nconnect`: connections that share one session's calls
  /// `remoteports`: further addresses of the server, as numbers. Connections after the first lead to them in
  /// turn; each gets at least one connection. With NFSv4.1 and 4.2 the server must prove that it is the same
  /// server there.
  std::vector<std::string> remote_ports;
  /// `threads`: threads that share the work of connections over TCP; there are at least as many connections.
  /// An RDMA device does this work itself and does not need them.
  std::uint32_t threads = 1;
  /// `shards`: sessions for parallel reads and writes, each with a connection, in addition to the one for everything else.
  /// They are made when they are needed first. api/shards.h and fuse/mount_shards.h say which calls they have. 0: none.
  std::uint32_t shards = 0;
  /// On the verbs fabric: how long to poll for answers before sleeping, while calls are in flight. 0: sleep
  /// at once.
  std::chrono::microseconds busy_poll{0};
  /// `config`: "none", or the file to read in place of the usual ones (configuration.h). Empty: the usual ones.
  std::string config;
  Origins origins;

  /// `trace`: the file to which messages over RDMA are recorded; empty: they are not. `trace_size`: the size
  /// at which the file is rotated. `trace_bytes`: how much of each message is kept.
  std::string trace;
  std::uint64_t trace_size = 64ULL << 20;
  std::uint32_t trace_bytes = 1024;

  friend bool operator==(const Options&, const Options&) = default;

  /// Sets one option from its text, as in "rsize=65536". A usage Error names the option and the values that
  /// it takes.
  Status set(std::string_view name, std::string_view value, std::string_view origin = origin_program);
  /// Sets several: "rsize=65536,crc=on".
  Status set_all(std::string_view list);
  /// Returns where the option's value comes from.
  [[nodiscard]] std::string_view origin(std::string_view name) const;
  /// Returns the option's value as text that set() takes; an empty text if it is not set. Returns nothing if
  /// there is no such option.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
};

/// An option as a user may write it, for --help and man pages. The texts are static.
struct OptionHelp {
  const char* name;
  const char* values;
  const char* text;
};
const std::vector<OptionHelp>& option_help();

/// Returns the Error for an option that is none of `known`. The message names the option that may have been
/// meant if one is near, and otherwise all of them.
Error unknown_option(std::string_view name, const std::vector<std::string_view>& known);

struct Target {
  std::string host;
  std::string path;  ///< absolute, as the server sees it; "/" if none was given
  Options options;
};

/// Parses "nfs://host[:port]/path?opt=val&opt=val", "host:/path" or "[v6addr]:/path". The options start from
/// `base`.
Result<Target> parse_target(std::string_view text, const Options& base = {});

}  // namespace nfsrdma::connect
