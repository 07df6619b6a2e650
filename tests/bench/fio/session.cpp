// The C++ side of fio's engine, on the public API only: session.h. All callbacks of the library run inside calls that the
// session's only thread makes, so nothing here is guarded.
#include "session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfsrdma/client.h"

namespace {

using std::chrono::milliseconds;

/// What the library has to tell between connect() and the end.
class Reporter final : public nfsrdma::Observer {
 public:
  explicit Reporter(session_report report) : report_(report) {}
  void notice(const std::string& text) override { report_(text.c_str()); }
  int failed(const nfsrdma::Error& error) {
    report_(error.text().c_str());
    return error.errno_value() != 0 ? error.errno_value() : EIO;
  }
  template <class R>
  int outcome(const R& result) {
    return result ? 0 : failed(result.error());
  }

 private:
  const session_report report_;
};

}  // namespace

struct session {
  explicit session(session_report report) : reporter(report) {}

  void wait(milliseconds most) { (void)client->wait(most); }

  Reporter reporter;
  std::unique_ptr<nfsrdma::Client> client;
  std::unique_ptr<nfsrdma::Directory> directory;  // the URL's
  std::size_t rsize = 0, wsize = 0;
  std::vector<session_request*> requests;  // all that there are
  std::size_t in_flight = 0;               // of them
  std::deque<session_request*> done;       // ended, and not given to fio yet
  std::vector<session_request*> given;     // by the last session_wait()
  std::string last_text;                   // that session_error_text() gave
};

struct session_file {
  session& owner;
  std::unique_ptr<nfsrdma::File> file;  // null once its requests were cancelled
};

constexpr const char* kRead = "READ";

struct session_request {
  session& of;
  void* const owner;
  session_file* file = nullptr;  // while it is in flight
  std::size_t size = 0, piece = 0, pieces = 0;
  std::size_t end = 0;  // behind it nothing went
  const char* what = "";
  std::optional<nfsrdma::Error> error;

  void begin(session_file& target, const char* operation, std::size_t bytes, std::size_t most) {
    file = &target;
    size = end = bytes;
    piece = most;
    pieces = 1;  // as long as pieces are started
    what = operation;
    error.reset();
    ++of.in_flight;
  }
  /// False: its file's requests were cancelled, and it has ended.
  bool may_start() {
    if (file->file) return true;
    error.emplace(nfsrdma::ErrorKind::cancelled, ECANCELED, what, "",
                  "the file's requests were cancelled, and it with them");
    piece_over();
    return false;
  }
  /// A callback that captures this much is stored without allocating.
  auto piece_done(std::size_t at) {
    ++pieces;
    return [this, at](const nfsrdma::Result<std::size_t>& got) { piece_ended(at, got); };
  }
  void piece_ended(std::size_t at, const nfsrdma::Result<std::size_t>& got) {
    if (!got) {
      if (!error) error = got.error();
    } else if (*got < std::min(piece, size - at)) {
      end = std::min(end, at + *got);
    }
    piece_over();
  }
  /// Of a call that is no transfer.
  auto call_done() {
    return [this](const nfsrdma::Status& done) {
      if (!done) error = done.error();
      piece_over();
    };
  }
  void piece_over() {
    if (--pieces != 0) return;
    // fio would ask for the rest for ever.
    if (!error && end == 0 && what == kRead)
      error.emplace(nfsrdma::ErrorKind::server, EIO, kRead, "", "the file ends before this offset");
    stop();
    of.done.push_back(this);
  }
  void stop() {
    file = nullptr;
    --of.in_flight;
  }
};

namespace {

std::string_view relative(const char* name) {
  std::string_view out(name);
  out.remove_prefix(std::min(out.find_first_not_of('/'), out.size()));
  return out;
}

void make_directories(nfsrdma::Directory& base, std::string_view path) {
  for (std::size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1)) {
    // What is wrong with one of them the open says that needs it.
    (void)base.make_directory(path.substr(0, at), 0755);
  }
}

int gone(session_file& file) {
  file.owner.reporter.failed({nfsrdma::ErrorKind::cancelled, ECANCELED, "", "",
                              "the file's requests were cancelled, and it with them"});
  return ECANCELED;
}

}  // namespace

int session_begin(const char* url, const char* options, session_report report, session** out) {
  auto made = std::make_unique<session>(report);
  nfsrdma::Options base;
  if (options != nullptr) {
    if (auto set = base.set_all(options); !set) return made->reporter.failed(set.error());
  }
  const auto target = nfsrdma::parse_target(url, base);
  if (!target) return made->reporter.failed(target.error());
  auto client = nfsrdma::Client::connect(*target, &made->reporter);
  if (!client) return made->reporter.failed(client.error());
  made->client = std::move(*client);
  auto directory = made->client->open_directory(target->path);
  if (!directory) return made->reporter.failed(directory.error());
  made->directory = std::move(*directory);
  const nfsrdma::Info info = made->client->info();
  made->rsize = std::max(info.rsize, 1U);
  made->wsize = std::max(info.wsize, 1U);
  *out = made.release();
  return 0;
}

void session_end(session* session) {
  const std::unique_ptr<struct session> ended(session);
  ended->directory.reset();
  if (auto done = ended->client->disconnect(); !done) (void)ended->reporter.failed(done.error());
}

void session_describe(session* session, char* text, size_t size) {
  const nfsrdma::Info info = session->client->info();
  const std::string line = "NFSv" + info.version + " over " + info.fabric + ", rsize " +
                           std::to_string(info.rsize) + ", wsize " + std::to_string(info.wsize) +
                           ", security " + info.security;
  text[line.copy(text, size - 1)] = '\0';
}

