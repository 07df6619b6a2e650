#!/usr/bin/env python3
"""Processes that change names and contents below a directory, each against a model of its own.

  soak_work.py work DIRECTORY STATE PROCESSES SEED    until STATE/stop appears; one fault per line on standard output
  soak_work.py verify DIRECTORY STATE                 what is there against what the models say, at the end

Each process has a few names of its own, which it uses again and again, in directories that all of them share: an
operation that was done twice, too late or to somebody else's file shows at the next look. A file's content repeats the
token of who wrote it for which generation, so that a wrong one tells where it came from. Several processes' models end
in STATE/model.N, how far they came in STATE/progress.N. A name whose state a fault has made unknown is left alone.
"""
import errno
import hashlib
import json
import os
import random
import signal
import sys
import time

NAMES = 12
SHARED = 4
MOST_FAULTS = 20


def content(token, size):
    return (token * (size // len(token) + 1))[:size].encode()


class Fault(Exception):
    pass


class Worker:
    def __init__(self, top, state, number, seed):
        self.top, self.state, self.number = top, state, number
        self.random = random.Random(seed * 1000 + number)
        self.prefix = 'w%02d.' % number
        # Path below the top: None (nothing there), 'directory', or the bytes of a file.
        self.model = {'d%d/%s%d' % (i % SHARED, self.prefix, i): None for i in range(NAMES)}
        self.unknown = set()
        self.generation = self.operations = self.faults = 0
        self.slowest = (0, '')

    # ---- one operation, its expected end, and what it means for the model ----

    def expect(self, code, call, *arguments):
        """Runs the call, which must end with the error of the given number, or well if that is 0."""
        try:
            result = call(*arguments)
        except OSError as error:
            if error.errno == code:
                return None
            wanted = errno.errorcode[code] if code else 'no error'
            raise Fault('%s, not %s' % (errno.errorcode.get(error.errno, error.errno), wanted))
        if code:
            raise Fault('no error, not %s' % errno.errorcode[code])
        return result

    def there(self, kind=None):
        return [name for name, held in self.model.items() if name not in self.unknown and held is not None and
                (kind is None or (held == 'directory') == (kind == 'directory'))]

    def absent(self):
        return [name for name, held in self.model.items() if name not in self.unknown and held is None]

    def path(self, name):
        return os.path.join(self.top, name)

    def fresh(self):
        self.generation += 1
        return content('%s%d|' % (self.prefix, self.generation), self.random.choice((0, 1, 37, 4096, 5000, 70000)))

    def write(self, flags, name, data):
        def go():
            fd = os.open(self.path(name), flags, 0o644)
            try:
                at = 0
                while at < len(data):
                    at += os.write(fd, data[at:])
                if self.random.random() < 0.3:
                    os.fsync(fd)
            finally:
                os.close(fd)
        return go

    def create(self):
        name, data = self.random.choice(self.absent()), self.fresh()
        yield 'create', name
        self.expect(0, self.write(os.O_WRONLY | os.O_CREAT | os.O_EXCL, name, data))
        self.model[name] = data

    def create_over(self):
        name = self.random.choice(self.there())
        yield 'create what is there', name
        self.expect(errno.EEXIST, os.open, self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def rewrite(self):
        name, data = self.random.choice(self.there('file')), self.fresh()
        yield 'rewrite', name
        self.expect(0, self.write(os.O_WRONLY | os.O_TRUNC, name, data))
        self.model[name] = data

    def append(self):
        name, data = self.random.choice(self.there('file')), self.fresh()[:5000]
        yield 'append', name
        self.expect(0, self.write(os.O_WRONLY | os.O_APPEND, name, data))
        self.model[name] += data

    def mkdir(self):
        name = self.random.choice(self.absent())
        yield 'mkdir', name
        self.expect(0, os.mkdir, self.path(name))
        self.model[name] = 'directory'

    def rmdir(self):
        name = self.random.choice(self.there('directory'))
        yield 'rmdir', name
        self.expect(0, os.rmdir, self.path(name))
        self.model[name] = None

    def unlink(self):
        name = self.random.choice(self.there('file'))
        yield 'unlink', name
        self.expect(0, os.unlink, self.path(name))
        self.model[name] = None

    def rename(self):
        name, to = self.random.choice(self.there()), self.random.choice(self.absent())
        yield 'rename', name, to
        self.expect(0, os.rename, self.path(name), self.path(to))
        self.model[to], self.model[name] = self.model[name], None

    def rename_over(self):
        name, to = self.random.sample(self.there('file'), 2)
        yield 'rename over', name, to
        self.expect(0, os.rename, self.path(name), self.path(to))
        self.model[to], self.model[name] = self.model[name], None

    def missing(self):
        name = self.random.choice(self.absent())
        yield 'stat of nothing', name
        self.expect(errno.ENOENT, os.stat, self.path(name))

    def read(self):
        name = self.random.choice(self.there('file'))
        yield 'read', name
        found = self.expect(0, lambda: open(self.path(name), 'rb').read())
        self.compare(found, self.model[name])
        size = self.expect(0, os.stat, self.path(name)).st_size
        if size != len(self.model[name]):
            raise Fault('stat says %d bytes, it has %d' % (size, len(self.model[name])))

    def list(self):
        directory = 'd%d' % self.random.randrange(SHARED)
        yield ('list', directory)
        mine = {directory + '/' + n for n in self.expect(0, os.listdir, self.path(directory)) if n.startswith(self.prefix)}
        wanted = {n for n in self.there() if n.startswith(directory + '/')}
        wrong = {n for n in mine - self.unknown if self.model[n] is None}
        if wanted - mine or wrong:
            raise Fault('lacks %s, has %s too many' % (sorted(wanted - mine), sorted(wrong)))

    @staticmethod
    def compare(found, wanted):
        if found != wanted:
            raise Fault('%d bytes %r, not %d bytes %r' % (len(found), found[:24], len(wanted), wanted[:24]))

    # ---- the run ----

    def one(self):
        weights = ((self.create, 6), (self.rename, 4), (self.unlink, 4), (self.mkdir, 4), (self.rmdir, 4), (self.read, 4),
                   (self.rename_over, 2), (self.rewrite, 2), (self.append, 2), (self.missing, 1), (self.create_over, 1),
                   (self.list, 1))
        operation = self.random.choices([w[0] for w in weights], [w[1] for w in weights])[0]()
        try:
            names = next(operation)
        except (IndexError, ValueError):  # nothing there to do it to
            return
        self.operations += 1
        began = time.time()
        self.say('progress', '%d %s since %.1f\n' % (self.operations, ' '.join(names), began))
        try:
            next(operation, None)
        except Fault as fault:
            self.faults += 1
            self.unknown.update(n for n in names[1:] if n in self.model)
            print('FAULT %s at %s after %.1f s: %s: %s' % (self.prefix, time.strftime('%H:%M:%S'), time.time() - began,
                                                          ' '.join(names), fault), flush=True)
        self.slowest = max(self.slowest, (time.time() - began, ' '.join(names)))

    def say(self, what, text):
        with open(os.path.join(self.state, '%s.%d' % (what, self.number)), 'w') as file:
            file.write(text)

    def run(self):
        stop = os.path.join(self.state, 'stop')
        while self.faults < MOST_FAULTS and not os.path.exists(stop):
            self.one()
        held = {}
        for name, what in self.model.items():
            if name not in self.unknown:
                held[name] = what if what in (None, 'directory') else [len(what), hashlib.sha256(what).hexdigest()]
        self.say('model', json.dumps({'held': held, 'unknown': sorted(self.unknown)}))
        self.say('progress', '%d ended, slowest %.1f s (%s)\n' % (self.operations, *self.slowest))


def work(top, state, processes, seed):
    for i in range(SHARED):
        os.makedirs(os.path.join(top, 'd%d' % i), exist_ok=True)
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                Worker(top, state, number, seed).run()
                status = 0
            finally:
                os._exit(status)
        children.append(child)

    # Whoever ends this process ends them all: none of them may outlive the test.
    def end(signum, frame):
        for child in children:
            os.kill(child, signal.SIGKILL)
        os._exit(128 + signum)
    signal.signal(signal.SIGTERM, end)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


def verify(top, state):
    wrong, allowed = 0, set()

    def fault(name, text):
        nonlocal wrong
        wrong += 1
        print('FAULT at the end: %s: %s' % (name, text))
    for file in sorted(os.listdir(state)):
        if not file.startswith('model.'):
            continue
        with open(os.path.join(state, file)) as text:
            model = json.load(text)
        allowed.update(model['unknown'])
        for name, what in model['held'].items():
            path = os.path.join(top, name)
            if what is None:
                continue
            allowed.add(name)
            if what == 'directory':
                if not os.path.isdir(path):
                    fault(name, 'the directory is lost')
                continue
            try:
                with open(path, 'rb') as data:
                    found = data.read()
            except OSError as error:
                fault(name, 'lost: %s' % error.strerror)
                continue
            if [len(found), hashlib.sha256(found).hexdigest()] != what:
                fault(name, 'has %d bytes %r, not the %d that were written' % (len(found), found[:24], what[0]))
    for i in range(SHARED):
        for name in os.listdir(os.path.join(top, 'd%d' % i)):
            if 'd%d/%s' % (i, name) not in allowed:
                fault('d%d/%s' % (i, name), 'was removed, or is nobody\'s')
    return wrong != 0


if __name__ == '__main__':
    if sys.argv[1:2] == ['work'] and len(sys.argv) == 6:
        sys.exit(work(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
    if sys.argv[1:2] == ['verify'] and len(sys.argv) == 4:
        sys.exit(verify(sys.argv[2], sys.argv[3]))
    sys.exit(__doc__)
