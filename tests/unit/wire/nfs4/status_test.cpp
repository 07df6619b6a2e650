// Statuses in words and as errno, and the table of operations.
#include "wire/nfs4/status.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "wire/nfs4/ops.h"

using namespace nfsrdma;
using namespace nfsrdma::nfs4;

TEST_CASE("nfs4 status: every code of 4.0 to 4.2 and the extended attributes has a row") {
  std::size_t rows = 0;
  for (std::uint32_t code = 0; code < 11000; ++code) {
    const StatusRow* row = find_status(static_cast<nfsstat4>(code));
    if (row == nullptr) continue;
    ++rows;
    CHECK(row->status == code);
    CHECK(std::string_view(row->name).starts_with("NFS4"));
    CHECK((code == 0) == (row->errno_value == 0));
    const std::string_view text = row->explanation;
    CHECK(text.size() >= 7);
    CHECK(text.back() != '.');
  }
  // 20 that are errno values, 10001 to 10096 without 10002 and 10073.
  CHECK(rows == 20 - 1 + 94);
}

TEST_CASE("S23 nfs4 status: each says how the request may be made again, and an unknown number is final") {
  for (const nfsstat4 one : {NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_BACK_CHAN_BUSY})
    CHECK(retry_of(one) == Retry::later);
  for (const nfsstat4 one : {NFS4ERR_IO, NFS4ERR_SERVERFAULT, NFS4ERR_RESOURCE})
    CHECK(retry_of(one) == Retry::some_times);
  for (const nfsstat4 one :
       {NFS4ERR_BAD_STATEID, NFS4ERR_STALE_STATEID, NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED})
    CHECK(retry_of(one) == Retry::with_new_state);
  for (const nfsstat4 one : {NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_STALE_CLIENTID})
    CHECK(retry_of(one) == Retry::with_new_session);
  CHECK(retry_of(NFS4_OK) == Retry::none);
  CHECK(retry_of(NFS4ERR_STALE) == Retry::never);
  CHECK(retry_of(NFS4ERR_MOVED) == Retry::elsewhere);
  CHECK(retry_of(NFS4ERR_NO_GRACE) == Retry::otherwise);
  CHECK(retry_of(static_cast<nfsstat4>(19)) == Retry::never);
  CHECK(retry_of(status_error(NFS4ERR_IO, "OPEN", "f")) == Retry::some_times);
  CHECK(retry_of(Error(ErrorKind::timeout, ETIMEDOUT, "OPEN", "f", "no answer")) == Retry::none);
  CHECK(passes(Retry::later));
  CHECK(passes(Retry::some_times));
  CHECK_FALSE(passes(Retry::never));
  CHECK_FALSE(passes(Retry::with_new_session));
}

TEST_CASE("nfs4 status: errno") {
  CHECK(errno_of(NFS4_OK) == 0);
  CHECK(errno_of(NFS4ERR_NOENT) == ENOENT);
  CHECK(errno_of(NFS4ERR_NAMETOOLONG) == ENAMETOOLONG);
  CHECK(errno_of(NFS4ERR_NOTEMPTY) == ENOTEMPTY);
  CHECK(errno_of(NFS4ERR_DQUOT) == EDQUOT);
  CHECK(errno_of(NFS4ERR_STALE) == ESTALE);
  CHECK(errno_of(NFS4ERR_NOXATTR) == ENODATA);
  CHECK(errno_of(static_cast<nfsstat4>(19)) == EIO);
}

TEST_CASE("nfs4 status: the error tells what, where and the number") {
  const Error error = status_error(NFS4ERR_NOENT, "LOOKUP", "server:/a");
  CHECK(error.kind() == ErrorKind::server);
  CHECK(error.errno_value() == ENOENT);
  CHECK(error.status() == 2);
  CHECK(error.text() == "server:/a: LOOKUP: there is no such file or directory (NFS4ERR_NOENT)");
  CHECK(status_error(static_cast<nfsstat4>(19), "READ", "").text() ==
        "READ: the server answered with a status that NFSv4 does not have (an unknown status 19)");
}

TEST_CASE("nfs4 operations: the table") {
  CHECK(operation_name(OP_READ) == "READ");
  CHECK(operation_name(OP_REMOVEXATTR) == "REMOVEXATTR");
  CHECK(operation_name(OP_ILLEGAL) == "ILLEGAL");
  CHECK(operation_name(0) == "ILLEGAL");
  CHECK(find_operation(2) == nullptr);
  CHECK(find_operation(76) == nullptr);
  CHECK(find_operation(OP_SEQUENCE)->first_minor == 1);
  CHECK(find_operation(OP_CLONE)->first_minor == 2);
  CHECK(find_operation(OP_RENEW)->last_minor == 0);
  CHECK(find_operation(OP_REMOVE)->repeat == Repeat::modifies);
  CHECK(op::READ::idempotent);
  CHECK_FALSE(op::RENAME::idempotent);
}
