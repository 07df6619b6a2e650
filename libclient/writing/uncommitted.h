// What was written but may still be lost: unstable WRITE data until a COMMIT has made it stable (RFC 1813 3.3.7,
// 3.3.21; RFC 8881 18.3, 18.32). Where the server's write verifier changes, the server restarted and forgot;
// the pieces with the old verifier are then written again (unstable_data.h).
//
// Pieces never overlap: a later write replaces what it covers of earlier ones, so that rewriting cannot bring
// old data back. A piece is in the memory that it was written from, where the writer gives that away, else a
// copy. What keeps it alive is at most about twice its length, so that a bound of the one is a bound of the
// other. A plain container; any thread, but for its pool.
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

/// By which a server says with each unstable WRITE and each COMMIT whether it has restarted in between.
using Verifier = std::array<std::byte, 8>;

/// The writer of some data, for the Writer of the protocol's version, which may send it differently.
struct Origin {
  Origin() = default;
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
};
using OriginRef = std::shared_ptr<const Origin>;

class Uncommitted {
 public:
  /// `pool`: of the copies. It must outlive this.
  explicit Uncommitted(async::MemoryPool& pool) : pool_(pool) {}
  ~Uncommitted() { fewer(bytes_); }
  Uncommitted(const Uncommitted&) = delete;
  Uncommitted& operator=(const Uncommitted&) = delete;

  struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t number = 0;  // counts writes: which came before a COMMIT was sent
    Verifier verifier{};
    async::Memory memory;  // shared by what is left of a piece that was cut
    std::span<const std::byte> bytes;
    OriginRef origin;
  };

  /// `memory`: if it holds `data`, and nobody will change it.
  void add(std::uint64_t offset, std::span<const std::byte> data, const Verifier& verifier,
           const async::Memory& memory = {}, OriginRef origin = nullptr);
  /// Something stable was written there: earlier pieces no longer matter where it covers them.
  void cover(std::uint64_t offset, std::uint64_t length);
  /// A COMMIT that was sent when last_number() was `number` came back with `verifier`: pieces up to it with
  /// this verifier are stable. Those with another were lost; they stay until they have been written again.
  void committed(std::uint64_t number, const Verifier& verifier);
  /// Nobody will write them again: pieces up to this number go.
  void give_up(std::uint64_t number);
  /// The first piece at or after `offset` that committed() with the same arguments found lost.
  [[nodiscard]] std::optional<Piece> lost(std::uint64_t number, const Verifier& verifier,
                                          std::uint64_t offset) const;

  [[nodiscard]] std::uint64_t last_number() const { return last_number_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// From now on the bytes also count in `all`, which is of all files.
  void count_into(std::shared_ptr<std::size_t> all);
  /// Whether a piece has another verifier.
  [[nodiscard]] bool has_other(const Verifier& verifier) const;
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  /// Where the last piece ends; 0: there is none.
  [[nodiscard]] std::uint64_t end() const {
    return pieces_.empty() ? 0 : pieces_.rbegin()->first + pieces_.rbegin()->second.bytes.size();
  }
  [[nodiscard]] std::size_t count() const { return pieces_.size(); }

 private:
  void put(Piece piece);
  void more(std::size_t bytes);
  void fewer(std::size_t bytes);

  async::MemoryPool& pool_;
  std::map<std::uint64_t, Piece> pieces_;  // by offset
  std::uint64_t last_number_ = 0;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::size_t> all_;
};

}  // namespace nfsrdma::writing
