// The Call and the Reply of a READ for which no coroutine of the call loop runs, as long as nothing unusual happens.
//
// The Calls of a file's READs differ in a few words only. So a READ's Call is encoded once for each open file, copied,
// and these words are filled in. A Reply that says that all went well is recognised by its words.
//
// READs whose Calls are sealed (RPCSEC_GSS) are not made in this way.
//
// A ReadTemplate that is good does not change any more, and may then be read by every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpc/channel.h"
#include "wire/nfs4/types.h"

namespace nfsrdma::nfs4 {

class ClientLease;
class FileState;

/// The name of these calls, in messages and counters.
inline constexpr const char* kReadCall = "READ";

/// A READ's encoded Call, and the positions of the words to fill in.
struct ReadTemplate {
  enum class State : std::uint8_t { not_made, good, useless } state = State::not_made;
  std::vector<std::byte> call;
  std::size_t sequence_at = 0;                        // position of SEQUENCE's arguments
  std::size_t read_at = 0;                            // position of READ's arguments
  std::uint64_t reply_inline = 0, reply_reduced = 0;  // the largest Reply to a READ of 0 bytes

  /// Encodes the Call by the ordinary path, if that was not done before. Returns whether the file's READs can be made
  /// in this way.
  bool prepare(ClientLease& session, FileState& file) {
    if (state == State::not_made) make(session, file);
    return state == State::good;
  }
  /// Fills in the Call, whose message is empty. `max_response`: that of the session.
  void fill(rpcrdma::Call& call, const SEQUENCE4args& sequence, const stateid4& stateid, std::uint64_t offset,
            std::span<std::byte> data, std::uint32_t max_response) const;

 private:
  void make(ClientLease& session, FileState& file);
};

/// Returns how many bytes a READ of `asked` bytes has returned; none if anything is unusual: an error of any operation,
/// fewer bytes before the end of the file, or a Reply that cannot be decoded.
std::optional<std::size_t> usual_read_reply(const rpcrdma::Reply& reply, std::size_t asked,
                                            SEQUENCE4resok& sequence);

}  // namespace nfsrdma::nfs4
