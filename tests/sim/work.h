// What a program does on a mount in the simulation, and checks while it does it.
//
// Each Worker has a directory of its own and knows what must be in it. The content of a file names the file,
// its version and the place in it, so that what is read where it does not belong says where it comes from.
// Nothing in a worker's directory is anybody else's, so every answer but the expected one is a fault of the
// client (or of the model server).
//
// Confined to the simulation's thread.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "sim/job.h"

namespace nfsrdma::sim {

class Worker final : public Job {
 public:
  using Job::Job;

  /// Makes its directory first.
  async::Task<void> run() override;
  void check() override;
  void delegation_returned() override;

 private:
  using File = std::shared_ptr<fs::OpenHandle>;

  async::Task<void> one_operation();
  async::Task<void> create();
  async::Task<void> keep_log();
  async::Task<void> look_at_log(File file, std::string name);
  async::Task<void> rewrite();
  async::Task<void> read_back(std::string name);
  async::Task<void> rename();
  async::Task<void> rename_across();
  async::Task<void> remove();
  async::Task<void> list();
  async::Task<void> stat(std::string name);
  async::Task<void> truncate();
  async::Task<std::optional<nfsrdma::Time>> set_time(File file, std::uint64_t inode);
  void check_time(nfsrdma::Time set, const Attributes& told);
  async::Task<void> check_all();

  async::Task<std::uint64_t> find(std::string name);
  async::Task<void> write_all(File file, std::string name, std::size_t begin);
  /// `wrote`: the file's name, if it was written.
  async::Task<void> shut(File file, std::uint64_t inode, std::string wrote = "");
  void last_close_failed(const Error& error) override;
  void look_at_closed(const std::string& name);
  async::Task<void> change_holes();
  async::Task<void> copy();
  async::Task<void> xattr();
  async::Task<void> give_up(std::string name);
  void refused(const char* what, const Error& error);
  [[nodiscard]] std::string fresh_name();
  [[nodiscard]] std::string any_name();
  [[nodiscard]] std::string content(const std::string& name, std::size_t size);

  std::map<std::string, std::string> files_;   // name, content
  std::set<std::string> closed_;               // those that have been written, and closed since
  std::map<std::string, std::string> xattrs_;  // name of the file, value of its user.sim
  bool disk_was_full_ = false;                 // of the file that is written
  unsigned last_name_ = 0, version_ = 0;
};

}  // namespace nfsrdma::sim
