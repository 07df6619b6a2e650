// A pool of objects that are needed often, each for a short time. Each object is made once and reused.
//
// The pool owns all objects. Confined to the loop's thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace nfsrdma::async {

template <class T>
class Reused {
 public:
  /// Returns an idle object, in the state in which it was given back, or a new one made of `arguments`.
  template <class... Arguments>
  T& take(Arguments&&... arguments) {
    if (idle_.empty()) return *all_.emplace_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
    T& one = *idle_.back();
    idle_.pop_back();
    return one;
  }
  void give_back(T& one) { idle_.push_back(&one); }
  /// Returns all objects, in the order in which they were made, idle ones included.
  [[nodiscard]] const std::vector<std::unique_ptr<T>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> idle_;
};

}  // namespace nfsrdma::async
