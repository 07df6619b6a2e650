"""All faults in one build: which of them is in effect says NFSRDMA_FAULT, a number, when the program starts.

A fault's lines and those that stand in their place go into the source side by side:

    statements        if (nfsrdma_fault(7)) { wrong; } else { right; }
    a value           const auto x = nfsrdma_fault(7) ? (wrong) : (right);
    a condition       if (nfsrdma_fault(7) ? (wrong) : (right)) {

A fault that has none of these forms (a row of a table, a constant, a type), and one whose two sides do not compile
beside each other, is left out, and is for run.sh to put in by itself.
"""
import re

# @MOST@: one more than the highest number.
HEADER = """#pragma once
// A fault beside the right code may warn.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#pragma GCC diagnostic ignored "-Wduplicated-cond"
#pragma GCC diagnostic ignored "-Wlogical-op"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wextra-semi"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Waddress"
#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
// With NFSRDMA_FAULTS_MET, the name of a file, the number of each place that the program comes to is written there: when it
// comes to the place first, since a child that was forked may end without destructors, and all of them at the program's end,
// for those that came when no descriptor was left.
struct NfsrdmaFaultsMet {
  std::atomic<bool> at[@MOST@] = {};
  NfsrdmaFaultsMet() = default;
  ~NfsrdmaFaultsMet() {
    const char* const name = std::getenv("NFSRDMA_FAULTS_MET");
    std::FILE* const file = name != nullptr ? std::fopen(name, "a") : nullptr;
    if (file == nullptr) return;
    for (int i = 0; i < @MOST@; ++i)
      if (at[i].load(std::memory_order_relaxed)) std::fprintf(file, "%d\\n", i);
    std::fclose(file);
  }
};
inline NfsrdmaFaultsMet nfsrdma_faults_met;
inline void nfsrdma_note_fault_met(int number) {
  const char* const name = std::getenv("NFSRDMA_FAULTS_MET");
  if (name == nullptr) return;
  const int before = errno;
  const int fd = ::open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  char line[16];
  const int length = std::snprintf(line, sizeof line, "%d\\n", number);
  if (fd >= 0) (void)!::write(fd, line, static_cast<std::size_t>(length));
  if (fd >= 0) ::close(fd);
  errno = before;
}
inline int nfsrdma_fault_number() {
  static const int number = [] {
    const char* const text = std::getenv("NFSRDMA_FAULT");
    return text != nullptr ? std::atoi(text) : 0;
  }();
  return number;
}
inline bool nfsrdma_fault(int number) {
  std::atomic<bool>& met = nfsrdma_faults_met.at[number];
  if (!met.load(std::memory_order_relaxed) && !met.exchange(true)) nfsrdma_note_fault_met(number);
  return nfsrdma_fault_number() == number;
}
"""

STATEMENT = re.compile(r'^(?:if |while |for |return\b|co_return\b|co_await |\(void\)|\+\+|--|[\w:.>*()\[\]-]+(?:\(|\.| = | [+|&^-]= |\+\+|--|;)|continue;|break;)')


def balanced(text):
    return all(text.count(a) == text.count(b) for a, b in ('()', '{}', '[]'))


def condition_of(line):
    """What stands before the condition, the condition, and what stands behind it; None where it is no such line."""
    match = re.match(r'^((?:\} else )?(?:if|while) )\(', line)
    if not match:
        return None
    depth, start = 0, match.end() - 1
    for at in range(start, len(line)):
        depth += {'(': 1, ')': -1}.get(line[at], 0)
        if depth == 0:
            inner = line[start + 1:at]
            # With a declaration in it the condition is no expression.
            return None if ';' in inner or re.search(r'[^=!<>]=[^=]', inner) else (match.group(1), inner, line[at + 1:])
    return None


def is_statement(line):
    return line in ('', ';') or line.endswith(';') and balanced(line) and STATEMENT.match(line) is not None


