// Prints the beginnings of files on an NFS/RDMA server, from an event loop of the program's own: each file is opened,
// read and closed by calls that are only started, all files at the same time.
//
//   g++ -std=c++20 heads.cpp $(pkg-config --cflags --libs nfsrdma) -o heads && ./heads nfs://server/directory name…
#include <nfsrdma/client.h>
#include <poll.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

/// One file. It stays until it has ended: callbacks point to it.
class Head {
 public:
  Head(nfsrdma::Client& client, const std::string& path) : path_(path) {
    client.start_open(path, nfsrdma::OpenMode::read, [this](auto opened) {
      if (!opened) return fail(opened.error());
      file_ = std::move(*opened);
      file_->start_read(data_, 0, [this](auto count) { on_read(count); });
    });
  }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void on_read(const nfsrdma::Result<std::size_t>& count) {
    if (!count) return fail(count.error());
    std::printf("==> %s <==\n", path_.c_str());
    std::fwrite(data_.data(), 1, *count, stdout);
    file_->start_close([this](const nfsrdma::Status& closed) {
      if (!closed) return fail(closed.error());
      end();
    });
  }
  void fail(const nfsrdma::Error& why) {
    std::cerr << "heads: " << why.text() << '\n';
    failed_ = true;
    end();
  }
  void end() {
    file_.reset();
    ended_ = true;
  }

  const std::string path_;
  std::vector<std::byte> data_ = std::vector<std::byte>(512);
  std::unique_ptr<nfsrdma::File> file_;
  bool ended_ = false, failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: heads nfs://server/directory name...\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  const auto client = target ? nfsrdma::Client::connect(*target)
                             : nfsrdma::Result<std::unique_ptr<nfsrdma::Client>>(target.error());
  if (!client) {
    std::cerr << "heads: " << client.error().text() << '\n';
    return 1;
  }
  std::vector<std::unique_ptr<Head>> heads;
  for (int i = 2; i < argc; ++i)
    heads.push_back(std::make_unique<Head>(**client, target->path + "/" + argv[i]));

  // A real program has more to poll than this.
  pollfd descriptor{(*client)->descriptor(), POLLIN, 0};
  for (bool all = false; !all;) {
    const auto left = (*client)->service();  // callbacks run in here
    all = true;
    for (const auto& head : heads) all = all && head->ended();
    if (!all) ::poll(&descriptor, 1, static_cast<int>(left.count()));
  }
  for (const auto& head : heads) {
    if (head->failed()) return 1;
  }
  return 0;
}
