#include "sim/trace.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace nfsrdma::sim {
namespace {

constexpr std::uint64_t kPrime = 0x100000001b3U;

}  // namespace

/// FNV-1a by words of eight bytes: whole words are enough to tell two runs apart.
std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t part = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), part);
    bytes.remove_prefix(part);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29U;
  }
  return hash;
}

void Trace::mix(std::uint64_t word) {
  hash_ = (hash_ ^ word) * kPrime;
  hash_ ^= hash_ >> 32U;
}

void Trace::mix(std::string_view text) {
  mix(hash_of(text));
}

void Trace::note(std::chrono::nanoseconds when, unsigned who, const char* kind, std::uint64_t first,
                 std::uint64_t second) {
  add({when, who, kind, first, second, {}});
}

void Trace::say(std::chrono::nanoseconds when, unsigned who, const char* kind, std::string text) {
  add({when, who, kind, 0, 0, std::move(text)});
}

void Trace::add(Line line) {
  mix(static_cast<std::uint64_t>(line.when.count()));
  mix(line.who);
  mix(line.kind);
  mix(line.first);
  mix(line.second);
  mix(line.text);
  if (prints_) std::fputs(text_of(line).c_str(), stderr);
  if (most_ == 0) return;
  if (lines_.size() == most_) lines_.pop_front();
  lines_.push_back(std::move(line));
}

std::string Trace::text_of(const Line& line) {
  char out[200];
  (void)std::snprintf(out, sizeof out, "%14.6f ms  %u  %-22s", static_cast<double>(line.when.count()) / 1e6,
                      line.who, line.kind);
  std::string text = out;
  if (!line.text.empty()) return text + " " + line.text + "\n";
  (void)std::snprintf(out, sizeof out, " %" PRIu64 " %" PRIu64 "\n", line.first, line.second);
  return text + out;
}

std::string Trace::tail() const {
  std::string out;
  for (const Line& line : lines_) out += text_of(line);
  return out;
}

}  // namespace nfsrdma::sim
