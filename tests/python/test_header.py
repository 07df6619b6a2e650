"""nfsrdma/_c.py declares what nfsrdma.h declares: the same functions, parameters, structs, members and constants."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from typing import Any, Dict, List, Tuple

import support
from nfsrdma import _c, _many, types

NUMBERS = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
           "size_t": ctypes.c_size_t}


def source() -> str:
    with open(support.HEADER, encoding="utf-8") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    return re.sub(r"^#.*$", "", text, flags=re.M)


def split(text: str) -> List[str]:
    """Splits at commas outside of parentheses."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += character
    return [*parts, part.strip()] if part.strip() not in ("", "void") else parts


CALLBACKS = ("nfsrdma_log", "nfsrdma_done", "nfsrdma_export_entry", "nfsrdma_mount_entry", "nfsrdma_report")


def ctype(declaration: str) -> Any:
    """Returns the ctypes type of a parameter or a result; any pointer is c_void_p."""
    words = declaration.replace("const", "").split()
    if "*" in declaration or words[0] in CALLBACKS:
        return ctypes.c_void_p
    return None if words[0] == "void" else NUMBERS[words[0]]


def same(declared: Any, wanted: Any) -> bool:
    """Returns whether two types are passed in the same way."""
    return declared is wanted or (wanted is ctypes.c_void_p and declared is ctypes.c_char_p)


def functions() -> Dict[str, Tuple[str, List[str]]]:
    found = re.findall(r"NFSRDMA_C_API\s+([\w\s*]+?)\s*\bnfsrdma_(\w+)\((.*?)\);", source(), flags=re.S)
    return {name: (result, split(parameters)) for result, name, parameters in found}


def structs() -> Dict[str, List[Tuple[str, str]]]:
    found = {}
    for name, body in re.findall(r"typedef struct nfsrdma_(\w+) \{(.*?)\} nfsrdma_\w+;", source(), flags=re.S):
        members = []
        for statement in filter(None, (part.strip() for part in body.split(";"))):
            pointer = re.match(r"int \(\*(\w+)\)", statement)
            if pointer:
                members.append((pointer.group(1), "void*"))
                continue
            first, *others = statement.split(",")
            kind, _, name_of_first = first.rpartition(" ")
            members += [(part.strip(), kind) for part in (name_of_first, *others)]
        found[name] = members
    return found


#: Functions that the package does not call, and why.
UNUSED = {
    "error_copy": "an Error is a copy",
    "options_copy": "options are keywords; a program keeps them in a dict of its own",
    "options_set_all": "options are keywords",
    "options_get": "options are keywords",
    "options_origin": "options are keywords; nfsrdma-cli config shows where others come from",
    "wait": "runs callbacks; Queue and aio take completions from queues, so that Ctrl-C ends no Python code in a callback",
    "descriptor": "belongs to callbacks, as wait does; a Queue has a descriptor of its own",
    "service": "belongs to callbacks, as wait does",
    "info_number": "Client.info() makes numbers of texts",
    "acl_new": "lists are text here",
    "acl_entry": "lists are text here",
    "acl_add": "lists are text here",
}


def used() -> "set[str]":
    """Returns the names that occur as `lib.NAME` in the package."""
    folder = os.path.dirname(_c.__file__)
    names: "set[str]" = set()
    for file in os.listdir(folder):
        if file.endswith(".py"):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                names.update(re.findall(r"\blib\.(\w+)", text.read()))
    return names


