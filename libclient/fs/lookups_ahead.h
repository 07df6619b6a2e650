// Names that need not be looked up on the server, since a page of their directory is there that has them, with handle
// and attributes: one that a program has listed, or one that was read for the sake of names that are looked up one
// after the other.
//
// The kernel takes the attributes of some names only along while it lists, and looks the others up, as tar, find and
// "rm -r" have it. The pages of whoever lists are given to keep(); take() finds a name in them. What such a page says
// is believed as long as what the kernel is told while it lists (FileSystem::entry_of).
//
// Where kMany names of a directory were found on the server in a row, asked() says that a page of it is worth its
// while. Nobody has listed then, so that page is believed for kBelieved only: a name that another client has changed
// is found as it is by whoever hears of that some other way. The next page is read when most of the names of the one
// before were wanted; where few were, no more is read for some time.
//
// Each name of a page is given once, to who lists it with its attributes or to who looks it up: the kernel that asks
// again wants to hear what the server says now, nor is the name taken from an older page then. Names that are not in a
// page are always looked up. Whether this mount has changed a name since the page was asked for is the caller's to see.
//
// It holds the pages, kMostDirectories' at most and kMostPages of each, and no longer than kKept after the last was
// wanted. No I/O. Confined to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/loop.h"
#include "fs/directory_handle.h"

namespace nfsrdma::fs {

class LookupsAhead {
 public:
  static constexpr unsigned kMany = 8;
  static constexpr auto kBelieved = std::chrono::milliseconds(200);
  static constexpr auto kInARow = std::chrono::milliseconds(500);  ///< from one name to the next
  static constexpr auto kNotAgain = std::chrono::seconds(5);  ///< after a page of which few names were wanted
  static constexpr auto kKept = std::chrono::seconds(5);
  static constexpr std::size_t kMostDirectories = 4, kMostPages = 16;

  explicit LookupsAhead(async::Loop& loop) : loop_(loop) {}
  ~LookupsAhead();
  LookupsAhead(const LookupsAhead&) = delete;
  LookupsAhead& operator=(const LookupsAhead&) = delete;

  /// What a page says of the name. The page is there as long as the handle.
  struct Found {
    std::shared_ptr<DirectoryHandle> page;
    const Listed* listed;
  };
  std::optional<Found> take(const Inode& directory, const Caller& caller, const std::string& name);
  /// A page that a program lists.
  void keep(const DirectoryHandle& listing);
  /// The kernel has the name with its attributes from the page that is being listed.
  void gave(const DirectoryHandle& listing, const Listed& listed);
  /// Nothing that is known of the directory is to be believed.
  void drop(std::uint64_t directory);

  /// A page to be read: into the handle, behind the cookie. Then came() or failed() is to be called.
  struct Wanted {
    std::shared_ptr<DirectoryHandle> page;
    std::uint64_t cookie = 0;
  };
  /// The server was asked for a name, and had it. None: no page is to be read now.
  std::optional<Wanted> asked(const std::shared_ptr<Inode>& directory, const Caller& caller);
  /// take() has given a name of the page.
  std::optional<Wanted> given(const std::shared_ptr<DirectoryHandle>& page);
  void came(const std::shared_ptr<DirectoryHandle>& page);
  void failed(const std::shared_ptr<DirectoryHandle>& page);

 private:
  struct Kept {
    std::shared_ptr<DirectoryHandle> page;
    bool listed = false;                                       // by a program
    std::unordered_map<std::string_view, std::size_t> places;  // by name; made when the first is wanted
    std::vector<bool> is_given;                                // by place; made when the first is given
    std::size_t given = 0;                                     // to who looks names up
    std::size_t next = 0;                                      // behind the one that was listed last
    [[nodiscard]] const std::vector<Listed>& entries() const { return page->read->page.entries; }
    [[nodiscard]] std::size_t size() const { return entries().size(); }
    std::optional<std::size_t> find(const std::string& name);
    std::optional<std::size_t> find_listed(std::uint64_t cookie);
    /// False if it was given already.
    bool give(std::size_t place);
  };
  struct Directory {
    std::uint64_t inode = 0;
    Caller caller;
    std::deque<Kept> pages;  // those that came last stand first
    async::TimePoint wanted_at;
    unsigned in_a_row = 0;  // names that the server was asked for
    bool reading = false;
    async::TimePoint not_before = async::TimePoint::min();  // no page is read
    std::uint64_t go_on = 0;                                // the cookie behind which the next page is
    ListVerifier verifier{};
  };
  static bool is_same(const Caller& a, const Caller& b);
  [[nodiscard]] bool is_believed(const Kept& kept) const;
  Directory* find(std::uint64_t inode);
  Directory& find_or_add(std::uint64_t inode, const Caller& caller);
  void add(Directory& directory, std::shared_ptr<DirectoryHandle> page, bool listed);
  void judge(Directory& directory, const Kept& kept) const;
  void forget_old(Directory& directory) const;
  static Wanted begin(Directory& directory, const std::shared_ptr<Inode>& inode);
  void tidy_later();

  async::Loop& loop_;
  std::list<Directory> directories_;  // those that were wanted last stand first
  async::Loop::TimerId timer_ = 0;
};

}  // namespace nfsrdma::fs
