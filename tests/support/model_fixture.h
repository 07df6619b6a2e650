// For tests of the model server by what the RFCs say of servers: a habit, a test. Request by request, on
// virtual time; the product's client is not in it.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "support/model_client.h"

namespace nfsrdma::testing {

/// A server, and a client with a session.
struct OneClient {
  ModelWorld world;
  ModelClient client{world, "a"};
  ServerState& state = world.state;
  explicit OneClient(const Habits& habits = {}) {
    state.habits = habits;
    REQUIRE(client.establish() == nfs4::NFS4_OK);
  }
};

struct TwoClients : OneClient {
  ModelClient other{world, "b", 2};
  explicit TwoClients(const Habits& habits = {}) : OneClient(habits) {
    REQUIRE(other.establish() == nfs4::NFS4_OK);
  }
};

/// The default habits, changed.
template <class Change>
Habits habits_with(Change change) {
  Habits habits;
  change(habits);
  return habits;
}

/// CREATE of a directory in the root.
inline Request make_directory(const std::string& name) {
  nfs4::CREATE4args args;
  args.objtype = nfs4::createtype4::of<nfs4::NF4DIR>();
  args.objname.value = name;
  return Request().add<nfs4::op::PUTROOTFH>({}).add<nfs4::op::CREATE>(args);
}

inline nfs4::createhow4 exclusively(unsigned verifier) {
  nfs4::creatverfattr how;
  how.cva_verf[0] = static_cast<std::byte>(verifier);
  return nfs4::createhow4::of<nfs4::EXCLUSIVE4_1>(how);
}

inline nfs4::fattr4 size_of(std::uint64_t size) {
  nfs4::WireChanges changes;
  changes.size = size;
  return nfs4::encode_changes(changes);
}

/// A file with `text` in it.
inline std::uint64_t add_file(ServerState& state, const std::string& path, const std::string& text = "") {
  Inode& inode = state.make(path, nfs4::NF4REG);
  state.set_content(inode, text);
  return inode.id;
}

inline const std::string& content_of(ServerState& state, std::uint64_t inode) {
  return state.inodes.at(inode).content.data();
}

}  // namespace nfsrdma::testing
