// Pages of two servers that share their channels: pusher-js and `eventsource`, unmodified. Two stay
// with the second server. Two connect through a proxy, whose target each line of the input sets:
// `cut`, or the number of a server. Arguments: the folders with node_modules of both, and the ports
// of the servers. Prints a line per event: the page, the kind, and, where the client provides them,
// the data and the id.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import net from 'node:net';

const [pusherFolder, mercureFolder, ...ports] = process.argv.slice(2);
const Pusher = createRequire(`${pusherFolder}/`)('pusher-js');
const { EventSource } = createRequire(`${mercureFolder}/`)('eventsource');

let target = Number(ports[0]);
const open = new Set();
const proxy = net.createServer(page => {
    if (target === null) {
        page.destroy();
        return;
    }
    const server = net.connect(target, '127.0.0.1');
    for (const [from, to] of [[page, server], [server, page]]) {
        open.add(from);
        from.on('error', () => to.destroy()).on('close', () => { open.delete(from); to.destroy(); }).pipe(to);
    }
});
await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve));

const say = (...words) => console.log(words.join(' '));

function pusher(page, port) {
    const client = new Pusher('app-key', {
        cluster: 'none', wsHost: '127.0.0.1', wsPort: port, forceTLS: false, enabledTransports: ['ws'], disableStats: true,
    });
    const channel = client.subscribe('news');
    channel.bind('pusher:subscription_succeeded', () => say(page, 'listens'));
    channel.bind('item', data => say(page, 'item', data));
}

function mercure(page, port) {
    const source = new EventSource(`http://127.0.0.1:${port}/.well-known/mercure?topic=news`);
    source.addEventListener('open', () => say(page, 'listens'));
    source.addEventListener('item', event => say(page, 'item', event.data, event.lastEventId));
    source.addEventListener('gap', () => say(page, 'gap'));
}

pusher('fixed-pusher', Number(ports[1]));
mercure('fixed-mercure', Number(ports[1]));
pusher('moving-pusher', proxy.address().port);
mercure('moving-mercure', proxy.address().port);

for await (const line of createInterface({ input: process.stdin })) {
    target = line === 'cut' ? null : Number(ports[line]);
    for (const socket of open) socket.destroy();
}
process.exit();
