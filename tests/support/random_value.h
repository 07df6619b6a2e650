// Values of any XDR type for tests, made by the same walk over the fields that the codec makes.
//
//     Filler random(seed);                 // the same seed gives the same values
//     READ4res res;  fill(random, res);    // a random arm, random contents
//     Filler largest(Filler::Largest{4096});
//     OPEN4res open; fill(largest, open);  // the arm, the lengths and the counts with the largest encoding
//
// same(a, b) compares by that walk, for types without operator==. flatten() puts DDP-eligible items back into
// the stream, as an inline message has them. hex() reads golden bytes.
//
// Memory of DDP-eligible items belongs to the Filler. Confined to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "xdr/xdr.h"

namespace nfsrdma::test {

class Filler {
 public:
  /// Ask for the largest values; what has no cap gets `uncapped` bytes or items.
  struct Largest {
    std::uint64_t uncapped = 0;
  };
  explicit Filler(std::uint64_t seed, std::uint64_t most_bytes = 40, std::uint64_t most_items = 4)
      : engine_(seed), most_bytes_(most_bytes), most_items_(most_items) {}
  explicit Filler(Largest largest)
      : engine_(1), most_bytes_(largest.uncapped), most_items_(largest.uncapped), largest_(true) {}

  [[nodiscard]] bool largest() const { return largest_; }
  std::uint64_t word() { return engine_(); }
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t length(std::uint64_t cap) { return pick(cap, most_bytes_); }
  std::uint64_t count(std::uint64_t cap) { return pick(cap, most_items_); }
  /// Random bytes that live as long as the Filler.
  xdr::ConstBytes bytes(std::uint64_t length) {
    auto& kept = memory_.emplace_back(length);
    for (std::byte& b : kept) b = static_cast<std::byte>(word());
    return kept;
  }

 private:
  std::uint64_t pick(std::uint64_t cap, std::uint64_t most) {
    if (largest_) return cap == xdr::kNoCap ? most : cap;
    return below((cap < most ? cap : most) + 1);
  }
  std::mt19937_64 engine_;
  std::uint64_t most_bytes_, most_items_;
  bool largest_ = false;
  std::deque<std::vector<std::byte>> memory_;
};

template <class T>
struct Walk;

template <class T>
void fill(Filler& from, T& value) {
  Walk<T>::fill(from, value);
}
template <class T>
T filled(Filler& from) {
  T value{};
  fill(from, value);
  return value;
}
template <class T>
bool same(const T& a, const T& b) {
  return Walk<T>::same(a, b);
}

/// Structs: their fields in order.
template <class T>
struct Walk {
  static void fill(Filler& from, T& value) {
    boost::pfr::for_each_field(value, [&](auto& field) { test::fill(from, field); });
  }
  static bool same(const T& a, const T& b) {
    const auto left = boost::pfr::structure_tie(a);
    const auto right = boost::pfr::structure_tie(b);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (test::same(std::get<I>(left), std::get<I>(right)) && ...);
    }(std::make_index_sequence<boost::pfr::tuple_size_v<T>>());
  }
};

template <class T>
  requires(xdr::Word<T> || xdr::Hyper<T>)
struct Walk<T> {
  static void fill(Filler& from, T& value) { value = static_cast<T>(from.word()); }
  static bool same(T a, T b) { return a == b; }
};
template <>
struct Walk<bool> {
  static void fill(Filler& from, bool& value) { value = from.one_in(2); }
  static bool same(bool a, bool b) { return a == b; }
};
template <>
struct Walk<xdr::Void> {
  static void fill(Filler&, xdr::Void&) {}
  static bool same(const xdr::Void&, const xdr::Void&) { return true; }
};
template <std::size_t N>
struct Walk<std::array<std::byte, N>> {
  static void fill(Filler& from, std::array<std::byte, N>& value) {
    for (std::byte& b : value) b = static_cast<std::byte>(from.word());
  }
  static bool same(const std::array<std::byte, N>& a, const std::array<std::byte, N>& b) { return a == b; }
};
template <std::uint64_t Max>
struct Walk<xdr::Opaque<Max>> {
  static void fill(Filler& from, xdr::Opaque<Max>& value) {
    value.value.resize(from.length(Max));
    for (std::byte& b : value.value) b = static_cast<std::byte>(from.word());
  }
  static bool same(const xdr::Opaque<Max>& a, const xdr::Opaque<Max>& b) { return a == b; }
};
template <std::uint64_t Max>
struct Walk<xdr::String<Max>> {
  static void fill(Filler& from, xdr::String<Max>& value) {
    value.value.resize(from.length(Max));
    for (char& c : value.value) c = static_cast<char>('a' + from.below(26));
  }
  static bool same(const xdr::String<Max>& a, const xdr::String<Max>& b) { return a == b; }
};
template <std::uint32_t Max>
struct Walk<xdr::ShortOpaque<Max>> {
  static void fill(Filler& from, xdr::ShortOpaque<Max>& value) {
    value.length = static_cast<std::uint32_t>(from.length(Max));
    for (std::byte& b : value.bytes) b = static_cast<std::byte>(from.word());
  }
  static bool same(const xdr::ShortOpaque<Max>& a, const xdr::ShortOpaque<Max>& b) { return a == b; }
};
template <std::uint64_t Max>
struct Walk<xdr::DdpOpaque<Max>> {
  static void fill(Filler& from, xdr::DdpOpaque<Max>& value) { value.data = from.bytes(from.length(Max)); }
  static bool same(const xdr::DdpOpaque<Max>& a, const xdr::DdpOpaque<Max>& b) { return a == b; }
};
template <class Items>
bool same_items(const Items& a, const Items& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return true;
}
template <class T, std::uint64_t Max>
struct Walk<xdr::Array<T, Max>> {
  static void fill(Filler& from, xdr::Array<T, Max>& value) {
    value.value.resize(from.count(Max));
    for (T& item : value.value) test::fill(from, item);
  }
  static bool same(const xdr::Array<T, Max>& a, const xdr::Array<T, Max>& b) {
    return same_items(a.value, b.value);
  }
};
template <class T>
struct Walk<xdr::List<T>> {
  static void fill(Filler& from, xdr::List<T>& value) {
    value.value.resize(from.count(xdr::kNoCap));
    for (T& item : value.value) test::fill(from, item);
  }
  static bool same(const xdr::List<T>& a, const xdr::List<T>& b) { return same_items(a.value, b.value); }
};
template <class T>
struct Walk<std::optional<T>> {
  static void fill(Filler& from, std::optional<T>& value) {
    value.reset();
    if (from.largest() || from.one_in(2)) test::fill(from, value.emplace());
  }
  static bool same(const std::optional<T>& a, const std::optional<T>& b) {
    return a.has_value() == b.has_value() && (!a || test::same(*a, *b));
  }
};

