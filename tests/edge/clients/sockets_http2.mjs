// WebSockets over HTTP/2 (RFC 8441) with Node's HTTP/2 implementation: a client and a backend.
//
//   node sockets_http2.mjs ask HOST:PORT PATH COUNT TEXT...   opens COUNT on one connection, sends each TEXT, closes, prints JSON
//   node sockets_http2.mjs serve offers|refuses|http1         prints its port: a backend that echoes messages
//
// A TEXT `*N` is a message of N bytes.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';

const [what, ...rest] = process.argv.slice(2);
const TEXT = 1, CLOSE = 8;

function frame(opcode, payload, masked) {
    const length = payload.length;
    const head = length < 126 ? [length] : length < 65536 ? [126, length >> 8, length & 255]
        : [127, 0, 0, 0, 0, length >>> 24, (length >> 16) & 255, (length >> 8) & 255, length & 255];
    head[0] |= masked ? 128 : 0;
    // The mask of a client may be zero, which leaves the payload unchanged.
    return Buffer.concat([Buffer.from([128 | opcode, ...head]), Buffer.alloc(masked ? 4 : 0), payload]);
}

// Calls `on(opcode, payload)` for each complete frame.
function reader(on) {
    let kept = Buffer.alloc(0);
    return (piece) => {
        kept = Buffer.concat([kept, piece]);
        for (;;) {
            if (kept.length < 2) return;
            let length = kept[1] & 127, at = 2;
            if (length === 126) {
                if (kept.length < 4) return;
                [length, at] = [kept.readUInt16BE(2), 4];
            } else if (length === 127) {
                if (kept.length < 10) return;
                [length, at] = [Number(kept.readBigUInt64BE(2)), 10];
            }
            const mask = kept[1] & 128 ? kept.subarray(at, at + 4) : Buffer.alloc(4);
            at += kept[1] & 128 ? 4 : 0;
            if (kept.length < at + length) return;
            const payload = Buffer.from(kept.subarray(at, at + length));
            payload.forEach((byte, n) => { payload[n] = byte ^ mask[n % 4]; });
            const opcode = kept[0] & 15;
            kept = kept.subarray(at + length);
            on(opcode, payload);
        }
    };
}

function ask(address, path, count, ...texts) {
    const session = http2.connect(`http://${address}`);
    session.on('error', (error) => { console.log(JSON.stringify({ error: error.message })); process.exit(1); });
    const said = texts.map((text) => text.startsWith('*') ? 'x'.repeat(Number(text.slice(1))) : text);
    const one = () => new Promise((resolve) => {
        const result = { status: 0, protocol: null, heard: [], close: null, reset: 0 };
        const stream = session.request({
            ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': 'http', ':authority': address, ':path': path,
            'sec-websocket-version': '13', 'sec-websocket-protocol': 'echo', 'x-own': 'value',
        }, { endStream: false });
        const read = reader((opcode, payload) => {
            if (opcode === CLOSE) {
                result.close = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
                stream.end();
            } else if (opcode === TEXT) {
                const text = payload.toString();
                result.heard.push(text.length > 1000 ? `*${text.length}` : text);
                next();
            }
        });
        let at = 0;
        const next = () => stream.write(at < said.length
            ? frame(TEXT, Buffer.from(said[at++]), true) : frame(CLOSE, Buffer.from([3, 232]), true));
        stream.on('response', (head) => {
            result.status = head[':status'];
            result.protocol = head['sec-websocket-protocol'] ?? null;
            result.accept = head['sec-websocket-accept'] ?? null;
            if (result.status === 200) next(); else stream.end();
        });
        stream.on('data', (piece) => result.status === 200 && read(piece));
        stream.on('error', () => {});
        stream.on('close', () => { result.reset = stream.rstCode; resolve(result); });
    });
    session.on('remoteSettings', async (settings) => {
        const offers = settings.enableConnectProtocol === true;
        const results = offers ? await Promise.all(Array.from({ length: Number(count) }, one)) : [];
        console.log(JSON.stringify({ offers, results }));
        session.close();
        process.exit(0);
    });
}

function serve(kind) {
    let overHttp2 = 0, overHttp1 = 0, sessions = 0;
    const figures = () => JSON.stringify({ overHttp2, overHttp1, sessions });
    const speak = (stream, head) => {
        const read = reader((opcode, payload) => {
            if (opcode === CLOSE) return stream.end(frame(CLOSE, payload, false));
            if (opcode === TEXT) {
                const text = payload.toString();
                const answer = text === 'figures' ? figures() : text === 'head' ? JSON.stringify(head) : text;
                if (text === 'leave') return stream.destroy();
                stream.write(frame(TEXT, Buffer.from(answer), false));
            }
        });
        stream.on('data', read);
        stream.on('error', () => {});
    };
    const over2 = http2.createServer({ settings: { enableConnectProtocol: kind === 'offers' } });
    over2.on('session', () => sessions++);
    over2.on('stream', (stream, head) => {
        if (head[':protocol'] !== 'websocket') {
            stream.respond({ ':status': 200 });
            return stream.end(figures());
        }
        if (head[':path'] === '/refused') {
            stream.respond({ ':status': 403 });
            return stream.end('no');
        }
        overHttp2++;
        const protocol = head['sec-websocket-protocol'];
        stream.respond({ ':status': 200, ...(protocol && { 'sec-websocket-protocol': protocol }) });
        speak(stream, head);
    });
    const over1 = createServer((request, response) => response.end(figures()));
    over1.on('upgrade', (request, socket) => {
        overHttp1++;
        const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
        socket.write(['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade',
            `Sec-WebSocket-Accept: ${accept.digest('base64')}`, 'Sec-WebSocket-Protocol: echo', '', ''].join('\r\n'));
        speak(socket, request.headers);
    });
    // HTTP/1.1 and HTTP/2 on one port, like servers that accept HTTP/2 by prior knowledge.
    over1.listen(0, '127.0.0.1', () => over2.listen(0, '127.0.0.1', () => door.listen(0, '127.0.0.1',
        () => console.log(door.address().port))));
    const door = net.createServer((socket) => socket.once('data', (first) => {
        const inner = net.connect((first.subarray(0, 3).toString() === 'PRI' ? over2 : over1).address().port, '127.0.0.1');
        inner.write(first);
        socket.pipe(inner).pipe(socket);
        for (const [one, other] of [[socket, inner], [inner, socket]]) {
            one.setNoDelay(true);
            one.on('error', () => other.destroy());
            one.on('close', () => other.destroy());
        }
    }));
}

({ ask, serve })[what](...rest);
