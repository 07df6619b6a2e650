// Keeps the attributes of files and directories that are known without asking the server, and decides how
// long they are valid.
//
// Validity. Between open() and close() attributes are valid for the times of CacheOptions: the longer ago an
// object changed, the longer. A delegation allows more: the kernel may use attributes for as long as the
// lease, or until the delegation is recalled; then the kernel has to drop them (on_doubt()).
//
// Attributes that come with other operations. Operations that change a directory return its attributes, and
// the operations that make a file's data stable return those of the file. They are kept for the kernel, which
// drops its own attributes at these operations and asks again (keep(), kept()).
//
// Order. Two counts tell whether an answer of the server is older than an action of this mount:
//   count()          increases with each change by this mount, when it begins and when it ends, with each
//                    answer to the kernel, and with each question to the server. The code that asks the
//                    server reads the count before it asks, and passes it on with the answer as `as_of`.
//   version(inode)   differs once an operation may have changed the attributes of this inode. Attributes are
//                    kept only while it stays the same.
//
// Writes in flight. A file is at least as large as the writes that are in flight make it. Meanwhile the
// server's attributes are given to the kernel with a validity of zero (attributed()).
//
// Close-to-open. An answer to a question from before an open(2), or from before a lock was granted, may be
// older than another client's close(2) or unlock. So both events make it stale (KnownAttributes::valid_from).
// Answers are ordered by the time of their questions, not of their arrival; KnownAttributes has the one
// exception.
//
// Freshness owns the counts and the sink of on_doubt(). The attributes of an inode are in Inode::attributes
// (known_attributes.h, which has the rules) and live as long as the inode. No function here waits or fails.
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "fs/cache_options.h"
#include "fs/inodes.h"
#include "fs/numbering.h"

namespace nfsrdma::fs {

/// Attributes as they are given to the kernel: with the mount's file numbers (numbering.h).
struct Attributed {
  Attributes attributes;
  Seconds valid{0};
};

class Freshness {
 public:
  /// All arguments must outlive this.
  Freshness(Engine& engine, Numbering& numbering, const CacheOptions& options);
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  /// Returns a new count, which is greater than all earlier ones.
  std::uint64_t count() { return ++changes_; }
  [[nodiscard]] std::uint64_t version(const Inode& inode) const;

  // ---- what the server says ----

  /// Returns how long the attributes are valid by the mount's options alone.
  [[nodiscard]] Seconds valid(const Attributes& attributes) const;
  /// The state of the counts when the server was asked for attributes of an inode.
  struct Asked {
    std::uint64_t as_of = 0;    ///< count()
    std::uint64_t version = 0;  ///< the version() for which the answer is valid
  };
  [[nodiscard]] Asked asking(const Inode& inode) { return {count(), version(inode)}; }
  /// Records an answer of the server. The size that is recorded includes data that the server may have lost. Returns
  /// false if the answer to a later question is known.
  bool learn(Inode& inode, const Attributes& told, std::uint64_t as_of);
  /// Records an answer and returns the attributes for the kernel: the newest answer, corrected by this
  /// mount's writes. `kernel_asked` is the count() at the time the kernel's request came, or an earlier one.
  [[nodiscard]] Attributed attributed(Inode& inode, const Attributes& told, std::uint64_t as_of,
                                      std::uint64_t when, std::uint64_t kernel_asked);
  /// Does the same for a request of the kernel that came when the server was asked, or later, and is answered now.
  [[nodiscard]] Attributed attributed(Inode& inode, const Attributes& told, std::uint64_t as_of) {
    return attributed(inode, told, as_of, count(), as_of);
  }
  /// Keeps the attributes for kept(), if version() has not changed since they were asked for and they are not
  /// stale.
  void keep(Inode& inode, const Attributes& told, const Asked& asked);
  /// Does what keep() does, for attributes that came with another operation, if no operation of this mount
  /// may have changed them since `as_of`.
  void keep_told(Inode& inode, const Attributes& told, std::uint64_t as_of);
  [[nodiscard]] std::optional<Attributed> kept(const Inode& inode) const;
  /// Returns the attributes of kept() regardless of their time limit: null unless they still are the object's
  /// attributes.
  [[nodiscard]] const Attributes* unchanged(const Inode& inode) const {
    return inode.attributes.kept(version(inode));
  }

  /// Called when the server, asked at `asked`, has let the caller look a name up in the directory. Has an
  /// effect only on a mount for several users.
  void search_granted(Inode& directory, const Caller& caller, async::TimePoint asked);

  // ---- what this mount does ----

