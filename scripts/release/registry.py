#!/usr/bin/env python3
"""Serves a release to PIE on 127.0.0.1:443, in place of Packagist and GitHub, as if it were published.

  registry.py FOLDER VERSION CERTIFICATE KEY READY

FOLDER contains `assets/` with the files of the release, `source.zip` with the source as GitHub would serve it, and
`composer.json`. Creates the file READY when it listens. Prints a line for each request.
"""

import hashlib
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = "fermata-php/fermata"


def answers(folder: Path, version: str) -> dict[tuple[str, str], bytes]:
    """Returns the body of each response, by host and path."""
    package = json.loads((folder / "composer.json").read_text())
    name, source = package["name"], (folder / "source.zip").read_bytes()
    reference = hashlib.sha1(source).hexdigest()
    zipball = f"/repos/{REPOSITORY}/zipball/{reference}"
    dist = {"type": "zip", "url": f"https://api.github.com{zipball}", "reference": reference, "shasum": ""}
    published = package | {"version": version, "version_normalized": f"{version}.0", "dist": dist}
    downloads = f"/{REPOSITORY}/releases/download/{version}"
    assets = sorted((folder / "assets").iterdir())
    listed = [{"name": it.name, "browser_download_url": f"https://github.com{downloads}/{it.name}"} for it in assets]
    listed = [it | {"url": it["browser_download_url"]} for it in listed]
    packagist = {"metadata-url": "/p2/%package%.json", "available-packages": [name], "packages": []}
    said = {
        ("repo.packagist.org", "/packages.json"): json.dumps(packagist).encode(),
        ("repo.packagist.org", f"/p2/{name}.json"): json.dumps({"packages": {name: [published]}}).encode(),
        ("api.github.com", f"/repos/{REPOSITORY}/releases/tags/{version}"): json.dumps({"assets": listed}).encode(),
        ("api.github.com", zipball): source,
    }
    return said | {("github.com", f"{downloads}/{it.name}"): it.read_bytes() for it in assets}


def main() -> None:
    folder, version, certificate, key, ready = sys.argv[1:]
    said = answers(Path(folder), version)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host, path = self.headers["Host"], self.path.partition("?")[0]
            body = said.get((host, path))
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, form: str, *arguments: object) -> None:
            print(self.headers["Host"], form % arguments, flush=True)

    server = ThreadingHTTPServer(("127.0.0.1", 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Path(ready).touch()
    server.serve_forever()


if __name__ == "__main__":
    main()
