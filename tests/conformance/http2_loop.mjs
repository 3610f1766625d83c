// Node's HTTP/2 client in a loop of sequential requests without pauses: http2_loop.mjs URL
//
// A server that limits control frames only by their rate closes such a connection with ENHANCE_YOUR_CALM.
import http2 from 'node:http2';

const client = http2.connect(process.argv[2]);
client.on('goaway', (code) => fail(`GOAWAY ${code}`));
client.on('error', (error) => fail(error.message));

function fail(why) {
    console.error(why);
    process.exit(1);
}

/** Returns the number of bytes of a response. */
function ask(head, body) {
    return new Promise((resolve) => {
        const stream = client.request({ ':path': '/', ...head });
        let bytes = 0;
        stream.on('data', (data) => { bytes += data.length; });
        stream.on('error', (error) => fail(`request: ${error.message}`));
        stream.on('end', () => resolve(bytes));
        stream.end(body);
    });
}

function ping() {
    return new Promise((resolve) => client.ping((error) => error ? fail(error.message) : resolve()));
}

/** Sends a request and cancels it when the response starts. */
function cancel() {
    return new Promise((resolve) => {
        const stream = client.request({ ':path': '/' });
        stream.on('response', () => stream.close(http2.constants.NGHTTP2_CANCEL));
        stream.on('close', resolve);
        stream.resume();
        stream.on('error', () => {});
    });
}

await ask({});
for (let i = 0; i < 2000; i++) {
    await Promise.all([ask({}), ping()]);
}
for (let i = 0; i < 2000; i++) {
    await cancel();
}
const upload = Buffer.alloc(60_000);
for (let i = 0; i < 20; i++) {
    const uploads = Array.from({ length: 90 }, () => ask({ ':path': '/no/such/path', ':method': 'POST' }, upload));
    await Promise.all(uploads);
}
await ask({});
console.log('no request was lost');
client.close();
