// Reads and sets the marks of file handles (ShortOpaque::mark) in procedures' arguments and results, at any
// depth.
//
// Pure functions; any thread.
#pragma once

#include "xdr/xdr.h"

namespace nfsrdma::xdr {

template <class T>
inline constexpr bool is_short_opaque = false;
template <std::uint32_t Max>
inline constexpr bool is_short_opaque<ShortOpaque<Max>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T, std::uint64_t Max>
inline constexpr bool is_list<Array<T, Max>> = true;
template <class T>
inline constexpr bool is_list<List<T>> = true;
template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t n>
inline constexpr bool is_std_array<std::array<T, n>> = true;

/// Returns the first mark that is not 0. Looks only at handles that every value of the type has, not into
/// lists, options and unions.
template <class T>
std::uint8_t mark_of(const T& value) {
  std::uint8_t out = 0;
  if constexpr (is_short_opaque<T>) {
    out = value.mark;
  } else if constexpr (std::is_aggregate_v<T> && !is_std_array<T>) {
    boost::pfr::for_each_field(value, [&](const auto& field) { out = out != 0 ? out : mark_of(field); });
  }
  return out;
}

/// Sets the mark of every file handle in `value`.
template <class T>
void mark_all(T& value, std::uint8_t mark) {
  if constexpr (is_short_opaque<T>) {
    value.mark = mark;
  } else if constexpr (is_list<T>) {
    for (auto& one : value.value) mark_all(one, mark);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) mark_all(*value, mark);
  } else if constexpr (requires { value.visit([](const auto&) {}); }) {
    value.visit([&](auto& arm) { mark_all(arm, mark); });
  } else if constexpr (std::is_aggregate_v<T> && !is_std_array<T>) {
    boost::pfr::for_each_field(value, [&](auto& field) { mark_all(field, mark); });
  }
}

}  // namespace nfsrdma::xdr
