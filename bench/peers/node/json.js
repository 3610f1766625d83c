'use strict';
// Serves a small JSON response with Node's HTTP server. Without a keep-alive time-out there is no timer and no header for it.
const http = require('node:http');

const server = http.createServer((request, response) => {
  const body = JSON.stringify({ status: 'OK' });
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(body);
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), '127.0.0.1');
