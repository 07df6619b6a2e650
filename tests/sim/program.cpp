#include "sim/program.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>

#include "api/clients.h"
#include "sim/server.h"

namespace nfsrdma::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kProgramFiles = 8;
constexpr std::size_t kProgramLargest = 60'000;
constexpr std::size_t kPiece = 3000;
/// Longer than all trouble takes: whatever lasts longer does not end.
constexpr auto kPatience = 20min;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::span<std::byte> room_in(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

}  // namespace

class Program::Told final : public Observer {
 public:
  explicit Told(Host& host) : host_(host) {}
  void notice(const std::string& text) override { host_.simulation().say(host_.number(), "notice", text); }

 private:
  Host& host_;
};

Program::Program(Network& network, Host& host, const Host& server, const connect::Options& options,
                 Sealing sealing, std::uint64_t seed, std::string mounted, unsigned operations,
                 Findings& findings)
    : network_(network),
      host_(host),
      server_host_(server),
      options_(options),
      sealing_(sealing),
      random_(seed),
      left_(std::max(operations, 1U)),
      findings_(findings),
      directory_((mounted.empty() ? "" : "/" + mounted) + "/p"),
      told_(std::make_unique<Told>(host)) {}

Program::~Program() {
  if (!client_) return;
  network_.vanish(host_);
  client_.reset();
}

void Program::begin(const char* what, const std::string& name) {
  doing_ = std::string(what) + " " + name;
  host_.simulation().say(host_.number(), what, "program/" + name);
}

void Program::wrong(const std::string& what) {
  const std::string text = "program: " + doing_ + ": " + what;
  host_.simulation().say(host_.number(), "WRONG", text);
  findings_.wrong.push_back(text);
}

bool Program::may_be(const char* what, const Error& error) {
  const bool full = findings_.disk_fills && (error.errno_value() == ENOSPC || error.errno_value() == EDQUOT);
  const bool unknown = findings_.leases_end && error.kind() == ErrorKind::unknown_outcome;
  if (full || unknown) return true;
  wrong(std::string(what) + " gives errno " + std::to_string(error.errno_value()) + " (" + error.text() +
        ")");
  return false;
}

std::string Program::any_name() {
  return sim::any_name(files_, random_);
}

std::string Program::content(const std::string& name) {
  const std::size_t size = random_.below(random_.one_in(3) ? kProgramLargest : 2000);
  return text_of(name + " v" + std::to_string(++version_), size);
}

// ---- its life ----

bool Program::connect() {
  api::Setup setup;
  setup.loop = &host_.loop();
  setup.surroundings = SimClient::surroundings(network_, host_, sealing_, options_);
  setup.patience = kPatience;
  const std::vector addresses{Network::address(server_host_, SimServer::kPort)};
  setup.log = [](void* to, const char* text) { static_cast<Told*>(to)->notice(text); };
  setup.log_data = told_.get();
  auto made = std::make_unique<nfsrdma_client>(SimClient::target(server_host_, options_), addresses,
                                               std::move(setup));
  auto done = made->start(host_.loop().now() + options_.connect_timeout);
  if (!done) {
    host_.simulation().say(host_.number(), "cannot connect", done.error().text());
    return false;
  }
  client_ = Client::adopt(made.release());
  return true;
}

bool Program::make_directory() {
  begin("mkdir", "");
  auto done = client_->make_directory(directory_, 0755);
  has_directory_ = done || done.error().errno_value() == EEXIST;
  return has_directory_ || may_be("mkdir", done.error());
}

void Program::step() {
  const auto rest = [this](Duration most) { host_.simulation().run_for(random_.between(Duration{}, most)); };
  if (!client_ && !connect()) return rest(1s);
  while (!has_directory_ && make_directory()) rest(20ms);
  if (!has_directory_) return;
  one_operation();
  --left_;
  ++findings_.operations;
  if (random_.one_in(4)) rest(20ms);
}

