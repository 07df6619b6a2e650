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

// Every call checks its structs and flags. The checks are inline, and the functions that make their errors are
// not.

/// Returns the error for a struct of the caller's that is null, or shorter than its first version was.
[[gnu::cold]] Error short_struct_error(const char* name, const void* given, std::size_t size,
                                       std::size_t shortest);
/// Returns the error for a struct that has members behind those that this version of the library knows.
[[gnu::cold]] Error unknown_members_error(const char* name);
/// Returns the error for flags of the bits `unknown`.
[[gnu::cold]] Error unknown_flags_error(std::uint32_t unknown);
/// Returns the error if `flags` has bits other than those of `known`: a later version may give them a meaning.
inline std::optional<Error> unknown_flags(std::uint32_t flags, std::uint32_t known) {
  if ((flags & ~known) == 0) return std::nullopt;
  return unknown_flags_error(flags & ~known);
}

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
  const std::size_t size = given == nullptr ? 0 : given->struct_size;
  if (given != nullptr && size >= shortest) return std::nullopt;
  return short_struct_error(name, given, size, shortest);
}
/// Returns the error if one of the bytes behind the first `known` of a struct is not 0: a program that is newer
/// than the library asks for something that the library does not know.
inline std::optional<Error> unknown_members(const char* name, const void* given, std::size_t size,
                                            std::size_t known) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (std::size_t at = known; at < size; ++at) {
    if (bytes[at] != 0) return unknown_members_error(name);
  }
  return std::nullopt;
}
/// Reads a struct of the caller's. Members that the caller's version does not have become 0. Returns the error
/// if the struct cannot be read.
template <class T>
std::optional<Error> load(const char* name, const T* from, T& to, std::size_t shortest) {
  if (auto why = short_struct(name, from, shortest)) return why;
  const std::size_t size = from->struct_size;
  if (auto why = unknown_members(name, from, size, sizeof(T))) return why;
  if (size >= sizeof(T)) {
    to = *from;  // a copy of constant size takes a few instructions
  } else {
    to = T{};
    std::memcpy(&to, from, size);
  }
  to.struct_size = sizeof(T);
  return std::nullopt;
}
/// Length of a struct up to and including `member`, as far as the first version of the library had it.
#define NFSRDMA_LENGTH_TO(type, member) (offsetof(type, member) + sizeof(decltype(type::member)))

}  // namespace nfsrdma::api
