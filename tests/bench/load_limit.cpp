// What no client can pass: the same load as the others', without NFS.
//
//   load_limit --options tcp     its own peer over TCP on loopback: 104 bytes for a request, and for an answer 104 and
//                                the data; blocking calls, on two processes, the peer's on the processor that
//                                LOAD_PEER_CPU names
//   load_limit --options iwarp   the responder (tests/bench/responder), by a READ of NFSv3 that is encoded once, straight
//                                on the fabric: one Send, one RDMA Write, one Send
//
// SERVER is the responder's for iwarp, and --port; PATH is a file in its root that it was given first. load_common.h has
// the options and the report.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/loop.h"
#include "fabric/iwarp/connection.h"
#include "load_common.h"
#include "rpc/message.h"
#include "rpcrdma/header.h"
#include "rpcrdma/private_data.h"

namespace {

using namespace nfsrdma;

constexpr const char* kTool = "load_limit";
constexpr std::uint64_t kFile = 1ULL << 30;  // as long as the file is taken to be
constexpr std::size_t kHead = 104;

// ---- TCP ----

struct Request {
  std::uint64_t length = 0;
  std::uint64_t is_write = 0;
  std::array<char, kHead - 16> rest{};
};
static_assert(sizeof(Request) == kHead);

/// False: the peer has gone.
bool take(int fd, void* to, std::size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::recv(fd, at, size, MSG_WAITALL);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool give(int fd, const void* head, const void* data, std::size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): only read
  std::array<iovec, 2> pieces{iovec{const_cast<void*>(head), kHead}, {const_cast<void*>(data), size}};
  std::size_t left = kHead + size;
  while (left > 0) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) return false;
    left -= static_cast<std::size_t>(sent);
    auto skip = static_cast<std::size_t>(sent);
    for (iovec& one : pieces) {
      const std::size_t skipped = std::min(skip, one.iov_len);
      one.iov_base = static_cast<char*>(one.iov_base) + skipped;
      one.iov_len -= skipped;
      skip -= skipped;
    }
  }
  return true;
}

std::vector<std::byte> memory(std::size_t size) {
  return std::vector<std::byte>(size, std::byte{'x'});
}

[[noreturn]] void serve_tcp(int fd, std::size_t most) {
  std::vector<std::byte> data = memory(most);
  Request request;
  while (take(fd, &request, sizeof request)) {
    if (request.is_write != 0 && !take(fd, data.data(), request.length)) break;
    if (!give(fd, &request, data.data(), request.is_write != 0 ? 0 : request.length)) break;
  }
  ::_exit(0);
}

int tcp_pair(std::size_t most) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int ours = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening < 0 || ours < 0) load_die(kTool, "socket", std::strerror(errno));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening, any, length) != 0 || ::listen(listening, 1) != 0 ||
      ::getsockname(listening, any, &length) != 0)
    load_die(kTool, "listen", std::strerror(errno));
  if (::connect(ours, any, length) != 0) load_die(kTool, "connect", std::strerror(errno));
  const int theirs = ::accept(listening, nullptr, nullptr);
  ::close(listening);
  const int on = 1;
  for (const int one : {ours, theirs}) (void)::setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const pid_t child = ::fork();
  if (child < 0) load_die(kTool, "fork", std::strerror(errno));
  if (child == 0) {
    ::close(ours);
    if (const char* const where = std::getenv("LOAD_PEER_CPU"); where != nullptr) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(std::strtoul(where, nullptr, 10), &one);
      (void)::sched_setaffinity(0, sizeof one, &one);
    }
    serve_tcp(theirs, most);
  }
  ::close(theirs);
  return ours;
}

void run_tcp(const load_options& options) {
  const int fd = tcp_pair(options.size);
  struct Lane {
    std::uint64_t offset = 0, started = 0;
    std::size_t length = 0;
    std::vector<std::byte> data;
  };
  std::vector<Lane> lanes(options.depth);
  for (Lane& lane : lanes) lane.data = memory(options.size);
  const auto run = std::make_unique<load_run>();
  load_begin(run.get(), &options, kFile);
  const auto start = [&](Lane& lane, std::uint64_t now) {
    if (load_next(run.get(), now, &lane.offset, &lane.length) == 0) return;
    lane.started = now;
    const Request request{lane.length, options.write != 0 ? 1U : 0U, {}};
    if (!give(fd, &request, lane.data.data(), options.write != 0 ? lane.length : 0))
      load_die(kTool, "send", std::strerror(errno));
  };
  for (Lane& lane : lanes) start(lane, load_now());
  // Answers come in the order of the requests.
  for (std::size_t i = 0; load_is_over(run.get()) == 0; i = (i + 1) % lanes.size()) {
    Lane& lane = lanes[i];
    Request answer;
    if (!take(fd, &answer, sizeof answer)) load_die(kTool, "recv", "the peer has gone");
    if (options.write == 0 && !take(fd, lane.data.data(), lane.length))
      load_die(kTool, "recv", "the peer has gone");
    const std::uint64_t now = load_now();
    load_finished(run.get(), lane.started, now, lane.offset, lane.length, lane.length, lane.data.data());
    start(lane, now);
  }
  load_report(run.get(), kTool, "TCP");
  ::close(fd);
}

// ---- iWARP ----

