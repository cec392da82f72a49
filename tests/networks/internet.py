# SPDX-License-Identifier: Apache-2.0
"""The one host behind netbed's uplink. HTTP on 80 and 8000 (/moved leads elsewhere, /who says from where), a DNS server that also lies, and a port
443 that takes whatever comes and says how much it was."""
import http.server
import socket
import socketserver
import struct
import subprocess
import sys
import threading

NAMES = {'ok.test': '198.51.100.2', 'www.ok.test': '198.51.100.2', 'other.test': '198.51.100.2', 'lie.test': '127.0.0.1', 'meta.test': '169.254.169.254',
         'host.test': '198.51.100.1', 'ten.test': '10.99.0.1', 'mine.test': '1.2.3.4'}


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        body = {'/who': self.client_address[0], '/host': self.headers['Host']}.get(self.path, 'hello').encode()
        self.send_response(302 if self.path == '/moved' else 200)
        if self.path == '/moved':
            self.send_header('Location', 'http://other.test:8000/')
        if self.path == '/big':
            body = b'x' * (8 << 20)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        size = int(self.headers['Content-Length'])
        body = str(len(self.rfile.read(size))).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b'got %d\n' % len(self.request.recv(65536)))


def answer(query):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += query[at] + 1
    kind = struct.unpack('!H', query[at + 1:at + 3])[0]
    address = NAMES.get('.'.join(labels).lower())
    answers = b'' if not address or kind != 1 else b'\xc0\x0c\0\1\0\1\0\0\0\1\0\4' + socket.inet_aton(address)
    return query[:2] + struct.pack('!HHHHH', 0x8180 if address else 0x8183, 1, 1 if answers else 0, 0, 0) + query[12:at + 5] + answers


def serve_names(sock):
    while True:
        query, peer = sock.recvfrom(512)
        sock.sendto(answer(query), peer)


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def main():
    print('here', flush=True)
    sys.stdin.readline()
    for words in ('link set lo up', 'address add 198.51.100.2/24 dev eth0', 'link set eth0 up'):
        subprocess.run(['ip', *words.split()], check=True)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(('198.51.100.2', 53))
    servers = [Threads(('198.51.100.2', 80), Web), Threads(('198.51.100.2', 8000), Web), Threads(('198.51.100.2', 443), Sink)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print('ready', flush=True)
    serve_names(names)


main()
