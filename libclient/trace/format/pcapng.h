// pcapng, as far as a trace needs it: blocks with packets and comments, written and read
// (draft-ietf-opsawg-pcapng).
//
//   Section Header Block       0A0D0D0A  length  1A2B3C4D  version 1.0  -1  options  length
//   Interface Description      1         length  link type  0  snap length  options  length
//   Enhanced Packet Block      6         length  interface  time (2 x 32)  kept  original  bytes  options  length
//
// Writing: append_…() add a block to a vector of bytes, in little-endian order, which every reader takes.
//
// Reading: BlockReader takes bytes as they come, from any program in either byte order, and gives the packets
// of Ethernet interfaces. Lengths are checked against kLargestBlock before anything is stored. Bytes that are
// no pcapng end the reading with a fault; a block that is not complete yet is waited for. Blocks of other
// kinds are skipped.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::trace {

using ConstBytes = std::span<const std::byte>;
using Octets = std::vector<std::byte>;

inline constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;
inline constexpr std::uint32_t kInterfaceDescription = 1;
inline constexpr std::uint32_t kEnhancedPacket = 6;
inline constexpr std::uint32_t kByteOrderMagic = 0x1A2B3C4D;
inline constexpr std::uint16_t kEthernet = 1;
/// Wireshark refuses packets of more than 262,144 bytes. A block has such a packet and options.
inline constexpr std::size_t kLargestPacket = 262144;
inline constexpr std::size_t kLargestBlock = 2 * kLargestPacket;

struct Packet {
  std::uint64_t time_ns = 0;        ///< since 1970
  ConstBytes bytes;                 ///< those that are kept
  std::uint32_t original_size = 0;  ///< at least bytes.size()
  std::string comment;              ///< empty: none
};

void append_section(Octets& to, std::string_view program);
/// Times of the interface's packets are in nanoseconds.
void append_interface(Octets& to, std::string_view name, std::string_view description);
/// For the first interface of the section.
void append_packet(Octets& to, const Packet& packet);

/// Returns whether a file that begins so may be a pcapng file. `bytes` may be its first four.
[[nodiscard]] bool begins_as_pcapng(ConstBytes bytes);

class BlockReader {
 public:
  /// Adds bytes of the file behind those that were added before.
  void add(ConstBytes bytes);
  /// Called before the bytes of another file: an incomplete block is dropped, and a fault forgotten.
  void begin_file();
  /// Returns the next packet; nothing if more bytes are needed, or at a fault. Its bytes are valid until the
  /// next call of add() or next().
  [[nodiscard]] std::optional<Packet> next();
  /// Why the bytes cannot be read any further; empty if they can.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// The number of bytes that belong to a block that is not complete.
  [[nodiscard]] std::size_t pending() const { return buffer_.size() - begin_; }
  /// The number of bytes in complete blocks.
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  struct Interface {
    std::uint16_t link_type = 0;
    std::uint64_t ticks_per_second = 1'000'000;
  };
  [[nodiscard]] std::uint16_t u16(ConstBytes from, std::size_t at) const;
  [[nodiscard]] std::uint32_t u32(ConstBytes from, std::size_t at) const;
  bool fail(const char* why);
  [[nodiscard]] bool find_block(std::uint32_t& type, ConstBytes& body);
  [[nodiscard]] bool begin_section();
  void take_interface(ConstBytes body);
  [[nodiscard]] std::optional<Packet> take_packet(ConstBytes body);
  template <class Visit>
  void each_option(ConstBytes options, Visit visit) const;

  Octets buffer_;
  std::size_t begin_ = 0;  // of the block that is read next
  std::uint64_t position_ = 0;
  bool swapped_ = false;  // the section is in big-endian order
  bool in_section_ = false;
  std::vector<Interface> interfaces_;
  std::string fault_;
};

}  // namespace nfsrdma::trace