class Exchange final : public fabric::Handler {
 public:
  explicit Exchange(const load_options& options) : options_(options), lanes_(options.depth) {
    sockaddr_storage address{};
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(options.port));
    if (::inet_pton(AF_INET, options.server, &four.sin_addr) != 1)
      load_die(kTool, options.server, "no IPv4 address");
    const auto mine = rpcrdma::encode(rpcrdma::PrivateData{.send_size = kSize, .receive_size = kSize});
    connection_ = fabric::iwarp::connect(loop_,
                                         {.address = address,
                                          .host = {},
                                          .private_data = {mine.begin(), mine.end()},
                                          .depths = {},
                                          .reason = {}},
                                         *this);
    for (std::size_t i = 0; i < lanes_.size() + 1; ++i)
      connection_->post_receive(fabric::ReceiveBuffer(kSize));
    while (!established_) loop_.turn(async::TimePoint::max());
  }

  void run() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) prepare(lanes_[i], static_cast<std::uint32_t>(i));
    run_ = std::make_unique<load_run>();
    load_begin(run_.get(), &options_, kFile);
    for (Lane& lane : lanes_) start(lane, load_now());
    while (load_is_over(run_.get()) == 0) loop_.turn(async::TimePoint::max());
    load_report(run_.get(), kTool, "NFSv3/iWARP, encoded once");
  }

  void on_established(const fabric::Established&) override { established_ = true; }
  void on_received(fabric::ReceiveBuffer buffer, std::optional<std::uint32_t>) override {
    const std::uint64_t now = load_now();
    const fabric::ConstBytes message = buffer.message();
    const std::uint32_t xid = message.size() >= 4 ? xdr::load_u32(message.data()) : ~0U;
    if (xid >= lanes_.size()) load_die(kTool, "iwarp", "an answer to nothing");
    // The RPC header behind the chunk that was filled, and the status.
    rpcrdma::rdma_msg& header = answer_;
    const auto decoded = rpcrdma::decode(message, header);
    if (decoded.fault != rpcrdma::HeaderFault::none || message.size() < decoded.size + 28 ||
        xdr::load_u32(message.data() + decoded.size + 24) != 0)
      load_die(kTool, "iwarp", "the READ failed: was the file the first that the responder was given?");
    Lane& lane = lanes_[xid];
    connection_->post_receive(std::move(buffer));
    load_finished(run_.get(), lane.started, now, lane.offset, lane.length,
                  rpcrdma::chunk_length(header.rdma_writes.segments()), lane.data.data());
    start(lane, now);
  }
  void on_completed(std::uint64_t) override {}
  void on_closed(const Error& why) override { load_die(kTool, "iwarp", why.text().c_str()); }

 private:
  static constexpr std::size_t kSize = 4096;
  static constexpr std::uint32_t kProcedureRead = 6;
  static constexpr std::uint64_t kFirstFile = 2;
  struct Lane {
    std::uint64_t offset = 0, started = 0;
    std::size_t length = 0, offset_at = 0;
    std::vector<std::byte> data;
    xdr::Buffer message;
  };

  void prepare(Lane& lane, std::uint32_t xid) {
    lane.data = memory(options_.size);
    auto segments = connection_->expose(lane.data, fabric::Reach::remote_write);
    if (!segments) load_die(kTool, "iwarp", segments.error().text().c_str());
    rpcrdma::rdma_msg header;
    header.rdma_xid = xid;
    header.rdma_credit = static_cast<std::uint32_t>(lanes_.size());
    header.rdma_writes.add_chunk(*segments);
    xdr::Message call;
    rpc::begin_call(call, rpc::kNfsProgram, 3, kProcedureRead, rpc::Credential::none());
    xdr::store_u32(call.stream.data(), xid);
    xdr::Encoder out(call);
    out.u32(sizeof kFirstFile);
    out.u64(kFirstFile);
    const std::size_t offset_at = out.position();
    out.u64(0);
    out.u32(static_cast<std::uint32_t>(options_.size));
    rpcrdma::encode(header, lane.message);
    lane.offset_at = lane.message.size() + offset_at;
    const fabric::ConstBytes bytes = call.stream.bytes();
    std::memcpy(lane.message.extend(bytes.size()), bytes.data(), bytes.size());
  }

  void start(Lane& lane, std::uint64_t now) {
    if (load_next(run_.get(), now, &lane.offset, &lane.length) == 0) return;
    lane.started = now;
    xdr::store_u64(lane.message.data() + lane.offset_at, lane.offset);
    const std::array pieces{lane.message.bytes()};
    connection_->post_send({.cookie = 1, .pieces = pieces, .invalidate = std::nullopt});
  }

  const load_options& options_;
  async::Loop loop_;
  std::vector<Lane> lanes_;
  rpcrdma::rdma_msg answer_;
  std::unique_ptr<load_run> run_;
  bool established_ = false;
  std::unique_ptr<fabric::Connection> connection_;
};

}  // namespace

int main(int argc, char** argv) {
  const load_options options = load_parse(argc, argv, kTool, "not looked at");
  if (options.local_copy != nullptr || options.threads != 0)
    load_die(kTool, "--verify, --threads", "not for this one");
  const std::string_view what = options.extra != nullptr ? options.extra : "";
  if (what == "tcp") {
    run_tcp(options);
  } else if (what == "iwarp" && options.write == 0) {
    Exchange(options).run();
  } else {
    load_die(kTool, "--options", "takes tcp, or iwarp without --write");
  }
  return 0;
}
