// `@fanoutio/grip`: grip.mjs MODULE hold CHANNEL, or grip.mjs MODULE publish URI CHANNEL TOKEN KEY
const [module, what, ...rest] = process.argv.slice(2);
const { GripInstruct, Publisher, parseGripUri } = await import(module);

if (what === 'hold') {
    const instruct = new GripInstruct(rest[0]);
    instruct.setHoldStream();
    instruct.setKeepAlive('\n', 20);
    console.log(JSON.stringify(instruct.toHeaders()));
} else {
    const [uri, channel, token, key] = rest;
    const publisher = new Publisher({ ...parseGripUri(uri), verify_key: key, verify_iss: 'pushpin' });
    await publisher.publishHttpStream(channel, 'first ');
    await publisher.publishHttpStream(channel, 'ü ');
    await publisher.publishHttpStream(channel, 'last\n');
    console.log(JSON.stringify({
        signed: (await publisher.validateGripSig(token)).isSigned,
        forged: (await publisher.validateGripSig(token.slice(0, -2))).isSigned,
    }));
}
