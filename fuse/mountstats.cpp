#include "fuse/mountstats.h"

#include <linux/fuse.h>

#include <chrono>
#include <initializer_list>
#include <map>

#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {
namespace {

using Numbers = std::initializer_list<std::uint64_t>;

std::string joined(Numbers numbers) {
  std::string out;
  for (const std::uint64_t one : numbers) out += (out.empty() ? "" : " ") + std::to_string(one);
  return out;
}

bool is_version_4(const Picture& p) {
  return p.info.version.starts_with("4");
}

/// Returns the text with blanks as the kernel writes them in /proc, because the format separates by blanks.
std::string word(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) out += c == ' ' ? "\\040" : std::string(1, c);
  return out;
}

std::uint64_t count(const Picture& p, unsigned operation) {
  return p.requests[operation].took.count();
}

/// The counters of struct nfs_iostats of Linux, in its order.
std::string events(const Picture& p) {
  const std::uint64_t opens = count(p, FUSE_OPEN) + count(p, FUSE_CREATE);
  const std::uint64_t listings = count(p, FUSE_READDIR) + count(p, FUSE_READDIRPLUS);
  const std::uint64_t locks = count(p, FUSE_GETLK) + count(p, FUSE_SETLK) + count(p, FUSE_SETLKW);
  return joined({count(p, FUSE_GETATTR),
                 0,
                 0,
                 0,
                 opens,
                 count(p, FUSE_LOOKUP),
                 count(p, FUSE_ACCESS),
                 p.data.writes,
                 0,
                 p.data.reads,
                 0,
                 p.data.writes,
                 listings,
                 count(p, FUSE_SETATTR),
                 count(p, FUSE_FLUSH),
                 count(p, FUSE_FSYNC),
                 locks,
                 count(p, FUSE_RELEASE),
                 0,
                 0,
                 0,
                 p.data.hidden,
                 0,
                 0,
                 0,
                 0,
                 0});
}

/// Bytes that programs read and wrote, the same by direct I/O, bytes in READs and WRITEs, and pages.
std::string bytes(const Picture& p) {
  constexpr std::uint64_t kPage = 4096;
  const fs::Counters& c = p.data;
  return joined({c.bytes_read, c.bytes_written, 0, 0, c.server_bytes_read, c.server_bytes_written,
                 c.server_bytes_read / kPage, c.server_bytes_written / kPage});
}

/// Returns the line of a connection: those of TCP and of RDMA have the same first numbers, and Linux prints the
/// chunks of RDMA after them.
std::string transport(const Picture::Connection& connection) {
  const rpcrdma::Facts& f = connection.facts;
  const Numbers calls{0, 1, f.connects, 0, 0, f.calls, f.replies, f.discarded, 0, f.credit_waits};
  const Numbers chunks{f.reduced_calls + f.long_calls,
                       f.write_chunks_offered,
                       f.reply_chunks_offered,
                       f.bytes_exposed,
                       f.bytes_placed,
                       0,
                       0,
                       0,
                       0,
                       0};
  return "\txprt:\trdma " + joined(calls) + " " + joined(chunks) + " 0 0 0 0 0 0\n";
}

std::uint64_t milliseconds(const async::Latencies& took) {
  return took.total_us() / 1000;
}

std::string per_operation(const std::string& name, const engine::CallCounters& one) {
  const std::uint64_t ended = one.round_trip.count();
  const std::uint64_t waited = milliseconds(one.waited), trip = milliseconds(one.round_trip);
  return "\t" + name + ": " +
         joined({ended, ended + one.sent_again, one.failed, one.bytes_sent, one.bytes_received, waited, trip,
                 waited + trip, one.refused}) +
         "\n";
}

/// Returns the numbers of a flavor: 6 is RPCSEC_GSS, and the pseudoflavors are those of RFC 2623 2.3.
std::string flavor(const std::string& security) {
  if (security == "krb5") return "flavor=6,pseudoflavor=390003";
  if (security == "krb5i") return "flavor=6,pseudoflavor=390004";
  if (security == "krb5p") return "flavor=6,pseudoflavor=390005";
  return security == "sys" ? "flavor=1,pseudoflavor=1" : "flavor=0,pseudoflavor=0";
}

/// Returns the calls by name, among them those that nfsiostat(8) expects.
std::map<std::string, engine::CallCounters> calls(const Picture& p) {
  auto out = engine::calls_by_name(p.server);
  for (const char* name : {"NULL", "GETATTR", "LOOKUP", "ACCESS", "READ", "WRITE", "READDIR"})
    (void)out[name];
  return out;
}

}  // namespace

std::string mountstats_text(const Picture& picture) {
  const bool v4 = is_version_4(picture);
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(picture.age).count();
  std::string out = "device " + word(picture.options.source) + " mounted on " +
                    word(picture.options.mountpoint) + " with fstype " + (v4 ? "nfs4" : "nfs") +
                    " statvers=1.1\n";
  out += "\topts:\t" + options_text(options_in_force(picture)) + "\n\tage:\t" + std::to_string(age) + "\n";
  out += "\tcaps:\tcaps=0x0,wtmult=512,dtsize=" + std::to_string(picture.rsize) + ",bsize=0,namlen=255\n";
  if (v4) out += "\tnfsv4:\tbm0=0x0,bm1=0x0,bm2=0x0,acl=0x0,sessions\n";
  out += "\tsec:\t" + flavor(picture.info.security) + "\n";
  out += "\tevents:\t" + events(picture) + "\n\tbytes:\t" + bytes(picture) + "\n";
  out += "\tRPC iostats version: 1.1  p/v: 100003/" + picture.info.version.substr(0, 1) + " (nfs)\n";
  for (const Picture::Connection& one : picture.connections) out += transport(one);
  out += "\tper-op statistics\n";
  for (const auto& [name, one] : calls(picture)) out += per_operation(name, one);
  return out;
}

}  // namespace nfsrdma::fuse
