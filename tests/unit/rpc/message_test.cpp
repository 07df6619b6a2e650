// RPC headers (RFC 5531): golden bytes of Calls and credentials, every verdict of a Reply, every truncation.
#include "rpc/message.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <numeric>
#include <string>

namespace nfsrdma::rpc {
namespace {

std::string hex(xdr::ConstBytes bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 4 == 0) out += ' ';
    out += "0123456789abcdef"[std::to_integer<unsigned>(bytes[i]) >> 4U];
    out += "0123456789abcdef"[std::to_integer<unsigned>(bytes[i]) & 15U];
  }
  return out;
}

std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
  std::vector<std::byte> out;
  for (const std::uint32_t value : values) {
    out.resize(out.size() + 4);
    xdr::store_u32(&out[out.size() - 4], value);
  }
  return out;
}

ReplyHeader read(const std::vector<std::byte>& bytes, std::size_t* left = nullptr) {
  xdr::Decoder in(bytes);
  const ReplyHeader header = read_reply(in);
  if (left != nullptr) *left = in.remaining();
  return header;
}

}  // namespace

TEST_CASE("rpc message: a Call with AUTH_SYS, byte for byte") {
  const std::array<std::uint32_t, 2> groups{0x64, 0x65};
  const auto credential = Credential::sys("host1", 1000, 1001, groups);
  xdr::Message message;
  begin_call(message, 100003, 4, 1, credential);
  CHECK(hex(message.stream.bytes()) ==
        "00000000 00000000 00000002 000186a3 00000004 00000001 "  // xid, CALL, RPC 2, NFS, 4, COMPOUND
        "00000001 00000024 "                                      // AUTH_SYS, 36 bytes
        "00000000 00000005 686f7374 31000000 000003e8 000003e9 00000002 00000064 00000065 "
        "00000000 00000000");  // AUTH_NONE verifier
  CHECK(message.items.empty());
}

TEST_CASE("rpc message: AUTH_NONE") {
  CHECK(hex(Credential::none().encoded()) == "00000000 00000000 00000000 00000000");
}

TEST_CASE("rpc message: AUTH_SYS takes sixteen groups and 255 bytes of a name") {
  std::vector<std::uint32_t> groups(40);
  std::iota(groups.begin(), groups.end(), 1);
  const auto credential = Credential::sys(std::string(300, 'h'), 1, 2, groups);
  const auto encoded = credential.encoded();
  // flavor, length; stamp, name, uid, gid, count, groups; verifier
  const std::size_t body = 4 + 4 + 256 + 4 + 4 + 4 + 16 * 4;
  REQUIRE(encoded.size() == 8 + body + 8);
  CHECK(xdr::load_u32(&encoded[4]) == body);
  CHECK(body <= 400);  // RFC 5531 8.2
  CHECK(xdr::load_u32(&encoded[12]) == 255);
  CHECK(xdr::load_u32(&encoded[8 + 4 + 4 + 256 + 8]) == 16);
  CHECK(xdr::load_u32(&encoded[8 + body - 4]) == 16);
  CHECK(Credential::sys("", 1, 2, {}).encoded().size() == 8 + 20 + 8);
}

