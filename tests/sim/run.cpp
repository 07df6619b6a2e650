#include "sim/run.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "sim/any_work.h"
#include "sim/client.h"
#include "sim/climate.h"
#include "sim/program.h"
#include "sim/server.h"
#include "sim/team_work.h"
#include "sim/work.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

/// One simulated world. Members are in the order of what needs what.
class World {
 public:
  explicit World(const RunOptions& options) : options_(options), simulation_(options.seed) {
    simulation_.trace().print_all(options.prints);
    server_host_ = &simulation_.add_host("server");
    server_ = std::make_unique<SimServer>(network_, *server_host_);
    testing::Chance chance(random_.next());
    if (climate_.habits) {
      testing::ServerState& state = server_->state();
      state.habits = testing::Habits::drawn(chance);
      state.clone_block = chance.coin() ? 4096 : 512;
      if (chance.percent(20)) state.first_seqid = ~0U - static_cast<std::uint32_t>(chance.below(20));
      if (climate_.version < 4) state.habits.draw_v3(chance);
      if (climate_.sessionless) state.habits.draw_v40(chance);
      suit(state.habits);
    }
    if (climate_.time_step.count() != 0) server_->state().habits.time_grain = climate_.time_step;
    findings_.has_v42 = climate_.version == 4 && !climate_.sessionless;
    server_->state().lease = climate_.lease;
    if (climate_.service != 0 && !climate_.by_place) server_->responder().guard.demand();
    add_exports();
    locks_.troubled = !climate_.calm;
    findings_.calm = climate_.calm;
    if (climate_.version < 4) locks_.queues = random_.one_in(2);
    findings_.files_outlive_names = climate_.version == 4;
    findings_.disk_fills = climate_.fill_every.count() != 0;
    findings_.leases_end = climate_.leases_end() || loses_sessions(server_->state().habits);
    findings_.clients_die = climate_.kill_every.count() != 0;
    findings_.creates_exclusively = climate_.version == 4 || server_->state().habits.creates_exclusively;
    findings_.delegations_exclude = server_->state().habits.recalls_on_conflict;
    findings_.data_is_lost = climate_.data_is_lost();
    // Not every end of a lease is known to who had a promise until then.
    findings_.closes_promise = !findings_.disk_fills && !findings_.clients_die;
    findings_.is_owed = [this](const std::string& path) {
      return !findings_.leases_end && !server_->state().write_delegation(path);
    };
    findings_.recall = [this](const std::string& path) {
      if (climate_.recall_every.count() == 0) return;
      const Duration within = climate_.far ? 40ms : 100us;
      simulation_.after(random_.between(Duration{}, within), [this, path] {
        if (const auto number = server_->state().write_delegation(path)) server_->responder().demand(*number);
      });
    };
    server_->state().on_returned = [this] {
      for (const auto& job : jobs_) job->delegation_returned();
    };
    findings_.on_server = [this](const std::string& path) { return content(path); };
    findings_.keeps_verifier = [this](const std::string& handle) {
      const auto& inodes = server_->state().inodes;
      const auto file =
          std::ranges::find_if(inodes, [&](const auto& one) { return is_handle_of(handle, one.first); });
      return file != inodes.end() && file->second.exclusive.has_value() &&
             server_->state().habits.verifier_in_times;
    };
    team_export_ = any_export();
    findings_.lost_state = [this](const SimClient& client) {
      return server_->state().lost_state.contains(owner_of(client));
    };
    findings_.delegated = [this](const std::string& handle) {
      const auto is_of = [&](std::uint64_t inode) { return is_handle_of(handle, inode); };
      const auto& state = server_->state();
      return std::ranges::any_of(
                 state.delegations,
                 [&](const auto& one) { return one.second.writes && is_of(one.second.inode); }) ||
             std::ranges::any_of(state.delegated_before,
                                 [&](const auto& one) { return std::ranges::any_of(one.second, is_of); });
    };
    server_->state().is_truncated = [this](std::uint64_t inode) {
      return std::ranges::any_of(findings_.truncated,
                                 [inode](const std::string& handle) { return is_handle_of(handle, inode); });
    };
    for (unsigned i = 0; i < climate_.clients; ++i) add_client(i);
    if (climate_.program) add_program();
  }

