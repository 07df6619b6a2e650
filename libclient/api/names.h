// The common parts of those functions of the C interface that take a path, and how attributes cross the
// interface.
//
// Thread-safety: that of the client (crew.h).
#pragma once

#include <span>
#include <string>
#include <utility>

#include "api/client_core.h"
#include "api/places.h"

namespace nfsrdma::api {

// ---- attributes ----

/// Fills in the caller's struct. EINVAL if it is null or too short.
Status store(const Attributes& from, nfsrdma_attributes* to);
/// Returns the error if the caller's struct cannot be filled in.
std::optional<Error> unfit(const nfsrdma_attributes* to);
Result<SetAttributes> changes_from(const nfsrdma_changes* from);

/// Runs `asked`, and fills in the numeric ids of owners that the server reported by name.
async::Task<Result<Attributes>> with_ids(async::Loop& loop, async::Task<Result<Attributes>> asked);
/// Fills in these ids for all of `attributes`, which must stay valid.
async::Task<void> fill_in_ids(async::Loop& loop, std::span<Attributes* const> attributes);

/// Returns the attributes of the object that the path leads to.
async::Task<Result<Attributes>> find_attributes(ClientCore& client, engine::Path path, bool follow);

// ---- results ----

inline std::int64_t nothing() {
  return 0;
}
/// Copies bytes to the caller, as readlink and getxattr do: returns their number; ERANGE if there are more
/// than `room`; with a `room` of 0 only the number.
Result<std::int64_t> copy_out(std::span<const std::byte> bytes, void* to, std::size_t room, const char* what);

// ---- calls by path ----

inline bool follows(std::uint32_t flags) {
  return (flags & NFSRDMA_NO_FOLLOW) == 0;
}
/// Makes a call on a path: `make(client, path)` returns its task. `flags` may have the bits of `known_flags`.
template <class R, class Make, class Finish>
std::int64_t on_path(nfsrdma_dir* dir, const char* text, const nfsrdma_call* call, nfsrdma_error** error,
                     Make make, Finish finish, std::uint32_t flags = 0,
                     std::uint32_t known_flags = NFSRDMA_NO_FOLLOW) {
  return guarded(error, [&]() -> std::int64_t {
    if (dir == nullptr || text == nullptr) return fail(error, missing(dir == nullptr ? "dir" : "path"));
    if (auto why = unknown_flags(flags, known_flags)) return fail(error, *why);
    const SharedPath path_text = std::make_shared<const std::string>(text);
    const auto how = How::from(call, dir->client, &path_text);
    if (!how) return fail(error, how.error());
    ClientCore& client = dir->client;
    const auto begin = [&]() -> async::Task<R> {
      auto path = dir->parse(text);
      if (!path) return refused<R>(path.error());
      return make(client, std::move(*path));
    };
    return client.call<R>(client.calls(), *how, error, begin, std::move(finish));
  });
}

/// Returns the error of an operation on an object that the engine knows by its handle. Such an error names at
/// most a part of the object, as an extended attribute.
inline Error part_of(const std::string& path, const Error& why, const ClientCore& client) {
  const bool names_part = !why.peer().empty() && why.peer() != client.target().host &&
                          (why.kind() == ErrorKind::server || why.kind() == ErrorKind::usage);
  return names_part ? why.about(why.operation(), path + ": " + why.peer()) : why;
}

template <class R, class Make>
async::Task<R> object_task(ClientCore& client, engine::Path path, bool follow, Make make) {
  const std::string text = path.text();
  auto object = co_await client.paths().find(std::move(path), follow);
  if (!object) co_return object.error();
  R result = co_await make(client.engine(), object->handle);
  if (!result) co_return part_of(text, result.error(), client);
  co_return result;
}

/// Makes a call on the object that a path leads to: `make(engine, handle)` returns its task. It runs when the
/// object has been found, so it may not refer to the caller's variables.
template <class R, class Make, class Finish>
std::int64_t on_object(nfsrdma_dir* dir, const char* text, std::uint32_t flags, const nfsrdma_call* call,
                       nfsrdma_error** error, Make make, Finish finish) {
  const auto begin = [&](ClientCore& client, engine::Path path) {
    return object_task<R>(client, std::move(path), follows(flags), std::move(make));
  };
  return on_path<R>(dir, text, call, error, begin, std::move(finish), flags);
}

}  // namespace nfsrdma::api
