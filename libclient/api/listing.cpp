// Listings of the C interface: a directory, page by page.
//
// A listing has one nfsrdma_listing_next() at a time. Its task works on a state that it shares with the
// listing; the page becomes the current one when the completion is delivered. A completion that waits in a
// queue also holds the state, because the program may free the listing before it receives the completion.
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/names.h"
#include "engine/cookie_loop.h"

using namespace nfsrdma;
using namespace nfsrdma::api;

struct nfsrdma_listing {
  nfsrdma_listing(const nfsrdma_dir& begin, std::string text)
      : dir(begin.client, begin.directory), path(std::make_shared<const std::string>(std::move(text))) {
    const Crew::Inside inside(dir.client.crew());
    dir.client.add(calls);
  }
  ~nfsrdma_listing() {
    const Crew::Inside inside(dir.client.crew());
    dir.client.remove(calls);
    calls.cancel_all({ErrorKind::cancelled, ECANCELED, "READDIR", *path, "the listing was freed"});
    if (!inside.nested()) dir.client.loop().end_turn();
  }
  nfsrdma_listing(const nfsrdma_listing&) = delete;
  nfsrdma_listing& operator=(const nfsrdma_listing&) = delete;

  /// Where the listing goes on, and its current page.
  struct State {
    engine::Page current;
    std::optional<engine::Page> page;  // none yet: the listing has not begun
    std::uint64_t cookie = 0;
    engine::CookieLoop circle;
  };

  const nfsrdma_dir dir;
  const SharedPath path;
  const std::shared_ptr<State> state = std::make_shared<State>();
  Calls calls;
};

namespace {

using Page = Result<engine::Page>;
using State = nfsrdma_listing::State;

constexpr int kMostEmptyPages = 16;  // in succession

async::Task<Page> fetch(ClientCore& client, const nfsrdma_dir& dir, const std::string& path,
                        const State& state) {
  if (state.page)
    return client.engine().list(nullptr, state.page->directory, state.cookie, state.page->verifier);
  auto at = dir.parse(path);
  if (!at) return refused<Page>(at.error());
  return client.paths().list(std::move(*at));
}

async::Task<Page> next_page(ClientCore& client, nfsrdma_dir dir, std::string path,
                            std::shared_ptr<State> state) {
  if (state->page && state->page->eof) {
    engine::Page end = *state->page;
    end.entries.clear();
    co_return end;
  }
  auto page = co_await fetch(client, dir, path, *state);
  for (int tries = 0; page && page->entries.empty() && !page->eof; ++tries) {  // no end, but no entry either
    if (tries == kMostEmptyPages) co_return engine::CookieLoop::error("READDIR", path);
    page = co_await client.engine().list(nullptr, page->directory, state->cookie, page->verifier);
  }
  if (!page) co_return page;
  if (state->circle.closes_with_page(state->cookie, page->entries))
    co_return engine::CookieLoop::error("READDIR", path);
  std::vector<Attributes*> told;
  for (engine::Listed& one : page->entries) told.push_back(&one.attributes);
  co_await fill_in_ids(client.loop(), told);
  co_return page;
}

}  // namespace

nfsrdma_listing* nfsrdma_listing_new(nfsrdma_dir* dir, const char* path, nfsrdma_error** error) {
  return guarded_object(error, [&]() -> nfsrdma_listing* {
    if (dir != nullptr && path != nullptr && !dir->client.is_inherited())
      return new nfsrdma_listing(*dir, path);
    if (dir == nullptr || path == nullptr) {
      (void)fail(error, missing(dir == nullptr ? "dir" : "path"));
    } else {
      (void)fail(error, dir->client.inherited());
    }
    return nullptr;
  });
}

void nfsrdma_listing_free(nfsrdma_listing* listing) {
  if (listing != nullptr && !listing->dir.client.is_inherited()) delete listing;
}

int64_t nfsrdma_listing_next(nfsrdma_listing* listing, const nfsrdma_call* call, nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (listing == nullptr) return fail(error, missing("listing"));
    const auto how = How::from(call, listing->dir.client, &listing->path);
    if (!how) return fail(error, how.error());
    ClientCore& client = listing->dir.client;
    const auto begin = [&] { return next_page(client, listing->dir, *listing->path, listing->state); };
    // A page that is delivered continues the state; one that was cancelled leaves it as it was.
    const auto finish = [state = listing->state](engine::Page page) {
      if (!page.entries.empty()) state->cookie = page.entries.back().cookie;
      state->current = page;
      page.entries.clear();
      state->page = std::move(page);
      return static_cast<std::int64_t>(state->current.entries.size());
    };
    return client.call<Page>(listing->calls, *how, error, begin, finish);
  });
}

int nfsrdma_listing_entry(const nfsrdma_listing* listing, size_t number, nfsrdma_entry* entry) {
  constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(nfsrdma_entry, has_attributes);
  if (listing == nullptr || number >= listing->state->current.entries.size()) return -1;
  if (entry == nullptr || entry->struct_size < kShortest) return -1;
  const engine::Listed& from = listing->state->current.entries[number];
  nfsrdma_entry out{};
  out.name = from.name.c_str();
  out.cookie = from.cookie;
  out.attributes = entry->attributes;
  out.has_attributes = from.attributes.type != FileType::unknown ? 1 : 0;
  if (out.attributes != nullptr && unfit(out.attributes)) return -1;
  if (out.attributes != nullptr && out.has_attributes != 0) (void)store(from.attributes, out.attributes);
  return store(out, entry, kShortest) ? 0 : -1;
}
