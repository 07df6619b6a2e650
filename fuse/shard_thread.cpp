#include "fuse/shard_thread.h"

#include <sys/epoll.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "async/helper.h"

namespace nfsrdma::fuse {

/// A call that is under way in the shard. The object is kept for the next one.
class ShardThread::Call final : private async::Loop::Timer {
 public:
  explicit Call(ShardThread& all) : all_(all) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void begin(CallJob& job, std::shared_ptr<engine::Shard> shard) {
    job_ = &job;
    shard_ = std::move(shard);
    ended_ = false;
    if (job.may_be_dropped()) all_.loop_.set(*this, all_.loop_.now() + all_.patience_);
    task_.emplace(make(*this));
    task_->handle().resume();
  }
  [[nodiscard]] bool may_be_dropped() const { return job_ != nullptr && job_->may_be_dropped(); }
  /// Ends the call, if there is one that has not ended. The server can no longer write into its memory when this returns.
  void drop() {
    if (job_ == nullptr || ended_) return;
    task_.reset();
    end();
  }
  /// Returns the job of a call that has ended. Called outside the task.
  CallJob& take() {
    task_.reset();
    shard_ = nullptr;
    return *std::exchange(job_, nullptr);
  }

 private:
  static async::Task<void> make(Call& self) {
    co_await self.job_->make(*self.shard_);
    if (!self.shard_->works()) self.all_.drop_shard(*self.shard_);
    self.end();
  }
  void on_time() override {
    all_.drop_shard(*shard_);
    drop();
  }
  void end() {
    cancel();
    ended_ = true;
    all_.ended_.push_back(this);
  }

