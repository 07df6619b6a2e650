// XDR types as plain aggregates: one description gives encoding, bounded decoding, sizes and DDP marks.
//
// A struct is encoded as its fields in order (RFC 4506 4.14); Boost.PFR iterates over them. The other types
// are
//   uint32_t int32_t uint64_t int64_t bool, enums over 32 bits    numbers
//   std::array<std::byte, N>                      opaque[N]
//   Opaque<Max>, String<Max>                      opaque<Max>, string<Max>, owned
//   ShortOpaque<Max>                              opaque<Max> without an allocation, for file handles
//   DdpOpaque<Max>                                opaque<Max> that a Read or Write chunk may carry (RFC 8267
//                                                 4.1), not owned
//   Array<T, Max>                                 T<Max>
//   List<T>                                       the linked lists of READDIR: { TRUE, T }* FALSE
//   std::optional<T>                              *T
//   Union<E, On<tag, T>..., Otherwise<T>>         union switch (E)
//   Void                                          void
//
//   encode(encoder, value)      appends
//   decode(decoder, value)      false on a fault; the decoder says which
//   encoded_size(value)         the bytes that encode() would append, with the DDP items inserted
//   bounds<T>                   smallest and largest encoding of any value of T, with and without the DDP
//                               items
//
// A worked example: struct { uint32_t a; Opaque<5> b; } with b = {1,2,3} encodes to
//   00 00 00 07   00 00 00 03   01 02 03 00        and bounds are min 8, max 16.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <boost/pfr.hpp>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "xdr/decoder.h"
#include "xdr/encoder.h"

namespace nfsrdma::xdr {

/// The size of items without a limit. Sums and products with it are kUnbounded, too.
inline constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > kUnbounded - b ? kUnbounded : a + b;
}
constexpr std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kUnbounded / b ? kUnbounded : a * b;
}
constexpr std::uint64_t padded_bound(std::uint64_t a) {
  return a > kUnbounded - 3 ? kUnbounded : (a + 3) & ~3ULL;
}

/// The cap of items that have no limit in the protocol ("opaque<>").
inline constexpr std::uint64_t kNoCap = std::numeric_limits<std::uint32_t>::max();

struct Bounds {
  std::uint64_t min = 0;
  std::uint64_t max = 0;          ///< everything inline
  std::uint64_t max_reduced = 0;  ///< with the DDP-eligible items taken out
  std::uint64_t ddp_items = 0;    ///< how many of them there may be

  friend constexpr Bounds operator+(const Bounds& a, const Bounds& b) {
    return {sum(a.min, b.min), sum(a.max, b.max), sum(a.max_reduced, b.max_reduced),
            sum(a.ddp_items, b.ddp_items)};
  }
  /// The bounds of a value of either type: the smaller minimum, the larger maxima.
  friend constexpr Bounds operator|(const Bounds& a, const Bounds& b) {
    return {a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max,
            a.max_reduced > b.max_reduced ? a.max_reduced : b.max_reduced,
            a.ddp_items > b.ddp_items ? a.ddp_items : b.ddp_items};
  }
};
constexpr Bounds exactly(std::uint64_t size) {
  return {size, size, size, 0};
}

struct Void {
  friend bool operator==(const Void&, const Void&) = default;
};

template <std::uint64_t Max = kNoCap>
struct Opaque {
  std::vector<std::byte> value;
  friend bool operator==(const Opaque&, const Opaque&) = default;
};

template <std::uint64_t Max = kNoCap>
struct String {
  std::string value;
  friend bool operator==(const String&, const String&) = default;
};

