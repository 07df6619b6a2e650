// fattr4 of a node, and what a client sets of it.
#pragma once

#include "responder/coding.h"

namespace nfsrdma::bench {

inline constexpr std::uint32_t kMostData = 1U << 20;  // of one READ or WRITE
/// Free space, free files and the largest size of a file, as the responder states them.
inline constexpr std::uint64_t kPlenty = 1ULL << 40;

/// A bitmap4: what is set beyond these words is none of ours.
struct Wanted {
  std::uint32_t words[3] = {0, 0, 0};
  [[nodiscard]] bool has(std::uint32_t number) const {
    return number < 96 && ((words[number / 32] >> (number % 32)) & 1U) != 0;
  }
  void add(std::uint32_t number) { words[number / 32] |= 1U << (number % 32); }
};
Wanted read_bitmap(In& in);
void put_bitmap(xdr::Encoder& out, const Wanted& which);

/// Of those wanted, what is known here.
void put_attributes(xdr::Encoder& out, const Wanted& wanted, const Node& node);
/// Reads an fattr4 and does what it says; null: only reads it. False: it has something that cannot be read, or be set.
bool take_attributes(In& in, Node* node, Wanted& taken);

}  // namespace nfsrdma::bench