void Program::end() {
  if (!client_) return;
  for (const auto& [name, text] : std::map(files_)) read(name);
  begin("disconnect", "");
  auto done = client_->disconnect();
  // It says goodbye for a bounded time, and the server may still be at work for what was given up, or stand still.
  const bool is_late = !done && (done.error().status() == nfs4::NFS4ERR_DELAY ||
                                 (!findings_.calm && done.error().kind() == ErrorKind::timeout));
  if (!done && !is_late) wrong("disconnect gives " + done.error().text());
  client_.reset();
}

void Program::check() {
  for (const auto& [name, text] : files_) {
    doing_ = "the end of " + name;
    const auto got = findings_.on_server(path(name));
    if (!got) {
      wrong("the server does not have it");
    } else if (*got != text) {
      wrong("on the server: " + difference(text, *got));
    }
  }
}

// ---- calls that block, or are started and waited for ----

template <class R>
R Program::heard(const std::function<void(std::function<void(R)>)>& start) {
  std::optional<R> told;
  start([&](R result) { told.emplace(std::move(result)); });
  while (!told) (void)client_->wait(10s);
  return std::move(*told);
}

Result<std::unique_ptr<File>> Program::open(const std::string& name, OpenMode mode, const OpenFlags& flags) {
  if (random_.one_in(2)) return client_->open(path(name), mode, flags);
  return heard<Result<std::unique_ptr<File>>>(
      [&](auto done) { client_->start_open(path(name), mode, std::move(done), flags); });
}

Status Program::sync(File& file) {
  if (random_.one_in(2)) return file.sync();
  return heard<Status>([&](auto done) { file.start_sync(std::move(done)); });
}

Status Program::close(File& file) {
  if (random_.one_in(2)) return file.close();
  return heard<Status>([&](auto done) { file.start_close(std::move(done)); });
}

// ---- operations ----

void Program::one_operation() {
  if (files_.size() < 2) return create();
  switch (random_.below(18)) {
    case 0:
    case 1:
      if (files_.size() < kProgramFiles) return create();
      return remove();
    case 2:
    case 3:
    case 4:
      return rewrite();
    case 5:
    case 6:
      return read(any_name());
    case 7:
      return read_by_pieces(any_name());
    case 8:
      return stat(any_name());
    case 9:
      return truncate();
    case 10:
      return rename();
    case 11:
      return link();
    case 12:
      return list();
    case 13:
    case 14:
      return read_together();
    case 15:
      return write_together();
    case 16:
      return stat_together();
    default:
      return remove();
  }
}

/// What it holds is not known: it goes.
void Program::forget(const std::string& name) {
  files_.erase(name);
  for (int tries = 0; tries < 100; ++tries) {
    auto done = client_->remove_file(path(name));
    if (done || done.error().errno_value() == ENOENT) return;
    if (!may_be("remove", done.error())) return;
  }
}

void Program::write_all(File& file, const std::string& name, std::size_t begin) {
  const std::string& text = files_[name];
  Status done;
  if (random_.one_in(3)) {
    unsigned left = 0;
    for (std::size_t at = begin; at < text.size(); at += kPiece) {
      ++left;
      file.start_write(bytes_of(text).subspan(at, std::min(kPiece, text.size() - at)), at,
                       [&](Result<std::size_t> count) {
                         --left;
                         if (!count && done) done = count.error();
                       });
    }
    while (left != 0) (void)client_->wait(10s);
  } else if (begin < text.size()) {
    auto count = file.write(bytes_of(text).subspan(begin), begin);
    if (!count) done = count.error();
  }
  if (done && random_.one_in(3)) done = sync(file);
  auto closed = close(file);
  if (done && !closed) done = closed.error();
  if (done) return;
  (void)may_be("write", done.error());
  forget(name);
}

void Program::create() {
  const std::string name = fresh_name();
  begin("create", name);
  OpenFlags flags;
  flags.create = true;
  flags.exclusive = random_.one_in(2);
  auto file = open(name, OpenMode::read_write, flags);
  if (!file) {
    (void)may_be("create", file.error());
    return forget(name);
  }
  files_[name] = content(name);
  write_all(**file, name, 0);
}

