#include "support/toy_mechanism.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

namespace nfsrdma::testing {
namespace {

using gss::Service;
using xdr::ConstBytes;

constexpr std::size_t kCallHead = 6 * 4;  // xid to procedure
constexpr std::size_t kMostBody = 1U << 26;
constexpr std::size_t kCode = 8;

std::uint64_t checksum(gss::Pieces pieces, std::uint64_t context) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ context;
  for (const ConstBytes piece : pieces) {
    for (const std::byte byte : piece) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  return hash;
}
std::uint64_t checksum(ConstBytes bytes, std::uint64_t context) {
  const std::array whole{bytes};
  return checksum(whole, context);
}

gss::Octets code_of(std::uint64_t sum) {
  gss::Octets out(kCode);
  xdr::store_u64(out.data(), sum);
  return out;
}
bool is_code(ConstBytes code, std::uint64_t sum) {
  return code.size() == kCode && xdr::load_u64(code.data()) == sum;
}

void mask(std::span<std::byte> bytes, std::uint64_t context) {
  std::uint64_t stream = context;
  for (std::byte& byte : bytes) {
    stream = stream * 6364136223846793005U + 1442695040888963407U;
    byte ^= static_cast<std::byte>(stream >> 56U);
  }
}

gss::Octets wrapped(gss::Pieces pieces, std::uint64_t context) {
  gss::Octets out;
  for (const ConstBytes piece : pieces) out.insert(out.end(), piece.begin(), piece.end());
  const gss::Octets code = code_of(checksum(pieces, context));
  out.insert(out.end(), code.begin(), code.end());
  mask(out, context);
  return out;
}
/// In place.
std::optional<ConstBytes> unwrapped(std::span<std::byte> bytes, std::uint64_t context) {
  if (bytes.size() < kCode) return std::nullopt;
  mask(bytes, context);
  const std::uint64_t sum = xdr::load_u64(bytes.last(kCode).data());
  const ConstBytes out = bytes.first(bytes.size() - kCode);
  if (sum != checksum(out, context)) return std::nullopt;
  return out;
}

class ToyContext final : public gss::Context {
 public:
  ToyContext(std::uint64_t number, async::Loop* loop, ToyTraits traits, const rpc::Credential& caller,
             std::shared_ptr<const unsigned> life, std::shared_ptr<std::uint32_t> sendings)
      : number_(number),
        loop_(loop),
        traits_(traits),
        made_(now()),
        life_(std::move(life)),
        born_(*life_),
        sendings_(std::move(sendings)) {
    xdr::Message message;
    xdr::Encoder out(message);
    out.u64(number);
    out.u32(traits_.window);
    out.fixed(caller.encoded());
    const ConstBytes bytes = message.stream.bytes();
    handle_.assign(bytes.begin(), bytes.end());
  }
  [[nodiscard]] ConstBytes handle() const override { return handle_; }
  [[nodiscard]] std::uint32_t window() const override { return traits_.window; }
  [[nodiscard]] bool ends_soon() const override { return has_ended() || is_older_than(traits_.life * 3 / 4); }
  [[nodiscard]] bool has_ended() const override { return *life_ != born_ || is_older_than(traits_.life); }
  Result<gss::Octets> sign(gss::Pieces message) override {
    // A Call's head is one piece.
    *sendings_ += message.size() == 1 ? 1 : 0;
    return code_of(checksum(message, number_));
  }
  bool is_signed(gss::Pieces message, ConstBytes code) override {
    return is_code(code, checksum(message, number_));
  }
  Status wrap(gss::Pieces message, xdr::Buffer& out) override {
    const gss::Octets all = wrapped(message, number_);
    std::ranges::copy(all, out.extend(all.size()));
    return {};
  }
  Result<ConstBytes> unwrap(std::span<std::byte> bytes) override {
    const auto clear = unwrapped(bytes, number_);
    if (!clear) return Error(ErrorKind::protocol, EPROTO, "unwrap", "toy", "it was changed");
    return *clear;
  }

