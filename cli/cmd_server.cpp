// ping, info, exports, df: facts about a server and the connection to it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/json.h"
#include "cli/parse.h"
#include "cli/pseudo_exports.h"

namespace nfsrdma::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

std::string in_milliseconds(double ns) {
  return fixed(ns / 1e6, 3);
}

struct PingTotals {
  std::uint64_t sent = 0, received = 0;
  double least = 0, most = 0, sum = 0, squares = 0;  ///< ns

  void add(nanoseconds time) {
    const auto ns = static_cast<double>(time.count());
    least = received == 0 ? ns : std::min(least, ns);
    most = std::max(most, ns);
    sum += ns;
    squares += ns * ns;
    ++received;
  }
  [[nodiscard]] double mean() const { return received == 0 ? 0 : sum / static_cast<double>(received); }
  /// Computed as in ping(8): the root of the mean square minus the squared mean.
  [[nodiscard]] double deviation() const {
    if (received == 0) return 0;
    return std::sqrt(std::max(0.0, squares / static_cast<double>(received) - mean() * mean()));
  }
  [[nodiscard]] std::uint64_t lost_percent() const { return sent == 0 ? 0 : (sent - received) * 100 / sent; }
};

/// Waits and lets the client work, until `deadline` or a signal.
void rest_until(Client& client, Clock::time_point deadline) {
  while (!interrupt::raised()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) return;
    const std::array also = {interrupt::fd()};
    client.wait(left, also);
  }
}

void print_round_trip(Call& call, const std::string& host, std::uint64_t number, nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (call.json()) {
    call.out.line(
        json::Object().text("server", host).number("seq", number).raw("time_ms", in_milliseconds(ns)).str());
  } else {
    call.out.line("reply from " + host + ": seq=" + std::to_string(number) + " time=" + in_milliseconds(ns) +
                  " ms");
  }
  call.out.flush();
}

void print_totals(Call& call, const std::string& host, const PingTotals& totals) {
  const std::array times = {totals.least, totals.mean(), totals.most, totals.deviation()};
  if (call.json()) {
    json::Object object;
    object.text("server", host).number("sent", totals.sent).number("received", totals.received);
    object.number("lost_percent", totals.lost_percent());
    constexpr std::array names = {"min_ms", "avg_ms", "max_ms", "mdev_ms"};
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (totals.received != 0) object.raw(names[i], in_milliseconds(times[i]));
    }
    call.out.line(object.str());
    return;
  }
  call.out.line("\n--- " + host + " ping statistics ---");
  call.out.line(std::to_string(totals.sent) + " calls sent, " + std::to_string(totals.received) +
                " replies, " + std::to_string(totals.lost_percent()) + "% lost");
  if (totals.received == 0) return;
  std::string text = "rtt min/avg/max/mdev = ";
  for (std::size_t i = 0; i < times.size(); ++i) text += (i == 0 ? "" : "/") + in_milliseconds(times[i]);
  call.out.line(text + " ms");
}

