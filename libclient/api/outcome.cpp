#include "api/outcome.h"

#include <cerrno>
#include <new>
#include <system_error>

namespace nfsrdma::api {

nfsrdma_error* made(Error error) noexcept {
  try {
    return new nfsrdma_error(std::move(error));
  } catch (...) {
    return nullptr;  // no memory: the result -1 has to do
  }
}

std::int64_t fail(nfsrdma_error** to, Error error) {
  if (to != nullptr) *to = made(std::move(error));
  return -1;
}

Error from_exception() noexcept {
  try {
    throw;
  } catch (const std::system_error& failed) {
    return {ErrorKind::local, failed.code().value(), "", "",
            std::string("no file descriptor or thread is available (") + failed.what() +
                "); close some, or raise the limits (ulimit -n, ulimit -u)"};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::local, ENOMEM, "", "", "no memory is available; free some"};
  } catch (const std::exception& failed) {
    return {ErrorKind::local, EIO, "", "",
            std::string("an error in libnfsrdma (") + failed.what() + "); please report it"};
  }
}

Error missing(const char* argument) {
  return {ErrorKind::usage, EINVAL, "", "",
          std::string("the argument ") + argument + " is missing or malformed; see libnfsrdma(3)"};
}

Error short_struct_error(const char* name, const void* given, std::size_t size, std::size_t shortest) {
  if (given == nullptr) return missing(name);
  return {ErrorKind::usage, EINVAL, "", "",
          std::string(name) + ".struct_size is " + std::to_string(size) + ", less than the " +
              std::to_string(shortest) + " bytes of its first version; set it to sizeof(" + name + ")"};
}

Error unknown_members_error(const char* name) {
  return {ErrorKind::usage, E2BIG, "", "",
          std::string(name) +
              " has members that this version of libnfsrdma does not know, and they are "
              "not 0; use a newer library"};
}

Error unknown_flags_error(std::uint32_t unknown) {
  return {ErrorKind::usage, EINVAL, "", "",
          "the flags " + std::to_string(unknown) +
              " are not known to this version of libnfsrdma; see the manual of the function"};
}

}  // namespace nfsrdma::api

using nfsrdma::Error;
using nfsrdma::ErrorKind;

namespace {

/// Returns the error, or one that stands for a null pointer: a call that failed for lack of memory has no
/// error object.
const nfsrdma_error& real(const nfsrdma_error* error) {
  static const nfsrdma_error no_memory(
      Error(ErrorKind::local, ENOMEM, "", "", "no memory is available; free some"));
  return error != nullptr ? *error : no_memory;
}

}  // namespace

int nfsrdma_error_kind(const nfsrdma_error* error) {
  return static_cast<int>(real(error).error.kind());
}
int nfsrdma_error_errno(const nfsrdma_error* error) {
  return real(error).error.errno_value();
}
uint32_t nfsrdma_error_status(const nfsrdma_error* error) {
  return real(error).error.status();
}
int nfsrdma_error_outcome_unknown(const nfsrdma_error* error) {
  switch (real(error).error.kind()) {
    case ErrorKind::unknown_outcome:
    case ErrorKind::timeout:
    case ErrorKind::cancelled:
      return 1;
    default:
      return 0;
  }
}
const char* nfsrdma_error_operation(const nfsrdma_error* error) {
  return real(error).error.operation().c_str();
}
const char* nfsrdma_error_peer(const nfsrdma_error* error) {
  return real(error).error.peer().c_str();
}
const char* nfsrdma_error_message(const nfsrdma_error* error) {
  return real(error).error.message().c_str();
}
// Messages of this library have the form "what is wrong; what to do".
const char* nfsrdma_error_next_step(const nfsrdma_error* error) {
  const std::string& message = real(error).error.message();
  const std::size_t at = message.rfind("; ");
  return at == std::string::npos ? "" : message.c_str() + at + 2;
}
const char* nfsrdma_error_text(const nfsrdma_error* error) {
  return real(error).text.c_str();
}
nfsrdma_error* nfsrdma_error_copy(const nfsrdma_error* error) {
  return error == nullptr ? nullptr : nfsrdma::api::made(error->error);
}
void nfsrdma_error_free(nfsrdma_error* error) {
  delete error;
}
