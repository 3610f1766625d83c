// Echoes every message on /echo, and broadcasts it on /broadcast. Pings each client once.
// Arguments: with "damage" the third message of each connection is changed; with "deaf" the fifth
// is lost; "tls" enables wss; with "subprotocol" it selects one, whatever the client offers.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { WebSocketServer } from 'ws';

const [damage, deaf, tls, subprotocol] = ['damage', 'deaf', 'tls', 'subprotocol'].map((word) =>
  process.argv.includes(word),
);
const file = (name) => readFileSync(new URL(name, import.meta.url));
const http = tls ? createSecureServer({ cert: file('certificate.pem'), key: file('key.pem') }) : createServer();
const server = new WebSocketServer({ server: http, handleProtocols: () => subprotocol && 'bench' });

server.on('connection', (socket, request) => {
  let count = 0;
  socket.ping('are you there');
  socket.on('message', (data, isBinary) => {
    count += 1;
    if (damage && count === 3) {
      data[data.length - 1] ^= 1;
    }
    if (deaf && count === 5) {
      return;
    }
    const receivers = request.url === '/broadcast' ? server.clients : [socket];
    for (const receiver of receivers) {
      receiver.send(data, { binary: isBinary });
    }
  });
});

http.listen(0, '127.0.0.1', () => console.log(`listening on ${http.address().port}`));
