#include "writing/question.h"

#include <utility>
#include <vector>

#include "writing/unstable_data.h"

namespace nfsrdma::writing {
namespace {

/// An opener's data, kept alive while a task uses it.
struct Held {
  std::shared_ptr<const void> owner;
  UnstableData* data;
};

template <class Wanted>
std::vector<Held> those(const WriteRecord& file, Wanted wanted) {
  std::vector<Held> out;
  for (const WriteRecord::Opener& one : file.openers) {
    if (!wanted(*one.data)) continue;
    if (auto owner = one.owner.lock()) out.push_back({std::move(owner), one.data});
  }
  return out;
}

}  // namespace

async::Task<Status> Question::settle() {
  const auto doubtful = those(*file_, [](const UnstableData& data) { return data.may_be_lost(); });
  for (const Held& one : doubtful) {
    auto done = co_await one.data->make_certain();
    if (done) continue;
    const ErrorKind kind = done.error().kind();
    if (kind == ErrorKind::timeout || kind == ErrorKind::connection) co_return done;
    refused_ = true;
  }
  (void)begin();
  co_return Status();
}

async::Task<Status> make_stable(std::shared_ptr<WriteRecord> file) {
  Status out;
  if (!file) co_return out;
  const auto unstable = those(*file, [](const UnstableData& data) { return !data.empty(); });
  for (const Held& one : unstable) {
    auto done = co_await one.data->make_stable();
    if (out) out = std::move(done);
  }
  co_return out;
}

}  // namespace nfsrdma::writing
