// Gives up calls on a real server, on the public API alone, and checks that this costs the client nothing.
//
//   nfsrdma-give-up URL
//
// URL is a file of at least 8 MiB. Files are destroyed with READs in flight, round after round; together these
// READs are several times as many as the session has slots. At the end the session has to be the first one, on its
// first connection, without a notice, and READs in all its slots have to be answered.
//
// Exit status: 0, or 1 with what was wrong on stderr.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "nfsrdma/client.h"

using namespace nfsrdma;

namespace {

constexpr int kRounds = 12;
constexpr std::size_t kAtOnce = 24, kRead = 64 << 10;

struct Notices final : Observer {
  std::vector<std::string> all;
  void notice(const std::string& text) override { all.push_back(text); }
};

int failed(const std::string& what) {
  std::cerr << "give-up: " << what << '\n';
  return 1;
}

int run(const Target& target) {
  Notices notices;
  auto client = Client::connect(target, &notices);
  if (!client) return failed(client.error().text());
  const std::string session = (*client)->info().session_id;
  std::vector<std::vector<std::byte>> buffers(kAtOnce, std::vector<std::byte>(kRead));
  std::size_t answered = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const bool gives_up = round < kRounds;
    auto file = (*client)->open(target.path, OpenMode::read);
    if (!file) return failed(file.error().text());
    for (std::size_t i = 0; i < kAtOnce; ++i)
      (*file)->start_read(buffers[i], i * kRead, [&](const Result<std::size_t>& count) {
        if (!gives_up && count && *count == kRead) ++answered;
      });
    (*client)->wait(std::chrono::milliseconds(round % 3));  // some are in flight, and some may be answered
    if (gives_up) continue;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (answered < kAtOnce && std::chrono::steady_clock::now() < end)
      (*client)->wait(std::chrono::milliseconds(100));
  }
  if (answered != kAtOnce)
    return failed(std::to_string(answered) + " of " + std::to_string(kAtOnce) +
                  " READs were answered at the end");
  const Info info = (*client)->info();
  if (info.session_id != session) return failed("the session was replaced");
  if (info.reconnects != 0) return failed("the connection was replaced");
  if (!notices.all.empty()) return failed("a notice: " + notices.all.front());
  std::cout << kRounds * kAtOnce << " READs given up, " << info.slots << " slots, " << info.calls
            << " calls\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto target = parse_target(argc == 2 ? argv[1] : "");
  return target ? run(*target) : failed("usage: nfsrdma-give-up URL");
}
