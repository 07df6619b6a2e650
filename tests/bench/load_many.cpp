// Many small files, read or written by libnfsrdma's read_many and write_many. many.sh runs it; load_many_libnfs.c is its
// peer.
//
//     load_many --port N --directory /many --count 1000 --size 4096 --seconds 2 [--write] [--options LIST] SERVER
//
// The files are called file-0 and so on. One line of JSON: files and seconds of the passes over all of them, CPU
// seconds of the process meanwhile, requests that were sent.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "nfsrdma/client.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "load_many: %s\n", why.c_str());
  std::exit(1);
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Wanted {
  std::string server, directory = "/many", options, port;
  std::size_t count = 1000, size = 4096;
  double seconds = 2;
  bool write = false;
};

Wanted parse(int argc, char** argv) {
  Wanted out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) die(std::string(word) + " takes a value");
      return argv[i];
    };
    if (word == "--port")
      out.port = value();
    else if (word == "--directory")
      out.directory = value();
    else if (word == "--options")
      out.options = value();
    else if (word == "--count")
      out.count = std::stoul(value());
    else if (word == "--size")
      out.size = std::stoul(value());
    else if (word == "--seconds")
      out.seconds = std::stod(value());
    else if (word == "--write")
      out.write = true;
    else
      out.server = word;
  }
  if (out.server.empty()) die("a server is missing");
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const Wanted wanted = parse(argc, argv);
  nfsrdma::Target target;
  target.host = wanted.server;
  target.path = wanted.directory;
  if (!wanted.port.empty() && !target.options.set("port", wanted.port)) die("--port");
  if (!wanted.options.empty() && !target.options.set_all(wanted.options)) die("--options");
  auto client = nfsrdma::Client::connect(target);
  if (!client) die(client.error().text());
  if (wanted.write) (void)(*client)->make_directory(target.path, 0755);
  auto directory = (*client)->open_directory(target.path);
  if (!directory) die(directory.error().text());

  std::vector<std::byte> room(wanted.count * wanted.size, std::byte{'x'});
  std::vector<nfsrdma::ReadItem> reads;
  std::vector<nfsrdma::WriteItem> writes;
  for (std::size_t i = 0; i < wanted.count; ++i) {
    const auto data = std::span(room).subspan(i * wanted.size, wanted.size);
    const std::string name = "file-" + std::to_string(i);
    reads.push_back({name, data});
    writes.push_back({name, data});
  }
  const auto pass = [&] {
    const auto check = [&](const auto& results) {
      for (const auto& one : results) {
        if (!one) die(one.error().text());
      }
    };
    if (wanted.write) {
      check((*directory)->write_many(writes));
    } else {
      const auto results = (*directory)->read_many(reads);
      check(results);
      for (const auto& one : results) {
        if (one->count != wanted.size) die("a file is short");
      }
    }
  };
  pass();  // memory that is touched for the first time, and a server's chunks
  const std::uint64_t calls = (*client)->info().calls;
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  std::size_t files = 0;
  double seconds = 0;
  do {
    pass();
    files += wanted.count;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (seconds < wanted.seconds);
  const double used = cpu_seconds() - cpu;
  const auto sent = static_cast<double>((*client)->info().calls - calls);
  const auto all = static_cast<double>(files);
  std::printf(
      "{\"tool\":\"load_many\",\"files\":%zu,\"seconds\":%.3f,\"files_per_second\":%.0f,\"cpu_us_per_file\":%"
      ".2f,"
      "\"calls_per_file\":%.3f}\n",
      files, seconds, all / seconds, used * 1e6 / all, sent / all);
  return 0;
}
