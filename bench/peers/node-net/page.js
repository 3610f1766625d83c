'use strict';
// Seed 000's second Node server: the page over a bare socket, without HTTP.
const fs = require('node:fs');
const net = require('node:net');

const [port, pageFile] = process.argv.slice(2);
const answer = Buffer.from(
  'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n' + fs.readFileSync(pageFile, 'utf8'),
);

net.createServer((socket) => {
  // Answering only after the request has come: closing over unread bytes would reset the connection.
  socket.once('data', () => socket.end(answer));
  socket.on('error', () => socket.destroy());
}).listen(Number(port), '127.0.0.1');
