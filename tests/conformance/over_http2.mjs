// A proxy that converts HTTP/1.1 handshakes to extended CONNECT (RFC 8441), so that clients that support WebSocket only over
// HTTP/1.1 can test it over HTTP/2. All WebSockets share one connection.
//
//   node over_http2.mjs HOST:PORT      prints its own address, and forwards to that server without TLS
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import http2 from 'node:http2';

const target = process.argv[2];
const session = http2.connect(`http://${target}`);
session.on('error', fail);
session.on('close', () => process.exit(0));

const server = createServer((request, response) => response.writeHead(426).end());
server.on('upgrade', (request, socket, head) => {
    const headers = { ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': 'http', ':authority': target, ':path': request.url };
    for (const name of ['sec-websocket-version', 'sec-websocket-protocol', 'sec-websocket-extensions', 'user-agent', 'origin']) {
        if (request.headers[name] !== undefined) {
            headers[name] = request.headers[name];
        }
    }
    const stream = session.request(headers, { endStream: false });
    stream.on('response', (answer) => {
        if (answer[':status'] !== 200) {
            socket.end(`HTTP/1.1 ${answer[':status']} Refused\r\nContent-Length: 0\r\n\r\n`);
            return;
        }
        const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
        const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
        lines.push(`Sec-WebSocket-Accept: ${accept.digest('base64')}`);
        for (const name of ['sec-websocket-protocol', 'sec-websocket-extensions']) {
            if (answer[name] !== undefined) {
                lines.push(`${name}: ${answer[name]}`);
            }
        }
        socket.write(`${lines.join('\r\n')}\r\n\r\n`);
        stream.write(head);
        socket.setNoDelay(true);
        socket.pipe(stream);
        stream.pipe(socket);
    });
    // A broken connection cancels its stream, and a cancelled stream closes its connection.
    socket.on('error', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    socket.on('close', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    stream.on('error', () => socket.destroy());
    stream.on('close', () => socket.end());
});

session.on('remoteSettings', (settings) => {
    if (!settings.enableConnectProtocol) {
        fail(new Error(`${target} does not take extended CONNECT`));
    }
    server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
});

function fail(error) {
    console.error(error.message);
    process.exit(1);
}
