'use strict';
// Small JSON with Node's own HTTP/2 server over TLS; it answers HTTP/1.1 as well.
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
