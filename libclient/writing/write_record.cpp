#include "writing/write_record.h"

#include <algorithm>
#include <cerrno>

#include "async/until.h"
#include "writing/unstable_data.h"

namespace nfsrdma::writing {

async::Task<Result<Turn>> take_turn(std::shared_ptr<WriteRecord> file, async::TimePoint deadline,
                                    const char* what) {
  Turn out;
  if (!file) co_return out;
  WriteRecord::Turns& turns = file->turns;
  const bool in_time =
      co_await async::until(turns.ended, deadline, [&turns] { return turns.rewriting == 0; });
  if (!in_time) {
    co_return Error(ErrorKind::timeout, ETIMEDOUT, what, "",
                    "file data that the server lost could not be written again in time");
  }
  out.writing_ = async::Use(turns.writing, turns.ended);
  out.of_ = std::move(file);
  co_return out;
}

bool WriteRecord::is_unstable() const {
  return std::ranges::any_of(openers, [](const Opener& one) { return !one.data->empty(); });
}

bool WriteRecord::in_doubt() const {
  return std::ranges::any_of(openers, [](const Opener& one) { return one.data->may_be_lost(); });
}

std::uint64_t WriteRecord::end_in_doubt() const {
  std::uint64_t out = 0;
  for (const Opener& one : openers) {
    if (one.data->may_be_lost()) out = std::max(out, one.data->end());
  }
  return out;
}

std::uint64_t WriteRecord::end() const {
  std::uint64_t out = 0;
  for (const Opener& one : openers) out = std::max(out, one.data->end());
  return out;
}

void WriteRecord::doubt() {
  for (const Opener& one : openers) one.data->doubt();
}

bool WriteRecord::tells_restart(const Verifier& told) {
  const bool differs = verifier_ != told && is_unstable();
  verifier_ = told;
  if (differs) doubt();
  return differs;
}

void WriteRecord::replaced(std::uint64_t offset, std::uint64_t length) {
  for (const Opener& one : openers) one.data->cover(offset, length);
}

}  // namespace nfsrdma::writing
