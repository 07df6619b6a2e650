// read_many, write_many and stat_many of the C interface: many small files by their paths.
//
// An item whose path leads through a symbolic link, or does not end in a name, is done by its path alone
// (engine/paths.h). The items are kept apart from the task, so that if the task is cancelled, the items that
// were done keep their results.
#include <cerrno>
#include <memory>
#include <vector>

#include "api/many_places.h"
#include "api/names.h"
#include "async/each.h"

namespace nfsrdma::api {
namespace {

using engine::Engine;
using engine::ManyRead;
using engine::ManyTold;
using engine::ManyWritten;
using engine::Path;

constexpr std::size_t kParallelPaths = 8;

// ---- one item by its path ----

async::Task<Result<FileRead>> read_by_path(ClientCore& client, Path path, ManyRead& item) {
  auto opened = co_await client.paths().open(std::move(path), engine::Access::read, std::nullopt);
  if (!opened) co_return opened.error();
  co_return co_await engine::read_opened(client.engine(), std::move(*opened), item.data);
}

async::Task<Result<FileWritten>> write_by_path(ClientCore& client, Path path, ManyWritten& item) {
  const Engine::Creation creation{item.mode, false, true};
  auto opened = co_await client.paths().open(std::move(path), engine::Access::write, creation);
  if (!opened) co_return opened.error();
  co_return co_await engine::write_opened(client.engine(), std::move(*opened), item.data);
}

/// Takes the result back from items that are symbolic links, so that they are done again by path, which
/// follows the links.
void follow_links(const std::vector<ManyTold*>& items) {
  for (ManyTold* item : items) {
    if (*item->result && (**item->result).type == FileType::symlink) item->result.reset();
  }
}

// ---- the attributes that a result has, or null ----

const Attributes* attributes_of(const Attributes& told) {
  return &told;
}
/// `Result`: FileRead or FileWritten.
template <class Result>
const Attributes* attributes_of(const Result& result) {
  return result.attributes ? &*result.attributes : nullptr;
}

/// Returns the error if the caller wants attributes and its struct cannot be filled in.
std::optional<Error> unfit_if_wanted(const nfsrdma_attributes* wanted) {
  return wanted != nullptr ? unfit(wanted) : std::nullopt;
}

// ---- what the three functions differ in ----

/// `Item`: an item of engine/many_files.h; `CItem`: that of the C interface.
struct Reads {
  using Item = ManyRead;
  using CItem = nfsrdma_read_item;
  static std::optional<Error> wrong(const CItem& item) {
    if (item.data == nullptr && item.room != 0) return missing("items[].data");
    return unfit_if_wanted(item.attributes);
  }
  static Item make(const CItem& item, std::uint32_t /*flags*/) {
    return {{}, {static_cast<std::byte*>(item.data), item.room}};
  }
  static async::Task<void> together(ClientCore& client, std::vector<Item*> items, std::uint32_t /*flags*/) {
    return client.engine().read_many(nullptr, std::move(items));
  }
  static auto by_path(ClientCore& client, Path path, Item& item, std::uint32_t /*flags*/) {
    return read_by_path(client, std::move(path), item);
  }
  static std::int64_t took(const FileRead& result, CItem& to) {
    to.eof = result.eof ? 1 : 0;
    return static_cast<std::int64_t>(result.count);
  }
};

struct Writes {
  using Item = ManyWritten;
  using CItem = nfsrdma_write_item;
  static std::optional<Error> wrong(const CItem& item) {
    if (item.data == nullptr && item.size != 0) return missing("items[].data");
    return unfit_if_wanted(item.attributes);
  }
  static Item make(const CItem& item, std::uint32_t /*flags*/) {
    return {{}, {static_cast<const std::byte*>(item.data), item.size}, item.mode};
  }
  static async::Task<void> together(ClientCore& client, std::vector<Item*> items, std::uint32_t /*flags*/) {
    return client.engine().write_many(nullptr, std::move(items));
  }
  static auto by_path(ClientCore& client, Path path, Item& item, std::uint32_t /*flags*/) {
    return write_by_path(client, std::move(path), item);
  }
  static std::int64_t took(const FileWritten& /*result*/, const CItem& to) {
    return static_cast<std::int64_t>(to.size);
  }
};

struct Stats {
  using Item = ManyTold;
  using CItem = nfsrdma_stat_item;
  static std::optional<Error> wrong(const CItem& item) { return unfit(item.attributes); }
  static Item make(const CItem& /*item*/, std::uint32_t /*flags*/) { return {}; }
  static async::Task<void> together(ClientCore& client, std::vector<Item*> items, std::uint32_t flags) {
    co_await client.engine().stat_many(nullptr, items);
    if (follows(flags)) follow_links(items);
  }
  static auto by_path(ClientCore& client, Path path, Item& /*item*/, std::uint32_t flags) {
    return find_attributes(client, std::move(path), follows(flags));
  }
  static std::int64_t took(const Attributes& /*result*/, const CItem& /*to*/) { return 0; }
};

// ---- the call ----

/// The caller's items. Those of an older version of the header are shorter; they lie `stride` bytes apart.
template <class CItem>
class Items {
 public:
  Items(CItem* first, std::size_t count, std::size_t stride)
      : first_(reinterpret_cast<std::byte*>(first)), count_(count), stride_(stride) {}
  [[nodiscard]] std::size_t size() const { return count_; }
  CItem& operator[](std::size_t i) const { return *reinterpret_cast<CItem*>(first_ + i * stride_); }

