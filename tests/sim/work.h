// What a program does on a mount in the simulation, and checks while it does it.
//
// Each Worker has a directory of its own and knows what must be in it. The content of a file names the file,
// its version and the place in it, so that what is read where it does not belong says where it comes from.
// Nothing in a worker's directory is anybody else's, so every answer but the expected one is a fault of the
// client (or of the model server).
//
// Confined to the simulation's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/client.h"

namespace nfsrdma::sim {

/// What went wrong, for whoever looks at the end.
struct Findings {
  std::vector<std::string> wrong;
  std::uint64_t operations = 0;
};

class Worker {
 public:
  Worker(SimClient& client, std::string name, std::uint64_t seed, unsigned operations, Findings& findings);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Makes its directory, does its operations, looks at everything once more, and ends.
  async::Task<void> run();
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What it does, for a report of one that does not end.
  [[nodiscard]] const std::string& doing() const { return doing_; }
  /// What its directory must hold on the server when it has ended.
  [[nodiscard]] const std::map<std::string, std::string>& files() const { return files_; }

 private:
  using File = std::shared_ptr<fs::OpenHandle>;

  async::Task<void> one_operation();
  async::Task<void> create();
  async::Task<void> rewrite();
  async::Task<void> read_back(std::string name);
  async::Task<void> rename();
  async::Task<void> remove();
  async::Task<void> list();
  async::Task<void> stat(std::string name);
  async::Task<void> truncate();
  async::Task<void> check_all();

  async::Task<std::uint64_t> find(std::string name);
  async::Task<void> write_all(File file, std::string name, std::size_t begin);
  async::Task<void> shut(File file);
  void wrong(const std::string& what, const Error& error);
  void wrong(const std::string& what);
  [[nodiscard]] std::string fresh_name();
  [[nodiscard]] std::string any_name();
  [[nodiscard]] std::string content(const std::string& name, std::size_t size);
  void begin(const char* what, const std::string& name);
  [[nodiscard]] fs::FileSystem& fs() { return client_.files(); }

  SimClient& client_;
  const std::string name_;
  Random random_;
  const unsigned operations_;
  Findings& findings_;
  std::map<std::string, std::string> files_;  // name, content
  std::uint64_t directory_ = 0;
  unsigned last_name_ = 0, version_ = 0;
  std::string doing_;
  bool done_ = false;
};

}  // namespace nfsrdma::sim