template <std::uint32_t Max>
struct ShortOpaque {
  std::uint32_t length = 0;
  std::array<std::byte, Max> bytes{};
  std::uint8_t mark = 0;  ///< a note of the handle's holder: not encoded, and not part of the value
  [[nodiscard]] ConstBytes view() const { return ConstBytes(bytes).first(length); }
  /// Returns the bytes as characters, for use as a key in tables.
  [[nodiscard]] std::string_view chars() const {
    return {reinterpret_cast<const char*>(bytes.data()), length};
  }
  friend bool operator==(const ShortOpaque& a, const ShortOpaque& b) {
    return a.length == b.length && std::memcmp(a.bytes.data(), b.bytes.data(), a.length) == 0;
  }
};

/// When encoding, the bytes are the caller's. When decoding, see Decoder::eligible.
template <std::uint64_t Max = kNoCap>
struct DdpOpaque {
  ConstBytes data;
  friend bool operator==(const DdpOpaque& a, const DdpOpaque& b) {
    return a.data.size() == b.data.size() &&
           (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
  }
};

/// The items of an Array: in place where all that it may have are few bytes, as with a bitmap4, which most calls carry.
template <class T, std::uint64_t Max>
using ArrayItems =
    std::conditional_t<std::is_trivially_copyable_v<T> && Max <= 64 && Max * sizeof(T) <= 64,
                       boost::container::static_vector<T, std::size_t{Max <= 64 ? Max : 0}>, std::vector<T>>;

template <class T, std::uint64_t Max = kNoCap>
struct Array {
  ArrayItems<T, Max> value;
  friend bool operator==(const Array&, const Array&) = default;
};

template <class T>
struct List {
  std::vector<T> value;
  friend bool operator==(const List&, const List&) = default;
};

/// An arm of a Union: for the discriminant `Tag`, a T.
template <auto Tag, class T = Void>
struct On {
  using Type = T;
  static constexpr auto tag = Tag;
};
/// The arm for every other discriminant. Without it, another discriminant is a fault.
template <class T = Void>
struct Otherwise {
  using Type = T;
};

template <class Arm>
inline constexpr bool is_otherwise = false;
template <class T>
inline constexpr bool is_otherwise<Otherwise<T>> = true;

template <class Discriminant, class... Arms>
class Union {
 public:
  using Tag = Discriminant;
  template <std::size_t I>
  using ArmAt = std::tuple_element_t<I, std::tuple<Arms...>>;
  static constexpr std::size_t kArms = sizeof...(Arms);
  static constexpr std::size_t kNone = kArms;

  /// Selects the first arm, with its tag.
  Union() : body_(std::in_place_index<0>) {
    if constexpr (!is_otherwise<ArmAt<0>>) tag_ = ArmAt<0>::tag;
  }

  template <Discriminant Value, class T>
  static Union of(T value) {
    Union u;
    u.template emplace<Value>() = std::move(value);
    return u;
  }
  template <Discriminant Value>
  static Union of() {
    Union u;
    u.template emplace<Value>();
    return u;
  }
  /// Selects the arm of a discriminant that is known at run time, with a default value. Returns false if
  /// there is no such arm.
  bool select(Discriminant tag) {
    const std::size_t arm = arm_of(tag);
    if (arm == kNone) return false;
    tag_ = tag;
    emplace_index(arm, std::make_index_sequence<kArms>());
    return true;
  }

  [[nodiscard]] Discriminant tag() const { return tag_; }
  template <Discriminant Value>
  auto& emplace() {
    constexpr std::size_t arm = arm_of(Value);
    static_assert(arm != kNone, "the union has no such arm");
    tag_ = Value;
    return body_.template emplace<arm>().value;
  }
  /// Returns the arm's value if this arm is in use, else null.
  template <Discriminant Value>
  [[nodiscard]] const auto* get() const {
    constexpr std::size_t arm = arm_of(Value);
    static_assert(arm != kNone, "the union has no such arm");
    const auto* slot = std::get_if<arm>(&body_);
    return slot != nullptr && tag_ == Value ? &slot->value : nullptr;
  }
  template <Discriminant Value>
  [[nodiscard]] auto* get() {
    constexpr std::size_t arm = arm_of(Value);
    static_assert(arm != kNone, "the union has no such arm");
    auto* slot = std::get_if<arm>(&body_);
    return slot != nullptr && tag_ == Value ? &slot->value : nullptr;
  }
  /// Calls f with the value of the arm in use.
  template <class F>
  decltype(auto) visit(const F& f) const {
    return std::visit([&](const auto& slot) -> decltype(auto) { return f(slot.value); }, body_);
  }
  template <class F>
  decltype(auto) visit(const F& f) {
    return std::visit([&](auto& slot) -> decltype(auto) { return f(slot.value); }, body_);
  }
  friend bool operator==(const Union&, const Union&) = default;

