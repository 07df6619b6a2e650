#include "support/toy_flavor.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace nfsrdma::testing {
namespace {

using xdr::ConstBytes;

constexpr std::uint32_t kFlavor = 390'999;                    // nobody's
constexpr std::uint32_t kCredProblem = 13, kCtxProblem = 14;  // auth_stat, RFC 2203 5.3.3.3
constexpr std::size_t kCallHead = 6 * 4;                      // xid to procedure
constexpr std::size_t kMostBody = 1U << 26;

std::uint64_t checksum(ConstBytes bytes, std::uint64_t context, std::uint32_t sequence) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ context ^ (std::uint64_t{sequence} << 20U);
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

void mask(std::span<std::byte> bytes, std::uint64_t context, std::uint32_t sequence) {
  std::uint64_t stream = context ^ (std::uint64_t{sequence} << 32U);
  for (std::byte& byte : bytes) {
    stream = stream * 6364136223846793005U + 1442695040888963407U;
    byte ^= static_cast<std::byte>(stream >> 56U);
  }
}

Octets octets(const xdr::Message& message) {
  const ConstBytes bytes = message.stream.bytes();
  return {bytes.begin(), bytes.end()};
}

/// Arguments or results, protected.
void encode_body(xdr::Encoder& out, const ToyGuard::Pass& pass, ConstBytes clear) {
  xdr::Message message;
  xdr::Encoder body(message);
  body.u32(pass.sequence);
  body.fixed(clear);
  const std::uint64_t sum = checksum(message.stream.bytes(), pass.context, pass.sequence);
  if (pass.service == ToyService::integrity) {
    out.opaque(message.stream.bytes());
    out.u32(8);
    out.u64(sum);
    return;
  }
  body.u64(sum);
  mask({message.stream.data(), message.stream.size()}, pass.context, pass.sequence);
  out.opaque(message.stream.bytes());
}

/// The other way; nothing if it is not as it was made.
std::optional<Octets> decode_body(xdr::Decoder& in, const ToyGuard::Pass& pass) {
  ConstBytes bytes;
  if (!in.opaque(kMostBody, bytes)) return std::nullopt;
  Octets body(bytes.begin(), bytes.end());
  std::uint64_t sum = 0;
  std::uint32_t length = 0;
  if (pass.service == ToyService::integrity) {
    if (!in.u32(length) || length != 8 || !in.u64(sum)) return std::nullopt;
  } else {
    mask(body, pass.context, pass.sequence);
    if (body.size() < 8) return std::nullopt;
    sum = xdr::load_u64(&body[body.size() - 8]);
    body.resize(body.size() - 8);
  }
  if (in.remaining() != 0 || body.size() < 4 || sum != checksum(body, pass.context, pass.sequence) ||
      xdr::load_u32(body.data()) != pass.sequence) {
    return std::nullopt;
  }
  body.erase(body.begin(), body.begin() + 4);
  return body;
}

std::uint64_t reply_verifier(const ToyGuard::Pass& pass) {
  return checksum({}, pass.context, pass.sequence) | 1U;
}

}  // namespace

// ---- the client's side ----

class ToyFlavor::Protection final : public rpc::Protection {
 public:
  explicit Protection(ToyFlavor& flavor) : flavor_(flavor) {}

  [[nodiscard]] bool covers_data() const override { return flavor_.service_ != ToyService::none; }
  [[nodiscard]] std::size_t reply_growth() const override {
    switch (flavor_.service_) {
      case ToyService::integrity:
        return 4 + 4 + 4 + 8;  // length, sequence number; length, checksum
      case ToyService::privacy:
        return 4 + 4 + 8;
      case ToyService::none:
        break;
    }
    return 0;
  }

  async::Task<Status> ready(async::TimePoint deadline) override { return flavor_.have_context(deadline); }
  [[nodiscard]] bool outdated(std::optional<std::uint32_t> auth_stat) override {
    if (!auth_stat) return !flavor_.has_context_;
    if (*auth_stat != kCredProblem && *auth_stat != kCtxProblem) return false;
    // Unless there is another one by now.
    if (pass_.context == flavor_.context_) flavor_.has_context_ = false;
    return true;
  }

  Result<const xdr::Message*> seal(const xdr::Message& message) override {
    if (std::exchange(flavor_.fails_, false))
      return Error(ErrorKind::local, EACCES, "RPC", "toy", "there is no ticket; get one");
    if (!flavor_.has_context_)
      return Error(ErrorKind::local, EKEYEXPIRED, "RPC", "toy", "the context has ended");
    pass_ = {flavor_.service_, flavor_.context_, ++flavor_.sequence_};
    const Octets clear = flattened(message);
    xdr::Decoder in(clear);
    const rpc::CallHeader header = rpc::read_call(in);
    const std::size_t arguments = clear.size() - in.remaining();

    xdr::Message credential;
    xdr::Encoder body(credential);
    body.u32(pass_.sequence);
    body.u32(static_cast<std::uint32_t>(pass_.service));
    body.u64(pass_.context);
    body.u32(header.flavor);
    body.opaque(header.credential);
    sealed_.clear();
    xdr::Encoder out(sealed_);
    out.fixed(ConstBytes(clear).first(kCallHead));
    out.u32(kFlavor);
    out.opaque(credential.stream.bytes());
    const std::uint64_t verifier = checksum(sealed_.stream.bytes(), pass_.context, pass_.sequence);
    out.u32(kFlavor);
    out.u32(8);
    out.u64(verifier);
    if (covers_data()) {
      encode_body(out, pass_, ConstBytes(clear).subspan(arguments));
    } else {
      const std::size_t head = sealed_.stream.size();
      out.fixed(message.stream.bytes().subspan(arguments));
      for (xdr::Item item : message.items) {
        item.stream_offset += head - arguments;
        sealed_.items.push_back(item);
      }
    }
    return &sealed_;
  }

