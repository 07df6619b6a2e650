#include "nfs3/nfs3_file.h"

#include <algorithm>
#include <cerrno>

#include "wire/nfs3/status.h"
#include "writing/question.h"

namespace nfsrdma::nfs3 {

File::File(FileContext context, Caller caller, const FileHandle& handle, std::string label)
    : context_(context),
      caller_(std::move(caller)),
      handle_(handle),
      label_(std::move(label)),
      unstable_(context.dialect.calls().loop(), *this) {}

engine::Modifications::Scope File::changing() const {
  return {context_.modifications, {.any = false, .handle = engine::hash_of(handle_)}};
}

async::Task<Result<std::size_t>> File::read(std::span<std::byte> data, std::uint64_t offset) {
  std::size_t total = 0;
  writing::Question question(record());
  while (total < data.size()) {
    if (!question.begin()) {
      if (auto done = co_await question.settle(); !done) co_return done.error();
    }
    const auto rest =
        data.subspan(total, std::min<std::size_t>(data.size() - total, context_.limits.most_read));
    READ3args args;
    args.file = to_wire(handle_);
    args.offset = offset + total;
    args.count = static_cast<count3>(rest.size());
    auto answer = co_await context_.dialect.ask<proc::READ>(caller_, args, rest);
    if (!answer) co_return answer.error();
    const READ3resok* ok = answer->res.get<NFS3_OK>();
    if (ok == nullptr) co_return status_error(answer->res.tag(), "READ", label_);
    if (ok->count != ok->data.data.size()) {
      co_return Error(ErrorKind::protocol, EPROTO, "READ", label_,
                      "the server says it read " + std::to_string(ok->count) + " bytes, but sent " +
                          std::to_string(ok->data.data.size()) + "; please report this");
    }
    if (ok->eof ? question.again(args.offset + ok->count) : question.again()) continue;
    total += ok->count;
    if (ok->eof) break;
    if (ok->count == 0) {
      co_return Error(ErrorKind::protocol, EIO, "READ", label_,
                      "the server returned neither data nor the end of the file; please report this");
    }
  }
  co_return total;
}

async::Task<Result<std::size_t>> File::write(std::span<const std::byte> data, async::Memory memory,
                                             std::uint64_t offset, writing::How how, After* after) {
  const std::uint64_t largest = context_.limits.largest_file;
  if (offset > largest || data.size() > largest - offset) {
    // The part that fits is written, and after that nothing, as in write(2).
    if (offset >= largest) co_return status_error(NFS3ERR_FBIG, "WRITE", label_);
    data = data.first(static_cast<std::size_t>(largest - offset));
  }
  co_return co_await unstable_.write(data, offset, how, after, std::move(memory));
}

async::Task<Result<writing::Writer::Written>> File::write_piece(const Piece& piece, writing::How how,
                                                                After* after) {
  WRITE3args args;
  args.file = to_wire(handle_);
  args.offset = piece.offset;
  args.count = static_cast<count3>(piece.data.size());
  args.stable = static_cast<stable_how>(how);
  args.data.data = piece.data;
  const auto scope = changing();
  auto answer = co_await context_.dialect.ask<proc::WRITE>(caller_, args);
  if (!answer) co_return answer.error();
  const WRITE3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "WRITE", label_);
  Written out;
  out.count = ok->count;
  out.stable = ok->committed != UNSTABLE;
  out.verifier = ok->verf;
  if (after != nullptr) *after = to_public(ok->file_wcc.after);
  co_return out;
}

async::Task<Result<writing::Verifier>> File::commit_file(After* after) {
  COMMIT3args args;
  args.file = to_wire(handle_);
  auto answer = co_await context_.dialect.ask<proc::COMMIT>(caller_, args);
  if (!answer) co_return answer.error();
  const COMMIT3resok* ok = answer->res.get<NFS3_OK>();
  if (ok == nullptr) co_return status_error(answer->res.tag(), "COMMIT", label_);
  if (after != nullptr) *after = to_public(ok->file_wcc.after);
  co_return ok->verf;
}

}  // namespace nfsrdma::nfs3
