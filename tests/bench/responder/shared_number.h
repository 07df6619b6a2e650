// A number that several threads read and change at the same time. Who reads a value also sees what its writer did
// before, for example the bytes that a file's new size covers.
#pragma once

#include <atomic>

namespace nfsrdma::bench {

template <class T>
class SharedNumber {
 public:
  explicit SharedNumber(T value) : value_(value) {}
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  SharedNumber& operator=(T value) {
    value_.store(value, std::memory_order_release);
    return *this;
  }
  [[nodiscard]] T get() const { return value_.load(std::memory_order_acquire); }
  operator T() const { return get(); }  // NOLINT: it is a number
  SharedNumber& operator++() {
    value_.fetch_add(1, std::memory_order_acq_rel);
    return *this;
  }
  /// Sets the number to `least` if it is smaller.
  void raise_to(T least) {
    T now = value_.load(std::memory_order_acquire);
    while (now < least && !value_.compare_exchange_weak(now, least, std::memory_order_acq_rel)) {
    }
  }

 private:
  std::atomic<T> value_;
};

}  // namespace nfsrdma::bench
