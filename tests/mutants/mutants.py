"""What run.sh does; see there."""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import switched

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LEAST = 0.935  # 57 of 60


class Mutant:
    def __init__(self, name):
        self.name, self.file, self.finds, self.before, self.after = name, '', '', [], []

    def places(self, lines):
        """Where the lines before stand in the file, indentation aside."""
        bare, count = [line.strip() for line in lines], len(self.before)
        return [i for i in range(len(bare) - count + 1) if bare[i:i + count] == self.before]

    def applied_to(self, root):
        """The file's text with the fault in it, or None and why not."""
        try:
            with open(os.path.join(root, self.file)) as file:
                lines = file.read().split('\n')
        except OSError as error:
            return None, str(error)
        places = self.places(lines)
        if len(places) != 1:
            return None, 'its lines stand %d times in %s' % (len(places), self.file)
        at = places[0]
        indent = re.match(r'\s*', lines[at]).group()
        lines[at:at + len(self.before)] = [indent + line for line in self.after if line]
        return '\n'.join(lines), None


def read_mutants():
    mutants = []
    with open(os.path.join(HERE, 'mutants.txt')) as file:
        for number, line in enumerate(file, 1):
            word, _, rest = line.strip().partition(' ')
            if not word or word.startswith('#'):
                continue
            if word == 'mutant':
                mutants.append(Mutant(rest))
            elif word in ('file', 'finds'):
                setattr(mutants[-1], word, rest)
            elif word == '-':
                mutants[-1].before.append(rest.strip())
            elif word == '+':
                mutants[-1].after.append(rest.strip())
            else:
                sys.exit('mutants.txt:%d: neither of mutant, file, finds, -, +' % number)
    names = [m.name for m in mutants]
    for name in {n for n in names if names.count(n) > 1}:
        sys.exit('mutants.txt: two mutants are named ' + name)
    return mutants


def check(mutants):
    bad = 0
    for mutant in mutants:
        _, why = mutant.applied_to(ROOT)
        if why:
            bad += 1
            print('%s does not apply: %s' % (mutant.name, why))
    print('mutants: %d of %d apply' % (len(mutants) - bad, len(mutants)))
    return 1 if bad else 0