TEST_CASE("rpc message: every verdict of a Reply") {
  std::size_t left = 0;
  CHECK(read(words({9, 1, 0, 0, 0, 0, 77}), &left).refusal == Refusal::none);
  CHECK(left == 4);
  CHECK(read(words({9, 1, 0, 0, 4, 0xabcd, 0}), &left).refusal == Refusal::none);  // a verifier with a body
  CHECK(left == 0);
  CHECK(read(words({9, 1, 0, 0, 0, 1})).refusal == Refusal::program);
  const auto mismatch = read(words({9, 1, 0, 0, 0, 2, 2, 3}));
  CHECK(mismatch.refusal == Refusal::version);
  CHECK(mismatch.detail == 2);
  CHECK(mismatch.highest == 3);
  CHECK(read(words({9, 1, 0, 0, 0, 3})).refusal == Refusal::procedure);
  CHECK(read(words({9, 1, 0, 0, 0, 4})).refusal == Refusal::garbage_args);
  CHECK(read(words({9, 1, 0, 0, 0, 5})).refusal == Refusal::system);
  CHECK(read(words({9, 1, 0, 0, 0, 6})).refusal == Refusal::undecodable);
  const auto rpc = read(words({9, 1, 1, 0, 3, 4}));
  CHECK(rpc.refusal == Refusal::rpc_version);
  CHECK(rpc.detail == 3);
  CHECK(rpc.highest == 4);
  const auto auth = read(words({9, 1, 1, 1, 5}));
  CHECK(auth.refusal == Refusal::authentication);
  CHECK(auth.detail == 5);
  CHECK(read(words({9, 1, 1, 2, 5})).refusal == Refusal::undecodable);
  CHECK(read(words({9, 1, 2, 0, 0, 0})).refusal == Refusal::undecodable);
  CHECK(read(words({9, 0, 0, 0, 0, 0})).refusal == Refusal::undecodable);  // a Call
  CHECK(read(words({9, 1, 0, 0, 401, 0})).refusal == Refusal::undecodable);
}

TEST_CASE("rpc message: every truncation of every Reply is undecodable") {
  for (const auto& whole : {words({9, 1, 0, 0, 4, 0xabcd, 0}), words({9, 1, 0, 0, 0, 2, 2, 3}),
                            words({9, 1, 1, 0, 3, 4}), words({9, 1, 1, 1, 5})}) {
    REQUIRE(read(whole).refusal != Refusal::undecodable);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      CHECK(read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}).refusal ==
            Refusal::undecodable);
    }
  }
}

TEST_CASE("T34 rpc message: a Reply's verifier may be as large as its credential allows") {
  CHECK(rpc::Credential::none().largest_reply_header() == 24);
  CHECK(rpc::Credential::sys("here", 1, 2, {}).largest_reply_header() == 24 + 400);
  // Such a Reply is understood.
  xdr::Message message;
  xdr::Encoder out(message);
  for (const std::uint32_t word : {1U, 1U, 0U, 2U}) out.u32(word);  // xid, REPLY, MSG_ACCEPTED, AUTH_SHORT
  const std::vector<std::byte> name(400, std::byte{5});
  out.opaque(name);
  out.u32(0);
  CHECK(message.stream.size() == 24 + 400);
  xdr::Decoder in(message.stream.bytes());
  CHECK(rpc::read_reply(in).refusal == rpc::Refusal::none);
  CHECK(in.remaining() == 0);
}

TEST_CASE("rpc message: the Reply to a sealed Call may have the padded verifier in its header") {
  CHECK(Credential::to_be_sealed(0).largest_reply_header() == 24);
  CHECK(Credential::to_be_sealed(37).largest_reply_header() == 24 + 40);
}

TEST_CASE("rpc message: every refusal has an Error that names operation, peer and next step") {
  const std::vector<std::pair<Refusal, int>> expected{
      {Refusal::undecodable, EPROTO},      {Refusal::program, EPROTONOSUPPORT},
      {Refusal::version, EPROTONOSUPPORT}, {Refusal::procedure, EOPNOTSUPP},
      {Refusal::garbage_args, EIO},        {Refusal::system, EIO},
      {Refusal::rpc_version, EPROTO},      {Refusal::authentication, EACCES}};
  for (const auto& [refusal, number] : expected) {
    const Error error = refusal_error({refusal, 2, 3}, {"NFS", 4}, "OPEN", "server");
    CAPTURE(error.text());
    CHECK(error.errno_value() == number);
    CHECK(error.text().starts_with("server: OPEN: "));
    CHECK(error.message().size() > 20);
    CHECK(error.kind() == (refusal == Refusal::undecodable ? ErrorKind::protocol : ErrorKind::server));
  }
  CHECK(refusal_error({Refusal::version, 2, 3}, {"NFS", 4}, "", "").message().find("2 to 3") !=
        std::string::npos);
}

TEST_CASE("rpc message: an Error has the server's own number for what it refused") {
  CHECK(refusal_error({Refusal::garbage_args, 0, 0}, {"NFS", 3}, "FSINFO", "server").status() ==
        kGarbageArgs);
  CHECK(refusal_error({Refusal::authentication, 13, 0}, {"NFS", 3}, "FSINFO", "server").status() == 13);
}

