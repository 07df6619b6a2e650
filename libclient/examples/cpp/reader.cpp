// Writes a whole file to standard output with blocking calls. While one thread writes a piece out, another
// reads the next piece. The program also shows options, the library's notices, and how Ctrl-C ends a call.
//
//   g++ -std=c++20 reader.cpp $(pkg-config --cflags --libs nfsrdma) -o reader
//   ./reader nfs://server/export/file [OPTION=VALUE,...] > copy
//
// For example: ./reader nfs://server/export/file vers=4.2,timeo=10s > copy
#include <nfsrdma/client.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

// More than the option rsize: the library splits each read, and several of its parts are in flight.
constexpr std::size_t kPiece = 8 << 20;

/// Shows what the library reports while it works, such as a connection that it makes again.
class Log final : public nfsrdma::Observer {
 public:
  void notice(const std::string& text) override { std::cerr << "reader: " << text << '\n'; }
};

int interrupt = -1;

void on_signal(int /*number*/) {
  const std::uint64_t one = 1;
  (void)!::write(interrupt, &one, sizeof one);
}

int fail(const nfsrdma::Error& why) {
  switch (why.kind()) {
    case nfsrdma::ErrorKind::cancelled:
      std::cerr << "reader: interrupted\n";
      break;
    case nfsrdma::ErrorKind::timeout:
      std::cerr << "reader: no answer in time (option timeo): " << why.text() << '\n';
      break;
    default:
      std::cerr << "reader: " << why.text() << '\n';
  }
  return 1;
}

nfsrdma::Status write_whole(nfsrdma::File& file) {
  // The server places the data straight into these buffers.
  std::vector<std::byte> current(kPiece), next(kPiece);
  std::uint64_t offset = 0;
  auto count = file.read(current, offset);
  while (count && *count != 0) {
    offset += *count;
    auto reading = std::async(std::launch::async, [&] { return file.read(next, offset); });
    const bool written = std::fwrite(current.data(), 1, *count, stdout) == *count;
    count = reading.get();
    if (!written)
      return nfsrdma::Error(nfsrdma::ErrorKind::local, errno, "write", "standard output", "cannot write");
    std::swap(current, next);
  }
  if (!count) return count.error();
  return {};
}

int run(const nfsrdma::Target& target) {
  Log log;
  const auto client = nfsrdma::Client::connect(target, &log, interrupt);
  if (!client) return fail(client.error());
  const auto file = (*client)->open(target.path, nfsrdma::OpenMode::read);
  if (!file) return fail(file.error());
  if (const auto done = write_whole(**file); !done) return fail(done.error());
  // The destructor would close the file as well, but could not report an error.
  if (const auto closed = (*file)->close(); !closed) return fail(closed.error());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: reader nfs://server/export/file [OPTION=VALUE,...]\n";
    return 2;
  }
  nfsrdma::Options options;
  if (argc == 3) {
    if (const auto set = options.set_all(argv[2]); !set) return fail(set.error());
  }
  const auto target = nfsrdma::parse_target(argv[1], options);
  if (!target) return fail(target.error());

  interrupt = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (interrupt < 0) {
    std::perror("eventfd");
    return 1;
  }
  std::signal(SIGINT, on_signal);
  const int status = run(*target);
  ::close(interrupt);
  return status;
}
