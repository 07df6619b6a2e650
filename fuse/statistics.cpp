#include "fuse/statistics.h"

#include <linux/fuse.h>

#include <algorithm>
#include <type_traits>

#include "nfsrdma/one_line.h"

namespace nfsrdma::fuse {
namespace {

struct Named {
  unsigned number;
  const char* name;
};
constexpr std::array kNames{
    Named{FUSE_LOOKUP, "LOOKUP"},
    Named{FUSE_FORGET, "FORGET"},
    Named{FUSE_GETATTR, "GETATTR"},
    Named{FUSE_SETATTR, "SETATTR"},
    Named{FUSE_READLINK, "READLINK"},
    Named{FUSE_SYMLINK, "SYMLINK"},
    Named{FUSE_MKNOD, "MKNOD"},
    Named{FUSE_MKDIR, "MKDIR"},
    Named{FUSE_UNLINK, "UNLINK"},
    Named{FUSE_RMDIR, "RMDIR"},
    Named{FUSE_RENAME, "RENAME"},
    Named{FUSE_LINK, "LINK"},
    Named{FUSE_OPEN, "OPEN"},
    Named{FUSE_READ, "READ"},
    Named{FUSE_WRITE, "WRITE"},
    Named{FUSE_STATFS, "STATFS"},
    Named{FUSE_RELEASE, "RELEASE"},
    Named{FUSE_FSYNC, "FSYNC"},
    Named{FUSE_SETXATTR, "SETXATTR"},
    Named{FUSE_GETXATTR, "GETXATTR"},
    Named{FUSE_LISTXATTR, "LISTXATTR"},
    Named{FUSE_REMOVEXATTR, "REMOVEXATTR"},
    Named{FUSE_FLUSH, "FLUSH"},
    Named{FUSE_INIT, "INIT"},
    Named{FUSE_OPENDIR, "OPENDIR"},
    Named{FUSE_READDIR, "READDIR"},
    Named{FUSE_RELEASEDIR, "RELEASEDIR"},
    Named{FUSE_FSYNCDIR, "FSYNCDIR"},
    Named{FUSE_GETLK, "GETLK"},
    Named{FUSE_SETLK, "SETLK"},
    Named{FUSE_SETLKW, "SETLKW"},
    Named{FUSE_ACCESS, "ACCESS"},
    Named{FUSE_CREATE, "CREATE"},
    Named{FUSE_INTERRUPT, "INTERRUPT"},
    Named{FUSE_IOCTL, "IOCTL"},
    Named{FUSE_POLL, "POLL"},
    Named{FUSE_BATCH_FORGET, "BATCH_FORGET"},
    Named{FUSE_FALLOCATE, "FALLOCATE"},
    Named{FUSE_READDIRPLUS, "READDIRPLUS"},
    Named{FUSE_RENAME2, "RENAME2"},
    Named{FUSE_LSEEK, "LSEEK"},
    Named{FUSE_COPY_FILE_RANGE, "COPY_FILE_RANGE"},
};

/// Lines of "word word key=value key=value".
class Lines {
 public:
  Lines& line(std::string_view first) {
    if (!text_.empty()) text_ += '\n';
    text_ += first;
    return *this;
  }
  Lines& word(std::string_view text) {
    text_ += ' ';
    text_ += text;
    return *this;
  }
  template <class Value>
  Lines& set(std::string_view key, const Value& value) {
    word(key).text_ += '=';
    if constexpr (std::is_same_v<Value, bool>) {
      text_ += value ? "1" : "0";
    } else if constexpr (std::is_arithmetic_v<Value>) {
      text_ += std::to_string(value);
    } else {
      text_ += value;
    }
    return *this;
  }
  /// Sets the keys of a latency. `name` goes in front of each key.
  Lines& set(std::string_view name, const async::Latencies& took) {
    const std::string prefix(name);
    set(prefix + "total_us", took.total_us());
    set(prefix + "p50_us", took.percentile_us(50));
    set(prefix + "p99_us", took.percentile_us(99));
    set(prefix + "max_us", took.longest_us());
    std::string buckets;
    for (std::size_t i = 0; i < async::Latencies::kBuckets; ++i) {
      if (took[i] == 0) continue;
      if (!buckets.empty()) buckets += ',';
      buckets += std::to_string(async::Latencies::end_of(i)) + ":" + std::to_string(took[i]);
    }
    return set(prefix + "histogram", buckets);
  }
  std::string take() { return std::move(text_) + "\n"; }

