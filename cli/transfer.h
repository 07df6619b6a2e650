// The pipelines of get, cat, put and cp: many requests in flight on one side, a local file on the other.
//
// Threads: run() works on the thread that calls it, and several transfers may run on one Client at a time,
// each on a thread of its own (crowd.h). The local stage (chunk_ring.h) has a further thread. The library's
// callbacks may come on any thread that is inside run(), so they only put their results into an Inbox, and
// the loop in run() draws the conclusions.
//
// On failure or interruption run() returns at once. The destructors then cancel requests that are under way
// (client.h, File) before the buffers are freed, because of the order of the members.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/chunk_ring.h"
#include "cli/inbox.h"
#include "nfsrdma/client.h"

namespace nfsrdma::cli {

/// Number of requests of `size` bytes to keep under way, of places in a ring that this takes, and of buffers
/// for an upload, whose bytes the server keeps in its memory at first.
struct Depth {
  std::size_t requests = 0, places = 0, buffers = 0;
};
/// `slots` is the number of requests that the session and the credits allow. `total`: bytes to move, absent
/// if unknown.
Depth choose_depth(std::size_t size, std::size_t slots, std::optional<std::uint64_t> total);

/// Called with the number of bytes that a transfer has moved so far.
using Moved = std::function<void(std::uint64_t)>;

/// A file of the server that is open to be read.
struct RemoteSource {
  std::unique_ptr<File> file;
  Attributes attributes;
};

/// Copies a file of the server to a local end, in the file's order.
class Download {
 public:
  /// The treatment of holes. `read`: they are read as zeros. `sought`: they are skipped by asking where data
  /// is (SEEK). `reported_or_sought`: they are skipped as the server reports them with the data, and the
  /// first answer decides: it leads to `reported`, or, without a hole in it, to `sought`. A server that
  /// reports of a hole only the part within the bytes asked for leads to `sought`, too, because SEEK passes
  /// over the hole at once. If the server has no SEEK, `sought` leads to `read`; blocks of zeros then become
  /// holes, if reported_or_sought was asked for. Only a local end that writes at offsets can skip.
  enum class Holes : std::uint8_t { read, sought, reported_or_sought, reported };
  /// `size` is the size that the server gave. Data beyond it is read, too.
  Download(Client& client, std::unique_ptr<File> file, Ring ring, std::size_t most_requests,
           std::uint64_t size, Holes holes);

  /// Leaves out the bytes before `offset`. Called before run().
  void begin_at(std::uint64_t offset) { next_offset_ = offset; }
  /// Leaves out the bytes from `offset` on. Called before run(), and only with Holes::read.
  void end_at(std::uint64_t offset) { stop_ = offset; }
  [[nodiscard]] File& file() { return *file_; }
  /// Returns the size that the local file must have.
  Result<std::uint64_t> run(LocalEnd& sink, const std::string& sink_name, const Moved& moved);

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };
  Result<std::optional<Range>> next_range();
  Result<std::optional<Range>> next_data();
  Status issue(const LocalStage& local);
  void start(std::uint64_t number);
  /// The result of a read for the chunk with this number.
  struct Answer {
    std::uint64_t number;
    Result<File::Stretch> stretch;
  };
  void heard(const Answer& answer);
  /// Returns true if the next read asks the server to report holes.
  [[nodiscard]] bool takes_reports() const {
    return holes_ == Holes::reported || holes_ == Holes::reported_or_sought;
  }
  void take_in_order();
  [[nodiscard]] bool finished(const LocalStage& local) const;

