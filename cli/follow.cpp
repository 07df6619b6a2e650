// See follow.h.
#include "cli/follow.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "cli/remote_file.h"

namespace nfsrdma::cli {
namespace {

constexpr std::size_t follow_block = 256 * 1024;

/// Waits, and ends early after a signal or when nothing reads standard output any more. The library's own
/// thread keeps the lease meanwhile.
void rest(Call& call, LookPauses::Pause pause) {
  // Without events, poll(2) still reports an error such as that of a pipe without a reader.
  std::array<pollfd, 2> ends{{{interrupt::fd(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
  if (::poll(ends.data(), ends.size(), static_cast<int>(pause.count())) <= 0) return;
  if ((ends[1].revents & (POLLERR | POLLHUP)) != 0) call.out.set_error(EPIPE);
}

/// Asks for the attributes of all files, with one call for those of a server.
std::vector<Result<Attributes>> look_at(const std::vector<Followed>& files) {
  std::map<Client*, std::vector<std::string>> paths;
  for (const Followed& one : files) paths[one.remote().client].push_back(one.remote().path);
  std::map<Client*, std::vector<Result<Attributes>>> found;
  for (const auto& [client, of_client] : paths) found.emplace(client, client->stat_many(of_client));
  std::map<Client*, std::size_t> taken;
  std::vector<Result<Attributes>> out;
  out.reserve(files.size());
  for (const Followed& one : files) {
    Client* const client = one.remote().client;
    out.push_back(found.at(client).at(taken[client]++));
  }
  return out;
}

}  // namespace

Turn judge(const Attributes& followed, std::uint64_t position, const Attributes& now) {
  if (!are_same(followed, now)) return Turn::replaced;
  if (now.size < position) return Turn::truncated;
  return now.size > position ? Turn::grown : Turn::same;
}

LookPauses::Pause LookPauses::next(bool found_something) {
  if (fixed_) return *fixed_;
  pause_ = found_something ? shortest : std::min(pause_ * 2, longest);
  return pause_;
}

Status Followed::open(Attributes& attributes) {
  Result<std::unique_ptr<File>> file = remote_.client->open(remote_.path, OpenMode::read);
  if (!file) return file.error();
  Result<Attributes> found = (*file)->attributes();
  if (!found) return found.error();
  file_ = *std::move(file);
  attributes = *std::move(found);
  return {};
}

Status Followed::begin(Call& call, Headings& headings, const Start& start) {
  if (Status opened = open(attributes_); !opened) {
    trouble_ = opened.error().message();
    return opened;
  }
  const Result<std::uint64_t> offset = start(text_of(*file_), attributes_.size);
  if (!offset) return offset.error();
  position_ = *offset;
  headings.show(remote_);
  const Result<bool> written = write_new(call, headings);
  return written ? Status() : written.error();
}

Result<bool> Followed::write_new(Call& call, Headings& headings) {
  const ReadAt text = text_of(*file_);
  for (bool any = false;; any = true) {
    if (!call.going()) return any;
    const Result<std::string> block = text(position_, follow_block);
    if (!block) return block.error();
    if (block->empty()) return any;
    if (!any) headings.show(remote_);
    position_ += block->size();
    call.out.write(*block);
    call.out.flush();
  }
}

bool Followed::lost(Call& call, const Error& error) {
  if (error.kind() == ErrorKind::cancelled) return false;
  const bool is_news = trouble_ != error.message();
  trouble_ = error.message();
  if (is_news) call.failed_at(remote_, error);
  return is_news;
}

bool Followed::replaced(Call& call, Headings& headings, const char* what) {
  // A server may have removed the old file; then its end is lost.
  if (file_) (void)write_new(call, headings);
  if (Status opened = open(attributes_); !opened) return lost(call, opened.error());
  say(remote_.text() + ": " + what);
  trouble_.clear();
  position_ = 0;
  const Result<bool> written = write_new(call, headings);
  return written || lost(call, written.error());
}

bool Followed::look(Call& call, Headings& headings, const Result<Attributes>& now) {
  if (!now) return lost(call, now.error());
  if (!file_) return replaced(call, headings, "has appeared; following the new file");
  switch (judge(attributes_, position_, *now)) {
    case Turn::replaced:
      return replaced(call, headings, "has been replaced; following the new file");
    case Turn::truncated:
      say(remote_.text() + ": file truncated; following it from its beginning");
      position_ = 0;
      break;
    case Turn::grown:
      break;
    case Turn::same:
      trouble_.clear();
      return false;
  }
  const Result<bool> written = write_new(call, headings);
  if (!written) return lost(call, written.error());
  trouble_.clear();
  return *written;
}

void follow(Call& call, Headings& headings, std::vector<Followed>& files,
            std::optional<LookPauses::Pause> pause) {
  LookPauses pauses(pause);
  for (bool any = true; !files.empty();) {
    rest(call, pauses.next(any));
    if (!call.going()) return;
    const std::vector<Result<Attributes>> now = look_at(files);
    any = false;
    for (std::size_t i = 0; i < files.size() && call.going(); ++i)
      any = files[i].look(call, headings, now[i]) || any;
  }
}

}  // namespace nfsrdma::cli
