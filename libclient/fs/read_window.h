// The number of bytes that are read ahead of sequential readers, and the memory that this may take.
//
// For one reader: twice what the path to the server holds (bandwidth times delay, pace.h, plus the request
// that is being received), but at least two requests and at most kMostOfOne. All bytes that are requested
// ahead of the reader's position count, whether the kernel's own read-ahead asked for them or this client's.
//
// For all readers: `most` bytes of memory. Each reader may have an equal share, or one request if that is
// more, as long as there is room. If there is no room, readers that have not read for kPause lose their
// bytes; if that is not enough, the reader that asks gets none. A reader that has not read for kIdle loses
// its bytes in any case.
//
// A Reader is an open file (open_handle.h). It counts as a reader from the time its reads were found to be
// sequential, or bytes came while it was opened, until its reads are no longer sequential. It owns the bytes
// that it has read ahead; this class only counts them (hold(), let_go()).
//
// A window is a number of bytes. OpenHandle::read_ahead() divides it by rsize and sends the READs.
//
// The object must outlive its Readers and what they have read ahead. Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>

#include "async/loop.h"
#include "fs/counters.h"
#include "fs/pace.h"

namespace nfsrdma::fs {

class ReadWindow {
 public:
  static constexpr std::size_t kMostOfOne = 32U << 20;
  static constexpr async::Clock::duration kPause = std::chrono::seconds(1), kIdle = std::chrono::seconds(5);
  /// READs below this size are not measured: they are many, and their time says little about the path.
  static constexpr std::size_t kLeastMeasured = 64U << 10;

  class Reader {
   public:
    virtual ~Reader() { leave(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    /// Drops the bytes that were read ahead, because they are useless or their memory is needed.
    virtual void drop_ahead() = 0;
    /// Returns whether a task waits for bytes of this reader. It is not idle then, however long that takes.
    [[nodiscard]] virtual bool is_waited_for() const = 0;

   protected:
    explicit Reader(ReadWindow& all) : all_(all) {}
    /// Called when the reader has read something that follows what it read before, or has bytes that came
    /// with the opening.
    void join();
    void leave();
    [[nodiscard]] bool has_joined() const { return joined_; }

   private:
    friend class ReadWindow;
    void reads_now();
    ReadWindow& all_;
    bool joined_ = false;
    async::TimePoint read_at_{};
    std::list<Reader*>::iterator place_;  // its place in readers_
  };

  /// `rsize` is the largest size of one READ, `most` the number of bytes that all readers may have in memory.
  ReadWindow(async::Loop& loop, std::uint32_t rsize, std::size_t most);
  ~ReadWindow();
  ReadWindow(const ReadWindow&) = delete;
  ReadWindow& operator=(const ReadWindow&) = delete;

  [[nodiscard]] std::size_t rsize() const { return pace_.request(); }

  // ---- measuring ----
  [[nodiscard]] bool measures(std::size_t size) const { return size >= measured_; }
  void began(std::size_t size) { pace_.began(size, loop_.now()); }
  /// Called when a measured READ has ended. `got` is 0 if it failed.
  void ended(std::size_t asked, std::size_t got, async::TimePoint begun);

  // ---- limits of read-ahead ----
  /// Returns the window of a single reader.
  [[nodiscard]] Window window() const;
  /// Returns the number of bytes that each of the present readers may have ahead.
  [[nodiscard]] std::size_t share() const;
  /// Makes room for `size` more bytes of `reader`; other readers may have to drop theirs. Returns false if
  /// there is no room.
  [[nodiscard]] bool make_room(std::size_t size, const Reader& reader);
  void hold(std::size_t size) { held_ += size; }
  void let_go(std::size_t size) { held_ -= size; }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t readers() const { return readers_.size(); }

 private:
  void drop_idle();
  void drop_idle_later();

  async::Loop& loop_;
  Pace pace_;
  const std::size_t measured_, most_;
  std::size_t held_ = 0;
  std::list<Reader*> readers_;  // in the order of their last reads, oldest first
  async::Loop::TimerId timer_ = 0;
};

}  // namespace nfsrdma::fs
