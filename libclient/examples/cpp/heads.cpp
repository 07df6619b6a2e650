// Prints the beginnings of files: one call of read_many reads all of them. With NFSv4.1 and 4.2 one request
// carries a dozen files and more. A file that fails does not stop the others.
//
//   g++ -std=c++20 heads.cpp $(pkg-config --cflags --libs nfsrdma) -o heads
//   ./heads nfs://server/export/directory name...
#include <nfsrdma/client.h>

#include <cstddef>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBytes = 512;

int fail(const nfsrdma::Error& why) {
  std::cerr << "heads: " << why.text() << '\n';
  return 1;
}

int print_heads(nfsrdma::Directory& directory, const std::vector<std::string>& names) {
  std::vector<std::byte> room(names.size() * kBytes);
  std::vector<nfsrdma::ReadItem> items;
  for (std::size_t i = 0; i < names.size(); ++i)
    items.push_back({names[i], std::span(room).subspan(i * kBytes, kBytes)});

  int status = 0;
  const auto results = directory.read_many(items);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) {
      status = fail(results[i].error());
      continue;
    }
    std::printf("==> %s <==\n", names[i].c_str());
    std::fwrite(items[i].data.data(), 1, results[i]->count, stdout);
    if (!results[i]->eof) std::puts("...");
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: heads nfs://server/export/directory name...\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  if (!target) return fail(target.error());
  const auto client = nfsrdma::Client::connect(*target);
  if (!client) return fail(client.error());
  const auto directory = (*client)->open_directory(target->path);
  if (!directory) return fail(directory.error());
  return print_heads(**directory, {argv + 2, argv + argc});
}
