// Soon<T>: the result of a function that seldom has to wait. If it need not, the function returns the result itself, and
// no coroutine is made; otherwise it returns the Task that waits.
//
//     async::Soon<Status> File::save() {
//       if (!has_unsaved()) return Status();
//       return save_now();                     // a coroutine
//     }
//     auto saved = co_await file.save();
//
// A coroutine that ends at once costs some 500 instructions, for its frame and the moves of its parameters and result.
//
// The function runs when it is called, not when its result is awaited as that of a Task. So it is to be awaited at once.
// Confined to a thread, as a Task.
#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>
#include <variant>

#include "async/task.h"

namespace nfsrdma::async {

template <class T = void>
class [[nodiscard]] Soon {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

 public:
  Soon()
    requires(std::is_void_v<T>)
      : state_(std::in_place_index<0>) {}
  template <class U>
    requires(!std::is_void_v<T> && std::is_convertible_v<U &&, Value> &&
             !std::is_same_v<std::remove_cvref_t<U>, Soon> &&
             !std::is_same_v<std::remove_cvref_t<U>, Task<T>>)
  Soon(U&& value)  // NOLINT(google-explicit-constructor): a function returns a T
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Soon(Task<T>&& task)  // NOLINT(google-explicit-constructor): or a Task<T>
      : state_(std::in_place_index<1>, std::move(task)) {}

  /// Whether the result is there.
  [[nodiscard]] bool await_ready() const noexcept { return state_.index() == 0; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    return std::get_if<1>(&state_)->await_suspend(awaiter);
  }
  T await_resume() {
    if (Task<T>* const task = std::get_if<1>(&state_)) return task->await_resume();
    if constexpr (!std::is_void_v<T>) return std::move(*std::get_if<0>(&state_));
  }
  /// For those who take a Task only.
  operator Task<T>() && {  // NOLINT(google-explicit-constructor): nothing is lost
    if (Task<T>* const task = std::get_if<1>(&state_)) return std::move(*task);
    return finished(std::move(*this));
  }

 private:
  static Task<T> finished(Soon soon) { co_return soon.await_resume(); }

  std::variant<Value, Task<T>> state_;
};

}  // namespace nfsrdma::async
