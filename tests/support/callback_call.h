// A server's side of the callback program for tests: builds one CB_COMPOUND Call operation by operation, and
// reads the Reply to it.
//
//     const auto bytes = CallbackCall(session).sequence(1).add<cb_op::CB_RECALL>({…}).bytes(xid);
//     CallbackResults results(reply.stream.bytes());
//     CHECK(results.take<cb_op::CB_SEQUENCE>() == NFS4_OK);
//
// Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/message.h"
#include "wire/nfs4/ops.h"
#include "wire/nfs4/ops_callback.h"

namespace nfsrdma::test {

class CallbackCall {
 public:
  struct Header {
    std::uint32_t program = nfs4::NFS4_CALLBACK, version = nfs4::NFS_CB, procedure = nfs4::CB_COMPOUND;
    rpc::Credential credential = rpc::Credential::none();
  };
  explicit CallbackCall(const nfs4::sessionid4& session = {}, std::uint32_t minor_version = 2)
      : session_(session) {
    head_.minorversion = minor_version;
  }

  CallbackCall& with(Header wanted) {
    header_ = std::move(wanted);
    return *this;
  }
  CallbackCall& tag(std::string text) {
    head_.tag.value = std::move(text);
    return *this;
  }
  CallbackCall& ident(std::uint32_t callback_ident) {
    head_.callback_ident = callback_ident;
    return *this;
  }
  CallbackCall& sequence(nfs4::sequenceid4 id, nfs4::slotid4 slot = 0, bool cache = false) {
    return add<nfs4::cb_op::CB_SEQUENCE>({session_, id, slot, slot, cache, {}});
  }
  template <class Op>
  CallbackCall& add(const typename Op::Args& args) {
    return append([&](xdr::Encoder& out) {
      out.u32(Op::number);
      xdr::encode(out, args);
    });
  }
  /// An operation by its number, and whatever words are behind it.
  CallbackCall& raw(std::initializer_list<std::uint32_t> words) {
    return append([&](xdr::Encoder& out) {
      for (const std::uint32_t word : words) out.u32(word);
    });
  }
  CallbackCall& claim_operations(std::uint32_t count) {
    head_.argarray_count = count;
    return *this;
  }
  [[nodiscard]] std::vector<std::byte> bytes(std::uint32_t xid = 1) const {
    xdr::Message message;
    rpc::begin_call(message, header_.program, header_.version, header_.procedure, header_.credential);
    xdr::store_u32(message.stream.data(), xid);
    if (header_.procedure == nfs4::CB_COMPOUND) xdr::Encoder(message).fixed(arguments());
    const auto all = message.stream.bytes();
    return {all.begin(), all.end()};
  }
  /// Of CB_COMPOUND, without the RPC header.
  [[nodiscard]] std::vector<std::byte> arguments() const {
    xdr::Message message;
    xdr::Encoder out(message);
    xdr::encode(out, head_);
    out.fixed(operations_);
    const auto all = message.stream.bytes();
    return {all.begin(), all.end()};
  }

 private:
  template <class F>
  CallbackCall& append(const F& encode) {
    xdr::Message message;
    xdr::Encoder out(message);
    encode(out);
    const auto bytes = message.stream.bytes();
    operations_.insert(operations_.end(), bytes.begin(), bytes.end());
    ++head_.argarray_count;
    return *this;
  }

  Header header_;
  nfs4::sessionid4 session_;
  nfs4::CB_COMPOUND4args_head head_;
  std::vector<std::byte> operations_;
};

/// The Reply, read result by result.
class CallbackResults {
 public:
  explicit CallbackResults(xdr::ConstBytes reply) : in_(reply) {
    if (reply.size() >= 4) xid_ = xdr::load_u32(reply.data());
    rpc_ = rpc::read_reply(in_);
    if (rpc_.refusal == rpc::Refusal::none && in_.remaining() != 0) xdr::decode(in_, head_);
  }
  [[nodiscard]] std::uint32_t xid() const { return xid_; }
  [[nodiscard]] const rpc::ReplyHeader& rpc() const { return rpc_; }
  [[nodiscard]] nfs4::nfsstat4 status() const { return head_.status; }
  [[nodiscard]] const std::string& tag() const { return head_.tag.value; }
  [[nodiscard]] std::uint32_t count() const { return head_.resarray_count; }
  /// The next result's status. One that is not Op's, or that does not decode, is a server fault.
  template <class Op>
  nfs4::nfsstat4 take(typename Op::Res& res) {
    std::uint32_t number = 0;
    if (!in_.u32(number) || number != Op::number || !xdr::decode(in_, res)) return nfs4::NFS4ERR_SERVERFAULT;
    return nfs4::status_of(res);
  }
  template <class Op>
  nfs4::nfsstat4 take() {
    typename Op::Res res{};
    return take<Op>(res);
  }
  nfs4::nfsstat4 take_illegal() {
    std::uint32_t number = 0;
    nfs4::CB_ILLEGAL4res res;
    if (!in_.u32(number) || number != nfs4::OP_CB_ILLEGAL || !xdr::decode(in_, res)) {
      return nfs4::NFS4ERR_SERVERFAULT;
    }
    return res.status;
  }
  /// Nothing is left, and nothing was wrong.
  bool finish() { return in_.finish(); }

 private:
  xdr::Decoder in_;
  std::uint32_t xid_ = 0;
  rpc::ReplyHeader rpc_;
  nfs4::CB_COMPOUND4res_head head_;
};

}  // namespace nfsrdma::test
