# SPDX-License-Identifier: Apache-2.0
"""Who takes part, and what exactly each of them does. All roots are copies of one busybox root in one folder on one file system."""
import json
import os
import shutil
import subprocess
import tarfile

from helper import Contender, Failed

IMAGE = 'bench'
HYBRID = '/sys/fs/cgroup/unified'  # where a cgroup v2 hierarchy is mounted beside v1 ones
NO_LIBRARY = 'the library is not in this build'


def run(argv, **kwargs):
    """A step of a set-up: its output, or Failed with its words."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          check=False, **kwargs)
    if done.returncode:
        raise Failed(f'{" ".join(argv)}: status {done.returncode}: {done.stdout.strip()[-300:]}')
    return done.stdout


class Bench:
    """The folders and programs of one run."""

    def __init__(self, programs, tool, work):
        self.programs, self.tool, self.work = programs, tool, work
        self.rootfs = os.path.join(work, 'rootfs')
        self.state = os.path.join(work, 'state')
        self.library = all(os.path.exists(self.program(p)) for p in ('lifecycle', 'exec', 'stdout', 'log', 'open', 'many', 'stats', 'dial', 'upload'))
        self.root = os.geteuid() == 0
        self.library_failure = ''

    def program(self, name):
        return os.path.join(self.programs, 'bench-' + name)

    def make_rootfs(self, path):
        busybox = shutil.which('busybox')
        for folder in ('bin', 'proc', 'dev', 'sys', 'tmp', 'etc', 'root', 'run', 'usr'):
            os.makedirs(os.path.join(path, folder), mode=0o755)
        shutil.copy(busybox, os.path.join(path, 'bin/busybox'))
        for name in ('tiny', 'inside'):
            shutil.copy(self.program(name), os.path.join(path, 'bin', name))
        for name in ('true', 'sh', 'sleep', 'cat'):
            os.symlink('busybox', os.path.join(path, 'bin', name))
        for name, text in (('passwd', 'root:x:0:0:root:/root:/bin/sh\n'), ('group', 'root:x:0:\n')):
            with open(os.path.join(path, 'etc', name), 'w', encoding='ascii') as f:
                f.write(text)

    def prepare(self):
        os.makedirs(self.work, mode=0o755, exist_ok=True)
        os.chmod(self.work, 0o755)
        self.make_rootfs(self.rootfs)
        if self.library:
            try:
                run([self.program('open'), 'import', self.state, IMAGE, self.rootfs])
            except Failed as e:
                self.library_failure = str(e)

    def need_library(self):
        if self.library_failure:
            raise Failed(self.library_failure)

    # ---- peers ----

    def absent(self, *names):
        missing = [n for n in names if not shutil.which(n)]
        return f'{", ".join(missing)}: not installed' if missing else ''

    def spawn(self, *argv):
        return [self.program('spawn'), *argv]

    def bundle(self, runtime, args):
        """A folder as `RUNTIME spec` makes it, with its own copy of the root; nothing of its defaults is changed but the command."""
        folder = os.path.join(self.work, f'{runtime}-{os.path.basename(args[0])}')
        self.make_rootfs(os.path.join(folder, 'rootfs'))
        run([runtime, 'spec'] + ([] if self.root else ['--rootless']), cwd=folder)
        path = os.path.join(folder, 'config.json')
        with open(path, encoding='utf-8') as f:
            config = json.load(f)
        config['process']['terminal'] = False
        config['process']['args'] = args
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(config, f)
        return folder

    def runtime(self, name):
        """argv in front of a runtime's verb. crun 1 refuses to work where v1 and v2 hierarchies are both mounted: there it gets a mount
        namespace in which the v2 one is not (made before the clock starts)."""
        options = [name, '--root', os.path.join(self.work, name + '-state')]
        if name == 'crun':
            options.append('--cgroup-manager=cgroupfs')
        return options

    def around(self, name):
        if name != 'crun' or not os.path.ismount(HYBRID):
            return []
        return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', f'umount {HYBRID} && exec "$@"', 'sh']

    def runtime_absent(self, name):
        return self.absent(name) or ('' if self.root or not self.around(name) else
                                     f'refuses to work beside {HYBRID}, and only root can hide that')


def lifecycle(b):
    true, work = '/bin/true', os.path.join(b.work, 'floor')
    os.makedirs(work, mode=0o755, exist_ok=True)
    os.makedirs(work + '-user', mode=0o755, exist_ok=True)
    root_only = '' if b.root else 'wants root'
    out = [
        Contender('floor-vfork', 'vfork + exec', 'posix_spawn of busybox true on the host, waited for; no sandbox',
                  [b.program('floor'), 'vfork', b.rootfs + true]),
        Contender('floor-sandbox', 'raw calls, 6 namespaces',
                  'floor.c: mkdir, clone3 with mount, pid, ipc, uts, cgroup and network namespaces, overlay, proc, pivot_root, exec of a '
                  'program of one system call, wait, rmdir', [b.program('floor'), 'sandbox', b.rootfs, work, '/bin/tiny'],
                  absent=root_only),
        Contender('floor-sandbox-user', 'raw calls, + user namespace', 'the same with a user namespace of 65,536 ids',
                  [b.program('floor'), 'sandbox-user', b.rootfs, work + '-user', '/bin/tiny']),
        Contender('unshare', 'unshare', 'all namespaces, chroot into a folder, proc; no overlay, /dev, limits or filter',
                  b.spawn('unshare', '-m', '-u', '-i', '-n', '-p', '-C', '-U', '-r', '-f', '--mount-proc', '-R', b.rootfs, true),
                  absent=b.absent('unshare')),
        Contender('bwrap', 'bwrap --unshare-all', 'all namespaces, the root bound read-only, proc, /dev; no overlay, cgroup, id range, filter, '
                  'or record',
                  b.spawn('bwrap', '--unshare-all', '--ro-bind', b.rootfs, '/', '--proc', '/proc', '--dev', '/dev', true),
                  absent=b.absent('bwrap')),
        bwrap_overlay(b),
    ]
    out += [runtime_run(b, name) for name in ('crun', 'runc')]
    missing = '' if b.library else NO_LIBRARY
    no_tool = '' if b.tool and b.library else NO_LIBRARY
    out += [
        Contender('library', 'libsandbox, C API', 'create + start + exec + wait + delete on an image overlay, all isolation on, in a program that '
                  'has the host open', [b.program('lifecycle'), b.state, IMAGE, true], absent=missing, setup=b.need_library),
        Contender('command', 'sandbox run --image', 'the whole command: program start, host open, the same sandbox, delete',
                  b.spawn(b.tool or '', '--root', b.state, 'run', '--image', IMAGE, '--', true), absent=no_tool, setup=b.need_library),
        Contender('command-host', 'sandbox run', 'the same on the image `host`: the host\'s own /usr, read-only',
                  b.spawn(b.tool or '', '--root', b.state, 'run', '--', 'true'), absent=no_tool, setup=b.need_library),
    ]
    return out


def bwrap_overlay(b):
    work = os.path.join(b.work, 'bwrap')
    script = (f'mkdir u w m && mount -t overlay -o lowerdir={b.rootfs},upperdir=u,workdir=w overlay m && '
              'bwrap --unshare-all --bind m / --proc /proc --dev /dev /bin/true && umount m && rm -rf u w m')

    def setup():
        os.makedirs(work, exist_ok=True)

    return Contender('bwrap-overlay', 'bwrap on an overlay', 'sh: mkdir, mount -t overlay, bwrap --unshare-all --bind, umount, rm -rf: a writable '
                     'root thrown away, as ours is',
                     ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', 'cd "$0" && exec "$@"', work] +
                     b.spawn('busybox', 'sh', '-c', script),
                     absent=b.absent('bwrap', 'unshare', 'busybox') or ('' if b.root else 'wants root'), setup=setup)


def runtime_run(b, name):
    folder = os.path.join(b.work, f'{name}-true')

    def setup():
        b.bundle(name, ['/bin/true'])

    return Contender(name, f'{name} run', 'a bundle as the runtime\'s own `spec` makes it: its own rootfs folder, read-only, no user namespace when '
                     'run by root, no overlay, network loopback only',
                     b.around(name) + b.spawn(*b.runtime(name), 'run', '--bundle', folder, f'bench-{os.getpid()}-{name}'),
                     absent=b.runtime_absent(name), setup=setup)


def runtime_exec(b, name):
    ident = f'bench-{os.getpid()}-{name}-exec'

    def setup():
        folder = b.bundle(name, ['/bin/inside', 'pause'])
        # not captured: the container would hold the pipe
        done = subprocess.run(b.around(name) + b.runtime(name) + ['run', '--detach', '--bundle', folder, ident], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
        if done.returncode:
            raise Failed(f'{name} run --detach: status {done.returncode}')

    def teardown():
        subprocess.run(b.around(name) + b.runtime(name) + ['delete', '--force', ident], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)

    return Contender(name, f'{name} exec', 'busybox true in a container that runs',
                     b.around(name) + b.spawn(*b.runtime(name), 'exec', ident, '/bin/true'), absent=b.runtime_absent(name), setup=setup,
                     teardown=teardown)


def command_exec(b):
    argv = [b.tool or '', '--root', b.state]
    name = f'bench-exec-{os.getpid()}'

    def setup():
        b.need_library()
        run(argv + ['create', '--image', IMAGE, '--name', name])
        run(argv + ['start', name])

    def teardown():
        subprocess.run(argv + ['rm', name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=60, check=False)

    return Contender('command', 'sandbox exec', 'the whole command: program start, host open, busybox true in a sandbox that runs',
                     b.spawn(*argv, 'exec', name, '--', '/bin/true'), absent='' if b.tool and b.library else NO_LIBRARY, setup=setup,
                     teardown=teardown)


def execs(b):
    missing = '' if b.library else NO_LIBRARY
    return [
        Contender('floor-vfork', 'vfork + exec, busybox true', 'posix_spawn on the host; no sandbox',
                  [b.program('floor'), 'vfork', b.rootfs + '/bin/true']),
        Contender('floor-vfork-tiny', 'vfork + exec, one system call', 'the same with the smallest program',
                  [b.program('floor'), 'vfork', b.rootfs + '/bin/tiny']),
        Contender('library', 'libsandbox exec, C API', 'busybox true in a sandbox that runs, streams /dev/null, until its end is known',
                  [b.program('exec'), b.state, IMAGE, 'null', '/bin/true'], absent=missing, setup=b.need_library),
        Contender('library-tiny', 'libsandbox exec, one system call', 'the same with the smallest program',
                  [b.program('exec'), b.state, IMAGE, 'null', '/bin/tiny'], absent=missing, setup=b.need_library),
        Contender('library-pipes', 'libsandbox exec + communicate', 'both outputs by pipes, read to their ends',
                  [b.program('exec'), b.state, IMAGE, 'pipes', '/bin/true'], absent=missing, setup=b.need_library),
        command_exec(b),
        runtime_exec(b, 'crun'),
        runtime_exec(b, 'runc'),
    ]


def streams(b, size):
    inside, missing = b.rootfs + '/bin/inside', '' if b.library else NO_LIBRARY
    return [
        Contender('plain', 'a plain pipe', 'a host program writes to a pipe of the default size, read by 1 MiB',
                  [b.program('stdout'), 'plain', '0', inside, str(size)], absent=missing),
        Contender('plain-1m', 'a plain pipe of 1 MiB', 'the same with F_SETPIPE_SZ',
                  [b.program('stdout'), 'plain', str(1 << 20), inside, str(size)], absent=missing),
        Contender('library', 'libsandbox exec\'s stdout', 'the same program in a sandbox, by the exec\'s own descriptor',
                  [b.program('stdout'), 'sandbox', b.state, IMAGE, '/bin/inside', str(size)], absent=missing, setup=b.need_library),
    ]


def logs(b, size):
    inside, missing = b.rootfs + '/bin/inside', '' if b.library else NO_LIBRARY
    return [
        Contender('plain', 'a pipe into cat', 'a host program writes to a pipe, and cat from there into a file',
                  [b.program('log'), 'plain', os.path.join(b.work, 'log-plain'), inside, str(size)], absent=missing),
        Contender('library', 'a daemon\'s log', 'the same program as a sandbox\'s daemon: start, all of it, its end in the log; capped at 16 MiB',
                  [b.program('log'), 'sandbox', b.state, IMAGE, '/bin/inside', str(size)], absent=missing, setup=b.need_library),
    ]


def uploads(b, count, size):
    """A tar of `count` files of `size` bytes each."""
    missing = '' if b.library else NO_LIBRARY
    path = os.path.join(b.work, f'upload-{count}.tar')

    def need_tar():
        if not os.path.exists(path):
            data = os.urandom(1 << 20)
            with tarfile.open(path + '.part', 'w', format=tarfile.PAX_FORMAT) as archive:
                for i in range(count):
                    member = tarfile.TarInfo(f'folder-{i // 100}/file-{i}')
                    member.size = size
                    archive.addfile(member, Repeated(data, size))
            os.rename(path + '.part', path)

    def need_both():
        b.need_library()
        need_tar()

    return [
        Contender('tar', 'tar -x', 'GNU tar unpacks it into a new folder of the same file system',
                  [b.program('upload'), 'tar', path, os.path.join(b.work, 'tar-x')], absent=missing or b.absent('tar'), setup=need_tar),
        Contender('library', 'sandbox_upload', 'the same tar into a folder of a sandbox that runs, by its descriptor',
                  [b.program('upload'), 'sandbox', b.state, IMAGE, path], absent=missing, setup=need_both),
    ]


class Repeated:
    """So many bytes to read, over and over the same ones."""

    def __init__(self, data, size):
        self.data, self.left = data, size

    def read(self, most):
        part = self.data[:min(most, self.left)]
        self.left -= len(part)
        return part


def opens(b):
    missing = '' if b.library else NO_LIBRARY
    return [
        Contender('library', 'open a host', 'sandbox_host_open in a program that did it before', [b.program('open'), b.state],
                  absent=missing),
        Contender('library-first', 'a program that opens a host', 'program start, the first open, close, exit',
                  b.spawn(b.program('open'), 'once', b.state), absent=missing),
    ]


def many(b, count):
    ident = f'bench-{os.getpid()}-crun-many'
    root = os.path.join(b.work, 'many')  # its own: other groups open and list theirs with few

    def setup():
        b.need_library()
        run([b.program('open'), 'import', root, IMAGE, b.rootfs])

    def crun_setup():
        folder = b.bundle('crun', ['/bin/sleep', '10000'])
        done = subprocess.run(b.around('crun') + b.runtime('crun') + ['run', '--detach', '--bundle', folder, ident], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
        if done.returncode:
            raise Failed(f'crun run --detach: status {done.returncode}')

    def crun_teardown():
        subprocess.run(b.around('crun') + b.runtime('crun') + ['delete', '--force', ident], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)

    return [
        Contender('crun', 'crun state', 'the program crun, asked for one container that runs',
                  b.around('crun') + b.spawn(*b.runtime('crun'), 'state', ident), absent=b.runtime_absent('crun'), setup=crun_setup,
                  teardown=crun_teardown),
        Contender('library', f'list of {count}', 'sandbox_host_list, each checked against the kernel; "reopen" is sandbox_open of one by its id, '
                  '"inspect" its whole document, "open" is sandbox_host_open beside the program that has them',
                  [b.program('many'), root, IMAGE, str(count)], absent='' if b.library else NO_LIBRARY, setup=setup),
    ]


def stats(b, count):
    root = os.path.join(b.work, 'stats')

    def setup():
        b.need_library()
        run([b.program('open'), 'import', root, IMAGE, b.rootfs])

    return [
        Contender('library', f'statistics of {count}', 'sandbox_get_stats of each, with limits of memory, processes and CPU; "raw" is the same '
                  'files of the same cgroups, read in a loop', [b.program('stats'), root, IMAGE, str(count)],
                  absent='' if b.library else NO_LIBRARY, setup=setup),
    ]


def forwards(b):
    inside, missing = b.rootfs + '/bin/inside', '' if b.library else NO_LIBRARY
    relay = [b.program('dial'), 'relay', inside]
    return [
        Contender('raw', 'raw TCP on loopback', 'connect, request, first byte; "bulk" is 64 MiB over a second connection, "many" 100 more connections, '
                  'one after the other', [b.program('dial'), 'raw', inside], absent=missing),
        Contender('relay', 'a plain relay', 'the same through relay.c: a process for each connection, read and write by 64 KiB',
                  [*relay, b.program('relay'), 'LISTEN_PORT', 'TO_PORT'], absent=missing),
        Contender('socat', 'socat', 'the same through socat TCP-LISTEN,fork TCP, its buffers set to 64 KiB',
                  [*relay, 'socat', '-b', '65536', 'TCP-LISTEN:LISTEN_PORT,bind=127.0.0.1,reuseaddr,fork', 'TCP:127.0.0.1:TO_PORT'],
                  absent=missing or b.absent('socat')),
        Contender('library', 'sandbox_forward_open', 'the same through a forward to a sandbox\'s daemon',
                  [b.program('dial'), 'forward', b.state, IMAGE, '/bin/inside'], absent=missing, setup=b.need_library),
    ]


def dials(b):
    inside, missing = b.rootfs + '/bin/inside', '' if b.library else NO_LIBRARY
    return [
        Contender('raw', 'raw TCP on loopback', 'connect, request, first byte; the part "bulk" is 64 MiB over a second connection',
                  [b.program('dial'), 'raw', inside], absent=missing),
        Contender('library', 'sandbox_dial', 'the same to a sandbox\'s daemon', [b.program('dial'), 'sandbox', b.state, IMAGE, '/bin/inside'],
                  absent=missing, setup=b.need_library),
    ]
