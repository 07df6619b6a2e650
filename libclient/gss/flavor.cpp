#include "gss/flavor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "async/backoff.h"
#include "async/event.h"
#include "async/until.h"

namespace nfsrdma::gss {
namespace {

using namespace std::chrono_literals;
using xdr::ConstBytes;

constexpr std::size_t kCallHead = 6 * 4;  // from xid to procedure
constexpr std::size_t kMostBody = 1U << 30;
/// When so few sequence numbers are left, another context is established.
constexpr std::uint32_t kNumbersLeft = 1U << 20;
constexpr async::Clock::duration kFirstPause = 200ms, kLongestPause = 5s;
/// A Call that was sent this long ago has arrived, or is lost.
constexpr async::Clock::duration kArrived = 1s;
constexpr async::Clock::duration kRenewAgain = 1s, kTellAgain = 60s;

std::array<std::byte, 4> word(std::uint32_t value) {
  std::array<std::byte, 4> out;
  xdr::store_u32(out.data(), value);
  return out;
}

/// Returns the message from stream position `from` on, with its data items and their padding in place.
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

/// Messages that are not in use, kept so that their memory is reused.
class Spares {
 public:
  xdr::Message take() {
    if (all_.empty()) return {};
    xdr::Message out = std::move(all_.back());
    all_.pop_back();
    return out;
  }
  void give_back(xdr::Message message) {
    if (all_.size() >= kMost) return;
    message.clear();
    all_.push_back(std::move(message));
  }

 private:
  static constexpr std::size_t kMost = 16;
  std::vector<xdr::Message> all_;
};

}  // namespace

struct Gss::Shared {
  async::Loop& loop;
  const Service service;
  const std::shared_ptr<Mechanism> mechanism;
  const std::string server;
  const NoticeSink notices;
  const rpc::Credential credential;  // for a Call that is not sealed yet
  mutable Spares spares;
};

/// A context in use, with its sequence numbers.
struct Gss::Use {
  explicit Use(std::shared_ptr<Context> with) : context(std::move(with)) {}
  const std::shared_ptr<Context> context;
  std::uint32_t number = 0;  // the last number used
  /// The numbers to which no Reply has come, and when each was used.
  std::map<std::uint32_t, async::TimePoint> open;

  [[nodiscard]] bool serves() const { return !context->has_ended() && number < kHighestNumber - 1; }
  [[nodiscard]] bool ends_soon() const {
    return context->ends_soon() || number >= kHighestNumber - kNumbersLeft;
  }
};

/// The state of one caller.
struct Gss::Entry {
  Entry(async::Loop& loop, security::Caller of) : caller(std::move(of)), tried(loop), settled(loop) {}
  const security::Caller caller;
  std::shared_ptr<Use> use;    // null: there is no context
  std::uint32_t expected = 0;  // how many numbers the calls that have their turn are going to use
  // Fields for establishing another context.
  bool establishing = false;
  std::uint64_t tries = 0;        // attempts that have ended
  std::optional<Error> failure;   // error of the last attempt
  async::TimePoint try_again{};   // earliest time of the next attempt, while the present context serves
  async::TimePoint tell_again{};  // earliest time of the next notice to the user
  unsigned asking = 0;            // can_vouch() calls under way, whose failures are not reported to the user
  async::Event tried;
  async::Event settled;  // notified when a number has been settled

  [[nodiscard]] bool serves() const { return use && use->serves(); }
  /// Returns nothing if another number may be used now. Otherwise that number could push an unanswered one
  /// out of the window; returns the time at which the lowest unanswered number counts as arrived.
  [[nodiscard]] std::optional<async::TimePoint> must_wait(async::TimePoint now) const {
    auto& open = use->open;
    while (!open.empty() && open.begin()->second + kArrived <= now) open.erase(open.begin());
    const std::uint64_t next = std::uint64_t{use->number} + 1;
    const std::uint64_t lowest = open.empty() ? next : open.begin()->first;
    if (next + expected - lowest < most_apart(use->context->window())) return std::nullopt;
    return open.empty() ? now + kArrived : open.begin()->second + kArrived;
  }

 private:
  /// Returns less than the window, which leaves room for Calls that are sent again with new numbers.
  static std::uint32_t most_apart(std::uint32_t window) { return std::max(window - window / 4, 1U); }
};

class Gss::Protection final : public rpc::Protection {
 public:
  Protection(std::shared_ptr<const Shared> shared, std::shared_ptr<Entry> entry,
             Procedure procedure = Procedure::data)
      : shared_(std::move(shared)),
        entry_(std::move(entry)),
        procedure_(procedure),
        sealed_(shared_->spares.take()) {}
  ~Protection() override {
    settle();
    shared_->spares.give_back(std::move(sealed_));
  }
  Protection(const Protection&) = delete;
  Protection& operator=(const Protection&) = delete;

