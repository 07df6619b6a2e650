#!/usr/bin/env python3
"""Compares two tools that ran in turn: compare.py [options] RUNS.

RUNS has one JSON object per line and run, ours and the peer's alternating. Run i of ours and run i of the peer's are a
pair: they ran one after the other, so that what else the machine did weighs on both. Of each pair the ratio ours /
peer's is taken, and of the ratios the median. Prints the runs and the medians. With --check the exit status is 1 where
a median misses its threshold, and 2 where the runs do not pair up.
"""
import argparse
import json
import math
import statistics
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("runs")
parser.add_argument("--ours", required=True)
parser.add_argument("--peer", required=True)
parser.add_argument("--rate", default="mb_per_second", help="the field that should be high")
parser.add_argument("--cpu", default="cpu_seconds", help="the field that should be low")
parser.add_argument("--title", default="")
parser.add_argument("--check", action="store_true")
parser.add_argument("--min-rate", type=float, default=1.0)
parser.add_argument("--max-cpu", type=float, default=None, help="no limit where not given")
options = parser.parse_args()

with open(options.runs, encoding="utf-8") as lines:
    runs = [json.loads(line) for line in lines if line.strip()]
ours = [run for run in runs if run["tool"] == options.ours]
peer = [run for run in runs if run["tool"] == options.peer]
if not ours or len(ours) != len(peer):
    print(f"compare.py: {len(ours)} runs of {options.ours} and {len(peer)} of {options.peer}", file=sys.stderr)
    sys.exit(2)

pairs = list(zip(ours, peer))
rates = [a[options.rate] / b[options.rate] for a, b in pairs]
# The clocks of User-Mode Linux tick every 10 ms: a short run may have taken no time by them.
cpus = [a[options.cpu] / b[options.cpu] if b[options.cpu] > 0 else math.inf for a, b in pairs]
print(f"{options.title or options.ours + ' against ' + options.peer}")
print(f"  {'pair':>4} {options.ours + ' ' + options.rate:>32} {options.cpu:>14} "
      f"{options.peer + ' ' + options.rate:>32} {options.cpu:>14} {'rate ratio':>11} {'CPU ratio':>10}")
for i, ((a, b), rate, cpu) in enumerate(zip(pairs, rates, cpus), 1):
    print(f"  {i:>4} {a[options.rate]:>32.1f} {a[options.cpu]:>14.4f} {b[options.rate]:>32.1f} {b[options.cpu]:>14.4f} "
          f"{rate:>11.3f} {cpu:>10.3f}")
rate, cpu = statistics.median(rates), statistics.median(cpus)
spread = f"(rate {min(rates):.3f} to {max(rates):.3f}, CPU {min(cpus):.3f} to {max(cpus):.3f})"
print(f"  median of the ratios: rate {rate:.3f}, CPU {cpu:.3f} {spread}")
failed = []
if rate < options.min_rate:
    failed.append(f"the rate ratio is below {options.min_rate}")
if options.max_cpu is not None and cpu > options.max_cpu:
    failed.append(f"the CPU ratio is above {options.max_cpu}")
if options.check:
    for text in failed:
        print(f"  CHECK FAILED: {text}")
    sys.exit(1 if failed else 0)
