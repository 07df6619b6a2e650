#!/usr/bin/env python3
"""Lets tshark judge a capture of NFSv3, NFSv2 and NFSACL over RDMA over iWARP, one FPDU per frame (split_fpdus.py).

    judge_procedures.py CAPTURE.pcap [--need WHAT:COUNT ...]

What judge_wire.py does for COMPOUNDs, by the rules of RFC 8267 3 for calls of one procedure each:

  - Data travels by itself for READ and WRITE, READLINK and SYMLINK, and for nothing else (U1), both ways
  - what is larger than the inline threshold does so, and READs and WRITEs in the lengths that they name
  - a Reply chunk stands where a Reply may be larger than the threshold, and not with what is small always
  - NFS and NFSACL are on the connection, and MOUNT, NLM, NSM and rpcbind are not
  - nothing is malformed

--need demands that at least COUNT of something were seen: calls, nfsacl, read, read-with-write-chunk, write,
write-with-read-chunk, readlink-with-write-chunk, symlink, reply-chunk, v2, v3.
"""
import argparse
import collections
import sys

import judge_wire

FIELDS = """frame.number tcp.stream tcp.dstport frame.protocols iwarp_mpa.privatedata iwarp_mpa.ulpdulength iwarp_mpa.rej_flag
rpcordma.xid rpcordma.msg_type rpcordma.reads_count rpcordma.writes_count rpcordma.reply_count rpcordma.segment_count
rpcordma.position rpcordma.rdma_length rpc.xid rpc.msgtyp rpc.program rpc.programversion rpc.procedure
nfs.count3 nfs.write.data_length""".split()
NFS, NFSACL = 100003, 100227
# By version: the procedures whose results, and whose arguments, may travel by themselves (RFC 8267 3.2, 2.4.1).
RESULTS = {2: {5: "readlink", 6: "read"}, 3: {5: "readlink", 6: "read"}}
ARGUMENTS = {2: {8: "write", 13: "symlink"}, 3: {7: "write", 10: "symlink"}}
# Whose Replies are small whatever the server says: NULL, GETATTR, SETATTR, WRITE, CREATE to LINK, FSSTAT to COMMIT.
SMALL = {3: {0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 19, 20, 21}, 2: {0, 1, 2, 4, 8, 9, 10, 11, 12, 13, 14, 15, 17}}
LISTS = {3: {16, 17}, 2: set()}


class Frame(judge_wire.Frame):
    def __init__(self, line):
        self.raw = dict(zip(FIELDS, line.split("\t")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("capture")
    parser.add_argument("--need", action="append", default=[])
    options = parser.parse_args()
    problems, seen = [], collections.Counter()

    def complain(where, what):
        problems.append(f"{where}: {what}")

    # The fill bytes of an odd length, which a server does not write (judge_wire.py's wants_padding).
    for line in judge_wire.tshark("-r", options.capture, "-Y", "_ws.malformed || rpc.fragment.error", "-T", "fields",
                                  "-e", "frame.number", "-e", "_ws.col.Info", "-e", "rpc.procedure",
                                  "-e", "rpcordma.rdma_length"):
        frame, info, procedure, chunk = line.split("\t")
        lengths = [int(one, 0) for one in chunk.split(",") if one]
        if procedure in ("5", "6") and any(one % 4 for one in lengths):
            seen["padding-not-sent"] += 1
        else:
            complain(f"frame {frame}", f"tshark: {info}")

    arguments = ["-r", options.capture, "-Y", "tcp.len > 0", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    for name in FIELDS:
        arguments += ["-e", name]
    connections = collections.defaultdict(judge_wire.Connection)
    calls = {}
    for line in judge_wire.tshark(*arguments):
        frame = Frame(line)
        stream, to_server = frame.one("tcp.stream"), frame.raw["tcp.dstport"] == "20049"
        connection = connections[stream]
        if "iwarp_mpa" not in frame.raw["frame.protocols"].split(":"):
            complain(frame.id, f"not MPA: {frame.raw['frame.protocols']}")
            continue
        if frame.one("iwarp_mpa.ulpdulength") is None:
            sizes = judge_wire.private_data(frame.raw["iwarp_mpa.privatedata"])
            if to_server:
                connection.client = sizes
            elif not frame.one("iwarp_mpa.rej_flag"):
                connection.server = sizes
            continue
        xid = frame.one("rpcordma.xid")
        if xid is not None and to_server:
            calls[stream, xid] = judge_wire.Call(frame, connection)
        elif xid is not None and (stream, xid) in calls:
            calls[stream, xid].reply = frame
        elif xid is not None:
            complain(frame.id, f"a Reply to nobody's xid {xid:#x}")
        if frame.one("rpc.xid") is not None and frame.one("rpc.msgtyp") == 0:
            call = calls.get((stream, frame.one("rpc.xid")))
            if call:
                call.body = frame

    for (_, xid), call in calls.items():
        where = call.frame.id
        if call.body is None or call.reply is None:
            complain(where, f"Call {xid:#x} was not dissected, or has no Reply")
            continue
        program, version = call.body.one("rpc.program"), call.body.one("rpc.programversion")
        procedure = call.body.one("rpc.procedure")
        what = f"program {program} version {version} procedure {procedure}"
        if program not in (NFS, NFSACL) or version not in RESULTS:
            complain(where, f"{what} over RDMA")
            continue
        seen["calls"] += 1
        seen["nfsacl" if program == NFSACL else f"v{version}"] += 1
        call_threshold, reply_threshold = call.connection.thresholds
        reads, writes, _ = call.lengths()
        result = RESULTS[version].get(procedure) if program == NFS else None
        argument = ARGUMENTS[version].get(procedure) if program == NFS else None
        positions = call.frame.all("rpcordma.position")
        if result:
            seen[result] += 1
        if argument:
            seen[argument] += 1
        # U1, and the same of what the server sends back.
        if call.writes and not result:
            complain(where, f"a Write chunk for {what}")
        if any(positions) and not argument:
            complain(where, f"a Read chunk for {what}")
        if sum(judge_wire.split_lengths(call.reply)[1]) and not call.writes:
            complain(call.reply.id, f"a Write chunk that nobody offered for {what}")
        if call.writes and sum(writes):
            seen[f"{result}-with-write-chunk"] += 1
        if any(positions):
            seen[f"{argument}-with-read-chunk"] += 1
        wanted = call.body.all("nfs.count3")
        if result == "read" and version == 3 and wanted:
            if wanted[0] > reply_threshold and not call.writes:
                complain(where, f"READ of {wanted[0]} bytes without a Write chunk")
            if sum(writes) and sum(writes) != wanted[0]:
                complain(where, f"READ of {wanted[0]} bytes with a Write chunk of {sum(writes)}")
        if result and call.writes and call.reply_chunk and version == 3:
            complain(where, f"a Reply chunk beside the Write chunk of {what}")
        if argument == "write" and any(positions) and version == 3 and wanted and sum(reads) != wanted[0]:
            complain(where, f"WRITE of {wanted[0]} bytes with Read chunks of {sum(reads)}")
        if program == NFS and procedure in SMALL[version] and call.reply_chunk:
            complain(where, f"a Reply chunk for {what}")
        if program == NFS and procedure in LISTS[version] and not call.reply_chunk:
            sizes = call.body.all("nfs.count3")
            if sizes and max(sizes) > reply_threshold:
                complain(where, f"no Reply chunk for a list of {max(sizes)} bytes")
        if call.reply_chunk:
            seen["reply-chunk"] += 1

    return judge_wire.conclude(problems, seen, options.need)


if __name__ == "__main__":
    sys.exit(main())
