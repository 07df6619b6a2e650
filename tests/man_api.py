#!/usr/bin/env python3
"""Compares the manual pages of section 3 with the C interface, libclient/include/nfsrdma/nfsrdma.h.

tests/man_api.py   prints each difference in a line, and fails if there is one

What is compared:
- Each function of the header is in the SYNOPSIS of exactly one page, with the header's prototype, and in the NAME of
  that page. A page's NAME lists no function that its SYNOPSIS lacks.
- Each struct, enum constant, callback type and macro of the header is in a page, and each struct that a page shows has
  the header's members.
- The pages name nothing that begins with nfsrdma_ or NFSRDMA_ and that the header lacks.
- The pages refer only to pages of section 3 that exist.
- The examples compile without warnings, if there is a C compiler; those of nfsrdma_cpp(3), if there is a C++ compiler.
- The entries of nfsrdma_info that libnfsrdma(3) lists are those of libclient/api/info.cpp, if it exists.
- The version script libclient/libnfsrdma.map, if it exists, exports exactly the functions of the header.

Nothing else of nfsrdma_cpp(3), about C++, and nothing of nfsrdma_python(3) is compared.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "libclient" / "include" / "nfsrdma" / "nfsrdma.h"
MAP = ROOT / "libclient" / "libnfsrdma.map"
INFO = ROOT / "libclient" / "api" / "info.cpp"
MAN = ROOT / "man"
CPP = "nfsrdma_cpp.3"
OTHER_LANGUAGES = {CPP, "nfsrdma_python.3"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
#: Variables of the environment, which the pages may name, too.
ENVIRONMENT = {"NFSRDMA_OPTIONS", "NFSRDMA_CONFIG"}
NAME_OF_OURS = re.compile(r"\b(?:nfsrdma_[a-z0-9_]*[a-z0-9]|NFSRDMA_[A-Z0-9_]*[A-Z0-9])\b")


def normalised(text):
    """Returns C text with one blank between words and none beside punctuation, so that line breaks do not count."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r" ?([^\w ]) ?", r"\1", text)


def statements(text):
    """Splits C text at the semicolons that are outside of braces."""
    out, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            out.append(normalised(text[begin:at]))
            begin = at + 1
    return [statement for statement in out if statement]


class Interface:
    """The declarations of the header, as normalised text by name."""

    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.macros = set(re.findall(r"^#define (NFSRDMA_\w+)[^\w(]+\S", text, flags=re.M)) - {"NFSRDMA_C_API", "NFSRDMA_NFSRDMA_H"}
        text = re.sub(r"^#.*$", "", text, flags=re.M)
        text = text.replace('extern "C" {', "")
        self.functions, self.structs, self.callbacks, self.constants, self.opaque = {}, {}, {}, set(), set()
        for statement in statements(text):
            self.add(statement)

    def add(self, statement):
        if match := re.fullmatch(r"enum\{(.*)\}", statement):
            self.constants.update(re.findall(r"NFSRDMA_\w+", match[1]))
        elif match := re.fullmatch(r"typedef struct (\w+)\{.*\}(\w+)", statement):
            self.structs[match[2]] = statement
        elif match := re.fullmatch(r"typedef struct \w+ (\w+)", statement):
            self.opaque.add(match[1])
        elif match := re.match(r"typedef void\(\*(\w+)\)", statement):
            self.callbacks[match[1]] = statement
        elif match := re.match(r"NFSRDMA_C_API (.*)", statement):
            self.functions[re.search(r"(\w+)\(", match[1])[1]] = match[1]
        elif statement != "}":
            raise SystemExit(f"{HEADER.name}: man_api.py does not understand: {statement}")

    def types(self):
        return self.opaque | set(self.structs) | set(self.callbacks)

    def names(self):
        return self.types() | set(self.functions) | self.constants | self.macros


