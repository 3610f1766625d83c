--TEST--
Response::events() runs its callable beside others, and ends with it or with the client
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\EventSink;
use Fermata\Exception\ClientGoneException;

$server->get('/now', fn () => Response::text('now'));
$server->get('/tokens', fn (Request $request) => Response::events(function (EventSink $sink) {
    foreach (['one', 'two', "three\nfour"] as $i => $token) {
        delay(0.005);
        $sink->send($token, event: $i ? 'token' : null, id: "$i");
    }
    $sink->comment('done');
    $sink->send(null, id: 'end', retry: 50);
    $sink->send('');
}));
$server->get('/last', fn () => Response::events(fn (EventSink $sink) => $sink->send(json_encode($sink->lastEventId)), headers: ['Cache-Control' => 'private', 'X-Own' => '1']));
$server->get('/wait', fn () => Response::events(function (EventSink $sink) {
    $sink->send('begun');
    echo "waits\n";
    try { delay(60); } catch (Throwable $e) { echo $e::class, "\n"; try { $sink->send('x'); } catch (Throwable $e) { echo $e::class, "\n"; } throw $e; } finally { echo "finally\n"; }
}));
$server->get('/flood', fn () => Response::events(function (EventSink $sink) {
    $sent = 0;
    try {
        for (;;) { $sink->send(str_repeat('x', 10000)); $sent++; }
    } catch (ClientGoneException) { echo $sent < 5000 ? "bounded\n" : "unbounded: $sent\n"; }
}));
$server->get('/throw', fn () => Response::events(function (EventSink $sink) { $sink->send('before'); throw new Exception('broken'); }));
$server->get('/exit', fn () => Response::events(function (EventSink $sink) { exit(3); }));
$server->get('/misuse', fn () => Response::events(function (EventSink $sink) {
    foreach ([fn () => $sink->send('x', event: "a\nb"), fn () => $sink->send('x', id: "a\rb"), fn () => $sink->send("\xff"), fn () => $sink->send('x', retry: -1),
        fn () => $sink->send(null, event: 'x'), fn () => $sink->send(str_repeat('x', 100000)), fn () => new EventSink] as $work) {
        try { $work(); echo "nothing thrown\n"; } catch (Throwable $e) { echo $e::class, ': ', $e->getMessage(), "\n"; }
    }
    var_dump($sink->isOpen(), $sink->isStopping());
    $sink->close();
    $sink->close();
    var_dump($sink->isOpen());
    delay(0.001);
    try { $sink->send('late'); } catch (Throwable $e) { echo $e::class, ': ', $e->getMessage(), "\n"; }
}));
$server->get('/kept', function () { static $kept; if ($kept) { try { $kept->send('x'); } catch (Throwable $e) { return Response::text($e::class); } } return Response::events(function (EventSink $sink) use (&$kept) { $kept = $sink; }); });
$server->get('/quiet', fn () => Response::events(function (EventSink $sink) { delay(0.2); $sink->send('after'); }, keepAlive: 0.02));
$server->get('/tasks', fn () => Response::events(function (EventSink $sink) {
    all(...array_map(fn ($i) => function () use ($sink, $i) { foreach (range(1, 50) as $j) { $sink->send(str_repeat("$i", 3000)); } $sink->flush(); }, [1, 2, 3]));
}));
PHP, ini: ['-dzend.exception_ignore_args=1']);
$until = function (string $text) use ($server) {
    for ($deadline = microtime(true) + WAIT_S; !str_contains($server->output(), $text); usleep(1000)) {
        if (microtime(true) > $deadline) {
            throw new Exception("no $text in " . $server->output() . $server->log());
        }
    }
};
$events = function (string $target, array $headers = []) use ($server) {
    $connection = $server->connect();
    $connection->start('GET', $target, $headers);
    [$status, $answered] = $connection->head();
    $out = [$status, $answered['content-type'][0], $answered['cache-control'][0], $answered['x-accel-buffering'][0]];
    try { while (($event = $connection->event()) !== null) { $out[] = $event; } $out[] = 'end'; } catch (Exception $e) { $out[] = 'broken off'; }
    return implode(' | ', $out) . "\n";
};
echo $events('/tokens'), $events('/last', ['Last-Event-ID' => '42']), $events('/last'), $events('/throw'), $events('/exit'), $events('/misuse'), $events('/quiet');
echo $events('/kept'), $server->get('/kept'), "\n";
$counts = array_count_values(array_map(fn ($event) => substr($event, 0, 10), explode(' | ', $events('/tasks'))));
echo json_encode($counts), "\n";
$head = $server->request('HEAD', '/tokens');
echo $head->status, ' ', $head->header('content-type'), "\n";
$leaving = $server->connect();
$leaving->start('GET', '/wait');
echo $leaving->head()[0], ' ', $leaving->event(), "\n";
$until('waits');
echo $server->get('/now'), "\n";
$leaving->cut();
$until('finally');
$slow = $server->connect();
$slow->start('GET', '/flood');
$slow->head();
usleep(100000);
echo $server->get('/now'), "\n";
$slow->cut();
$until('bounded');
echo $server->get('/now'), "\n";
var_dump($server->stop());
echo $server->output(), preg_replace('/^.*?\[worker 0\] /m', '', $server->logged('/stream|error/')), "\n";
?>
--EXPECT--
200 | text/event-stream | no-store | no | message: one | token: two | token: three|four | message:  | end
200 | text/event-stream | private | no | message: "42" | end
200 | text/event-stream | private | no | message: null | end
200 | text/event-stream | no-store | no | message: before | broken off
200 | text/event-stream | no-store | no | broken off
200 | text/event-stream | no-store | no | end
200 | text/event-stream | no-store | no | message: after | end
200 | text/event-stream | no-store | no | end
200 Fermata\Exception\ConnectionClosedException
{"200":1,"text\/event":1,"no-store":1,"no":1,"message: 1":50,"message: 2":50,"message: 3":50,"end\n":1}
200 text/event-stream
200 message: begun
200 now
200 now
200 now
int(0)
Fermata\Exception\MisuseError: event name: it contains a line break or NUL; use one line
Fermata\Exception\MisuseError: event id: it contains a line break or NUL; use one line
Fermata\Exception\MisuseError: event: it is not valid UTF-8, which events are by definition; encode binary data, for example as base64
Fermata\Exception\MisuseError: retry must be 0 or more milliseconds, not -1
Fermata\Exception\MisuseError: an event without data is not seen by any client; give it data, '' if need be
Fermata\Exception\MisuseError: event: it has 100000 bytes, more than event_bytes_max (65536); send it in parts or raise the setting
Error: Call to private Fermata\EventSink::__construct() from global scope
bool(true)
bool(false)
bool(false)
Fermata\Exception\ConnectionClosedException: the stream of events has ended, and nothing can be sent any more
waits
Fermata\Exception\ClientGoneException
Fermata\Exception\ClientGoneException
finally
bounded
stream: Exception: broken in server.php:26
stream: exit() called while a stream was made; return to end it in server.php:27
