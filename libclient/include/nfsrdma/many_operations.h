// The operations on many files at once, each as one call of the C interface; many.h has their items and
// results, calling.h describes the mechanism.
//
// Thread-safety: pure functions. Nothing in namespace api_detail is part of the interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nfsrdma/calling.h"
#include "nfsrdma/convert.h"
#include "nfsrdma/many.h"
#include "nfsrdma/nfsrdma.h"

namespace nfsrdma::api_detail {

/// The items of a call as the C interface takes them, and room for their attributes. An item whose path
/// contains a NUL character is left out, and fails by itself.
template <class Item, class Room>
class Items {
 public:
  Items() = default;
  Items(Items&&) noexcept = default;
  Items& operator=(Items&&) noexcept = default;
  ~Items() {
    for (Item& item : items_) nfsrdma_error_free(item.error);
  }

  /// `path` must stay valid until the call has begun.
  void add(const std::string& path, Item item) {
    bad_paths_.push_back(has_nul(path) ? path : std::string());
    if (!bad_paths_.back().empty()) return;
    item.path = path.c_str();
    items_.push_back(item);
  }
  /// Provides the room for attributes, and returns the items. Neither moves from then on.
  std::span<Item> ready() {
    rooms_.resize(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) items_[i].attributes = rooms_[i].ready();
    return items_;
  }
  /// Returns the result of each item, made by value(item, attributes room) if the item succeeded.
  template <class Value>
  auto results(const Outcome& outcome, Value value) {
    std::vector<Result<std::invoke_result_t<Value, const Item&, const Room&>>> out;
    out.reserve(bad_paths_.size());
    std::size_t at = 0;
    for (const std::string& bad : bad_paths_) {
      if (!bad.empty()) {
        out.push_back(nul_error(bad));
        continue;
      }
      const std::size_t i = at++;
      if (!outcome) {
        out.push_back(outcome.error());
      } else if (items_[i].count < 0) {
        out.push_back(error_from(items_[i].error));
      } else {
        out.push_back(value(items_[i], rooms_[i]));
      }
    }
    return out;
  }

 private:
  std::vector<Item> items_;
  std::vector<Room> rooms_;
  std::vector<std::string>
      bad_paths_;  ///< of each item that was added: its path if C cannot take it, else ""
};

/// Room for attributes without owner and group.
class PlainAttributesRoom {
 public:
  nfsrdma_attributes* ready() { return &attributes_; }
  [[nodiscard]] Attributes value() const { return attributes_from(attributes_); }

 private:
  nfsrdma_attributes attributes_ = sized<nfsrdma_attributes>();
};

inline auto read_many_operation(nfsrdma_dir* dir, std::span<const ReadItem> wanted) {
  using List = Items<nfsrdma_read_item, PlainAttributesRoom>;
  List list;
  for (const ReadItem& one : wanted) {
    nfsrdma_read_item item{};
    item.data = one.data.data();
    item.room = one.data.size();
    list.add(one.path, item);
  }
  return Operation(
      std::move(list),
      [=](List& items, How how) {
        const std::span all = items.ready();
        return nfsrdma_read_many(dir, all.data(), all.size(), sizeof(nfsrdma_read_item), how.call, how.error);
      },
      [](List& items, const Outcome& outcome) {
        return items.results(outcome, [](const nfsrdma_read_item& item, const PlainAttributesRoom& room) {
          FileRead out{static_cast<std::size_t>(item.count), item.eof != 0, {}};
          if (item.has_attributes != 0) out.attributes = room.value();
          return out;
        });
      });
}

inline auto write_many_operation(nfsrdma_dir* dir, std::span<const WriteItem> wanted) {
  using List = Items<nfsrdma_write_item, PlainAttributesRoom>;
  List list;
  for (const WriteItem& one : wanted) {
    nfsrdma_write_item item{};
    item.data = one.data.data();
    item.size = one.data.size();
    item.mode = one.mode;
    list.add(one.path, item);
  }
  return Operation(
      std::move(list),
      [=](List& items, How how) {
        const std::span all = items.ready();
        return nfsrdma_write_many(dir, all.data(), all.size(), sizeof(nfsrdma_write_item), how.call,
                                  how.error);
      },
      [](List& items, const Outcome& outcome) {
        return items.results(outcome, [](const nfsrdma_write_item& item, const PlainAttributesRoom& room) {
          FileWritten out;
          if (item.has_attributes != 0) out.attributes = room.value();
          return out;
        });
      });
}

inline auto stat_many_operation(nfsrdma_dir* dir, std::span<const std::string> paths, bool follow) {
  using List = Items<nfsrdma_stat_item, AttributesRoom>;
  List list;
  for (const std::string& path : paths) list.add(path, nfsrdma_stat_item{});
  return Operation(
      std::move(list),
      [=, flags = follow_flags(follow)](List& items, How how) {
        const std::span all = items.ready();
        return nfsrdma_stat_many(dir, all.data(), all.size(), sizeof(nfsrdma_stat_item), flags, how.call,
                                 how.error);
      },
      [](List& items, const Outcome& outcome) {
        return items.results(
            outcome, [](const nfsrdma_stat_item&, const AttributesRoom& room) { return room.value(); });
      });
}

}  // namespace nfsrdma::api_detail
