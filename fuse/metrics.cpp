#include "fuse/metrics.h"

#include <array>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {
namespace {

struct Label {
  std::string_view name;
  std::string value;
};

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.15g", value);
  return out.data();
}

double seconds(std::uint64_t microseconds) {
  return static_cast<double>(microseconds) / 1e6;
}

/// The metrics as text. family() begins a metric, and sample() adds a value of it.
class Exposition {
 public:
  explicit Exposition(std::string_view mountpoint) : mountpoint_(escaped(mountpoint)) {}

  Exposition& counter(std::string_view name, std::string_view help) { return family(name, "counter", help); }
  Exposition& gauge(std::string_view name, std::string_view help) { return family(name, "gauge", help); }
  Exposition& histogram(std::string_view name, std::string_view help) {
    return family(name, "histogram", help);
  }
  Exposition& sample(double value, std::initializer_list<Label> labels = {}) {
    return line("", labels, value);
  }
  /// Adds the samples of one histogram. Limits that are powers of two of microseconds are counted exactly.
  void samples(const async::Latencies& took, const Label& label) {
    constexpr std::size_t kFirst = 4, kStep = 2;  // from 16 us on, each limit four times the one before
    std::uint64_t count = 0;
    for (std::size_t bucket = 0; bucket + 1 < async::Latencies::kBuckets; ++bucket) {
      count += took[bucket];
      if (bucket < kFirst || (bucket - kFirst) % kStep != 0) continue;
      line("_bucket", {label, {"le", number(seconds(async::Latencies::end_of(bucket)))}},
           static_cast<double>(count));
    }
    line("_bucket", {label, {"le", "+Inf"}}, static_cast<double>(took.count()));
    line("_sum", {label}, seconds(took.total_us()));
    line("_count", {label}, static_cast<double>(took.count()));
  }
  std::string take() { return std::move(text_); }

 private:
  Exposition& family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "nfsrdma_" + std::string(name);
    text_ +=
        "# HELP " + name_ + " " + std::string(help) + "\n# TYPE " + name_ + " " + std::string(type) + "\n";
    return *this;
  }
  Exposition& line(std::string_view suffix, std::initializer_list<Label> labels, double value) {
    text_ += name_;
    text_ += suffix;
    text_ += "{mountpoint=\"" + mountpoint_ + "\"";
    for (const Label& label : labels) {
      text_ += ',';
      text_ += label.name;
      text_ += "=\"" + escaped(label.value) + "\"";
    }
    text_ += "} " + number(value) + "\n";
    return *this;
  }
  const std::string mountpoint_;
  std::string name_, text_;
};

template <class Value>
double real(Value value) {
  return static_cast<double>(value);
}

void add_mount(Exposition& out, const Picture& p) {
  out.gauge("mount_info", "The mount: what is mounted, and how. Always 1.");
  const std::string fabric = p.connections.empty() ? "" : p.connections.front().fabric;
  out.sample(1, {{"source", one_line(p.options.source)},
                 {"nfs_version", p.info.version},
                 {"security", p.info.security},
                 {"fabric", fabric},
                 {"version", NFSRDMA_VERSION}});
  out.gauge("mount_age_seconds", "Time since the mount was made.");
  out.sample(std::chrono::duration<double>(p.age).count());
}

void add_requests(Exposition& out, const Picture& p) {
  const auto each = [&](auto add) {
    for (unsigned i = 0; i < RequestCounters::kOperations; ++i) {
      if (p.requests[i].took.count() != 0) add(p.requests[i], Label{"operation", operation_name(i)});
    }
  };
  out.histogram("request_duration_seconds", "Requests of the kernel: from arrival to answer.");
  each([&](const auto& one, const Label& label) { out.samples(one.took, label); });
  out.counter("request_errors_total", "Requests of the kernel that were answered with an error.");
  each([&](const auto& one, const Label& label) { out.sample(real(one.errors), {label}); });
  out.gauge("requests_under_way", "Requests of the kernel that are not answered yet.");
  out.sample(real(p.requests.under_way()));
}

