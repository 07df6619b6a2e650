// nfsrdma-bridge: the responder's side of RPC-over-RDMA version 1 in front of any NFS server on TCP.
//
// It is a test program: no access control, no rate limits, one loop. See README.md beside it.
#include <netdb.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include "bridge/bridge.h"
#include "fabric/address.h"

namespace po = boost::program_options;
using namespace nfsrdma;
using namespace nfsrdma::bridge;

namespace {

Error usage(std::string what, std::string subject, std::string message) {
  return {ErrorKind::usage, EINVAL, std::move(what), std::move(subject), std::move(message)};
}

/// "127.0.0.1:2049", "[::1]:2049", "name:2049".
Result<sockaddr_storage> parse_address(const std::string& option, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == text.size())
    return usage(option, text, "it takes ADDRESS:PORT, as in 127.0.0.1:2049");
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int rc =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (rc != 0) return usage(option, text, std::string("no such address: ") + ::gai_strerror(rc));
  sockaddr_storage out{};
  std::memcpy(&out, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return out;
}

struct Settings {
  BridgeOptions bridge;
  std::string log_file;
  bool verbose = false, help = false;
  int ready_fd = -1;
};

po::options_description described(Settings& s, std::string& listen, std::string& server, std::string& crc,
                                  std::vector<std::string>& faults, bool& no_private_data) {
  SessionOptions& session = s.bridge.session;
  po::options_description out("Options", 100);
  auto add = out.add_options();
  add("help,h", po::bool_switch(&s.help), "print this");
  add("listen", po::value(&listen)->value_name("ADDR:PORT"), "where RDMA clients connect; port 0: any");
  add("server", po::value(&server)->value_name("HOST:PORT")->default_value("127.0.0.1:2049"),
      "the NFS server, on TCP");
  add("fabric", po::value(&s.bridge.fabric.fabric)->value_name("NAME")->default_value("iwarp"),
      "iwarp or verbs");
  add("crc", po::value(&crc)->value_name("auto|on|off")->default_value("auto"),
      "CRC on iWARP: as the client asks, always, or refused");
  add("credits", po::value(&session.credits)->value_name("N")->default_value(session.credits),
      "Calls under way that each client is granted");
  add("inline-send", po::value(&session.inline_send)->value_name("BYTES")->default_value(session.inline_send),
      "largest message to send");
  add("inline-receive",
      po::value(&session.inline_receive)->value_name("BYTES")->default_value(session.inline_receive),
      "largest message to receive");
  add("no-private-data", po::bool_switch(&no_private_data), "announce nothing (RFC 8797): 1024 bytes inline");
  add("remote-invalidation", po::bool_switch(&session.remote_invalidation),
      "offer it, and do it where the client agrees");
  add("report-holes", po::bool_switch(&session.reports_holes),
      "report blocks of zeros in READ_PLUS's data as holes");
  add("fault", po::value(&faults)->value_name("NAME[=RATE|N]")->composing(),
      "commit this fault (below); may be given several times");
  add("seed", po::value(&s.bridge.seed)->value_name("N")->default_value(1), "of the faults' dice");
  add("log", po::value(&s.log_file)->value_name("FILE"), "append a log there");
  add("verbose,v", po::bool_switch(&s.verbose), "log to stderr");
  add("ready-fd", po::value(&s.ready_fd)->value_name("FD"),
      "print \"listening on ADDR:PORT\" there when ready, instead of to stdout");
  return out;
}

Status check(const SessionOptions& session) {
  for (const std::uint32_t size : {session.inline_send, session.inline_receive}) {
    if (size < rpcrdma::kDefaultThreshold || size > rpcrdma::kLargestSize || size % rpcrdma::kSizeUnit != 0)
      return usage("inline threshold", std::to_string(size),
                   "it is a multiple of 1024, up to 262144 (RFC 8797)");
  }
  if (session.credits == 0 || session.credits > 4096)
    return usage("--credits", std::to_string(session.credits), "it takes 1 to 4096");
  return {};
}

Result<Settings> parse(int argc, char** argv, std::string& help) {
  Settings settings;
  std::string listen, server, crc;
  std::vector<std::string> faults;
  bool no_private_data = false;
  const auto options = described(settings, listen, server, crc, faults, no_private_data);
  std::ostringstream text;
  text << "usage: nfsrdma-bridge --listen ADDR:PORT [OPTION ...]\n"
          "RPC-over-RDMA version 1 in front of an NFS server on TCP, with faults on demand.\n\n"
       << options << "\nFaults (RATE: the share of Replies that it strikes, " << kDefaultRate
       << " by default; N: a number):\n"
       << fault_help();
  help = text.str();
  try {
    po::variables_map values;
    po::store(po::command_line_parser(argc, argv).options(options).positional({}).run(), values);
    po::notify(values);
  } catch (const po::error& e) {
    return usage("", "", std::string(e.what()) + "; see --help");
  }
  if (settings.help) return settings;
  BridgeOptions& bridge = settings.bridge;
  if (listen.empty()) return usage("", "", "--listen ADDR:PORT is needed; see --help");
  if (crc == "on")
    bridge.fabric.crc = fabric::iwarp::CrcPolicy::on;
  else if (crc == "off")
    bridge.fabric.crc = fabric::iwarp::CrcPolicy::off;
  else if (crc != "auto")
    return usage("--crc", crc, "it takes auto, on or off");
  const auto from = parse_address("--listen", listen);
  if (!from) return from.error();
  const auto to = parse_address("--server", server);
  if (!to) return to.error();
  bridge.listen = *from;
  bridge.server = *to;
  bridge.session.announce = !no_private_data;
  for (const std::string& one : faults) {
    auto spec = parse_fault(one);
    if (!spec) return spec.error();
    bridge.faults.push_back(*spec);
  }
  if (const Status good = check(bridge.session); !good) return good.error();
  return settings;
}

/// Time, in seconds since the start, and the text.
class LogFile {
 public:
  explicit LogFile(const Settings& settings) : verbose_(settings.verbose) {
    if (!settings.log_file.empty()) file_.open(settings.log_file, std::ios::app);
  }
  void operator()(const std::string& text) {
    if (!verbose_ && !file_.is_open()) return;
    char time[32];
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begun_;
    (void)std::snprintf(time, sizeof time, "%9.3f ", since.count());
    if (verbose_) std::cerr << time << text << std::endl;
    if (file_.is_open()) file_ << time << text << std::endl;
  }
  [[nodiscard]] bool good(const Settings& settings) const {
    return settings.log_file.empty() || file_.is_open();
  }

