// An open file (RFC 8881 18.16): its state on the server and its data, each in a part of its own.
//
// OpenFiles (open_files.h) makes open files, and shares each between all descriptors that have the file open
// on behalf of one caller. Confined to the loop's thread. Must not be destroyed while one of its tasks runs,
// except for a COMMIT in the background.
#pragma once

#include "nfs4/files/file_data.h"
#include "nfs4/state/file_state.h"

namespace nfsrdma::nfs4 {

class OpenFile final : public FileState, public FileData {
 public:
  OpenFile(ClientLease& session, const Whose& whose, const stateid4& stateid)
      : FileState(session, whose, stateid), FileData(static_cast<FileState&>(*this)) {}
  using FileState::path;
};

}  // namespace nfsrdma::nfs4
