// Many small files in few COMPOUNDs (NFSv4.1 and 4.2). Each COMPOUND has as many files in it as the session
// and the Call's inline threshold allow, and several COMPOUNDs are in flight (RFC 8881 18.36.3; RFC 8267
// 4.3).
//
//     SEQUENCE  PUTFH directory  SAVEFH   LOOKUP a  READ  GETATTR   RESTOREFH  LOOKUP b  READ  GETATTR   …
//     SEQUENCE  PUTFH directory  SAVEFH   OPEN a  GETFH  WRITE  CLOSE  GETATTR   RESTOREFH  OPEN b  …
//
// Reading opens nothing: READ with the anonymous stateid requires the caller's rights as OPEN does, and is
// refused if a lock or a share reservation conflicts (RFC 8881 8.2.3, 9.1.2). Writing opens the files for an
// open owner of its own, so that no other open file of this client shares the state. It opens by UNCHECKED4,
// which leads to the same state when it is executed twice. WRITE and CLOSE name the state by the "current"
// stateid (16.2.3.1.2), and the data is FILE_SYNC4.
//
// READ n has Write chunk n. Some servers cannot fill several Write chunks in one message: Linux
// (svc_rdma_result_payload, seen with 6.1) does not advance to the next chunk after a READ that returns no
// bytes, so that the data that follows is placed one chunk too early. The counts then differ, and the decoder
// reports it (RFC 8166 3.4.6). Therefore the first such COMPOUND of a session is sent alone. If one fails in
// this way, its files, and all files that are read later, get their data in the stream.
//
// Several WRITEs go in one COMPOUND only if the whole Call fits inline. Linux 6.1 does not answer a Call with
// a Read chunk for each WRITE, nor its retransmissions. Of a Call that it fetches as a whole (position-zero
// chunk) it writes the second file's data from the beginning of a page, no matter where the data begins
// (svc_fill_write_vector), and reports success. Therefore a file that does not fit inline has a COMPOUND of
// its own, in which its data is the only Read chunk.
//
// A long Reply must not be trusted. Linux 6.1 (nfsd4_encode_operation, nfsd4_encode_read) puts a status, or a
// READ's eof and count, in the wrong place if it would lie across a page boundary of the Reply. The status is
// then what happened to be in memory, and the first four bytes of data in the stream are its length.
// Therefore a refusal counts only if it is also the status of the COMPOUND, which ends there. Data counts
// only if the size from the GETATTR behind it agrees, and data no longer than that count (four bytes) counts
// only if it came in a chunk. Every other file is done by the ordinary operations.
//
// A COMPOUND ends with the first operation that fails. The file of that operation gets the Error, or is done
// by the ordinary operations if those may succeed. The files behind it are sent again.
//
// If a restart of the server may have lost data of one of this client's files, the files of a COMPOUND that
// were read or asked about are done again by the ordinary operations, because a COMPOUND that finds files by
// their names cannot know whether that file is among them. Files that were truncated and written while this
// client was rewriting lost data of any file are also written again, because the rewrite may have been
// executed later.
//
// Exactly once. COMPOUNDs whose outcome is unknown after the loss of a session are executed again
// (Compound::repeatable()), so a file may be truncated and written twice. A file whose OPEN was executed and
// whose CLOSE was not is closed in the background.
//
// Confined to the loop's thread. The items must outlive the task, as in engine/many_files.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/many_files.h"
#include "nfs4/files/open_files.h"
#include "nfs4/state/client_lease.h"

namespace nfsrdma::nfs4 {

class SmallFiles {
 public:
  SmallFiles(ClientLease& session, OpenFiles& files) : session_(session), files_(files) {}

  // Each of these returns the items that are still to be done by the ordinary operations.
  async::Task<std::vector<engine::ManyRead*>> read(Caller caller, std::vector<engine::ManyRead*> items);
  async::Task<std::vector<engine::ManyWritten*>> write(Caller caller,
                                                       std::vector<engine::ManyWritten*> items);
  async::Task<std::vector<engine::ManyTold*>> tell(Caller caller, std::vector<engine::ManyTold*> items);

  /// Whether the server can fill several Write chunks in one message, as far as this client knows.
  enum class Chunks : std::uint8_t { untried, good, bad };
  [[nodiscard]] Chunks chunks() const { return chunks_; }

 private:
  ClientLease& session_;
  OpenFiles& files_;
  Chunks chunks_ = Chunks::untried;
};

}  // namespace nfsrdma::nfs4
