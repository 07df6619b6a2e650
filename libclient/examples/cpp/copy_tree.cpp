// Copies a directory from a server, with everything in it: up to 64 files at the same time on one thread, by
// calls that are only started, and whose callbacks start the next call. A file that fails is counted, and the
// rest goes on.
//
//   g++ -std=c++20 copy_tree.cpp $(pkg-config --cflags --libs nfsrdma) -o copy_tree
//   ./copy_tree nfs://server/export/directory LOCAL-DIRECTORY
#include <fcntl.h>
#include <nfsrdma/client.h>
#include <nfsrdma/one_line.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kPiece = 256 << 10, kMostJobs = 64;

class Job;

/// State that all jobs share. All jobs run on the main thread, because no other thread is inside Client::wait().
class Copier {
 public:
  Copier(nfsrdma::Directory& from, std::filesystem::path to) : source(from), destination(std::move(to)) {}

  /// Adds a job to those that have not begun. The job that was added last begins first, so that the copier
  /// goes down the tree, and few jobs wait.
  void add(std::shared_ptr<Job> job) { waiting_.push_back(std::move(job)); }
  void begin_some();
  [[nodiscard]] bool has_ended() const { return waiting_.empty() && running == 0; }
  void report(std::string_view path, std::string_view why) {
    std::cerr << "copy_tree: " << nfsrdma::one_line(path) << ": " << why << '\n';
    ++failures;
  }
  void report(const nfsrdma::Error& why) {
    std::cerr << "copy_tree: " << nfsrdma::one_line(why.text()) << '\n';
    ++failures;
  }

  nfsrdma::Directory& source;
  const std::filesystem::path destination;
  std::size_t running = 0;
  std::uint64_t files = 0, bytes = 0, directories = 0, links = 0, failures = 0;

 private:
  std::vector<std::shared_ptr<Job>> waiting_;
};

std::string reason(int number) {
  return std::generic_category().message(number);
}

/// The copy of one object. It exists for as long as it waits in the Copier, and then for as long as a call of
/// the job is under way, because the call's callback keeps a reference.
class Job {
 public:
  Job(Copier& copier, std::string path) : copier_(copier), path_(std::move(path)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Starts the first call, or else ends the job.
  virtual void begin() = 0;

 protected:
  void end() { --copier_.running; }
  void fail(std::string_view why) {
    copier_.report(path_, why);
    end();
  }
  void fail(const nfsrdma::Error& why) {
    copier_.report(why);
    end();
  }
  /// Returns the path of the copy.
  [[nodiscard]] std::string local() const {
    return path_.empty() ? copier_.destination : copier_.destination / path_;
  }

  Copier& copier_;
  const std::string path_;  // from the source directory, without a slash at its beginning
};

void Copier::begin_some() {
  while (running < kMostJobs && !waiting_.empty()) {
    const std::shared_ptr<Job> job = std::move(waiting_.back());
    waiting_.pop_back();
    ++running;
    job->begin();
  }
}

/// open, read until the end, close.
class FileJob final : public Job, public std::enable_shared_from_this<FileJob> {
 public:
  FileJob(Copier& copier, std::string path, std::uint32_t mode) : Job(copier, std::move(path)), mode_(mode) {}
  ~FileJob() override {
    if (fd_ >= 0) ::close(fd_);
  }
  void begin() override {
    copier_.source.start_open(path_, nfsrdma::OpenMode::read, [self = shared_from_this()](auto opened) {
      if (!opened) return self->fail(opened.error());
      self->file_ = std::move(*opened);
      self->on_opened();
    });
  }

 private:
  void on_opened() {
    fd_ = ::open(local().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode_ & 0777U);
    if (fd_ < 0) return give_up(reason(errno));
    data_.resize(kPiece);
    start_read();
  }
  void start_read() {
    file_->start_read(data_, offset_, [self = shared_from_this()](auto count) {
      if (!count) return self->give_up(count.error());
      self->on_read(*count);
    });
  }
  void on_read(std::size_t count) {
    for (std::size_t done = 0; done < count;) {
      const ssize_t written =
          ::pwrite(fd_, data_.data() + done, count - done, static_cast<off_t>(offset_ + done));
      if (written < 0) return give_up(reason(errno));
      done += static_cast<std::size_t>(written);
    }
    offset_ += count;
    copier_.bytes += count;
    if (count == kPiece) return start_read();
    start_close();
  }
  /// Reports why, and closes the file. The destructor of the File would close it as well, but it would wait
  /// for that, and all other files would wait, too.
  template <class Why>
  void give_up(const Why& why) {
    if constexpr (std::is_same_v<Why, nfsrdma::Error>) {
      copier_.report(why);
    } else {
      copier_.report(path_, why);
    }
    failed_ = true;
    start_close();
  }
  void start_close() {
    file_->start_close([self = shared_from_this()](const nfsrdma::Status& closed) {
      if (!closed && !self->failed_) return self->fail(closed.error());
      self->on_closed();
    });
  }
  void on_closed() {
    if (failed_) return end();
    // A local file system may report only now that it could not write.
    if (::close(std::exchange(fd_, -1)) != 0) return fail(reason(errno));
    ++copier_.files;
    end();
  }

