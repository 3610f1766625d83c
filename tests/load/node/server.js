// Sends every message back on /echo, and to everybody on /broadcast. Pings each client once.
// Arguments: nothing, or "damage": then the third message of each connection comes back changed.

import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const damage = process.argv[2] === 'damage';
const http = createServer();
const server = new WebSocketServer({ server: http });

server.on('connection', (socket, request) => {
  let count = 0;
  socket.ping('are you there');
  socket.on('message', (data, isBinary) => {
    count += 1;
    if (damage && count === 3) {
      data[data.length - 1] ^= 1;
    }
    const receivers = request.url === '/broadcast' ? server.clients : [socket];
    for (const receiver of receivers) {
      receiver.send(data, { binary: isBinary });
    }
  });
});

http.listen(0, '127.0.0.1', () => console.log(`listening on ${http.address().port}`));