void ping(Call& call, const Remote& remote, std::optional<std::uint64_t> count, milliseconds interval) {
  const Info info = remote.client->info();
  if (!call.json()) {
    call.out.line("PING " + remote.host + " (" + info.address + ") over " + info.fabric + ", NFS " +
                  info.version + ": " + info.ping_call);
  }
  PingTotals totals;
  call.interruption_is_an_end = true;
  for (auto next = Clock::now(); call.going(); next = std::max(next + interval, Clock::now())) {
    rest_until(*remote.client, next);
    if (interrupt::raised()) break;
    const Result<nanoseconds> time = remote.client->ping();
    if (!time && time.error().kind() == ErrorKind::cancelled) break;  // interrupted, and so not lost
    ++totals.sent;
    if (time) {
      totals.add(*time);
      print_round_trip(call, remote.host, totals.sent, *time);
    } else {
      say_error(time.error());
    }
    if (count && totals.sent >= *count) break;
  }
  print_totals(call, remote.host, totals);
  if (totals.received == 0) call.status = exit_failed;
}

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string with_bytes(std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

void print_info(Output& out, const Info& info) {
  constexpr std::size_t key_width = 24;
  const auto row = [&](const char* key, const std::string& value) {
    out.line(left(std::string(key) + ":", key_width) + (value.empty() ? "-" : printable(value)));
  };
  std::string implementation = info.implementation_name;
  if (!info.implementation_domain.empty()) implementation += " (" + info.implementation_domain + ")";
  if (info.implementation_date) implementation += ", " + full_time(*info.implementation_date);
  if (implementation.empty()) implementation = "not reported by the server";
  row("server", info.server);
  row("address", info.address);
  row("fabric", info.fabric + (info.fabric_reason.empty() ? "" : " (" + info.fabric_reason + ")"));
  if (!info.fabric_detail.empty()) row("fabric detail", info.fabric_detail);
  if (!info.device.empty()) {
    row("device", info.device);
    row("memory windows", yes_no(info.memory_windows));
  }
  if (info.mpa_revision != 0) {
    row("MPA revision", std::to_string(info.mpa_revision));
    row("CRC", info.crc ? "on" : "off");
  }
  row("RDMA Reads, in / out", std::to_string(info.ird) + " / " + std::to_string(info.ord));
  row("inline threshold",
      "to the server " + with_bytes(info.call_threshold) + ", from it " + with_bytes(info.reply_threshold));
  row("private data", info.private_data ? "RFC 8797" : "none from the server");
  row("remote invalidation", info.remote_invalidation ? "yes"
                             : info.invalidation_offered
                                 ? "offered by this client, not confirmed by the server"
                                 : "no");
  row("credits", std::to_string(info.credits_granted) + " granted, " + std::to_string(info.credits_wanted) +
                     " requested");
  row("NFS version", info.version);
  row("security", "sec=" + info.security);
  if (!info.locks.empty()) row("locks", info.locks);
  if (!info.read_plus.empty()) row("READ_PLUS", info.read_plus);
  row("rsize / wsize", std::to_string(info.rsize) + " / " + with_bytes(info.wsize));
  if (!info.session_id.empty()) {
    row("session", info.session_id);
    row("slots", std::to_string(info.slots));
    row("largest request", with_bytes(info.max_request));
    row("largest reply",
        with_bytes(info.max_response) + ", " + with_bytes(info.max_response_cached) + " cached");
    row("operations per call", std::to_string(info.max_operations));
    row("state protection", info.protects_state ? "by the machine credential (SP4_MACH_CRED)" : "none");
    row("implementation", implementation);
    row("server owner", info.server_owner);
    row("server scope", info.server_scope);
  }
  if (info.client_id != 0) {
    row("lease", std::to_string(info.lease_seconds) + " s");
    row("client id", std::to_string(info.client_id));
    const std::string& where = info.callback_address;
    row("callbacks", !info.backchannel ? "no" : where.empty() ? "yes" : "over TCP, at " + where);
  }
  row("connections", std::to_string(info.connections));
  row("calls so far", std::to_string(info.calls) + ", " + std::to_string(info.retransmissions) +
                          " retransmitted, " + std::to_string(info.reconnects) + " reconnects");
}

std::string info_json(const Info& info) {
  json::Object out;
  out.text("server", info.server).text("address", info.address).text("fabric", info.fabric);
  out.text("fabric_detail", info.fabric_detail).text("fabric_reason", info.fabric_reason);
  out.text("device", info.device).boolean("memory_windows", info.memory_windows);
  out.number("mpa_revision", info.mpa_revision).boolean("crc", info.crc);
  out.number("ird", info.ird).number("ord", info.ord);
  out.number("call_threshold", info.call_threshold).number("reply_threshold", info.reply_threshold);
  out.boolean("private_data", info.private_data).boolean("remote_invalidation", info.remote_invalidation);
  out.boolean("invalidation_offered", info.invalidation_offered);
  out.number("credits_wanted", info.credits_wanted).number("credits_granted", info.credits_granted);
  out.text("version", info.version).number("minor_version", info.minor_version);
  out.text("locks", info.locks).text("security", info.security);
  out.text("read_plus", info.read_plus).number("hole_bytes", info.hole_bytes);
  out.boolean("protects_state", info.protects_state);
  out.number("slots", info.slots).number("max_request", info.max_request);
  out.number("max_response", info.max_response).number("max_response_cached", info.max_response_cached);
  out.number("max_operations", info.max_operations).number("rsize", info.rsize).number("wsize", info.wsize);
  out.number("lease_seconds", info.lease_seconds);
  out.text("implementation_name", info.implementation_name);
  out.text("implementation_domain", info.implementation_domain);
  if (info.implementation_date) {
    out.raw("implementation_date", decimal_time(*info.implementation_date));
  } else {
    out.null("implementation_date");
  }
  out.text("server_owner", info.server_owner).text("server_scope", info.server_scope);
  out.number("client_id", info.client_id).text("session_id", info.session_id);
  if (!info.callback_address.empty()) out.text("callback_address", info.callback_address);
  out.boolean("backchannel", info.backchannel).number("connections", info.connections);
  out.number("calls", info.calls).number("retransmissions", info.retransmissions);
  out.number("reconnects", info.reconnects);
  return out.str();
}

constexpr std::size_t df_width = 12;

std::uint64_t used_percent(std::uint64_t used, std::uint64_t available) {
  const double total = static_cast<double>(used) + static_cast<double>(available);
  return total == 0 ? 0 : static_cast<std::uint64_t>(std::ceil(static_cast<double>(used) * 100 / total));
}

void print_space(Call& call, const Remote& remote, const FilesystemSpace& space) {
  const bool inodes = call.has("inodes");
  const std::uint64_t total = inodes ? space.files_total : space.total;
  const std::uint64_t available = inodes ? space.files_available : space.available;
  const std::uint64_t used = total - std::min(total, inodes ? space.files_free : space.free);
  if (call.json()) {
    json::Object out;
    out.text("target", remote.text()).number("total", space.total).number("free", space.free);
    out.number("available", space.available).number("used", space.total - std::min(space.total, space.free));
    out.number("files_total", space.files_total).number("files_free", space.files_free);
    out.number("files_available", space.files_available);
    call.out.line(out.str());
    return;
  }
  const auto amount = [&](std::uint64_t value) {
    if (call.has("human")) return right(human_size(value), df_width);
    return right(std::to_string(inodes ? value : (value + 1023) / 1024), df_width);
  };
  call.out.line(amount(total) + amount(used) + amount(available) +
                right(std::to_string(used_percent(used, available)) + "%", 6) + "  " +
                printable(remote.text()));
}

constexpr std::size_t path_width = 40;

/// Lists the exports that the server's mount service reports, for NFSv3 and v2.
Status list_mount_exports(Call& call, const Target& target) {
  const Result<std::vector<Export>> exports = list_exports(target, interrupt::fd());
  if (!exports) return exports.error();
  for (const Export& one : *exports) {
    std::string clients;
    for (const std::string& client : one.clients) clients += (clients.empty() ? "" : ",") + client;
    if (call.json()) {
      json::Object out;
      out.text("server", target.host)
          .text("service", "mount")
          .text("path", one.path)
          .text("clients", clients);
      call.out.line(out.str());
    } else {
      call.out.line(left(printable(one.path), path_width) + " " +
                    (clients.empty() ? "*" : printable(clients)));
    }
  }
  return {};
}

Status list_who_mounts(Call& call, const Target& target) {
  const Result<std::vector<MountedBy>> mounts = list_mounts(target, interrupt::fd());
  if (!mounts) return mounts.error();
  for (const MountedBy& one : *mounts) {
    if (call.json()) {
      json::Object out;
      out.text("server", target.host).text("client", one.client).text("path", one.path);
      call.out.line(out.str());
    } else {
      call.out.line(left(printable(one.path), path_width) + " " + printable(one.client));
    }
  }
  return {};
}

/// Lists the exports as a client of NFSv4 sees them.
Status list_nfs4_exports(Call& call, Target target) {
  const bool is_version_4 = target.options.get("vers").value_or("").starts_with('4');  // "4.0" stays
  if (!is_version_4) {
    if (Status status = target.options.set("vers", "4"); !status) return status.error();
  }
  const Result<Remote> remote = call.servers.at(target);
  if (!remote) return remote.error();
  const Result<std::vector<std::string>> exports = pseudo_exports(*remote->client);
  if (!exports) return exports.error();
  for (const std::string& path : *exports) {
    if (call.json()) {
      json::Object out;
      out.text("server", target.host).text("service", "nfs4").text("path", path);
      call.out.line(out.str());
    } else {
      call.out.line(left(printable(path), path_width) + " NFSv4");
    }
  }
  return {};
}

/// Reads a sparse file at its first hole, because the answer shows what the server does with READ_PLUS.
void read_a_hole(const Remote& remote) {
  const Result<Attributes> attributes = remote.client->stat(remote.path);
  if (!attributes || attributes->type != FileType::regular) return;
  auto file = remote.client->open(remote.path, OpenMode::read);
  if (!file) return;
  const auto hole = (*file)->seek(0, true);
  if (!hole || !*hole || **hole >= attributes->size) return;
  // The client takes a server for one that reports no holes after this many answers without one.
  constexpr int kTries = 3;
  constexpr std::size_t kPiece = 128U << 10;
  std::vector<std::byte> piece(kPiece);
  for (int i = 0; i < kTries; ++i) (void)(*file)->read(piece, **hole);
}

}  // namespace

