// Messages of RPC-over-RDMA for tests of traces, and a recorder on a clock of the test's.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "support/loopback.h"
#include "trace/reading/decoder.h"
#include "trace/recording/recorder.h"
#include "wire/nfs4/ops.h"

namespace nfsrdma::testing::traced {

using trace::ConstBytes;
using trace::Event;
using trace::Octets;

inline ConstBytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A transport header, and the stream of an RPC message behind it. Data of WRITE is left out of the stream.
inline Octets message(const rpcrdma::rdma_msg& header, const xdr::Message& body) {
  xdr::Buffer head;
  rpcrdma::encode(header, head);
  Octets out(head.bytes().begin(), head.bytes().end());
  if (header.proc == rpcrdma::rdma_proc::RDMA_NOMSG) return out;
  out.insert(out.end(), body.stream.bytes().begin(), body.stream.bytes().end());
  return out;
}
inline rpcrdma::rdma_msg header(std::uint32_t xid, std::uint32_t credits = 32) {
  rpcrdma::rdma_msg out;
  out.rdma_xid = xid;
  out.rdma_credit = credits;
  return out;
}

/// A Call of COMPOUND: `add` appends the operations, `count` is their number.
template <class Add>
xdr::Message compound(std::uint32_t xid, std::uint32_t count, Add add) {
  xdr::Message out;
  rpc::begin_call(out, rpc::kNfsProgram, 4, 1, rpc::Credential::none());
  xdr::store_u32(out.stream.data(), xid);
  xdr::Encoder to(out);
  nfs4::COMPOUND4args_head head;
  head.minorversion = 2;
  head.argarray_count = count;
  xdr::encode(to, head);
  add(to);
  return out;
}
/// Its Reply.
template <class Add>
xdr::Message results(std::uint32_t xid, nfs4::nfsstat4 status, std::uint32_t count, Add add) {
  xdr::Message out;
  rpc::begin_reply(out, xid, {rpc::Refusal::none, 0, 0});
  xdr::Encoder to(out);
  nfs4::COMPOUND4res_head head;
  head.status = status;
  head.resarray_count = count;
  xdr::encode(to, head);
  add(to);
  return out;
}

inline xdr::Message read_call(std::uint32_t xid, std::uint64_t offset, std::uint32_t count) {
  return compound(xid, 2, [&](xdr::Encoder& to) {
    nfs4::PUTFH4args fh;
    fh.object.length = 4;
    nfs4::encode_op<nfs4::op::PUTFH>(to, fh);
    nfs4::READ4args read;
    read.offset = offset;
    read.count = count;
    nfs4::encode_op<nfs4::op::READ>(to, read);
  });
}
/// A Reply to it. Without `reduced` the data is in the stream.
inline xdr::Message read_reply(std::uint32_t xid, const std::string& data, bool reduced) {
  return results(xid, nfs4::NFS4_OK, 2, [&](xdr::Encoder& to) {
    to.u32(nfs4::OP_PUTFH);
    to.u32(nfs4::NFS4_OK);
    to.u32(nfs4::OP_READ);
    to.u32(nfs4::NFS4_OK);
    to.u32(1);  // eof
    to.u32(static_cast<std::uint32_t>(data.size()));
    if (!reduced) to.fixed(bytes_of(data));
  });
}

inline std::vector<Event> decoded(ConstBytes file) {
  std::vector<Event> out;
  trace::Decoder decoder([&](const Event& event) { out.push_back(event); });
  decoder.add(file);
  decoder.finish();
  return out;
}
inline Octets content_of_file(const std::string& name) {
  std::ifstream in(name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const ConstBytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

/// A recorder whose clock goes on by a millisecond with every frame, and what it has warned of.
struct Recording {
  explicit Recording(const std::string& file, std::uint32_t bytes = 1024, std::uint64_t size = 1U << 20) {
    trace::Options options;
    options.size = size;
    options.bytes = bytes;
    options.now = [this] { return now += 1'000'000; };
    recorder = std::make_shared<trace::Recorder>(std::move(options));
    started = recorder->start(file).has_value();
  }
  /// A connection that is up.
  std::unique_ptr<fabric::Tap> tap() {
    auto out = recorder->tapper([this](const std::string& text) { warnings.push_back(text); })(
        {loopback(20049), "server"});
    fabric::Established made;
    made.fabric = "iwarp";
    made.reason = "a test";
    out->established(made);
    return out;
  }
  std::vector<std::string> warnings;
  std::uint64_t now = 1'700'000'000'000'000'000;
  std::shared_ptr<trace::Recorder> recorder;
  bool started = false;
};

}  // namespace nfsrdma::testing::traced
