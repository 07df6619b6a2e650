#include "cli/changes.h"

#include <cerrno>

namespace nfsrdma::cli {
namespace {

bool are_equal(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

/// Returns true if the file was read between the two, and nothing else happened to it. Some servers count the
/// update of the time of access as a change (Linux before 6.9 with XFS).
bool was_only_read(const Attributes& before, const Attributes& now) {
  return now.accessed != before.accessed && !have_other_times(before, now);
}

}  // namespace

bool has_changed(const Attributes& before, const Attributes& now, Growth growth) {
  if (growth == Growth::accepted && now.size > before.size) return false;
  if (now.size != before.size) return true;
  return now.change != before.change && !was_only_read(before, now);
}

bool has_changed(const struct stat& before, const struct stat& now, Growth growth) {
  if (growth == Growth::accepted && now.st_size > before.st_size) return false;
  return now.st_size != before.st_size || now.st_ino != before.st_ino || now.st_dev != before.st_dev ||
         !are_equal(now.st_mtim, before.st_mtim) || !are_equal(now.st_ctim, before.st_ctim);
}

bool has_changed(int fd, const struct stat& before, Growth growth) {
  struct stat now{};
  return ::fstat(fd, &now) != 0 || has_changed(before, now, growth);
}

bool have_other_times(const Attributes& before, const Attributes& now) {
  return now.modified != before.modified || now.changed != before.changed;
}

bool has_changed(const Attributes& before, const FileRead& read) {
  if (!read.eof || read.count != before.size) return true;
  return read.attributes && has_changed(before, *read.attributes);
}

Error source_changed(const char* operation, const std::string& name) {
  return {ErrorKind::local, EBUSY, operation, name,
          "changed while it was read, so the result may mix old and new contents; try again"};
}

bool is_source_changed(const Error& error) {
  return error.kind() == ErrorKind::local && error.errno_value() == EBUSY;
}

Status check_unchanged(File& file, const Attributes& before, const char* operation, const std::string& name,
                       Growth growth) {
  const Result<Attributes> now = file.attributes();
  if (!now) return now.error();
  return has_changed(before, *now, growth) ? Status(source_changed(operation, name)) : Status();
}

Status copy_listed(const Remote& file, const Attributes& listed, const CopyOf& copy) {
  const Status done = copy(listed);
  return !done && is_source_changed(done.error()) ? copy_afresh(file, copy) : done;
}

Status copy_afresh(const Remote& file, const CopyOf& copy) {
  const Result<Attributes> now = file.client->stat(file.path);
  if (!now) return now.error();
  if (now->type == FileType::regular) return copy(*now);
  return Error(ErrorKind::local, ESTALE, "read", file.text(), "is no longer a regular file; skipped");
}

}  // namespace nfsrdma::cli
