#include "trace/format/pcapng.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace nfsrdma::trace {
namespace {

constexpr std::size_t kBlockHead = 8, kBlockTail = 4;
constexpr std::uint16_t kEndOfOptions = 0, kComment = 1, kUserApplication = 4;
constexpr std::uint16_t kInterfaceName = 2, kInterfaceDescriptionText = 3, kInterfaceResolution = 9;
/// More interfaces than any capture has; bounds what a hostile file makes the reader store.
constexpr std::size_t kMostInterfaces = 1024;
constexpr std::uint64_t kNanoseconds = 1'000'000'000;

template <class T>
T swapped_bytes(T value) {
  T out = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) out = static_cast<T>(out << 8 | ((value >> (8 * i)) & 0xff));
  return out;
}

/// Appends a number in little-endian order.
template <class T>
void put(Octets& to, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}
void put(Octets& to, ConstBytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(to.size() + (0 - bytes.size()) % 4);
}
void put_option(Octets& to, std::uint16_t code, std::string_view value) {
  if (value.empty()) return;
  value = value.substr(0, UINT16_MAX);
  put(to, code);
  put(to, static_cast<std::uint16_t>(value.size()));
  put(to, std::as_bytes(std::span(value)));
}

/// Appends a block, whose body `fill` appends.
template <class Fill>
void put_block(Octets& to, std::uint32_t type, Fill fill) {
  const std::size_t begin = to.size();
  put(to, type);
  put(to, std::uint32_t{0});
  fill();
  const auto size = static_cast<std::uint32_t>(to.size() - begin + kBlockTail);
  put(to, size);
  for (std::size_t i = 0; i < 4; ++i) to[begin + 4 + i] = static_cast<std::byte>(size >> (8 * i));
}

std::uint64_t power(std::uint64_t base, unsigned exponent) {
  std::uint64_t out = 1;
  while (exponent-- != 0) out *= base;
  return out;
}

/// Returns the meaning of if_tsresol: ticks in a second. A value that no clock has counts as microseconds.
std::uint64_t ticks_of(std::byte resolution) {
  constexpr unsigned kMostDecimal = 18, kMostBinary = 62;
  const unsigned exponent = std::to_integer<unsigned>(resolution & std::byte{0x7f});
  const bool is_binary = (resolution & std::byte{0x80}) != std::byte{0};
  if (exponent > (is_binary ? kMostBinary : kMostDecimal)) return 1'000'000;
  return power(is_binary ? 2 : 10, exponent);
}

std::uint64_t in_nanoseconds(std::uint64_t ticks, std::uint64_t per_second) {
  const std::uint64_t seconds = ticks / per_second, rest = ticks % per_second;
  const auto fraction = static_cast<std::uint64_t>(static_cast<long double>(rest) * kNanoseconds /
                                                   static_cast<long double>(per_second));
  return seconds * kNanoseconds + fraction;
}

}  // namespace

// ---- writing ----

void append_section(Octets& to, std::string_view program) {
  put_block(to, kSectionHeader, [&] {
    put(to, kByteOrderMagic);
    put(to, std::uint16_t{1});
    put(to, std::uint16_t{0});
    put(to, ~std::uint64_t{0});  // the section's length is not known
    put_option(to, kUserApplication, program);
    put(to, std::uint32_t{kEndOfOptions});
  });
}

void append_interface(Octets& to, std::string_view name, std::string_view description) {
  put_block(to, kInterfaceDescription, [&] {
    put(to, kEthernet);
    put(to, std::uint16_t{0});
    put(to, std::uint32_t{0});  // no limit of a packet's size
    put_option(to, kInterfaceName, name);
    put_option(to, kInterfaceDescriptionText, description);
    put_option(to, kInterfaceResolution, "\x09");
    put(to, std::uint32_t{kEndOfOptions});
  });
}

void append_packet(Octets& to, const Packet& packet) {
  put_block(to, kEnhancedPacket, [&] {
    put(to, std::uint32_t{0});
    put(to, static_cast<std::uint32_t>(packet.time_ns >> 32));
    put(to, static_cast<std::uint32_t>(packet.time_ns));
    put(to, static_cast<std::uint32_t>(packet.bytes.size()));
    put(to, packet.original_size);
    put(to, packet.bytes);
    if (packet.comment.empty()) return;
    put_option(to, kComment, packet.comment);
    put(to, std::uint32_t{kEndOfOptions});
  });
}

bool begins_as_pcapng(ConstBytes bytes) {
  // The type of a Section Header Block reads the same in both byte orders.
  constexpr std::array kMagic{std::byte{0x0A}, std::byte{0x0D}, std::byte{0x0D}, std::byte{0x0A}};
  return bytes.size() >= kMagic.size() && std::ranges::equal(bytes.first(kMagic.size()), kMagic);
}

// ---- reading ----

