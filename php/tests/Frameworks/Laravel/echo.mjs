// Unmodified laravel-echo and pusher-js receive the broadcasts of the application in app.php.
// Arguments: folder with node_modules, the server's address, and the cookies of ada and bob.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [folder, url, ada, bob] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const Pusher = require('pusher-js');
const { default: Echo } = await import(`${folder}/node_modules/laravel-echo/dist/echo.js`);
const { port } = new URL(url);
const WAIT_MS = 30_000;

const fails = what => new Promise((_, reject) => setTimeout(() => reject(new Error(`${what}: nothing came`)), WAIT_MS).unref());
const within = (promise, what) => Promise.race([promise, fails(what)]);

async function authorize(cookie, socketId, channelName) {
    const body = new URLSearchParams({ socket_id: socketId, channel_name: channelName });
    const response = await fetch(`${url}/broadcasting/auth`, { method: 'POST', body, headers: { Cookie: cookie } });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
}

/** Returns an Echo client with the cookie of a user. */
function page(cookie) {
    const client = new Pusher('app-key', {
        cluster: '', wsHost: '127.0.0.1', wsPort: Number(port), forceTLS: false, enabledTransports: ['ws'], disableStats: true,
        // Sends the same request as pusher-js in a browser. In Node pusher-js sends no cookies.
        channelAuthorization: { customHandler: ({ socketId, channelName }, done) => authorize(cookie, socketId, channelName).then(data => done(null, data), done) },
    });
    return new Echo({ broadcaster: 'pusher', client, key: 'app-key', namespace: 'Fermata.Tests.Frameworks.Laravel' });
}

const subscribed = channel => within(new Promise((resolve, reject) => channel.subscribed(resolve).error(reject)), channel.name);
const next = (channel, event) => within(new Promise(resolve => channel.listen(event, resolve)), `${event} on ${channel.name}`);
const ship = async (kind, name, text, sender) => {
    const headers = { 'Content-Type': 'text/plain', ...(sender ? { 'X-Socket-ID': sender.socketId() } : {}) };
    const response = await fetch(`${url}/ship/${kind}/${name}${sender ? '?others=1' : ''}`, { method: 'POST', body: text, headers });
    assert.equal(response.status, 200, await response.text());
};

const [ofAda, ofBob] = [page(ada), page(bob)];

const news = ofAda.channel('news');
await subscribed(news);
let come = next(news, 'Shipped');
await ship('public', 'news', 'to all');
assert.deepEqual(await come, { text: 'to all' });

// toOthers() excludes the page that sent the request.
const newsOfBob = ofBob.channel('news');
await subscribed(newsOfBob);
const toAda = [];
news.listen('Shipped', event => toAda.push(event.text));
come = next(newsOfBob, 'Shipped');
await ship('public', 'news', 'to others', ofAda);
assert.deepEqual(await come, { text: 'to others' });
const last = within(new Promise(resolve => news.listen('Shipped', event => event.text === 'to all again' && resolve())), 'the last');
await ship('public', 'news', 'to all again');
await last;
assert.deepEqual(toAda, ['to all again']);

const orders = ofAda.private('orders.ada');
await subscribed(orders);
come = next(orders, 'Shipped');
await ship('private', 'orders.ada', 'to ada');
assert.deepEqual(await come, { text: 'to ada' });

// The server refuses another user's channel.
const refused = within(new Promise(resolve => ofBob.private('orders.ada').error(resolve)), 'a refusal');
assert.match((await refused).error, /status 403/);

const room = ofAda.join('room');
const here = within(new Promise(resolve => room.here(resolve)), 'who is here');
assert.deepEqual(await here, [{ name: 'ada' }]);
const joins = within(new Promise(resolve => room.joining(resolve)), 'bob');
const left = within(new Promise(resolve => room.leaving(resolve)), 'the end of bob');
const roomOfBob = ofBob.join('room');
const both = within(new Promise(resolve => roomOfBob.here(resolve)), 'who is here');
assert.deepEqual(await joins, { name: 'bob' });
assert.deepEqual((await both).map(user => user.name).sort(), ['ada', 'bob']);
come = next(roomOfBob, 'Shipped');
await ship('presence', 'room', 'to the room');
assert.deepEqual(await come, { text: 'to the room' });
ofBob.leave('room');
assert.deepEqual(await left, { name: 'bob' });

ofAda.disconnect();
ofBob.disconnect();
console.log('done');