  static constexpr std::size_t arm_of(Discriminant tag) {
    std::size_t found = kNone;
    std::size_t fallback = kNone;
    std::size_t i = 0;
    (
        [&] {
          if constexpr (is_otherwise<Arms>) {
            fallback = i;
          } else if (Arms::tag == tag && found == kNone) {
            found = i;
          }
          ++i;
        }(),
        ...);
    return found != kNone ? found : fallback;
  }

 private:
  template <std::size_t I>
  struct Slot {
    typename ArmAt<I>::Type value{};
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  template <class>
  struct Storage;
  template <std::size_t... I>
  struct Storage<std::index_sequence<I...>> {
    using Type = std::variant<Slot<I>...>;
  };
  template <std::size_t... I>
  void emplace_index(std::size_t arm, std::index_sequence<I...>) {
    ((arm == I ? (void)body_.template emplace<I>() : void()), ...);
  }

  Discriminant tag_{};
  typename Storage<std::make_index_sequence<kArms>>::Type body_;
};

// ---- Codec<T>: encode, decode, size, bounds ----

template <class T>
struct Codec;

template <class T>
void encode(Encoder& out, const T& value) {
  Codec<T>::encode(out, value);
}
template <class T>
bool decode(Decoder& in, T& value) {
  return Codec<T>::decode(in, value);
}
template <class T>
std::uint64_t encoded_size(const T& value) {
  return Codec<T>::size(value);
}
template <class T>
inline constexpr Bounds bounds = Codec<T>::bounds();

/// The codec of structs: their fields in order.
template <class T>
struct Codec {
  static_assert(std::is_aggregate_v<T>, "an XDR type is a plain aggregate or one of the building blocks");
  static constexpr std::size_t kFields = boost::pfr::tuple_size_v<T>;

