// A program's place in this machine's own rpcbind, where a server looks for whom it wants to call.
//
//     auto place = co_await Registration::take(loop, {kNlmProgram, 4, Wire::tcp}, server->address(), deadline);
//     …
//     co_await place->give_up(deadline);
//
// A place that somebody has who does not answer any more is taken over: a program that was killed leaves its own
// behind. The machine's own lockd takes the place whenever it starts, and is not asked; that is not noticed here.
//
// Confined to the loop's thread. One that is destroyed without give_up() leaves the place as it is.
#pragma once

#include <memory>

#include "aux/rpcbind.h"

namespace nfsrdma::aux {

class Registration {
 public:
  /// EADDRINUSE: somebody has it, and answers. Other Errors: there is no rpcbind, or it does not give it.
  static async::Task<Result<std::unique_ptr<Registration>>> take(async::Loop& loop, Service service,
                                                                 rpc::Address at, async::TimePoint deadline);
  /// Whether take() would find the place free.
  static async::Task<Status> look(async::Loop& loop, Service service, int family, async::TimePoint deadline);

  Registration(async::Loop& loop, const Service& service, rpc::Address at)
      : loop_(loop), service_(service), at_(at) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  /// Unless somebody else has taken it by now.
  async::Task<void> give_up(async::TimePoint deadline);

 private:
  async::Loop& loop_;
  const Service service_;
  const rpc::Address at_;
};

}  // namespace nfsrdma::aux
