// Objects that are used again: what is under way for a moment, and often, is made once.
//
// It owns all of them. Confined to the loop's thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace nfsrdma::async {

template <class T>
class Reused {
 public:
  /// One that nobody has: as it was given back, or a new one, made of `arguments`.
  template <class... Arguments>
  T& take(Arguments&&... arguments) {
    if (idle_.empty()) return *all_.emplace_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
    T& one = *idle_.back();
    idle_.pop_back();
    return one;
  }
  void give_back(T& one) { idle_.push_back(&one); }
  /// In the order in which they were made, those that nobody has among them.
  [[nodiscard]] const std::vector<std::unique_ptr<T>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> idle_;
};

}  // namespace nfsrdma::async
