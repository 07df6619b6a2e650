// The tests' server (tests/support) as a program, for fio's verify: unlike the responder it keeps what is written, and it
// looks at what the client does.
//
//     fio_server [PORT [full]]    prints "port=N", and ends at SIGTERM: with 1 where the client broke a rule, which it
//                                 prints. `full`: the disk is, as every COMMIT is told
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "bridge/listen.h"
#include "support/loopback.h"
#include "support/nfs_responder.h"

int main(int argc, char** argv) {
  using namespace nfsrdma;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  (void)::sigprocmask(SIG_BLOCK, &ends, nullptr);
  async::Loop loop;
  bool over = false;
  const int signals = ::signalfd(-1, &ends, SFD_CLOEXEC);
  loop.watch(signals, EPOLLIN, [&over](std::uint32_t) { over = true; });

  testing::Responder server(loop);
  if (argc > 2 && std::string_view(argv[2]) == "full") {
    server.state.rules.push_back(
        {nfs4::OP_COMMIT, nfs4::NFS4ERR_NOSPC, std::numeric_limits<unsigned>::max(), 0});
  }
  const auto port = static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 0);
  auto listener = bridge::listen(loop, {}, testing::loopback(port),
                                 [&server](auto incoming) { server.accept(std::move(incoming)); });
  if (!listener) {
    std::fprintf(stderr, "fio_server: %s\n", listener.error().text().c_str());
    return 2;
  }
  std::printf("port=%u\n", (*listener)->port());
  (void)std::fflush(stdout);
  while (!over) loop.turn(async::TimePoint::max());
  loop.unwatch(signals);
  ::close(signals);
  std::fputs(server.state.problems.c_str(), stderr);
  return server.state.problems.empty() ? 0 : 1;
}
