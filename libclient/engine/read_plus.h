// Whether READ_PLUS is used, as a user chooses it (`read_plus=`).
//
// Thread-safety: plain values.
#pragma once

namespace nfsrdma {

/// Whether files are read with READ_PLUS (RFC 7862 15.10), so that holes are not sent (`read_plus=`).
enum class ReadPlus : unsigned char {
  automatic,  ///< for files that take much less space than their size, if the server reports holes
  yes,        ///< for every file, if the server supports it
  no,
};

}  // namespace nfsrdma
