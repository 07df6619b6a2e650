// Data that was written but that the server may still lose: unstable WRITEs until a COMMIT has made them
// stable (RFC 1813 3.3.7, 3.3.21; RFC 8881 18.3, 18.32). A change of the server's write verifier shows that
// the server restarted and lost them. The pieces with the old verifier are then written again
// (unstable_data.h).
//
// Pieces never overlap: a later write replaces what it covers of earlier ones, so that a rewrite cannot
// restore old data. A piece refers to the memory that it was written from if the writer hands that memory
// over; otherwise it is a copy. The memory that a piece keeps alive is at most about twice the length of the
// piece, so a bound on the bytes is also a bound on the memory.
//
// A plain container. It may be used on any thread that may use its memory pool, by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "async/memory.h"

namespace nfsrdma::writing {

/// The write verifier: a server returns it with each unstable WRITE and each COMMIT, and changes it when it
/// restarts.
using Verifier = std::array<std::byte, 8>;

/// Identifies who wrote some data. The Writer of the protocol's version may send the data differently because
/// of it.
struct Origin {
  Origin() = default;
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
};
using OriginRef = std::shared_ptr<const Origin>;

class Uncommitted {
 public:
  /// Copies are allocated from `pool`, which must outlive this.
  explicit Uncommitted(async::MemoryPool& pool) : pool_(pool) {}
  ~Uncommitted() { fewer(bytes_); }
  Uncommitted(const Uncommitted&) = delete;
  Uncommitted& operator=(const Uncommitted&) = delete;

  struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t number = 0;  // number of the write, which tells whether it came before a COMMIT was sent
    Verifier verifier{};
    async::Memory memory;  // shared by the parts that are left of a piece that was cut
    std::span<const std::byte> bytes;
    OriginRef origin;
  };

  /// Adds a write, which replaces the earlier pieces in its range. `memory` is empty, or holds `data` and
  /// does not change any more.
  void add(std::uint64_t offset, std::span<const std::byte> data, const Verifier& verifier,
           const async::Memory& memory = {}, OriginRef origin = nullptr);
  /// Removes the range from all pieces, because something newer stands there.
  void cover(std::uint64_t offset, std::uint64_t length);
  /// Handles the answer to a COMMIT that was sent when last_number() was `number`. Pieces up to that number
  /// with this `verifier` are stable and are removed. Pieces with another verifier were lost; they stay until
  /// they have been written again.
  void committed(std::uint64_t number, const Verifier& verifier);
  /// Discards the pieces up to this number, because they will not be written again.
  void give_up(std::uint64_t number);
  /// Returns the first piece at or after `offset` that committed() with the same arguments found lost.
  [[nodiscard]] std::optional<Piece> lost(std::uint64_t number, const Verifier& verifier,
                                          std::uint64_t offset) const;

  [[nodiscard]] std::uint64_t last_number() const { return last_number_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Counts the bytes in `all` as well from now on, a sum over all files.
  void count_into(std::shared_ptr<std::size_t> all);
  /// Returns whether a piece has another verifier.
  [[nodiscard]] bool has_other(const Verifier& verifier) const;
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  /// Returns the end of the last piece; 0 if there is none.
  [[nodiscard]] std::uint64_t end() const {
    return pieces_.empty() ? 0 : pieces_.rbegin()->first + pieces_.rbegin()->second.bytes.size();
  }
  [[nodiscard]] std::size_t count() const { return pieces_.size(); }

 private:
  void put(Piece piece);
  void more(std::size_t bytes);
  void fewer(std::size_t bytes);

  async::MemoryPool& pool_;
  std::map<std::uint64_t, Piece> pieces_;  // key: offset
  std::uint64_t last_number_ = 0;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::size_t> all_;
};

}  // namespace nfsrdma::writing
