// See transfer.h.
#include "cli/transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cli/interrupt.h"
#include "cli/report.h"

namespace nfsrdma::cli {
namespace {

constexpr std::uint64_t bytes_under_way = 16U << 20;  // covers 10 Gb/s at 13 ms; more only dirties caches
constexpr std::size_t fewest_requests = 8;  // for large rsize: a pause of the peer must not empty the pipe
/// Bytes of an upload that are held until the server has written them to its disk. The library lets fewer (32
/// MiB) wait before it has the server do that in the background.
constexpr std::uint64_t bytes_held = 64U << 20;
constexpr std::uint64_t rate_steps = 4;                 // in a second, for a limited transfer
constexpr std::chrono::milliseconds longest_wait{200};  // redraws the progress bar meanwhile

/// Runs the client until something has happened there or on the local side, or a signal has come.
template <class Answer>
void wait(Client& client, LocalStage& local, Inbox<Answer>& answers) {
  if (!answers.empty()) return;
  std::array<int, 3> also{interrupt::fd()};
  std::size_t count = 1;
  for (const int fd : {local.event_fd(), answers.event_fd()}) {
    if (fd >= 0) also.at(count++) = fd;
  }
  client.wait(longest_wait, std::span(also).first(count));
  local.clear_event();
}

/// How many requests a session lets be under way.
std::size_t slots_of(const Info& info) {
  return std::max<std::uint32_t>(1, std::min(info.slots, info.credits_granted));
}

/// Lowers the number of requests to what `rate` allows in a quarter of a second.
Depth limited(Depth depth, std::size_t size, std::uint64_t rate) {
  if (rate != 0) {
    const auto most = static_cast<std::size_t>(rate / rate_steps / size);
    depth.requests = std::clamp<std::size_t>(most, 1, depth.requests);
  }
  return depth;
}

}  // namespace

std::size_t chunk_size_for(std::size_t most, std::uint64_t rate) {
  constexpr std::uint64_t block = 4096, least = 64U << 10;
  if (rate == 0) return most;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(rate / rate_steps / block * block,
                                                            std::min<std::uint64_t>(least, most), most));
}

Error interrupted() {
  return {ErrorKind::cancelled, EINTR, "", "", "interrupted"};
}

Depth choose_depth(std::size_t size, std::size_t slots, std::optional<std::uint64_t> total) {
  Depth depth;
  const std::size_t wanted = std::max<std::size_t>(fewest_requests, bytes_under_way / size);
  depth.requests = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, slots));
  // Half as many chunks again wait for the local side, or are written by it, while the network is kept busy.
  depth.places = depth.requests + std::max<std::size_t>(2, depth.requests / 2);
  depth.buffers = depth.places + static_cast<std::size_t>(bytes_held / size);
  if (total) {
    const std::uint64_t needed = *total / size + 1;  // one more: it shows that the file has ended
    depth.places = static_cast<std::size_t>(std::min<std::uint64_t>(depth.places, needed));
    depth.buffers = static_cast<std::size_t>(std::min<std::uint64_t>(depth.buffers, needed));
  }
  return depth;
}

Download::Download(Client& client, std::unique_ptr<File> file, Ring ring, std::size_t most_requests,
                   std::uint64_t size, Holes holes)
    : client_(client),
      ring_(std::move(ring)),
      most_requests_(most_requests),
      size_(size),
      holes_(holes),
      file_(std::move(file)) {}

Result<std::optional<Download::Range>> Download::next_data() {
  if (next_offset_ >= data_end_) {
    const Result<std::optional<std::uint64_t>> data = file_->seek(next_offset_, false);
    if (!data && data_end_ == 0 && data.error().kind() != ErrorKind::cancelled) {
      // The server has no SEEK.
      holes_ = Holes::read;
      return next_range();
    }
    if (!data) return data.error();
    punches_ = false;
    if (!*data) return std::optional<Range>();
    const Result<std::optional<std::uint64_t>> hole = file_->seek(**data, true);
    if (!hole) return hole.error();
    next_offset_ = std::max(next_offset_, **data);
    // The end of the file is a hole, so there is one, unless the file has become shorter meanwhile, which
    // reading shows.
    data_end_ = *hole && **hole > **data ? **hole : size_;
    // Data before the offset would be found again and again, so it ends the download.
    if (data_end_ <= next_offset_) return std::optional<Range>();
  }
  const auto length =
      static_cast<std::size_t>(std::min<std::uint64_t>(ring_.chunk_size(), data_end_ - next_offset_));
  return std::optional(Range{next_offset_, length});
}

