// The bytes of one file of the test server: what a READ gives, what would be left if the server stopped now,
// and where the holes are.
//
// What an unstable write replaces is kept until a commit reaches it: so a write costs its own length, and a
// stable one nothing more. Truncation and punching are stable at once, as in a journal. A value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace nfsrdma::testing {

class Content {
 public:
  Content() = default;

  [[nodiscard]] const std::string& data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return data_.size(); }
  /// What would be left.
  [[nodiscard]] std::string stable() const;
  [[nodiscard]] std::uint64_t volatile_bytes() const;

  /// All of it anew, stable.
  void assign(std::string text);
  void write(std::uint64_t offset, std::string_view bytes, bool stable);
  void resize(std::uint64_t size);
  void punch(std::uint64_t begin, std::uint64_t end);
  void commit(std::uint64_t begin, std::uint64_t end);
  /// What was not committed is lost.
  void lose();

  /// [begin, end) is data. The first time this is said, all the rest becomes a hole.
  void declare_data(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] bool is_data(std::uint64_t offset) const;
  /// Where the data or the hole at `offset`, which is before the end, ends.
  [[nodiscard]] std::uint64_t end_of_piece(std::uint64_t offset) const;
  /// Bytes that are not in holes.
  [[nodiscard]] std::uint64_t space_used() const;

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // begin → end, apart from each other
  static void add(Ranges& ranges, std::uint64_t begin, std::uint64_t end);
  static void cut(Ranges& ranges, std::uint64_t begin, std::uint64_t end);
  void save(std::uint64_t begin, std::uint64_t end);
  void forget(std::uint64_t begin, std::uint64_t end);

  std::string data_;
  std::uint64_t stable_size_ = 0;
  // What stable storage has where data_ has something else, or something equal that was written since. Behind
  // stable_size_ it has zeros, should the size ever get there without these bytes.
  std::map<std::uint64_t, std::string> saved_;
  Ranges holes_;
  bool declared_ = false;
};

}  // namespace nfsrdma::testing
