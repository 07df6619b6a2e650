// Encoder: appends XDR (RFC 4506) to a growing buffer, and keeps DDP-eligible items apart.
//
// A DDP-eligible item (RFC 8166 3.4.1) is not copied into the stream: the stream gets its count, and its
// bytes are recorded as an Item of the Message. The sender of the Message decides: it inserts the bytes and
// their padding in their places (an inline or Long Call), or leaves them out and names them in a Read chunk
// (a reduced Call, 3.4.4).
//
// The recorded bytes stay the caller's and must outlive the Message.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace nfsrdma::xdr {

using ConstBytes = std::span<const std::byte>;

/// Returns how many bytes round `length` up to XDR's unit of four.
constexpr std::size_t padding(std::size_t length) {
  return (0 - length) & 3U;
}
constexpr std::size_t padded(std::size_t length) {
  return length + padding(length);
}

inline std::uint32_t load_u32(const std::byte* from) {
  std::uint32_t v = 0;
  std::memcpy(&v, from, sizeof v);
  return std::endian::native == std::endian::little ? __builtin_bswap32(v) : v;
}
inline std::uint64_t load_u64(const std::byte* from) {
  std::uint64_t v = 0;
  std::memcpy(&v, from, sizeof v);
  return std::endian::native == std::endian::little ? __builtin_bswap64(v) : v;
}
inline void store_u32(std::byte* to, std::uint32_t v) {
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap32(v);
  std::memcpy(to, &v, sizeof v);
}
inline void store_u64(std::byte* to, std::uint64_t v) {
  if constexpr (std::endian::native == std::endian::little) v = __builtin_bswap64(v);
  std::memcpy(to, &v, sizeof v);
}

/// A byte buffer that does not initialise its memory, and grows by doubling. clear() prepares it for the next
/// message. Own code because std::vector zeroes memory that is about to be overwritten.
class Buffer {
 public:
  Buffer() = default;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::byte* data() { return bytes_.get(); }
  [[nodiscard]] ConstBytes bytes() const { return {bytes_.get(), size_}; }
  void clear() { size_ = 0; }
  /// Adds `count` bytes at the end, not initialised, and returns their address.
  std::byte* extend(std::size_t count) {
    if (capacity_ - size_ < count) grow(count);
    std::byte* at = bytes_.get() + size_;
    size_ += count;
    return at;
  }

 private:
  void grow(std::size_t count) {
    std::size_t wanted = capacity_ < 256 ? 512 : capacity_ * 2;
    if (wanted < size_ + count) wanted = size_ + count;
    std::unique_ptr<std::byte[]> larger(new std::byte[wanted]);
    if (size_ != 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    capacity_ = wanted;
  }
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// A DDP-eligible item that is kept apart from the stream.
struct Item {
  std::size_t stream_offset = 0;  ///< bytes of the stream in front of it; the last four are its count
  ConstBytes data;                ///< without padding
};

/// An encoded message: the stream without its DDP-eligible items, and the items in stream order.
struct Message {
  Buffer stream;
  std::vector<Item> items;

  void clear() {
    stream.clear();
    items.clear();
  }
  /// Returns the length of the whole stream, with the items and their padding inserted.
  [[nodiscard]] std::size_t unreduced_size() const {
    std::size_t total = stream.size();
    for (const Item& item : items) total += padded(item.data.size());
    return total;
  }
};

class Encoder {
 public:
  explicit Encoder(Message& message) : message_(message) {}

  void u32(std::uint32_t v) { store_u32(message_.stream.extend(4), v); }
  void u64(std::uint64_t v) { store_u64(message_.stream.extend(8), v); }
  /// Fixed-length opaque: the bytes and their padding.
  void fixed(ConstBytes bytes) {
    const std::size_t pad = padding(bytes.size());
    std::byte* at = message_.stream.extend(bytes.size() + pad);
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    if (pad != 0) std::memset(at + bytes.size(), 0, pad);
  }
  /// Variable-length opaque: count, bytes, padding.
  void opaque(ConstBytes bytes) {
    u32(static_cast<std::uint32_t>(bytes.size()));
    fixed(bytes);
  }
  /// Variable-length opaque that may travel by itself: the count goes into the stream, the bytes become an
  /// Item.
  void eligible(ConstBytes bytes) {
    u32(static_cast<std::uint32_t>(bytes.size()));
    if (!bytes.empty()) message_.items.push_back({message_.stream.size(), bytes});
  }
  [[nodiscard]] std::size_t position() const { return message_.stream.size(); }
  [[nodiscard]] Message& message() { return message_; }

 private:
  Message& message_;
};

}  // namespace nfsrdma::xdr
