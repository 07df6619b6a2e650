#include "fuse/shard_answers.h"

#include <utility>

namespace nfsrdma::fuse {
namespace {

/// To copy fewer bytes into the kernel costs less than to have another thread do it.
constexpr std::size_t kLeast = 128U << 10;

}  // namespace

class ShardAnswers::One final : private AnswerJob {
 public:
  explicit One(ShardAnswers& all) : all_(all) {}
  void send(ShardThread& by, fuse_req_t request, fs::ReadData data) {
    request_ = request;
    data_ = std::move(data);
    all_.shards_->begins(data_.size);
    by.send(*this);
  }

 private:
  void send_answer() override {
    fuse_reply_iov(request_, data_.pieces.data(), static_cast<int>(data_.pieces.size()));
  }
  void has_sent() override {
    ++all_.shards_->counters().answers_sent;
    all_.shards_->ends(data_.size);
    data_ = {};
    all_.answers_.give_back(*this);
  }

  ShardAnswers& all_;
  fuse_req_t request_ = nullptr;
  fs::ReadData data_;
};

ShardAnswers::ShardAnswers(MountShards* shards) : shards_(shards) {}
ShardAnswers::~ShardAnswers() = default;

bool ShardAnswers::send(Request& request, std::size_t size, fs::ReadData& data) {
  if (shards_ == nullptr || data.size < kLeast || data.pieces.size() > Request::kMostPieces) return false;
  // At the end of the file the kernel's size of it may change with the answer.
  if (data.size != size) return false;
  MountShards::Place* const place = shards_->choose(shards_->load(), MountShards::load_of(size));
  if (place == nullptr) return false;
  const fuse_req_t raw = request.hand_out();
  if (raw != nullptr) answers_.take(*this).send(place->thread, raw, std::move(data));
  return true;
}

}  // namespace nfsrdma::fuse
