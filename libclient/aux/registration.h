// A program's registration with this machine's own rpcbind, where a server looks up the programs that it
// wants to call.
//
//     const Service service{kNlmProgram, 4, Wire::tcp};
//     auto place = co_await Registration::take(loop, service, server->address(), deadline);
//     ...
//     co_await place->give_up(deadline);
//
// If another program has the registration and does not answer, it is taken over, because a program that was
// killed leaves its registration behind. The machine's own lockd takes the registration whenever it starts,
// without asking; this client does not notice that.
//
// Confined to the loop's thread. A Registration that is destroyed without give_up() leaves the entry in
// rpcbind.
#pragma once

#include <memory>

#include "aux/rpcbind.h"

namespace nfsrdma::aux {

class Registration {
 public:
  /// Registers the service at address `at`. EADDRINUSE: another program has the registration, and answers.
  /// Other Errors: there is no rpcbind, or it refuses.
  static async::Task<Result<std::unique_ptr<Registration>>> take(async::Loop& loop, Service service,
                                                                 rpc::Address at, async::TimePoint deadline);
  /// Returns success if take() would find the registration free.
  static async::Task<Status> look(async::Loop& loop, Service service, int family, async::TimePoint deadline);

  Registration(async::Loop& loop, const Service& service, rpc::Address at)
      : loop_(loop), service_(service), at_(at) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  /// Removes the registration, unless another program has taken it by now.
  async::Task<void> give_up(async::TimePoint deadline);

 private:
  async::Loop& loop_;
  const Service service_;
  const rpc::Address at_;
};

}  // namespace nfsrdma::aux