class Tree:
    """A copy of the checkout with a build of its own, in which one fault at a time is put."""

    def __init__(self, top, name, jobs, options):
        self.source, self.jobs = os.path.join(top, 'tree' + name), jobs
        self.build = os.path.join(self.source, 'build')  # where ccache finds what the checkout's own build made
        self.log = os.path.join(top, 'log' + name)
        os.makedirs(top, exist_ok=True)
        # By content, and what differs with the time of now: a fault that a killed run left behind is built away.
        subprocess.run(['rsync', '-rlp', '--checksum', '--delete', '--exclude=/build*', '--exclude=.git', ROOT + '/',
                        self.source + '/'], check=True)
        generator = ['-G', 'Ninja'] if shutil.which('ninja') and not os.path.exists(self.build) else []
        # With the assertions.
        self.run(['cmake', '-S', self.source, '-B', self.build, *generator, '-DCMAKE_BUILD_TYPE=Debug', '-DNFSRDMA_TESTS=ON', *options], 300)

    def run(self, command, seconds, log=None, fault=0):
        """The exit status, or None where it took longer; its output is in the log."""
        environment = dict(os.environ, CCACHE_BASEDIR=self.source, CCACHE_NOHASHDIR='1', NFSRDMA_FAULT=str(fault))
        with open(log or self.log, 'w') as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     start_new_session=True, env=environment)
            try:
                return child.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                return None

    def compile(self):
        targets = subprocess.run(['cmake', '--build', self.build, '--target', 'help'], capture_output=True, text=True).stdout
        self.has_simulator = re.search(r'\bnfsrdma_sim\b', targets) is not None
        wanted = ['nfsrdma_tests'] + (['nfsrdma_sim'] if self.has_simulator else [])
        return self.run(['cmake', '--build', self.build, '-j', str(self.jobs), '--target', *wanted], 1800) == 0

    @staticmethod
    def failed_cases(log):
        """The titles of the test cases that failed."""
        with open(log, errors='replace') as text:
            return sorted(set(re.findall(r'^TEST CASE:\s+(.*)$', text.read(), re.M)))

    def judge(self, seconds, log=None, fault=0, finds=''):
        """How the tests end: None where they all pass, else what failed, also by itself: a busy machine fails some once. Those
        that are expected to find the fault come first, since they take a fraction of the time."""
        log = log or self.log
        tests = os.path.join(self.build, 'tests', 'nfsrdma_tests')
        if fault and finds:
            names = ','.join('*%s*' % word for word in finds.replace(',', ' ').split())
            if self.run([tests, '--test-case=' + names, '--no-version'], seconds, log, fault) == 1:
                for case in self.failed_cases(log):
                    if self.run([tests, '--test-case=' + re.sub(r'[,*]', '?', case), '--no-version'], seconds, log, fault) != 0:
                        return case
        status = self.run([tests, '--no-version', *(['--abort-after=1'] if fault else [])], seconds, log, fault)
        if status is None:
            return 'unit and conformance do not end'
        cases = self.failed_cases(log) if status == 1 else []
        if status != 0 and not cases:
            return 'the tests end with status %d' % status
        for case in cases:
            if self.run([tests, '--test-case=' + re.sub(r'[,*]', '?', case), '--no-version'], seconds, log, fault) != 0:
                return case
        if cases and fault:
            # It passes by itself, so the first failure says nothing: the others are yet to be seen.
            return self.judge_whole(tests, seconds, log, fault) or self.judge_simulator(seconds, log, fault)
        return self.judge_simulator(seconds, log, fault)

    def judge_whole(self, tests, seconds, log, fault):
        status = self.run([tests, '--no-version'], seconds, log, fault)
        for case in self.failed_cases(log) if status == 1 else []:
            if self.run([tests, '--test-case=' + re.sub(r'[,*]', '?', case), '--no-version'], seconds, log, fault) != 0:
                return case
        return None if status in (0, 1) else 'the tests end with status %s' % status

    def judge_simulator(self, seconds, log, fault):
        if self.has_simulator:
            simulator = next((os.path.join(at, 'nfsrdma_sim') for at, _, names in os.walk(os.path.join(self.build, 'tests'))
                              if 'nfsrdma_sim' in names), None)
            status = self.run([simulator, '--seeds', '1-300'], seconds, log, fault)
            if status != 0:
                return 'nfsrdma_sim ' + ('does not end' if status is None else 'with status %d' % status)
        return None


