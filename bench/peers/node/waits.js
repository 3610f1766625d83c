'use strict';
// `node waits.js PORT`: a handler that waits for BENCH_BACKEND over keep-alive connections.
const http = require('node:http');

const backend = process.env.BENCH_BACKEND;

function answer(response, body) {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
  response.end(body);
}

const server = http.createServer((request, response) => {
  http.get(backend, (reply) => {
    let body = '';
    reply.setEncoding('utf8');
    reply.on('data', (part) => { body += part; });
    reply.on('end', () => answer(response, body));
  }).on('error', () => {
    response.writeHead(502);
    response.end();
  });
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), '127.0.0.1');
