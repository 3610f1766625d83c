'use strict';
// Second Node server of seed 000: sends the page over a plain socket without parsing HTTP.
const fs = require('node:fs');
const net = require('node:net');

const [port, pageFile] = process.argv.slice(2);
const answer = Buffer.from(
  'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n' + fs.readFileSync(pageFile, 'utf8'),
);

net.createServer((socket) => {
  // Respond only after the request has arrived: closing a socket with unread bytes would reset the connection.
  socket.once('data', () => socket.end(answer));
  socket.on('error', () => socket.destroy());
}).listen(Number(port), '127.0.0.1');
