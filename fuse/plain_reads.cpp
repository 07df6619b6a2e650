#include "fuse/plain_reads.h"

#include <utility>

#include "engine/quick_read.h"
#include "fuse/requests.h"

namespace nfsrdma::fuse {
namespace {

/// What is larger goes back to the loop's store, which has it for others.
constexpr std::size_t kMostKept = 64U << 10;

}  // namespace

class PlainReads::One final : public engine::QuickRead {
 public:
  explicit One(PlainReads& all) : all_(all) {}
  ~One() override { drop(); }

  void make_room(std::size_t size) {
    if (memory_.size < size) memory_ = all_.loop_.memory().take(size);
    data = {memory_.data.get(), size};
  }
  bool start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
             std::uint64_t from) {
    request_ = request;
    file_ = file;
    offset = from;
    return file->file()->start(*this);
  }
  void reset() {
    file_ = nullptr;
    request_ = nullptr;
    if (memory_.size > kMostKept) memory_ = {};
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
    auto got = co_await std::move(rest);
    if (got) {
      one.answer(*got);
    } else {
      one.all_.files_.end_plain_read(*one.file_, true, 0);
      one.request_->error(got.error());
    }
    one.all_.give_back(one);
  }
  void answer(std::size_t count) {
    all_.files_.end_plain_read(*file_, true, count);
    request_->data(data.first(count));
  }

  PlainReads& all_;
  std::shared_ptr<Request> request_;
  std::shared_ptr<fs::OpenHandle> file_;
  async::Memory memory_;
};

PlainReads::PlainReads(async::Loop& loop, fs::FileSystem& files) : loop_(loop), files_(files) {}
PlainReads::~PlainReads() = default;

bool PlainReads::start(const std::shared_ptr<Request>& request, const std::shared_ptr<fs::OpenHandle>& file,
                       std::uint64_t offset, std::size_t size) {
  if (!files_.begin_plain_read(*file, offset, size)) return false;
  One& one = take(size);
  if (one.start(request, file, offset)) return true;
  files_.end_plain_read(*file, false, 0);
  give_back(one);
  return false;
}

PlainReads::One& PlainReads::take(std::size_t size) {
  if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<One>(*this)).get());
  One& one = *free_.back();
  free_.pop_back();
  one.make_room(size);
  return one;
}

void PlainReads::give_back(One& one) {
  one.reset();
  free_.push_back(&one);
}

}  // namespace nfsrdma::fuse