void add_calls(Exposition& out, const Picture& p) {
  const auto calls = engine::calls_by_name(p.server);
  const auto each = [&](auto value) {
    for (const auto& [name, one] : calls) out.sample(value(one), {{"operation", name}});
  };
  using Calls = engine::CallCounters;
  out.histogram("call_duration_seconds", "Calls to the server: from sending to the arrival of the Reply.");
  for (const auto& [name, one] : calls) out.samples(one.round_trip, {"operation", name});
  out.counter("call_wait_seconds_total", "Time that calls waited for a credit or a connection.");
  each([](const Calls& one) { return seconds(one.waited.total_us()); });
  out.counter("calls_refused_total", "Calls that the server answered with an error status.");
  each([](const Calls& one) { return real(one.refused); });
  out.counter("calls_failed_total", "Calls that ended without an answer.");
  each([](const Calls& one) { return real(one.failed); });
  out.counter("calls_sent_again_total", "Times that a call was sent again after a lost connection.");
  each([](const Calls& one) { return real(one.sent_again); });
  out.counter("call_sent_bytes_total", "Bytes of RPC messages to the server, data included.");
  each([](const Calls& one) { return real(one.bytes_sent); });
  out.counter("call_received_bytes_total", "Bytes of RPC messages from the server, data included.");
  each([](const Calls& one) { return real(one.bytes_received); });
}

void add_data(Exposition& out, const Picture& p) {
  const fs::Counters& c = p.data;
  const auto both = [&](const char* name, const char* help, std::uint64_t reads, std::uint64_t writes) {
    out.counter(name, help);
    out.sample(real(reads), {{"operation", "READ"}}).sample(real(writes), {{"operation", "WRITE"}});
  };
  both("data_bytes_total", "Bytes of data that the kernel read and wrote.", c.bytes_read, c.bytes_written);
  both("server_data_bytes_total", "Bytes of data in READs and WRITEs.", c.server_bytes_read,
       c.server_bytes_written);
  out.counter("read_ahead_bytes_total", "Bytes that were read before a program asked for them.");
  out.sample(real(c.ahead_bytes_read));
  out.counter("read_ahead_unused_bytes_total", "Bytes that were read ahead and dropped unused.");
  out.sample(real(c.ahead_bytes_unused));
  out.counter("hole_bytes_total", "Bytes of holes that the server reported and did not send.");
  out.sample(real(p.server.hole_bytes));
}

void add_connections(Exposition& out, const Picture& p) {
  using Connection = Picture::Connection;
  const auto each = [&](auto value) {
    for (std::size_t i = 0; i < p.connections.size(); ++i)
      out.sample(real(value(p.connections[i])), {{"connection", std::to_string(i + 1)}});
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    out.gauge(name, help);
    each(value);
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    out.counter(name, help);
    each(value);
  };
  gauge("connection_up", "1 if the connection is up.", [](const Connection& c) { return c.up ? 1 : 0; });
  counter("connection_reconnects_total", "Times that the connection was made again.",
          [](const Connection& c) { return c.facts.reconnects; });
  gauge("connection_credits", "Calls that the server grants at the same time.",
        [](const Connection& c) { return c.facts.granted; });
  gauge("connection_credits_in_use", "Calls that are with the server.",
        [](const Connection& c) { return c.credits_in_use; });
  counter("connection_credit_waits_total", "Calls that had to wait for a credit.",
          [](const Connection& c) { return c.facts.credit_waits; });
  counter("connection_calls_total", "Calls that were sent.",
          [](const Connection& c) { return c.facts.calls; });
  counter("connection_retransmissions_total", "Calls that were sent again.",
          [](const Connection& c) { return c.facts.retransmissions; });
  counter("connection_sent_bytes_total", "Bytes that were sent in messages.",
          [](const Connection& c) { return c.facts.bytes_sent; });
  counter("connection_received_bytes_total", "Bytes that were received in messages.",
          [](const Connection& c) { return c.facts.bytes_received; });
  counter("connection_read_chunk_bytes_total", "Bytes that the server fetched by RDMA Read.",
          [](const Connection& c) { return c.facts.bytes_exposed; });
  counter("connection_write_chunk_bytes_total", "Bytes that the server placed by RDMA Write.",
          [](const Connection& c) { return c.facts.bytes_placed; });
}