 private:
  [[nodiscard]] async::TimePoint now() const { return loop_ != nullptr ? loop_->now() : async::TimePoint(); }
  [[nodiscard]] bool is_older_than(async::Clock::duration age) const {
    return traits_.life.count() != 0 && now() - made_ >= age;
  }

  const std::uint64_t number_;
  async::Loop* const loop_;
  const ToyTraits traits_;
  const async::TimePoint made_;
  const std::shared_ptr<const unsigned> life_;
  const unsigned born_;
  const std::shared_ptr<std::uint32_t> sendings_;
  gss::Octets handle_;
};

}  // namespace

// ---- the client's side ----

async::Task<Result<std::shared_ptr<gss::Context>>> ToyMechanism::establish(security::Caller caller) {
  if (loop_ != nullptr) {
    co_await loop_->sleep_for(std::chrono::microseconds(loop_->random<std::uint64_t>() % 200'000));
    if (traits_.no_kdc_one_in != 0 && loop_->random<std::uint64_t>() % traits_.no_kdc_one_in == 0)
      co_return Error(ErrorKind::connection, EACCES, "RPC", "toy", "no KDC answers");
  }
  if (std::exchange(refuses_, false))
    co_return Error(ErrorKind::local, EACCES, "RPC", "toy", "there is no ticket; get one");
  ++established_;
  std::shared_ptr<gss::Context> out = std::make_shared<ToyContext>(
      next_++, loop_, traits_, callers_->vouch(caller).credential, life_, sendings_);
  co_return std::move(out);
}

// ---- the server's side ----

void ToyGuard::forget() {
  for (const auto& [context, numbers] : seen_) forgotten_.insert(context);
}

ToyGuard::Verdict ToyGuard::open(Octets& call, std::optional<Pass>& pass) {
  const auto wrong = [](const char* how) { return Verdict{how}; };
  xdr::Decoder in(call);
  const rpc::CallHeader header = rpc::read_call(in);
  const bool says_nothing = header.procedure == 0;  // NULL, a health check
  if (header.flavor != gss::kRpcsecGss) return wrong(demands_ && !says_nothing ? "a Call in clear" : "");
  if (header.verdict.refusal != rpc::Refusal::none) return wrong("a header that is none");
  Pass found;
  std::uint32_t version = 0, procedure = 0, service = 0, flavor = 0, window = 0;
  ConstBytes handle, who;
  xdr::Decoder body(header.credential);
  if (!body.u32(version) || version != gss::kVersion || !body.u32(procedure) || !body.u32(found.number) ||
      !body.u32(service) || !body.opaque(rpc::kMostAuthBytes, handle) || !body.finish()) {
    return wrong("a credential that is none");
  }
  const bool destroys = procedure == static_cast<std::uint32_t>(gss::Procedure::destroy);
  if (!destroys && procedure != static_cast<std::uint32_t>(gss::Procedure::data))
    return wrong("a credential for what is not done here");
  xdr::Decoder name(handle);
  if (!name.u64(found.context) || !name.u32(window) || !name.u32(flavor) ||
      !name.opaque(rpc::kMostAuthBytes, who))
    return wrong("a handle that is none");
  found.service = static_cast<Service>(service);
  const std::size_t head = kCallHead + 4 + 4 + xdr::padded(header.credential.size());
  xdr::Decoder verifier(ConstBytes(call).subspan(head));
  std::uint32_t verifier_flavor = 0;
  ConstBytes code;
  const bool is_whole = verifier.u32(verifier_flavor) && verifier.opaque(rpc::kMostAuthBytes, code);
  if (!is_whole || verifier_flavor != gss::kRpcsecGss ||
      !is_code(code, checksum(ConstBytes(call).first(head), found.context))) {
    return wrong("a verifier that does not fit");
  }
  if (forgets_ || forgotten_.contains(found.context)) {
    return {"", found.number % 2 == 0 ? gss::kCredProblem : gss::kContextProblem};
  }
  std::set<std::uint32_t>& seen = seen_[found.context];
  if (!seen.empty() && found.number + window <= *seen.rbegin()) {
    ++dropped_;
    return {"", 0, true};
  }
  if (!seen.insert(found.number).second) return wrong("a sequence number used twice");
  if (garbled_ != 0 && !destroys) {
    --garbled_;
    std::array<std::byte, 4> word;
    xdr::store_u32(word.data(), found.number);
    const std::uint64_t sum = checksum(ConstBytes(word), found.context);
    Verdict out;
    out.garbage = {
        1, 0, gss::kRpcsecGss, kCode, static_cast<std::uint32_t>(sum >> 32), static_cast<std::uint32_t>(sum)};
    // Linux has left room for a body's length and number by then, ahead of the status.
    if (found.service == Service::integrity) out.garbage.insert(out.garbage.end(), {0, 0});
    out.garbage.push_back(4);
    return out;
  }
  if (destroys) {
    // Its Reply is the last that is signed by it, and nothing else of it is protected.
    forgotten_.insert(found.context);
    found.service = Service::none;
  }
  xdr::Message clear;
  xdr::Encoder out(clear);
  out.fixed(ConstBytes(call).first(kCallHead));
  out.u32(flavor);
  out.opaque(who);
  out.u32(0);
  out.u32(0);
  if (found.service == Service::none) {
    out.fixed(in.rest());
  } else {
    ConstBytes data;
    gss::Octets copy;
    if (!in.opaque(kMostBody, data)) return wrong("arguments that are none");
    if (found.service == Service::integrity) {
      if (!in.opaque(kMostBody, code) || !is_code(code, checksum(data, found.context)))
        return wrong("arguments that were changed");
    } else {
      copy.assign(data.begin(), data.end());
      const auto plain = unwrapped(copy, found.context);
      if (!plain) return wrong("arguments that were changed");
      data = *plain;
    }
    if (!in.finish() || data.size() < 4 || xdr::load_u32(data.data()) != found.number)
      return wrong("arguments of another call");
    out.fixed(data.subspan(4));
  }
  const ConstBytes bytes = clear.stream.bytes();
  call.assign(bytes.begin(), bytes.end());
  pass = found;
  ++opened_;
  return {};
}

void ToyGuard::seal(Octets& reply, const Pass& pass) {
  const Lie lie = std::exchange(lie_, Lie::none);
  const std::uint32_t number = lie == Lie::other_call ? pass.number - 1 : pass.number;
  std::array<std::byte, 4> word;
  xdr::store_u32(word.data(), number);
  xdr::Decoder in(reply);
  (void)rpc::read_reply(in);
  xdr::Message message;
  xdr::Encoder out(message);
  out.fixed(ConstBytes(reply).first(3 * 4));  // xid, REPLY, MSG_ACCEPTED
  if (lie == Lie::no_verifier) {
    out.u32(0);
    out.u32(0);
  } else {
    out.u32(gss::kRpcsecGss);
    out.opaque(code_of(checksum(ConstBytes(word), pass.context) + (lie == Lie::verifier ? 2 : 0)));
  }
  out.u32(0);  // SUCCESS
  if (pass.service == Service::none || lie == Lie::unprotected) {
    out.fixed(in.rest());
  } else {
    if (lie == Lie::other_body) xdr::store_u32(word.data(), number - 1);
    const std::array body{ConstBytes(word), in.rest()};
    const std::size_t at = message.stream.size();
    if (pass.service == Service::integrity || lie == Lie::only_signed) {
      out.u32(static_cast<std::uint32_t>(body[0].size() + body[1].size()));
      for (const ConstBytes piece : body) out.fixed(piece);
      out.opaque(code_of(checksum(body, pass.context)));
    } else {
      out.opaque(wrapped(body, pass.context));
    }
    if (lie == Lie::results) message.stream.data()[at + 9] ^= std::byte{1};
  }
  const ConstBytes bytes = message.stream.bytes();
  reply.assign(bytes.begin(), bytes.end());
}

}  // namespace nfsrdma::testing
