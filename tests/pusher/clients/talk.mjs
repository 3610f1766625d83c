// pusher-js and Laravel Echo, unmodified, exchange events through the hub, and the server library
// publishes to it. Arguments: the folder with node_modules, the port, the application as
// ID:KEY:SECRET, and the transport: ws, xhr_streaming or xhr_polling.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [folder, port, application, transport] = process.argv.slice(2);
const [appId, key, secret] = application.split(':');
const require = createRequire(`${folder}/`);
const Client = require('pusher-js');
const Backend = require('pusher');
const { default: Echo } = await import(`${folder}/node_modules/laravel-echo/dist/echo.js`);

const PATIENCE_MS = 30_000;
const backend = new Backend({ appId, key, secret, host: '127.0.0.1', port, useTLS: false });
const clients = [];
/** The hub's address and transport. */
const reached = {
    cluster: 'none', wsHost: '127.0.0.1', wsPort: Number(port), httpHost: '127.0.0.1', httpPort: Number(port), forceTLS: false,
    enabledTransports: [transport], disableStats: true,
};

/** A queue of callback values; `take()` waits for the next one. */
function queue() {
    const come = [];
    const waiting = [];
    return {
        push(value) {
            const next = waiting.shift();
            next ? next(value) : come.push(value);
        },
        take(what) {
            if (come.length > 0) return Promise.resolve(come.shift());
            return new Promise((resolve, reject) => {
                const timer = setTimeout(() => reject(new Error(`${what}: nothing came`)), PATIENCE_MS);
                waiting.push(value => {
                    clearTimeout(timer);
                    resolve(value);
                });
            });
        },
        get length() {
            return come.length;
        },
    };
}

/** Creates a client of this user; its backend's two endpoints are called without a network. */
function connect(user, info = { name: user }) {
    const client = new Client(key, {
        ...reached,
        channelAuthorization: {
            customHandler({ socketId, channelName }, done) {
                const presence = channelName.startsWith('presence-') ? { user_id: user, user_info: info } : undefined;
                done(null, backend.authorizeChannel(socketId, channelName, presence));
            },
        },
        userAuthentication: {
            customHandler({ socketId }, done) {
                done(null, backend.authenticateUser(socketId, { id: user }));
            },
        },
    });
    clients.push(client);
    return client;
}

function subscribed(client, name) {
    return new Promise((resolve, reject) => {
        const channel = client.subscribe(name);
        const timer = setTimeout(() => reject(new Error(`${name}: not subscribed`)), PATIENCE_MS);
        channel.bind('pusher:subscription_succeeded', data => {
            clearTimeout(timer);
            resolve([channel, data]);
        });
        channel.bind('pusher:subscription_error', error => reject(new Error(`${name}: ${JSON.stringify(error)}`)));
    });
}

function connected(client) {
    return new Promise((resolve, reject) => {
        if (client.connection.state === 'connected') return resolve();
        const timer = setTimeout(() => reject(new Error('not connected')), PATIENCE_MS);
        client.connection.bind('connected', () => {
            clearTimeout(timer);
            resolve();
        });
    });
}

async function until(what, condition) {
    const end = Date.now() + PATIENCE_MS;
    while (!(await condition())) {
        if (Date.now() > end) throw new Error(`${what}: not within ${PATIENCE_MS} ms`);
        await new Promise(resolve => setTimeout(resolve, 20));
    }
}

async function publicChannels() {
    const [ann, bob] = [connect('ann'), connect('bob')];
    const [[annNews], [bobNews]] = await Promise.all([subscribed(ann, 'news'), subscribed(bob, 'news')]);
    const [toAnn, toBob] = [queue(), queue()];
    annNews.bind('item', data => toAnn.push(data));
    bobNews.bind('item', data => toBob.push(data));
    await backend.trigger('news', 'item', { text: 'first' });
    assert.deepEqual(await toAnn.take('news'), { text: 'first' });
    assert.deepEqual(await toBob.take('news'), { text: 'first' });
    await backend.trigger(['news', 'other'], 'item', { text: 'but Ann' }, { socket_id: ann.connection.socket_id });
    await backend.triggerBatch([1, 2, 3].map(at => ({ channel: 'news', name: 'item', data: { at } })));
    assert.deepEqual(await toBob.take('news'), { text: 'but Ann' });
    for (const at of [1, 2, 3]) {
        assert.deepEqual(await toAnn.take('news'), { at });
        assert.deepEqual(await toBob.take('news'), { at });
    }
    bob.unsubscribe('news');
    await until('one subscription', async () => {
        const answer = await backend.get({ path: '/channels/news', params: { info: 'subscription_count' } });
        return (await answer.json()).subscription_count === 1;
    });
}

