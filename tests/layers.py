#!/usr/bin/env python3
"""Reads the includes of all sources against libclient/layers.txt, and README.md's table; the names that two sources
of a layer, or two tests of a folder, both have for themselves, since they are compiled as one where tidy and the
sanitizers look at them; and whether each unit test lies in the folder of a layer.

tests/layers.py           says what is wrong, and fails if anything is
tests/layers.py --write   draws the table anew
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "libclient" / "layers.txt"
README = ROOT / "README.md"
BEGIN, END = "<!-- layers: drawn by tests/layers.py -->", "<!-- end of layers -->"
EXAMPLES = ROOT / "libclient" / "examples"  # programs of users, in no layer
OUTSIDE = ("cli", "fuse", "reply_sizing")  # of libclient
TESTED_TESTS = ("bridge", "sim", "support")  # folders of tests/ that have unit tests of their own


def read_layers():
    layers = {}
    for line in DATA.read_text().splitlines():
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        key, value = words
        if key == "layer":
            layers[value] = layer = {}
        elif key == "uses":
            layer[key] = [] if value == "-" else value.split()
        else:
            layer[key] = value
    return layers


def folder(name):
    if name == "nfsrdma":
        return "libclient/include/nfsrdma/"
    return (name if name in OUTSIDE else "libclient/" + name) + "/"


def layer_of(path, layers):
    """Of a path as an include names it; None: no layer's."""
    parts = pathlib.PurePosixPath(path).parts
    for count in (2, 1):
        name = "/".join(parts[:count])
        if len(parts) > count and name in layers:
            return name
    return None


def sources():
    for top in ("cli", "fuse", "libclient", "reply_sizing"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".c") and EXAMPLES not in path.parents:
                inside = path.relative_to(ROOT).as_posix()
                yield path, inside.removeprefix("libclient/").removeprefix("include/")


def check_order(layers, problems):
    seen = set()
    for name, layer in reversed(layers.items()):
        for used in layer["uses"]:
            if used not in layers:
                problems.append(f"{DATA.name}: {name} uses {used}, which is no layer")
            elif used not in seen:
                problems.append(f"{DATA.name}: {name} uses {used}, which does not stand below it")
        seen.add(name)


def check_includes(layers, problems):
    used = {name: set() for name in layers}
    for path, inside in sources():
        own = layer_of(inside, layers)
        if own is None:
            problems.append(f"{path.relative_to(ROOT)}: in no layer")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            target = layer_of(include[1], layers) if include else None
            if target is None or target == own:
                continue
            used[own].add(target)
            if target not in layers[own]["uses"]:
                problems.append(f"{path.relative_to(ROOT)}:{number}: {own} may not use {target}")
    for name, layer in layers.items():
        for unused in sorted(set(layer["uses"]) - used[name]):
            problems.append(f"{DATA.name}: {name} does not use {unused}")


def check_own_names(problems):
    """Constants and types only: functions may be overloads."""
    had = {}
    tests = sorted(path for top in ("unit", "conformance") for path in (ROOT / "tests" / top).rglob("*.cpp"))
    for path in [path for path, _ in sources()] + tests:
        text = path.read_text() if path.suffix == ".cpp" else ""
        for block in re.findall(r"^namespace \{$.*?^\}  // namespace$", text, re.S | re.M):
            for match in re.findall(r"^(?:constexpr|const) .*?\b(k[A-Z]\w*)|^(?:class|struct|enum class) (\w+)[^;]*$", block, re.M):
                name = (path.parent, match[0] or match[1])
                other = had.setdefault(name, path)
                if other != path:
                    problems.append(f"{path.relative_to(ROOT)}: {name[1]} is {other.relative_to(ROOT)}'s, too")


def check_tests(layers, problems):
    top = ROOT / "tests" / "unit"
    for path in sorted(top.rglob("*.cpp")):
        inside = path.relative_to(top).as_posix()
        if inside == "main.cpp":
            continue
        if layer_of(inside, layers) is None and inside.split("/")[0] not in TESTED_TESTS:
            problems.append(f"{path.relative_to(ROOT)}: in the folder of no layer")
        if not inside.endswith("_test.cpp"):
            problems.append(f"{path.relative_to(ROOT)}: its name does not end with _test.cpp")


def table(layers):
    rows = [BEGIN, "", "| folder | what it does | start reading at | stands on |", "| --- | --- | --- | --- |"]
    for name, layer in layers.items():
        uses = ", ".join(f"`{used}`" for used in layer["uses"] if used != "nfsrdma") or "nothing"
        rows.append(f"| `{folder(name)}` | {layer['does']} | {layer['read']} | {uses} |")
    return "\n".join(rows + ["", END])


def main():
    layers = read_layers()
    text = README.read_text()
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        sys.exit(f"{README.name}: no place for the layers ({BEGIN} … {END})")
    drawn = text[:begin] + table(layers) + text[end + len(END):]
    if "--write" in sys.argv[1:]:
        README.write_text(drawn)
        return
    problems = []
    check_order(layers, problems)
    check_includes(layers, problems)
    check_own_names(problems)
    check_tests(layers, problems)
    if drawn != text:
        problems.append(f"{README.name}: the layers are not those of {DATA.name}; run tests/layers.py --write")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
