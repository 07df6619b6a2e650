// What a seed decides before anything happens: who is there, and what the network, the server and the
// machines do to them. Each kind of trouble has a name, so that a failure can be shrunk to those that it
// needs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/random.h"
#include "sim/simulation.h"

namespace nfsrdma::sim {

struct Climate {
  /// What every world has, whatever its seed draws.
  struct Always {
    bool anything = false, odd = false;
  };
  /// `without`: names of kinds(), with commas between them.
  Climate(Random& random, bool faults, std::string_view without, Always always);

  /// The names of all kinds of trouble.
  [[nodiscard]] static std::span<const std::string_view> kinds();
  [[nodiscard]] std::string text() const;
  /// A lease may end, or a server forget it, while its client lives.
  [[nodiscard]] bool leases_end() const;
  /// The server cannot tell that it has a request already which the client makes again: there are no sessions, and a request
  /// whose security context had to be replaced gets another xid, as from Linux's client.
  [[nodiscard]] bool repeats_are_unknown() const {
    return (version != 4 || sessionless) && (unlearn_every.count() != 0 || contexts_live.count() != 0);
  }
  /// The server may lose data that is not on its disk.
  [[nodiscard]] bool data_is_lost() const { return crash_every.count() != 0 || failover_every.count() != 0; }

  unsigned clients = 1, workers = 1, connections = 1, threads = 1, shards = 0;
  bool elsewhere = false;    // the server has another address
  unsigned teams = 0;        ///< of the clients: those whose workers share their files
  bool anything = false;     ///< all workers do whatever they like to the same files
  bool pages = false;        ///< and some of them through a model of the kernel
  bool stripes = false;      ///< and now and then write stripes of one file, each his own
  unsigned names = 4;        ///< of the files that they share
  bool reads_holes = false;  ///< all files are read by READ_PLUS, where the version has it
  bool odd = false;          ///< the server has the habits of testing::Habits::groups() but habits_left_out
  bool far = false, calm = true;
  Duration cut_every{}, part_every{}, longest_part{};
  unsigned dials_fail = 0, revokes_late = 0;
  bool wakes_late = false, habits = false, whims = false;
  unsigned version = 4;        ///< of NFS
  bool sessionless = false;    ///< NFSv4.0
  std::uint32_t service = 0;   ///< that protects calls, by RPCSEC_GSS's numbers; 0: none does
  Duration unlearn_every{};    ///< the server forgets all contexts
  Duration contexts_live{};    ///< so long; 0: for ever
  std::uint32_t window = 128;  ///< of sequence numbers
  bool by_place = false;       ///< exports want the protection, the pseudo root wants none
  bool program = false;        ///< besides the mounts, one that uses the library
  Duration crash_every{}, freeze_every{}, forget_every{}, sleep_every{}, recall_every{}, kill_every{};
  Duration fill_every{}, longest_fill{}, clock_every{};
  Duration unlock_every{};  ///< the server's administrator takes a lock away from its owner
  Duration
      failover_every{};  ///< another server takes over: state survives, what was not on the disk does not
  unsigned exports = 0;  ///< besides the root's
  /// Groups of habits that the server does not have (testing::Habits::groups()).
  std::vector<std::string_view> habits_left_out;
  Duration longest_freeze{}, longest_sleep{}, longest_death{}, grace{};
  std::uint32_t lease = 90;
  Duration time_step{};  ///< of the server's clock for times of files; 0: as its habits have it

 private:
  void draw(Random& random);
  void draw_version(Random random);
  void drop(std::string_view kind);
};

}  // namespace nfsrdma::sim
