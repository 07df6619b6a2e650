#!/usr/bin/env python3
"""Compares two files, and says how they differ: for whoever has to find out where wrong bytes came from.

    differ.py RIGHT WRONG

Exit status 0 if they are the same, else 1. Names each range of pages that differs, and says of its first bytes in WRONG whether
they are zeros, stand elsewhere in RIGHT (then where), or are something else (then what).
"""
import sys

PAGE = 4096
MOST = 20  # ranges that are named


def ranges(right, wrong):
    """The ranges of pages that differ, as pairs of offsets."""
    begin = None
    end = min(len(right), len(wrong))
    for at in range(0, end, PAGE):
        if right[at:at + PAGE] != wrong[at:at + PAGE]:
            if begin is None:
                begin = at
        elif begin is not None:
            yield begin, at
            begin = None
    if begin is not None:
        yield begin, end


def main(right_name, wrong_name):
    with open(right_name, "rb") as file:
        right = file.read()
    with open(wrong_name, "rb") as file:
        wrong = file.read()
    if right == wrong:
        return 0
    if len(right) != len(wrong):
        print(f"{wrong_name} has {len(wrong)} bytes, {right_name} {len(right)}")
    for number, (begin, end) in enumerate(ranges(right, wrong)):
        if number == MOST:
            print("and more")
            break
        first = next(i for i in range(begin, end) if right[i] != wrong[i])
        some = wrong[first:first + 64]
        if not any(some):
            what = "zeros"
        elif (where := right.find(some)) >= 0:
            what = f"what belongs at {where}"
        else:
            what = some.hex()
        print(f"{begin} to {end} differs, from {first} on: {what}")
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