  Outcome run() {
    Outcome out;
    try {
      schedule_weather();
      simulation_.after(kWorkTime, [this] { heal(); });
      if (program_) run_program();
      (void)simulation_.run_until([this] { return healed_ || workers_done(); }, kWorkTime);
      heal();
      const bool in_time = simulation_.run_until([this] { return workers_done(); }, kHealTime);
      if (!in_time) {
        unfinished(out);
      } else {
        end(out);
        check(out);
      }
    } catch (const Stuck& stuck) {
      out.verdict = Verdict::unfinished;
      out.text += std::string(stuck.what()) + "\n";
    }
    for (const std::string& text : findings_.wrong) out.text += text + "\n";
    if (!findings_.wrong.empty() && out.verdict == Verdict::right) out.verdict = Verdict::wrong;
    if (out.verdict != Verdict::right) {
      out.text += "    climate: " + climate_.text() + "\n    habits: " + server_->state().habits.text() +
                  "\n" + server_text();
      out.tail = simulation_.trace().tail();
    }
    out.operations = findings_.operations;
    out.time = simulation_.now().time_since_epoch();
    out.hash = simulation_.trace().hash();
    out.coverage = commons_.coverage;
    return out;
  }

 private:
  static constexpr Duration kWorkTime = 10min;
  static constexpr Duration kHealTime = 5min;
  static constexpr Duration kEndTime = 1min;
  static constexpr Duration kLockGrace = 45s;  // of the lock service beside NFSv3

  /// Leaves out what this world's clients cannot be expected to survive.
  void suit(testing::Habits& habits) const {
    for (const std::string_view group : climate_.habits_left_out) habits.leave_out(group);
    if (!climate_.odd) habits.leave_out_all();
    // A WRITE that the server keeps for a while may have been made again by then, and undo what was written behind it.
    if (climate_.repeats_are_unknown()) habits.stall_percent = 0;
    // What a COMMIT has lost the client hears of by its answer. A READ that another connection answers before is older.
    if (climate_.connections != 1 || habits.stall_percent != 0) habits.lost_at_commit_percent = 0;
    // NFSv2 has no word for NFS4ERR_DELAY, and sizes of its own.
    if (climate_.version == 2) {
      habits.busy_percent = 0;
      habits.leave_out("limits");
    }
    // NFSv3 knows a change by the times alone: two within a grain are one (nfs(5), DATA AND METADATA COHERENCE).
    if (climate_.version < 4) habits.leave_out("changes");
  }
  /// Whether a session may end, with requests under way, although its client and its server live.
  static bool loses_sessions(const testing::Habits& habits) {
    return habits.stranger_percent != 0 || (habits.stuck_flags & nfs4::SEQ4_STATUS_BACKCHANNEL_FAULT) != 0;
  }

  /// NFSv2 has octets behind it, so that all handles are of one size.
  static bool is_handle_of(const std::string& handle, std::uint64_t inode) {
    return handle.starts_with(testing::handle_of(inode).chars());
  }

