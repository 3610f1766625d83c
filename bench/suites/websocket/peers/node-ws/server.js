// `node server.js MODULES echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`, with the package `ws` in MODULES.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const { WebSocketServer } = require(path.join(process.argv[2], 'ws'));

const [mode, port, certificate, key] = process.argv.slice(3);
const server = certificate
  ? https.createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) })
  : http.createServer();
const sockets = new WebSocketServer({
  server,
  perMessageDeflate: false,
  clientTracking: true,
  handleProtocols: () => 'bench',
});
sockets.on('connection', (socket) => {
  socket.on('error', (error) => console.error(error.message));
  if (mode !== 'broadcast') {
    socket.on('message', (data) => socket.send(data, { binary: false }));
    return;
  }
  socket.on('message', (data) => {
    for (const client of sockets.clients) client.send(data, { binary: false });
  });
});
server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