 private:
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool verbose_;
  std::ofstream file_;
};

bool say_ready(const Settings& settings, std::uint16_t port) {
  sockaddr_storage at = settings.bridge.listen;
  if (at.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(at).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(at).sin_port = htons(port);
  const std::string line = "listening on " + fabric::peer_text(at, "") + "\n";
  const int fd = settings.ready_fd < 0 ? STDOUT_FILENO : settings.ready_fd;
  return ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

int fail(const Error& error) {
  std::cerr << "nfsrdma-bridge: " << error.text() << '\n';
  return error.kind() == ErrorKind::usage ? 2 : 1;
}

int run(const Settings& settings, int signals) {
  LogFile log(settings);
  if (!log.good(settings))
    return fail({ErrorKind::local, EACCES, "--log", settings.log_file, "the file cannot be opened"});
  async::Loop loop;
  Bridge bridge(loop, settings.bridge, [&log](const std::string& text) { log(text); });
  if (const Status started = bridge.start(); !started) return fail(started.error());
  bool ended = false;
  loop.watch(signals, EPOLLIN, [&ended](std::uint32_t) { ended = true; });
  if (!say_ready(settings, bridge.port()))
    return fail({ErrorKind::local, EPIPE, "--ready-fd", "", "nobody reads there"});
  while (!ended) loop.turn(async::TimePoint::max());
  loop.unwatch(signals);
  log(bridge.summary());
  std::cout << bridge.summary() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string help;
  const auto settings = parse(argc, argv, help);
  if (!settings) return fail(settings.error());
  if (settings->help) {
    std::cout << help;
    return 0;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  (void)::signal(SIGPIPE, SIG_IGN);
  const int signals = ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  const int status = run(*settings, signals);
  ::close(signals);
  return status;
}