 private:
  std::string text_;
};

std::string seconds_text(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%g", value);
  return out.data();
}

const char* text_of(Fabric fabric) {
  switch (fabric) {
    case Fabric::verbs:
      return "verbs";
    case Fabric::iwarp:
      return "iwarp";
    case Fabric::automatic:
      break;
  }
  return "auto";
}
const char* text_of(Crc crc) {
  switch (crc) {
    case Crc::on:
      return "on";
    case Crc::off:
      return "off";
    case Crc::automatic:
      break;
  }
  return "auto";
}
const char* lookup_cache(const fs::CacheOptions& cache) {
  if (!cache.names) return "none";
  return cache.negative_names ? "all" : "pos";
}
const char* local_lock(const MountOptions& options) {
  if (options.local_flock) return options.local_posix ? "all" : "flock";
  return options.local_posix ? "posix" : "none";
}

std::string version_text(const connect::Options& to) {
  if (to.version && *to.version < 4) return std::to_string(*to.version);
  return "4." + std::to_string(to.minor_version);
}

/// Returns options that most mounts leave at their defaults, as far as they are set.
std::string seldom_set(const connect::Options& to) {
  const connect::Options usual{};
  std::string out, ports;
  const auto text = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out += std::string(",") + name + "=" + value;
  };
  const auto number = [&text](const char* name, unsigned value, unsigned usually) {
    if (value != usually) text(name, std::to_string(value));
  };
  for (const std::string& one : to.remote_ports) ports += (ports.empty() ? "" : "~") + one;
  number("shards", to.shards, usual.shards);
  if (to.connect_timeout != usual.connect_timeout)
    text("connect_timeout", std::to_string(to.connect_timeout.count()) + "ms");
  text("keytab", to.keytab);
  text("ccache", to.ccache);
  number("gssport", to.gss_port, usual.gss_port);
  text("mounthost", to.mount_host);
  number("mountport", to.mount_port, usual.mount_port);
  text("mountproto", to.mount_transport);
  text("clientaddr", to.callback_address);
  number("callback_port", to.callback_port, usual.callback_port);
  text("remoteports", ports);
  return out;
}

void add_header(Lines& out, const Picture& p) {
  out.line("nfsrdma-fuse statistics").word(std::to_string(kStatisticsFormat));
  out.line("version").word(NFSRDMA_VERSION);
  out.line("source").word(one_line(p.options.source));
  out.line("mountpoint").word(one_line(p.options.mountpoint));
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(p.age).count();
  const std::string thousandths = std::to_string(1000 + ms % 1000).substr(1);
  out.line("age").word(std::to_string(ms / 1000) + "." + thousandths);
  out.line("options").word(options_text(options_in_force(p)));
}

void add_requests(Lines& out, const Picture& p) {
  for (unsigned i = 0; i < RequestCounters::kOperations; ++i) {
    const RequestCounters::Operation& one = p.requests[i];
    const std::uint64_t count = one.took.count();
    if (count == 0) continue;
    out.line("fuse").word(operation_name(i)).set("count", count).set("errors", one.errors).set("", one.took);
  }
  out.line("fuse_under_way").word(std::to_string(p.requests.under_way()));
}

void add_calls(Lines& out, const Picture& p) {
  for (const auto& [name, one] : engine::calls_by_name(p.server)) {
    out.line("nfs").word(name);
    out.set("count", one.round_trip.count()).set("refused", one.refused).set("failed", one.failed);
    out.set("sent_again", one.sent_again);
    out.set("bytes_sent", one.bytes_sent).set("bytes_received", one.bytes_received);
    out.set("wait_us", one.waited.total_us()).set("wait_max_us", one.waited.longest_us());
    out.set("", one.round_trip);
  }
}

void add_security(Lines& out, const Picture& p) {
  for (const auto& [name, calls] : p.info.calls_by_security)
    out.line("security").word(name).set("calls", calls);
}

void add_data(Lines& out, const Picture& p) {
  const fs::Counters& c = p.data;
  out.line("data read").set("requests", c.reads).set("bytes", c.bytes_read);
  out.set("server_requests", c.server_reads).set("server_bytes", c.server_bytes_read);
  out.line("data ahead").set("hits", c.ahead_hits).set("server_requests", c.ahead_reads);
  out.set("server_bytes", c.ahead_bytes_read).set("unused_bytes", c.ahead_bytes_unused);
  out.line("data write").set("requests", c.writes).set("bytes", c.bytes_written);
  out.set("server_requests", c.server_writes).set("server_bytes", c.server_bytes_written);
  out.line("data behind").set("requests", c.writes_behind).set("waits", c.behind_waits);
}

const char* text_of(fs::Window::Why why) {
  switch (why) {
    case fs::Window::Why::requests:
      return "two_requests";
    case fs::Window::Why::product:
      return "bandwidth_x_delay";
    case fs::Window::Why::queue:
      return "short_queue";
    case fs::Window::Why::memory:
      return "memory";
    case fs::Window::Why::first:
      break;
  }
  return "nothing_known";
}

Lines& add_window(Lines& out, const char* name, const fs::Window& window) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(window.delay).count();
  out.line("window").word(name);
  out.set("bytes_per_second", static_cast<std::uint64_t>(window.bandwidth)).set("delay_us", us);
  out.set("product_bytes", window.product).set("window_bytes", window.bytes).set("why", text_of(window.why));
  return out;
}