std::string server_target(const std::string& operand) {
  const bool bare = operand.find_first_of("/:") == std::string::npos ||
                    (operand.starts_with('[') && operand.ends_with(']'));
  return bare ? operand + ":/" : operand;
}

std::optional<std::vector<Operand>> server_targets(Call& call) {
  std::vector<std::string> operands;
  operands.reserve(call.arguments.operands.size());
  for (const std::string& operand : call.arguments.operands) operands.push_back(server_target(operand));
  return call.targets(operands);
}

void run_ping(Call& call) {
  const auto count_text = call.arguments.value("count");
  const auto count = count_text ? parse_count(*count_text) : std::nullopt;
  if (count_text && !count)
    return call.misused("--count takes a number from 1 on, not '" + *count_text + "'");
  const std::string interval_text = call.arguments.value("interval").value_or("1");
  const auto interval = parse_interval(interval_text);
  if (!interval) return call.misused("--interval takes seconds from 0.001 on, not '" + interval_text + "'");
  const auto targets = server_targets(call);
  if (!targets) return;
  Result<Remote> remote = call.servers.at(targets->front());
  if (!remote) return call.failed(remote.error());
  ping(call, *remote, count, *interval);
}

void run_info(Call& call) {
  const auto targets = server_targets(call);
  if (!targets) return;
  bool first = true;
  for (const Operand& operand : *targets) {
    if (!call.going()) return;
    Result<Remote> remote = call.servers.at(operand);
    if (!remote) {
      call.failed(remote.error());
      continue;
    }
    read_a_hole(*remote);
    const Info info = remote->client->info();
    if (call.json()) {
      call.out.line(info_json(info));
    } else {
      if (!first) call.out.line("");
      print_info(call.out, info);
    }
    first = false;
  }
}

