--TEST--
Channel::read(): a reader of a stopped worker does not refer to a reader of the next one
--EXTENSIONS--
fermata
--FILE--
<?php

use Fermata\{Channel, Response, Server};
use Fermata\Testing\Engine;

function server(): Server
{
    $server = new Server(listen: 'http://127.0.0.1:0', workers: 1);
    $server->get('/open', function () {
        $GLOBALS['old'] = Channel::get('first')->read();
        return Response::text('open');
    });
    $server->get('/wait', fn() => Response::text(Channel::get('second')->read()->receive()->data));
    $server->get('/old', function () {
        try {
            return Response::text($GLOBALS['old']->receive()->data);
        } catch (Fermata\Exception\MisuseError $e) {
            return Response::text($e->getMessage());
        }
    });
    $server->get('/publish', fn() => Response::text(Channel::get('second')->publish('hello') === '' ? 'no id' : 'published'));
    return $server;
}

/** @return resource the client's end */
function request(Engine $engine, string $path)
{
    [$client, $server] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($server);
    fclose($server);
    fwrite($client, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    $engine->run();
    return $client;
}

function body($client): string
{
    stream_set_blocking($client, false);
    return explode("\r\n\r\n", stream_get_contents($client), 2)[1] ?? 'no response';
}

$engine = new Engine(server());
echo body(request($engine, '/open')), "\n";
$engine->stop();
unset($engine);
$engine = new Engine(server());
$waiting = request($engine, '/wait');
echo body(request($engine, '/old')), "\n";
unset($old);
echo body(request($engine, '/publish')), "\n", body($waiting), "\n";
$engine->stop();
?>
--EXPECT--
open
the reader belongs to a worker that has stopped, or to the parent of this process; use Channel::read() again
published
hello
