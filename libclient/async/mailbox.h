// Letters from one thread to another, in their order, many at once.
//
//     std::vector<T> letters;            // the giver's
//     mailbox.give(letters);             // all of them; `letters` is empty then
//
//     loop.watch(mailbox.descriptor(), EPOLLIN, [&](auto) {      // the taker's
//       mailbox.take(letters);
//       …
//     });
//
// The descriptor is written only where the taker has nothing to take yet, and vectors go round, so that neither a system
// call nor an allocation belongs to a letter. One giver, one taker. The constructor throws as Wakeup's does.
#pragma once

#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "async/wakeup.h"

namespace nfsrdma::async {

template <class T>
class Mailbox {
 public:
  /// Becomes readable when there is something to take.
  [[nodiscard]] int descriptor() const { return wakeup_.descriptor(); }

  void give(std::vector<T>& letters) {
    if (letters.empty()) return;
    bool sleeps = false;
    {
      const std::lock_guard guard(mutex_);
      sleeps = letters_.empty();
      if (sleeps) {
        letters_.swap(letters);
      } else {
        letters_.insert(letters_.end(), std::make_move_iterator(letters.begin()),
                        std::make_move_iterator(letters.end()));
      }
    }
    letters.clear();
    if (sleeps) wakeup_.set();
  }

  /// `into` is empty; it may stay so.
  void take(std::vector<T>& into) {
    wakeup_.clear();  // first: what is given from now on sets it anew
    const std::lock_guard guard(mutex_);
    into.swap(letters_);
  }

 private:
  std::mutex mutex_;
  std::vector<T> letters_;
  Wakeup wakeup_;
};

}  // namespace nfsrdma::async
