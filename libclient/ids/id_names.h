// Numbers of users and groups for the names that a server gives (RFC 8881 5.9).
//
//     IdNames& names = IdNames::system();
//     names.add_wanted(attributes, wanted);                  // nothing where the server tells numbers
//     if (!wanted.empty()) co_await names.learn(loop, wanted);
//     uid = names.known(Kind::user, attributes.owner)        // none: it is nobody's
//
// A number in decimal is its own answer. Anything else is looked up by name, which may take for ever (NSS may
// ask a directory in the network): helper threads do that, at most kMostThreads at once, and each lives only
// while there are names to look up. learn() waits for `patience` at most, and not at all where every helper
// has been at one name for longer than that. What it did not hear of in time counts as unknown for that
// once; it is not remembered as such, and the answer is used whenever it comes.
//
// What is known ages: names that are there, those that are not, and look-ups that failed, each after a time
// of its own. One that is there stays in use until the next answer.
//
// Of name@domain the domain must be this machine's, in whatever case, as with libnfsidmap's nsswitch method;
// a name without a domain is looked up as it is.
//
// Thread-safe. Helpers that never come back keep only what they share with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/loop.h"
#include "nfsrdma/client.h"

namespace nfsrdma::ids {

enum class Kind : unsigned char { user, group };

struct Principal {
  Kind kind = Kind::user;
  std::string text;
  friend auto operator<=>(const Principal&, const Principal&) = default;
};

struct Answer {
  enum class State : unsigned char { found, absent, failed };
  State state = State::failed;
  std::uint32_t id = 0;  ///< found
};

class IdNames {
 public:
  /// Both are called on helper threads, several at the same time.
  struct Sources {
    std::function<Answer(Kind, const std::string& name)> look_up;
    std::function<std::string()> domain;
  };
  struct Limits {
    std::size_t most_known = 10000;  ///< a server may invent names
    async::Clock::duration found_for = std::chrono::minutes(10);
    async::Clock::duration absent_for = std::chrono::seconds(30);
    async::Clock::duration failed_for = std::chrono::seconds(5);
    async::Clock::duration patience = std::chrono::seconds(3);
  };
  static constexpr unsigned kMostThreads = 4;

  IdNames(Sources sources, Limits limits, std::function<async::TimePoint()> now = &async::Clock::now);
  /// With this machine's names.
  static IdNames& system();

  /// Without waiting.
  [[nodiscard]] std::optional<std::uint32_t> known(Kind kind, const std::string& principal) const;
  /// Adds those of its owners that learn() would ask for.
  void add_wanted(const Attributes& attributes, std::vector<Principal>& wanted) const;
  /// Ends when they are known as well as they can be for now.
  async::Task<void> learn(async::Loop& loop, std::vector<Principal> wanted);
  /// Puts the numbers in that are known and not there yet.
  void fill_in(Attributes& attributes) const;

 private:
  struct State;
  class Waiter;
  static void ask(const std::shared_ptr<State>& state, const std::vector<Principal>& wanted);
  static void help(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

/// "1000", and nothing else.
std::optional<std::uint32_t> number_of(std::string_view principal);

}  // namespace nfsrdma::ids
