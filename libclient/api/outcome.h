// How functions of the C interface return results and errors: struct nfsrdma_error, and the guards that keep
// exceptions inside the library.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"

struct nfsrdma_error {
  explicit nfsrdma_error(nfsrdma::Error from) : error(std::move(from)), text(error.text()) {}
  const nfsrdma::Error error;
  const std::string text;
};

namespace nfsrdma::api {

/// Stores the error for the caller, who frees it, unless the caller wants none. Returns -1.
std::int64_t fail(nfsrdma_error** to, Error error);
/// Returns the error as a value of the C interface, or null if there is no memory for it.
nfsrdma_error* made(Error error) noexcept;

/// Returns the Error of the exception that is being handled.
Error from_exception() noexcept;
Error missing(const char* argument);  ///< an argument of the C interface is null or has no meaning
/// Returns the error if a struct of the caller's is null, or shorter than its first version was.
std::optional<Error> short_struct(const char* name, const void* given, std::size_t size,
                                  std::size_t shortest);
/// Returns the error if `flags` has bits other than those of `known`: a later version may give them a meaning.
std::optional<Error> unknown_flags(std::uint32_t flags, std::uint32_t known);

/// Returns what `call` returns, or -1 and an error if it throws.
template <class Call>
std::int64_t guarded(nfsrdma_error** error, Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return fail(error, from_exception());
  }
}
/// Returns the object that `call` returns, or null and an error if it throws.
template <class Call>
auto guarded_object(nfsrdma_error** error, Call call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    (void)fail(error, from_exception());
    return nullptr;
  }
}

/// Copies a struct of the C interface to the caller's, which may be of an older version and so be shorter.
/// Both begin with struct_size. Returns false if the caller's is shorter than any version was.
template <class T>
bool store(const T& from, T* to, std::size_t shortest) {
  const std::size_t size = to == nullptr ? 0 : to->struct_size;
  if (size < shortest) return false;
  std::memcpy(to, &from, size < sizeof(T) ? size : sizeof(T));
  to->struct_size = size;
  return true;
}
/// Returns the error if the struct cannot be filled in or read.
template <class T>
std::optional<Error> short_struct(const char* name, const T* given, std::size_t shortest) {
  return short_struct(name, given, given == nullptr ? 0 : given->struct_size, shortest);
}
/// Returns the error if one of the bytes behind the first `known` of a struct is not 0: a program that is newer
/// than the library asks for something that the library does not know.
std::optional<Error> unknown_members(const char* name, const void* given, std::size_t size,
                                     std::size_t known);
/// Reads a struct of the caller's. Members that the caller's version does not have become 0. Returns the error
/// if the struct cannot be read.
template <class T>
std::optional<Error> load(const char* name, const T* from, T& to, std::size_t shortest) {
  if (auto why = short_struct(name, from, shortest)) return why;
  const std::size_t size = from->struct_size;
  if (auto why = unknown_members(name, from, size, sizeof(T))) return why;
  to = T{};
  std::memcpy(&to, from, size < sizeof(T) ? size : sizeof(T));
  to.struct_size = sizeof(T);
  return std::nullopt;
}
/// Length of a struct up to and including `member`, as far as the first version of the library had it.
#define NFSRDMA_LENGTH_TO(type, member) (offsetof(type, member) + sizeof(decltype(type::member)))

}  // namespace nfsrdma::api
