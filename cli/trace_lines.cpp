#include "cli/trace_lines.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "cli/format.h"
#include "cli/json.h"

namespace nfsrdma::cli {
namespace {

using trace::ChunkSum;
using trace::EventKind;

constexpr std::uint64_t kNanoseconds = 1'000'000'000;

std::string time_of_day(std::uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / kNanoseconds);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%06u", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<unsigned>(ns % kNanoseconds / 1000));
  return text.data();
}

std::string hex32(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08" PRIx32, value);
  return text.data();
}

std::string in_ms(std::chrono::nanoseconds time) {
  return fixed(std::chrono::duration<double, std::milli>(time).count(), 3) + " ms";
}

// ---- lines ----

std::string operations_text(const trace::Event& event) {
  std::string out;
  for (const trace::Operation& one : event.operations) {
    if (!out.empty()) out += "; ";
    out += one.name;
    if (!one.arguments.empty()) out += " " + one.arguments;
    if (!one.status.empty() && one.status != "OK") out += " " + one.status;
  }
  return out.empty() ? event.procedure : out;
}

void add_chunks(std::string& to, const char* what, const ChunkSum& sum) {
  if (sum.chunks == 0) return;
  to += std::string(", ") + what + " " + std::to_string(sum.bytes);
  if (sum.segments > 1) to += " in " + std::to_string(sum.segments) + " segments";
}

/// Returns what the transport did: "[184 bytes, 64 credits asked, write chunk 4096]".
std::string transport_text(const trace::Event& event) {
  const bool is_call = event.kind == EventKind::call;
  std::string out = std::to_string(event.size) + " bytes, " + std::to_string(event.credits) + " credits " +
                    (is_call ? "asked" : "granted");
  add_chunks(out, event.reads.chunks > 1 ? "read chunks" : "read chunk", event.reads);
  add_chunks(out, "long call", event.long_call);
  add_chunks(out, event.writes.chunks > 1 ? "write chunks" : "write chunk", event.writes);
  add_chunks(out, "reply chunk", event.reply_chunk);
  if (event.invalidates) out += ", invalidates";
  if (is_call && event.sends > 1) out += ", sent " + std::to_string(event.sends) + " times";
  if (event.cut) out += ", cut";
  return " [" + out + "]";
}

std::string message_text(const trace::Event& event) {
  std::string out = hex32(event.xid);
  if (event.backward) out += " backward";
  if (!event.protocol.empty()) out += " " + event.protocol;
  if (event.kind != EventKind::call) out += " " + event.status;
  if (event.round_trip) out += " " + in_ms(*event.round_trip);
  const std::string body = operations_text(event);
  if (!body.empty()) out += " " + body;
  if (!event.text.empty()) out += " (" + event.text + ")";
  return out + transport_text(event);
}

bool is_message(const trace::Event& event) {
  return event.kind == EventKind::call || event.kind == EventKind::reply || event.kind == EventKind::error;
}

// ---- JSON ----

void add_chunks(json::Object& to, const char* key, const ChunkSum& sum) {
  if (sum.chunks == 0) return;
  json::Object out;
  out.number("chunks", sum.chunks).number("segments", sum.segments).number("bytes", sum.bytes);
  to.raw(key, out.str());
}

std::string operations_json(const trace::Event& event) {
  std::string out;
  for (const trace::Operation& one : event.operations) {
    json::Object item;
    item.text("name", one.name);
    if (!one.arguments.empty()) item.text("detail", one.arguments);
    if (!one.status.empty()) item.text("status", one.status);
    out += (out.empty() ? "" : ",") + item.str();
  }
  return "[" + out + "]";
}

std::string seconds_text(std::uint64_t ns) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%" PRIu64 ".%09" PRIu64, ns / kNanoseconds, ns % kNanoseconds);
  return text.data();
}