/// Returns the next range to ask for: within the known size with as many requests as there may be, and then
/// one at a time until one comes back short, because the file may have grown, or its size may mean nothing.
Result<std::optional<Download::Range>> Download::next_range() {
  if (holes_ == Holes::sought) return next_data();
  if (next_offset_ >= stop_ || (next_offset_ >= size_ && under_way_ != 0)) return std::optional<Range>();
  const std::uint64_t length = std::min<std::uint64_t>(ring_.chunk_size(), stop_ - next_offset_);
  return std::optional(Range{next_offset_, static_cast<std::size_t>(length)});
}

void Download::start(std::uint64_t number) {
  Chunk& chunk = ring_[number];
  const auto rest = chunk.memory.subspan(chunk.length, chunk.wanted - chunk.length);
  chunk.ready = false;
  ++under_way_;
  const std::uint64_t offset = chunk.offset + chunk.length;
  if (!takes_reports()) {
    file_->start_read(rest, offset, [&answers = *answers_, number](const Result<std::size_t>& count) {
      answers.put(
          {number, count ? Result<File::Stretch>({*count, false, 0}) : Result<File::Stretch>(count.error())});
    });
  } else {
    file_->start_read_with_holes(rest, offset,
                                 [&answers = *answers_, number](const Result<File::Stretch>& stretch) {
                                   answers.put({number, stretch});
                                 });
  }
}

void Download::heard(const Answer& answer) {
  Chunk& done = ring_[answer.number];
  const Result<File::Stretch>& stretch = answer.stretch;
  --under_way_;
  done.ready = true;
  if (!stretch) {
    if (!error_) error_ = stretch.error();
    return;
  }
  done.length += stretch->count;
  done.gained = stretch->count != 0;
  at_once_ = stretch->hole_ends != 0 ? 1 : std::min(at_once_ + 1, most_requests_);
  if (holes_ == Holes::reported_or_sought) holes_ = stretch->has_holes ? Holes::reported : Holes::sought;
  const std::uint64_t reached = done.offset + done.length;
  const bool is_part = stretch->hole_ends == reached && done.length == done.wanted && reached < size_;
  if (holes_ == Holes::reported && is_part) holes_ = Holes::sought;
  // Everything up to hole_ends is in the hole, except what the file may have grown by since its size was
  // asked for.
  next_offset_ = std::max(next_offset_, std::min(stretch->hole_ends, size_));
}

Status Download::issue(const LocalStage& local) {
  while (!ended_ && !error_ && issued_ - local.passed() < ring_.count()) {
    if (under_way_ >= (takes_reports() ? at_once_ : most_requests_)) return {};
    const Result<std::optional<Range>> range = next_range();
    if (!range) return range.error();
    if (!*range) {
      ended_ = holes_ == Holes::sought || next_offset_ >= stop_;
      return {};
    }
    Chunk& chunk = ring_[issued_];
    if (!chunk.keeper) (void)ring_.provide(issued_);  // each place keeps its buffer: there are as many
    chunk.offset = (*range)->offset;
    chunk.wanted = (*range)->length;
    chunk.length = 0;
    chunk.punch = punches_;
    next_offset_ = chunk.offset + chunk.wanted;
    start(issued_++);
  }
  return {};
}

/// Asks for the rest of a short answer that is within the known size. Only an answer that has nothing, or
/// ends at or past that size, shows where the file ends.
void Download::take_in_order() {
  while (in_order_ < issued_ && ring_[in_order_].ready && !error_) {
    Chunk& chunk = ring_[in_order_];
    const std::uint64_t reached = chunk.offset + chunk.length;
    if (end_) {
      chunk.length = 0;  // asked for before the end was known
    } else if (chunk.length < chunk.wanted && chunk.gained && reached < size_) {
      start(in_order_);
      return;
    } else if (chunk.length < chunk.wanted) {
      end_ = reached;
      ended_ = true;
    }
    bytes_ += chunk.length;
    ++in_order_;
  }
}

bool Download::finished(const LocalStage& local) const {
  return ended_ && under_way_ == 0 && in_order_ == issued_ && local.passed() == issued_;
}

Result<std::uint64_t> Download::run(LocalEnd& sink, const std::string& sink_name, const Moved& moved) {
  LocalStage local(ring_, sink);
  while (true) {
    if (interrupt::raised()) return interrupted();
    for (const Answer& answer : answers_->take()) heard(answer);
    take_in_order();
    local.allow(in_order_);
    if (error_) return *error_;
    if (local.error() != 0) return local_error(local.error(), "write", sink_name);
    if (Status status = issue(local); !status) return status.error();
    if (finished(local)) break;
    moved(bytes_);
    wait(client_, local, *answers_);
  }
  moved(bytes_);
  return end_.value_or(size_);
}

