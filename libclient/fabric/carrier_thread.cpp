#include <sys/epoll.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

#include "async/helper.h"
#include "async/mailbox.h"
#include "fabric/carrier.h"

namespace nfsrdma::fabric {
namespace {

class CarrierThread final : public Carrier, public std::enable_shared_from_this<CarrierThread> {
 public:
  explicit CarrierThread(async::Loop& owner) : owner_(owner) {
    loop_.watch(orders_.descriptor(), EPOLLIN, [this](std::uint32_t) { carry_out_all(); });
    const async::AllSignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    owner_.watch(news_.descriptor(), EPOLLIN, [this](std::uint32_t) { tell_all(); });
  }
  ~CarrierThread() override {
    owner_.unwatch(news_.descriptor());
    ends_ = true;
    wake_.set();
    thread_.join();
  }
  CarrierThread(const CarrierThread&) = delete;
  CarrierThread& operator=(const CarrierThread&) = delete;

  // ---- on the owner's thread ----

  void order(Order order) override {
    if (ordered_.empty()) {
      // Hand over at the end of the turn, so that all Orders of the turn go in one batch.
      owner_.post([token = weak_from_this()] {
        if (const auto self = token.lock()) self->hand_over();
      });
    }
    ordered_.push_back(std::move(order));
  }

  void hand_over() override {
    given_ += ordered_.size();
    orders_.give(ordered_);
  }

  void settle() override {
    hand_over();
    for (std::uint64_t done = done_.load(); done != given_; done = done_.load()) done_.wait(done);
  }

  // ---- on its own ----

  async::Loop& loop() override { return loop_; }
  void report(News news) override { reported_.push_back(std::move(news)); }

 private:
  void run() {
    loop_.watch(wake_.descriptor(), EPOLLIN, [](std::uint32_t) {});
    while (!ends_) {
      loop_.turn(async::TimePoint::max());
      news_.give(reported_);
    }
  }

  void carry_out_all() {
    orders_.take(taken_);
    for (Order& order : taken_) carry_out(order);
    done_ += taken_.size();
    done_.notify_all();
    taken_.clear();
  }

  /// Called on the owner's thread. `self` keeps this object alive, because a handler that is called here may
  /// release the last other reference to it.
  void tell_all() {
    const auto self = shared_from_this();
    std::vector<News> all = std::move(told_);
    news_.take(all);
    for (News& news : all) tell(news);
    all.clear();
    told_ = std::move(all);
  }

  async::Loop& owner_;
  async::Loop loop_;
  async::Mailbox<Order> orders_;
  async::Mailbox<News> news_;
  async::Wakeup wake_;
  std::atomic<bool> ends_ = false;
  std::atomic<std::uint64_t> done_ = 0;  // number of Orders carried out
  // Used by the owner's thread only.
  std::vector<Order> ordered_;
  std::vector<News> told_;
  std::uint64_t given_ = 0;
  // Used by the carrier's thread only.
  std::vector<Order> taken_;
  std::vector<News> reported_;
  std::thread thread_;
};

}  // namespace

std::vector<std::shared_ptr<Carrier>> carrier_threads(async::Loop& owner, unsigned count) {
  std::vector<std::shared_ptr<Carrier>> out;
  try {
    while (out.size() < count) out.push_back(std::make_shared<CarrierThread>(owner));
  } catch (const std::system_error&) {
    return out;  // fewer carriers, or none, only make the connections slower
  }
  return out;
}

}  // namespace nfsrdma::fabric
