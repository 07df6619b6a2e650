#include "fs/read_window.h"

#include <utility>

#include "async/buggify.h"

namespace nfsrdma::fs {

ReadWindow::ReadWindow(async::Loop& loop, std::uint32_t rsize, std::size_t most)
    : loop_(loop), pace_(rsize), measured_(std::min<std::size_t>(kLeastMeasured, rsize)), most_(most) {}

ReadWindow::~ReadWindow() {
  if (timer_ != 0) loop_.cancel(timer_);
}

void ReadWindow::ended(std::size_t asked, std::size_t got, async::TimePoint begun) {
  pace_.ended(asked, got, begun, loop_.now());
}

Window ReadWindow::window() const {
  const std::size_t least = std::min(2 * rsize(), kMostOfOne), product = pace_.product();
  Window out{pace_.bandwidth(), pace_.delay(), product, 2 * (product + rsize()), Window::Why::product};
  if (out.bytes >= kMostOfOne) {
    out.bytes = kMostOfOne;
    out.why = Window::Why::memory;
  } else if (product < rsize()) {
    out.why = pace_.bandwidth() > 0 ? Window::Why::requests : Window::Why::first;
  }
  out.bytes = std::max(out.bytes, least);
  return out;
}

std::size_t ReadWindow::share() const {
  const std::size_t wanted = pace_.looks() ? rsize() : window().bytes;
  const std::size_t all = std::max<std::size_t>(readers_.size(), 1);
  return std::min(wanted, std::max(most_ / all, rsize()));
}

bool ReadWindow::make_room(std::size_t size, const Reader& reader) {
  const async::TimePoint paused = loop_.now() - kPause;
  while (held_ + size > most_ || async::buggify(loop_)) {
    if (readers_.empty()) return false;
    Reader& oldest = *readers_.front();
    if (&oldest == &reader || (oldest.read_at_ > paused && !async::buggify(loop_))) return false;
    if (oldest.is_waited_for()) {
      oldest.reads_now();
      continue;
    }
    oldest.drop_ahead();
    oldest.leave();
  }
  return true;
}

void ReadWindow::Reader::join() {
  if (!std::exchange(joined_, true)) place_ = all_.readers_.insert(all_.readers_.end(), this);
  reads_now();
  all_.drop_idle_later();
}

void ReadWindow::Reader::reads_now() {
  all_.readers_.splice(all_.readers_.end(), all_.readers_, place_);
  read_at_ = all_.loop_.now();
}

void ReadWindow::Reader::leave() {
  if (std::exchange(joined_, false)) all_.readers_.erase(place_);
}

void ReadWindow::drop_idle_later() {
  if (timer_ != 0) return;
  timer_ = loop_.at(readers_.front()->read_at_ + kIdle, [this] {
    timer_ = 0;
    drop_idle();
  });
}

void ReadWindow::drop_idle() {
  while (!readers_.empty() && readers_.front()->read_at_ + kIdle <= loop_.now()) {
    Reader& idle = *readers_.front();
    if (idle.is_waited_for()) {
      idle.reads_now();
      continue;
    }
    idle.drop_ahead();
    idle.leave();
  }
  if (!readers_.empty()) drop_idle_later();
}

}  // namespace nfsrdma::fs
