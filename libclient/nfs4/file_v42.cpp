// What NFSv4.2 can do with open files (RFC 7862 15): SEEK, READ_PLUS, ALLOCATE, DEALLOCATE, COPY, CLONE.
#include <algorithm>

#include "nfs4/file.h"
#include "nfs4/read_plus.h"
#include "nfs4/types/status.h"

namespace nfsrdma::nfs4 {
namespace {

/// One COPY occupies the server until it is done, and must be done before the call is given up.
constexpr std::uint64_t kMostCopied = 64U << 20;

}  // namespace

bool OpenFile::is_unsupported(const Error& error) {
  switch (error.status()) {
    case NFS4ERR_NOTSUPP:
    case NFS4ERR_OP_ILLEGAL:
    case NFS4ERR_UNION_NOTSUPP:
    case NFS4ERR_OFFLOAD_NO_REQS:
    case NFS4ERR_OFFLOAD_DENIED:
    case NFS4ERR_MINOR_VERS_MISMATCH:
      return true;
    default:
      return false;
  }
}

async::Task<Result<std::optional<std::uint64_t>>> OpenFile::seek(std::uint64_t offset, data_content4 what) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "SEEK", open_.path);
  std::optional<std::uint64_t> found;
  auto done = co_await on_file(
      "SEEK", [&](Compound& compound) { compound.add<op::SEEK>({open_.current(), offset, what}); },
      [&](CompoundReply& reply) {
        SEEK4res res;
        if (!reply.take<op::SEEK>(res)) {
          // RFC 7862 15.11.3: nothing of the kind behind the offset
          return reply.failed_status() == NFS4ERR_NXIO;
        }
        const auto& ok = *res.get<NFS4_OK>();
        if (!ok.sr_eof) found = ok.sr_offset;
        return true;
      });
  if (!done) co_return done.error();
  co_return found;
}

// ---- READ_PLUS (RFC 7862 15.10, RFC 8267 4.1.1) ----

async::Task<Status> OpenFile::read_plus_once(std::span<std::byte> data, std::uint64_t offset,
                                             std::size_t& count, bool& eof) {
  bool sound = true;
  auto done = co_await on_file(
      "READ_PLUS", [&](Compound& compound) { compound.read_plus(open_.current(), offset, data); },
      [&](CompoundReply& reply) {
        READ_PLUS4res res;
        if (!reply.take<op::READ_PLUS>(res) || !reply.finish()) return false;
        const read_plus_res4& ok = *res.get<NFS4_OK>();
        eof = ok.rpr_eof;
        sound = put_together(ok, data, offset, count);
        return true;
      });
  if (!done) co_return done;
  if (!sound || (count == 0 && !eof)) {
    co_return Error(ErrorKind::protocol, EIO, "READ_PLUS", open_.path,
                    "the server's data and holes do not follow each other; please report this");
  }
  co_return Status();
}

async::Task<Result<std::size_t>> OpenFile::read_plus(std::span<std::byte> data, std::uint64_t offset) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "READ_PLUS", open_.path);
  std::size_t total = 0;
  bool eof = false;
  while (total < data.size() && !eof) {
    std::size_t count = 0;
    auto done = co_await read_plus_once(data.subspan(total), offset + total, count, eof);
    if (!done) co_return done.error();
    total += count;
  }
  co_return total;
}

// ---- space ----

async::Task<Status> OpenFile::allocate(std::uint64_t offset, std::uint64_t length) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "ALLOCATE", open_.path);
  co_return co_await on_file(
      "ALLOCATE", [&](Compound& compound) { compound.add<op::ALLOCATE>({open_.current(), offset, length}); },
      [](CompoundReply& reply) { return reply.take<op::ALLOCATE>(); });
}

async::Task<Status> OpenFile::deallocate(std::uint64_t offset, std::uint64_t length) {
  if (session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "DEALLOCATE", open_.path);
  auto done = co_await on_file(
      "DEALLOCATE",
      [&](Compound& compound) { compound.add<op::DEALLOCATE>({open_.current(), offset, length}); },
      [](CompoundReply& reply) { return reply.take<op::DEALLOCATE>(); });
  // What was there must not be written again.
  if (done) replaced(offset, length);
  co_return done;
}

// ---- from file to file ----

