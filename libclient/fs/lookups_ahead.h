// Answers lookups from directory pages in memory, which have the names with handle and attributes. Such a
// page was either listed by a program, or read ahead because many of the directory's names were looked up in
// succession.
//
// Listed pages. The kernel takes along the attributes of only some names while it lists a directory, and
// looks the others up afterwards, for tar, find and "rm -r" for example. keep() stores the pages of programs
// that list; take() finds a name in them. An entry of such a page is valid as long as the attributes that the
// kernel gets while it lists (Listing::entry_of).
//
// Pages that are read ahead. If kMany lookups in a directory have succeeded on the server in succession,
// asked() says that it pays to read a page. No program has listed the directory then, so that page is valid
// for kBelieved only: if another client has changed a name, a program that learns of the change by other
// means soon finds the new state. The next page is read when most names of the previous one were wanted; if
// few were, none is read for some time (kNotAgain).
//
// Each name of a page is given out once, either with its attributes to a program that lists or to a lookup. A
// kernel that asks again wants the server's current answer, so the name is not taken from an older page
// either. Names that are not in a page are always looked up on the server. The caller checks whether this
// mount has changed a name since the page was asked for.
//
// The object holds pages of at most kMostDirectories directories and at most kMostPages of each, and none
// longer than kKept after one was last wanted. No I/O. Confined to the loop's thread.
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
  /// The longest time between two lookups in succession.
  static constexpr auto kInARow = std::chrono::milliseconds(500);
  /// How long no page is read after one of which few names were wanted.
  static constexpr auto kNotAgain = std::chrono::seconds(5);
  static constexpr auto kKept = std::chrono::seconds(5);
  static constexpr std::size_t kMostDirectories = 4, kMostPages = 16;

  explicit LookupsAhead(async::Loop& loop) : loop_(loop) {}
  ~LookupsAhead();
  LookupsAhead(const LookupsAhead&) = delete;
  LookupsAhead& operator=(const LookupsAhead&) = delete;

  /// A page's entry of a name. The page lives as long as the handle.
  struct Found {
    std::shared_ptr<DirectoryHandle> page;
    const Listed* listed;
  };
  std::optional<Found> take(const Inode& directory, const Caller& caller, const std::string& name);
  /// Adds a page that a program lists.
  void keep(const DirectoryHandle& listing);
  /// Called when the kernel got the name with its attributes from the page that is being listed.
  void gave(const DirectoryHandle& listing, const Listed& listed);
  /// Drops the directory's pages, because they are no longer valid.
  void drop(std::uint64_t directory);

  /// A page that is to be read into the handle, from behind the cookie. came() or failed() must follow.
  struct Wanted {
    std::shared_ptr<DirectoryHandle> page;
    std::uint64_t cookie = 0;
  };
  /// Called when a lookup on the server found the name. Returns the page to read, or none.
  std::optional<Wanted> asked(const std::shared_ptr<Inode>& directory, const Caller& caller);
  /// Called when take() has returned a name of the page. Returns the next page to read, or none.
  std::optional<Wanted> given(const std::shared_ptr<DirectoryHandle>& page);
  void came(const std::shared_ptr<DirectoryHandle>& page);
  void failed(const std::shared_ptr<DirectoryHandle>& page);

 private:
  struct Kept {
    std::shared_ptr<DirectoryHandle> page;
    bool listed = false;  // a program lists it; otherwise it was read ahead
    // Place of each name; built when the first is wanted.
    std::unordered_map<std::string_view, std::size_t> places;
    std::vector<bool> is_given;  // by place; built when the first is given out
    std::size_t given = 0;       // number of names that lookups took
    // The place behind the entry that was listed last.
    std::size_t next = 0;
    [[nodiscard]] const std::vector<Listed>& entries() const { return page->read->page.entries; }
    [[nodiscard]] std::size_t size() const { return entries().size(); }
    std::optional<std::size_t> find(const std::string& name);
    std::optional<std::size_t> find_listed(std::uint64_t cookie);
    /// Marks the entry as given out. Returns false if it was before.
    bool give(std::size_t place);
  };
  struct Directory {
    std::uint64_t inode = 0;
    Caller caller;
    std::deque<Kept> pages;  // newest first
    async::TimePoint wanted_at;
    unsigned in_a_row = 0;  // lookups on the server in succession
    bool reading = false;
    async::TimePoint not_before = async::TimePoint::min();  // no page is read before this time
    std::uint64_t go_on = 0;                                // the next page begins behind this cookie
    ListVerifier verifier{};
  };
  [[nodiscard]] bool is_believed(const Kept& kept) const;
  Directory* find(std::uint64_t inode);
  Directory& find_or_add(std::uint64_t inode, const Caller& caller);
  void add(Directory& directory, std::shared_ptr<DirectoryHandle> page, bool listed);
  void judge(Directory& directory, const Kept& kept) const;
  void forget_old(Directory& directory) const;
  static Wanted begin(Directory& directory, const std::shared_ptr<Inode>& inode);
  void tidy_later();

  async::Loop& loop_;
  std::list<Directory> directories_;  // most recently wanted first
  async::Loop::TimerId timer_ = 0;
};

}  // namespace nfsrdma::fs
