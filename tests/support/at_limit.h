// A process that has reached its limits, for as long as one of these lives: hardly a descriptor is left, or no thread.
//
// The process is one for all tests, so other threads of theirs are at the limit as well.
#pragma once

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "support/skipped.h"

namespace nfsrdma::testing {

/// Sanitizers need descriptors and stacks of their own to look whether memory is there, and take it for broken otherwise.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

/// For a test case that is nothing without its limits.
inline bool skips_under_sanitizers() {
  if (kSanitized) skip("a sanitizer does not work at these limits");
  return kSanitized;
}

/// So many descriptors can be had, and no more. Those that are open go on.
class FewDescriptors {
 public:
  explicit FewDescriptors(unsigned left) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    // The lowest that is free comes first.
    std::vector<int> free;
    while (free.size() <= left) {
      free.push_back(::eventfd(0, EFD_CLOEXEC));
      REQUIRE(free.back() >= 0);
    }
    for (const int one : free) ::close(one);
    const rlimit few{static_cast<rlim_t>(free.back()), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~FewDescriptors() { CHECK(::setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// No thread can be started: its stack would be larger than the address space. RLIMIT_NPROC does not count for root.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    REQUIRE(::pthread_getattr_default_np(&before_) == 0);
    REQUIRE(::pthread_getattr_default_np(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50U) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    CHECK(::pthread_setattr_default_np(&before_) == 0);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace nfsrdma::testing
