// What was written but may still be lost: copies of unstable WRITE data until a COMMIT has made them stable
// (RFC 8881 18.3, 18.32). Where the server's write verifier changes, it restarted and forgot; the pieces with
// the old verifier are then written again.
//
// Pieces never overlap: a later write replaces what it covers of earlier ones, so that rewriting cannot bring
// old data back. The memory of a piece is at most twice its length. Memory of pieces that are stable is kept,
// up to a bound, for those to come: to have fresh pages from the kernel costs more than the copy. A plain
// container; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nfs4/types/types.h"

namespace nfsrdma::nfs4 {

class Uncommitted {
 public:
  Uncommitted() = default;
  ~Uncommitted() { fewer(bytes_); }
  Uncommitted(const Uncommitted&) = delete;
  Uncommitted& operator=(const Uncommitted&) = delete;

  struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t number = 0;  // counts writes: which came before a COMMIT was sent
    verifier4 verifier{};
    std::shared_ptr<std::vector<std::byte>> storage;  // shared by what is left of a piece that was cut
    std::size_t begin = 0, length = 0;
    [[nodiscard]] std::span<const std::byte> data() const {
      return std::span(*storage).subspan(begin, length);
    }
  };

  void add(std::uint64_t offset, std::span<const std::byte> data, const verifier4& verifier);
  /// Something stable was written there: earlier pieces no longer matter where it covers them.
  void cover(std::uint64_t offset, std::uint64_t length);
  /// A COMMIT that was sent when last_number() was `number` came back with `verifier`: pieces up to it with
  /// this verifier are stable. Those with another were lost; they stay until they have been written again.
  void committed(std::uint64_t number, const verifier4& verifier);
  /// The first piece at or after `offset` that committed() with the same arguments found lost.
  [[nodiscard]] std::optional<Piece> lost(std::uint64_t number, const verifier4& verifier,
                                          std::uint64_t offset) const;

  [[nodiscard]] std::uint64_t last_number() const { return last_number_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// From now on they count there, too: all who count there have a bound in common.
  void count_into(std::shared_ptr<std::size_t> all);
  [[nodiscard]] std::size_t bytes_of_all() const { return all_ ? *all_ : bytes_; }
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  [[nodiscard]] std::size_t count() const { return pieces_.size(); }
  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_; }
  void drop_spare() {
    spare_ = {};
    spare_bytes_ = 0;
  }

 private:
  using Storage = std::shared_ptr<std::vector<std::byte>>;
  Storage copy_of(std::span<const std::byte> data);
  void put(Piece piece);
  void more(std::size_t bytes);
  void fewer(std::size_t bytes);
  void keep(Storage storage);

  std::map<std::uint64_t, Piece> pieces_;  // by offset
  std::uint64_t last_number_ = 0;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::size_t> all_;
  std::vector<Storage> spare_;  // nobody else's
  std::size_t spare_bytes_ = 0;
};

}  // namespace nfsrdma::nfs4