Download::Holes find_holes(const Attributes& attributes) {
  const bool is_sparse = attributes.space_used < attributes.size;
  return is_sparse ? Download::Holes::reported_or_sought : Download::Holes::sought;
}

Result<Download> make_download(Client& client, RemoteSource source, Download::Holes holes,
                               std::uint64_t rate) {
  const Info info = client.info();
  const std::uint64_t size = source.attributes.size;
  const std::size_t chunk = chunk_size_for(info.rsize, rate);
  const Depth depth = limited(choose_depth(chunk, slots_of(info), size), chunk, rate);
  Result<Ring> ring = Ring::create(depth.places, depth.places, chunk);
  if (!ring) return ring.error();
  return Download(client, std::move(source.file), *std::move(ring), depth.requests, size, holes);
}

Upload::Upload(Client& client, std::unique_ptr<File> file, Ring ring, std::size_t most_requests)
    : client_(client), ring_(std::move(ring)), most_requests_(most_requests), file_(std::move(file)) {}

void Upload::start(std::uint64_t number) {
  Chunk& chunk = ring_[number];
  const std::span<const std::byte> rest = chunk.memory.subspan(chunk.wanted, chunk.length - chunk.wanted);
  ++under_way_;
  const auto done = [&answers = *answers_, number](Result<std::size_t> count) {
    answers.put({number, std::move(count)});
  };
  file_->start_write(rest, chunk.offset + chunk.wanted, done, chunk.keeper);
}

void Upload::heard(const Answer& answer) {
  const Result<std::size_t>& count = answer.count;
  Chunk& written = ring_[answer.number];
  --under_way_;
  if (!count || *count == 0) {
    if (!error_)
      error_ = count ? Error(ErrorKind::server, EIO, "WRITE", "",
                             "the server accepted no data; check its free space, and see its log")
                     : count.error();
    return;
  }
  written.wanted += *count;
  written.ready = written.wanted >= written.length;
  if (!written.ready) start(answer.number);  // a short write (RFC 8881 18.32.3): the rest again
}

/// Lets the local side fill as many chunks as there are places and buffers for.
void Upload::provide(LocalStage& local) {
  while (!ended_ && provided_ < released_ + ring_.count() && ring_.provide(provided_)) ++provided_;
  local.allow(provided_);
}

/// Returns true if nothing can move before the server has written something to its disk.
bool Upload::starves(const LocalStage& local) const {
  return !ended_ && under_way_ == 0 && sent_ == provided_ && local.passed() == provided_;
}

bool Upload::is_held(const Chunk& chunk) const {
  return under_way_ != 0 && chunk.offset + chunk.length >= size_;
}

void Upload::send(const LocalStage& local) {
  const std::uint64_t filled = local.passed();
  while (!ended_ && !error_ && sent_ < filled && under_way_ < most_requests_) {
    Chunk& chunk = ring_[sent_];
    if (chunk.length == 0) {
      ended_ = true;
      return;
    }
    if (is_held(chunk)) return;
    chunk.wanted = 0;
    chunk.ready = false;
    bytes_ += chunk.length;
    end_ = chunk.offset + chunk.length;
    start(sent_++);
  }
}

void Upload::release() {
  while (released_ < sent_ && ring_[released_].ready) {
    Chunk& chunk = ring_[released_++];
    written_ += chunk.length;
    chunk.keeper.reset();
  }
}

Result<std::uint64_t> Upload::run(LocalEnd& source, const std::string& source_name, const Moved& moved) {
  ended_ = false;
  provided_ = sent_ = released_ = bytes_ = written_ = 0;
  LocalStage local(ring_, source);
  while (true) {
    if (interrupt::raised()) return interrupted();
    for (const Answer& answer : answers_->take()) heard(answer);
    release();
    provide(local);
    send(local);
    if (error_) return *error_;
    if (ended_ && released_ == sent_) break;
    if (starves(local)) {
      if (Status status = file_->sync(); !status) return status.error();
      continue;
    }
    // Data that was read before the failure need not be sent, because the transfer fails as a whole.
    if (local.error() != 0) return local_error(local.error(), "read", source_name);
    moved(written_);
    wait(client_, local, *answers_);
  }
  moved(written_);
  return bytes_;
}

Result<Upload> make_upload(Client& client, std::unique_ptr<File> file, std::optional<std::uint64_t> total,
                           std::uint64_t rate) {
  const Info info = client.info();
  const std::size_t chunk = chunk_size_for(info.wsize, rate);
  const Depth depth = limited(choose_depth(chunk, slots_of(info), total), chunk, rate);
  Result<Ring> ring = Ring::create(depth.places, depth.buffers, chunk);
  if (!ring) return ring.error();
  return Upload(client, std::move(file), *std::move(ring), depth.requests);
}

}  // namespace nfsrdma::cli
