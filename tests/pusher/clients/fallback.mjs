// pusher-js, unmodified, in the cases where it uses SockJS: alone, because a WebSocket takes too
// long to open, and because WebSockets are blocked. Arguments: the folder with node_modules, the
// port, the application as ID:KEY:SECRET, and whether SockJS is `served` or `refused`.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import net from 'node:net';

const [folder, port, application, sockjs] = process.argv.slice(2);
const key = application.split(':')[1];
const require = createRequire(`${folder}/`);
const Client = require('pusher-js');

const PATIENCE_MS = 30_000;
/** Over plain HTTP, pusher-js starts SockJS next to a WebSocket after 5 s. */
const SLOW_MS = 6_500;
const BLOCKED = Infinity;

function connect(options) {
    return new Client(key, {
        cluster: 'none', wsHost: '127.0.0.1', wsPort: Number(port), httpHost: '127.0.0.1', httpPort: Number(port), forceTLS: false,
        disableStats: true, ...options,
    });
}

function becomes(client, state) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${client.connection.state} in place of ${state}`)), PATIENCE_MS);
        client.connection.bind('state_change', ({ current }) => {
            if (current !== state) return;
            clearTimeout(timer);
            resolve();
        });
    });
}

/** Delays connections to the hub, and records how each starts. */
async function slowly(delayMs, begins) {
    const server = net.createServer(client => {
        client.once('data', data => {
            begins.push(String(data).split('\r\n')[0]);
            const isSocket = String(data).includes('Upgrade');
            if (isSocket && delayMs === BLOCKED) return client.destroy();
            setTimeout(() => {
                const hub = net.connect(Number(port), '127.0.0.1', () => hub.write(data));
                for (const [one, other] of [[client, hub], [hub, client]]) one.on('error', () => other.destroy()).pipe(other);
            }, isSocket ? delayMs : 0);
        });
    });
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
    return server;
}

async function alone() {
    for (const transport of ['xhr_streaming', 'xhr_polling']) {
        const client = connect({ enabledTransports: [transport], unavailableTimeout: 500 });
        await becomes(client, 'unavailable');
        client.disconnect();
    }
}

async function besideASlowSocket() {
    const begins = [];
    const server = await slowly(SLOW_MS, begins);
    const through = server.address().port;
    const client = connect({ wsPort: through, httpPort: through, enabledTransports: ['ws', 'xhr_streaming', 'xhr_polling'] });
    await becomes(client, 'connected');
    client.disconnect();
    server.close();
    assert.ok(begins.some(line => /^POST \/pusher\/app\/[^/]+\/\d+\/\w+\/xhr_streaming\?/.test(line)), begins.join('\n'));
}

async function withoutSockets() {
    const server = await slowly(BLOCKED, []);
    const through = server.address().port;
    const client = connect({ wsPort: through, httpPort: through });
    await becomes(client, 'connected');
    assert.match(client.connection.connection.transport.name, /^xhr_/);
    const channel = client.subscribe('news');
    await new Promise(resolve => channel.bind('pusher:subscription_succeeded', resolve));
    client.disconnect();
    server.close();
}

for (const part of sockjs === 'served' ? [besideASlowSocket, withoutSockets] : [alone, besideASlowSocket]) {
    await part();
    console.log(`${part.name} ok`);
}
process.exit(0);
