// The tables of file records: writing/records.h, and the registry of NFSv4's opens, which gives each open its file's record.
#include "writing/records.h"

#include <doctest/doctest.h>

#include <vector>

#include "nfs3/file_record.h"
#include "nfs4/state/opens.h"
#include "support/scripted_call_layer.h"

namespace nfsrdma {
namespace {

using namespace testing;

struct Plain {
  explicit Plain(int of) : number(of) {}
  const int number;
};
using PlainRecords = writing::Records<Plain>;

}  // namespace

TEST_CASE("file records: a file has one for as long as somebody holds it") {
  PlainRecords records;
  const auto make = [](int number) { return [number] { return new Plain(number); }; };
  auto first = records.of(file_handle(1), make(1));
  CHECK(records.of(file_handle(1), make(2)) == first);
  CHECK(records.find(file_handle(1)) == first);
  CHECK(records.find(file_handle(2)) == nullptr);
  first.reset();
  CHECK(records.find(file_handle(1)) == nullptr);
  const auto anew = records.of(file_handle(1), make(3));
  CHECK(anew->number == 3);
}

TEST_CASE("file records: they come in the order of their handles, and may outlive the table") {
  std::vector<std::shared_ptr<Plain>> held;
  {
    PlainRecords records;
    for (const int number : {3, 1, 2})
      held.push_back(
          records.of(file_handle(static_cast<unsigned>(number)), [=] { return new Plain(number); }));
    std::vector<int> order;
    records.each([&](const auto& one) { order.push_back(one->number); });
    CHECK(order == std::vector{1, 2, 3});
    const auto found = records.find_if([](const auto& one) { return one->number > 1; });
    REQUIRE(found);
    CHECK(found->number == 2);
    CHECK(records.find_if([](const auto& one) { return one->number > 3; }) == nullptr);
  }
  CHECK(held.front()->number == 3);
}

TEST_CASE("file records: opens of a file share one, which knows them in the order of their owners") {
  ScriptedCallLayer calls;
  nfs4::Opens opens(calls.loop());
  const auto a = open_of(1, calls), b = open_of(1, calls), other = open_of(2, calls);
  a->owner = 7;
  b->owner = 5;
  for (const auto& open : {a, b, other}) opens.hold(open);
  CHECK(a->record == b->record);
  CHECK(a->record == opens.file(file_handle(1)));
  CHECK(a->record != other->record);
  CHECK(a->record->opens == std::vector{b.get(), a.get()});
  opens.release(*a);
  CHECK(b->record->opens == std::vector{b.get()});
  CHECK(a->record == b->record);  // what is under way may ask yet
  opens.release(*b);
  CHECK(opens.file(file_handle(1)) == a->record);
}

TEST_CASE("file records: one of NFSv3 counts its data with that of all files") {
  ScriptedCallLayer calls;
  nfs3::FileRecords records(calls.loop());
  const auto record = records.of(file_handle(1));
  CHECK(record == records.find(file_handle(1)));
  CHECK(record->all == records.data());
  CHECK_FALSE(record->in_doubt());
  CHECK(record->locks.empty());
}

}  // namespace nfsrdma