  static void encode(Encoder& out, const T& value) {
    boost::pfr::for_each_field(value, [&](const auto& field) { xdr::encode(out, field); });
  }
  static bool decode(Decoder& in, T& value) {
    bool good = true;
    boost::pfr::for_each_field(value, [&](auto& field) { good = good && xdr::decode(in, field); });
    return good;
  }
  static std::uint64_t size(const T& value) {
    std::uint64_t total = 0;
    boost::pfr::for_each_field(value, [&](const auto& field) { total += encoded_size(field); });
    return total;
  }
  static constexpr Bounds bounds() {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (Bounds{} + ... + Codec<boost::pfr::tuple_element_t<I, T>>::bounds());
    }(std::make_index_sequence<kFields>());
  }
};

template <>
struct Codec<Void> {
  static void encode(Encoder&, const Void&) {}
  static bool decode(Decoder& in, Void&) { return in.ok(); }
  static std::uint64_t size(const Void&) { return 0; }
  static constexpr Bounds bounds() { return exactly(0); }
};

template <class T>
concept Word = (std::is_integral_v<T> && sizeof(T) == 4) || (std::is_enum_v<T> && sizeof(T) == 4);
template <class T>
concept Hyper = std::is_integral_v<T> && sizeof(T) == 8;

template <Word T>
struct Codec<T> {
  static void encode(Encoder& out, T value) { out.u32(static_cast<std::uint32_t>(value)); }
  static bool decode(Decoder& in, T& value) {
    std::uint32_t raw = 0;
    const bool good = in.u32(raw);
    value = static_cast<T>(raw);
    return good;
  }
  static std::uint64_t size(T) { return 4; }
  static constexpr Bounds bounds() { return exactly(4); }
};

template <Hyper T>
struct Codec<T> {
  static void encode(Encoder& out, T value) { out.u64(static_cast<std::uint64_t>(value)); }
  static bool decode(Decoder& in, T& value) {
    std::uint64_t raw = 0;
    const bool good = in.u64(raw);
    value = static_cast<T>(raw);
    return good;
  }
  static std::uint64_t size(T) { return 8; }
  static constexpr Bounds bounds() { return exactly(8); }
};

template <>
struct Codec<bool> {
  static void encode(Encoder& out, bool value) { out.u32(value ? 1 : 0); }
  static bool decode(Decoder& in, bool& value) {
    std::uint32_t raw = 0;
    if (!in.u32(raw)) return false;
    if (raw > 1) return in.fail(Fault::bad_discriminant);
    value = raw == 1;
    return true;
  }
  static std::uint64_t size(bool) { return 4; }
  static constexpr Bounds bounds() { return exactly(4); }
};

template <std::size_t N>
struct Codec<std::array<std::byte, N>> {
  static void encode(Encoder& out, const std::array<std::byte, N>& value) { out.fixed(value); }
  static bool decode(Decoder& in, std::array<std::byte, N>& value) { return in.fixed(value); }
  static std::uint64_t size(const std::array<std::byte, N>&) { return padded(N); }
  static constexpr Bounds bounds() { return exactly(padded(N)); }
};

constexpr Bounds opaque_bounds(std::uint64_t cap) {
  const std::uint64_t most = sum(4, padded_bound(cap));
  return {4, most, most, 0};
}

template <std::uint64_t Max>
struct Codec<Opaque<Max>> {
  static void encode(Encoder& out, const Opaque<Max>& value) { out.opaque(value.value); }
  static bool decode(Decoder& in, Opaque<Max>& value) {
    ConstBytes bytes;
    if (!in.opaque(Max, bytes)) return false;
    value.value.assign(bytes.begin(), bytes.end());
    return true;
  }
  static std::uint64_t size(const Opaque<Max>& value) { return 4 + padded(value.value.size()); }
  static constexpr Bounds bounds() { return opaque_bounds(Max); }
};

template <std::uint64_t Max>
struct Codec<String<Max>> {
  static void encode(Encoder& out, const String<Max>& value) {
    out.opaque(std::as_bytes(std::span(value.value.data(), value.value.size())));
  }
  static bool decode(Decoder& in, String<Max>& value) {
    ConstBytes bytes;
    if (!in.opaque(Max, bytes)) return false;
    value.value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  static std::uint64_t size(const String<Max>& value) { return 4 + padded(value.value.size()); }
  static constexpr Bounds bounds() { return opaque_bounds(Max); }
};

template <std::uint32_t Max>
struct Codec<ShortOpaque<Max>> {
  static void encode(Encoder& out, const ShortOpaque<Max>& value) { out.opaque(value.view()); }
  static bool decode(Decoder& in, ShortOpaque<Max>& value) {
    ConstBytes bytes;
    value.length = 0;
    if (!in.opaque(Max, bytes)) return false;
    value.length = static_cast<std::uint32_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
    return true;
  }
  static std::uint64_t size(const ShortOpaque<Max>& value) { return 4 + padded(value.length); }
  static constexpr Bounds bounds() { return opaque_bounds(Max); }
};

template <std::uint64_t Max>
struct Codec<DdpOpaque<Max>> {
  static void encode(Encoder& out, const DdpOpaque<Max>& value) { out.eligible(value.data); }
  static bool decode(Decoder& in, DdpOpaque<Max>& value) { return in.eligible(Max, value.data); }
  static std::uint64_t size(const DdpOpaque<Max>& value) { return 4 + padded(value.data.size()); }
  static constexpr Bounds bounds() { return {4, sum(4, padded_bound(Max)), 4, 1}; }
};

template <class T, std::uint64_t Max>
struct Codec<Array<T, Max>> {
  static void encode(Encoder& out, const Array<T, Max>& value) {
    out.u32(static_cast<std::uint32_t>(value.value.size()));
    for (const T& item : value.value) xdr::encode(out, item);
  }
  static bool decode(Decoder& in, Array<T, Max>& value) {
    value.value.clear();
    std::uint32_t count = 0;
    if (!in.u32(count)) return false;
    if (count > Max) return in.fail(Fault::too_long);
    // Checked before the allocation: so many items cannot be in the bytes that are left.
    constexpr std::uint64_t least = Codec<T>::bounds().min;
    static_assert(least > 0, "an array of nothing has no bound");
    if (count > in.remaining() / least) return in.fail(Fault::truncated);
    value.value.resize(count);
    for (T& item : value.value) {
      if (!xdr::decode(in, item)) return false;
    }
    return true;
  }
  static std::uint64_t size(const Array<T, Max>& value) {
    std::uint64_t total = 4;
    for (const T& item : value.value) total += encoded_size(item);
    return total;
  }
  static constexpr Bounds bounds() {
    constexpr Bounds one = Codec<T>::bounds();
    return {4, sum(4, product(Max, one.max)), sum(4, product(Max, one.max_reduced)),
            product(Max, one.ddp_items)};
  }
};

template <class T>
struct Codec<List<T>> {
  static void encode(Encoder& out, const List<T>& value) {
    for (const T& item : value.value) {
      out.u32(1);
      xdr::encode(out, item);
    }
    out.u32(0);
  }
  static bool decode(Decoder& in, List<T>& value) {
    value.value.clear();
    for (;;) {
      bool more = false;
      if (!xdr::decode(in, more)) return false;
      if (!more) return true;
      if (!xdr::decode(in, value.value.emplace_back())) return false;
    }
  }
  static std::uint64_t size(const List<T>& value) {
    std::uint64_t total = 4;
    for (const T& item : value.value) total += 4 + encoded_size(item);
    return total;
  }
  static constexpr Bounds bounds() { return {4, kUnbounded, kUnbounded, 0}; }
};

template <class T>
struct Codec<std::optional<T>> {
  static void encode(Encoder& out, const std::optional<T>& value) {
    out.u32(value ? 1 : 0);
    if (value) xdr::encode(out, *value);
  }
  static bool decode(Decoder& in, std::optional<T>& value) {
    bool there = false;
    value.reset();
    if (!xdr::decode(in, there)) return false;
    return !there || xdr::decode(in, value.emplace());
  }
  static std::uint64_t size(const std::optional<T>& value) { return 4 + (value ? encoded_size(*value) : 0); }
  static constexpr Bounds bounds() { return exactly(4) + (exactly(0) | Codec<T>::bounds()); }
};

template <class D, class... Arms>
struct Codec<Union<D, Arms...>> {
  using U = Union<D, Arms...>;
  static void encode(Encoder& out, const U& value) {
    xdr::encode(out, value.tag());
    value.visit([&](const auto& body) { xdr::encode(out, body); });
  }
  static bool decode(Decoder& in, U& value) {
    D tag{};
    if (!xdr::decode(in, tag)) return false;
    if (!value.select(tag)) return in.fail(Fault::bad_discriminant);
    return value.visit([&](auto& body) { return xdr::decode(in, body); });
  }
  static std::uint64_t size(const U& value) {
    return 4 + value.visit([](const auto& body) { return encoded_size(body); });
  }
  static constexpr Bounds bounds() {
    constexpr Bounds first = Codec<typename U::template ArmAt<0>::Type>::bounds();
    return exactly(4) + (first | ... | Codec<typename Arms::Type>::bounds());
  }
};

}  // namespace nfsrdma::xdr