// ---- the side that answers ----

TEST_CASE("rpc message: a Call is read as it was written") {
  const std::array<std::uint32_t, 1> groups{7};
  xdr::Message message;
  begin_call(message, 0x40000000, 1, 1, Credential::sys("h", 2, 3, groups));
  xdr::store_u32(message.stream.data(), 0xabcd);
  xdr::Encoder(message).u32(99);
  xdr::Decoder in(message.stream.bytes());
  const CallHeader call = read_call(in);
  CHECK(call.verdict.refusal == Refusal::none);
  CHECK(call.xid == 0xabcd);
  CHECK(call.program == 0x40000000);
  CHECK(call.version == 1);
  CHECK(call.procedure == 1);
  CHECK(call.flavor == 1);
  CHECK(call.credential.size() == 28);
  CHECK(in.remaining() == 4);
}

TEST_CASE("rpc message: what is no Call is not answered; what is one without a credential is refused") {
  xdr::Message message;
  begin_call(message, 1, 2, 3, Credential::none());
  const xdr::ConstBytes whole = message.stream.bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    xdr::Decoder in(whole.first(length));
    const CallHeader call = read_call(in);
    CHECK_FALSE(in.ok());
    if (length < 24) {
      CHECK(call.verdict.refusal == Refusal::undecodable);
    } else {
      CHECK(call.verdict.refusal == Refusal::authentication);
      CHECK(call.verdict.detail == (length < 32 ? kAuthBadCred : kAuthBadVerf));
    }
  }
  const auto reply = words({1, 1, 0, 0, 0, 0});
  xdr::Decoder in(reply);
  CHECK(read_call(in).verdict.refusal == Refusal::undecodable);
  const auto old = words({1, 0, 3});
  xdr::Decoder other(old);
  const CallHeader call = read_call(other);
  CHECK(call.verdict.refusal == Refusal::rpc_version);
  CHECK(call.verdict.detail == 2);
  CHECK(call.verdict.highest == 2);
  auto fat = words({1, 0, 2, 1, 2, 3, 0, 404});
  fat.resize(fat.size() + 404 + 8);
  xdr::Decoder too_long(fat);
  CHECK(read_call(too_long).verdict.detail == kAuthBadCred);
}

TEST_CASE("rpc message: every verdict of a Reply is read as it was written") {
  xdr::Message message;
  begin_reply(message, 5, {Refusal::none, 0, 0});
  CHECK(hex(message.stream.bytes()) == "00000005 00000001 00000000 00000000 00000000 00000000");
  CHECK(message.stream.size() == kReplyHeaderSize);
  message.clear();
  begin_reply(message, 5, {Refusal::version, 1, 4});
  CHECK(hex(message.stream.bytes()) ==
        "00000005 00000001 00000000 00000000 00000000 00000002 00000001 00000004");
  message.clear();
  begin_reply(message, 5, {Refusal::rpc_version, 2, 2});
  CHECK(hex(message.stream.bytes()) == "00000005 00000001 00000001 00000000 00000002 00000002");
  for (const Refusal refusal :
       {Refusal::none, Refusal::program, Refusal::version, Refusal::procedure, Refusal::garbage_args,
        Refusal::system, Refusal::rpc_version, Refusal::authentication}) {
    message.clear();
    begin_reply(message, 5, {refusal, 3, 4});
    xdr::Decoder in(message.stream.bytes());
    CHECK(read_reply(in).refusal == refusal);
    CHECK(in.finish());
  }
}

TEST_CASE("rpc message: what a refusal tells beside itself comes as it was written") {
  for (const Refusal refusal : {Refusal::version, Refusal::rpc_version, Refusal::authentication}) {
    xdr::Message message;
    begin_reply(message, 5, {refusal, 3, 4});
    xdr::Decoder in(message.stream.bytes());
    const ReplyHeader header = read_reply(in);
    CHECK(header.refusal == refusal);
    CHECK(header.detail == 3);
    CHECK(header.highest == (refusal == Refusal::authentication ? 0U : 4U));
  }
}

}  // namespace nfsrdma::rpc