  ShardThread& all_;
  CallJob* job_ = nullptr;                // null: idle
  std::shared_ptr<engine::Shard> shard_;  // null: idle
  bool ended_ = false;
  std::optional<async::Task<void>> task_;
};

Error ShardThread::ended(const char* why) const {
  return {ErrorKind::connection, ECONNRESET, "connect", channel_.server(), why};
}

// ---- on the owner's thread ----

ShardThread::ShardThread(async::Loop& owner, const rpc::ChannelOptions& connection,
                         std::chrono::milliseconds patience)
    : owner_(owner),
      patience_(patience),
      has_connected_(owner),
      self_(std::make_shared<ShardThread*>(this)),
      // No notices: losses and delays that matter show on the mount's own connections, too.
      channel_(loop_, connection, [](const rpcrdma::Notice&) {}) {
  loop_.watch(orders_.descriptor(), EPOLLIN, [this](std::uint32_t) {
    orders_.take(taken_);
    for (Order& order : taken_) carry_out(order);
    taken_.clear();
  });
  loop_.watch(wake_.descriptor(), EPOLLIN, [](std::uint32_t) {});
  channel_.set_link_sink([this](bool up) {
    if (up) return;
    if (shard_) drop_shard(*shard_);
    is_lost_ = true;  // no call is ended here, which may be inside one
  });
  {
    const async::AllSignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  owner_.watch(done_.descriptor(), EPOLLIN, [this](std::uint32_t) { take_done(); });
}

ShardThread::~ShardThread() {
  stop();
}

void ShardThread::order(Order order) {
  if (ordered_.empty()) {
    // Hand over at the end of the turn, so that all Orders of the turn go in one batch.
    owner_.post([token = std::weak_ptr(self_)] {
      if (const auto self = token.lock()) (*self)->orders_.give((*self)->ordered_);
    });
  }
  ordered_.push_back(std::move(order));
}

async::Task<Status> ShardThread::use(std::unique_ptr<engine::Shard> shard) {
  if (!self_) co_return ended("the mount ends");
  connected_.reset();
  order({.what = Order::What::use, .shard = std::move(shard)});
  while (!connected_) (void)co_await has_connected_.wait_until(async::TimePoint::max());
  co_return std::move(*connected_);
}

void ShardThread::make(CallJob& job) {
  ++busy_;
  order({.what = Order::What::make, .call = &job});
}

void ShardThread::send(AnswerJob& job) {
  ++busy_;
  order({.what = Order::What::send, .answer = &job});
}

ConnectionState ShardThread::connection() {
  ConnectionState out;
  if (!self_) return out;
  looked_ = false;
  ordered_.push_back({.what = Order::What::look, .state = &out});
  orders_.give(ordered_);
  looked_.wait(false);
  return out;
}

void ShardThread::take_done() {
  std::vector<Done> all = std::move(told_);
  done_.take(all);
  for (Done& one : all) {
    switch (one.what) {
      case Done::What::has_ended:
        --busy_;
        one.call->has_ended();
        break;
      case Done::What::has_sent:
        --busy_;
        one.answer->has_sent();
        break;
      case Done::What::connected:
        connected_ = std::move(one.connected);
        has_connected_.notify_all();
        break;
    }
  }
  all.clear();
  told_ = std::move(all);
}

void ShardThread::stop() {
  if (!self_) return;
  self_ = nullptr;
  works_ = false;
  owner_.unwatch(done_.descriptor());
  orders_.give(ordered_);
  ends_ = true;
  wake_.set();
  thread_.join();
  works_ = false;  // the thread may have set it since
  channel_.set_link_sink(nullptr);
  take_done();
  if (connected_) return;
  connected_ = ended("the mount ends");
  has_connected_.notify_all();
}

// ---- on its own ----

void ShardThread::run() {
  while (!ends_) {
    loop_.turn(async::TimePoint::max());
    end_turn();
  }
  shard_ = nullptr;
  orders_.take(taken_);
  for (Order& order : taken_) carry_out(order);
  taken_.clear();
  connect_task_.reset();
  drop_calls();
  channel_.shut_down();
  loop_.end_turn();
  // Only what waits for something else than the connection has not ended now.
  for (const auto& one : calls_.all()) one->drop();
  end_turn();
}

void ShardThread::carry_out(Order& order) {
  switch (order.what) {
    case Order::What::make:
      return begin(*order.call);
    case Order::What::send:
      answers_.push_back(order.answer);
      return;
    case Order::What::use:
      if (ends_) return;
      connect_task_.emplace(connect(std::move(order.shard)));
      connect_task_->handle().resume();
      return;
    case Order::What::look:
      *order.state = ConnectionState::of(channel_);
      looked_ = true;
      looked_.notify_one();
      return;
  }
}

void ShardThread::begin(CallJob& job) {
  if (!shard_ || ends_) {
    finished_.push_back({.what = Done::What::has_ended, .call = &job});
    return;
  }
  calls_.take(*this).begin(job, shard_);
}

/// Parts with the shard, unless another one has come in its place. Its calls that are under way go on, and it ends them.
void ShardThread::drop_shard(const engine::Shard& which) {
  if (shard_.get() != &which) return;
  works_ = false;
  shard_ = nullptr;
}

async::Task<void> ShardThread::connect(std::shared_ptr<engine::Shard> shard) {
  auto connected = co_await channel_.connect(loop_.now() + engine::Shard::kConnecting);
  // A connection that has ended meanwhile is reported as made all the same.
  if (connected && !channel_.up()) connected = ended("the connection ended at once");
  if (connected) {
    shard_ = std::move(shard);
    works_ = true;
  }
  finished_.push_back({.what = Done::What::connected, .connected = std::move(connected)});
}

void ShardThread::drop_calls() {
  for (const auto& one : calls_.all()) {
    if (one->may_be_dropped()) one->drop();
  }
}

/// Sends the answers, behind the calls that came with them, and gives back what has ended. A task is destroyed here, and not
/// from inside itself.
void ShardThread::end_turn() {
  if (std::exchange(is_lost_, false)) {
    drop_calls();
    loop_.end_turn();
  }
  for (AnswerJob* const job : answers_) {
    job->send_answer();
    finished_.push_back({.what = Done::What::has_sent, .answer = job});
  }
  answers_.clear();
  for (Call* const one : ended_) {
    finished_.push_back({.what = Done::What::has_ended, .call = &one->take()});
    calls_.give_back(*one);
  }
  ended_.clear();
  done_.give(finished_);
}

}  // namespace nfsrdma::fuse