  Host& add_host(const std::string& name) {
    Host& host = simulation_.add_host(name);
    if (climate_.whims) host.set_whims(options_.seed);
    LinkConditions& link = network_.between(host, *server_host_);
    if (climate_.far) link.latency = random_.between(100us, 20ms);
    link.jitter = link.latency / 2;
    link.piece = static_cast<std::uint32_t>(random_.between(512, 16'384));
    link.dials_refused = link.dials_lost = link.dials_reset = climate_.dials_fail;
    for (DeviceHabits* habits : {&network_.habits(host), &network_.habits(*server_host_)}) {
      habits->completes_when_received = random_.one_in(2);
      habits->at_once = random_.one_in(2);
      habits->revokes_late = climate_.revokes_late;
      if (climate_.wakes_late) habits->longest_wakeup = 200us;
      if (random_.one_in(3)) habits->largest_segment = random_.between(1000, 10'000);
    }
    return host;
  }

  void add_exports() {
    testing::ServerState& state = server_->state();
    for (unsigned i = 1; i <= climate_.exports; ++i) {
      findings_.exports.push_back("x" + std::to_string(i));
      const testing::Inode& root = state.make_export("/" + findings_.exports.back());
      if (climate_.by_place) state.flavors[root.file_system] = {static_cast<Security>(climate_.service)};
    }
    if (climate_.by_place) state.flavors[0] = {Security::sys};
    state.pseudo_root_is_read_only = climate_.exports != 0 && random_.one_in(2);
  }

  /// Where somebody works.
  std::string any_export() {
    const std::size_t count = findings_.exports.size();
    if (count == 0) return "";
    const std::size_t at = random_.below(server_->state().pseudo_root_is_read_only ? count : count + 1);
    return at < count ? findings_.exports[at] : "";
  }

  [[nodiscard]] Sealing sealing() const {
    if (climate_.service == 0) return std::nullopt;
    return Seal{static_cast<gss::Service>(climate_.service),
                {climate_.window, climate_.contexts_live, climate_.calm ? 0U : 8U},
                climate_.by_place};
  }

  [[nodiscard]] connect::Options quick_options() const {
    connect::Options out = SimClient::quick();
    out.connections = climate_.connections;
    out.threads = climate_.threads;
    out.shards = climate_.shards;
    if (climate_.elsewhere) out.remote_ports = {"10.1.0." + std::to_string(server_host_->number())};
    out.version = climate_.version;
    if (climate_.sessionless) out.minor_version = 0;
    out.minor_version_fixed = climate_.sessionless;
    out.port_fixed = true;
    if (climate_.reads_holes) out.read_plus = ReadPlus::yes;
    return out;
  }

  void add_program() {
    Host& host = add_host("program");
    const connect::Options options = quick_options();
    program_ = std::make_unique<Program>(
        network_, host, *server_host_, options, sealing(), random_.next(), any_export(),
        options_.operations / (climate_.clients * climate_.workers) + 1, findings_);
    program_host_ = &host;
  }

  /// As long as it does something the simulation goes on beneath it.
  void run_program() {
    const auto in_time = [this] { return simulation_.now().time_since_epoch() < kWorkTime + kHealTime; };
    while (!program_->done() && findings_.wrong.empty() && in_time()) program_->step();
  }

  void add_client(unsigned number) {
    Host& host = add_host("client" + std::to_string(number + 1));
    const connect::Options options = quick_options();
    clients_.push_back(std::make_unique<SimClient>(network_, host, *server_host_, options, sealing(),
                                                   climate_.version == 4 ? nullptr : &locks_));
    SimClient& client = *clients_.back();
    if (climate_.anything && climate_.pages && random_.below(4) != 0) client.have_kernel();
    const unsigned each = options_.operations / (climate_.clients * climate_.workers) + 1;
    for (unsigned i = 0; i < climate_.workers; ++i) {
      std::string name = "c" + std::to_string(number + 1) + "w" + std::to_string(i + 1);
      if (climate_.anything) {
        jobs_.push_back(std::make_unique<AnyWorker>(client, std::move(name), team_export_, random_.next(),
                                                    each, findings_, commons_));
      } else if (number < climate_.teams) {
        jobs_.push_back(std::make_unique<TeamWorker>(client, std::move(name), team_export_, random_.next(),
                                                     each, findings_, board_));
      } else {
        jobs_.push_back(
            std::make_unique<Worker>(client, std::move(name), any_export(), random_.next(), each, findings_));
      }
    }
    start(host, mount_and_work(client, jobs_of(number)));
  }

  /// Those of a client that have not ended.
  [[nodiscard]] std::vector<Job*> jobs_of(std::size_t client) const {
    std::vector<Job*> out;
    for (const auto& job : std::span(jobs_).subspan(client * climate_.workers, climate_.workers)) {
      if (!job->done()) out.push_back(job.get());
    }
    return out;
  }

  [[nodiscard]] std::optional<std::string> content(const std::string& path) const {
    const auto* file = server_->state().find(path);
    if (file == nullptr) return std::nullopt;
    return file->content.data();
  }

  /// From outside any turn: what it sends at once leaves at the end of this.
  static void start(Host& host, async::Task<void> task) {
    host.loop().spawn(std::move(task));
    host.loop().end_turn();
  }

  async::Task<void> mount_and_work(SimClient& client, std::vector<Job*> jobs) {
    auto done = co_await client.connect();
    if (!done) {
      findings_.wrong.push_back(client.host().name() + ": mount: " + done.error().text());
      co_return;
    }
    for (Job* job : jobs) client.host().loop().spawn(job->run());
  }

  /// What the server has been doing, and what it still has.
  [[nodiscard]] std::string server_text() const {
    constexpr std::size_t kShown = 12;
    const testing::ServerState& state = server_->state();
    std::string out = "    the server has " + std::to_string(state.sessions.size()) + " sessions, " +
                      std::to_string(state.opens.size()) + " opens, " + std::to_string(state.locks.size()) +
                      " locks, " + std::to_string(state.delegations.size()) + " delegations; it executed\n";
    // Where something is left open, or delegated, only what was done to that.
    std::set<std::uint64_t> left;
    for (const auto& [number, open] : state.opens) left.insert(open.inode);
    for (const auto& [number, delegation] : state.delegations) left.insert(delegation.inode);
    std::vector<std::string> lines;
    for (const auto& one : state.executed) {
      if (left.empty() || left.contains(one.inode)) lines.push_back("      " + to_string(one) + "\n");
    }
    for (std::size_t i = lines.size() - std::min(lines.size(), kShown); i < lines.size(); ++i)
      out += lines[i];
    return out;
  }

  [[nodiscard]] bool workers_done() const {
    if (!findings_.wrong.empty()) return true;
    if (program_ && !program_->done()) return false;
    return std::ranges::all_of(jobs_, [](const auto& job) { return job->done(); });
  }

  // ---- weather ----

  void schedule_weather() {
    schedule(climate_.cut_every, [this] {
      Host& host = any_client();
      const auto all = network_.connections(host, *server_host_);
      if (!all.empty()) network_.cut(all[random_.below(all.size())], any_told());
    });
    if (climate_.part_every.count() != 0) schedule_part();
    schedule(climate_.crash_every, [this] { crash(); });
    schedule(climate_.failover_every, [this] { fail_over(); });
    schedule(climate_.freeze_every,
             [this] { server_->responder().freeze(random_.between(0s, climate_.longest_freeze)); });
    schedule(climate_.unlearn_every, [this] {
      simulation_.note(server_host_->number(), "forgets contexts");
      server_->responder().guard.forget();
    });
    schedule(climate_.forget_every, [this] {
      simulation_.note(server_host_->number(), "forgets sessions");
      server_->state().sessions.clear();
    });
    schedule(climate_.sleep_every, [this] {
      Host& host = any_client();
      if (!host.runs()) return;
      host.sleep();
      simulation_.after(random_.between(0s, climate_.longest_sleep), [&host] { host.wake(); });
    });
    schedule(climate_.kill_every, [this] { kill(random_.below(climate_.teams)); });
    schedule(climate_.fill_every, [this] {
      testing::ServerState& state = server_->state();
      state.space = state.used + random_.below(30'000);
      simulation_.after(random_.between(Duration{}, climate_.longest_fill),
                        [&state] { state.space.reset(); });
    });
    schedule(climate_.clock_every, [this] { set_clock(); });
    schedule(climate_.unlock_every, [this] { take_lock_away(); });
    schedule(climate_.recall_every, [this] {
      const auto& out = server_->state().delegations;
      if (out.empty()) return;
      auto at = out.begin();
      std::advance(at, random_.below(out.size()));
      if (at->second.writes && server_->state().habits.asks_writers && random_.below(2) == 0) {
        server_->responder().ask(at->first);
      } else {
        server_->responder().demand(at->first);
      }
    });
  }

  void crash() {
    ++findings_.restarts;
    server_->crash(random_.between(0s, climate_.grace));
    if (climate_.version == 4) return;
    locks_.restart();
    simulation_.after(kLockGrace, [this, life = locks_.state] {
      if (locks_.state == life) locks_.grace = false;
    });
  }

  /// Another server takes over, with all state and all that is on the disk.
  void fail_over() {
    simulation_.note(server_host_->number(), "fails over");
    ++findings_.restarts;
    server_->state().fail_writeback();
    for (const auto& host : simulation_.hosts()) {
      if (host.get() == server_host_) continue;
      // Of two connections of a client one may be known to be gone long before the other.
      for (const std::uint64_t connection : network_.connections(*host, *server_host_))
        network_.cut(connection, any_told());
    }
  }

  /// S27: of a client that has had it for a while, and whose open stands.
  void take_lock_away() {
    testing::ServerState& state = server_->state();
    std::vector<std::uint64_t> held;
    for (const auto& [number, one] : state.locks) {
      const bool settled = state.now() - one.granted > 1s;
      if (one.client != 0 && one.revoked == testing::Revoked::no && !one.pieces.empty() && settled)
        held.push_back(number);
    }
    if (held.empty()) return;
    simulation_.note(server_host_->number(), "takes a lock away");
    state.revoke_lock(held[random_.below(held.size())], testing::Revoked::by_admin);
  }

  /// Somebody's, the server's too, forwards or backwards.
  void set_clock() {
    const std::chrono::seconds ahead(random_.one_in(2) ? random_.below(7200) : random_.below(600'000'000));
    const std::chrono::seconds shift = random_.one_in(2) ? ahead : -ahead;
    if (random_.one_in(2)) {
      simulation_.note(server_host_->number(), "has its clock set");
      server_->state().clock_ahead = shift;
    } else {
      Host& host = any_client();
      simulation_.note(host.number(), "has its clock set");
      host.set_clock(shift);
    }
  }

  /// kill -9, and mounted again after a while.
  void kill(std::size_t number) {
    SimClient& client = *clients_[number];
    if (!client.host().runs() || jobs_of(number).empty() || dead_.contains(number)) return;
    simulation_.note(client.host().number(), "is killed");
    for (Job* job : jobs_of(number)) job->killed();
    client.kill();
    dead_.insert(number);
    simulation_.after(random_.between(Duration{}, climate_.longest_death),
                      [this, number] { revive(number); });
  }
  void revive(std::size_t number) {
    if (dead_.erase(number) == 0) return;
    clients_[number]->revive();
    start(clients_[number]->host(), mount_and_work(*clients_[number], jobs_of(number)));
  }

  /// Does it again and again, until everything heals. Never, where `every` is 0.
  void schedule(Duration every, std::function<void()> what) {
    if (every.count() == 0) return;
    simulation_.after(random_.between(Duration{}, 2 * every), [this, every, what] {
      if (healed_) return;
      what();
      schedule(every, what);
    });
  }

  /// The next one is scheduled when everybody reaches everybody again.
  void schedule_part() {
    simulation_.after(random_.between(Duration{}, 2 * climate_.part_every), [this] {
      if (healed_) return;
      network_.part(any_client(), *server_host_);
      simulation_.after(random_.between(Duration{}, climate_.longest_part), [this] {
        network_.heal();
        if (!healed_) schedule_part();
      });
    });
  }

  Host& any_client() {
    const std::uint64_t at = random_.below(clients_.size() + (program_ ? 1 : 0));
    return at < clients_.size() ? clients_[at]->host() : *program_host_;
  }

  Told any_told() {
    Told told;
    const auto when = [this] { return random_.one_in(2) ? Duration{} : random_.between(Duration{}, 10s); };
    told.dialer = when();
    told.listener = when();
    if (random_.one_in(5))
      told.dialer.reset();
    else if (random_.one_in(5))
      told.listener.reset();
    return told;
  }

  void heal() {
    if (std::exchange(healed_, true)) return;
    simulation_.note(0, "everything heals");
    for (const auto& host : simulation_.hosts()) host->wake();
    for (const auto& host : simulation_.hosts()) {
      if (host.get() == server_host_) continue;
      LinkConditions& link = network_.between(*host, *server_host_);
      link.dials_refused = link.dials_lost = link.dials_reset = 0;
    }
    network_.heal();
    server_->responder().thaw();
    server_->state().space.reset();
    server_->state().habits.stall_percent = server_->state().habits.busy_percent = 0;
    server_->state().end_long_failures();
    for (const std::size_t number : std::set(dead_)) revive(number);
  }

  // ---- the end ----

  void unfinished(Outcome& out) {
    out.verdict = Verdict::unfinished;
    for (const auto& job : jobs_) {
      if (!job->done()) out.text += job->name() + " does not end: " + job->doing() + "\n";
    }
    if (program_ && !program_->done()) out.text += "the program does not end: " + program_->doing() + "\n";
  }

  async::Task<void> finish(SimClient& client) {
    auto done = co_await client.finish();
    if (!done) findings_.wrong.push_back(client.host().name() + ": unmount: " + done.error().text());
    ++finished_;
  }

  void end(Outcome& out) {
    if (!findings_.wrong.empty()) return;
    if (program_) program_->end();
    for (const auto& client : clients_) start(client->host(), finish(*client));
    if (!simulation_.run_until([this] { return finished_ == clients_.size(); }, kEndTime)) {
      out.verdict = Verdict::unfinished;
      out.text += "an unmount does not end\n";
    }
    simulation_.run_for(1s);
  }

  static testing::Octets owner_of(const SimClient& client) {
    const std::string name = SimClient::owner(client.host());
    const auto bytes = std::as_bytes(std::span(name));
    return {bytes.begin(), bytes.end()};
  }

  static std::string printable(const testing::Octets& bytes) {
    std::string text;
    for (const std::byte one : bytes) {
      const auto code = std::to_integer<unsigned>(one);
      const bool as_it_is = code > ' ' && code <= '~';
      text += as_it_is ? std::string(1, static_cast<char>(code)) : " " + std::to_string(code);
    }
    return text;
  }

  /// Whether one of the clients has it now. What an attempt to mount has left on a server that did not answer
  /// is nobody's, and goes with its lease.
  [[nodiscard]] bool is_of_a_client(const testing::SessionState& session) const {
    const auto owner = server_->state().clients.find(session.client);
    if (owner == server_->state().clients.end()) return true;
    return std::ranges::any_of(clients_,
                               [&](const auto& client) { return owner_of(*client) == owner->second.owner; });
  }

  void check(Outcome& out) {
    if (out.verdict != Verdict::right || !findings_.wrong.empty()) return;
    const auto find = [this](const std::string& text) { findings_.wrong.push_back(text); };
    testing::ServerState& state = server_->state();
    if (!state.problems.empty()) find("the server: " + state.problems);
    if (!network_.problems().empty()) find("the network: " + network_.problems());
    for (const auto& [id, session] : state.sessions) {
      if (is_of_a_client(session)) find("a session is left on the server");
    }
    for (const auto& [number, open] : state.opens) {
      find("open " + std::to_string(number) + " of inode " + std::to_string(open.inode) +
           " is left on the server; its owner is " + printable(open.owner));
    }
    if (locks_.count() != 0) find("locks are left on the server");
    if (locks_.forgotten != 0) find("a client has forgotten a lock that it has");
    if (!state.delegations.empty()) find("delegations are left on the server");
    for (const auto& job : jobs_) job->check();
    if (program_) program_->check();
  }

  const RunOptions options_;
  Simulation simulation_;
  Random random_{simulation_.random().split()};
  const Climate climate_{random_, options_.faults, options_.without, {options_.anything, options_.habits}};
  Findings findings_;
  Network network_{simulation_};
  Host* server_host_ = nullptr;
  std::unique_ptr<SimServer> server_;
  Board board_;
  Commons commons_{findings_, climate_.names, climate_.stripes};
  std::string team_export_;
  testing::LockTable locks_;                         // of the service beside NFSv3
  std::vector<std::unique_ptr<Job>> jobs_;           // climate_.workers for each client, in their order
  std::vector<std::unique_ptr<SimClient>> clients_;  // their tasks use the jobs
  std::unique_ptr<Program> program_;
  Host* program_host_ = nullptr;
  std::set<std::size_t> dead_;  // clients
  std::size_t finished_ = 0;
  bool healed_ = false;
};

}  // namespace

Outcome run(const RunOptions& options) {
  World world(options);
  return world.run();
}

}  // namespace nfsrdma::sim