  /// Called when an open(2) begins: answers to earlier questions become stale. Returns the counts for the
  /// attributes that OPEN will return.
  [[nodiscard]] Asked opening(Inode& inode);
  /// Called when a write begins or ends, because the contents of the file change.
  void changed(Inode& inode);
  /// Called when another operation than a write changes the contents: the ends of earlier writes no longer
  /// tell the size.
  void resized(Inode& inode);
  /// Called when a lock was granted, because other clients may have written while they held theirs, and when
  /// a write failed, because the server may have executed it all the same. Answers to earlier questions
  /// become stale.
  void others_may_have_changed(Inode& inode);
  /// Called when a rename begins and when it ends, because directories may get another place.
  void renaming() { ++renames_; }
  /// Called when a name was removed. `inode` is the object that the name led to, or null if that is not
  /// known.
  void unlinked(Inode* inode);
  /// Called when the inode is removed from the table.
  void forgotten(const Inode& inode);
  /// Returns whether this mount has changed attributes that were listed `as_of`, or has given the kernel
  /// newer ones. `inode` is null if the object is not in the table.
  [[nodiscard]] bool is_outdated(const Attributes& listed, const Inode* inode, std::uint64_t as_of) const;

  /// Guards an operation of this mount that makes or removes names in the directory, or changes the object
  /// otherwise. While one lives, known attributes of the directory are not fresh. The attributes that came
  /// with the operation that ends last are.
  class Naming {
   public:
    Naming(Freshness& all, std::shared_ptr<Inode> directory);
    /// `kernel_asked`: count() when the kernel's request came, if the operation has waited since.
    Naming(Freshness& all, std::shared_ptr<Inode> directory, const std::string& name,
           std::optional<std::uint64_t> kernel_asked = {});
    ~Naming();
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    void changes(const std::string& name);
    /// Called when the name is surely gone.
    void gone(const std::string& name);
    /// Called with the directory's attributes after the change.
    void brought(const std::optional<Attributes>& attributes);
    /// Called after brought() when the server has made the change for the caller, which shows that the caller
    /// may look names up in the directory. Does nothing if another change by this mount, of the directory's
    /// rights for instance, overlapped.
    void granted(const Caller& caller);
    /// Returns the count that belongs to the attributes which come with the operation.
    [[nodiscard]] std::uint64_t as_of() const { return as_of_; }
    [[nodiscard]] std::uint64_t kernel_asked() const { return kernel_asked_; }
    [[nodiscard]] const std::shared_ptr<Inode>& directory() const { return directory_; }
    /// Returns the name that the operation was begun with.
    [[nodiscard]] const std::string& name() const { return names_.front().name; }

   private:
    struct Name {
      std::string name;
      bool gone;
    };
    Freshness& all_;
    const std::shared_ptr<Inode> directory_;
    const std::uint64_t as_of_;
    std::uint64_t kernel_asked_ = as_of_;
    const async::TimePoint begun_;
    const bool alone_;  // no other operation was changing the directory when this one began
    const std::uint64_t number_;
    std::vector<Name> names_;
  };

  // ---- attributes that come with WRITEs ----

  /// The state of the counts when a WRITE was sent.
  struct Sent {
    Asked asked;        ///< `version` is the one after the WRITE, if that is the only change
    bool asks = false;  ///< the WRITE asks for attributes
  };
  /// Called when a WRITE is about to be sent, as one call. It asks for attributes if it `must`, or if none
  /// has for a while.
  [[nodiscard]] Sent sending(Inode& inode, bool must);
  /// Called with the attributes that came with the WRITE. `all`: no data of the file is in flight, nor
  /// unstable on the server.
  void written(Inode& inode, const Sent& sent, const Attributes& after, bool all);
  /// Keeps the attributes of a file once all that this mount wrote is on the server's disk.
  void is_as_written(Inode& inode, const Attributes& after, const Asked& asked);
  /// Returns attributes that may be given to the kernel without asking the server while writes are under way:
  /// those of a WRITE that ended a moment ago. Their times are the server's at that write; later writes will
  /// change them.
  [[nodiscard]] std::optional<Attributed> while_writing(Inode& inode);

  // ---- doubt ----

  /// `sink` is called with an inode whose cached attributes are no longer valid although their time has not
  /// run out.
  void on_doubt(std::function<void(std::uint64_t)> sink) { doubt_ = std::move(sink); }
  void doubt(const Inode& inode) const;
  void delegation_ended(Inode& inode);

 private:
  Seconds valid(Inode& inode, const Attributes& attributes);
  static void tell(Inode& inode, std::uint64_t size, std::uint64_t when);
  [[nodiscard]] Attributed corrected(Inode& inode);
  [[nodiscard]] static const KnownAttributes::Answer* times_of_write(const Inode& inode);

  Engine& engine_;
  async::Loop& loop_;
  Numbering& numbering_;
  const CacheOptions& options_;
  std::function<void(std::uint64_t)> doubt_;
  std::uint64_t changes_ = 0;    // the value of count()
  std::uint64_t renames_ = 0;    // renames that began, plus renames that ended
  std::uint64_t unlinked_ = 0;   // the count at the last removal of a name from a file
  std::uint64_t forgotten_ = 0;  // the count of the last change to an inode that is no longer in the table
};

using Naming = Freshness::Naming;

}  // namespace nfsrdma::fs
