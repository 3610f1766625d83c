'use strict';
// `node pauses.js PORT`: a handler that sleeps 50 ms.
const http = require('node:http');

const server = http.createServer((request, response) => {
  setTimeout(() => {
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 3 });
    response.end('OK\n');
  }, 50);
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), '127.0.0.1');
