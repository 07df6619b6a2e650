// A queue of values from one thread to another, in order, many at once.
//
//     std::vector<T> letters;            // the giver's
//     mailbox.give(letters);             // all of them; `letters` is empty then
//
//     loop.watch(mailbox.descriptor(), EPOLLIN, [&](auto) {      // the taker's
//       mailbox.take(letters);
//       …
//     });
//
// The descriptor is written only if the mailbox was empty, and the vectors are swapped and reused, so most
// values cost neither a system call nor an allocation. One giver, one taker. The constructor throws like that
// of Wakeup.
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
  /// The descriptor becomes readable when there is something to take.
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

  /// Moves everything into `into`, which must be empty and may stay so.
  void take(std::vector<T>& into) {
    wakeup_.clear();  // clear first, so that values given from now on set it again
    const std::lock_guard guard(mutex_);
    into.swap(letters_);
  }

 private:
  std::mutex mutex_;
  std::vector<T> letters_;
  Wakeup wakeup_;
};

}  // namespace nfsrdma::async