  Result<rpc::InClear> open(const rpc::ReplyHeader& header, ConstBytes results) override {
    const auto refused = [](const char* text) {
      return Error(ErrorKind::protocol, EPROTO, "RPC", "toy", text);
    };
    if (header.verifier_flavor != kFlavor || header.verifier.size() != 8 ||
        xdr::load_u64(header.verifier.data()) != reply_verifier(pass_)) {
      return refused("the reply is not the server's: its verifier is wrong");
    }
    rpc::InClear out;
    out.results = results;
    if (!covers_data()) return out;
    xdr::Decoder in(results);
    const auto clear = decode_body(in, pass_);
    if (!clear) return refused("the reply is not what the server sent: its checksum is wrong");
    std::ranges::copy(*clear, out.memory.extend(clear->size()));
    out.results = out.memory.bytes();
    return out;
  }

 private:
  ToyFlavor& flavor_;
  ToyGuard::Pass pass_;
  xdr::Message sealed_;
};

async::Task<Status> ToyFlavor::have_context(async::TimePoint deadline) {
  while (!has_context_ && establishing_) {
    const bool in_time = co_await established_->wait_until(deadline);
    if (!in_time)
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "RPC", "toy", "no context could be had in time");
  }
  if (has_context_) co_return Status();
  if (loop_ != nullptr) {
    struct Turn {
      explicit Turn(ToyFlavor& of) : flavor(of) { flavor.establishing_ = true; }
      Turn(const Turn&) = delete;
      Turn& operator=(const Turn&) = delete;
      ~Turn() {
        flavor.establishing_ = false;
        flavor.established_->notify_all();
      }
      ToyFlavor& flavor;
    };
    const Turn turn(*this);
    co_await loop_->sleep_for(std::chrono::microseconds(loop_->random<std::uint64_t>() % 200'000));
  }
  if (std::exchange(refuses_, false))
    co_return Error(ErrorKind::local, EACCES, "RPC", "toy", "there is no ticket; get one");
  if (!std::exchange(has_context_, true)) {
    ++context_;
    ++renewed_;
  }
  co_return Status();
}

security::Voucher ToyFlavor::vouch(const security::Caller& caller) {
  return {callers_->vouch(caller).credential, std::make_unique<Protection>(*this)};
}

// ---- the server's side ----

void ToyGuard::forget() {
  for (const auto& [context, numbers] : seen_) forgotten_.insert(context);
}

std::string ToyGuard::open(Octets& call, std::optional<Pass>& pass, std::uint32_t& auth_stat) {
  xdr::Decoder in(call);
  const rpc::CallHeader header = rpc::read_call(in);
  if (header.flavor != kFlavor) return demands_ ? "a Call in clear" : "";
  if (header.verdict.refusal != rpc::Refusal::none) return "a header that is none";
  Pass found;
  std::uint32_t service = 0, flavor = 0;
  ConstBytes who;
  xdr::Decoder body(header.credential);
  if (!body.u32(found.sequence) || !body.u32(service) || !body.u64(found.context) || !body.u32(flavor) ||
      !body.opaque(rpc::kMostAuthBytes, who)) {
    return "a credential that is none";
  }
  found.service = static_cast<ToyService>(service);
  const std::size_t signed_bytes = kCallHead + 4 + 4 + header.credential.size();
  if (xdr::load_u64(&call[signed_bytes + 8]) !=
      checksum(ConstBytes(call).first(signed_bytes), found.context, found.sequence)) {
    return "a verifier that does not fit";
  }
  if (forgets_ || forgotten_.contains(found.context)) {
    auth_stat = found.sequence % 2 == 0 ? kCredProblem : kCtxProblem;
    return "";
  }
  if (!seen_[found.context].insert(found.sequence).second) return "a sequence number used twice";
  xdr::Message clear;
  xdr::Encoder out(clear);
  out.fixed(ConstBytes(call).first(kCallHead));
  out.u32(flavor);
  out.opaque(who);
  out.u32(0);
  out.u32(0);
  if (found.service == ToyService::none) {
    out.fixed(in.rest());
  } else {
    const auto arguments = decode_body(in, found);
    if (!arguments) return "arguments that were changed";
    out.fixed(*arguments);
  }
  call = octets(clear);
  pass = found;
  ++opened_;
  return "";
}

void ToyGuard::seal(Octets& reply, const Pass& pass) {
  const Lie lie = std::exchange(lie_, Lie::none);
  Pass shown = pass;
  if (lie == Lie::other_call) --shown.sequence;
  xdr::Decoder in(reply);
  (void)rpc::read_reply(in);
  xdr::Message message;
  xdr::Encoder out(message);
  out.fixed(ConstBytes(reply).first(3 * 4));  // xid, REPLY, MSG_ACCEPTED
  out.u32(kFlavor);
  out.u32(8);
  out.u64(reply_verifier(shown) + (lie == Lie::verifier ? 2 : 0));
  out.u32(0);  // SUCCESS
  if (pass.service == ToyService::none) {
    out.fixed(in.rest());
  } else {
    const std::size_t at = message.stream.size();
    encode_body(out, shown, in.rest());
    if (lie == Lie::results) message.stream.data()[at + 9] ^= std::byte{1};
  }
  reply = octets(message);
}

}  // namespace nfsrdma::testing
