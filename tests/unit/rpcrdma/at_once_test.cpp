// A fabric that sends short Calls as copies and takes memory back at once (Exposer): what becomes of the order of things,
// of credits, and of what is given up.
#include "support/rpcrdma_driver.h"

namespace nfsrdma::rpcrdma::testing {
namespace {

/// Connected, with `credits`, over a fabric that does at once what it can.
struct Scene {
  explicit Scene(std::uint32_t credits = 32) {
    driver.at_once();
    driver.establish(credits);
    driver.revokes.clear();
  }
  /// Makes a READ; what was sent for it.
  CallView send_read() {
    driver.submit(read_call(destination));
    return driver.take_sent();
  }
  Driver driver;
  Octets destination = Octets(4096);
};

TEST_CASE("at once: a READ is sent, answered and completed without an action but its end") {
  Scene scene;
  Driver& driver = scene.driver;
  const CallId id = driver.requester.submit(read_call(scene.destination), driver.now);
  REQUIRE(driver.sent.size() == 1);  // before any action was taken
  const CallView call = driver.take_sent();
  CHECK(call.cookie == id);
  REQUIRE(call.header.rdma_writes.segment_count() == 1);
  CHECK(driver.memory.write(call.header.rdma_writes.segments()[0], pattern(4096)));
  driver.reply(ReplyMaker(call).fill(call, 0, 4096));
  CHECK(driver.memory.live.empty());
  CHECK(driver.revokes.empty());
  const Complete done = driver.take_completed();
  CHECK(done.id == id);
  CHECK(done.failure == Failure::none);
  CHECK(done.sends == 1);
  CHECK(scene.destination == pattern(4096));
}

TEST_CASE("at once: a Call does not overtake the Receive for its Reply") {
  // The Driver refuses a Send without one. The first Call of a connection finds none, and neither does Scene's.
  Scene scene(64);
  Driver& driver = scene.driver;
  for (int i = 0; i < 40; ++i) driver.requester.submit(plain_call(), driver.now);
  driver.run();
  CHECK(driver.sent.size() == 40);
  while (!driver.sent.empty()) driver.reply(ReplyMaker(driver.take_sent(), 64));
  CHECK(driver.completed.size() == 40);
}

TEST_CASE("at once: what was sent cannot be taken back; given up, it is abandoned and holds its credit") {
  Scene scene;
  Driver& driver = scene.driver;
  const CallId id = driver.requester.submit(read_call(scene.destination), driver.now);
  driver.requester.cancel(id, driver.now);
  driver.run();
  const CallView call = driver.take_sent();
  CHECK(driver.take_completed().failure == Failure::cancelled);
  REQUIRE(driver.revokes.size() == 1);  // the server may still name it: that needs its name to be kept
  CHECK(driver.revokes[0].abandoned);
  CHECK(driver.memory.live.empty());
  CHECK(driver.requester.in_flight() == 1);
  driver.reply(ReplyMaker(call));
  CHECK(driver.requester.in_flight() == 0);
  CHECK(driver.forgets.size() == 1);
  CHECK(driver.completed.empty());
}

TEST_CASE("at once: a lost connection has the call sent again, as a copy of what is marshalled anew") {
  Scene scene;
  Driver& driver = scene.driver;
  const CallView first = scene.send_read();
  driver.disconnect();
  driver.pass(1s);
  driver.connect();
  const CallView second = driver.take_sent();
  CHECK(second.xid() == first.xid());
  CHECK(second.header.rdma_writes.segments()[0].handle != first.header.rdma_writes.segments()[0].handle);
  driver.reply(ReplyMaker(second).fill(second, 0, 100));
  const Complete done = driver.take_completed();
  CHECK(done.failure == Failure::none);
  CHECK(done.sends == 2);
}

TEST_CASE("at once: memory is out of reach before a broken Reply is complained about") {
  Scene scene;
  Driver& driver = scene.driver;
  const CallView call = scene.send_read();
  driver.reply(ReplyMaker(call).fill(call, 0, 4096 + 1));  // as much as there is room for: no fault
  CHECK(driver.take_completed().failure == Failure::none);
  const CallView next = scene.send_read();
  ReplyMaker bad(next);
  bad.header.rdma_writes.clear();
  bad.header.rdma_writes.add_chunk();
  bad.header.rdma_writes.add_segment({1, 0, 0});
  driver.reply(bad);
  CHECK(driver.memory.live.empty());
  CHECK(driver.take_completed().failure == Failure::bad_reply);
}

}  // namespace
}  // namespace nfsrdma::rpcrdma::testing