template <class D, class... Arms>
struct Walk<xdr::Union<D, Arms...>> {
  using U = xdr::Union<D, Arms...>;
  static void fill(Filler& from, U& value) {
    const std::size_t arm = from.largest() ? largest_arm() : from.below(U::kArms);
    value.select(tag_of(from, arm));
    value.visit([&](auto& body) { test::fill(from, body); });
  }
  static bool same(const U& a, const U& b) {
    if (a.tag() != b.tag()) return false;
    // Equal tags select equal arms. A visit within a visit would be compiled for each pair of arms.
    const void* other = b.visit([](const auto& right) { return static_cast<const void*>(&right); });
    return a.visit([&](const auto& left) {
      return test::same(left, *static_cast<std::remove_reference_t<decltype(left)>*>(other));
    });
  }

 private:
  static std::size_t largest_arm() {
    const std::array<std::uint64_t, U::kArms> sizes{xdr::bounds<typename Arms::Type>.max...};
    std::size_t best = 0;
    for (std::size_t i = 1; i < U::kArms; ++i) {
      if (sizes[i] > sizes[best]) best = i;
    }
    return best;
  }
  /// A discriminant that selects this arm.
  static D tag_of(Filler& from, std::size_t arm) {
    const std::array<std::optional<D>, U::kArms> tags{fixed_tag<Arms>()...};
    if (tags[arm]) return *tags[arm];
    for (;;) {
      const auto tag = static_cast<D>(static_cast<std::uint32_t>(from.word()));
      if (U::arm_of(tag) == arm) return tag;
    }
  }
  template <class Arm>
  static std::optional<D> fixed_tag() {
    if constexpr (xdr::is_otherwise<Arm>) {
      return std::nullopt;
    } else {
      return Arm::tag;
    }
  }
};

/// "00 01 ff" as bytes; blanks and line ends are for people.
inline std::vector<std::byte> hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::string digits;
  for (const char c : text) {
    if (c != ' ' && c != '\n') digits += c;
  }
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out.push_back(static_cast<std::byte>(digit(digits[i]) << 4U | digit(digits[i + 1])));
  }
  return out;
}

/// The message as it is sent inline: items and their padding put back, except of the first `reduced` ones.
inline std::vector<std::byte> flatten(const xdr::Message& message, std::size_t reduced = 0) {
  std::vector<std::byte> out;
  const xdr::ConstBytes stream = message.stream.bytes();
  std::size_t at = 0;
  for (std::size_t i = reduced; i < message.items.size(); ++i) {
    const xdr::Item& item = message.items[i];
    out.insert(out.end(), stream.begin() + static_cast<std::ptrdiff_t>(at),
               stream.begin() + static_cast<std::ptrdiff_t>(item.stream_offset));
    out.insert(out.end(), item.data.begin(), item.data.end());
    out.resize(out.size() + xdr::padding(item.data.size()));
    at = item.stream_offset;
  }
  out.insert(out.end(), stream.begin() + static_cast<std::ptrdiff_t>(at), stream.end());
  return out;
}

/// Encodes and flattens.
template <class T>
std::vector<std::byte> encoded(const T& value) {
  xdr::Message message;
  xdr::Encoder out(message);
  xdr::encode(out, value);
  return flatten(message);
}

}  // namespace nfsrdma::test
