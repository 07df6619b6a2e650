#include "gss/flavor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "async/event.h"

namespace nfsrdma::gss {
namespace {

using xdr::ConstBytes;

constexpr std::size_t kCallHead = 6 * 4;  // xid to procedure
constexpr std::size_t kMostBody = 1U << 30;

std::array<std::byte, 4> word(std::uint32_t value) {
  std::array<std::byte, 4> out;
  xdr::store_u32(out.data(), value);
  return out;
}

/// A message as it stands: the stream, with its items between.
std::vector<ConstBytes> pieces_of(const xdr::Message& message, std::size_t from) {
  static constexpr std::array<std::byte, 4> kPadding{};
  std::vector<ConstBytes> out;
  const ConstBytes stream = message.stream.bytes();
  for (const xdr::Item& item : message.items) {
    out.push_back(stream.subspan(from, item.stream_offset - from));
    out.push_back(item.data);
    out.push_back(ConstBytes(kPadding).first(xdr::padded(item.data.size()) - item.data.size()));
    from = item.stream_offset;
  }
  out.push_back(stream.subspan(from));
  return out;
}

std::size_t size_of(Pieces pieces) {
  std::size_t out = 0;
  for (const ConstBytes& piece : pieces) out += piece.size();
  return out;
}

}  // namespace

struct Gss::Shared {
  async::Loop& loop;
  const Service service;
  const std::shared_ptr<Mechanism> mechanism;
  const std::string server;
  const rpc::Credential credential;  // of a Call that is not sealed yet
};

/// What one caller has.
struct Gss::Entry {
  Entry(async::Loop& loop, security::Caller of) : caller(std::move(of)), tried(loop) {}
  const security::Caller caller;
  std::shared_ptr<Context> context;
  std::uint32_t number = 0;  // the last one that was used with it
  bool establishing = false;
  async::Event tried;  // to have a context

  [[nodiscard]] bool has_good_one() const {
    return context && !context->ends_soon() && number < kHighestNumber - 1;
  }
};

class Gss::Protection final : public rpc::Protection {
 public:
  Protection(std::shared_ptr<const Shared> shared, std::shared_ptr<Entry> entry)
      : shared_(std::move(shared)), entry_(std::move(entry)) {}

  [[nodiscard]] bool covers_data() const override { return shared_->service != Service::none; }
  [[nodiscard]] std::size_t reply_growth() const override {
    constexpr std::size_t kLengthAndNumber = 4 + 4;
    switch (shared_->service) {
      case Service::integrity:
        return kLengthAndNumber + 4 + xdr::padded(shared_->mechanism->longest_code());
      case Service::privacy:
        return kLengthAndNumber + xdr::padded(shared_->mechanism->wrapping_adds());
      case Service::none:
        break;
    }
    return 0;
  }

  async::Task<Status> ready(async::TimePoint deadline) override {
    return have_context(shared_, entry_, deadline);
  }

  [[nodiscard]] bool outdated(std::optional<std::uint32_t> auth_stat) override {
    if (!auth_stat) return !entry_->has_good_one();
    if (*auth_stat != kCredProblem && *auth_stat != kContextProblem) return false;
    // Unless there is another one by now.
    if (entry_->context == context_) entry_->context.reset();
    return true;
  }

  Result<const xdr::Message*> seal(const xdr::Message& message) override;
  Result<rpc::InClear> open(const rpc::ReplyHeader& header, ConstBytes results) override;

 private:
  static async::Task<Status> have_context(std::shared_ptr<const Shared> shared, std::shared_ptr<Entry> entry,
                                          async::TimePoint deadline);
  Status seal_arguments(Pieces arguments);
  [[nodiscard]] Error refused(const char* text) const {
    return {ErrorKind::protocol, EPROTO, "RPC", shared_->server, text};
  }

  const std::shared_ptr<const Shared> shared_;
  const std::shared_ptr<Entry> entry_;
  std::shared_ptr<Context> context_;  // that it was sealed with, and
  std::uint32_t number_ = 0;          // the number of that sending
  xdr::Message sealed_;
};

async::Task<Status> Gss::Protection::have_context(std::shared_ptr<const Shared> shared,
                                                  std::shared_ptr<Entry> entry, async::TimePoint deadline) {
  while (!entry->has_good_one() && entry->establishing) {
    const bool in_time = co_await entry->tried.wait_until(deadline);
    if (!in_time) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "RPC", shared->server,
                      "no security context could be had in time; is the KDC reachable?");
    }
  }
  if (entry->has_good_one()) co_return Status();
  struct Turn {
    explicit Turn(Entry& of) : entry(of) { entry.establishing = true; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      entry.establishing = false;
      entry.tried.notify_all();
    }
    Entry& entry;
  };
  const Turn turn(*entry);
  auto context = co_await shared->mechanism->establish(entry->caller, deadline);
  if (!context) co_return context.error();
  entry->context = std::move(*context);
  entry->number = 0;
  co_return Status();
}

