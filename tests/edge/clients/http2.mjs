// An HTTP/2 backend and an HTTP/2 client, with Node's implementation.
//
//   node http2.mjs serve [KEY CERTIFICATE]   prints its port and allows MAX_STREAMS concurrent streams; over TLS it also
//                                            accepts HTTP/1.1 unless HTTP2_ONLY is set
//   node http2.mjs talk ORIGIN PATH          sends four pieces, each after the previous one was echoed, and prints the result
import http2 from 'node:http2';
import { readFileSync } from 'node:fs';

const [what, ...rest] = process.argv.slice(2);

function serve(key, certificate) {
    // Large responses may queue up for slow clients. Node limits the memory of a session, by default to 10 MB.
    const settings = { maxConcurrentStreams: Number(process.env.MAX_STREAMS ?? 100) };
    const server = key
        ? http2.createSecureServer({
            allowHTTP1: !process.env.HTTP2_ONLY, settings,
            key: readFileSync(key), cert: readFileSync(certificate),
        })
        : http2.createServer({ settings, maxSessionMemory: 1000 });
    let sessions = 0, refused = 0, open = 0, openMost = 0, seen = 0;
    server.on('session', () => sessions++);
    server.on('sessionError', () => {});
    server.on('request', (request, response) => {
        const stream = response.stream;
        open++;
        openMost = Math.max(open, openMost);
        response.on('close', () => open--);
        response.on('error', () => {});
        stream?.on('error', () => {});
        const path = request.url.split('?')[0];
        const json = (value) => {
            response.setHeader('Content-Type', 'application/json');
            response.end(JSON.stringify(value));
        };
        switch (path) {
            case '/figures':
                return json({ sessions, open, openMost, seen });
            case '/head': {
                let bytes = 0;
                request.on('data', (piece) => bytes += piece.length);
                return request.on('end', () => json({
                    version: request.httpVersion, method: request.method, url: request.url,
                    authority: request.authority ?? request.headers.host, scheme: request.scheme,
                    headers: request.headers, bytes,
                }));
            }
            case '/echo':
                response.setHeader('Content-Type', 'application/octet-stream');
                return request.pipe(response);
            case '/talk':
                response.setHeader('Content-Type', 'application/grpc');
                request.on('data', (piece) => response.write(piece));
                return request.on('end', () => {
                    response.addTrailers({ 'grpc-status': '0', 'grpc-message': 'done' });
                    response.end();
                });
            case '/only-trailers':
                stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5' }, { endStream: true });
                return;
            case '/slow':
                return setTimeout(() => response.end('slow'), 300);
            case '/hang':
                seen++;
                return;
            case '/refuse-once':
                seen++;
                return refused++ === 0 ? stream.close(http2.constants.NGHTTP2_REFUSED_STREAM) : response.end('taken');
            case '/refuse':
                seen++;
                return stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
            case '/reset':
                seen++;
                return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
            case '/cut':
                response.write('some');
                return setTimeout(() => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR), 50);
            case '/short':
                stream.respond({ ':status': 200, 'content-length': '10' });
                return stream.end('four');
            case '/leave':
                // Open streams complete. The client has to send new requests over another connection.
                stream.session.goaway();
                return setTimeout(() => response.end('left'), 100);
            case '/die':
                seen++;
                return stream.session.destroy();
            case '/large':
                return response.end(Buffer.alloc(5_000_000, 'x'));
            case '/events':
                response.setHeader('Content-Type', 'text/event-stream');
                return response.write('data: one\n\n');
            case '/hold':
                response.setHeader('Grip-Hold', 'stream');
                response.setHeader('Grip-Channel', 'news');
                return response.end('held\n');
            default:
                response.statusCode = 404;
                return response.end('nothing');
        }
    });
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}

function talk(origin, path) {
    const session = http2.connect(origin);
    session.on('error', fail);
    const stream = session.request({
        ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers',
    });
    let said = 0, text = '';
    const say = () => said < 4 ? stream.write(`piece ${said++};`) : stream.end();
    stream.on('error', fail);
    stream.on('response', (head) => text += `${head[':status']};`);
    stream.on('data', (piece) => { text += piece; say(); });
    stream.on('trailers', (trailers) => text += `${trailers['grpc-status']} ${trailers['grpc-message']}`);
    stream.on('close', () => { console.log(text); session.close(); });
    say();
}

function fail(error) {
    console.error(error.message);
    process.exit(1);
}

what === 'serve' ? serve(...rest) : talk(...rest);
