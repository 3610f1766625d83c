--TEST--
Channel::read(): from now, from the start, after an id; waits, gaps, cancellation, misuse
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
/** Publishes after the other tasks have started to wait. */
function later(string $channel, string ...$texts): void {
    async(function () use ($channel, $texts) { delay(0.01); foreach ($texts as $text) { Channel::get($channel)->publish($text); } });
}
/** Reads until `end`. */
function texts(iterable $events): array {
    $texts = [];
    foreach ($events as $event) { if ($event->data === 'end') { break; } $texts[] = $event->data; }
    return $texts;
}
$cases = [
    'now' => function () { $c = Channel::get('now'); $c->publish('before'); $r = $c->read(); later('now', 'one', 'two', 'end'); return texts($r); },
    'start' => function () { $c = Channel::get('start'); $c->publish('before'); later('start', 'one', 'end'); return texts($c->read(fromStart: true)); },
    'since' => function () { $c = Channel::get('since'); $c->publish('0'); $id = $c->publish('1'); $c->publish('2'); later('since', '3', 'end'); return texts($c->read($id)); },
    'ids' => function () { $c = Channel::get('ids'); $id = $c->publish(new Event('x', 'named')); foreach ($c->read(fromStart: true) as $key => $event) { return [$key === $id, $event->id === $id, $event->name, abs($event->timeMs - microtime(true) * 1000) < 60000]; } },
    'receive' => function () { $r = Channel::get('receive')->read(); later('receive', 'one', 'two'); return [$r->receive()->data, $r->receive()->data]; },
    'continues' => function () { $c = Channel::get('continues'); $r = $c->read(); foreach (['a', 'end', 'b', 'c', 'end'] as $text) { $c->publish($text); } return [texts($r), $r->receive()->data, texts($r)]; },
    'generator' => function () { $c = Channel::get('generator'); $r = $c->read(); later('generator', '1', '2', 'end'); return texts((function () use ($r) { yield from $r; })()); },
    'two readers' => function () { later('both', 'x', 'end'); $c = Channel::get('both'); return all(fn () => texts($c->read()), fn () => texts($c->read())); },
    'many' => function () { later('many', ...array_map(strval(...), range(1, 500)), ...['end']); return count(texts(Channel::get('many')->read())); },
    'timeout' => fn () => timeout(0.01, fn () => Channel::get('timeout')->read()->receive()),
    'cancel' => function () { $f = async(fn () => texts(Channel::get('cancel')->read())); delay(0); $f->cancel(); return await($f); },
    'unknown id' => fn () => Channel::get('u')->read('made-up')->receive(),
    'reason' => function () { try { Channel::get('u')->read('made-up')->receive(); } catch (Fermata\Exception\GapException $e) { return $e->reason; } },
    'gap event' => function () { $r = Channel::get('u')->read('made-up', gapEvents: true); later('u', 'end'); foreach ($r as $key => $event) { if ($event->data === 'end') { return $seen; } $seen = [$key, $event->name, $event->data, $event->id, $event->timeMs]; } },
    'history_count_max' => function () { $c = Channel::get('h'); for ($i = 0; $i < 12; $i++) { $c->publish("$i"); } $c->publish('end'); return texts($c->read(fromStart: true, gapEvents: true)); },
    'same reader twice' => function () { $r = Channel::get('twice')->read(); $f = async(fn () => $r->receive()); delay(0); try { $r->receive(); } finally { $f->cancel(); } },
    'iterator after an exception' => function () { $it = Channel::get('it')->read()->getIterator(); try { timeout(0.01, fn () => $it->rewind()); } catch (Fermata\Exception\TimeoutException) {} return [$it->valid(), $it->key(), $it->current()]; },
    'destructor throws' => function () { $c = Channel::get('map'); $map = new WeakMap; $r = $c->read(); foreach (['1', '2', 'end'] as $text) { $c->publish($text); }
        try { foreach ($r as $event) { $map[$event] = new class { public function __destruct() { throw new LogicException('of a destructor'); } }; unset($event); } } catch (LogicException $e) { return [$e->getMessage(), texts($r)]; } },
    'forked' => function () { $r = Channel::get('forked')->read(); if (!$pid = pcntl_fork()) { file_put_contents('forked', shown(fn () => $r->receive()) . "\n" . shown(fn () => Channel::get('forked')->read())); posix_kill(getmypid(), SIGKILL); }
        pcntl_waitpid($pid, $status); later('forked', 'one'); return [file_get_contents('forked'), $r->receive()->data]; },
    'clone' => fn () => clone Channel::get('c')->read(),
    'new' => fn () => (new ReflectionClass(Fermata\ChannelReader::class))->newInstanceWithoutConstructor()->receive(),
    'serialize' => fn () => serialize(Channel::get('c')->read()),
    'by reference' => function () { foreach (Channel::get('c')->read() as &$event) { break; } },
    'destructor frees' => function () { $held = []; for ($i = 0; $i < 100000; $i++) { Channel::get('f')->read(); } return 'freed'; },
    'too many' => function () { $held = []; for (;;) { $held[] = Channel::get('f')->read(); } },
    'after too many' => function () { $r = Channel::get('last')->read(); later('last', 'one'); return $r->receive()->data; },
    'background task' => function () { async(fn () => texts(Channel::get('background')->read())); delay(0); return 'started'; },
    'every turn' => function () { $c = Channel::get('turn'); $r = $c->read(); $seen = []; $f = async(function () use ($r, &$seen) { foreach ($r as $e) { $seen[] = $e->data; if (count($seen) === 3) { return; } } });
        foreach ([1, 2, 3] as $n) { delay(0.001); $c->publish("$n"); } await($f); return $seen; },
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
$server->get('/wait/gone', function () { error_log('waits'); try { Channel::get('gone')->read()->receive(); } catch (Throwable $e) { error_log('left: ' . $e::class); throw $e; } });
$server->get('/wait/one', fn () => Response::text(Channel::get('one')->read(fromStart: true)->receive()->data));
$server->post('/publish/one', fn () => Response::text(Channel::get('one')->publish('from another client') === '' ? 'no id' : 'published'));
PHP, 'workers: 1, history: new History(count: 10)', ['-dmemory_limit=256M']);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
$client = $server->connect();
$client->start('GET', '/wait/one');
usleep(50000);
$server->request('POST', '/publish/one', [], '');
echo $client->answer(), "\n";
$client = $server->connect();
$client->start('GET', '/wait/gone');
$server->wait('/waits/');
usleep(50000);
unset($client);
$server->wait('/left: /');
echo preg_replace('/^.*(left: \S+).*$/s', '$1', $server->logged('/left: /')), "\n";
/* A task that waits does not delay the end. */
$server->get('/' . rawurlencode('background task'));
var_dump($server->stop());
echo $server->logged('/still waits/');
?>
--EXPECT--
now: ["one","two"]
start: ["before","one"]
since: ["2","3"]
ids: [true,true,"named",true]
receive: ["one","two"]
continues: [["a"],"b",["c"]]
generator: ["1","2"]
two readers: [["x"],["x"]]
many: 500
timeout: Fermata\Exception\TimeoutException: the time given to timeout() is over
cancel: Fermata\Exception\CancelledException: the task was cancelled
unknown id: Fermata\Exception\GapException: events before the next one are missing (unknown id); load the current state, then continue with this reader
reason: "unknown id"
gap event: [null,"gap","{\"reason\":\"unknown id\"}",null,null]
history_count_max: ["{\"reason\":\"expired\"}","3","4","5","6","7","8","9","10","11"]
same reader twice: Fermata\Exception\MisuseError: another handler or task waits with this reader; open one with Channel::read() for each of them
iterator after an exception: [false,null,null]
destructor throws: ["of a destructor",["2"]]
forked: ["Fermata\\Exception\\MisuseError: the reader belongs to a worker that has stopped, or to the parent of this process; use Channel::read() again\nFermata\\Exception\\MisuseError: a forked process cannot wait for events; read the channel in the worker","one"]
clone: Error: Trying to clone an uncloneable object of class Fermata\ChannelReader
new: ReflectionException: Class Fermata\ChannelReader is an internal class marked as final that cannot be instantiated without invoking its constructor
serialize: Exception: Serialization of 'Fermata\ChannelReader' is not allowed
by reference: Fermata\Exception\MisuseError: foreach cannot read events by reference
destructor frees: "freed"
too many: Fermata\Exception\MisuseError: this worker has 65536 open readers of channels, which is the maximum; release a reader when its loop ends
after too many: "one"
background task: "started"
every turn: ["1","2","3"]
200 from another client
left: Fermata\Exception\ClientGoneException
int(0)