void Program::rewrite() {
  const std::string name = any_name();
  begin("rewrite", name);
  OpenFlags flags;
  flags.truncate = random_.one_in(3);
  auto file = open(name, OpenMode::write, flags);
  if (!file) {
    if (may_be("open", file.error())) forget(name);
    return;
  }
  std::string& text = files_[name];
  if (flags.truncate) text.clear();
  const std::size_t begin = random_.below(text.size() + 1);
  const std::string news = content(name);
  if (text.size() < begin + news.size()) text.resize(begin + news.size());
  text.replace(begin, news.size(), news);
  write_all(**file, name, begin);
}

/// Null where it cannot be opened, which has been told.
std::unique_ptr<File> Program::open_to_read(const std::string& name) {
  auto file = open(name, OpenMode::read);
  if (file) return std::move(*file);
  (void)may_be("open", file.error());
  return nullptr;
}

void Program::read(const std::string& name) {
  begin("read", name);
  const std::string& expected = files_[name];
  const auto file = open_to_read(name);
  if (!file) return;
  std::string got(expected.size() + random_.below(5000), '?');
  auto count = file->read(room_in(got), 0);
  if (!count) {
    (void)may_be("read", count.error());
  } else {
    got.resize(*count);
    if (got != expected) wrong("its content is another: " + difference(expected, got));
  }
  if (auto done = close(*file); !done) (void)may_be("close", done.error());
}

void Program::read_by_pieces(const std::string& name) {
  begin("read by pieces", name);
  const std::string& expected = files_[name];
  auto file = open_to_read(name);
  if (!file) return;
  std::string got(expected.size(), '?');
  unsigned left = 0;
  Status done;
  for (std::size_t at = 0; at < got.size(); at += kPiece) {
    ++left;
    file->start_read(room_in(got).subspan(at, std::min(kPiece, got.size() - at)), at,
                     [&](Result<std::size_t> count) {
                       --left;
                       if (!count && done) done = count.error();
                     });
  }
  const bool waits = !random_.one_in(5);  // or gives them up
  while (waits && left != 0) (void)client_->wait(10s);
  if (!done) (void)may_be("read", done.error());
  if (waits && done && got != expected) wrong("its content is another: " + difference(expected, got));
  if (waits) return;
  if (random_.one_in(2))
    file->start_close([&](const Status&) { wrong("a callback runs whose file is gone"); });
  file.reset();
}

void Program::stat(const std::string& name) {
  begin("stat", name);
  auto attributes = random_.one_in(2) ? client_->stat(path(name)) : heard<Result<Attributes>>([&](auto done) {
    client_->start_stat(path(name), std::move(done));
  });
  if (!attributes) {
    (void)may_be("stat", attributes.error());
  } else if (attributes->size != files_[name].size()) {
    wrong("it has " + std::to_string(attributes->size) + " bytes, and not " +
          std::to_string(files_[name].size()));
  }
}

