// RPC programs on this machine, for tests of what goes over TCP and UDP: one port, one thread, an answer from a
// function of the test's. Own code, since libtirpc's server registers with the machine's rpcbind and keeps its
// state for the whole process.
//
//     RpcPrograms programs;
//     programs.serve<aux::MNT3>([](const aux::dirpath& args) { return aux::mountres3(); });
//     … programs.address(), programs.calls() …
//
// Any thread; serve() before the first call comes.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "rpc/channel.h"
#include "xdr/xdr.h"

namespace nfsrdma::testing {

class RpcPrograms {
 public:
  using Octets = std::vector<std::byte>;
  /// Arguments in, results out; none: no answer at all.
  using Handler = std::function<std::optional<Octets>(xdr::ConstBytes arguments)>;

  /// AF_INET: on 127.0.0.1, AF_INET6: on ::1; for TCP and UDP.
  explicit RpcPrograms(int family = AF_INET);
  /// Whether this machine has that address.
  [[nodiscard]] static bool possible(int family);
  ~RpcPrograms();
  RpcPrograms(const RpcPrograms&) = delete;
  RpcPrograms& operator=(const RpcPrograms&) = delete;

  [[nodiscard]] rpc::Address address() const;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  void serve(std::uint32_t program, std::uint32_t version, std::uint32_t procedure, Handler handler);
  template <class P, class Answer>
  void serve(Answer answer) {
    serve(P::program, P::version, P::number, [answer](xdr::ConstBytes arguments) -> std::optional<Octets> {
      typename P::Args args{};
      xdr::Decoder in(arguments);
      if (!xdr::decode(in, args)) return std::nullopt;
      xdr::Message message;
      xdr::Encoder out(message);
      xdr::encode(out, answer(args));
      const auto bytes = message.stream.bytes();
      return Octets(bytes.begin(), bytes.end());
    });
  }
  /// From now on the program is not known here.
  void withdraw(std::uint32_t program);
  /// What came, in order: "100005.3.1/tcp".
  [[nodiscard]] std::vector<std::string> calls() const;
  /// TCP connections are refused, or datagrams are not looked at, from now on.
  void close_tcp();
  void close_udp() { no_udp_ = true; }
  /// From now on TCP connections are taken, and calls over them get no answer.
  void silence_tcp() { silent_tcp_ = true; }
  /// Ends the TCP connections that there are.
  void hang_up();
  /// How many there have been.
  [[nodiscard]] unsigned connections() const { return accepted_; }

 private:
  void run();
  std::optional<Octets> answer(xdr::ConstBytes call, const char* over);
  void take_connection();
  bool take_record(int fd);

  const int family_;
  std::uint16_t port_ = 0;
  int listening_ = -1, datagrams_ = -1, stop_ = -1;
  std::atomic<bool> no_udp_ = false, silent_tcp_ = false, hangs_up_ = false;
  std::atomic<unsigned> accepted_ = 0;
  std::vector<int> connections_;  // the thread's
  mutable std::mutex mutex_;      // guards what follows
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Handler> handlers_;
  std::vector<std::string> calls_;
  std::thread thread_;
};

}  // namespace nfsrdma::testing