class HeaderTest(unittest.TestCase):
    def test_each_function_is_used(self) -> None:
        """Each function of the header is called by the package, or there is a reason why not."""
        self.assertEqual(set(functions()) - used(), set(UNUSED))

    def test_functions(self) -> None:
        wanted = functions()
        self.assertGreater(len(wanted), 90)
        self.assertEqual(set(wanted), set(_c.PROTOTYPES))
        for name, (result, parameters) in wanted.items():
            declared_result, declared = _c.PROTOTYPES[name]
            with self.subTest(name):
                self.assertTrue(same(declared_result, ctype(result)), result)
                self.assertEqual(len(declared), len(parameters))
                for kind, parameter in zip(declared, parameters):
                    self.assertTrue(same(kind, ctype(parameter)), parameter)

    def test_members(self) -> None:
        wanted = structs()
        self.assertGreater(len(wanted), 12)
        for name, members in wanted.items():
            with self.subTest(name):
                declared = getattr(_c, name)._fields_
                self.assertEqual([member for member, _ in members], [member for member, _ in declared])
                for (member, kind), (_, found) in zip(members, declared):
                    if isinstance(found, type) and issubclass(found, ctypes.Structure):
                        self.assertIs(found, getattr(_c, kind[len("nfsrdma_"):]), member)
                    else:
                        self.assertEqual(ctypes.sizeof(found), ctypes.sizeof(ctype(kind)), member)

    def test_sizes_by_a_compiler(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler")
        lines = []
        for name, members in structs().items():
            lines.append(f'printf("{name} %zu\\n", sizeof(nfsrdma_{name}));')
            lines += [f'printf("{name}.{member} %zu\\n", offsetof(nfsrdma_{name}, {member}));' for member, _ in members]
        program = f'#include <stdio.h>\n#include "{support.HEADER}"\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "sizes.c"), "w", encoding="utf-8") as file:
                file.write(program)
            subprocess.run([compiler, "-o", folder + "/sizes", folder + "/sizes.c"], check=True)
            output = subprocess.run([folder + "/sizes"], check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in output.splitlines():
            name, size = line.split()
            struct, _, member = name.partition(".")
            declared = getattr(_c, struct)
            found = getattr(declared, member).offset if member else ctypes.sizeof(declared)
            self.assertEqual(found, int(size), name)

    def test_columns(self) -> None:
        """The columns of _many are the members of the structs."""
        def struct_of(kind: Any, items: _many.Items) -> Any:
            self.assertEqual(8 * items.width, ctypes.sizeof(kind))
            return kind.from_buffer(items.words, 8 * items.width)

        read = struct_of(_c.read_item, _many.read_items(2, [1, 2], [3, 4], [5, 6], [7, 8]))
        self.assertEqual((read.path, read.data, read.room, read.attributes), (2, 4, 6, 8))
        write = struct_of(_c.write_item, _many.write_items(2, [1, 2], [3, 4], [5, 6], 0o644))
        self.assertEqual((write.path, write.data, write.size, write.mode, write.has_attributes), (2, 4, 6, 0o644, 0))
        stat = struct_of(_c.stat_item, _many.stat_items(2, [1, 2], [3, 4]))
        self.assertEqual((stat.path, stat.attributes), (2, 4))
        items = _many.Items(3, [1, 2, 3], None)
        self.assertEqual((list(items.column(0)), list(items.column(1)), items.arguments[1:]), ([1, 2, 3], [0] * 3, (3, 16)))
        self.assertEqual(list(_many.Items(0, [], None).column(0)), [])

    def test_members_of_attributes(self) -> None:
        """A Stat has the right members of the struct."""
        found = _c.attributes(type=1, mode=0o640, links=2, has=3, uid=4, gid=5, size=6, space_used=7, file_id=8, change=9,
                              filesystem_major=10, filesystem_minor=11, device_major=12, device_minor=13,
                              accessed=_c.time(14, 15), modified=_c.time(16, 17), changed=_c.time(18, 19))
        self.assertEqual(types.stat_of(found, "a", "b"), types.Stat(
            0o100640, 2, 4, 5, 6, 8, 10 << 32 ^ 11, os.makedev(12, 13), 14 * 10**9 + 15, 16 * 10**9 + 17,
            18 * 10**9 + 19, 7, 9, (10, 11), "a", "b"))
        self.assertEqual(len(list(types.unpack_attributes(bytes(3 * ctypes.sizeof(found))))), 3)

    def test_constants(self) -> None:
        pairs = re.findall(r"NFSRDMA_([A-Z0-9_]+) = (\d+)", source())
        self.assertGreater(len(pairs), 30)
        for name, value in pairs:
            if name.startswith("ERROR_"):
                self.assertEqual(support.nfsrdma.Kind[name[len("ERROR_"):]], int(value))
            elif not name.startswith("TYPE_"):
                self.assertEqual(getattr(_c, name), int(value), name)


if __name__ == "__main__":
    unittest.main()
