#include "support/nfs_server_content.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::testing {

void Content::add(Ranges& ranges, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second >= begin) --at;
  while (at != ranges.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = ranges.erase(at);
  }
  ranges[begin] = end;
}

void Content::cut(Ranges& ranges, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second > begin) --at;
  while (at != ranges.end() && at->first < end) {
    const auto [from, to] = *at;
    at = ranges.erase(at);
    if (from < begin) ranges[from] = begin;
    if (to > end) ranges[end] = to;
  }
}

/// Stable storage's bytes of [begin, end), where they are not kept already.
void Content::save(std::uint64_t begin, std::uint64_t end) {
  const auto keep = [this](std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    const std::uint64_t known = std::min({to, stable_size_, size()});
    std::string old = known > from ? data_.substr(from, known - from) : "";
    old.resize(to - from);
    saved_[from] = std::move(old);
  };
  auto at = saved_.upper_bound(begin);
  if (at != saved_.begin()) {
    const auto before = std::prev(at);
    begin = std::max(begin, before->first + before->second.size());
  }
  while (begin < end) {
    const std::uint64_t stop = at == saved_.end() ? end : std::min(end, at->first);
    const std::uint64_t next = at == saved_.end() ? end : at->first + at->second.size();
    keep(begin, stop);
    begin = std::max(stop, next);
    if (at != saved_.end()) ++at;
  }
}

void Content::forget(std::uint64_t begin, std::uint64_t end) {
  auto at = saved_.upper_bound(begin);
  if (at != saved_.begin() && std::prev(at)->first + std::prev(at)->second.size() > begin) --at;
  while (at != saved_.end() && at->first < end) {
    const std::uint64_t from = at->first;
    const std::string text = std::move(at->second);
    at = saved_.erase(at);
    if (from < begin) saved_[from] = text.substr(0, begin - from);
    if (from + text.size() > end) saved_[end] = text.substr(end - from);
  }
}

std::string Content::stable() const {
  Content copy = *this;
  copy.lose();
  return std::move(copy.data_);
}

std::uint64_t Content::volatile_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [begin, text] : saved_) total += text.size();
  return total;
}

void Content::assign(std::string text) {
  *this = Content();
  data_ = std::move(text);
  stable_size_ = data_.size();
}

void Content::write(std::uint64_t offset, std::string_view bytes, bool stable) {
  if (bytes.empty()) return;
  const std::uint64_t end = offset + bytes.size(), old = size();
  if (!stable) save(offset, end);
  if (end > old) {
    add(holes_, old, offset);
    data_.resize(end);
  }
  data_.replace(offset, bytes.size(), bytes);
  cut(holes_, offset, end);
  if (!stable) return;
  forget(offset, end);
  stable_size_ = std::max(stable_size_, end);
}

void Content::resize(std::uint64_t size) {
  add(holes_, this->size(), size);
  data_.resize(size);
  forget(size, ~0ULL);
  cut(holes_, size, ~0ULL);
  stable_size_ = size;
}

void Content::punch(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, size());
  if (begin >= end) return;
  std::fill(data_.begin() + static_cast<std::ptrdiff_t>(begin),
            data_.begin() + static_cast<std::ptrdiff_t>(end), '\0');
  forget(begin, end);
  add(holes_, begin, end);
}

void Content::commit(std::uint64_t begin, std::uint64_t end) {
  end = std::min(end, size());
  forget(begin, end);
  if (begin < end) stable_size_ = std::max(stable_size_, end);
}

void Content::lose() {
  for (const auto& [begin, text] : saved_) {
    if (size() < begin + text.size()) data_.resize(begin + text.size());
    data_.replace(begin, text.size(), text);
    cut(holes_, begin, begin + text.size());
  }
  saved_.clear();
  data_.resize(stable_size_);
  cut(holes_, stable_size_, ~0ULL);
}

void Content::declare_data(std::uint64_t begin, std::uint64_t end) {
  if (!declared_) {
    declared_ = true;
    holes_.clear();
    add(holes_, 0, size());
  }
  cut(holes_, begin, end);
}

bool Content::is_data(std::uint64_t offset) const {
  const auto after = holes_.upper_bound(offset);
  return after == holes_.begin() || std::prev(after)->second <= offset;
}

std::uint64_t Content::end_of_piece(std::uint64_t offset) const {
  const auto after = holes_.upper_bound(offset);
  if (after != holes_.begin() && std::prev(after)->second > offset) return std::prev(after)->second;
  return after == holes_.end() ? size() : after->first;
}

std::uint64_t Content::space_used() const {
  std::uint64_t out = size();
  for (const auto& [begin, end] : holes_) out -= end - begin;
  return out;
}

}  // namespace nfsrdma::testing
