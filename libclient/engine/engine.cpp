#include "engine/engine.h"

#include <cerrno>
#include <utility>

#include "engine/lock_manager.h"
#include "engine/roots.h"

namespace nfsrdma::engine {

ServerFile::~ServerFile() = default;
async::Task<Result<std::size_t>> ServerFile::read_with_holes(std::span<std::byte> data, std::uint64_t offset,
                                                             ReportedHoles& /*holes*/) {
  return read(data, offset);
}
async::Task<Result<WrittenWithTimes>> ServerFile::write_and_set_times(std::span<const std::byte> data,
                                                                      async::Memory memory,
                                                                      std::uint64_t offset,
                                                                      SetAttributes /*changes*/,
                                                                      std::optional<Attributes>* after) {
  auto count = co_await write(data, std::move(memory), offset, Stability::on_disk, after);
  if (!count) co_return count.error();
  co_return WrittenWithTimes{*count};
}
Engine::~Engine() = default;
Promises& Engine::promises() {
  static Promises none;
  return none;
}
Roots::~Roots() = default;
LockManager::~LockManager() = default;

namespace {

Error no_acls() {
  return {ErrorKind::server, EOPNOTSUPP, "acl", "",
          "this version of NFS has no access control lists; mount with vers=4.2 or vers=3"};
}

}  // namespace

async::Task<Result<Opened>> Engine::open_and_read(Caller caller, FileHandle file, std::string label,
                                                  std::optional<Place> found_at,
                                                  std::span<std::byte> /*into*/) {
  return open(std::move(caller), file, std::move(label), Access::read, std::move(found_at));
}
async::Task<Result<bool>> Engine::has_acls(Caller /*caller*/, FileHandle /*object*/) {
  co_return false;
}
async::Task<Result<Acl>> Engine::get_acl(Caller /*caller*/, FileHandle /*object*/) {
  co_return no_acls();
}
async::Task<Status> Engine::set_acl(Caller /*caller*/, FileHandle /*object*/, Acl /*acl*/) {
  co_return no_acls();
}

}  // namespace nfsrdma::engine