def plain(line):
    """Returns what a line of roff shows: without its macro, quotes, escapes and changes of font."""
    if match := re.match(r"\.(BI|IB|BR|RB|IR|RI|B|I|SM) (.*)", line):
        try:
            words = shlex.split(match[2].replace("\\", "\\\\"), posix=True)
        except ValueError:
            words = [match[2]]
        line = ("" if len(match[1]) == 2 and match[1] != "SM" else " ").join(words)
    elif line.startswith("."):
        return ""
    line = re.sub(r"\\f(?:[BIRP]|\(CW|\[\w*\])", "", line)
    return line.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "").replace("\\(aq", "'")


class Page:
    """A manual page: its sections, by heading, as what they show, and the blocks between .EX and .EE."""

    def __init__(self, path):
        self.name = path.name
        self.sections, self.blocks = {}, []
        heading, block = "", None
        for line in path.read_text().splitlines():
            if line.startswith(".SH "):
                heading = line[4:].strip('" ')
                self.sections[heading] = []
            elif line == ".EX":
                block = []
            elif line == ".EE":
                self.blocks.append((heading, "\n".join(block) + "\n"))
                block = None
            shown = plain(line)
            if block is not None and line != ".EX":
                block.append(shown)
            self.sections.setdefault(heading, []).append(shown)

    def text(self, heading=None):
        lines = self.sections.get(heading, []) if heading else sum(self.sections.values(), [])
        return "\n".join(lines)

    def title_names(self):
        return [name.strip() for name in " ".join(self.sections.get("NAME", [])).split(" - ")[0].split(",")]


def synopsis_problems(page, interface, shown_by):
    in_synopsis = set()
    for statement in statements(re.sub(r"^#.*$", "", page.text("SYNOPSIS"), flags=re.M)):
        match = re.match(r"typedef void\(\*(\w+)\)", statement) or re.search(r"(\w+)\(", statement)
        name = match[1] if match else statement
        expected = interface.callbacks.get(name) or interface.functions.get(name)
        if expected is None:
            yield f"the SYNOPSIS has {name}, which {HEADER.name} lacks"
        elif expected != statement:
            yield f"the SYNOPSIS has\n    {statement}\n  where {HEADER.name} has\n    {expected}"
        if name in interface.functions:
            in_synopsis.add(name)
            shown_by.setdefault(name, []).append(page.name)
    in_name = set(page.title_names())
    for name in sorted(in_synopsis - in_name):
        yield f"NAME lacks {name}, which is in the SYNOPSIS"
    for name in sorted((in_name & set(interface.functions)) - in_synopsis):
        yield f"NAME has {name}, which is not in the SYNOPSIS"


def page_problems(page, interface, shown_by, pages):
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "EXAMPLE", "SEE ALSO"):
        if heading not in page.sections:
            yield f"there is no section {heading}"
    yield from synopsis_problems(page, interface, shown_by)
    known = interface.names() | ENVIRONMENT | {name[:-2] for name in pages | OTHER_LANGUAGES}
    for name in sorted(set(NAME_OF_OURS.findall(page.text())) - known):
        yield f"{name} is not in {HEADER.name}"
    for name in sorted(set(re.findall(r"\b(\w+)\(3\)", page.text()))):
        if name.startswith(("nfsrdma", "libnfsrdma")) and name + ".3" not in pages | OTHER_LANGUAGES:
            if name not in interface.functions:
                yield f"there is no page {name}(3)"
    for _, block in page.blocks:
        for statement in statements(re.sub(r"/\*.*?\*/", " ", block, flags=re.S)):
            match = re.fullmatch(r"typedef struct (\w+)\{.*\}\w+", statement)
            if match and statement != interface.structs.get(match[1]):
                yield f"the page shows\n    {statement}\n  where {HEADER.name} has\n    {interface.structs.get(match[1])}"


