// The steps on one RDMA connection without a session: how it is made, the NULL procedure, large messages, versions,
// round-trip times.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <span>

#include "aux/remote.h"
#include "aux/rpcbind.h"
#include "connect/tracing.h"
#include "diagnosis/examination.h"
#include "fabric/address.h"
#include "rpc/message.h"
#include "xdr/encoder.h"

namespace nfsrdma::diagnosis {
namespace {

using namespace std::chrono_literals;

/// Time for the NULL procedure of NFS over TCP, which tells what listens on a port that does not speak RDMA.
constexpr auto kPlainTime = 2s;
/// Numbers of round trips that are measured.
constexpr std::size_t kRoundTrips = 20;
/// Jitter above these is worth a warning.
constexpr double kJitterRatio = 10;
constexpr auto kJitterLeast = 1ms;

// ---- calls ----

/// A Call that any server of NFS may answer.
struct Question {
  std::uint32_t version = 4;
  std::size_t padding = 0;               ///< octets behind the arguments of NULL, which has none
  std::optional<std::uint32_t> minor{};  ///< makes the Call a COMPOUND of no operations
};

struct Answer {
  rpc::ReplyHeader header;
  std::uint32_t status = 0;  ///< of a COMPOUND
  std::chrono::nanoseconds took{0};
};

/// NFS4ERR_MINOR_VERS_MISMATCH (RFC 8881 15.1.3.2).
constexpr std::uint32_t kMinorMismatch = 10021;

void add_arguments(xdr::Message& message, const Question& question) {
  xdr::Encoder out(message);
  if (question.minor) {
    out.u32(0);  // the tag is empty
    out.u32(*question.minor);
    out.u32(0);
  }
  for (std::size_t i = 0; i < question.padding; i += 4) out.u32(0);
}

Answer read_answer(const rpcrdma::Reply& reply) {
  xdr::Decoder in(reply.message, reply.placements);
  Answer out;
  out.header = rpc::read_reply(in);
  if (out.header.refusal == rpc::Refusal::none && in.remaining() >= 4) (void)in.u32(out.status);
  out.took = reply.trip.round_trip;
  return out;
}

async::Task<Result<Answer>> ask(Examination& at, Question question) {
  constexpr std::uint32_t kNull = 0, kCompound = 1;
  constexpr std::size_t kResults = 12;  // status, an empty tag, no operations
  const security::Identity who = connect::own_identity(at.options());
  const auto credential = question.minor
                              ? rpc::Credential::sys(at.means.around.host, who.uid, who.gid, who.groups)
                              : rpc::Credential::none();
  rpc::Channel& channel = *at.channel;
  rpcrdma::Call call;
  call.message = channel.take_message();
  rpc::begin_call(call.message, rpc::kNfsProgram, question.version, question.minor ? kCompound : kNull,
                  credential);
  add_arguments(call.message, question);
  call.reply_max_inline = call.reply_max_reduced =
      credential.largest_reply_header() + rpc::kMostAuthBytes + kResults;
  call.deadline = at.until(kCallTime);
  rpc::Outcome outcome = co_await channel.call(std::move(call));
  channel.give_back(std::move(outcome.message));
  if (!outcome.reply) co_return *outcome.error;
  const Answer answer = read_answer(*outcome.reply);
  channel.give_back(std::move(*outcome.reply));
  co_return answer;
}

/// Calls NULL, with `padding` octets of arguments.
async::Task<Result<Answer>> ask_null(Examination& at, std::size_t padding = 0) {
  return ask(at, {.version = at.options().version.value_or(4), .padding = padding});
}

// ---- the connection ----

/// Returns true if NFS without RDMA answers on the port that RDMA was looked for on.
async::Task<bool> is_plain_nfs(Examination& at) {
  const aux::Remote remote{at.addresses.front(), at.target.host};
  for (const std::uint32_t version : {4U, 3U}) {
    auto answer = co_await aux::call_raw(at.loop, remote, connect::own_identity(at.options()),
                                         {rpc::kNfsProgram, version, 0, "NULL", {}}, at.until(kPlainTime));
    if (answer || answer.error().kind() == ErrorKind::server) co_return true;
    if (answer.error().kind() == ErrorKind::timeout) co_return false;
  }
  co_return false;
}

bool is_about_port(const Error& why) {
  return why.kind() == ErrorKind::protocol || why.kind() == ErrorKind::timeout ||
         why.errno_value() == ECONNRESET;
}

Finding no_rdma(const Examination& at) {
  const std::string where = fabric::peer_text(at.addresses.front().storage, "");
  return failure(where + " serves NFS over TCP without RDMA",
                 "give the port on which the server has RDMA with port= (in general 20049), and have it "
                 "listen there (Linux: `echo rdma 20049 > /proc/fs/nfsd/portlist`)");
}

// ---- versions ----

/// A version of NFS that servers are asked for.
struct Version {
  const char* name;
  std::uint32_t number;
  std::optional<std::uint32_t> minor;
};
constexpr std::array kVersions{Version{"4.2", 4, 2}, Version{"4.1", 4, 1}, Version{"4.0", 4, 0},
                               Version{"3", 3, {}}, Version{"2", 2, {}}};

bool is_served(const Answer& answer) {
  const rpc::Refusal refusal = answer.header.refusal;
  if (refusal == rpc::Refusal::version || refusal == rpc::Refusal::program) return false;
  return answer.status != kMinorMismatch;
}

/// Returns true if the options allow the version.
bool is_allowed(const Version& version, const connect::Options& options) {
  if (options.version.value_or(version.number) != version.number) return false;
  if (!version.minor) return true;
  return options.minor_version_fixed ? *version.minor == options.minor_version
                                     : *version.minor <= options.minor_version;
}

std::string asked_version(const connect::Options& options) {
  const bool has_minor = options.version == 4U && options.minor_version_fixed;
  return std::to_string(options.version.value_or(4)) +
         (has_minor ? "." + std::to_string(options.minor_version) : "");
}

Finding judge_versions(const Examination& at) {
  const std::string all = comma_list(at.versions);
  const bool is_usable = std::ranges::any_of(kVersions, [&](const Version& one) {
    return std::ranges::count(at.versions, one.name) != 0 && is_allowed(one, at.options());
  });
  Finding out = found("the server speaks NFS " + all);
  if (at.versions.empty()) {
    out = failure("the server speaks no version of NFS on this port",
                  "give the server's port for NFS over RDMA with port=, or start its NFS service");
  } else if (!is_usable) {
    const std::string asked = asked_version(at.options());
    out = failure("vers=" + asked + " was asked for, and the server speaks NFS " + all + " only",
                  "use vers=" + at.versions.front() + ", or enable version " + asked +
                      " on the server (Linux: `nfsconf --set nfsd vers" + asked + " y`, and restart it)");
  }
  return out.fact("versions", all);
}

// ---- large messages ----

/// Sizes of the messages that are tried: below and above the packet sizes of Ethernet, tunnels and jumbo frames.
constexpr std::array<std::size_t, 5> kMessageSizes{512, 1200, 4000, 12000, 64000};

Finding black_hole(const Examination& at, std::size_t largest, std::size_t lost) {
  const std::string mtu =
      at.way.mtu == 0 ? "" : " (the interface's MTU is " + std::to_string(at.way.mtu) + ")";
  const std::string device = at.way.interface.empty() ? "IFACE" : at.way.interface;
  return failure("calls of " + std::to_string(largest) + " bytes are answered, one of " +
                     std::to_string(lost) + " is not: large packets are lost on the way, an MTU black hole" +
                     mtu,
                 "lower this machine's MTU to see whether that helps (`ip link set dev " + device +
                     " mtu 1280`), then make the MTUs of both machines and of all switches the same, and let "
                     "ICMP \"fragmentation needed\" pass the firewalls");
}

// ---- round trips ----

std::chrono::nanoseconds at_percent(const std::vector<std::chrono::nanoseconds>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

std::string in_us(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

}  // namespace

async::Task<Finding> examine_connection(Examination& at) {
  auto options = connect::channel_options(at.target, at.addresses, at.means.around.dial);
  options.tap = connect::tapper_of(at.target.options, nullptr);
  at.channel = std::make_unique<rpc::Channel>(at.loop, options, nullptr);
  auto done = co_await at.channel->connect(at.until_connected());
  if (!done) {
    const bool is_plain = is_about_port(done.error()) && co_await is_plain_nfs(at);
    if (is_plain) co_return no_rdma(at);
    co_return failure(done.error());
  }
  const fabric::Established& made = at.channel->established();
  at.info.fabric = made.fabric;
  Finding out =
      found((made.fabric == "iwarp" ? "iWARP over TCP in user space" : "RDMA device " + made.traits.device) +
            (made.detail.empty() ? "" : ": " + made.detail));
  out.fact("fabric", made.fabric).fact("reason", made.reason).fact("device", made.traits.device);
  out.fact("mpa_revision", made.mpa_revision).fact("crc", made.crc ? "yes" : "no");
  out.fact("ird", made.ird).fact("ord", made.ord);
  co_return out;
}

async::Task<Finding> examine_private_data(Examination& at) {
  const rpcrdma::Facts& facts = at.channel->facts();
  const std::string sizes = std::to_string(facts.call_threshold) + " bytes to the server and " +
                            std::to_string(facts.reply_threshold) + " from it without RDMA Reads and Writes";
  Finding out =
      found(facts.private_data_seen
                ? "messages of up to " + sizes + (facts.remote_invalidation ? ", remote invalidation" : "")
                : "the server sends none (RFC 8797), so messages of up to " + sizes);
  out.fact("private_data", facts.private_data_seen ? "yes" : "no");
  out.fact("call_threshold", facts.call_threshold).fact("reply_threshold", facts.reply_threshold);
  out.fact("remote_invalidation", facts.remote_invalidation ? "yes" : "no");
  co_return out;
}

async::Task<Finding> examine_null(Examination& at) {
  const auto answer = co_await ask_null(at);
  if (!answer) co_return failure(answer.error());
  if (answer->header.refusal == rpc::Refusal::program) {
    co_return failure(rpc::refusal_error(answer->header, {}, "NULL", at.target.host));
  }
  Finding out = found("the server answers RPC in " + text_of(answer->took));
  out.fact("microseconds", in_us(answer->took));
  co_return out;
}

async::Task<Finding> examine_mtu(Examination& at) {
  std::size_t largest = 0;
  for (const std::size_t size : kMessageSizes) {
    const auto answer = co_await ask_null(at, size);
    if (answer) {
      largest = size;
      continue;
    }
    const auto small = co_await ask_null(at);
    if (!small) co_return failure(small.error());
    Finding out = largest != 0 ? black_hole(at, largest, size) : failure(answer.error());
    out.fact("answered_bytes", largest).fact("lost_bytes", size);
    co_return out;
  }
  Finding out = found("calls of up to " + std::to_string(largest) + " bytes are answered");
  out.fact("answered_bytes", largest).fact("path_mtu", at.way.path_mtu);
  co_return out;
}

async::Task<Finding> examine_versions(Examination& at) {
  for (const Version& one : kVersions) {
    const auto answer = co_await ask(at, {.version = one.number, .minor = one.minor});
    if (!answer && answer.error().kind() == ErrorKind::timeout) co_return failure(answer.error());
    if (answer && is_served(*answer)) at.versions.emplace_back(one.name);
  }
  co_return judge_versions(at);
}

async::Task<Finding> examine_latency(Examination& at) {
  for (std::size_t i = 0; i < kRoundTrips; ++i) {
    const auto answer = co_await ask_null(at);
    if (!answer) co_return failure(answer.error());
    at.round_trips.push_back(answer->took);
  }
  std::ranges::sort(at.round_trips);
  const auto least = at.round_trips.front(), median = at_percent(at.round_trips, 50);
  Finding out = found("round trip " + text_of(median) + " in the median, " + text_of(least) + " at least");
  out.fact("minimum_microseconds", in_us(least)).fact("median_microseconds", in_us(median));
  out.fact("round_trips", at.round_trips.size());
  co_return out;
}

async::Task<Finding> examine_jitter(Examination& at) {
  if (at.round_trips.empty()) co_return skipped("needs the step latency");
  const auto median = at_percent(at.round_trips, 50), high = at_percent(at.round_trips, 99);
  const std::string seen =
      "the slowest of " + std::to_string(at.round_trips.size()) + " round trips took " + text_of(high);
  const bool is_high = high - median > kJitterLeast &&
                       static_cast<double>(high.count()) > kJitterRatio * static_cast<double>(median.count());
  Finding out = is_high ? warning(seen + ", and the median is " + text_of(median),
                                  "look for load on the server, the network and this machine, and for power "
                                  "saving of their processors")
                        : found(seen);
  out.fact("p99_microseconds", in_us(high)).fact("spread_microseconds", in_us(high - at.round_trips.front()));
  co_return out;
}

}  // namespace nfsrdma::diagnosis
