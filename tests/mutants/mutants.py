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
MOUNTING = threading.Lock()  # tests/mount waits for real time, so it runs once at a time


class Mutant:
    def __init__(self, name, number):
        self.number, self.name, self.file, self.finds, self.before, self.after = number, name, '', '', [], []

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


def is_of_a_mount(mutant):
    """Whether the fault may be in nfsrdma-fuse alone, so that tests/mount is to be asked, too."""
    return mutant.file.startswith('fuse/')


def read_mutants():
    mutants = []
    with open(os.path.join(HERE, 'mutants.txt')) as file:
        for number, line in enumerate(file, 1):
            word, _, rest = line.strip().partition(' ')
            if not word or word.startswith('#'):
                continue
            if word == 'mutant':
                mutants.append(Mutant(rest, len(mutants) + 1))
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
        self.has_mount = re.search(r'\bnfsrdma_mount_tests\b', targets) is not None
        wanted = ['nfsrdma_tests'] + (['nfsrdma_sim'] if self.has_simulator else [])
        wanted += ['nfsrdma-fuse', 'nfsrdma_mount_tests'] if self.has_mount else []
        # As far as it goes, so that all faults that do not compile are known at once.
        on = ['-k', '0'] if os.path.exists(os.path.join(self.build, 'build.ninja')) else ['-k']
        return self.run(['cmake', '--build', self.build, '-j', str(self.jobs), '--target', *wanted, '--', *on], 3600) == 0

    @property
    def tests(self):
        return os.path.join(self.build, 'tests', 'nfsrdma_tests')

    @property
    def simulator(self):
        return next((os.path.join(at, 'nfsrdma_sim') for at, _, names in os.walk(os.path.join(self.build, 'tests'))
                     if 'nfsrdma_sim' in names), None)

    @staticmethod
    def failed_cases(log):
        """The titles of the test cases that failed. Others are in the log as well, for a message that they print."""
        with open(log, errors='replace') as text:
            parts = re.split(r'^TEST CASE:\s+', text.read(), flags=re.M)[1:]
        return sorted({part.split('\n', 1)[0] for part in parts if re.search(r': (?:FATAL )?ERROR:', part)})

    def judge(self, seconds, log=None, fault=0, finds='', cases=None, in_simulator=True, in_mount=False):
        """How the tests end: None where they all pass, else what failed. `cases`: the titles of the only ones that can fail.
        `in_mount`: tests/mount runs as well."""
        log = log or self.log
        expected = ['*%s*' % word for word in finds.replace(',', ' ').split()]
        # Those that are expected to find the fault come first, since they take a fraction of the time.
        parts = [['--test-case=' + ','.join(expected)]] if fault and expected else []
        parts += [[]] if cases is None else ['--test-case=' + ','.join(part) for part in lists_of(map(pattern, cases))]
        for part in parts:
            failed = self.judge_units([part] if isinstance(part, str) else part, seconds, log, fault)
            if failed:
                return failed
        failed = self.judge_simulator(seconds, log, fault) if in_simulator else None
        return failed or (self.judge_mount(seconds, log, fault) if in_mount else None)

    def judge_units(self, options, seconds, log, fault, first=True):
        """What fails also by itself, since a busy machine fails some once."""
        status = self.run([self.tests, '--no-version', *options, *(['--abort-after=1'] if fault and first else [])], seconds, log, fault)
        if status is None:
            return 'unit and conformance do not end'
        failed = self.failed_cases(log) if status == 1 else []
        if status != 0 and not failed:
            return 'the tests end with status %d' % status
        for case in failed:
            if self.run([self.tests, '--test-case=' + pattern(case), '--no-version'], seconds, log, fault) != 0:
                return case
        # Where the first failure passes by itself, it says nothing: the others are yet to be seen.
        return self.judge_units(options, seconds, log, fault, first=False) if failed and fault and first else None

    def judge_simulator(self, seconds, log, fault):
        if self.has_simulator:
            status = self.run([self.simulator, '--seeds', '1-300'], seconds, log, fault)
            if status != 0:
                return 'nfsrdma_sim ' + ('does not end' if status is None else 'with status %d' % status)
        return None

    def judge_mount(self, seconds, log, fault):
        """What fails twice of the cases that have nfsrdma-fuse on this kernel. Where they cannot run, ctest calls them skipped."""
        command = ['ctest', '--test-dir', self.build, '-R', '^mount$', '--output-on-failure']
        with MOUNTING:
            for _ in range(2):
                if not self.has_mount or self.run(command, seconds, log, fault) == 0:
                    return None
        return 'mount: ' + (', '.join(self.failed_cases(log)) or 'no end')

    def met(self, command, to):
        """The numbers of the faults whose places the program comes to, without any fault in effect."""
        environment = dict(os.environ, NFSRDMA_FAULTS_MET=to, NFSRDMA_FAULT='0')
        if os.path.exists(to):
            os.remove(to)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment, timeout=900)
        try:
            with open(to) as file:
                return set(map(int, file.read().split()))
        except OSError:
            return None

    def who_meets(self, pool, top):
        """The titles of the test cases by the number of the fault whose place they come to, and the numbers that the simulator
        comes to. A case of which nothing can be said (its process ended otherwise) counts for all."""
        listed = subprocess.run([self.tests, '--list-test-cases', '--no-version'], capture_output=True, text=True).stdout
        titles = sorted({line for line in listed.split('\n') if line and not line.startswith(('[doctest]', '====='))})
        jobs = [pool.submit(self.met, [self.simulator, '--seeds', '1-300'], os.path.join(top, 'met.s'))] if self.has_simulator else []
        jobs += [pool.submit(self.met, [self.tests, '--test-case=' + pattern(title)], os.path.join(top, 'met.%d' % number))
                 for number, title in enumerate(titles)]
        answers = [job.result() for job in jobs]
        in_simulator = answers.pop(0) if self.has_simulator else set()
        return {title: met for title, met in zip(titles, answers)}, in_simulator


