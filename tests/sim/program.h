// A program in the simulation that uses the library: the public API's blocking and asynchronous calls, on
// files of its own.
//
//     Program program(network, host, server_host, options, sealing, seed, mounted, operations, findings);
//     while (!program.done()) program.step();
//     program.end();
//
// It is no task of its host: whoever calls step() waits in it as a thread of the program would, and
// everything else in the simulation goes on meanwhile. So there is one in a simulation.
//
// Thread-safety: none. The Network and the Host outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "nfsrdma/client.h"
#include "sim/job.h"

namespace nfsrdma::sim {

class Program {
 public:
  Program(Network& network, Host& host, const Host& server, const connect::Options& options, Sealing sealing,
          std::uint64_t seed, std::string mounted, unsigned operations, Findings& findings);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Connects first, or tries to. Then one operation, and some rest.
  void step();
  /// Everything is looked at once more, and the client disconnects.
  void end();
  [[nodiscard]] bool done() const { return left_ == 0; }
  [[nodiscard]] const std::string& doing() const { return doing_; }
  /// Everybody has ended: what the server must have now.
  void check();

 private:
  class Told;
  /// What a call tells its callback that `start` starts.
  template <class R>
  R heard(const std::function<void(std::function<void(R)>)>& start);
  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode, const OpenFlags& flags = {});
  Status sync(File& file);
  Status close(File& file);
  [[nodiscard]] bool connect();
  /// False where it went wrong.
  bool make_directory();
  void one_operation();
  void create();
  void rewrite();
  std::unique_ptr<File> open_to_read(const std::string& name);
  void read(const std::string& name);
  void read_by_pieces(const std::string& name);
  void stat(const std::string& name);
  // Several at once (nfsrdma/many.h).
  void read_together();
  void write_together();
  void stat_together();
  void truncate();
  void rename();
  void link();
  void remove();
  void list();
  void write_all(File& file, const std::string& name, std::size_t begin);
  void forget(const std::string& name);

  void begin(const char* what, const std::string& name);
  void wrong(const std::string& what);
  /// An error may be that nobody knows what the server did, where sessions are lost, or a full disk's. Says
  /// whether it is, and else that it is wrong.
  bool may_be(const char* what, const Error& error);
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  [[nodiscard]] std::string fresh_name() { return "f" + std::to_string(++last_name_); }
  [[nodiscard]] std::string any_name();
  [[nodiscard]] std::string content(const std::string& name);

  Network& network_;
  Host& host_;
  const Host& server_host_;
  const connect::Options options_;
  const Sealing sealing_;
  Random random_;
  unsigned left_;
  Findings& findings_;
  const std::string directory_;
  std::unique_ptr<Told> told_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> files_;  // name, content
  std::string doing_;
  bool has_directory_ = false;
  unsigned last_name_ = 0, version_ = 0;
};

}  // namespace nfsrdma::sim