  [[nodiscard]] bool covers_data() const override {
    return shared_->service != Service::none && procedure_ == Procedure::data;
  }
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

  [[nodiscard]] bool is_ready() override { return entry_->serves() && !entry_->use->ends_soon(); }
  async::Task<Status> ready(async::TimePoint deadline) override {
    return have_context(shared_, entry_, deadline);
  }
  [[nodiscard]] bool takes_turn() override {
    // If there is no context, seal() reports it.
    if (is_expected_ || !entry_->serves()) return true;
    if (entry_->must_wait(shared_->loop.now())) return false;
    ++entry_->expected;
    is_expected_ = true;
    return true;
  }
  async::Task<void> turn(async::TimePoint deadline) override;

  [[nodiscard]] bool outdated(std::optional<std::uint32_t> auth_stat) override {
    if (procedure_ != Procedure::data) return false;
    if (!auth_stat) return !entry_->serves();
    if (*auth_stat != kCredProblem && *auth_stat != kContextProblem) return false;
    // The context is dropped only if it is still the one that this Call used: there may be another one by
    // now.
    if (entry_->use == use_) entry_->use.reset();
    settle();
    return true;
  }

  [[nodiscard]] bool was_illegible(const rpc::ReplyHeader& header, ConstBytes results) const override {
    if (procedure_ != Procedure::data) return false;
    if (header.refusal != rpc::Refusal::none) return header.refusal == rpc::Refusal::garbage_args;
    // Linux reports this for a Call with integrity: the status stands behind the eight bytes that Linux had
    // reserved for the body's length and sequence number.
    return shared_->service == Service::integrity && results.size() == 8 &&
           xdr::load_u32(results.data()) == 0 && xdr::load_u32(results.data() + 4) == rpc::kGarbageArgs;
  }

  Result<const xdr::Message*> seal(const xdr::Message& message) override;
  Result<ConstBytes> open(const rpc::ReplyHeader& header, ConstBytes results) override;

 private:
  static async::Task<Status> have_context(std::shared_ptr<const Shared> shared, std::shared_ptr<Entry> entry,
                                          async::TimePoint deadline);
  static async::Task<void> establish(std::shared_ptr<const Shared> shared, std::shared_ptr<Entry> entry);
  Status seal_arguments(const xdr::Message& message, std::size_t from);
  [[nodiscard]] Error refused(const char* text) const {
    return {ErrorKind::protocol, EPROTO, "RPC", shared_->server, text};
  }
  /// Releases the number, so that it no longer delays other Calls.
  void settle() {
    if (is_expected_) --entry_->expected;
    is_expected_ = false;
    if (use_) use_->open.erase(number_);
    entry_->settled.notify_all();
  }