def pattern(title):
    """A test case's title where doctest takes a list of patterns."""
    return re.sub(r'[,*"\\\\]', '?', title)


def lists_of(words, most=100000):
    """The words in lists short enough for an argument."""
    part = []
    for word in words:
        if part and sum(len(one) + 1 for one in part) + len(word) > most:
            yield part
            part = []
        part.append(word)
    if part:
        yield part


def run_one_by_one(mutants, jobs, top):
    """Puts each fault in by itself. The results by name."""
    if not mutants:
        return {}
    cores = max(1, (os.cpu_count() or 1) // jobs)
    results, lock, free = {}, threading.Lock(), []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # As the checkout's own build is made: ccache has it, and a fault costs one source that holds several. To compile
        # each source by itself, without optimisation, took forty minutes before the first fault.
        free.extend(pool.map(lambda n: Tree(top, str(n), cores, ['-DCMAKE_BUILD_TYPE=RelWithDebInfo']), range(jobs)))

        def prepare(tree):
            if not tree.compile():
                sys.exit('mutants: the tree itself does not build; see ' + tree.log)
            began = time.monotonic()
            failed = tree.judge(1800, in_mount=any(map(is_of_a_mount, mutants)))
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
                failed = tree.judge(limit, fault=-1, finds=mutant.finds, in_mount=is_of_a_mount(mutant))
                return ('found', failed) if failed else ('survived', 'expected to be found by: ' + mutant.finds)
            finally:
                with open(path, 'w') as file:
                    file.write(original)
                with lock:
                    free.append(tree)

        for mutant, (result, text) in zip(mutants, pool.map(one, mutants)):
            results[mutant.name] = result
            print('%-14s %s (%s)' % (result, mutant.name, text), flush=True)
    return results


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
        file.write(switched.HEADER.replace('@MOST@', str(max(one.number for one in mutants) + 1)))
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
        print('put in by themselves, since their two sides do not compile beside each other: ' + ', '.join(sorted(guilty)), flush=True)
        left_out += [one for one in wanted if one.name in guilty]
        wanted = [one for one in wanted if one.name not in guilty]


def run(mutants, jobs, top):
    tree, numbers, left_out = build_at_once(mutants, top)
    began = time.monotonic()
    failed = tree.judge(1800, in_mount=any(map(is_of_a_mount, mutants)))
    if failed:
        sys.exit('mutants: without any fault: %s; see %s' % (failed, tree.log))
    limit = 3 * (time.monotonic() - began) + 60
    results = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        cases, in_simulator = tree.who_meets(pool, top)

        def judge(number):
            come_here = [title for title, met in cases.items() if met is None or number in met]
            return tree.judge(limit, '%s.%d' % (tree.log, number), number, numbers[number].finds if come_here else '', come_here,
                              in_simulator is None or number in in_simulator, is_of_a_mount(numbers[number])), len(come_here)
        order = sorted(numbers)
        for number, (failed, count) in zip(order, pool.map(judge, order)):
            one = numbers[number]
            results[one.name] = 'found' if failed else 'survived'
            print('%-14s %s (%s)' % (results[one.name], one.name,
                                     failed or 'expected to be found by: %s; %d test cases come to its place' % (one.finds, count)), flush=True)
    results.update(run_one_by_one(left_out, jobs, top))
    return conclude(mutants, results)


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
        elif word in ('--only', '--jobs') and arguments:
            value = arguments.pop(0)
            if word == '--jobs':
                jobs = int(value)
            else:
                mutants = [m for m in mutants if re.fullmatch(value, m.name)]
                if not mutants:
                    sys.exit('mutants: there is none named ' + value)
        else:
            sys.exit('usage: run.sh [--list | --check] [--only NAMES] [--jobs N]')
    if action == 'list':
        for m in mutants:
            print('%-42s %-38s %s' % (m.name, m.file, m.finds))
        return 0
    if action == 'check':
        return check(mutants)
    return action(mutants, min(jobs, len(mutants)), top)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
