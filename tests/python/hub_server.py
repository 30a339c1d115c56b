"""Servers of models on the loopback: a real nginx that lays files out as the Hugging Face Hub does, and a server that
misbehaves in the ways that nginx does not."""

import contextlib
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

TOKEN = "hf_for_the_test"
SIGNATURE = "signed-and-secret"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


# As the Hub: small files come from it, with the commit; weights from another origin, by a link with a signature. That
# one refuses a token, as S3 does. Models of the organisation `private` need the token.
CONFIGURATION = """
daemon off;
worker_processes 1;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  log_format told '$server_port $status $body_bytes_sent [$http_authorization] [$http_range] $uri';
  access_log {folder}/access.log told;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{hub};
    root {files};
    set $allowed 1;
    if ($uri ~ ^/private/) {{ set $allowed 0; }}
    if ($http_authorization = "Bearer {token}") {{ set $allowed 1; }}
    if ($allowed = 0) {{ return 401; }}
    rewrite ^/(org|private)/([^/]+)/resolve/(main|{commit})/(.*)$ /$1/$2/$4;
    add_header X-Repo-Commit {commit} always;
    location ~ ^/(org|private)/.*\\.(safetensors|gguf)$ {{
      if (!-f $request_filename) {{ return 404; }}
      return 302 http://127.0.0.1:{cdn}$uri?signature={signature};
    }}
  }}
  server {{
    listen 127.0.0.1:{cdn};
    root {files};
    if ($http_authorization) {{ return 400; }}
    if ($arg_signature != {signature}) {{ return 403; }}
  }}
  server {{
    listen 127.0.0.1:{tls} ssl;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    root {files};
    location /to-http/ {{ return 302 http://127.0.0.1:{cdn}/org$uri?signature={signature}; }}
  }}
}}
"""


class Hub:
    """nginx on three ports; `files` is what it serves."""

    def __init__(self, folder):
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.hub, self.cdn, self.tls = free_ports(3)
        self.endpoint = f"http://127.0.0.1:{self.hub}"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem"]
            + ["-out", folder / "certificate.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
        settings = {"hub": self.hub, "cdn": self.cdn, "tls": self.tls, "token": TOKEN, "commit": COMMIT}
        user = "user root;" if os.geteuid() == 0 else ""
        text = CONFIGURATION.format(folder=folder, files=self.files, user=user, signature=SIGNATURE, **settings)
        (folder / "nginx.conf").write_text(text)
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf"], stderr=subprocess.PIPE)
        for _ in range(500):
            if self.process.poll() is not None:
                raise RuntimeError(self.process.stderr.read().decode())
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.tls)):
                return
            time.sleep(0.01)
        raise RuntimeError("nginx does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def forget_log(self):
        (self.folder / "access.log").write_text("")

    def log(self):
        """What was asked for: port, status, bytes, token, range, path. A last request shows that all is written."""
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{self.cdn}/last")
        for _ in range(500):
            if (self.folder / "access.log").read_text().endswith(" /last\n"):
                break
            time.sleep(0.01)
        lines = (self.folder / "access.log").read_text().splitlines()[:-1]
        return [re.fullmatch(r"(\d+) (\d+) (\d+) \[(.*)\] \[(.*)\] (.*)", line).groups() for line in lines]


def hub_is_installed():
    found = shutil.which("nginx") or pathlib.Path("/usr/sbin/nginx").exists()
    return bool(found) and shutil.which("openssl") is not None


class Misbehaving(http.server.BaseHTTPRequestHandler):
    """Answers range requests soundly but for what `server.fault` says of weights."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # the other side has seen enough
            super().handle()

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.server.files / self.path.lstrip("/").split("?")[0]
        if not path.is_file():
            return self.answer(404, {})
        content = path.read_bytes()
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        last = min(last, len(content) - 1)
        part = content[first : last + 1]
        headers = {
            "ETag": '"' + hashlib.sha256(content).hexdigest() + '"',
            "Content-Range": f"bytes {first}-{last}/{len(content)}",
        }
        if path.suffix in (".safetensors", ".gguf"):
            self.server.count += 1
            return self.server.fault(self, content, first, part, headers)
        return self.answer(206, headers, part)


@contextlib.contextmanager
def misbehaving(files, fault):
    """The address of a server of these files; fault(handler, content, first, part, headers) answers for weights, and
    handler.server.count is how often it was asked."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving)
    server.daemon_threads = True
    server.files, server.fault, server.count = files, fault, 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
