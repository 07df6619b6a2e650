// A reference to a callable: how a function that is compiled once calls what each of its users brings along.
//
//     async::Task<Status> retry(FunctionRef<bool(Reply&)> take);
//     auto done = co_await retry([&](Reply& reply) { return reply.get(out); });
//
// It takes two words, and allocates nothing. The callable must live for as long as the reference is used: a coroutine
// that takes one has to be awaited in the expression that makes the callable, or the callable has to be a variable.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace nfsrdma::async {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<F>> && std::is_invocable_r_v<R, F&, Args...>)
  // NOLINTBEGIN: conversion is the purpose, nothing is moved, and call_ has the callable's own type, const or not
  FunctionRef(F&& callable)
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* of, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(of))(std::forward<Args>(args)...);
        }) {}
  // NOLINTEND

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_;
  R (*call_)(void*, Args...);
};

}  // namespace nfsrdma::async