void Program::read_together() {
  begin("read together", "");
  std::vector<std::string> names;
  for (const auto& [name, text] : files_) names.push_back(name);
  names.insert(names.begin() + static_cast<std::ptrdiff_t>(random_.below(names.size())), "missing");
  std::vector<std::string> rooms;
  std::vector<ReadItem> items;
  for (const std::string& name : names) {
    const std::size_t size = files_.contains(name) ? files_[name].size() : 100;
    switch (random_.below(4)) {
      case 0:
        rooms.emplace_back(size, '?');
        break;
      case 1:
        rooms.emplace_back(random_.below(size + 1), '?');
        break;
      default:
        rooms.emplace_back(size + 1 + random_.below(3000), '?');
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) items.push_back({path(names[i]), room_in(rooms[i])});
  const auto results = client_->read_many(items);
  for (std::size_t i = 0; i < names.size(); ++i) {
    doing_ = "read together " + names[i];
    if (!results[i]) {
      const bool is_missing = names[i] == "missing" && results[i].error().errno_value() == ENOENT;
      if (!is_missing) (void)may_be("read_many", results[i].error());
      continue;
    }
    if (names[i] == "missing") {
      wrong("it is there");
      continue;
    }
    const std::string& expected = files_[names[i]];
    const std::string got = rooms[i].substr(0, results[i]->count);
    const std::string most = expected.substr(0, rooms[i].size());
    if (got != most) wrong("its content is another: " + difference(most, got));
    if (results[i]->eof != (expected.size() <= rooms[i].size())) wrong("its end is elsewhere");
  }
}

void Program::write_together() {
  begin("write together", "");
  std::map<std::string, std::string> news;
  const std::size_t count = 1 + random_.below(6);
  for (std::size_t i = 0; i < count; ++i) {
    const bool fresh = files_.size() + news.size() < kProgramFiles && random_.one_in(2);
    const std::string name = fresh ? fresh_name() : any_name();
    news[name] = random_.one_in(6) ? "" : content(name);
  }
  std::vector<WriteItem> items;
  for (const auto& [name, text] : news) items.push_back({path(name), bytes_of(text), 0644});
  const auto results = client_->write_many(items);
  std::size_t next = 0;
  for (const auto& [name, text] : news) {
    doing_ = "write together " + name;
    const auto& result = results[next++];
    if (result) {
      files_[name] = text;
      continue;
    }
    (void)may_be("write_many", result.error());
    forget(name);
  }
}

void Program::stat_together() {
  begin("stat together", "");
  std::vector<std::string> paths;
  for (const auto& [name, text] : files_) paths.push_back(path(name));
  const auto results = client_->stat_many(paths);
  std::size_t next = 0;
  for (const auto& [name, text] : files_) {
    doing_ = "stat together " + name;
    const auto& result = results[next++];
    if (!result) {
      (void)may_be("stat_many", result.error());
    } else if (result->size != text.size()) {
      wrong("it has " + std::to_string(result->size) + " bytes, and not " + std::to_string(text.size()));
    }
  }
}

void Program::truncate() {
  const std::string name = any_name();
  begin("truncate", name);
  SetAttributes changes;
  changes.size = random_.below(kProgramLargest);
  auto done = client_->set_attributes(path(name), changes);
  if (done) {
    files_[name].resize(*changes.size);
  } else if (may_be("truncate", done.error())) {
    forget(name);
  }
}

void Program::rename() {
  const std::string from = any_name();
  const std::string to = random_.one_in(2) ? any_name() : fresh_name();
  begin("rename", from + " " + to);
  auto done = client_->rename(path(from), path(to));
  if (done) {
    if (from != to) files_[to] = std::exchange(files_[from], {});
    if (from != to) files_.erase(from);
  } else if (may_be("rename", done.error())) {
    forget(from);
    forget(to);
  }
}

/// A second name, by which it can be read, and which goes again.
void Program::link() {
  const std::string name = any_name();
  const std::string other = fresh_name();
  begin("link", name + " " + other);
  auto done = client_->link(path(name), path(other));
  if (done) {
    files_[other] = files_[name];
    read(other);
  } else {
    (void)may_be("link", done.error());
  }
  forget(other);
}

void Program::remove() {
  const std::string name = any_name();
  begin("remove", name);
  auto done = client_->remove_file(path(name));
  if (!done) (void)may_be("remove", done.error());
  if (done) {
    files_.erase(name);
  } else {
    forget(name);
  }
}

void Program::list() {
  begin("list", "");
  std::vector<std::string> got, expected;
  auto done = client_->list(directory_, [&](const DirectoryEntry& entry) {
    got.push_back(entry.name);
    return true;
  });
  if (!done) {
    (void)may_be("list", done.error());
    return;
  }
  std::ranges::sort(got);
  for (const auto& [name, text] : files_) expected.push_back(name);
  if (got != expected) {
    wrong("there are " + std::to_string(got.size()) + " names, and not " + std::to_string(expected.size()));
  }
}

}  // namespace nfsrdma::sim
