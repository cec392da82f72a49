#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the built library to its promises: what it exports, needs, and does without being called.

check.py HEADER MAP SHARED STATIC [--sanitized]   status 1 and one line for each fault
check.py --self-test CC                           plants one fault of each kind and fails unless each is found
"""
import os
import re
import subprocess
import sys
import tempfile

NODE = re.compile(r'([\w.]+)\s*\{\s*global:(.*?)(?:local:(.*?))?\}', re.S)
NEEDED = re.compile(r'^(libc\.so\.6|libseccomp\.so\.2|libjansson\.so\.4|ld-linux[\w-]*\.so\.\d)$')
SANITIZERS = re.compile(r'^lib(asan|ubsan|tsan|lsan|m|gcc_s|stdc\+\+|pthread|dl|rt|resolv)\.so')
# What would change the host program, end it, or speak in its place. Names as the compiler may turn them, too.
NEVER = set('''atexit on_exit __cxa_atexit signal sigaction bsd_signal sysv_signal __sysv_signal sigvec umask chdir fchdir setlocale uselocale
    setenv putenv unsetenv clearenv getenv secure_getenv fork vfork daemon system popen wait wait3 wait4 exit _exit _Exit quick_exit abort
    __assert_fail __assert stdin stdout stderr printf puts putchar vprintf perror psignal __printf_chk __vprintf_chk
    err errx warn warnx error syslog openlog setuid setgid setreuid setresuid setgroups seteuid setpgid setsid
    tcsetpgrp alarm setitimer getpwnam getpwuid getgrnam getaddrinfo gethostbyname dlopen'''.split())
ALLOWED_STATIC = re.compile(r'^(sandbox_|sb_)')
MACOS = {'sandbox_init', 'sandbox_init_with_parameters', 'sandbox_free_error', 'sandbox_check'}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, 'LC_ALL': 'C'}).stdout


def declared(header):
    with open(header, encoding='utf-8') as file:
        code = re.sub(r'/\*.*?\*/', ' ', file.read(), flags=re.S)
    functions = re.findall(r'^SANDBOX_API[^;(]*?\b(\w+)\s*\(', code, re.M)
    unmarked = [name for name in re.findall(r'\b(sandbox_\w+)\s*\([^;{}]*\)\s*;', code) if name not in functions]
    return set(functions), unmarked


def mapped(path):
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'/\*.*?\*/', ' ', file.read(), flags=re.S)
    nodes, last_local = {}, ''
    for name, names, local in NODE.findall(text):
        for symbol in names.replace(';', ' ').split():
            nodes[symbol] = (name, not re.fullmatch(r'\w+', symbol))
        last_local = local
    return nodes, '*' in last_local


def exported(shared):
    symbols, nodes = {}, set()
    for line in run('nm', '-D', '--defined-only', '--with-symbol-versions', shared).splitlines():
        kind, name = line.split()[-2:]
        if kind == 'A':
            nodes.add(name.split('@')[0])
        else:
            symbol, _, version = name.partition('@')
            symbols[symbol] = version.lstrip('@')
    return symbols, nodes


def check_names(header, version_map, shared, static):
    functions, unmarked = declared(header)
    nodes, hides = mapped(version_map)
    symbols, _ = exported(shared)
    for name in unmarked:
        yield f'{name}: declared in the header without SANDBOX_API'
    if not hides:
        yield 'the map does not hide the rest: local: *;'
    for name, (node, glob) in nodes.items():
        if glob:
            yield f'{name}: a pattern in the map'
        if symbols.get(name, node) != node:
            yield f'{name}: exported as {symbols[name]}, the map says {node}'
    for name in sorted(functions - nodes.keys()):
        yield f'{name}: in the header, not in the map'
    for name in sorted(nodes.keys() - functions):
        yield f'{name}: in the map, not in the header'
    for name in sorted(nodes.keys() - symbols.keys()):
        yield f'{name}: in the map, not in the library'
    for name in sorted(symbols.keys() - nodes.keys()):
        yield f'{name}: exported, not in the map'
    for line in run('nm', '-g', '--defined-only', static).splitlines():
        parts = line.split()
        if len(parts) == 3 and not ALLOWED_STATIC.match(parts[2]) and not parts[2].startswith(('__asan', '__odr_asan', '__ubsan', '__tsan', '.')):
            yield f'{parts[2]}: a name in the static library that may collide with the program\'s'
        if len(parts) == 3 and parts[2] in MACOS:
            yield f'{parts[2]}: macOS owns this name'


def check_behaviour(shared, sanitized):
    dynamic = run('readelf', '-dW', shared)
    for name in re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic):
        if not NEEDED.match(name) and not (sanitized and SANITIZERS.match(name)):
            yield f'{name}: a library that is needed'
    if '[libsandbox.so.0]' not in dynamic:
        yield 'the soname is not libsandbox.so.0'
    if re.search(r'\((RPATH|RUNPATH|TEXTREL|PREINIT_ARRAY)\)', dynamic):
        yield 'an RPATH, a text relocation or a preinit array'
    if 'BIND_NOW' not in dynamic and 'NOW' not in dynamic:
        yield 'symbols are bound lazily'
    headers = run('readelf', '-lW', shared)
    if re.search(r'GNU_STACK.*RWE', headers):
        yield 'an executable stack'
    if 'GNU_RELRO' not in headers:
        yield 'no RELRO'
    if sanitized: # it brings constructors and calls of its own
        return
    word = 8
    for section in ('init_array', 'fini_array'):
        size = re.search(rf'\.{section}\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)', run('readelf', '-SW', shared))
        if size and int(size.group(1), 16) > word: # one entry is the compiler's own start-up code
            yield f'.{section}: something of ours runs at load or unload'
    if re.search(r'\.(ctors|dtors)\b', run('readelf', '-SW', shared)):
        yield '.ctors: something of ours runs at load'
    undefined = {line.split()[-1].partition('@')[0] for line in run('nm', '-D', '--undefined-only', shared).splitlines()}
    for name in sorted(undefined & NEVER):
        yield f'{name}(): called by the library'


def check(header, version_map, shared, static, sanitized=False):
    return [*check_names(header, version_map, shared, static), *check_behaviour(shared, sanitized)]


def build(folder, compiler, source, header, version_map, flags=()):
    paths = [os.path.join(folder, name) for name in ('x.h', 'x.map', 'x.c', 'libx.so', 'libx.a', 'x.o')]
    for path, text in zip(paths, (header, version_map, source)):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    run(compiler, '-shared', '-fPIC', '-Wl,-z,now,-z,relro,-z,noexecstack', '-Wl,-soname,libsandbox.so.0',
        f'-Wl,--version-script,{paths[1]}', '-o', paths[3], paths[2], *flags)
    run(compiler, '-c', '-fPIC', '-o', paths[5], paths[2])
    if os.path.exists(paths[4]):
        os.unlink(paths[4])
    run('ar', 'rc', paths[4], paths[5])
    return check(paths[0], paths[1], paths[3], paths[4])


def self_test(compiler):
    header = 'SANDBOX_API int sandbox_a(void);\nSANDBOX_API const char *sandbox_b(int x,\n    int y);\n'
    version_map = 'LIB_0.1 {\nglobal:\n    sandbox_a;\n    sandbox_b;\nlocal:\n    *;\n};\n'
    source = 'int sandbox_a(void) { return 1; }\nconst char *sandbox_b(int x, int y) { return x > y ? "" : 0; }\n'
    wrong = [
        ('not in the map', header + 'SANDBOX_API void sandbox_c(void);\n', version_map, source, ()),
        ('without SANDBOX_API', header + 'void sandbox_c(void);\n', version_map, source, ()),
        ('in the map, not in the header', 'SANDBOX_API int sandbox_a(void);\n', version_map, source, ()),
        ('in the map, not in the library', header, version_map, source.split('\n', maxsplit=1)[0], ()),
        ('exported, not in the map', header, version_map.replace('local:\n    *;\n', ''), source + 'int sandbox_d = 1;', ()),
        ('does not hide', header, version_map.replace('local:\n    *;\n', ''), source, ()),
        ('a pattern', header, version_map.replace('sandbox_b', 'sandbox_b*'), source, ()),
        ('that may collide', header, version_map, source + 'int helper(void) { return 2; }', ()),
        ('macOS', header, version_map, source + 'int sandbox_init(void) { return 2; }', ()),
        ('a library that is needed', header, version_map, source, ('-Wl,--no-as-needed', '-lm')),
        ('soname', header, version_map, source, ('-Wl,-soname,other.so',)),
        ('RPATH', header, version_map, source, ('-Wl,-rpath,/opt',)),
        ('lazily', header, version_map, source, ('-Wl,-z,lazy',)),
        ('executable stack', header, version_map, source, ('-Wl,-z,execstack',)),
        ('no RELRO', header, version_map, source, ('-Wl,-z,norelro',)),
        ('at load', header, version_map, source + '__attribute__((constructor)) static void c(void) { sandbox_a(); }', ()),
        ('at load or unload', header, version_map, source + '__attribute__((destructor)) static void c(void) { sandbox_a(); }', ()),
        ('umask()', header, version_map, '#include <sys/stat.h>\n' + source + 'static int u(void) { return umask(0); }\nint (*sb_u)(void) = u;', ()),
    ]
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        for fault in build(folder, compiler, source, header, version_map):
            print(f'self-test: a right library has the fault: {fault}')
            status = 1
        for expected, *arguments in wrong:
            head, versions, code, flags = arguments
            faults = build(folder, compiler, code, head, versions, flags)
            if not any(expected in fault for fault in faults):
                print(f'self-test: planted and not found: {expected}; found {faults}')
                status = 1
    print(f'self-test: {len(wrong)} faults planted')
    return status


def main(arguments):
    if arguments[:1] == ['--self-test']:
        return self_test(arguments[1])
    faults = check(*arguments[:4], sanitized='--sanitized' in arguments)
    for fault in faults:
        print(fault)
    print(f'{len(faults)} faults')
    return 1 if faults else 0


sys.exit(main(sys.argv[1:]))
