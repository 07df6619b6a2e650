// The smallest program: connects, opens a file, and prints its beginning with blocking calls.
//
//   g++ -std=c++20 copy_head.cpp $(pkg-config --cflags --libs nfsrdma) -o copy_head
//   ./copy_head nfs://server/export/file [BYTES]
#include <nfsrdma/client.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {

int fail(const nfsrdma::Error& why) {
  std::cerr << "copy_head: " << why.text() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: copy_head nfs://server/export/file [BYTES]\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  if (!target) return fail(target.error());

  auto client = nfsrdma::Client::connect(*target);
  if (!client) return fail(client.error());

  auto file = (*client)->open(target->path, nfsrdma::OpenMode::read);
  if (!file) return fail(file.error());

  // The server places the data straight into this memory.
  std::vector<std::byte> data(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024);
  const auto count = (*file)->read(data, 0);
  if (!count) return fail(count.error());
  std::fwrite(data.data(), 1, *count, stdout);

  if (auto closed = (*file)->close(); !closed) return fail(closed.error());
  return 0;
}
