// Node's most common WebSocket client (the package ws) and its built-in one: node.cjs URL ws|builtin FOLDER_OF_WS
const [url, which, folder] = process.argv.slice(2);
const { createRequire } = require('node:module');
const Client = which === 'ws' ? createRequire(`${folder}/package.json`)('ws') : globalThis.WebSocket;
const large = Buffer.alloc(200_000, 'fermata holds this note ');
const sent = ['grüße 🎵', '', 'x'.repeat(70_000), large];
const got = [];
const socket = new Client(url, ['v2', 'v1']);
socket.binaryType = 'arraybuffer';
socket.addEventListener('open', () => sent.forEach((message) => socket.send(message)));
socket.addEventListener('message', ({ data }) => {
    got.push(data);
    if (got.length === sent.length) {
        socket.close(4000, 'bye');
    }
});
socket.addEventListener('error', (event) => {
    console.error(event.message ?? event.error);
    process.exit(1);
});
socket.addEventListener('close', ({ code, reason, wasClean }) => {
    const same = got.every((data, at) => (typeof data === 'string' ? data === sent[at] : large.equals(Buffer.from(data))));
    const compressed = String(socket.extensions).includes('permessage-deflate');
    console.log(JSON.stringify({ same, count: got.length, protocol: socket.protocol, compressed, code, wasClean }));
});