def example_problems(page):
    is_cpp = page.name == CPP
    compiler = shutil.which("g++" if is_cpp else "gcc") or shutil.which("clang++" if is_cpp else "clang")
    if not compiler:
        return
    standard, suffix = ("-std=c++20", "cpp") if is_cpp else ("-std=c99", "c")
    for number, code in enumerate([code for heading, code in page.blocks if heading == "EXAMPLE"], 1):
        if "#include" not in code:
            continue
        with tempfile.TemporaryDirectory() as directory:
            source = pathlib.Path(directory) / f"{page.name}.{number}.{suffix}"
            source.write_text(code)
            run = subprocess.run([compiler, standard, *WARNINGS, "-fsyntax-only", "-I", HEADER.parent.parent, source],
                                 capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
            if run.returncode != 0:
                yield f"example {number} does not compile:\n{run.stderr}"


def coverage_problems(interface, pages, shown_by):
    everything = set(NAME_OF_OURS.findall("\n".join(page.text() for page in pages.values())))
    for name in sorted(interface.names() - everything):
        yield f"{name} is in no manual page"
    for name in sorted(interface.functions):
        where = shown_by.get(name, [])
        if len(where) != 1:
            yield f"{name} is in the SYNOPSIS of {' and '.join(where) if where else 'no page'}; one is right"
    for name, statement in interface.structs.items():
        if not any(statement in map(normalised, statements(block)) for page in pages.values() for _, block in page.blocks):
            yield f"no page shows the struct {name}"


def info_problems():
    if not INFO.exists():
        return
    made = set(re.findall(r'\.add\("([\w.]+)"', INFO.read_text()))
    text = (MAN / "libnfsrdma.3").read_text().partition(".SS Entries of nfsrdma_info\n")[2].partition("\n.SH ")[0]
    listed = set()
    for line in re.findall(r"^\.TP\n(.*)", text, flags=re.M):
        listed.update(plain(line).replace("FLAVOR", "").split(", "))
    for name in sorted(made - listed):
        yield f"man/libnfsrdma.3: the entries of nfsrdma_info lack {name}"
    for name in sorted(listed - made):
        yield f"man/libnfsrdma.3: {INFO.name} makes no entry {name}"


def map_problems(interface):
    if not MAP.exists():
        return
    text = re.sub(r"#.*", "", re.sub(r"/\*.*?\*/", " ", MAP.read_text(), flags=re.S))
    exported = []
    for version in re.findall(r"\{(.*?)\}", text, flags=re.S):
        public = re.search(r"global:(.*?)(?:local:|$)", version, flags=re.S)
        exported += [name.strip() for name in (public[1] if public else "").split(";") if name.strip()]
    for name in sorted(set(interface.functions) - set(exported)):
        yield f"{MAP.name} lacks {name}"
    for name in sorted(set(exported) - set(interface.functions)):
        yield f"{MAP.name} has {name}, which {HEADER.name} lacks"
    for name in sorted({name for name in exported if exported.count(name) > 1}):
        yield f"{MAP.name} has {name} more than once"


def main():
    interface = Interface(HEADER.read_text())
    pages = {path.name: Page(path) for path in sorted(MAN.glob("*nfsrdma*.3")) if path.name not in OTHER_LANGUAGES}
    shown_by, count = {}, 0
    problems = []
    for name, page in pages.items():
        problems += [f"man/{name}: {problem}" for problem in page_problems(page, interface, shown_by, set(pages))]
        problems += [f"man/{name}: {problem}" for problem in example_problems(page)]
    problems += [f"man/{CPP}: {problem}" for problem in example_problems(Page(MAN / CPP))]
    problems += coverage_problems(interface, pages, shown_by)
    problems += info_problems()
    problems += map_problems(interface)
    for problem in problems:
        count += 1
        print(problem)
    if count == 0:
        print(f"{len(pages)} pages agree with {HEADER.name}: {len(interface.functions)} functions, "
              f"{len(interface.constants)} constants, {len(interface.structs)} structs")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
