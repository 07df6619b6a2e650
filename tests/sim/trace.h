// What happened in a simulation: a hash over all of it, and the last few lines to read.
//
// Two runs from one seed that end with the same hash did the same things at the same times in the same order.
// Nothing that goes in may depend on an address or on the real clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace nfsrdma::sim {

class Trace {
 public:
  /// `kind` is a literal: lines keep the pointer. `who`: a host's number; 0 is the world itself.
  void note(std::chrono::nanoseconds when, unsigned who, const char* kind, std::uint64_t first = 0,
            std::uint64_t second = 0);
  /// The same with a text for whoever reads it; it is hashed as well.
  void say(std::chrono::nanoseconds when, unsigned who, const char* kind, std::string text);

  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  /// The last lines, oldest first.
  [[nodiscard]] std::string tail() const;
  void keep(std::size_t lines) { most_ = lines; }
  /// Prints each line to stderr as it comes.
  void print_all(bool on) { prints_ = on; }

 private:
  struct Line {
    std::chrono::nanoseconds when{};
    unsigned who = 0;
    const char* kind = "";
    std::uint64_t first = 0, second = 0;
    std::string text;
  };
  void add(Line line);
  void mix(std::uint64_t word);
  void mix(std::string_view text);
  [[nodiscard]] static std::string text_of(const Line& line);

  std::uint64_t hash_ = 0xcbf29ce484222325U;
  std::size_t most_ = 200;
  std::deque<Line> lines_;
  bool prints_ = false;
};

/// Of bytes, for the trace and for comparing.
[[nodiscard]] std::uint64_t hash_of(std::string_view bytes);

}  // namespace nfsrdma::sim
