// A server that costs as little as one can: README.md says what for.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bridge/listen.h"
#include "responder/worker.h"

namespace nfsrdma::bench {
namespace {

namespace po = boost::program_options;

[[noreturn]] void die(const std::string& why) {
  std::cerr << "responder: " << why << "\n";
  std::exit(2);
}

/// "4096", "64K", "1G".
std::uint64_t size_of(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::string_view units = "KMG";
  const std::size_t at = unit.empty() ? 0 : units.find(unit.front());
  if (fault != std::errc() || unit.size() > 1 || at == std::string_view::npos)
    die("no size: " + std::string(text));
  return unit.empty() ? out : out << (10 * (at + 1));
}

unsigned threads_of(const std::string& text) {
  constexpr unsigned kMost = 256;
  unsigned out = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (fault != std::errc() || end != text.data() + text.size() || out == 0 || out > kMost)
    die("--threads takes a number from 1 to " + std::to_string(kMost) + ", not '" + text + "'");
  return out;
}

void fill(Node& node, std::uint64_t size) {
  if (!node.resize(size)) die("too large a file");
  std::byte* const to = size == 0 ? nullptr : node.memory->data();
  // Nowhere the same, and quickly made.
  std::uint64_t word = 0x9e3779b97f4a7c15ULL * (node.id + 1);
  for (std::uint64_t i = 0; i < size; i += sizeof word) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(to + i, &word, std::min<std::uint64_t>(sizeof word, size - i));
  }
}

/// NAME=SIZE, or NAME=@FILE for a copy of this machine's file.
void add_file(Tree& tree, const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos) die("--file takes NAME=SIZE or NAME=@FILE, not " + text);
  Node& node = tree.make_path(text.substr(0, at), false);
  const std::string what = text.substr(at + 1);
  if (!what.starts_with('@')) return fill(node, size_of(what));
  std::ifstream from(what.substr(1), std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(from)), std::istreambuf_iterator<char>());
  if (!from) die("cannot read " + what.substr(1));
  if (!node.resize(all.size())) die("too large a file");
  if (!all.empty()) std::memcpy(node.memory->data(), all.data(), all.size());
}

/// DIRECTORY=COUNTxSIZE: file-0 and so on.
void add_many(Tree& tree, const std::string& text) {
  const std::size_t at = text.find('='), by = text.find('x', at);
  if (at == std::string::npos || by == std::string::npos)
    die("--many takes DIRECTORY=COUNTxSIZE, not " + text);
  Node& directory = tree.make_path(text.substr(0, at), true);
  const std::uint64_t count = size_of(std::string_view(text).substr(at + 1, by - at - 1));
  const std::uint64_t size = size_of(std::string_view(text).substr(by + 1));
  for (std::uint64_t i = 0; i < count; ++i)
    fill(tree.make(directory, "file-" + std::to_string(i), false), size);
}

sockaddr_storage socket_address(const std::string& text, std::uint16_t port) {
  sockaddr_storage out{};
  auto& four = reinterpret_cast<sockaddr_in&>(out);
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) != 1) die("no IPv4 address: " + text);
  return out;
}

int run(int argc, char** argv) {
  po::options_description known("responder [options]: answers NFS from memory");
  std::string fabric, address, thread_count;
  std::uint16_t port = 0, tcp_port = 0;
  known.add_options()("help", "this text");
  known.add_options()("fabric", po::value(&fabric)->default_value("iwarp"), "iwarp or verbs");
  known.add_options()("address", po::value(&address)->default_value("127.0.0.1"), "to listen on for RDMA");
  known.add_options()("port", po::value(&port)->default_value(0), "for RDMA; 0: any, which is printed");
  known.add_options()("tcp-port", po::value(&tcp_port)->default_value(0), "for TCP, NFS and MOUNT both");
  known.add_options()("threads", po::value(&thread_count)->default_value("1"),
                      "that share the connections; verbs takes one only");
  known.add_options()("file", po::value<std::vector<std::string>>(), "NAME=SIZE or NAME=@FILE");
  known.add_options()("many", po::value<std::vector<std::string>>(), "DIRECTORY=COUNTxSIZE");
  known.add_options()("delegations", "grants them, and never asks for one back: for one client");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, known), given);
  po::notify(given);
  if (given.count("help") != 0) {
    std::cout << known;
    return 0;
  }
  const unsigned threads = threads_of(thread_count);
  if (threads > 1 && fabric != "iwarp")
    die("--threads above 1 works with --fabric iwarp only, not with " + fabric);
  Tree tree(threads);
  const auto all = [&given](const char* name) {
    return given.count(name) != 0 ? given[name].as<std::vector<std::string>>() : std::vector<std::string>();
  };
  for (const std::string& one : all("file")) add_file(tree, one);
  for (const std::string& one : all("many")) add_many(tree, one);

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  (void)::sigprocmask(SIG_BLOCK, &ends, nullptr);
  const Answers::Server server{.tree = tree,
                               .delegates = given.count("delegations") != 0,
                               .boot = static_cast<std::uint64_t>(::time(nullptr)) << 24};
  // The first is this thread. It listens, and shares out the connections to all of them in turn.
  std::vector<std::unique_ptr<Worker>> workers;
  workers.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker>(server, i));
  Worker& first = *workers.front();
  async::Loop& loop = first.loop();
  bool over = false;
  const int signals = ::signalfd(-1, &ends, SFD_CLOEXEC);
  loop.watch(signals, EPOLLIN, [&over](std::uint32_t) { over = true; });

  std::size_t next_rdma = 0, next_tcp = 0;
  auto listener =
      bridge::listen(loop, {.fabric = fabric, .crc = {}, .queues = {}}, socket_address(address, port),
                     [&](auto incoming) { workers[next_rdma++ % threads]->give(std::move(incoming)); });
  if (!listener) die(listener.error().text());
  if (threads > 1)
    first.tcp().hand_over([&](auto client) { workers[next_tcp++ % threads]->give(std::move(client)); });
  if (auto done = first.tcp().listen(tcp_port); !done) die(done.error().text());
  for (unsigned i = 1; i < threads; ++i) workers[i]->start();
  std::printf("port=%u tcp_port=%u\n", (*listener)->port(), first.tcp().port());
  (void)std::fflush(stdout);
  while (!over) loop.turn(async::TimePoint::max());
  std::uint64_t calls = 0;
  for (const auto& one : workers) {
    one->stop();
    calls += one->calls();
  }
  std::fprintf(stderr, "responder: %llu calls answered\n", static_cast<unsigned long long>(calls));
  loop.unwatch(signals);
  ::close(signals);
  return 0;
}

}  // namespace
}  // namespace nfsrdma::bench

int main(int argc, char** argv) {
  try {
    return nfsrdma::bench::run(argc, argv);
  } catch (const std::exception& failed) {
    std::cerr << "responder: " << failed.what() << "\n";
    return 2;
  }
}