 private:
  std::byte* const first_;
  const std::size_t count_, stride_;
};

template <class Kind>
class Many {
 public:
  using Item = typename Kind::Item;
  using CItem = typename Kind::CItem;

  Many(const nfsrdma_dir& dir, Items<CItem> items, std::uint32_t flags)
      : client_(dir.client), places_(dir), to_(items), flags_(flags) {
    entries_.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      Entry& one = *entries_.emplace_back(std::make_unique<Entry>());
      one.path = items[i].path;
      one.item = Kind::make(items[i], flags);
      one.item.file.directory = places_.find(one.path, one.item.file.name);
    }
  }

  static async::Task<Status> task(std::shared_ptr<Many> all) {
    co_await all->places_.look_up(all->client_.loop(), all->client_.paths());
    std::vector<Item*> named;
    for (const auto& one : all->entries_) {
      if (one->item.file.directory != nullptr) named.push_back(&one->item);
    }
    if (!named.empty()) co_await Kind::together(all->client_, std::move(named), all->flags_);
    std::vector<Entry*> rest;
    for (const auto& one : all->entries_) {
      if (is_by_itself(one->item)) rest.push_back(one.get());
    }
    async::Each each(all->client_.loop(), rest.size(), [&](std::size_t i) { return all->by_path(*rest[i]); });
    co_await each.run(kParallelPaths);
    co_await all->add_ids();
    co_return Status();
  }

  /// Stores the results in the caller's items. Returns the number of those that succeeded.
  std::int64_t store_all(const Status& ended) {
    std::int64_t good = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (store_one(*entries_[i], to_[i], ended)) ++good;
    }
    return good;
  }

 private:
  struct Entry {
    std::string path;
    Item item;
  };

  [[nodiscard]] static bool is_by_itself(const Item& item) {
    if (!item.result) return true;
    if (*item.result || item.result->error().kind() != ErrorKind::server) return false;
    const int code = item.result->error().errno_value();
    return code == ELOOP || code == ENOTDIR;
  }

  async::Task<void> by_path(Entry& one) {
    auto path = places_.parse(one.path);
    if (!path) {
      one.item.result.emplace(path.error());
      co_return;
    }
    auto done = co_await Kind::by_path(client_, std::move(*path), one.item, flags_);
    one.item.result.emplace(std::move(done));
  }