void run_exports(Call& call) {
  const auto targets = server_targets(call);
  if (!targets) return;
  for (const auto& [target, given] : *targets) {
    if (!call.going()) return;
    if (call.has("mounts")) {
      const Status listed = list_who_mounts(call, target);
      if (!listed) call.failed(listed.error());
      continue;
    }
    const std::string version = target.options.get("vers").value_or("");  // "" if none was given
    const Status mounts = version.starts_with('4') ? Status() : list_mount_exports(call, target);
    if (!call.going()) return;
    const bool asks_nfs4 = version.empty() || version.starts_with('4');
    const Status nfs4 = asks_nfs4 ? list_nfs4_exports(call, target) : Status();
    // A server may have only one of the two services. Unless a version was given, an error counts only if
    // both fail.
    const bool none = !version.empty() || (!mounts && !nfs4);
    for (const Status& one : {mounts, nfs4}) {
      if (one) continue;
      if (none)
        call.failed(one.error());
      else if (call.going())
        say_error(one.error());
    }
  }
}

void run_df(Call& call) {
  const auto targets = server_targets(call);
  if (!targets) return;
  bool headed = call.json();
  for (const Operand& operand : *targets) {
    if (!call.going()) return;
    Result<Remote> remote = call.servers.at(operand);
    const Result<FilesystemSpace> space =
        remote ? remote->client->space(remote->path) : Result<FilesystemSpace>(remote.error());
    if (!space) {
      call.failed(space.error());
      continue;
    }
    if (!headed) {
      const char* total = call.has("inodes") ? "Inodes" : call.has("human") ? "Size" : "1K-blocks";
      call.out.line(right(total, df_width) + right("Used", df_width) + right("Available", df_width) +
                    right("Use%", 6) + "  Target");
      headed = true;
    }
    print_space(call, *remote, *space);
  }
}

}  // namespace nfsrdma::cli
