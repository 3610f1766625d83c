// `sockjs-client`: sockjs.cjs MODULE URL TRANSPORT. Prints a line if all messages are echoed in order.
const [library, url, transport] = process.argv.slice(2);
const SockJS = require(library);

const MESSAGES = 50;
const socket = new SockJS(url, null, { transports: [transport] });
const late = setTimeout(() => { console.log('too late'); process.exit(1); }, 30_000);
let heard = 0;

const text = (number) => `message ${number} "ü" \u2028`;
socket.onopen = () => {
    for (let number = 0; number < MESSAGES; number += 1) {
        socket.send(text(number));
    }
};
socket.onmessage = ({ data }) => {
    if (data !== text(heard)) {
        console.log(`heard ${JSON.stringify(data)} for ${heard}`);
        process.exit(1);
    }
    heard += 1;
    if (heard === MESSAGES) {
        console.log(`${socket.transport} ok`);
        clearTimeout(late);
        socket.close();
    }
};
socket.onclose = ({ code, reason }) => {
    if (heard !== MESSAGES) {
        console.log(`closed with ${code} ${reason} after ${heard}`);
        process.exit(1);
    }
};
