#include "fuse/plain_reads.h"

#include <algorithm>
#include <utility>

#include "engine/fast_read.h"
#include "fuse/read_shards.h"
#include "fuse/requests.h"

namespace nfsrdma::fuse {
namespace {

/// A buffer larger than this goes back to the loop's store, so that others can use it.
constexpr std::size_t kMostKept = 64U << 10;
/// The load of a READ is the number of its bytes and this constant.
constexpr std::size_t kOfEach = 16U << 10;
/// READs go to shards once the load of the others is kMuch, which is one READ of 256 KiB or thirteen of 4 KiB, and until it
/// is less than kLittle; and to as many shards as there are times kMuch. With less under way a thread seldom finds several
/// READs when it wakes, and the wake-ups cost more than the mount's loop saves.
constexpr std::size_t kMuch = 256U << 10, kLittle = kMuch / 4;

}  // namespace

class PlainReads::One final : public engine::FastRead, private ShardJob {
 public:
  explicit One(PlainReads& all) : all_(all) {}
  ~One() override { drop(); }

  bool start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
             std::uint64_t from, std::size_t size) {
    if (memory_.size < size) memory_ = all_.loop_.memory().take(size);
    data = {memory_.data.get(), size};
    all_.load_ += load();
    request_ = request;
    file_ = file;
    offset = from;
    return hand_over() || file->file()->start(*this);
  }
  /// Returns the load of the READ. Valid from start() on.
  [[nodiscard]] std::size_t load() const { return kOfEach + data.size(); }
  void reset() {
    file_ = nullptr;
    request_ = nullptr;
    if (memory_.size > kMostKept) memory_ = {};
    place_ = nullptr;
    raw_ = nullptr;
  }

 private:
  void ended(std::size_t count) override {
    answer(count);
    all_.give_back(*this);
  }
  void goes_on(async::Task<Result<std::size_t>> rest) override {
    all_.loop_.spawn(finish(*this, std::move(rest)));
  }
  static async::Task<void> finish(One& one, async::Task<Result<std::size_t>> rest) {
    one.answer(co_await std::move(rest));
    one.all_.give_back(one);
  }

  // ---- in a shard ----

  /// Returns false if the READ is not one for a shard.
  bool hand_over() {
    const std::size_t shards = all_.shards_ == nullptr ? 0 : all_.shards_worthwhile(load());
    if (shards == 0) return false;
    place_ = all_.shards_->choose(shards);
    if (place_ == nullptr) return false;
    shard_read_ = file_->file()->prepare_read(data.size(), offset);
    if (!shard_read_) return false;
    place_->thread.read(*this);
    return true;
  }
  void has_read() override {
    const auto count = shard_read_->finish();
    shard_read_ = nullptr;
    ShardCounters& counters = all_.shards_->counters();
    if (!count) {
      ++counters.made_again;
      return goes_on(file_->file()->read(data, offset));
    }
    place_->maker.has_read();
    ++counters.reads;
    counters.bytes += *count;
    // At the end of the file the kernel's size of it may change with the answer.
    if (*count == data.size() && place_->thread.runs()) raw_ = request_->hand_out();
    if (raw_ == nullptr) return ended(*count);
    place_->thread.send(*this);
  }
  void has_sent() override {
    ++all_.shards_->counters().answers_sent;
    all_.files_.end_plain_read(*file_, data.size());
    all_.give_back(*this);
  }
  engine::ShardRead& shard_read() override { return *shard_read_; }
  std::span<std::byte> memory() override { return data; }
  void send_answer() override {
    fuse_reply_buf(raw_, reinterpret_cast<const char*>(data.data()), data.size());
  }

  void answer(const Result<std::size_t>& got) {
    all_.files_.end_plain_read(*file_, got ? *got : 0);
    if (got) {
      if (*got < data.size()) fs::FileSystem::has_ended(*file_, offset + *got);
      request_->data(data.first(*got));
    } else {
      request_->error(got.error());
    }
  }

  PlainReads& all_;
  std::shared_ptr<Request> request_;
  std::shared_ptr<fs::OpenHandle> file_;
  async::Memory memory_;
  // Set while a shard has the READ.
  ReadShards::Place* place_ = nullptr;
  std::unique_ptr<engine::ShardRead> shard_read_;
  fuse_req_t raw_ = nullptr;  // the shard's thread answers it
};

PlainReads::PlainReads(async::Loop& loop, fs::FileSystem& files, ReadShards* shards)
    : loop_(loop), files_(files), shards_(shards) {}
PlainReads::~PlainReads() = default;

bool PlainReads::start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
                       std::uint64_t offset, std::size_t size) {
  if (!fs::FileSystem::begin_plain_read(*file, offset, size)) return false;
  One& one = reads_.take(*this);
  if (one.start(request, file, offset, size)) return true;
  files_.end_plain_read(*file, std::nullopt);
  give_back(one);
  return false;
}

std::size_t PlainReads::shards_worthwhile(std::size_t load) {
  const std::size_t others = load_ - load;
  spreads_ = others >= (spreads_ ? kLittle : kMuch);
  return spreads_ ? std::max<std::size_t>(others / kMuch, 1) : 0;
}

void PlainReads::give_back(One& one) {
  load_ -= one.load();
  one.reset();
  reads_.give_back(one);
}

}  // namespace nfsrdma::fuse
