// Tests of Replies: a connection with one call out on it, and what may become of that call.
#pragma once

#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {

/// A connection with a grant, and one call out on it.
struct Asked {
  Driver driver;
  CallId id = 0;
  CallView call;

  explicit Asked(Call one, std::size_t segment_size = ~std::size_t{0}) {
    driver.establish();
    driver.memory.segment_size = segment_size;
    id = driver.submit(std::move(one));
    call = driver.take_sent();
  }
  /// What the caller gets when this Reply has come.
  Complete answered(const ReplyMaker& reply) {
    driver.reply(reply);
    return driver.take_completed();
  }
  /// The call is where it was: out, exposed, and holding its credit.
  void check_lives_on() {
    CHECK(driver.completed.empty());
    CHECK(driver.closes.empty());
    CHECK(driver.memory.live.size() == Driver::segments_of(call.header).size());
    CHECK(driver.requester.pending() == 1);
    // And can still be answered.
    CHECK(answered(ReplyMaker(call)).failure == Failure::none);
  }
  /// The call ended with `failure`, and its connection goes on.
  Complete check_ended(Failure failure) {
    Complete done = driver.take_completed();
    CHECK(done.failure == failure);
    REQUIRE(done.error);
    CHECK_FALSE(done.reply);
    CHECK(driver.memory.live.empty());
    CHECK(driver.closes.empty());
    driver.submit(plain_call());
    driver.reply(ReplyMaker(driver.take_sent()));
    CHECK(driver.take_completed().failure == Failure::none);
    return done;
  }
};

inline Octets results_of(std::initializer_list<std::uint32_t> words) {
  Octets out(words.size() * 4);
  std::byte* at = out.data();
  for (const std::uint32_t word : words) {
    xdr::store_u32(at, word);
    at += 4;
  }
  return out;
}

inline Call large_call(Octets& first, Octets& second) {
  Call call = plain_call(128);
  call.results = {{first, false}, {second, false}};
  call.reply_max_reduced = 400;
  call.reply_max_inline = 400 + first.size() + second.size();
  return call;
}

inline Call expecting(std::uint64_t reply) {
  Call call = plain_call();
  call.reply_max_inline = call.reply_max_reduced = reply;
  return call;
}

}  // namespace nfsrdma::rpcrdma::testing
