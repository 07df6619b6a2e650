#include "nfs4/files/convert.h"

#include <cerrno>

#include "ids/id_names.h"

namespace nfsrdma::nfs4 {
namespace {

Time to_public(const std::optional<nfstime4>& time) {
  return time ? Time{time->seconds, time->nseconds} : Time{};
}

settime4 to_wire(const Time& time) {
  return client_time({time.seconds, time.nanoseconds});
}

}  // namespace

const bitmap4& public_attributes() {
  static const bitmap4 map =
      bitmap_of({FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID, FATTR4_MODE,
                 FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_RAWDEV, FATTR4_SPACE_USED,
                 FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY});
  return map;
}

FileType to_public(nfs_ftype4 type) {
  switch (type) {
    case NF4REG:
    case NF4NAMEDATTR:
      return FileType::regular;
    case NF4DIR:
    case NF4ATTRDIR:
      return FileType::directory;
    case NF4LNK:
      return FileType::symlink;
    case NF4BLK:
      return FileType::block;
    case NF4CHR:
      return FileType::character;
    case NF4FIFO:
      return FileType::fifo;
    case NF4SOCK:
      return FileType::socket;
  }
  return FileType::unknown;
}

std::optional<Attributes> to_public(const fattr4& wire) {
  WireAttributes attributes;
  if (!decode_attributes(wire, attributes)) return std::nullopt;
  return to_public(attributes);
}

Attributes to_public(const WireAttributes& wire) {
  Attributes out;
  out.type = wire.type ? to_public(*wire.type) : FileType::unknown;
  out.mode = wire.mode.value_or(0);
  out.links = wire.numlinks.value_or(0);
  if (wire.owner) {
    out.owner = wire.owner->value;
    out.uid = ids::number_of(out.owner);
  }
  if (wire.owner_group) {
    out.group = wire.owner_group->value;
    out.gid = ids::number_of(out.group);
  }
  out.size = wire.size.value_or(0);
  out.space_used = wire.space_used.value_or(0);
  out.file_id = wire.fileid.value_or(0);
  out.change = wire.change.value_or(0);
  if (wire.fsid) {
    out.filesystem_major = wire.fsid->major;
    out.filesystem_minor = wire.fsid->minor;
  }
  if (wire.rawdev) {
    out.device_major = wire.rawdev->specdata1;
    out.device_minor = wire.rawdev->specdata2;
  }
  out.accessed = to_public(wire.time_access);
  out.modified = to_public(wire.time_modify);
  out.changed = to_public(wire.time_metadata);
  return out;
}

SetAttributes with_mode(std::uint32_t mode) {
  SetAttributes changes;
  changes.mode = mode & 07777U;
  return changes;
}

namespace {

WireChanges to_wire(const SetAttributes& changes, const ids::OwnerNames& names) {
  WireChanges wire;
  wire.mode = changes.mode;
  if (changes.uid) wire.owner = principal4{names.user.value_or(std::to_string(*changes.uid))};
  if (changes.gid) wire.owner_group = principal4{names.group.value_or(std::to_string(*changes.gid))};
  if (changes.accessed) wire.time_access_set = to_wire(*changes.accessed);
  if (changes.modified) wire.time_modify_set = to_wire(*changes.modified);
  if (changes.accessed_now) wire.time_access_set = server_time();
  if (changes.modified_now) wire.time_modify_set = server_time();
  return wire;
}

}  // namespace

fattr4 encode_changes(const SetAttributes& changes, const writing::Resizing& /*resizing*/,
                      const ids::OwnerNames& names) {
  WireChanges wire = to_wire(changes, names);
  wire.size = changes.size;
  return encode_changes(wire);
}

fattr4 encode_changes_but_size(const SetAttributes& changes, const ids::OwnerNames& names) {
  return encode_changes(to_wire(changes, names));
}

Error undecodable_attributes(std::string path) {
  return {ErrorKind::protocol, EPROTO, "GETATTR", std::move(path),
          "the server's attributes cannot be decoded; please report this with a capture of the traffic"};
}

}  // namespace nfsrdma::nfs4
