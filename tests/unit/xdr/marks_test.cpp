// The marks of handles in arguments and results (xdr/marks.h).
#include "xdr/marks.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

#include "xdr/xdr.h"

namespace nfsrdma::xdr {
namespace {

using Handle = ShortOpaque<8>;

enum Kind : std::uint32_t { kNothing = 0, kObject = 1 };

struct Entry {
  std::uint32_t number = 0;
  Handle handle{};
};

/// A handle wherever one can stand.
struct Told {
  std::uint32_t number = 0;
  Handle handle{};
  Entry inner{};
  std::optional<Handle> maybe{};
  Array<Handle, 4> several{};
  List<Entry> list{};
  Union<Kind, On<kNothing>, On<kObject, Entry>> either{};
};

struct Named {
  Entry first{};
  Entry second{};
  std::optional<Handle> maybe{};
};

}  // namespace

TEST_CASE("xdr: a mark is on every handle of a result, wherever it stands") {
  Told told;
  told.maybe.emplace();
  told.several.value.resize(2);
  told.list.value.resize(2);
  told.either.emplace<kObject>();
  mark_all(told, 7);
  CHECK(told.handle.mark == 7);
  CHECK(told.inner.handle.mark == 7);
  CHECK(told.maybe->mark == 7);
  for (const Handle& one : told.several.value) CHECK(one.mark == 7);
  for (const Entry& one : told.list.value) CHECK(one.handle.mark == 7);
  CHECK(told.either.get<kObject>()->handle.mark == 7);
  Told bare;
  mark_all(bare, 7);
  CHECK_FALSE(bare.maybe);
  CHECK(bare.either.tag() == kNothing);
}

TEST_CASE("xdr: the mark of arguments is that of the first handle that has one") {
  Named named;
  CHECK(mark_of(named) == 0);
  named.second.handle.mark = 3;
  CHECK(mark_of(named) == 3);
  named.first.handle.mark = 2;
  CHECK(mark_of(named) == 2);
}

}  // namespace nfsrdma::xdr
