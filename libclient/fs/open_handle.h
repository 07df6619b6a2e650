// An open(2) of a mounted file: its state on the server and what was read ahead for it.
//
// Read-ahead. Sequential reads begin READs of the following bytes, each rsize long, until as much is
// requested ahead of the reader as read_window.h allows. A read that finds its bytes there is answered from
// that memory. These bytes serve one reader once: the kernel's page cache is what keeps data. They are
// dropped by any event that may have changed the contents since their READs began
// (KnownAttributes::contents), and by age, unless the server has said meanwhile that the file is unchanged.
// Nothing is read ahead with O_DIRECT, nor while the file is being written here. Other threads may make the READs
// (reads_elsewhere.h).
//
// Confined to the loop's thread.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "async/event.h"
#include "fs/counters.h"
#include "fs/inodes.h"
#include "fs/read_window.h"
#include "fs/reads_elsewhere.h"

namespace nfsrdma::fs {

/// Bytes that were read, and the objects that keep them alive.
struct ReadData {
  std::vector<std::shared_ptr<void>> holds;
  std::vector<iovec> pieces;
  std::size_t size = 0;
  /// To be kept until the reader has the bytes.
  std::shared_ptr<void> reading;
  void add(std::shared_ptr<void> hold, std::byte* data, std::size_t length) {
    if (length == 0) return;
    holds.push_back(std::move(hold));
    pieces.push_back({data, length});
    size += length;
  }
};

/// Returns the access that the flags of open(2) ask for.
[[nodiscard]] Access access_of(int flags);

class OpenHandle final : public std::enable_shared_from_this<OpenHandle>, private ReadWindow::Reader {
 public:
  /// `counters` and `window` must outlive this and the chunks that it has read ahead, and `elsewhere`, which may be null, the
  /// tasks of the loop.
  OpenHandle(async::Loop& loop, Counters& counters, ReadWindow& window, std::shared_ptr<Inode> inode,
             ServerFileRef file, Caller caller, ReadsElsewhere* elsewhere);
  ~OpenHandle() override;
  OpenHandle(const OpenHandle&) = delete;
  OpenHandle& operator=(const OpenHandle&) = delete;

  /// Fewer bytes than asked for mean the end of the file, so a read of which any part fails returns that error
  /// and no bytes. Bytes that were requested before `oldest` are used only if attributes that arrived since
  /// `oldest` have confirmed them.
  async::Task<Result<ReadData>> read(std::uint64_t offset, std::size_t size, async::TimePoint oldest);
  /// Returns true if read() would be exactly one READ to the server, and then notes the read's position for
  /// the detection of sequential reads.
  [[nodiscard]] bool begin_plain_read(std::uint64_t offset, std::size_t size);
  void drop_ahead() override;
  /// Takes the first bytes of the file, which were read while it was opened. They are dropped if there is no
  /// room for them.
  void has_read(async::Memory memory, std::size_t wanted, std::size_t got, async::TimePoint begun);
  [[nodiscard]] bool used_early() const { return used_early_; }

  [[nodiscard]] Inode& inode() { return *inode_; }
  [[nodiscard]] const Inode& inode() const { return *inode_; }
  [[nodiscard]] const std::shared_ptr<Inode>& shared_inode() const { return inode_; }
  [[nodiscard]] const ServerFileRef& file() const { return file_; }
  [[nodiscard]] const Caller& caller() const { return caller_; }
  bool closing = false;     ///< no program has it any more; its CLOSE is under way
  int flags = 0;            ///< flags of open(2)
  bool early_read = false;  ///< the call that opened the file was also to read its first bytes
  bool direct = false;      ///< O_DIRECT: nothing is read ahead
  /// Data that goes through this handle neither enters the kernel's pages nor drops any. The open may drop them.
  bool uncached = false;
  /// A close(2) returned before the data was on the server's disk, and the data is not known to be there yet.
  bool deferred = false;
  unsigned deferred_saves = 0;  ///< saves under way because of such a close(2)
  LateErrors::Listener errors;

 private:
  struct Chunk {
    Chunk(async::Loop& loop, Counters& c, ReadWindow& w, bool early, async::Memory m, std::size_t size)
        : counters(c), window(w), ahead(early), wanted(size), memory(std::move(m)), ended(loop) {
      if (ahead) window.hold(wanted);
    }
    ~Chunk() {
      if (!ahead) return;
      window.let_go(wanted);
      counters.ahead_bytes_unused += got - std::min(got, used);
    }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    Counters& counters;
    ReadWindow& window;
    const bool ahead;  // begun before a program asked for the bytes
    async::TimePoint begun;
    std::uint64_t offset = 0;
    const std::size_t wanted;
    std::size_t got = 0, used = 0;
    const async::Memory memory;
    bool done = false;
    bool as_opened = false;  // from has_read(): where the chunk ends, the file ends
    std::optional<Error> error;
    async::Event ended;
  };
  using ChunkRef = std::shared_ptr<Chunk>;
  ChunkRef begin(std::uint64_t offset, std::size_t size, bool ahead);
  static async::Task<void> fill(ServerFileRef file, ChunkRef chunk, ReadsElsewhere* elsewhere, bool direct);
  [[nodiscard]] bool is_waited_for() const override { return asked_ != 0; }
  [[nodiscard]] bool has(const ChunkRef& chunk) const;
  void is_used_up(const ChunkRef& chunk);
  void look_ahead(std::uint64_t offset, std::size_t size);
  void read_ahead(std::uint64_t end);
  void drop_stale(async::TimePoint oldest);

  async::Loop& loop_;
  Counters& counters_;
  std::shared_ptr<Inode> inode_;
  const ServerFileRef file_;
  const Caller caller_;  // the user who opened it
  ReadWindow& window_;
  ReadsElsewhere* const elsewhere_;
  std::map<std::uint64_t, ChunkRef> ahead_;  // by offset; chunks do not overlap
  std::uint64_t contents_ = 0;               // KnownAttributes::contents() when the chunks were begun
  std::uint64_t next_ = 0;                   // the offset behind the last read
  unsigned streak_ = 0;                      // number of sequential reads
  std::size_t asked_ = 0;                    // bytes that reads under way have asked for
  bool used_early_ = false;                  // a read used the bytes of has_read()
};

}  // namespace nfsrdma::fs
