// Where to connect and how: parsed targets and options. Plain values; thread-safety as any value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/export.h"
#include "nfsrdma/result.h"

namespace nfsrdma {

enum class Fabric : unsigned char {
  automatic,  ///< verbs where the route to the server has an RDMA device, else iwarp
  iwarp,      ///< iWARP over an ordinary TCP socket; needs no device
  verbs,      ///< an RDMA device, by rdma-core's libraries
};

/// CRC on the iWARP fabric (RFC 5044 7.1).
enum class Crc : unsigned char {
  automatic,  ///< not asked for, accepted where the peer wants it; tried the other way once where refused
  on,
  off,
};

/// Whether files are read by READ_PLUS (RFC 7862 15.10), so that holes are not sent (`read_plus=`).
enum class ReadPlus : unsigned char {
  automatic,  ///< of files that take much less space than their size, if the server reports holes
  yes,        ///< of every file, from a server that supports it
  no,
};

/// What callers prove who they are with, and what is protected (`sec=`).
enum class Security : unsigned char {
  sys,    ///< numbers that the server believes (AUTH_SYS)
  krb5,   ///< Kerberos tickets
  krb5i,  ///< and nobody can change what is sent
  krb5p,  ///< nor read it
};
/// As in `sec=`.
constexpr std::string_view security_name(Security security) {
  switch (security) {
    case Security::sys:
      return "sys";
    case Security::krb5:
      return "krb5";
    case Security::krb5i:
      return "krb5i";
    case Security::krb5p:
      return "krb5p";
  }
  return "";
}

struct Options {
  /// `vers=`: 4, 3 or 2. The highest that the server speaks where it is not set.
  std::optional<unsigned> version;
  unsigned minor_version = 2;        ///< of version 4: the highest that is tried
  bool minor_version_fixed = false;  ///< `vers=4.0`, `4.1` or `4.2`: no other
  std::uint16_t port = 20049;        ///< RFC 8267 6
  bool port_fixed = false;           ///< port= was given: the server's rpcbind is not asked (version 3)
  // ---- version 3: its MOUNT protocol ----
  std::string mount_host;        ///< `mounthost`: where mountd runs; empty: on the server
  std::uint16_t mount_port = 0;  ///< `mountport`; 0: as rpcbind says
  std::string mount_transport;   ///< `mountproto`: "tcp" or "udp"; empty: whichever is served
  // ---- version 4.0: where its server calls back, over TCP ----
  std::string callback_address;     ///< `clientaddr`; empty: this machine's address towards the server
  std::uint16_t callback_port = 0;  ///< `callback_port`; 0: any that is free
  Fabric fabric = Fabric::automatic;
  std::uint32_t rsize = 1U << 20;  ///< most bytes of one READ; lowered to what the server takes
  std::uint32_t wsize = 1U << 20;  ///< most bytes of one WRITE
  ReadPlus read_plus = ReadPlus::automatic;
  /// `timeo`: an operation that got no answer for so long fails. Connections are replaced well before.
  std::chrono::milliseconds timeout{60000};
  std::chrono::milliseconds connect_timeout{10000};
  /// `sec=`: what may be used, the one that is liked best first. Empty: AUTH_SYS, and where the target is, and where else
  /// the server wants it, the strongest of what the server offers and there are tickets for.
  std::vector<Security> security;
  /// `keytab`: this machine's, for Kerberos. Empty: a mount by root has the system's, everybody else his own tickets.
  std::string keytab;
  /// `ccache`: in place of this process's own tickets, those in this cache, as KRB5CCNAME names it ("FILE:/path").
  std::string ccache;
  /// With Kerberos this process has keys in its memory: from the first one on it leaves no core, and only root can trace
  /// it (PR_SET_DUMPABLE). No option's text sets it; a program does that thinks so.
  bool no_core = false;
  std::uint16_t gss_port = 2049;  ///< `gssport`: where the server has NFS over TCP, for Kerberos's contexts
  std::optional<std::uint32_t> uid;  ///< AUTH_SYS identity; the caller's own by default
  std::optional<std::uint32_t> gid;
  Crc crc = Crc::automatic;
  std::uint32_t credits = 64;  ///< Calls under way at most on each connection, if the server grants as many
  std::uint32_t connections = 1;  ///< `nconnect`: connections that share one session's calls
  /// `remoteports`: more addresses of the server, as numbers, which further connections lead to in turn; there is one for
  /// each at least. With NFSv4.1 and 4.2 the server has to prove that it is the same there.
  std::vector<std::string> remote_ports;
  /// `threads`: share the work of connections over TCP; there are as many connections at least. With an RDMA device it does
  /// that work, and they are not needed.
  std::uint32_t threads = 1;
  /// On the verbs fabric: look for answers so long before sleeping, while there are any. 0: never.
  std::chrono::microseconds busy_poll{0};

  friend bool operator==(const Options&, const Options&) = default;

  /// Sets one option from its text, as in "rsize=65536". An Error (usage) names the option and what it takes.
  NFSRDMA_API Status set(std::string_view name, std::string_view value);
  /// Sets several: "rsize=65536,crc=on".
  NFSRDMA_API Status set_all(std::string_view list);
};

/// One option as a user may write it, for --help and man pages.
struct OptionHelp {
  const char* name;
  const char* values;
  const char* text;
};
NFSRDMA_API const std::vector<OptionHelp>& option_help();

struct Target {
  std::string host;
  std::string path;  ///< absolute, as the server sees it; "/" where none was given
  Options options;
};

/// "nfs://host[:port]/path?opt=val&opt=val", "host:/path", "[v6addr]:/path". The options start from `base`.
NFSRDMA_API Result<Target> parse_target(std::string_view text, const Options& base = {});

}  // namespace nfsrdma
