// Decides which reads are made by READ_PLUS (RFC 7862 15.10), so that holes of a file are not sent as zeros.
// FileData::read_all (files/file_data.cpp) asks. This is what is known of the server; hole_hint.h has what is
// known of the file.
//
// READ_PLUS pays only for a file with holes, and only if the server reports them. No attribute says whether
// it does, but its answers show it. Until they have, READ_PLUS is tried for sparse files (hole_hint.h).
//
//   reports_holes   an answer had a hole in it: READ_PLUS stays in use
//   reports_none    kMostZeros answers had long runs of zeros as data, or kMostDense answers no hole at all:
//                   READ is used. Linux since 6.1 answers with data only.
//   not_supported   NFS4ERR_NOTSUPP or the like: READ is used, with a notice
//   wrong           answers contradict themselves, however their data was asked for (Way): READ is used,
//                   with a notice. Ganesha 4.3 gives no data, and now and then an end of the file.
//
// The first data of an answer may come by a Write chunk (RFC 8267 4.1.1). If a server gets this wrong, all
// data is requested in the stream from then on. The same is done if the Reply is longer by as much as there
// is data in the Write chunk: Linux 6.1 and 6.12 write the data there and count it in the length of the Reply
// chunk, too, where they write nothing in its place.
//
// read_plus=yes uses READ_PLUS for every file, unless it is not supported or wrong; read_plus=no never does.
//
// Confined to the loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "engine/read_plus.h"
#include "engine/statistics.h"
#include "nfs4/compound/call_layer.h"
#include "nfs4/state/hole_hint.h"

namespace nfsrdma::nfs4 {

class HoleReads {
 public:
  enum class Found : std::uint8_t { nothing, reports_holes, reports_none, not_supported, wrong };
  /// How an answer's data is asked for: the first element's by a Write chunk, or all in the stream.
  enum class Way : std::uint8_t { chunk, stream };

  HoleReads(CallLayer& calls, engine::ServerCounters& counters, ReadPlus wish)
      : calls_(calls), counters_(counters), wish_(wish) {}

  /// Whether the next read of the file is to be made by READ_PLUS.
  [[nodiscard]] bool wanted(const HoleHint& file) const;
  [[nodiscard]] Way way() const { return way_; }

  /// A usable answer, as far as it shows what the server does.
  struct Answer {
    std::uint64_t holes = 0;  ///< bytes that are in holes
    bool has_zeros = false;   ///< its data has a long run of zeros
    bool doubled = false;     ///< its data came by the Write chunk, and is counted in the Reply's length, too
  };
  void answered(HoleHint& file, const Answer& answer);
  /// Whether Answer::has_zeros matters, which it does while it is unknown whether the server reports holes.
  [[nodiscard]] bool is_open() const { return found_ == Found::nothing; }
  /// A READ_PLUS whose data was asked for by `sent` has ended with `error`. Returns true if the same bytes
  /// are to be read again: by READ, or by READ_PLUS with the data in the stream.
  [[nodiscard]] bool is_to_be_read_otherwise(const Error& error, Way sent);

  /// Whether an end of the file that a READ_PLUS gives without a byte is believed: only if the server reports
  /// holes. Ganesha 4.3 gives such an end for files that go on.
  [[nodiscard]] bool knows_ends() const { return found_ == Found::reports_holes; }
  /// Called when READ returned data behind the end that a READ_PLUS gave.
  void gave_a_wrong_end() {
    give_up(Found::wrong, "READ_PLUS reports a wrong end of the file, so READ is used");
  }

  [[nodiscard]] Found found() const { return found_; }
  /// Text for the user about what the server does with READ_PLUS; empty if READ_PLUS was not used.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] bool is_given_up() const { return found_ == Found::not_supported || found_ == Found::wrong; }
  /// Gives READ_PLUS up for good, with a notice to the user.
  void give_up(Found why, const std::string& text);

  static constexpr unsigned kMostZeros = 3;
  static constexpr unsigned kMostDense = 32;

  CallLayer& calls_;
  engine::ServerCounters& counters_;
  const ReadPlus wish_;
  Found found_ = Found::nothing;
  Way way_ = Way::chunk;
  bool used_ = false;
  unsigned with_zeros_ = 0, dense_ = 0;  // answers while `found_` is Found::nothing
};

}  // namespace nfsrdma::nfs4
