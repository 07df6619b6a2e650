// Listing a directory page by page, so that the memory needed does not grow with the directory.
//
//     auto listing = client->open_listing("/export/photos");
//     while (true) {
//       const auto page = (*listing)->next();
//       if (!page) return fail(page.error());
//       if (page->empty()) break;
//       for (const nfsrdma::DirectoryEntry& entry : *page) std::cout << entry.name << '\n';
//     }
//
// Names::list() does this for programs that only want each entry once.
//
// Thread-safety: a Listing may be used from any thread, one next() or start_next() at a time. client.h
// describes the rest for all calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nfsrdma/calling.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/nfsrdma.h"
#include "nfsrdma/result.h"
#include "nfsrdma/types.h"

namespace nfsrdma {

namespace api_detail {

inline std::vector<DirectoryEntry> page_of(const nfsrdma_listing* listing, std::int64_t count) {
  std::vector<DirectoryEntry> out;
  out.reserve(static_cast<std::size_t>(count));
  AttributesRoom room;
  auto entry = sized<nfsrdma_entry>();
  auto attributes = sized<nfsrdma_attributes>();
  room.provide(attributes);
  entry.attributes = &attributes;
  for (std::size_t number = 0; nfsrdma_listing_entry(listing, number, &entry) == 0; ++number) {
    DirectoryEntry& added = out.emplace_back(DirectoryEntry{entry.name, entry.cookie, {}});
    if (entry.has_attributes != 0) added.attributes = attributes_from(attributes);
  }
  return out;
}

inline auto next_page_operation(nfsrdma_listing* listing) {
  return Operation(
      Nothing{}, [=](Nothing&, How how) { return nfsrdma_listing_next(listing, how.call, how.error); },
      AsValue{[=](Nothing&, std::int64_t count) { return page_of(listing, count); }});
}

}  // namespace api_detail

/// A place in the listing of a directory. Names::open_listing() makes one. It must not outlive its Client;
/// its destructor cancels a start_next() that is under way, whose callback then does not run.
class Listing {
 public:
  using Page = std::vector<DirectoryEntry>;
  using Turned = std::function<void(Result<Page>)>;

  ~Listing() {
    life_->end();
    nfsrdma_listing_free(listing_);
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  /// Returns the next entries in the server's order, without "." and ".."; none if there are no more.
  Result<Page> next(const CallOptions& options = {}) {
    return api_detail::run(api_detail::next_page_operation(listing_), options);
  }
  void start_next(Turned done, const CallOptions& options = {}) {
    api_detail::start(*client_, life_, api_detail::next_page_operation(listing_), std::move(done), options);
  }
  /// Returns the listing of the C interface. It stays this object's.
  [[nodiscard]] nfsrdma_listing* handle() const { return listing_; }

 private:
  friend class Names;
  Listing(nfsrdma_listing* listing, std::shared_ptr<api_detail::ClientState> client)
      : listing_(listing), client_(std::move(client)) {}

  nfsrdma_listing* const listing_;
  const std::shared_ptr<api_detail::ClientState> client_;
  const std::shared_ptr<api_detail::Life> life_ = std::make_shared<api_detail::Life>();
};

}  // namespace nfsrdma