void add_windows(Lines& out, const Picture& p) {
  const fs::Holdings& h = p.data_holdings;
  add_window(out, "read", h.read).set("ahead_bytes", h.bytes_ahead).set("readers", h.readers);
  out.set("kernel_ahead_bytes", p.kernel_ahead);
  add_window(out, "write", h.write);
}

void add_shards(Lines& out, const Picture& p) {
  if (p.shards == nullptr) return;
  const ShardCounters& s = *p.shards;
  out.line("shards").word("state").set("working", p.shards_working);
  const auto calls = [&out](const char* what, const ShardCounters::Calls& c) {
    out.line("shards")
        .word(what)
        .set("requests", c.made)
        .set("bytes", c.bytes)
        .set("made_again", c.made_again);
  };
  calls("reads", s.reads);
  out.set("answers", s.answers_sent);
  calls("writes", s.writes);
}

void add_rings(Lines& out, const Picture& p) {
  if (p.rings == nullptr) return;
  const RingCounters& r = *p.rings;
  out.line("ring state").set("rings", r.now).set("made", r.made).set("denied", r.denied);
  out.set("broken", r.broken).set("attached", r.attached).set("bytes", p.ring_bytes);
  out.line("ring requests").set("reads", r.reads).set("bytes_read", r.bytes_read).set("writes", r.writes);
  out.set("bytes_written", r.bytes_written).set("syncs", r.syncs).set("refused", r.refused);
  out.set("failed", r.failed).set("wakes", r.wakes);
}

void add_connections(Lines& out, const Picture& p) {
  for (std::size_t i = 0; i < p.connections.size(); ++i) {
    const Picture::Connection& one = p.connections[i];
    const rpcrdma::Facts& f = one.facts;
    out.line("connection").word(std::to_string(i + 1));
    out.set("up", one.up).set("fabric", one.fabric.empty() ? "none" : one.fabric);
    out.set("address", one.address).set("connects", f.connects).set("reconnects", f.reconnects);
    out.line("credits").word(std::to_string(i + 1));
    out.set("granted", f.granted).set("in_use", one.credits_in_use).set("most_in_use", f.most_in_flight);
    out.set("waits", f.credit_waits).set("pending", one.pending);
    out.line("rpc").word(std::to_string(i + 1));
    out.set("calls", f.calls).set("replies", f.replies).set("sent_again", f.retransmissions);
    out.set("discarded", f.discarded).set("callbacks", f.backward_calls);
    out.line("rdma").word(std::to_string(i + 1));
    out.set("inline_calls", f.plain_calls).set("read_chunks", f.reduced_calls + f.long_calls);
    out.set("long_calls", f.long_calls).set("write_chunks", f.write_chunks_offered);
    out.set("reply_chunks", f.reply_chunks_offered).set("reply_chunks_used", f.long_replies);
    out.set("send_bytes", f.bytes_sent).set("receive_bytes", f.bytes_received);
    out.set("read_chunk_bytes", f.bytes_exposed).set("write_chunk_bytes", f.bytes_placed);
  }
}

