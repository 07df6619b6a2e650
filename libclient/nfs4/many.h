// Many small files in few COMPOUNDs (NFSv4.1 and 4.2): each has as many files in it as the session and the Call's
// inline threshold take, and several are in flight (RFC 8881 18.36.3; RFC 8267 4.3).
//
//     SEQUENCE  PUTFH directory  SAVEFH   LOOKUP a  READ  GETATTR   RESTOREFH  LOOKUP b  READ  GETATTR   …
//     SEQUENCE  PUTFH directory  SAVEFH   OPEN a  GETFH  WRITE  CLOSE  GETATTR   RESTOREFH  OPEN b  …
//
// Reading opens nothing: READ with the anonymous stateid asks for the caller's rights as OPEN does, and is refused
// where a lock or a share reservation is in the way (RFC 8881 8.2.3, 9.1.2). Writing opens for an owner of its own, so
// that no other open file of this client's shares its state, by UNCHECKED4, which leads to the same when it is
// executed twice; WRITE and CLOSE mean the state as "current" (16.2.3.1.2), and the data is FILE_SYNC4.
//
// READ n has Write chunk n. Not all servers can do several of them in one message: Linux (svc_rdma_result_payload, seen
// with 6.1) passes over the chunk of a READ that gives no bytes, so that what follows is placed one chunk too early; the
// counts then differ, and the decoder says so (RFC 8166 3.4.6). So the first such COMPOUND of a session goes alone, and
// where one comes to nothing its files, and all that are read later, have their data in the stream.
//
// Several WRITEs go in one COMPOUND only where the whole Call fits inline. Seen with Linux 6.1: it does not answer a Call
// with a Read chunk for each of them, nor its repetitions; and of a Call that it has fetched as a whole
// it writes the second file's data from the beginning of a page, wherever they begin (svc_fill_write_vector), and says that
// all is well. So a file that does not fit inline has a COMPOUND of its own, and its data the only Read chunk.
//
// A long Reply is not to be trusted. Linux 6.1 (nfsd4_encode_operation, nfsd4_encode_read) puts a status, or a READ's eof
// and count, in the wrong place where they come to lie across a page of the Reply: a status is then what was in memory,
// and of data in the stream the first four bytes are its length. So a refusal counts only where it is that of the COMPOUND,
// which ends there; what was read only where the size that GETATTR gives behind it agrees; and what is no longer than
// that count itself has to come in a chunk. All else is done by the ordinary operations.
//
// A COMPOUND ends with the first operation that fails. Its file gets the Error, or is done by the ordinary
// operations where those may do better; the files behind it are sent again.
//
// Where a restart may have cost the server data of one of this client's files, what was read or told is asked for again by
// the ordinary operations, since a COMPOUND that finds files by their names cannot know which file that is. So is written
// what was cut and written while something was written again, which may have come behind it.
//
// Exactly once. What a lost session leaves in doubt is executed again (Compound::repeatable()): a file is cut and
// written twice. A file whose OPEN was executed and whose CLOSE was not is closed beside.
//
// Confined to the loop's thread. The items must outlive the task, as in engine/many.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/many.h"
#include "nfs4/lease_holder.h"
#include "nfs4/open_files.h"

namespace nfsrdma::nfs4 {

class SmallFiles {
 public:
  SmallFiles(LeaseHolder& session, OpenFiles& files) : session_(session), files_(files) {}

  // Each gives the items that are to be done by the ordinary operations.
  async::Task<std::vector<engine::ManyRead*>> read(Caller caller, std::vector<engine::ManyRead*> items);
  async::Task<std::vector<engine::ManyWritten*>> write(Caller caller,
                                                       std::vector<engine::ManyWritten*> items);
  async::Task<std::vector<engine::ManyTold*>> tell(Caller caller, std::vector<engine::ManyTold*> items);

  /// What is known of a server's way with several Write chunks in one message.
  enum class Chunks : std::uint8_t { untried, good, bad };
  [[nodiscard]] Chunks chunks() const { return chunks_; }

 private:
  LeaseHolder& session_;
  OpenFiles& files_;
  Chunks chunks_ = Chunks::untried;
};

}  // namespace nfsrdma::nfs4