void add_message(json::Object& to, const trace::Event& event) {
  const bool is_call = event.kind == EventKind::call;
  to.text("xid", hex32(event.xid)).boolean("backward", event.backward).text("protocol", event.protocol);
  to.text("procedure", event.procedure).raw("operations", operations_json(event));
  to.number("bytes", event.size).number(is_call ? "credits_asked" : "credits_granted", event.credits);
  add_chunks(to, "read_chunks", event.reads);
  add_chunks(to, "long_call", event.long_call);
  add_chunks(to, "write_chunks", event.writes);
  add_chunks(to, "reply_chunk", event.reply_chunk);
  to.number("sends", event.sends).boolean("cut", event.cut);
  if (is_call) return;
  to.text("status", event.status).boolean("failed", event.failed).boolean("invalidates", event.invalidates);
  to.number("data_bytes", event.data_bytes);
  if (event.round_trip) {
    to.raw("round_trip", seconds_text(static_cast<std::uint64_t>(event.round_trip->count())));
  } else {
    to.null("round_trip");
  }
}

std::string seconds_json(std::chrono::nanoseconds time) {
  return seconds_text(static_cast<std::uint64_t>(time.count()));
}

std::string row_json(const trace::Summary::Row& row) {
  json::Object out;
  out.text("kind", row.kind)
      .number("count", row.count)
      .number("failed", row.failed)
      .number("bytes", row.bytes);
  out.raw("mean", seconds_json(row.mean)).raw("p50", seconds_json(row.p50)).raw("p99", seconds_json(row.p99));
  return out.raw("max", seconds_json(row.most)).str();
}

}  // namespace

std::string trace_line(const trace::Event& event) {
  const std::string head = time_of_day(event.time_ns) + " #" + std::to_string(event.connection);
  if (is_message(event)) return head + (event.to_server ? " > " : " < ") + message_text(event);
  if (event.kind == EventKind::strange) {
    return head + (event.to_server ? " > " : " < ") + "strange: " + event.text + " [" +
           std::to_string(event.size) + " bytes]";
  }
  return head + " - " + (event.text.empty() ? to_string(event.kind) : event.text);
}

std::string trace_json(const trace::Event& event) {
  json::Object out;
  out.raw("time", seconds_text(event.time_ns)).number("connection", event.connection);
  out.text("event", to_string(event.kind));
  if (!event.text.empty()) out.text("text", event.text);
  if (is_message(event)) add_message(out, event);
  return out.str();
}

std::vector<std::string> summary_lines(const trace::Summary& summary, std::size_t unanswered) {
  constexpr std::size_t kKind = 28, kNumber = 10;
  std::vector<std::string> out;
  const auto row = [&out](const std::string& kind, std::initializer_list<std::string> values) {
    std::string text = left(kind, kKind);
    for (const std::string& value : values) text += " " + right(value, kNumber);
    out.push_back(text);
  };
  row("calls", {"count", "failed", "mean ms", "p50 ms", "p99 ms", "max ms", "bytes"});
  const auto ms = [](std::chrono::nanoseconds time) {
    return fixed(std::chrono::duration<double, std::milli>(time).count(), 3);
  };
  for (const trace::Summary::Row& one : summary.rows()) {
    row(one.kind, {std::to_string(one.count), std::to_string(one.failed), ms(one.mean), ms(one.p50),
                   ms(one.p99), ms(one.most), std::to_string(one.bytes)});
  }
  out.push_back(std::to_string(summary.calls()) + " calls, " + std::to_string(summary.replies()) +
                " replies, " + std::to_string(unanswered) + " without a reply, " +
                std::to_string(summary.retransmissions()) + " retransmissions, " +
                std::to_string(summary.connections()) + " connections");
  return out;
}

std::string summary_json(const trace::Summary& summary, std::size_t unanswered) {
  std::string rows;
  for (const trace::Summary::Row& one : summary.rows()) rows += (rows.empty() ? "" : ",") + row_json(one);
  json::Object out;
  out.text("event", "summary").number("calls", summary.calls()).number("replies", summary.replies());
  out.number("unanswered", unanswered).number("retransmissions", summary.retransmissions());
  out.number("connections", summary.connections()).number("strange", summary.strange());
  return out.raw("kinds", "[" + rows + "]").str();
}

}  // namespace nfsrdma::cli
