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
// READ n has Write chunk n, WRITE n a Read chunk of its own. Not all servers can do several of them in one message.
// Linux (at least to 6.12, svc_rdma_result_payload) passes over the chunk of a READ that gives no bytes, so that
// what follows is placed one chunk too early; the counts then differ, and the decoder says so (RFC 8166 3.4.6). So the
// first such COMPOUND of a session goes alone, and where one comes to nothing its files, and all later ones, are
// read and written with their data in the stream.
//
// A COMPOUND ends with the first operation that fails. Its file gets the Error, or is done by the ordinary
// operations where those may do better; the files behind it are sent again.
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

class Many {
 public:
  Many(LeaseHolder& session, OpenFiles& files) : session_(session), files_(files) {}

  // Each gives the items that are to be done by the ordinary operations.
  async::Task<std::vector<engine::ManyRead*>> read(Caller caller, std::vector<engine::ManyRead*> items);
  async::Task<std::vector<engine::ManyWritten*>> write(Caller caller,
                                                       std::vector<engine::ManyWritten*> items);
  async::Task<std::vector<engine::ManyTold*>> tell(Caller caller, std::vector<engine::ManyTold*> items);

  /// What is known of a server's way with several chunks in one message.
  enum class Chunks : std::uint8_t { untried, good, bad };
  [[nodiscard]] Chunks write_chunks() const { return write_chunks_; }
  [[nodiscard]] Chunks read_chunks() const { return read_chunks_; }

 private:
  LeaseHolder& session_;
  OpenFiles& files_;
  Chunks write_chunks_ = Chunks::untried, read_chunks_ = Chunks::untried;
};

}  // namespace nfsrdma::nfs4