async function privateChannels() {
    const [ann, bob] = [connect('ann'), connect('bob')];
    const [[annRoom], [bobRoom]] = await Promise.all([subscribed(ann, 'private-room'), subscribed(bob, 'private-room')]);
    const [toAnn, toBob] = [queue(), queue()];
    annRoom.bind('client-typing', data => toAnn.push(data));
    bobRoom.bind('client-typing', data => toBob.push(data));
    annRoom.trigger('client-typing', { key: 'a' });
    assert.deepEqual(await toBob.take('typing'), { key: 'a' });
    bobRoom.trigger('client-typing', { key: 'b' });
    // Ann does not receive her own event.
    assert.deepEqual(await toAnn.take('typing'), { key: 'b' });
    const errors = queue();
    const stranger = new Client(key, {
        ...reached,
        channelAuthorization: { customHandler: (_, done) => done(null, { auth: `${key}:${'0'.repeat(64)}` }) },
    });
    clients.push(stranger);
    stranger.connection.bind('error', error => errors.push(error));
    stranger.subscribe('private-room');
    assert.equal((await errors.take('an error')).data.code, 4009);
}

async function presence() {
    const ann = connect('ann', { name: 'Ann' });
    const [room, members] = await subscribed(ann, 'presence-room');
    assert.deepEqual([members.count, members.me], [1, { id: 'ann', info: { name: 'Ann' } }]);
    const news = queue();
    room.bind('pusher:member_added', member => news.push(['added', member.id, member.info]));
    room.bind('pusher:member_removed', member => news.push(['removed', member.id]));
    room.bind('client-wave', (data, metadata) => news.push(['wave', metadata.user_id]));
    // Bob has two tabs and counts as one member.
    const [first, second] = [connect('bob', { name: 'Bob' }), connect('bob', { name: 'Bob' })];
    const [bobRoom, seen] = await subscribed(first, 'presence-room');
    assert.deepEqual(Object.keys(seen.members).sort(), ['ann', 'bob']);
    await subscribed(second, 'presence-room');
    bobRoom.trigger('client-wave', {});
    assert.deepEqual(await news.take('a member'), ['added', 'bob', { name: 'Bob' }]);
    assert.deepEqual(await news.take('a wave'), ['wave', 'bob']);
    const users = await (await backend.get({ path: '/channels/presence-room/users' })).json();
    assert.deepEqual(users.users.map(user => user.id).sort(), ['ann', 'bob']);
    await until('counts', async () => {
        const params = { filter_by_prefix: 'presence-', info: 'user_count,subscription_count' };
        const { channels } = await (await backend.get({ path: '/channels', params })).json();
        const { user_count: users, subscription_count: subscriptions } = channels['presence-room'] ?? {};
        return users === 2 && subscriptions === 3;
    });
    first.disconnect();
    second.disconnect();
    assert.deepEqual(await news.take('a leave'), ['removed', 'bob']);
    assert.equal(news.length, 0);
}

async function users() {
    const ann = connect('ann-of-users');
    const told = queue();
    ann.user.bind('order', data => told.push(data));
    ann.signin();
    await until('signed in', () => ann.user.user_data !== null);
    await until('told', async () => {
        await backend.sendToUser('ann-of-users', 'order', { id: 7 });
        return told.length > 0;
    });
    assert.deepEqual(await told.take('an order'), { id: 7 });
    const ended = queue();
    ann.connection.bind('error', error => ended.push(error));
    await backend.terminateUserConnections('ann-of-users');
    assert.equal((await ended.take('an end')).data.code, 4009);
}

async function caches() {
    const missed = queue();
    const early = connect('ann');
    early.subscribe('cache-weather').bind('pusher:cache_miss', () => missed.push(true));
    await missed.take('a miss');
    await backend.trigger('cache-weather', 'sky', { is: 'grey' });
    await backend.trigger('cache-weather', 'sky', { is: 'blue' });
    const news = queue();
    connect('bob').subscribe('cache-weather').bind('sky', data => news.push(data));
    assert.deepEqual(await news.take('the newest'), { is: 'blue' });
}

async function strangers() {
    const wrong = new Backend({ appId, key, secret: 'guessed', host: '127.0.0.1', port, useTLS: false });
    await assert.rejects(wrong.trigger('news', 'item', {}), { status: 401 });
    const nobody = new Client('no-such-key', {
        ...reached,
    });
    clients.push(nobody);
    const errors = queue();
    nobody.connection.bind('error', error => errors.push(error));
    assert.equal((await errors.take('an error')).error.data.code, 4001);
}

async function echo() {
    const listening = new Echo({ broadcaster: 'reverb', key, client: connect('eva') });
    const told = queue();
    await connected(listening.connector.pusher);
    const channel = listening.channel('orders');
    await new Promise(resolve => channel.subscribed(resolve));
    channel.listen('.shipped', data => told.push(data));
    await backend.trigger('orders', 'shipped', { id: 1 });
    assert.deepEqual(await told.take('an order'), { id: 1 });
    const here = queue();
    listening.join('lobby').here(users => here.push(users));
    assert.deepEqual(await here.take('users'), [{ name: 'eva' }]);
}

for (const part of [publicChannels, privateChannels, presence, users, caches, strangers, echo]) {
    await part();
    console.log(`${part.name} ok`);
}
for (const client of clients) client.disconnect();
