// get -r, put -r, cp: trees, by several threads (crowd.h). Small files go together (nfsrdma/many.h), the others each by
// itself.
//
// What fails is reported, and the rest goes on.
#pragma once

#include <string>

#include "cli/crowd.h"

namespace nfsrdma::cli {

/// The directory `from` becomes `to`, or `to`/NAME where that is a directory.
void get_tree(Call& call, const Remote& from, const std::string& to);
/// The same the other way.
void put_tree(Call& call, const std::string& from, const Remote& to);
/// On one server.
void copy_tree(Call& call, const Remote& from, const Remote& to);
/// One file, of any size.
Status copy_file(Tree& tree, const Remote& from, const Remote& to, const Attributes& attributes,
                 bool preserve);

/// Whether both are of one file, whatever it is called.
bool are_same(const Attributes& one, const Attributes& other);

// What put and cp have in common. Run again, they find what an earlier one has made.

/// `made`: what became of making this directory. EEXIST is well where one is there, links followed.
Status accept_existing(const Remote& directory, const Status& made);
/// A symbolic link; one that is there with this text is as good.
Status make_symlink(const Remote& link, const std::string& text);

}  // namespace nfsrdma::cli