def run(mutants, jobs, top):
    cores = max(1, (os.cpu_count() or 1) // jobs)
    results, lock, free = {}, threading.Lock(), []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # No optimisation: a fault costs one compilation.
        free.extend(pool.map(lambda n: Tree(top, str(n), cores, ['-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g1', '-DNFSRDMA_UNITY=OFF']), range(jobs)))

        def prepare(tree):
            if not tree.compile():
                sys.exit('mutants: the tree itself does not build; see ' + tree.log)
            began = time.monotonic()
            failed = tree.judge(1800)
            if failed:
                sys.exit('mutants: without any fault: %s; see %s' % (failed, tree.log))
            return time.monotonic() - began
        # A fault may make everything slow; three times as long as without one, and a little, is a hang.
        limit = 3 * max(pool.map(prepare, list(free))) + 60

        def one(mutant):
            text, why = mutant.applied_to(ROOT)
            if why:
                return 'does not apply', why
            with lock:
                tree = free.pop()
            path = os.path.join(tree.source, mutant.file)
            with open(path) as file:
                original = file.read()
            try:
                with open(path, 'w') as file:
                    file.write(text)
                if not tree.compile():
                    return 'does not build', tree.log
                failed = tree.judge(limit)
                return ('found', failed) if failed else ('survived', 'expected to be found by: ' + mutant.finds)
            finally:
                with open(path, 'w') as file:
                    file.write(original)
                with lock:
                    free.append(tree)

        for mutant, (result, text) in zip(mutants, pool.map(one, mutants)):
            results[mutant.name] = result
            print('%-14s %s (%s)' % (result, mutant.name, text), flush=True)
    return conclude(mutants, results)


def conclude(mutants, results):
    found = sum(r == 'found' for r in results.values())
    rest = ', '.join('%d %s' % (list(results.values()).count(r), r) for r in ('survived', 'does not build', 'does not apply')
                     if r in results.values())
    print('mutants: %d of %d found%s' % (found, len(mutants), rest and '; ' + rest))
    return 0 if found >= LEAST * len(mutants) else 1


def build_at_once(mutants, top):
    """A tree with all faults that can be switched, the faults by number, and those that are left out."""
    # As the checkout's own build is made, so that ccache has what no fault touches.
    tree = Tree(top, 's', os.cpu_count() or 1, ['-DCMAKE_BUILD_TYPE=RelWithDebInfo'])

    def write(path, text):
        with open(os.path.join(tree.source, path), 'w') as file:
            file.write(text)

    def read(path):
        with open(os.path.join(ROOT, path)) as file:
            return file.read()
    header = os.path.join(top, 'fault.h')
    with open(header, 'w') as file:
        file.write(switched.HEADER)
    left_out, wanted = [], list(mutants)
    while True:
        sources, numbers, others = switched.switch(wanted, read)
        sources = {path: '#include "%s"\n%s' % (header, text) for path, text in sources.items()}
        for path, text in sources.items():
            write(path, text)
        if tree.compile():
            return tree, numbers, left_out + others
        with open(tree.log, errors='replace') as log:
            errors = set(re.findall(r'^(\S+?):(\d+):\d+: error:', log.read(), re.M))
        lines = {path: text.split('\n') for path, text in sources.items()}
        guilty = set()
        for path, number in errors:
            path = os.path.relpath(os.path.realpath(os.path.join(tree.build, path)), os.path.realpath(tree.source))
            if path in lines and int(number) <= len(lines[path]):
                guilty |= {numbers[int(n)].name for n in re.findall(r'nfsrdma_fault\((\d+)\)', lines[path][int(number) - 1])}
        if not guilty:
            sys.exit('mutants: the tree with all faults does not build; see ' + tree.log)
        print('left out, since their two sides do not compile beside each other: ' + ', '.join(sorted(guilty)), flush=True)
        left_out += [one for one in wanted if one.name in guilty]
        wanted = [one for one in wanted if one.name not in guilty]


def run_at_once(mutants, jobs, top):
    tree, numbers, left_out = build_at_once(mutants, top)
    if left_out:
        print('not in the one build, see switched.py: ' + ', '.join(one.name for one in left_out), flush=True)
    began = time.monotonic()
    failed = tree.judge(1800)
    if failed:
        sys.exit('mutants: without any fault: %s; see %s' % (failed, tree.log))
    limit = 3 * (time.monotonic() - began) + 60
    results = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        order = sorted(numbers)
        for number, failed in zip(order, pool.map(lambda n: tree.judge(limit, '%s.%d' % (tree.log, n), n, numbers[n].finds), order)):
            one = numbers[number]
            results[one.name] = 'found' if failed else 'survived'
            print('%-14s %s (%s)' % (results[one.name], one.name, failed or 'expected to be found by: ' + one.finds), flush=True)
    return conclude([one for one in mutants if one.name in results], results)


def main(arguments):
    mutants, jobs = read_mutants(), 1
    top = os.path.join(os.path.abspath(os.environ.get('NFSRDMA_BUILD_DIR') or os.path.join(ROOT, 'build')), 'mutants')
    action = run
    while arguments:
        word = arguments.pop(0)
        if word == '--list':
            action = 'list'
        elif word == '--check':
            action = 'check'
        elif word == '--at-once':
            action = run_at_once
        elif word in ('--only', '--jobs') and arguments:
            value = arguments.pop(0)
            if word == '--jobs':
                jobs = int(value)
            else:
                mutants = [m for m in mutants if re.fullmatch(value, m.name)]
                if not mutants:
                    sys.exit('mutants: there is none named ' + value)
        else:
            sys.exit('usage: run.sh [--list | --check | --at-once] [--only NAME] [--jobs N]')
    if action == 'list':
        for m in mutants:
            print('%-42s %-38s %s' % (m.name, m.file, m.finds))
        return 0
    if action == 'check':
        return check(mutants)
    return action(mutants, min(jobs, len(mutants)), top)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
