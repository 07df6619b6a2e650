#include "nfs4/types/readdir.h"

namespace nfsrdma::nfs4 {

bool ReaddirReader::begin() {
  if (!xdr::decode(in_, status_)) return false;
  more_ = status_ == NFS4_OK;
  return !more_ || xdr::decode(in_, cookieverf_);
}

bool ReaddirReader::next(DirEntry& entry) {
  if (!more_) return false;
  if (!xdr::decode(in_, more_)) {
    more_ = false;
    return false;
  }
  if (!more_) {
    xdr::decode(in_, eof_);
    return false;
  }
  xdr::ConstBytes name;
  more_ =
      in_.u64(entry.cookie) && in_.opaque(kComponentMax, name) && decode_attributes(in_, entry.attributes);
  entry.name = {reinterpret_cast<const char*>(name.data()), name.size()};
  return more_;
}

}  // namespace nfsrdma::nfs4
