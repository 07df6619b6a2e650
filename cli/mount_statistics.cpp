// See mount_statistics.h.
#include "cli/mount_statistics.h"

#include <algorithm>
#include <array>

#include "cli/parse.h"

namespace nfsrdma::cli {
namespace {

/// Removes the first word from a line and returns it; "" at the end.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

template <class Number>
Number number_of(std::string_view text) {
  return parse_number<Number>(text).value_or(Number{});
}

/// The words "key=value" of a line.
class Values {
 public:
  explicit Values(std::string_view line) {
    for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
      const std::size_t equals = word.find('=');
      if (equals != std::string_view::npos) values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  [[nodiscard]] std::uint64_t operator[](std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? 0 : number_of<std::uint64_t>(found->second);
  }

 private:
  std::map<std::string_view, std::string_view> values_;
};

void add_request(MountSample& out, std::string_view name, const Values& values) {
  out.requests[std::string(name)] = {values["count"], values["errors"], values["total_us"]};
}
void add_call(MountSample& out, std::string_view name, const Values& values) {
  out.calls[std::string(name)] = {values["count"], values["refused"] + values["failed"], values["total_us"]};
  out.bytes_sent += values["bytes_sent"];
  out.bytes_received += values["bytes_received"];
}
void add_data(MountSample& out, std::string_view name, const Values& values) {
  if (name == "read") out.bytes_read += values["bytes"];
  if (name == "write") out.bytes_written += values["bytes"];
}
/// Reads and writes through rings do not pass the kernel.
void add_ring(MountSample& out, std::string_view name, const Values& values) {
  if (name != "requests") return;
  out.bytes_read += values["bytes_read"];
  out.bytes_written += values["bytes_written"];
}
void add_connection(MountSample& out, std::string_view /*number*/, const Values& values) {
  ++out.connections;
  out.connections_up += values["up"];
  out.reconnects += values["reconnects"];
}

struct Part {
  std::string_view name;
  void (*add)(MountSample&, std::string_view, const Values&);
};
constexpr std::array parts{Part{"fuse", add_request}, Part{"nfs", add_call}, Part{"data", add_data},
                           Part{"ring", add_ring}, Part{"connection", add_connection}};

void add_line(MountSample& out, std::string_view line) {
  const std::string_view section = take_word(line);
  if (section == "source") out.source = line.substr(std::min<std::size_t>(1, line.size()));
  if (section == "age") out.age = number_of<double>(take_word(line));
  if (section == "fuse_under_way") {
    // The opening of the file is one of them.
    const auto all = number_of<std::uint64_t>(take_word(line));
    out.in_flight = all - std::min<std::uint64_t>(all, 1);
  }
  const auto* const part = std::ranges::find(parts, section, &Part::name);
  if (part == parts.end()) return;
  const std::string_view name = take_word(line);
  part->add(out, name, Values(line));
}

// ---- rates ----

enum class Family : unsigned char { read, write, metadata, none };

Family family_of(std::string_view request) {
  if (request == "READ") return Family::read;
  if (request == "WRITE") return Family::write;
  // These are not answered, or begin the mount.
  constexpr std::array<std::string_view, 4> uncounted{"FORGET", "BATCH_FORGET", "INIT", "INTERRUPT"};
  return std::ranges::find(uncounted, request) != uncounted.end() ? Family::none : Family::metadata;
}

KindCounters difference(const KindCounters& after, const KindCounters& before) {
  return {after.count - before.count, after.errors - std::min(after.errors, before.errors),
          after.total_us - std::min(after.total_us, before.total_us)};
}

KindRate rate_of(const KindCounters& counters, double seconds) {
  KindRate out;
  if (seconds <= 0) return out;
  const auto count = static_cast<double>(counters.count);
  const auto total_us = static_cast<double>(counters.total_us);
  out.per_second = count / seconds;
  out.errors_per_second = static_cast<double>(counters.errors) / seconds;
  out.mean_ms = counters.count == 0 ? 0 : total_us / count / 1e3;
  out.busy = total_us / 1e6 / seconds;
  return out;
}

/// Returns true if the counters of `after` cannot have grown from those of `before`.
bool is_another_mount(const MountSample& before, const MountSample& after) {
  if (after.age < before.age || after.source != before.source) return true;
  return std::ranges::any_of(before.requests, [&](const auto& one) {
    const auto found = after.requests.find(one.first);
    return found == after.requests.end() || found->second.count < one.second.count;
  });
}

using Counters = std::map<std::string, KindCounters>;

/// Returns what was added to the counters of each kind.
Counters added(const Counters& before, const Counters& after) {
  Counters out;
  for (const auto& [name, counters] : after) {
    const auto earlier = before.find(name);
    const KindCounters start = earlier == before.end() ? KindCounters{} : earlier->second;
    const KindCounters change = difference(counters, start);
    if (counters.count > start.count) out[name] = change;
  }
  return out;
}

void add_kinds(MountRates& out, const Counters& counters, bool is_call) {
  for (const auto& [name, one] : counters) {
    KindRate rate = rate_of(one, out.seconds);
    rate.name = name;
    rate.is_call = is_call;
    out.kinds.push_back(std::move(rate));
  }
}

KindRate family_rate(const Counters& requests, Family family, double seconds) {
  KindCounters sum;
  for (const auto& [name, one] : requests) {
    if (family_of(name) != family) continue;
    sum.count += one.count;
    sum.errors += one.errors;
    sum.total_us += one.total_us;
  }
  return rate_of(sum, seconds);
}

double per_second(std::uint64_t before, std::uint64_t after, double seconds) {
  return seconds <= 0 ? 0 : static_cast<double>(after - std::min(before, after)) / seconds;
}

struct OrderName {
  std::string_view name;
  RateOrder order;
};
constexpr std::array<OrderName, rate_orders> order_names{{{"busy", RateOrder::busy},
                                                          {"rate", RateOrder::rate},
                                                          {"latency", RateOrder::latency},
                                                          {"name", RateOrder::name}}};

/// Returns true if one stands before the other.
bool precedes(const KindRate& one, const KindRate& other, RateOrder order) {
  switch (order) {
    case RateOrder::busy:
      return one.busy > other.busy;
    case RateOrder::rate:
      return one.per_second > other.per_second;
    case RateOrder::latency:
      return one.mean_ms > other.mean_ms;
    case RateOrder::name:
      break;
  }
  return one.name < other.name;
}

}  // namespace

std::optional<MountSample> parse_mount_statistics(std::string_view text) {
  constexpr std::string_view first = "nfsrdma-fuse statistics 1\n";
  if (!text.starts_with(first)) return std::nullopt;
  MountSample out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_line(out, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

MountRates rates_between(const MountSample& earlier, const MountSample& after) {
  const MountSample start{};
  const MountSample& before = is_another_mount(earlier, after) ? start : earlier;
  MountRates out;
  out.seconds = after.age - before.age;
  const Counters requests = added(before.requests, after.requests);
  out.reads = family_rate(requests, Family::read, out.seconds);
  out.writes = family_rate(requests, Family::write, out.seconds);
  out.metadata = family_rate(requests, Family::metadata, out.seconds);
  const auto rate = [&](std::uint64_t MountSample::* counter) {
    return per_second(before.*counter, after.*counter, out.seconds);
  };
  out.read_bytes = rate(&MountSample::bytes_read);
  out.written_bytes = rate(&MountSample::bytes_written);
  out.received_bytes = rate(&MountSample::bytes_received);
  out.sent_bytes = rate(&MountSample::bytes_sent);
  out.reconnects = after.reconnects - std::min(before.reconnects, after.reconnects);
  add_kinds(out, requests, false);
  add_kinds(out, added(before.calls, after.calls), true);
  return out;
}

std::string_view name_of(RateOrder order) {
  return order_names.at(static_cast<std::size_t>(order)).name;
}

std::optional<RateOrder> rate_order(std::string_view name) {
  const auto* const found = std::ranges::find(order_names, name, &OrderName::name);
  if (found == order_names.end()) return std::nullopt;
  return found->order;
}

void sort_kinds(std::vector<KindRate>& kinds, RateOrder order, bool reversed) {
  std::ranges::stable_sort(kinds, [=](const KindRate& one, const KindRate& other) {
    return reversed ? precedes(other, one, order) : precedes(one, other, order);
  });
}

}  // namespace nfsrdma::cli