void BlockReader::add(ConstBytes bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  if (fault_.empty()) buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void BlockReader::begin_file() {
  buffer_.clear();
  begin_ = 0;
  position_ = 0;
  in_section_ = false;
  fault_.clear();
}

std::uint16_t BlockReader::u16(ConstBytes from, std::size_t at) const {
  const auto low = std::to_integer<std::uint16_t>(from[at]),
             high = std::to_integer<std::uint16_t>(from[at + 1]);
  const auto little = static_cast<std::uint16_t>(high << 8 | low);
  return swapped_ ? swapped_bytes(little) : little;
}

std::uint32_t BlockReader::u32(ConstBytes from, std::size_t at) const {
  std::uint32_t little = 0;
  for (std::size_t i = 0; i < 4; ++i) little |= std::to_integer<std::uint32_t>(from[at + i]) << (8 * i);
  return swapped_ ? swapped_bytes(little) : little;
}

bool BlockReader::fail(const char* why) {
  fault_ = why;
  return false;
}

/// Learns the byte order of a section from its header. Returns false if the bytes do not reach so far, or are
/// no section header.
bool BlockReader::begin_section() {
  const ConstBytes rest = ConstBytes(buffer_).subspan(begin_);
  if (rest.size() < kBlockHead + 4) return false;
  swapped_ = false;
  const std::uint32_t magic = u32(rest, kBlockHead);
  if (magic != kByteOrderMagic && magic != swapped_bytes(kByteOrderMagic)) return fail("not a pcapng file");
  swapped_ = magic != kByteOrderMagic;
  in_section_ = true;
  interfaces_.clear();
  return true;
}

/// Finds the next complete block, and moves on behind it.
bool BlockReader::find_block(std::uint32_t& type, ConstBytes& body) {
  const ConstBytes rest = ConstBytes(buffer_).subspan(begin_);
  if (rest.size() < kBlockHead) return false;
  if (!in_section_ && !begins_as_pcapng(rest)) return fail("not a pcapng file");
  if (begins_as_pcapng(rest) && !begin_section()) return false;
  type = u32(rest, 0);
  const std::size_t size = u32(rest, 4);
  if (size < kBlockHead + kBlockTail || size % 4 != 0 || size > kLargestBlock)
    return fail("a block has an impossible length; the rest of the file cannot be read");
  if (rest.size() < size) return false;
  if (u32(rest, size - kBlockTail) != size)
    return fail("a block's two lengths differ; the rest of the file cannot be read");
  body = rest.subspan(kBlockHead, size - kBlockHead - kBlockTail);
  begin_ += size;
  position_ += size;
  return true;
}

template <class Visit>
void BlockReader::each_option(ConstBytes options, Visit visit) const {
  while (options.size() >= 4) {
    const std::uint16_t code = u16(options, 0), size = u16(options, 2);
    const std::size_t padded = (std::size_t{size} + 3) / 4 * 4;
    if (code == kEndOfOptions || padded > options.size() - 4) return;
    visit(code, options.subspan(4, size));
    options = options.subspan(4 + padded);
  }
}

void BlockReader::take_interface(ConstBytes body) {
  constexpr std::size_t kFixed = 8;
  if (body.size() < kFixed || interfaces_.size() == kMostInterfaces) return;
  Interface& made = interfaces_.emplace_back();
  made.link_type = u16(body, 0);
  each_option(body.subspan(kFixed), [&](std::uint16_t code, ConstBytes value) {
    if (code == kInterfaceResolution && !value.empty()) made.ticks_per_second = ticks_of(value[0]);
  });
}

std::optional<Packet> BlockReader::take_packet(ConstBytes body) {
  constexpr std::size_t kFixed = 20;
  if (body.size() < kFixed) return std::nullopt;
  const std::uint32_t number = u32(body, 0), kept = u32(body, 12);
  const std::size_t padded = (std::size_t{kept} + 3) / 4 * 4;
  if (number >= interfaces_.size() || interfaces_[number].link_type != kEthernet) return std::nullopt;
  if (padded > body.size() - kFixed) return std::nullopt;
  Packet out;
  const std::uint64_t ticks = std::uint64_t{u32(body, 4)} << 32 | u32(body, 8);
  out.time_ns = in_nanoseconds(ticks, interfaces_[number].ticks_per_second);
  out.bytes = body.subspan(kFixed, kept);
  out.original_size = std::max(u32(body, 16), kept);
  each_option(body.subspan(kFixed + padded), [&](std::uint16_t code, ConstBytes value) {
    if (code == kComment && out.comment.empty())
      out.comment.assign(reinterpret_cast<const char*>(value.data()), value.size());
  });
  return out;
}

std::optional<Packet> BlockReader::next() {
  std::uint32_t type = 0;
  ConstBytes body;
  while (fault_.empty() && find_block(type, body)) {
    if (type == kInterfaceDescription) take_interface(body);
    if (type != kEnhancedPacket) continue;
    if (auto packet = take_packet(body)) return packet;
  }
  return std::nullopt;
}

}  // namespace nfsrdma::trace
