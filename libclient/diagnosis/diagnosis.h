// Finds out why a target cannot be used, or is slow: a series of steps from the name of the server to the rights on the
// path. Each step asks the lowest layer at which its question has an answer, by the code that a client uses itself.
//
//     Diagnosis diagnosis(loop, target, wanted, Means::system());
//     const auto failures = diagnosis.run(report, interrupt);
//
// The steps, in their order:
//
//     resolve route device port       to the server's port, without RDMA        network.cpp
//     connection private-data         the RDMA connection                       transport.cpp
//     null mtu versions latency jitter  RPC on that connection                  transport.cpp
//     security session backchannel    a client as for real use                  session.cpp
//     export replies rights read write  the path                                path.cpp
//     sizes credits                   what limits the throughput                figures.cpp
//     verdict                         the cause, and what to change             verdict.cpp
//
// `mtu` comes early because after it every step with larger messages would wait in vain. `security` comes before
// `session` because with Kerberos the session's first call needs a security context.
//
// If a step fails without which the later ones cannot work, these are reported as skipped. Every step has a deadline, and
// the whole diagnosis has one.
//
// The session that a diagnosis opens is closed at its end. Nothing is changed on the server, unless Wanted::write is
// set: then one file is made and removed.
//
// Confined to the loop's thread, which run() blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/loop.h"
#include "connect/server.h"
#include "diagnosis/finding.h"

namespace nfsrdma::diagnosis {

/// Examinations that a diagnosis makes only if they are asked for, and its limit.
struct Wanted {
  std::string read;    ///< a file to read from: an absolute path, or one below the target's; empty: none
  bool write = false;  ///< make a file in the target's directory, and remove it
  std::chrono::milliseconds limit{30000};  ///< for the whole diagnosis
};

/// How packets leave this machine towards an address.
struct Way {
  std::string source, interface;
  unsigned mtu = 0;       ///< of the interface; 0: unknown
  unsigned path_mtu = 0;  ///< as far as the kernel knows; 0: unknown
};

/// An attempt to make a TCP connection.
struct Knock {
  int failed = 0;                         ///< 0 or an errno
  std::shared_ptr<void> connection = {};  ///< closes the connection when it is destroyed
};

/// Functions by which a diagnosis reaches the world. system() fills this in from the operating system; tests make their own.
struct Means {
  using Addresses = Result<std::vector<rpc::Address>>;

  connect::Surroundings around;
  std::function<Addresses(const std::string& host, std::uint16_t port, async::TimePoint deadline,
                          int interrupt)>
      resolve;
  std::function<Result<Way>(const rpc::Address&)> route;
  /// Makes a TCP connection.
  std::function<async::Task<Knock>(async::Loop&, rpc::Address, async::TimePoint)> knock;
  [[nodiscard]] static Means system();
};

class Examination;

class Diagnosis {
 public:
  Diagnosis(async::Loop& loop, connect::Target target, Wanted wanted, Means means);
  ~Diagnosis();
  Diagnosis(const Diagnosis&) = delete;
  Diagnosis& operator=(const Diagnosis&) = delete;

  /// Runs the steps and reports each of them; the verdict is the last. Returns the number of steps that failed.
  /// Fails only if `interrupt`, a descriptor or -1, became readable.
  Result<std::size_t> run(const Report& report, int interrupt);

 private:
  const std::unique_ptr<Examination> examination_;
};

}  // namespace nfsrdma::diagnosis
