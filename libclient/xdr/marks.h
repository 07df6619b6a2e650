// The marks of file handles (ShortOpaque) in procedures' arguments and results, wherever they stand.
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

/// The first mark that is not 0, of the handles that are there in any case.
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

/// Of all that there are.
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
