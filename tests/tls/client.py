"""Python's httpx over HTTP/2: concurrent requests, a body in both directions, and a held stream, all over one connection.

    client.py https://127.0.0.1:PORT CA.pem
"""

import asyncio
import ssl
import sys

import httpx

REQUESTS = 60


async def main(url: str, authority: str) -> None:
    opened = 0

    async def count(name: str, _: dict) -> None:
        nonlocal opened
        opened += name == "connection.connect_tcp.complete"

    limits = httpx.Limits(max_connections=1)
    context = ssl.create_default_context(cafile=authority)
    async with httpx.AsyncClient(base_url=url, http1=False, http2=True, verify=context, timeout=60, limits=limits) as client:

        async def ask(method: str, path: str, body: bytes | None = None) -> bytes:
            response = await client.request(method, path, content=body, extensions={"trace": count})
            if response.status_code != 200 or response.http_version != "HTTP/2":
                raise SystemExit(f"{path}: {response.http_version} {response.status_code}")
            return response.content

        async with client.stream("GET", "/events", extensions={"trace": count}) as events:
            lines = events.aiter_lines()
            while not (await anext(lines)).startswith("id:"):
                pass
            await asyncio.gather(*(ask("GET", "/who") for _ in range(REQUESTS)))
            body = bytes(at % 251 for at in range(500_000))
            if await ask("POST", "/body", body) != body:
                raise SystemExit("the body has changed")
            await ask("POST", "/publish", b"hello")
            while (line := await anext(lines)) != "data: hello":
                if not line.startswith(("id:", ":")) and line != "":
                    raise SystemExit(f"in the stream: {line}")
    print(f"{REQUESTS + 2} requests beside a stream, {opened} connection")


asyncio.run(main(*sys.argv[1:]))