  Client& client_;
  Ring ring_;
  std::size_t most_requests_;
  std::uint64_t size_;
  Holes holes_;
  /// Value of Chunk::punch: true for a sparse file, until SEEK says where its holes are.
  bool punches_ = holes_ == Holes::reported_or_sought;
  /// The number of requests that may be under way while takes_reports(). It is 1 at first and behind a hole,
  /// and grows by 1 with each answer that ends in data, because data that is asked for far ahead may turn out
  /// to be in the next hole.
  std::size_t at_once_ = 1;
  std::uint64_t next_offset_ = 0, data_end_ = 0;
  std::uint64_t stop_ = ~std::uint64_t{0};  ///< set by end_at()
  bool ended_ = false;                      ///< there is nothing more to ask for
  std::optional<std::uint64_t> end_;        ///< where the file turned out to end
  std::uint64_t issued_ = 0;                ///< chunks asked for
  std::uint64_t in_order_ = 0;              ///< chunks that have come, with all chunks before them
  std::size_t under_way_ = 0;
  std::uint64_t bytes_ = 0;
  std::optional<Error> error_;
  std::unique_ptr<Inbox<Answer>> answers_ = std::make_unique<Inbox<Answer>>();
  std::unique_ptr<File> file_;  ///< last member: destroyed first, which ends the requests that use the others
};

/// Returns the size of the chunks that keep a transfer evenly below `rate` bytes per second, if that is not 0. `most`
/// is the largest that the server takes.
std::size_t chunk_size_for(std::size_t most, std::uint64_t rate);

/// Returns how to find the holes of a file with these attributes if the copy is to keep them.
Download::Holes find_holes(const Attributes& attributes);
/// Makes a Download of the file, with as many buffers and requests as suit its size and the session. With a `rate`
/// only as much is in flight as it allows in a quarter of a second; `Moved` has to wait as well (pace.h).
Result<Download> make_download(Client& client, RemoteSource source, Download::Holes holes,
                               std::uint64_t rate = 0);

/// Copies a local end to a file of the server.
class Upload {
 public:
  Upload(Client& client, std::unique_ptr<File> file, Ring ring, std::size_t most_requests);

  /// Keeps the last bytes of a file of this size back until the server has taken all others, so that a file that is
  /// cut off is always shorter than its source.
  void hold_last(std::uint64_t size) { size_ = size; }
  /// Returns the number of bytes read. They are not stable before File::sync(). May be called again after it has
  /// succeeded, for further bytes.
  Result<std::uint64_t> run(LocalEnd& source, const std::string& source_name, const Moved& moved);
  [[nodiscard]] File& file() { return *file_; }
  /// Gives the file back. Called only after run() has succeeded, because nothing is in flight then.
  [[nodiscard]] std::unique_ptr<File> take_file() { return std::move(file_); }
  /// Where the last byte was written, plus one.
  [[nodiscard]] std::uint64_t end() const { return end_; }

 private:
  /// The result of a write for the chunk with this number: how many bytes the server took.
  struct Answer {
    std::uint64_t number;
    Result<std::size_t> count;
  };
  void heard(const Answer& answer);
  void provide(LocalStage& local);
  void send(const LocalStage& local);
  void start(std::uint64_t number);
  void release();
  [[nodiscard]] bool is_held(const Chunk& chunk) const;
  [[nodiscard]] bool starves(const LocalStage& local) const;

  Client& client_;
  Ring ring_;
  std::size_t most_requests_;
  std::uint64_t size_ = UINT64_MAX;  ///< of hold_last()
  bool ended_ = false;               ///< the source has no more
  std::uint64_t provided_ = 0;       ///< chunks that got a buffer
  std::uint64_t sent_ = 0;           ///< chunks given to the server
  std::uint64_t released_ = 0;       ///< chunks whose buffers are free again
  std::size_t under_way_ = 0;
  std::uint64_t bytes_ = 0;    ///< bytes read from the source
  std::uint64_t written_ = 0;  ///< bytes that the server took
  std::uint64_t end_ = 0;
  std::optional<Error> error_;
  std::unique_ptr<Inbox<Answer>> answers_ = std::make_unique<Inbox<Answer>>();
  std::unique_ptr<File> file_;  ///< last member, as in Download
};

/// Makes an Upload to the file, with as many buffers and requests as suit `total` bytes and the session. `rate`: as
/// for make_download().
Result<Upload> make_upload(Client& client, std::unique_ptr<File> file, std::optional<std::uint64_t> total,
                           std::uint64_t rate = 0);

/// The Error that ends a transfer after a signal; it is not shown.
Error interrupted();

}  // namespace nfsrdma::cli
