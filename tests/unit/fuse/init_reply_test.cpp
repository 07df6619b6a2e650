#include "fuse/init_reply.h"

#include <doctest/doctest.h>
#include <linux/fuse.h>

#include <cstring>
#include <vector>

namespace nfsrdma::fuse {
namespace {

std::vector<std::byte> request(std::uint32_t opcode, std::uint64_t unique, std::uint32_t flags) {
  fuse_in_header header{};
  header.opcode = opcode;
  header.unique = unique;
  fuse_init_in init{};
  init.major = FUSE_KERNEL_VERSION;
  init.flags = flags;
  std::vector<std::byte> out(sizeof header + sizeof init);
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, &init, sizeof init);
  return out;
}

struct Reply {
  explicit Reply(std::uint64_t unique) {
    header.len = sizeof header + sizeof init;
    header.unique = unique;
    init.major = FUSE_KERNEL_VERSION;
    init.max_write = 12345;
  }
  fuse_out_header header{};
  fuse_init_out init{};
  iovec pieces[2] = {{&header, sizeof header}, {&init, sizeof init}};
};

fuse_init_out sent(std::span<const iovec> reply) {
  std::vector<std::byte> all;
  for (const iovec& piece : reply) {
    const auto* first = static_cast<const std::byte*>(piece.iov_base);
    all.insert(all.end(), first, first + piece.iov_len);
  }
  fuse_init_out out{};
  REQUIRE(all.size() == sizeof(fuse_out_header) + sizeof out);
  std::memcpy(&out, all.data() + sizeof(fuse_out_header), sizeof out);
  return out;
}

}  // namespace

TEST_CASE("F8 the kernel is told that lookups in one directory may be beside each other") {
  InitReply init;
  init.look(request(FUSE_INIT, 2, FUSE_PARALLEL_DIROPS));
  Reply reply(2);
  CHECK(sent(init.complete(reply.pieces)).flags == FUSE_PARALLEL_DIROPS);
}

TEST_CASE("F12 the kernel is told that set-id bits are the server's to clear") {
  InitReply init;
  init.look(request(FUSE_INIT, 2, FUSE_HANDLE_KILLPRIV | FUSE_ASYNC_READ));
  Reply other(1), reply(2), later(2);
  CHECK(sent(init.complete(other.pieces)).flags == 0);
  CHECK_FALSE(init.answered());
  reply.init.flags = FUSE_ASYNC_READ;
  const fuse_init_out out = sent(init.complete(reply.pieces));
  CHECK(out.flags == (FUSE_HANDLE_KILLPRIV | FUSE_ASYNC_READ));
  CHECK(out.max_write == 12345);
  CHECK(init.answered());
  CHECK(sent(init.complete(later.pieces)).flags == 0);
}

TEST_CASE("F12 the kernel is told that capabilities of a file are the server's to clear, too") {
  InitReply init;
  init.look(request(FUSE_INIT, 2, FUSE_HANDLE_KILLPRIV | FUSE_HANDLE_KILLPRIV_V2));
  Reply reply(2);
  CHECK(sent(init.complete(reply.pieces)).flags == (FUSE_HANDLE_KILLPRIV | FUSE_HANDLE_KILLPRIV_V2));
}

TEST_CASE("F12 a kernel that does not offer it, a refusal and what is cut short are left alone") {
  InitReply init;
  Reply reply(2);
  SUBCASE("not offered") {
    init.look(request(FUSE_INIT, 2, FUSE_ASYNC_READ));
  }
  SUBCASE("no FUSE_INIT") {
    init.look(request(FUSE_LOOKUP, 2, FUSE_HANDLE_KILLPRIV));
  }
  SUBCASE("cut short") {
    init.look(std::span<const std::byte>(request(FUSE_INIT, 2, FUSE_HANDLE_KILLPRIV)).first(50));
  }
  SUBCASE("refused") {
    init.look(request(FUSE_INIT, 2, FUSE_HANDLE_KILLPRIV));
    reply.header.error = -71;
  }
  CHECK(sent(init.complete(reply.pieces)).flags == 0);
  CHECK_FALSE(init.answered());
}

}  // namespace nfsrdma::fuse
