// Bounds the memory of the directory pages that open directories hold.
//
// A page is kept in its DirectoryHandle so that the kernel can take it in small pieces. A program may hold
// any number of directories open without reading them, so each user may have kMostOfUser bytes of pages, and
// all users together kMost. Beyond that the directory of the user (or of all users) that was read longest ago
// loses its page. It loses nothing else: when a program continues to read, the page is requested again, by
// its cookie and with the directory's verifier (Listing::list). The page that was read last is never
// dropped, whatever its size.
//
// LookupsAhead holds pages of its own, within a limit of its own. Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "engine/engine.h"

namespace nfsrdma::fs {

class DirectoryPages {
 public:
  static constexpr std::size_t kMostOfUser = 16U << 20, kMost = 64U << 20;

  /// Returns the memory that a page takes, without the allocator's overhead.
  [[nodiscard]] static std::size_t size_of(const engine::Page& page);

  /// Base class of an open directory. It counts as the holder of a page from held() until drop_page() or its
  /// destructor.
  class Holder {
   public:
    Holder() = default;
    virtual ~Holder() { dropped(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    /// Drops the page, which has been removed from the count.
    virtual void drop_page() = 0;
    void dropped();

    friend class DirectoryPages;
    using Place = std::list<Holder*>::iterator;
    std::shared_ptr<DirectoryPages> all_;  // null: it holds no page that counts
    std::optional<std::uint32_t> user_;
    std::size_t size_ = 0;
    std::uint64_t used_ = 0;
    Place place_;
  };

  /// Notes that `holder` now holds a page of `size` bytes for `user`, in place of its previous one, and uses
  /// it now. Other directories may lose their pages because of it.
  static void held(const std::shared_ptr<DirectoryPages>& all, Holder& holder,
                   std::optional<std::uint32_t> user, std::size_t size);
  /// Notes that `holder` uses its page now, if it has one.
  static void used(Holder& holder);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t bytes_of(std::optional<std::uint32_t> user) const;

 private:
  struct OfUser {
    std::size_t bytes = 0;
    std::list<Holder*> holders;  // least recently used first
  };
  static void drop(Holder& holder);
  [[nodiscard]] Holder* oldest() const;

  std::map<std::optional<std::uint32_t>, OfUser> users_;
  std::size_t bytes_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace nfsrdma::fs
