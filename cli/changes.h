// Whether the source of a copy stayed as it was while it was read.
//
// The attributes from before the first byte was read are compared with those from after the last one. A copy
// whose source has changed may mix old and new contents, so it is reported and is a failure.
//
// A file of a listing was listed some time before it is read. If it has changed in between, the comparison
// shows that, too, although the copy may be good. copy_listed() therefore copies such a file a second time,
// with attributes that were read just before.
//
// Pure, except for the calls that ask for attributes.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "cli/servers.h"
#include "nfsrdma/many.h"

namespace nfsrdma::cli {

/// Whether a file that has become longer counts as changed.
enum class Growth : unsigned char {
  counts,
  accepted,  ///< for a stream, as with cat(1): what was there when the file was opened comes first in it
};

/// The change attribute stands for contents and metadata. Over NFSv3 and v2, which have none, the library
/// makes it from ctime, mtime and size.
bool has_changed(const Attributes& before, const Attributes& now, Growth growth = Growth::counts);
bool has_changed(const struct stat& before, const struct stat& now, Growth growth = Growth::counts);
/// Compares with the present attributes of the open file.
bool has_changed(int fd, const struct stat& before, Growth growth = Growth::counts);

/// Compares the times of the last change, of contents and of metadata.
bool have_other_times(const Attributes& before, const Attributes& now);
/// Compares with what read_many() says of a file that has these attributes. True also if the file did not end
/// where it should.
bool has_changed(const Attributes& before, const FileRead& read);

/// Reports a source that has changed, for the operation of the user's command.
Error source_changed(const char* operation, const std::string& name);
/// Returns true for an Error that source_changed() has made.
bool is_source_changed(const Error& error);

/// Asks for the present attributes, and returns source_changed() if they differ from those of `before`.
Status check_unchanged(File& file, const Attributes& before, const char* operation, const std::string& name,
                       Growth growth = Growth::counts);

/// Copies a file that has these attributes, and checks that it is unchanged.
using CopyOf = std::function<Status(const Attributes&)>;
/// Copies a file of a listing, with the attributes that were listed, and again if they are out of date.
Status copy_listed(const Remote& file, const Attributes& listed, const CopyOf& copy);
/// Copies a file whose attributes were found to be out of date.
Status copy_afresh(const Remote& file, const CopyOf& copy);

}  // namespace nfsrdma::cli