void add_state(Lines& out, const Picture& p) {
  const engine::ServerHoldings& h = p.server_holdings;
  out.line("session").set("connections", p.info.connections).set("slots", h.slots);
  out.set("slots_in_use", h.slots_busy).set("slots_retired", h.slots_retired);
  out.set("slots_most_used", p.server.calls.empty() ? 0U : p.server.highest_slot + 1);
  out.set("slot_waits", p.server.slot_waits).set("slot_wait_us", p.server.slot_waited_us);
  out.set("lease_seconds", p.info.lease_seconds).set("recoveries", p.server.recoveries);
  out.line("state").set("inodes", p.data_holdings.inodes).set("open_files", p.data_holdings.files);
  out.set("opens", h.opens).set("locks", h.locks).set("delegations", h.delegations);
  out.set("delegations_granted", p.server.delegations_granted);
  out.set("delegations_recalled", p.server.delegations_recalled);
  out.set("delegations_revoked", p.server.delegations_revoked).set("hidden_files", p.data.hidden);
  out.line("holes").set("bytes_not_sent", p.server.hole_bytes);
  out.line("memory").set("write_behind_bytes", p.data_holdings.bytes_behind);
  out.set("write_window_bytes", p.data_holdings.write.bytes);
  out.set("uncommitted_bytes", p.data_holdings.uncommitted_bytes);
  out.set("spare_bytes", p.data_holdings.spare_bytes).set("directory_bytes", p.data_holdings.bytes_listed);
}

}  // namespace

std::uint64_t RequestCounters::writes_under_way() const {
  return operations_[FUSE_WRITE].under_way;
}

bool RequestCounters::is_waited_for(unsigned operation) {
  return operation != FUSE_RELEASE && operation != FUSE_RELEASEDIR && operation != FUSE_FORGET &&
         operation != FUSE_BATCH_FORGET;
}

std::string operation_name(unsigned operation) {
  const auto known = std::ranges::find(kNames, operation, &Named::number);
  return known == kNames.end() ? std::to_string(operation) : known->name;
}

std::string trace_text(const Picture& picture) {
  return picture.trace;
}

std::string options_text(const MountOptions& options) {
  const connect::Options& to = options.target.options;
  const fs::CacheOptions& cache = options.cache;
  std::string out = "vers=" + version_text(to);
  const auto add = [&out](const std::string& word) { out += "," + word; };
  const auto number = [&add](const char* name, auto value) { add(name + std::to_string(value)); };
  const auto seconds = [&add](const char* name, fs::Seconds value) {
    add(name + seconds_text(value.count()));
  };
  std::string flavors;
  for (const Security one : to.security)
    flavors += (flavors.empty() ? "" : ":") + std::string(security_name(one));
  if (!flavors.empty()) add("sec=" + flavors);
  number("rsize=", to.rsize);
  number("wsize=", to.wsize);
  number("port=", to.port);
  add(std::string("fabric=") + text_of(to.fabric));
  add(std::string("crc=") + text_of(to.crc));
  number("nconnect=", to.connections);
  number("threads=", to.threads);
  number("credits=", to.credits);
  number("timeo=", to.timeout.count() / 100);
  add(options.hard ? "hard" : "soft");
  number("retrans=", options.retrans);
  seconds("acregmin=", cache.file_min);
  seconds("acregmax=", cache.file_max);
  seconds("acdirmin=", cache.directory_min);
  seconds("acdirmax=", cache.directory_max);
  add(std::string("lookupcache=") + lookup_cache(cache));
  add(cache.close_to_open ? "cto" : "nocto");
  add(cache.sync ? "sync" : "async");
  add(std::string("local_lock=") + local_lock(options));
  if (options.cache.kernel_gathers) add("writeback_cache");
  if (!options.ring) add("noring");
  if (!options.client_id.empty()) add("clientid=" + options.client_id);
  if (to.busy_poll.count() != 0) number("busy_poll=", to.busy_poll.count());
  if (to.uid) number("uid=", *to.uid);
  if (to.gid) number("gid=", *to.gid);
  out += seldom_set(to);
  for (const std::string& option : options.kernel) add(option);
  return out;
}

MountOptions options_in_force(const Picture& picture) {
  MountOptions out = picture.options;
  (void)out.target.options.set("vers", picture.info.version);
  (void)out.target.options.set("sec", picture.info.security);
  out.target.options.rsize = picture.rsize;
  out.target.options.wsize = picture.wsize;
  return out;
}

std::string statistics_text(const Picture& picture) {
  Lines out;
  add_header(out, picture);
  add_requests(out, picture);
  add_calls(out, picture);
  add_security(out, picture);
  add_data(out, picture);
  add_windows(out, picture);
  add_shards(out, picture);
  add_rings(out, picture);
  add_connections(out, picture);
  add_state(out, picture);
  return out.take();
}

}  // namespace nfsrdma::fuse