int session_size(session* session, const char* name, uint64_t* size) {
  const auto found = session->directory->stat(relative(name));
  if (!found && found.error().errno_value() == ENOENT) return ENOENT;
  if (found) *size = found->size;
  return session->reporter.outcome(found);
}

int session_remove(session* session, const char* name) {
  const auto removed = session->directory->remove_file(relative(name));
  if (!removed && removed.error().errno_value() == ENOENT) return ENOENT;
  return session->reporter.outcome(removed);
}

int session_open(session* session, const char* name, bool writes, bool creates, session_file** out) {
  const auto mode = writes ? nfsrdma::OpenMode::read_write : nfsrdma::OpenMode::read;
  const auto open = [&] {
    return session->directory->open(relative(name), mode, {.create = creates, .mode = 0644});
  };
  auto opened = open();
  if (!opened && creates && opened.error().errno_value() == ENOENT) {
    make_directories(*session->directory, relative(name));
    opened = open();
  }
  if (!opened) return session->reporter.failed(opened.error());
  *out = new session_file{*session, std::move(*opened)};
  return 0;
}

int session_close(session_file* file, bool syncs) {
  const std::unique_ptr<session_file> closed(file);
  if (!closed->file) return 0;
  Reporter& reporter = closed->owner.reporter;
  const int synced = syncs ? reporter.outcome(closed->file->sync()) : 0;
  const int status = reporter.outcome(closed->file->close());
  return synced != 0 ? synced : status;
}

int session_write_now(session_file* file, const void* data, size_t size, uint64_t offset) {
  if (!file->file) return gone(*file);
  const std::span bytes(static_cast<const std::byte*>(data), size);
  return file->owner.reporter.outcome(file->file->write(bytes, offset));
}

session_request* session_request_new(session* session, void* owner) {
  auto made = std::make_unique<session_request>(*session, owner);
  session->requests.push_back(made.get());
  return made.release();
}

void session_request_free(session_request* request) {
  std::erase(request->of.requests, request);
  delete request;
}

void* session_owner(const session_request* request) {
  return request->owner;
}

void session_read(session_request* request, session_file* file, void* data, size_t size, uint64_t offset) {
  session& session = request->of;
  request->begin(*file, kRead, size, session.rsize);
  if (!request->may_start()) return;
  const std::span bytes(static_cast<std::byte*>(data), size);
  for (std::size_t at = 0; at < size; at += session.rsize) {
    const auto piece = bytes.subspan(at, std::min(session.rsize, size - at));
    file->file->start_read(piece, offset + at, request->piece_done(at));
  }
  request->piece_over();
}

void session_write(session_request* request, session_file* file, const void* data, size_t size,
                   uint64_t offset, session_writing how) {
  session& session = request->of;
  request->begin(*file, "WRITE", size, session.wsize);
  if (!request->may_start()) return;
  const std::span bytes(static_cast<const std::byte*>(data), size);
  // It owns nothing: fio keeps its buffers until its files are closed.
  const std::shared_ptr<const void> keeper(std::shared_ptr<const void>(),
                                           how == SESSION_IN_PLACE ? data : nullptr);
  const auto stability = how == SESSION_STABLE ? nfsrdma::Stability::on_disk : nfsrdma::Stability::unstable;
  for (std::size_t at = 0; at < size; at += session.wsize) {
    const auto piece = bytes.subspan(at, std::min(session.wsize, size - at));
    file->file->start_write(piece, offset + at, request->piece_done(at), keeper, stability);
  }
  request->piece_over();
}

void session_sync(session_request* request, session_file* file) {
  request->begin(*file, "COMMIT", 0, 1);
  if (!request->may_start()) return;
  file->file->start_sync(request->call_done());
}

void session_trim(session_request* request, session_file* file, size_t size, uint64_t offset) {
  request->begin(*file, "DEALLOCATE", size, size);
  if (!request->may_start()) return;
  file->file->start_deallocate(offset, size, request->call_done());
}

void session_send(session* session) {
  session->wait(milliseconds(0));
}

unsigned session_wait(session* session, unsigned min, unsigned max, long most) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + milliseconds(std::max(most, 0L));
  if (min == 0 && session->in_flight != 0 && session->done.size() < max) session->wait(milliseconds(0));
  while (session->done.size() < min && session->in_flight != 0) {
    milliseconds left = std::chrono::seconds(1);
    if (most >= 0) left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) break;
    session->wait(left);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(session->done.size(), max));
  session->given.assign(session->done.begin(), session->done.begin() + count);
  session->done.erase(session->done.begin(), session->done.begin() + count);
  return static_cast<unsigned>(count);
}

session_request* session_ended(session* session, unsigned index) {
  return session->given[index];
}

int session_error(const session_request* request) {
  if (!request->error) return 0;
  return request->error->errno_value() != 0 ? request->error->errno_value() : EIO;
}

const char* session_error_text(const session_request* request) {
  std::string& last = request->of.last_text;
  std::string text = request->error ? request->error->text() : "";
  // Where a server is gone all that is in flight fails alike.
  if (text == last) return "for the same reason";
  last = std::move(text);
  return last.c_str();
}

size_t session_moved(const session_request* request) {
  return request->error ? 0 : request->end;
}

bool session_cancel(session_request* request) {
  session_file* const file = request->file;
  if (file == nullptr) return false;
  file->file.reset();
  for (session_request* other : request->of.requests) {
    if (other->file == file) other->stop();
  }
  return true;
}