/// One operation with the source in the saved and the target in the current filehandle.
template <class Op, class Make>
async::Task<Status> OpenFile::between(OpenFile& from, OpenFile& to, const char* what, Make make,
                                      typename Op::Res& res) {
  Session& session = to.session_;
  const async::TimePoint deadline = session.default_deadline();
  for (int tries = 0;; ++tries) {
    for (const OpenFile* file : {&from, &to}) {
      if (!file->is_open_) {
        co_return Error(ErrorKind::usage, EBADF, what, file->open_.path, "the file has been closed");
      }
      if (const Error* error = file->open_.unusable()) co_return *error;
    }
    const stateid4 used_from = from.open_.stateid;
    const stateid4 used_to = to.open_.stateid;
    Compound compound = session.begin(what, to.open_.caller);
    compound.add<op::PUTFH>({from.open_.file});
    compound.add<op::SAVEFH>();
    compound.add<op::PUTFH>({to.open_.file});
    compound.add<Op>(make());
    auto reply = co_await session.call(std::move(compound), deadline);
    if (!reply) co_return reply.error();
    if (reply->template take<op::PUTFH>() && reply->template take<op::SAVEFH>() &&
        reply->template take<op::PUTFH>() && reply->template take<Op>(res)) {
      co_return Status();
    }
    const nfsstat4 status = reply->failed_status();
    if (!Session::is_lost_state(status) || tries == 3) {
      co_return session.error_of(*reply, what, to.open_.path);
    }
    // The server does not say which of the two it was.
    auto first = co_await session.reopen(from.state_, used_from, status, deadline);
    if (!first) co_return first;
    if (&from == &to) continue;
    auto second = co_await session.reopen(to.state_, used_to, status, deadline);
    if (!second) co_return second;
  }
}

async::Task<Result<std::uint64_t>> OpenFile::copy(OpenFile& from, std::uint64_t from_offset, OpenFile& to,
                                                  std::uint64_t to_offset, std::uint64_t count) {
  if (to.session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "COPY", to.path());
  if (count == 0) co_return std::uint64_t{0};  // to the server it would mean all of the rest
  count = std::min(count, kMostCopied);
  COPY4res res;
  const auto arguments = [&] {
    COPY4args args;
    args.ca_src_stateid = from.open_.current();
    args.ca_dst_stateid = to.open_.current();
    args.ca_src_offset = from_offset;
    args.ca_dst_offset = to_offset;
    args.ca_count = count;
    args.ca_consecutive = true;
    args.ca_synchronous = true;
    return args;
  };
  for (int tries = 0; tries < 3; ++tries) {
    auto done = co_await between<op::COPY>(from, to, "COPY", arguments, res);
    if (!done) co_return done.error();
    const write_response4& written = res.get<NFS4_OK>()->cr_response;
    // A copy that goes on beside, which was not asked for.
    if (!written.wr_callback_id.value.empty()) {
      co_return status_error(NFS4ERR_OFFLOAD_NO_REQS, "COPY", to.path());
    }
    if (written.wr_count > count) {
      co_return Error(ErrorKind::protocol, EIO, "COPY", to.path(),
                      "the server says it copied more than it was asked to; please report this");
    }
    to.replaced(to_offset, written.wr_count);
    if (written.wr_committed != UNSTABLE4 || written.wr_count == 0) co_return written.wr_count;
    verifier4 verifier{};
    auto stable = co_await to.commit_state(verifier, nullptr);
    if (!stable) co_return stable.error();
    if (verifier == written.wr_writeverf) co_return written.wr_count;
    // The server restarted between the two, or somebody's write failed (Linux then changes its verifier,
    // too): what it copied may be gone.
  }
  // What the caller writes himself is written again as often as it takes.
  co_return status_error(NFS4ERR_OFFLOAD_NO_REQS, "COPY", to.path());
}

async::Task<Status> OpenFile::clone(OpenFile& from, std::uint64_t from_offset, OpenFile& to,
                                    std::uint64_t to_offset, std::uint64_t count) {
  if (to.session_.facts().minor_version < 2) co_return status_error(NFS4ERR_NOTSUPP, "CLONE", to.path());
  CLONE4res res;
  auto done = co_await between<op::CLONE>(
      from, to, "CLONE",
      [&] { return CLONE4args{from.open_.current(), to.open_.current(), from_offset, to_offset, count}; },
      res);
  if (done) to.replaced(to_offset, count == 0 ? ~std::uint64_t{0} - to_offset : count);
  co_return done;
}

}  // namespace nfsrdma::nfs4
