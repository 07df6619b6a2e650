// What is known of files and directories without asking the server, and for how long it is believed.
//
// In between open() and close() attributes are believed for the times of CacheOptions, longer the longer the file
// has not changed. A read delegation is better than times: what the kernel was told then holds for as long as
// the lease, or until the delegation is recalled, when the kernel is told to forget (on_doubt()).
//
// Attributes of a directory come along with what changes it, those of a file with what makes its data safe.
// They are kept for the kernel, which drops its own then and asks again (keep(), kept()).
//
// Two counts say whether an answer of the server is older than what this mount has done:
//   count()         goes on with what this mount changes, as it begins and as it ends, with what it tells the kernel, and
//                   with what it asks. Whoever asks the server takes it before he asks, and hands it in with the answer, as
//                   `as_of`.
//   version(inode)  differs once something may have changed the attributes of this inode. Attributes are kept
//                   for as long as it stays the same.
//
// While writes are under way a file is as large as they say at least, and the server's attributes are not
// believed for longer than it takes to tell them (attributed()).
//
// Close-to-open: what the server was asked for before an open(2), or before a lock was had, may be from before another
// client's close(2) or unlock. So both make it stale (KnownAttributes::valid_from). Two things are never compared by when
// they came.
//
// It owns the counts and the sink of doubt. What it knows of an inode stands in Inode::attributes (known_attributes.h, with
// the rules) and goes with it; nothing here waits or fails. Confined to the loop's thread.
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

/// Attributes as the kernel is told them: with the mount's numbers.
struct Attributed {
  Attributes attributes;
  Seconds valid{0};
};

class Freshness {
 public:
  /// All of them must outlive it.
  Freshness(Engine& engine, Numbering& numbering, const CacheOptions& options);
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  /// Later than all that was before, earlier than all that comes.
  std::uint64_t count() { return ++changes_; }
  [[nodiscard]] std::uint64_t version(const Inode& inode) const;

  // ---- what the server says ----

  /// For how long the attributes are believed where nothing else is known.
  [[nodiscard]] Seconds valid(const Attributes& attributes) const;
  /// How things stood when the server was asked for attributes of an inode.
  struct Asked {
    std::uint64_t as_of = 0;    ///< count()
    std::uint64_t version = 0;  ///< version() that the answer goes with
  };
  [[nodiscard]] Asked asking(const Inode& inode) { return {count(), version(inode)}; }
  /// Records an answer of the server. Returns false if the answer to a later question is known.
  bool learn(Inode& inode, const Attributes& told, std::uint64_t as_of);
  /// Records an answer and returns what the kernel is to be told: the newest answer, corrected by this mount's writes.
  [[nodiscard]] Attributed attributed(Inode& inode, const Attributes& told, std::uint64_t as_of) {
    return attributed(inode, told, as_of, count());
  }
  [[nodiscard]] Attributed attributed(Inode& inode, const Attributes& told, std::uint64_t as_of,
                                      std::uint64_t when);
  /// For kept(), if version() is still what it was when they were had, and they are not stale.
  void keep(Inode& inode, const Attributes& told, const Asked& asked);
  /// keep() of attributes that came with something else, where nothing of this mount's may have changed them since `as_of`.
  void keep_told(Inode& inode, const Attributes& told, std::uint64_t as_of);
  [[nodiscard]] std::optional<Attributed> kept(const Inode& inode) const;
  /// Of kept(), for however long they are true; null if that is not known.
  [[nodiscard]] const Attributes* unchanged(const Inode& inode) const {
    return inode.attributes.kept(version(inode));
  }

  /// On a mount for several users: the server, asked at `asked`, has let the caller look a name up in the directory.
  void search_granted(Inode& directory, const Caller& caller, async::TimePoint asked);

  // ---- what this mount does ----

  /// open(2) begins: what was asked for before is stale. Gives how things stand for what OPEN brings.
  [[nodiscard]] Asked opening(Inode& inode);
  /// To the contents of a file, by a write that begins or ends.
  void changed(Inode& inode);
  /// By something else than a write: what writes have made of the size is no more.
  void resized(Inode& inode);
  /// Called when a lock was granted, under which others may have written, and when a write failed, which may have
  /// changed the file all the same: what was asked for before is stale.
  void others_may_have_changed(Inode& inode);
  /// A rename begins or ends: directories may have got another place.
  void renaming() { ++renames_; }
  /// A name leads to nothing any more; `inode`, if known, is what it led to.
  void unlinked(Inode* inode);
  /// Nobody knows the inode any more.
  void forgotten(const Inode& inode);
  /// Whether this mount has changed attributes that were listed `as_of`, or told the kernel newer ones.
  /// `inode`: null if it is not known.
  [[nodiscard]] bool is_outdated(const Attributes& listed, const Inode* inode, std::uint64_t as_of) const;

  /// While one lives, this mount makes or removes names in the directory or changes it otherwise: what is
  /// known of it is not fresh. What came along with the one that ends last is.
  class Naming {
   public:
    Naming(Freshness& all, std::shared_ptr<Inode> directory);
    Naming(Freshness& all, std::shared_ptr<Inode> directory, const std::string& name);
    ~Naming();
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    void changes(const std::string& name);
    /// It is surely not there any more.
    void gone(const std::string& name);
    /// The directory's attributes, as they are afterwards.
    void brought(const std::optional<Attributes>& attributes);
    /// Called after brought() when the server has made the change for the caller, which shows that he may look names up in
    /// the directory. Does nothing if another change by this mount, of the directory's rights for instance, overlapped.
    void granted(const Caller& caller);
    /// Of attributes that it brings.
    [[nodiscard]] std::uint64_t as_of() const { return as_of_; }

   private:
    struct Name {
      std::string name;
      bool gone;
    };
    Freshness& all_;
    const std::shared_ptr<Inode> directory_;
    const std::uint64_t as_of_;
    const async::TimePoint begun_;
    const bool alone_;  // it was the only one when it began
    const std::uint64_t number_;
    std::vector<Name> names_;
  };

  // ---- what WRITEs bring ----

  /// How things stood when a WRITE was sent.
  struct Sent {
    Asked asked;        ///< with what version() is behind it, if it was the only change
    bool asks = false;  ///< it is to bring attributes
  };
  /// A WRITE is about to be sent, as one call. It brings attributes if it `must`, or if it is time.
  [[nodiscard]] Sent sending(Inode& inode, bool must);
  /// It brought them. `all`: nothing of the file is on its way any more, nor in the server's memory.
  void written(Inode& inode, const Sent& sent, const Attributes& after, bool all);
  /// Keeps the attributes of a file once all that this mount wrote is on the server's disk.
  void is_as_written(Inode& inode, const Attributes& after, const Asked& asked);
  /// What may be told while writes are under way without asking anybody: what one that ended a moment ago
  /// brought. The times are the server's, of that write; the next ones are still to be made.
  [[nodiscard]] std::optional<Attributed> while_writing(Inode& inode);

  // ---- doubt ----

  /// `sink`: told of an inode whose attributes are not to be believed any more, though their time has not run
  /// out.
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
  std::uint64_t changes_ = 0;    // by this mount, and questions of it: tells what came before what
  std::uint64_t renames_ = 0;    // begun and ended
  std::uint64_t unlinked_ = 0;   // of changes_, the last that took a name from a file
  std::uint64_t forgotten_ = 0;  // and the last to an inode that nobody knows any more
};

using Naming = Freshness::Naming;

}  // namespace nfsrdma::fs
