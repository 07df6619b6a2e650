// Numbers of users and groups for the names that a server gives (RFC 8881 5.9).
//
//     IdNames& names = IdNames::system();
//     names.add_wanted(attributes, wanted);                  // adds nothing if the server gives numbers
//     if (!wanted.empty()) co_await names.learn(loop, wanted);
//     uid = names.known(Kind::user, attributes.owner)        // no value: the name has no number here
//
// Rules:
// - A decimal number is its own answer. Any other text is looked up by name, which may take for ever (NSS may
//   ask a directory in the network). Helper threads do that, at most kMostThreads at once, and each lives
//   only while there are names to look up.
// - learn() waits for `patience` at most, and does not wait at all if every helper has been busy with one
//   name for longer than that. A name without an answer in time counts as unknown for that call only. This is
//   not remembered, and the answer is used when it comes.
// - Answers age: names that exist, names that do not, and look-ups that failed, each after a time of its own.
//   A number that was found stays in use until the next answer.
// - The domain of name@domain must be this machine's, in upper or lower case, as with libnfsidmap's nsswitch
//   method. A name without a domain is looked up as it is.
//
// Thread-safe. A helper that never returns keeps only the state that it shares with the IdNames.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/loop.h"
#include "nfsrdma/types.h"

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
  std::uint32_t id = 0;  ///< valid if `state` is found
};

class IdNames {
 public:
  /// The functions run on helper threads, several at the same time.
  struct Sources {
    std::function<Answer(Kind, const std::string& name)> look_up;
    std::function<std::string()> domain;
  };
  struct Limits {
    std::size_t most_known = 10000;  ///< names are bounded, because a server may invent them
    async::Clock::duration found_for = std::chrono::minutes(10);
    async::Clock::duration absent_for = std::chrono::seconds(30);
    async::Clock::duration failed_for = std::chrono::seconds(5);
    async::Clock::duration patience = std::chrono::seconds(3);
  };
  static constexpr unsigned kMostThreads = 4;

  IdNames(Sources sources, Limits limits, std::function<async::TimePoint()> now = &async::Clock::now);
  /// Returns the object that has this machine's names.
  static IdNames& system();

  /// Returns the number if it is known, without waiting.
  [[nodiscard]] std::optional<std::uint32_t> known(Kind kind, const std::string& principal) const;
  /// Adds those owners of the object that learn() would ask for.
  void add_wanted(const Attributes& attributes, std::vector<Principal>& wanted) const;
  /// Ends when the names are known as well as they can be for now.
  async::Task<void> learn(async::Loop& loop, std::vector<Principal> wanted);
  /// Fills in the numbers that are missing, as far as they are known.
  void fill_in(Attributes& attributes) const;

 private:
  struct State;
  class Waiter;
  static void ask(const std::shared_ptr<State>& state, const std::vector<Principal>& wanted);
  static void help(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

/// Returns the value of a decimal number such as "1000", and no value for any other text.
std::optional<std::uint32_t> number_of(std::string_view principal);

}  // namespace nfsrdma::ids