  const std::uint32_t mode_;
  std::unique_ptr<nfsrdma::File> file_;
  std::vector<std::byte> data_;
  std::uint64_t offset_ = 0;
  int fd_ = -1;
  bool failed_ = false;
};

class LinkJob final : public Job, public std::enable_shared_from_this<LinkJob> {
 public:
  using Job::Job;
  void begin() override {
    copier_.source.start_read_link(path_,
                                   [self = shared_from_this()](const nfsrdma::Result<std::string>& text) {
                                     if (!text) return self->fail(text.error());
                                     self->on_text(*text);
                                   });
  }

 private:
  void on_text(const std::string& text) {
    if (::symlink(text.c_str(), local().c_str()) != 0) return fail(reason(errno));
    ++copier_.links;
    end();
  }
};

/// Makes the local directory, and then adds a job for each entry, page by page.
class DirectoryJob final : public Job, public std::enable_shared_from_this<DirectoryJob> {
 public:
  using Job::Job;
  void begin() override {
    if (listing_ == nullptr && !make()) return;
    listing_->start_next([self = shared_from_this()](const nfsrdma::Result<nfsrdma::Listing::Page>& page) {
      if (!page) return self->fail(page.error());
      self->on_page(*page);
    });
  }

 private:
  bool make() {
    if (::mkdir(local().c_str(), 0777) != 0) {
      const int error = errno;
      if (error != EEXIST || !may_be_used()) {
        fail(reason(error));
        return false;
      }
    }
    auto listing = copier_.source.open_listing(path_.empty() ? "." : path_);
    if (!listing) {
      fail(listing.error());
      return false;
    }
    listing_ = std::move(*listing);
    ++copier_.directories;
    return true;
  }
  /// Returns whether what is there already is a directory. A symbolic link to a directory will do only as the
  /// destination, which the user has named.
  [[nodiscard]] bool may_be_used() const {
    struct stat now{};
    const int status = path_.empty() ? ::stat(local().c_str(), &now) : ::lstat(local().c_str(), &now);
    return status == 0 && S_ISDIR(now.st_mode);
  }
  void on_page(const nfsrdma::Listing::Page& page) {
    // The entries begin before the next page is asked for.
    if (!page.empty()) copier_.add(shared_from_this());
    for (const nfsrdma::DirectoryEntry& entry : page) add(entry);
    end();
  }
  void add(const nfsrdma::DirectoryEntry& entry) {
    const std::string path = path_.empty() ? entry.name : path_ + '/' + entry.name;
    if (entry.name.find('/') != std::string::npos)
      return copier_.report(path, "the server lists a name with a slash");
    if (!entry.attributes) return copier_.report(path, "the server does not report the attributes");
    switch (entry.attributes->type) {
      case nfsrdma::FileType::regular:
        return copier_.add(std::make_shared<FileJob>(copier_, path, entry.attributes->mode));
      case nfsrdma::FileType::directory:
        return copier_.add(std::make_shared<DirectoryJob>(copier_, path));
      case nfsrdma::FileType::symlink:
        return copier_.add(std::make_shared<LinkJob>(copier_, path));
      default:
        copier_.report(path, "left out, because it is neither a file, a directory nor a symbolic link");
    }
  }

  std::unique_ptr<nfsrdma::Listing> listing_;
};

int fail(const nfsrdma::Error& why) {
  std::cerr << "copy_tree: " << why.text() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: copy_tree nfs://server/export/directory LOCAL-DIRECTORY\n";
    return 2;
  }
  const auto target = nfsrdma::parse_target(argv[1]);
  if (!target) return fail(target.error());
  const auto client = nfsrdma::Client::connect(*target);
  if (!client) return fail(client.error());
  const auto directory = (*client)->open_directory(target->path);
  if (!directory) return fail(directory.error());

  Copier copier(**directory, argv[2]);
  copier.add(std::make_shared<DirectoryJob>(copier, ""));
  while (!copier.has_ended()) {
    copier.begin_some();
    // Sends what was started, and runs callbacks.
    if (copier.running != 0) (*client)->wait(std::chrono::milliseconds::max());
  }
  std::cout << copier.files << " files with " << copier.bytes << " bytes, " << copier.directories
            << " directories, " << copier.links << " links, " << copier.failures << " failures\n";
  return copier.failures == 0 ? 0 : 1;
}
