// How many bytes are read ahead of those who read files in sequence, and the memory that this may take.
//
// For one reader: twice of what the way to the server holds (pace.h: bandwidth times delay, and the request that is
// being taken in), as long as that is no less than two requests and no more than kMostOfOne. All that is asked for
// ahead of where the reader stands counts, be it by the kernel, which reads ahead by itself, or here.
//
// For all of them: `most` bytes in memory. Each reader has its equal share of them, or one request if that is more, as
// long as there is room. Where there is none, those make room who have not read for kPause; if that is not enough, who
// comes too late gets nothing ahead of him. Who has not read for kIdle loses what he has in any case.
//
// A Reader is an open file (open_handle.h). It is counted among the readers from when its reads were seen to follow
// each other, or bytes came while it was opened, until its reads follow each other no longer. What it has read ahead is its own; here its bytes are counted (hold(), let_go()).
//
// It must outlive its Readers and what they have read ahead. Confined to the loop's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>

#include "async/loop.h"
#include "fs/counters.h"
#include "fs/pace.h"

namespace nfsrdma::fs {

class ReadWindow {
 public:
  static constexpr std::size_t kMostOfOne = 32U << 20;
  static constexpr async::Clock::duration kPause = std::chrono::seconds(1), kIdle = std::chrono::seconds(5);
  /// READs below this are not measured: they are many, and tell of nothing but themselves.
  static constexpr std::size_t kLeastMeasured = 64U << 10;

  class Reader {
   public:
    virtual ~Reader() { leave(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    /// What it has is of no use, or in the way.
    virtual void drop_ahead() = 0;
    /// Somebody waits for bytes of it, and so it is not idle, however long that takes.
    [[nodiscard]] virtual bool is_waited_for() const = 0;

   protected:
    explicit Reader(ReadWindow& all) : all_(all) {}
    /// Called when the reader has read something that follows what it read before, or has bytes that came with the opening.
    void join();
    void leave();
    [[nodiscard]] bool has_joined() const { return joined_; }

   private:
    friend class ReadWindow;
    void reads_now();
    ReadWindow& all_;
    bool joined_ = false;
    async::TimePoint read_at_{};
    std::list<Reader*>::iterator place_;  // in readers_
  };

  /// `rsize`: of one READ, at most. `most`: bytes that all readers may have in memory.
  ReadWindow(async::Loop& loop, std::uint32_t rsize, std::size_t most);
  ~ReadWindow();
  ReadWindow(const ReadWindow&) = delete;
  ReadWindow& operator=(const ReadWindow&) = delete;

  [[nodiscard]] std::size_t rsize() const { return pace_.request(); }

  // ---- measuring ----
  [[nodiscard]] bool measures(std::size_t size) const { return size >= measured_; }
  void began(std::size_t size) { pace_.began(size, loop_.now()); }
  /// 0: it failed.
  void ended(std::size_t asked, std::size_t got, async::TimePoint begun);

  // ---- what may be ahead ----
  /// Of one reader if he is the only one: as it is shown, and as the kernel may be told.
  [[nodiscard]] Window window() const;
  /// Of each of those that there are.
  [[nodiscard]] std::size_t share() const;
  /// Room for so many bytes more, which `reader` wants; others may have to drop what they have for it.
  [[nodiscard]] bool make_room(std::size_t size, const Reader& reader);
  void hold(std::size_t size) { held_ += size; }
  void let_go(std::size_t size) { held_ -= size; }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t readers() const { return readers_.size(); }

  /// `sink`: told of window().bytes when it has become half as much again, or half.
  void on_change(std::function<void(std::size_t)> sink) { sink_ = std::move(sink); }

 private:
  void drop_idle();
  void drop_idle_later();
  void tell();

  async::Loop& loop_;
  Pace pace_;
  const std::size_t measured_, most_;
  std::size_t held_ = 0;
  std::list<Reader*> readers_;  // who has not read for longest stands first
  async::Loop::TimerId timer_ = 0;
  std::function<void(std::size_t)> sink_;
  std::size_t told_;
};

}  // namespace nfsrdma::fs