Result<const xdr::Message*> Gss::Protection::seal(const xdr::Message& message) {
  context_ = entry_->context;
  if (!context_ || entry_->number >= kHighestNumber - 1) {
    entry_->context.reset();
    return Error(ErrorKind::local, EKEYEXPIRED, "RPC", shared_->server, "there is no security context");
  }
  number_ = ++entry_->number;
  const std::size_t arguments = kCallHead + shared_->credential.encoded().size();
  sealed_.clear();
  xdr::Encoder out(sealed_);
  out.fixed(message.stream.bytes().first(kCallHead));
  const ConstBytes handle = context_->handle();
  out.u32(kRpcsecGss);
  out.u32(static_cast<std::uint32_t>(5 * 4 + xdr::padded(handle.size())));
  out.u32(kVersion);
  out.u32(kData);
  out.u32(number_);
  out.u32(static_cast<std::uint32_t>(shared_->service));
  out.opaque(handle);
  const std::array head{sealed_.stream.bytes()};
  auto verifier = context_->sign(head);
  if (!verifier) {
    entry_->context.reset();
    return verifier.error();
  }
  out.u32(kRpcsecGss);
  out.opaque(*verifier);
  if (covers_data()) {
    const auto pieces = pieces_of(message, arguments);
    if (auto done = seal_arguments(pieces); !done) return done.error();
    return &sealed_;
  }
  const std::size_t begin = sealed_.stream.size();
  out.fixed(message.stream.bytes().subspan(arguments));
  for (xdr::Item item : message.items) {
    item.stream_offset += begin - arguments;
    sealed_.items.push_back(item);
  }
  return &sealed_;
}

Status Gss::Protection::seal_arguments(Pieces arguments) {
  xdr::Encoder out(sealed_);
  const std::array<std::byte, 4> number = word(number_);
  std::vector<ConstBytes> body{number};
  body.insert(body.end(), arguments.begin(), arguments.end());
  auto made = shared_->service == Service::integrity ? context_->sign(body) : context_->wrap(body);
  if (!made) {
    entry_->context.reset();
    return made.error();
  }
  if (shared_->service == Service::integrity) {
    out.u32(static_cast<std::uint32_t>(size_of(body)));
    for (const ConstBytes& piece : body) std::ranges::copy(piece, sealed_.stream.extend(piece.size()));
  }
  out.opaque(*made);
  return {};
}

Result<rpc::InClear> Gss::Protection::open(const rpc::ReplyHeader& header, ConstBytes results) {
  const std::array<std::byte, 4> number = word(number_);
  const std::array signed_number{ConstBytes(number)};
  if (header.verifier_flavor != kRpcsecGss || !context_->is_signed(signed_number, header.verifier))
    return refused("the reply is not the server's: its verifier is wrong");
  rpc::InClear out;
  out.results = results;
  if (!covers_data()) return out;
  const char* const kForged = "the reply is not what the server sent: somebody has changed it";
  xdr::Decoder in(results);
  ConstBytes body, code;
  if (!in.opaque(kMostBody, body)) return refused(kForged);
  if (shared_->service == Service::integrity) {
    if (!in.opaque(kMostBody, code) || in.remaining() != 0) return refused(kForged);
    const std::array whole{body};
    if (!context_->is_signed(whole, code)) return refused(kForged);
  } else {
    if (in.remaining() != 0) return refused(kForged);
    auto clear = context_->unwrap(body);
    if (!clear) return refused(kForged);
    std::ranges::copy(*clear, out.memory.extend(clear->size()));
    body = out.memory.bytes();
  }
  if (body.size() < number.size() || xdr::load_u32(body.data()) != number_)
    return refused("the reply is the server's to another call");
  out.results = body.subspan(number.size());
  return out;
}

Gss::Gss(async::Loop& loop, Service service, std::shared_ptr<Mechanism> mechanism, std::string server)
    : shared_(std::make_shared<const Shared>(loop, service, mechanism, std::move(server),
                                             rpc::Credential::to_be_sealed(mechanism->longest_code()))),
      own_(std::make_shared<Entry>(loop, nullptr)) {}

Gss::~Gss() = default;

std::shared_ptr<Gss::Entry> Gss::entry_of(const security::Caller& caller) {
  if (!caller) return own_;
  const auto found = entries_.find(*caller);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= kMostKnown) entries_.clear();
  auto entry = std::make_shared<Entry>(shared_->loop, caller);
  entries_.emplace(*caller, entry);
  return entry;
}

security::Voucher Gss::vouch(const security::Caller& caller) {
  return {shared_->credential, std::make_unique<Protection>(shared_, entry_of(caller))};
}

}  // namespace nfsrdma::gss