void add_state(Exposition& out, const Picture& p) {
  const engine::ServerHoldings& h = p.server_holdings;
  const auto gauge = [&](const char* name, const char* help, auto value) {
    out.gauge(name, help).sample(real(value));
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    out.counter(name, help).sample(real(value));
  };
  gauge("session_slots", "Calls that the session allows at the same time.", h.slots);
  gauge("session_slots_in_use", "Slots of the session that are in use.", h.slots_busy);
  counter("session_slot_waits_total", "Calls that had to wait for a slot.", p.server.slot_waits);
  out.counter("session_slot_wait_seconds_total", "Time that calls waited for a slot.")
      .sample(seconds(p.server.slot_waited_us));
  counter("recoveries_total", "Times that the state at the server was recovered.", p.server.recoveries);
  gauge("inodes", "Files and directories that the kernel knows.", p.data_holdings.inodes);
  gauge("open_files", "Files that programs have open.", p.data_holdings.files);
  gauge("opens", "Opens that the server holds for this mount.", h.opens);
  gauge("locks", "Ranges that are locked.", h.locks);
  gauge("delegations", "Delegations that this mount holds.", h.delegations);
  counter("delegations_granted_total", "Delegations that the server granted.", p.server.delegations_granted);
  counter("delegations_recalled_total", "Delegations that the server recalled.",
          p.server.delegations_recalled);
  counter("delegations_revoked_total", "Delegations that the server revoked.", p.server.delegations_revoked);
  gauge("write_behind_bytes", "Bytes that were written by programs and not sent yet.",
        p.data_holdings.bytes_behind);
  gauge("uncommitted_bytes", "Bytes that the server may still lose.", p.data_holdings.uncommitted_bytes);
}

void add_shards(Exposition& out, const Picture& p) {
  if (p.shards == nullptr) return;
  const ShardCounters& s = *p.shards;
  out.gauge("shards_working", "Shards that work.").sample(real(p.shards_working));
  out.counter("shard_reads_total", "READs that shards have made.").sample(real(s.reads.made));
  out.counter("shard_read_bytes_total", "Bytes that shards have read.").sample(real(s.reads.bytes));
  out.counter("shard_reads_made_again_total", "READs that were made again because a shard could not.");
  out.sample(real(s.reads.made_again));
  out.counter("shard_writes_total", "WRITEs that shards have made.").sample(real(s.writes.made));
  out.counter("shard_written_bytes_total", "Bytes that shards have written.").sample(real(s.writes.bytes));
  out.counter("shard_writes_made_again_total", "WRITEs that were made again because a shard could not.");
  out.sample(real(s.writes.made_again));
}

void add_rings(Exposition& out, const Picture& p) {
  if (p.rings == nullptr) return;
  const RingCounters& r = *p.rings;
  out.gauge("rings", "Rings of programs.").sample(real(r.now));
  out.counter("ring_bytes_total", "Bytes of data that went through rings.");
  out.sample(real(r.bytes_read), {{"operation", "READ"}})
      .sample(real(r.bytes_written), {{"operation", "WRITE"}});
  out.counter("ring_errors_total", "Requests of rings that were refused or failed.");
  out.sample(real(r.refused + r.failed));
}

}  // namespace

std::string metrics_text(const Picture& picture) {
  Exposition out(one_line(picture.options.mountpoint));
  add_mount(out, picture);
  add_requests(out, picture);
  add_calls(out, picture);
  add_data(out, picture);
  add_connections(out, picture);
  add_state(out, picture);
  add_shards(out, picture);
  add_rings(out, picture);
  return out.take();
}

}  // namespace nfsrdma::fuse