  const std::shared_ptr<const Shared> shared_;
  const std::shared_ptr<Entry> entry_;
  const Procedure procedure_;
  bool is_expected_ = false;  // this Call has its turn and is going to use a number
  std::shared_ptr<Use> use_;  // the context that sealed the last sending
  std::uint32_t number_ = 0;  // sequence number of the last sending
  xdr::Message sealed_;
};

async::Task<void> Gss::Protection::turn(async::TimePoint deadline) {
  const auto until = entry_->serves() ? entry_->must_wait(shared_->loop.now()) : std::nullopt;
  if (until) (void)co_await entry_->settled.wait_until(std::min(*until, deadline));
}

async::Task<Status> Gss::Protection::have_context(std::shared_ptr<const Shared> shared,
                                                  std::shared_ptr<Entry> entry, async::TimePoint deadline) {
  async::Loop& loop = shared->loop;
  if (entry->serves()) {
    if (entry->use->ends_soon() && !entry->establishing && loop.now() >= entry->try_again)
      loop.spawn(establish(shared, entry));
    co_return Status();
  }
  async::Backoff pause(kFirstPause, kLongestPause);
  for (;;) {
    const std::uint64_t before = entry->tries;
    if (!entry->establishing) loop.spawn(establish(shared, entry));
    const bool in_time =
        co_await async::until(entry->tried, deadline, [&] { return entry->tries != before; });
    if (entry->serves()) co_return Status();
    if (!in_time && entry->failure) co_return *entry->failure;
    if (!in_time) {
      co_return Error(ErrorKind::timeout, ETIMEDOUT, "RPC", shared->server,
                      "no security context for " + shared->mechanism->name_of(entry->caller) +
                          " could be established in time; check that the KDC is reachable");
    }
    const ErrorKind kind = entry->failure ? entry->failure->kind() : ErrorKind::timeout;
    const bool may_pass = kind == ErrorKind::connection || kind == ErrorKind::timeout;
    const async::TimePoint next = loop.now() + pause.take();
    if (entry->failure && (!may_pass || next >= deadline)) co_return *entry->failure;
    co_await loop.sleep_until(next);
    if (entry->serves()) co_return Status();
  }
}

/// Establishes a context for all calls that wait for one. No call's deadline ends this.
async::Task<void> Gss::Protection::establish(std::shared_ptr<const Shared> shared,
                                             std::shared_ptr<Entry> entry) {
  async::Loop& loop = shared->loop;
  entry->establishing = true;
  auto context = co_await shared->mechanism->establish(entry->caller);
  entry->establishing = false;
  ++entry->tries;
  if (context) {
    entry->use = std::make_shared<Use>(std::move(*context));
    entry->failure.reset();
  } else {
    entry->failure = context.error();
    entry->try_again = loop.now() + kRenewAgain;
    if (shared->notices && entry->asking == 0 && loop.now() >= entry->tell_again) {
      entry->tell_again = loop.now() + kTellAgain;
      const std::string who = shared->mechanism->name_of(entry->caller), why = context.error().message();
      shared->notices(why.find(who) != std::string::npos ? why : who + ": " + why);
    }
  }
  entry->tried.notify_all();
}

Result<const xdr::Message*> Gss::Protection::seal(const xdr::Message& message) {
  if (!entry_->serves()) {
    entry_->use.reset();
    return Error(ErrorKind::local, EKEYEXPIRED, "RPC", shared_->server, "no security context is established");
  }
  settle();
  use_ = entry_->use;
  number_ = ++use_->number;
  use_->open.emplace(number_, shared_->loop.now());
  const std::size_t arguments = kCallHead + shared_->credential.encoded().size();
  sealed_.clear();
  xdr::Encoder out(sealed_);
  out.fixed(message.stream.bytes().first(kCallHead));
  const ConstBytes handle = use_->context->handle();
  out.u32(kRpcsecGss);
  out.u32(static_cast<std::uint32_t>(5 * 4 + xdr::padded(handle.size())));
  out.u32(kVersion);
  out.u32(static_cast<std::uint32_t>(procedure_));
  out.u32(number_);
  out.u32(static_cast<std::uint32_t>(shared_->service));
  out.opaque(handle);
  const std::array head{sealed_.stream.bytes()};
  auto verifier = use_->context->sign(head);
  if (!verifier) {
    entry_->use.reset();
    return verifier.error();
  }
  out.u32(kRpcsecGss);
  out.opaque(*verifier);
  if (covers_data()) {
    if (auto done = seal_arguments(message, arguments); !done) {
      entry_->use.reset();
      return done.error();
    }
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

/// Appends the number and the arguments after the header. Under integrity the data items of the arguments
/// stay where they are; under privacy the cipher's copy is the only one.
Status Gss::Protection::seal_arguments(const xdr::Message& message, std::size_t from) {
  xdr::Encoder out(sealed_);
  const std::array<std::byte, 4> number = word(number_);
  std::vector<ConstBytes> body = pieces_of(message, from);
  body.insert(body.begin(), number);
  if (shared_->service == Service::privacy) {
    const std::size_t length_at = out.position();
    out.u32(0);
    if (auto wrapped = use_->context->wrap(body, sealed_.stream); !wrapped) return wrapped;
    const std::size_t length = out.position() - length_at - 4;
    xdr::store_u32(sealed_.stream.data() + length_at, static_cast<std::uint32_t>(length));
    const std::size_t pad = xdr::padding(length);
    std::ranges::fill_n(sealed_.stream.extend(pad), static_cast<std::ptrdiff_t>(pad), std::byte{0});
    return {};
  }
  auto code = use_->context->sign(body);
  if (!code) return code.error();
  out.u32(static_cast<std::uint32_t>(size_of(body)));
  out.fixed(number);
  const ConstBytes stream = message.stream.bytes();
  for (const xdr::Item& item : message.items) {
    out.fixed(stream.subspan(from, item.stream_offset - from));
    from = item.stream_offset;
    const std::size_t words = item.data.size() - item.data.size() % 4;
    if (words != 0) sealed_.items.push_back({out.position(), item.data.first(words)});
    out.fixed(item.data.subspan(words));
  }
  out.fixed(stream.subspan(from));
  out.opaque(*code);
  return {};
}

Result<ConstBytes> Gss::Protection::open(const rpc::ReplyHeader& header, ConstBytes results) {
  settle();
  const std::array<std::byte, 4> number = word(number_);
  const std::array signed_number{ConstBytes(number)};
  if (header.verifier_flavor != kRpcsecGss || !use_->context->is_signed(signed_number, header.verifier))
    return refused("the reply does not come from the server: its verifier is wrong");
  if (!covers_data()) return results;
  if (was_illegible(header, results)) {
    return Error(ErrorKind::server, EIO, rpc::kGarbageArgs, "RPC", shared_->server,
                 "the server could not decode the request, or found its signature wrong; please report this "
                 "with a capture of the traffic");
  }
  const char* const kForged = "the reply is not what the server sent: it was changed on the way";
  xdr::Decoder in(results);
  ConstBytes body, code;
  if (!in.opaque(kMostBody, body)) return refused(kForged);
  if (shared_->service == Service::integrity) {
    if (!in.opaque(kMostBody, code) || in.remaining() != 0) return refused(kForged);
    const std::array whole{body};
    if (!use_->context->is_signed(whole, code)) return refused(kForged);
  } else {
    if (in.remaining() != 0) return refused(kForged);
    // The Reply's own memory (rpc/protection.h). NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    auto clear = use_->context->unwrap({const_cast<std::byte*>(body.data()), body.size()});
    if (!clear) return refused(kForged);
    body = *clear;
  }
  if (body.size() < number.size() || xdr::load_u32(body.data()) != number_)
    return refused("the reply belongs to another call");
  return body.subspan(number.size());
}

Gss::Gss(async::Loop& loop, Service service, const std::shared_ptr<Mechanism>& mechanism, std::string server,
         NoticeSink notices)
    : shared_(std::make_shared<const Shared>(loop, service, mechanism, std::move(server), std::move(notices),
                                             rpc::Credential::to_be_sealed(mechanism->longest_code()),
                                             Spares())),
      own_(std::make_shared<Entry>(loop, nullptr)) {}

Gss::~Gss() = default;

std::shared_ptr<Gss::Entry> Gss::entry_of(const security::Caller& caller) {
  if (!caller) return own_;
  const auto found = entries_.find(caller->uid);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= kMostKnown) entries_.clear();
  auto entry = std::make_shared<Entry>(shared_->loop, caller);
  entries_.emplace(caller->uid, entry);
  return entry;
}

security::Voucher Gss::vouch(const security::Caller& caller) {
  return {shared_->credential, std::make_unique<Protection>(shared_, entry_of(caller))};
}

std::string_view Gss::name_of(security::Mark /*mark*/) const {
  switch (shared_->service) {
    case Service::integrity:
      return security_name(Security::krb5i);
    case Service::privacy:
      return security_name(Security::krb5p);
    case Service::none:
      break;
  }
  return security_name(Security::krb5);
}

bool Gss::is_tamper_proof() const {
  return shared_->service != Service::none;
}

async::Task<Status> Gss::can_vouch(security::Caller caller, async::TimePoint deadline) {
  const auto entry = entry_of(caller);
  Protection asked(shared_, entry);
  // A scope object, so that the count is right even if the caller of can_vouch() is gone before the answer.
  struct Asking {
    explicit Asking(Entry& of) : whose(of) { ++whose.asking; }
    ~Asking() { --whose.asking; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    Entry& whose;
  };
  const Asking asking(*entry);
  auto ready = co_await asked.ready(deadline);
  co_return ready;
}

std::vector<security::Voucher> Gss::farewells() {
  std::vector<security::Voucher> out;
  const auto leave = [&](Entry& entry) {
    if (!entry.serves()) return;
    auto last = std::make_shared<Entry>(shared_->loop, entry.caller);
    last->use = std::exchange(entry.use, nullptr);
    out.push_back(
        {shared_->credential, std::make_unique<Protection>(shared_, std::move(last), Procedure::destroy)});
  };
  leave(*own_);
  for (const auto& [caller, entry] : entries_) leave(*entry);
  return out;
}

}  // namespace nfsrdma::gss
