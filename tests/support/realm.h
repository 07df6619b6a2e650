// A Kerberos realm of a test's own: a KDC on this machine's loopback, with its principals and their keytabs, and this
// process's environment set up for it. Needs MIT's KDC, and no root.
//
// One at a time.
#pragma once

#include <sys/types.h>

#include <string>

namespace nfsrdma::testing {

class Realm {
 public:
  /// Whether there is a KDC on this machine.
  static bool possible();

  Realm();
  ~Realm();
  Realm(const Realm&) = delete;
  Realm& operator=(const Realm&) = delete;

  /// Whether it serves.
  [[nodiscard]] bool up() const { return kdc_ > 0; }
  /// What has gone wrong.
  [[nodiscard]] std::string log() const;

  /// In `KEYTAB`, below path().
  void add(const std::string& principal, const std::string& keytab);
  /// In the process's own cache, for `life` as with kinit -l.
  bool get_ticket(const std::string& principal, const std::string& keytab, const std::string& life = "1h");
  void drop_tickets();
  void start();
  void stop();
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  bool run(const std::string& command);

  std::string directory_;
  unsigned port_ = 0;
  pid_t kdc_ = -1;
};

}  // namespace nfsrdma::testing
