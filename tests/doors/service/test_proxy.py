"""The configuration of a reverse proxy in the docs works: TLS in front, the token passed through, answers unchanged."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import vicinal as vc
from tests.doors.service.running import Running, saved_model

pytestmark = pytest.mark.slow  # it starts two servers

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "service.md"
TOKEN = "a-long-enough-secret"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def write_configuration(folder, port, behind):
    """Write the block of the docs as a whole configuration, with a certificate and ports of this test."""
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"],
            *("-keyout", folder / "own.key", "-out", folder / "own.pem"),
        ],
        check=True,
        capture_output=True,
    )
    block = re.search(r"^```nginx\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]
    for before, after in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/sets.example.org.pem", str(folder / "own.pem")),
        ("/etc/ssl/sets.example.org.key", str(folder / "own.key")),
        ("http://127.0.0.1:8000", f"http://127.0.0.1:{behind}"),
    ):
        assert before in block
        block = block.replace(before, after)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    owner = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""  # or it would write as somebody else
    head = f"{owner}daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
    path = folder / "nginx.conf"
    path.write_text(f"{head}http {{\naccess_log off;\n{temporary}{block}}}\n")
    return path


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_as_in_the_docs(tmp_path):
    model, port = saved_model(tmp_path, known=300), free_port()
    rows = vc.datasets.load_cifar100_resnet18().outputs[300:305]
    trusted = ssl.create_default_context()
    trusted.check_hostname, trusted.verify_mode = False, ssl.CERT_NONE

    def ask(path, body=None, token=TOKEN):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", body, headers)
        with urllib.request.urlopen(request, context=trusted, timeout=60) as reply:
            return reply.read()

    with Running(model, environment={"VICINAL_TOKEN": TOKEN}) as running:
        running.wait_ready(token=TOKEN).close()
        proxy = subprocess.Popen(["nginx", "-p", tmp_path, "-c", write_configuration(tmp_path, port, running.port)])
        try:
            for _ in range(100):
                try:
                    assert ask("/healthz") == b"ok\n"
                    break
                except urllib.error.URLError:
                    assert proxy.poll() is None
                    time.sleep(0.1)
            body = {"logits": rows.logits.tolist(), "representations": rows.representations.tolist()}
            found = json.loads(ask("/predict", json.dumps(body).encode()))
            assert [one["set"] for one in found["answers"]] == vc.load(model).predict(rows).labels()
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask("/model", token="not-the-token-at-all")
            with pytest.raises(urllib.error.HTTPError, match="413"):
                ask("/predict", b" " * (33 << 20))
        finally:
            proxy.terminate()
            proxy.wait(20)
