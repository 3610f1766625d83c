// Subscribes with `eventsource` until three updates have arrived, and prints type, data and id of
// each.
import { createRequire } from 'node:module';

const [folder, url, token] = process.argv.slice(2);
const { EventSource } = createRequire(`${folder}/`)('eventsource');

const source = new EventSource(`${url}?topic=${encodeURIComponent('https://example.com/books/{id}')}`, {
    fetch: (input, init) =>
        fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
let left = 3;
const show = (event) => {
    console.log(`${event.type} ${event.data} ${event.lastEventId}`);
    left -= 1;
    if (left === 0) {
        source.close();
    }
};
source.addEventListener('open', () => console.log('open'));
source.addEventListener('message', show);
source.addEventListener('added', show);