  /// For stat_many, fills in the numbers of owners that the server reported by name.
  async::Task<void> add_ids() {
    if constexpr (std::is_same_v<Kind, Stats>) {
      std::vector<Attributes*> told;
      for (const auto& one : entries_) {
        if (one->item.result && *one->item.result) told.push_back(&**one->item.result);
      }
      co_await fill_in_ids(client_.loop(), told);
    }
  }

  static bool store_one(Entry& one, CItem& to, const Status& ended) {
    auto& result = one.item.result;
    to.error = nullptr;
    if (result && *result) {
      to.count = Kind::took(**result, to);
      const Attributes* const attributes = attributes_of(**result);
      const bool wanted = attributes != nullptr && to.attributes != nullptr;
      const bool stored = wanted && store(*attributes, to.attributes);
      if constexpr (requires { to.has_attributes; }) to.has_attributes = stored ? 1 : 0;
      return true;
    }
    Error why =
        ended ? Error(ErrorKind::local, EIO, "", one.path,
                      "this path was not processed, which is an error in this library; please report it")
              : ended.error();
    if (result) why = result->error();
    to.count = -1;
    to.error = made(why.about(why.operation(), one.path));
    return false;
  }

  ClientCore& client_;
  ManyPlaces places_;
  const Items<CItem> to_;
  const std::uint32_t flags_;
  std::vector<std::unique_ptr<Entry>> entries_;  // ManyPlaces points into their paths
};

template <class Kind>
std::int64_t many(nfsrdma_dir* dir, typename Kind::CItem* items, std::size_t count, std::size_t item_size,
                  std::uint32_t flags, const nfsrdma_call* call, nfsrdma_error** error) {
  return guarded(error, [&]() -> std::int64_t {
    if (dir == nullptr || (items == nullptr && count != 0))
      return fail(error, missing(dir == nullptr ? "dir" : "items"));
    using CItem = typename Kind::CItem;
    constexpr std::size_t kShortest = NFSRDMA_LENGTH_TO(CItem, error);
    if (item_size < kShortest || item_size % alignof(CItem) != 0) return fail(error, missing("item_size"));
    if (auto why = unknown_flags(flags, NFSRDMA_NO_FOLLOW)) return fail(error, *why);
    const Items<typename Kind::CItem> all_items(items, count, item_size);
    for (std::size_t i = 0; i < count; ++i) {
      if (all_items[i].path == nullptr) return fail(error, missing("items[].path"));
      if (auto why = Kind::wrong(all_items[i])) return fail(error, *why);
    }
    const auto how = How::from(call, dir->client);
    if (!how) return fail(error, how.error());
    const auto all = std::make_shared<Many<Kind>>(*dir, all_items, flags);
    const auto begin = [&] { return Many<Kind>::task(all); };
    const auto finish = [all](const Status& ended) { return all->store_all(ended); };
    return dir->client.call<Status>(dir->client.calls(), *how, error, begin, finish);
  });
}

}  // namespace
}  // namespace nfsrdma::api

using namespace nfsrdma::api;

int64_t nfsrdma_read_many(nfsrdma_dir* dir, nfsrdma_read_item* items, size_t count, size_t item_size,
                          const nfsrdma_call* call, nfsrdma_error** error) {
  return many<Reads>(dir, items, count, item_size, 0, call, error);
}

int64_t nfsrdma_write_many(nfsrdma_dir* dir, nfsrdma_write_item* items, size_t count, size_t item_size,
                           const nfsrdma_call* call, nfsrdma_error** error) {
  return many<Writes>(dir, items, count, item_size, 0, call, error);
}

int64_t nfsrdma_stat_many(nfsrdma_dir* dir, nfsrdma_stat_item* items, size_t count, size_t item_size,
                          uint32_t flags, const nfsrdma_call* call, nfsrdma_error** error) {
  return many<Stats>(dir, items, count, item_size, flags, call, error);
}
