#include "fuse/plain_reads.h"

#include <algorithm>
#include <utility>

#include "engine/fast_read.h"
#include "fuse/requests.h"
#include "fuse/spread_read.h"

namespace nfsrdma::fuse {
namespace {

/// A buffer larger than this goes back to the loop's store, so that others can use it.
constexpr std::size_t kMostKept = 64U << 10;

}  // namespace

class PlainReads::One final : public engine::FastRead, private SpreadRead, private AnswerJob {
 public:
  explicit One(PlainReads& all) : all_(all) {}
  ~One() override { drop(); }

  bool start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
             std::uint64_t from, std::size_t size) {
    if (memory_.size < size) memory_ = all_.loop_.memory().take(size);
    data = {memory_.data.get(), size};
    request_ = request;
    file_ = file;
    offset = from;
    return hand_over() || file->file()->start(*this);
  }
  void reset() {
    if (all_.shards_ != nullptr) all_.shards_->ends(data.size());
    file_ = nullptr;
    request_ = nullptr;
    if (memory_.size > kMostKept) memory_ = {};
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

  /// Returns false if no shard takes the READ.
  bool hand_over() {
    MountShards* const shards = all_.shards_;
    if (shards == nullptr) return false;
    // If no others are under way, the READ stays here: the program waits for it, and the wake-ups would take longer.
    const std::size_t others = shards->load();
    shards->begins(data.size());
    return spread(*shards, others, 0, *file_->file(), data, offset);
  }
  void has_spread(std::optional<std::size_t> count) override {
    if (!count) return goes_on(file_->file()->read(data, offset));
    // At the end of the file the kernel's size of it may change with the answer.
    if (*count == data.size() && place().thread.runs()) raw_ = request_->hand_out();
    if (raw_ == nullptr) return ended(*count);
    place().thread.send(*this);
  }
  void has_sent() override {
    ++all_.shards_->counters().answers_sent;
    all_.files_.end_plain_read(*file_, data.size());
    all_.give_back(*this);
  }
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
  fuse_req_t raw_ = nullptr;  // the shard's thread answers it
};

PlainReads::PlainReads(async::Loop& loop, fs::FileSystem& files, MountShards* shards)
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

void PlainReads::give_back(One& one) {
  one.reset();
  reads_.give_back(one);
}

}  // namespace nfsrdma::fuse
