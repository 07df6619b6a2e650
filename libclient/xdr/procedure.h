// A procedure of an RPC program: its numbers, its name, the types of its arguments and results.
//
//     struct GETATTR : xdr::Procedure<100003, 3, 1, GETATTR3args, GETATTR3res> {
//       static constexpr const char* name = "GETATTR";
//     };
//
// Code that makes calls takes such a type as a template argument. A program may define further members
// (wire/nfs3/procedures.h: whether the procedure may be repeated).
#pragma once

#include <cstdint>

#include "xdr/xdr.h"

namespace nfsrdma::xdr {

template <std::uint32_t Program, std::uint32_t Version, std::uint32_t Number, class ArgsType, class ResType>
struct Procedure {
  using Args = ArgsType;
  using Res = ResType;
  static constexpr std::uint32_t program = Program;
  static constexpr std::uint32_t version = Version;
  static constexpr std::uint32_t number = Number;
};

}  // namespace nfsrdma::xdr
