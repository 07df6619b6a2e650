// Checks of the names by which the kernel opens a file.
//
// The kernel opens files by number, relying on a name that it may have cached for a while. So an inode
// remembers the directory and name by which it was found, and the server looks the name up again while it
// opens the file. If the name leads elsewhere, open() fails with ESTALE, and Linux then walks the path again
// without its cache, by LOOKUPs. A file can also be opened without its name (/proc/self/fd,
// open_by_handle_at): for this reason the refused thread's next open() of the file succeeds without the check, if it
// comes within a second and no LOOKUP has found something else at a name of the file (second_tries.h). A file that
// was found by several names, because it has several or was renamed by another client, is checked by each that the
// kernel may still believe (other_names.h). A name that leads elsewhere is dropped by the kernel, upon a notification
// that nothing waits for: the kernel cannot handle it while a program looks a name up in that directory, or changes
// it.
//
// Confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "fs/part.h"
#include "fs/second_tries.h"

namespace nfsrdma::fs {

class NameChecks final : Part {
 public:
  explicit NameChecks(MountState& state) : Part(state) {}

  /// A task that ends when the kernel has dropped its entry for the name. The kernel may be holding the
  /// directory's lock for any request, and drops the entry after that.
  using DropName = std::function<async::Task<void>(std::uint64_t directory, std::string name)>;
  void on_wrong_name(DropName sink) { drop_name_ = std::move(sink); }

  /// Checks of names, made while the file is being opened.
  struct Checks {
    explicit Checks(async::Loop& loop) : ended(loop) {}
    std::size_t under_way = 0;
    std::vector<std::uint64_t> wrong;  ///< Inode::found of the names that lead elsewhere
    std::optional<Error> failed;       ///< the server has not answered one of the questions
    async::Event ended;
  };
  /// Begins to check the names in Inode::others, and the inode's own place if `own_place`. Returns null if there is nothing
  /// to check.
  [[nodiscard]] std::shared_ptr<Checks> begin(const Caller& caller, const Inode& inode, bool own_place);
  /// Handles a name that leads elsewhere, the one at which the inode was found at the time `found`: the kernel drops its
  /// entry, unless it got another inode for this name since.
  void leads_elsewhere(const std::shared_ptr<Inode>& inode, std::uint64_t found);
  /// Called when the server has said that the file has no other name than the one where it was found just now.
  void has_one_name(const std::shared_ptr<Inode>& inode);
  /// Called when a LOOKUP of the name is answered with the file `found`, or with null because there is no such name.
  void looked_up(std::uint64_t directory, const std::string& name, const FileHandle* found);
  /// Returns Inode::found as of the refusal if this open is the thread's second try (second_tries.h).
  [[nodiscard]] std::optional<std::uint64_t> take_second_try(std::uint32_t thread, const Inode& inode) {
    return second_tries_.take(thread, inode.id, loop_.now());
  }
  /// Called when the thread opens a file in another way.
  void forget_second_try(std::uint32_t thread) { second_tries_.forget(thread); }
  /// Returns the error for an open by a name that leads elsewhere, or that may be such a name. The kernel then looks up
  /// each name of the path again.
  [[nodiscard]] Error refused_by_name(Inode& inode, std::uint32_t thread);

 private:
  async::Task<void> check_name(Caller caller, std::shared_ptr<const Inode> inode, OtherNames::Name name,
                               std::shared_ptr<Checks> checks);
  async::Task<void> drop_name(std::shared_ptr<Inode> inode, OtherNames::Name name);

  DropName drop_name_;
  SecondTries second_tries_;
};

}  // namespace nfsrdma::fs
