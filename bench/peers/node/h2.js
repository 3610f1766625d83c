'use strict';
// Serves a small JSON response with Node's HTTP/2 server over TLS, which also accepts HTTP/1.1.
const { readFileSync } = require('node:fs');
const http2 = require('node:http2');

const [port, cert, key] = process.argv.slice(2);
const server = http2.createSecureServer({ allowHTTP1: true, cert: readFileSync(cert), key: readFileSync(key) });
server.on('request', (request, response) => {
  const body = JSON.stringify({ status: 'OK' });
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(body);
});
server.listen(Number(port), '127.0.0.1');
