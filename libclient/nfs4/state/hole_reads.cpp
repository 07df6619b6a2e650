#include "nfs4/state/hole_reads.h"

#include <utility>

#include "wire/nfs4/status.h"

namespace nfsrdma::nfs4 {

bool HoleReads::wanted(const HoleHint& file) const {
  if (wish_ == ReadPlus::no || calls_.facts().minor_version < 2) return false;
  if (is_given_up()) return false;
  if (wish_ == ReadPlus::yes) return true;
  return found_ != Found::reports_none && file.pays();
}

void HoleReads::answered(HoleHint& file, const Answer& answer) {
  used_ = true;
  counters_.hole_bytes += answer.holes;
  file.answered(answer.holes != 0);
  if (answer.doubled) way_ = Way::stream;
  if (is_given_up()) return;  // the read was sent before READ_PLUS was given up
  if (answer.holes != 0) found_ = Found::reports_holes;
  if (found_ != Found::nothing) return;
  ++dense_;
  if (answer.has_zeros) ++with_zeros_;
  if (with_zeros_ == kMostZeros || dense_ == kMostDense) found_ = Found::reports_none;
}

bool HoleReads::is_to_be_read_otherwise(const Error& error, Way sent) {
  if (is_unsupported(error)) {
    give_up(Found::not_supported, "READ_PLUS is not supported, so holes are read as zeros");
    return true;
  }
  if (error.kind() != ErrorKind::protocol) return false;
  if (sent == Way::chunk) {
    way_ = Way::stream;
  } else {
    give_up(Found::wrong,
            "the server answers READ_PLUS incorrectly, so READ is used instead: " + error.message());
  }
  return true;
}

void HoleReads::give_up(Found why, const std::string& text) {
  // Several reads may be under way, and the user is to get one notice.
  if (std::exchange(found_, why) != why) calls_.notice(calls_.server() + ": " + text);
}

std::string HoleReads::text() const {
  const std::string way = way_ == Way::chunk ? "data by Write chunk" : "data in the reply";
  switch (found_) {
    case Found::nothing:
      return used_ ? "used, no hole was reported yet; " + way : "";
    case Found::reports_holes:
      return "reports holes; " + way;
    case Found::reports_none:
      return wish_ == ReadPlus::yes ? "reports no holes; " + way : "reports no holes; READ is used";
    case Found::not_supported:
      return "not supported; READ is used";
    case Found::wrong:
      return "incorrect answers; READ is used";
  }
  return "";
}

}  // namespace nfsrdma::nfs4