def declares(line):
    return re.match(r'^(?:const|auto|static|constexpr|unsigned|bool|int|std::\w+)\b[^()]*? \w+ ?(?:=|;|\{)', line) or (
        re.match(r'^[\w:]+(?:<[^()]*>)?[&*]? \w+(?: = |;|\{|\()', line) and not re.match(r'^(?:return|co_return|co_await|delete|throw)\b', line))


def joined(faults, right):
    """`faults`: (number, lines) of one place, where the lines `right` stand. The lines for all of them, or None."""
    if len(right) == 1 and all(len(wrong) == 1 for _, wrong in faults):
        mine = condition_of(right[0])
        if mine:
            parts = [condition_of(wrong[0]) for _, wrong in faults]
            if all(p and (p[0], p[2]) == (mine[0], mine[2]) for p in parts):
                text = '(%s)' % mine[1]
                for (number, _), part in zip(faults, parts):
                    text = '(nfsrdma_fault(%d) ? static_cast<bool>(%s) : static_cast<bool>%s)' % (number, part[1], text)
                return ['%s(%s)%s' % (mine[0], text, mine[2])]
        value = re.match(r'^([^=()]*[^=!<>+|&^() -] = )([^=].*);$', right[0])
        if value and declares(right[0]) and not value.group(2).startswith('{'):
            others = [re.match(r'^([^=()]*[^=!<>+|&^() -] = )([^=].*);$', wrong[0]) for _, wrong in faults]
            if all(o and o.group(1) == value.group(1) for o in others):
                text = '(%s)' % value.group(2)
                for (number, _), other in zip(faults, others):
                    text = '(nfsrdma_fault(%d) ? (%s) : %s)' % (number, other.group(2), text)
                return [value.group(1) + text + ';']
        answer = re.match(r'^(return|co_return) (.+);$', right[0])
        if answer and all(re.match(r'^%s .+;$' % answer.group(1), wrong[0]) for _, wrong in faults):
            out = []
            for number, wrong in faults:
                out += ['if (nfsrdma_fault(%d)) {' % number, *wrong, '}']
            return out + right
    everything = [line for _, wrong in faults for line in wrong] + right
    if not all(is_statement(line) for line in everything) or any(declares(line) for line in everything):
        return None
    out = []
    for number, wrong in faults:
        out += ['if (nfsrdma_fault(%d)) {' % number, *wrong, '} else']
    return out + ['{', *right, '}']


def switch(mutants, read):
    """`read(path)` gives a source's text. The changed sources by path, the faults by number, and those that are left out. A
    fault has its own number, so that a source changes only where one of its own faults is left out."""
    numbers, left_out, by_file = {}, [], {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    sources = {}
    for path, here in by_file.items():
        lines = read(path).split('\n')
        places, taken = {}, {}
        for mutant in here:
            found = mutant.places(lines)
            if len(found) != 1:
                left_out.append(mutant)
                continue
            at, count = found[0], len(mutant.before)
            key = (at, count)
            if key not in places and any(line in taken for line in range(at, at + count)):
                left_out.append(mutant)  # its lines are part of another's
                continue
            taken.update(dict.fromkeys(range(at, at + count)))
            places.setdefault(key, []).append(mutant)
        for (at, count), several in sorted(places.items(), reverse=True):
            right = [line.strip() for line in lines[at:at + count]]
            while several:
                faults = [(one.number, [line for line in one.after if line] or [';']) for one in several]
                text = None if lines[at + count].strip().startswith('else') else joined(faults, right)
                if text:
                    break
                left_out.append(several.pop())
            if not several:
                continue
            numbers.update({one.number: one for one in several})
            indent = re.match(r'\s*', lines[at]).group()
            # One line, so that what stands behind it keeps its number and an error tells which fault it is of.
            lines[at:at + count] = [indent + ' '.join(text)] + [''] * (count - 1)
        sources[path] = '\n'.join(lines)
    return sources, numbers, left_out
