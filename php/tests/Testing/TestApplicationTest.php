<?php

declare(strict_types=1);

namespace Fermata\Tests\Testing;

use Fermata\{Channel, Event, EventSink, Hold, Request, Response, Server, WebSocket, Worker};
use Fermata\Exception\{BackpressureException, JobFailedException, MisuseError, TimeoutException};
use Fermata\Testing\{Answer, Refused, StartsServers, TestApplication};
use Fermata\WebSocket\{Codec, Opcode, Upgrade};
use PHPUnit\Framework\{AssertionFailedError, TestCase};

use function Fermata\{async, delay, timeout};

/** Tests the server in the test's process: tests read the engine's bytes and control the clock. */
final class TestApplicationTest extends TestCase
{
    use StartsServers;

    public function testRoutesMiddlewareAndErrors(): void
    {
        $seen = new \ArrayObject();
        $app = $this->testApplication(function (Server $server) use ($seen): void {
            $server->use(static fn(Request $request, callable $next): Response => $next($request)->withHeader('X-Around', $request->path()));
            $server->notFound(static fn(Request $request): Response => Response::text('nothing at ' . $request->path(), 404));
            $server->error(static fn(\Throwable $error): Response => Response::text($error->getMessage(), 503));
            $server->get('/users/{id}', static function (Request $request) use ($seen): Response {
                $seen[] = $request->route('id');
                return Response::json(['id' => $request->route('id'), 'q' => $request->query('q'), 'from' => $request->remoteAddress()]);
            });
            $server->post('/echo', static fn(Request $request): Response => Response::json($request->json(), 201));
            $server->post('/form', static fn(Request $request): Response => Response::text((string) $request->form('name')));
            $server->put('/raw', static fn(Request $request): Response => Response::text(strlen($request->body()) . ' bytes'));
            $server->get('/broken', static fn() => throw new \DomainException('out of order'));
        });
        $answer = $app->get('/users/7?q=a%20b');
        self::assertSame(['id' => '7', 'q' => 'a b', 'from' => '127.0.0.1'], $answer->json());
        self::assertSame('/users/7', $answer->header('X-Around'));
        self::assertSame(['7'], $seen->getArrayCopy(), 'handlers use the objects of the test');
        $answer = $app->post('/echo', json: ['text' => "\u{e9}/"]);
        self::assertSame([201, ['text' => "\u{e9}/"]], [$answer->status, $answer->json()]);
        self::assertSame('Ada', $app->post('/form', ['name' => 'Ada'])->body);
        self::assertSame('1000000 bytes', $app->put('/raw', body: str_repeat('x', 1_000_000))->body);
        $answer = $app->put('/raw', body: str_repeat('x', 2_000_000));
        self::assertSame(413, $answer->status, 'limits are those of the settings');
        self::assertSame([404, 'nothing at /none'], self::brief($app->get('/none')));
        self::assertSame([503, 'out of order'], self::brief($app->get('/broken')));
        $thrown = $app->takeException();
        self::assertInstanceOf(\DomainException::class, $thrown);
        self::assertSame('out of order', $thrown->getMessage());
        self::assertNull($app->takeException());
    }

    public function testWhatNobodyCatchesIsAnsweredAndLogged(): void
    {
        $app = $this->testApplication(static function (Server $server): void {
            $server->get('/throws', static fn() => throw new \LogicException('of the handler'));
            $server->get('/exits', static function (): Response {
                exit();
            });
            $server->get('/nothing', static fn() => null);
            $server->get('/', static fn(): Response => Response::text('goes on'));
        });
        self::assertSame(500, $app->get('/throws')->status);
        self::assertStringContainsString('LogicException: of the handler', $app->log());
        self::assertStringContainsString(__FILE__, $app->log());
        self::assertSame(500, $app->get('/exits')->status);
        self::assertSame(500, $app->get('/nothing')->status);
        self::assertNull($app->takeException());
        self::assertSame('goes on', $app->get('/')->body);
        self::assertSame(404, $app->get('/none')->status);
        self::assertSame(405, $app->post('/')->status);
    }

    public function testBodiesThatAreStreamed(): void
    {
        $file = (string) tempnam(sys_get_temp_dir(), 'fermata-test');
        file_put_contents($file, $large = random_bytes(2_000_000));
        $app = $this->testApplication(static function (Server $server) use ($file): void {
            $server->get('/stream', static fn(): Response => Response::stream((static function (): \Generator {
                for ($i = 0; $i < 1000; $i++) {
                    yield str_repeat((string) ($i % 10), 1000);
                }
            })()));
            $server->get('/output', static fn(): Response => Response::output(static function (): void {
                echo 'printed ';
                delay(60.0);
                echo 'and printed';
            }));
            $server->get('/file', static fn(): Response => Response::file($file));
            $server->get('/events', static fn(): Response => Response::events(static function (EventSink $sink): void {
                foreach (['a', 'b'] as $data) {
                    $sink->send($data);
                    delay(5.0);
                }
            }));
            $server->post('/upload', static function (Request $request): Response {
                for ($bytes = 0; ($piece = $request->read()) !== null;) {
                    $bytes += strlen($piece);
                }
                return Response::text("$bytes");
            }, streamBody: true);
        });
        $body = $app->get('/stream')->body;
        self::assertSame([1_000_000, '0', '9'], [strlen($body), $body[0], $body[-1]]);
        self::assertSame($large, $app->get('/file')->body);
        $partial = $app->get('/file', ['Range' => 'bytes=10-19']);
        self::assertSame([206, substr($large, 10, 10)], self::brief($partial));
        $request = $app->send('GET', '/output');
        $app->advance(61.0);
        self::assertSame('printed and printed', $request->answer()->body);
        $events = $app->open('GET', '/events');
        self::assertNull($events->hold);
        $this->assertNextEvent('a', $events);
        $this->assertNoEvent($events);
        $app->advance(5.1);
        $this->assertNextEvent('b', $events);
        $app->advance(5.1);
        self::assertNull($events->nextEvent());
        self::assertSame('900000', $app->post('/upload', body: str_repeat('y', 900_000))->body);
        unlink($file);
    }

    public function testHeldClients(): void
    {
        $app = $this->testApplication(static function (Server $server): void {
            $server->get('/rooms/{id}', static fn(Request $request): Hold => Hold::sse("room.{$request->route('id')}", 'all')
                ->since($request->lastEventId())
                ->as('ada', ['name' => 'Ada'], announce: false)
                ->keepAlive(20));
            $server->get('/plain', static fn(): Response => Response::text('no'));
            $server->post('/rooms/{id}', static function (Request $request): Response {
                Channel::get("room.{$request->route('id')}")->publish(new Event($request->body(), 'posted'));
                return Response::accepted();
            });
        });
        $client = $this->assertHolds($app, '/rooms/7');
        $this->assertHeld($client, ['all', 'room.7'], user: 'ada', keepAlive: 20);
        self::assertSame('no', $this->assertDoesNotHold($app, '/plain')->body);
        self::assertSame(['ada'], array_map(static fn($member) => $member->user, Channel::get('room.7')->members()));
        $id = $app->publish('room.7', 'first');
        self::assertSame(['id' => $id, 'event' => 'message', 'data' => 'first'], $client->nextEvent());
        $app->publish('all', new Event("two\nlines", 'named'));
        $this->assertNextEvent("two\nlines", $client, 'named');
        $app->post('/rooms/7', body: 'third');
        $this->assertNextEvent('third', $client, 'posted');
        $app->publish('room.8', 'of another');
        $this->assertNoEvent($client);
        // A client that reconnects with an id receives the later events.
        $resumed = $this->assertHolds($app, '/rooms/7', ['Last-Event-ID' => $id]);
        $this->assertHeld($resumed, ['all', 'room.7'], user: 'ada', since: $id, keepAlive: 20);
        $this->assertNextEvent("two\nlines", $resumed);
        $this->assertNextEvent('third', $resumed);
        self::assertSame(2, Channel::get('room.7')->members()[0]->connections);
        // An idle stream receives a comment, and a disconnected client is removed from the presence list.
        $before = $resumed->received();
        $app->advance(21.0);
        self::assertStringStartsWith(':', substr($resumed->received(), strlen($before)));
        $client->close();
        $resumed->close();
        $app->advance(60.0);
        self::assertSame(0, Channel::get('room.7')->memberCount());
        $failed = false;
        try {
            $this->assertHolds($app, '/plain');
        } catch (AssertionFailedError) {
            $failed = true;
        }
        self::assertTrue($failed);
    }

    public function testVirtualTime(): void
    {
        $ticks = 0;
        $app = $this->testApplication(static function (Server $server) use (&$ticks): void {
            $server->every(60.0, static function () use (&$ticks): void {
                $ticks++;
            });
            $server->get('/later', static function (): Response {
                delay(3600.0);
                return Response::text('an hour later');
            });
            $server->get('/late', static function (): Response {
                try {
                    return timeout(30.0, static function (): Response {
                        delay(3600.0);
                        return Response::text('in time');
                    });
                } catch (TimeoutException) {
                    return Response::text('too late', 504);
                }
            });
            $server->get('/together', static function (): Response {
                $both = [async(static function (): string {
                    delay(2.0);
                    return 'b';
                }), async(static fn(): string => 'a')];
                return Response::text($both[1]->await() . $both[0]->await());
            });
        });
        $began = microtime(true);
        usleep(20_000);
        $app->run();
        self::assertSame(0, $ticks);
        $app->advance(59.0);
        self::assertSame(0, $ticks);
        $app->advance(182.0);
        self::assertSame(4, $ticks);
        $later = $app->send('GET', '/later');
        self::assertFalse($later->isAnswered());
        try {
            $later->answer();
            self::fail('the handler has not waited');
        } catch (\RuntimeException $error) {
            self::assertStringContainsString('advance()', $error->getMessage());
        }
        $later = $app->send('GET', '/later');
        $app->advance(3599.0);
        self::assertFalse($later->isAnswered());
        $app->advance(1.0);
        self::assertTrue($later->isAnswered());
        self::assertSame('an hour later', $later->answer()->body);
        $late = $app->send('GET', '/late');
        $app->advance(30.5);
        self::assertSame([504, 'too late'], self::brief($late->answer()));
        $together = $app->send('GET', '/together');
        $app->advance(2.1);
        self::assertSame('ab', $together->answer()->body);
        self::assertLessThan(60.0, microtime(true) - $began, 'time has passed by the clock of the machine');
        foreach ([-1.0, NAN, 1e9] as $seconds) {
            try {
                $app->advance($seconds);
                self::fail("it has gone forward by $seconds");
            } catch (\ValueError) {
            }
        }
    }

    public function testWebSockets(): void
    {
        $ended = [];
        $app = $this->testApplication(static function (Server $server) use (&$ended): void {
            $server->websocket(
                '/chat/{room}',
                upgrade: static function (Upgrade $upgrade): void {
                    if ($upgrade->request()->header('Cookie') === null) {
                        $upgrade->refuse(Response::text('sign in first', 401));
                    } else {
                        $upgrade->accept();
                    }
                },
                open: static function (WebSocket $socket): void {
                    $socket->join('room');
                    $socket->send('welcome');
                },
                message: static function (WebSocket $socket, $message): void {
                    if ((string) $message === 'all') {
                        Channel::get('room')->publish('to everybody');
                        return;
                    }
                    $socket->send(strrev((string) $message));
                },
                close: static function (WebSocket $socket, int $code, string $reason) use (&$ended): void {
                    $ended[] = [$code, $reason];
                },
            );
        });
        try {
            $app->webSocket('/chat/1');
            self::fail('it was opened');
        } catch (Refused $refused) {
            self::assertSame([401, 'sign in first'], self::brief($refused->answer));
        }
        $first = $app->webSocket('/chat/1', ['Cookie' => 'a=b']);
        $second = $app->webSocket('/chat/1', ['Cookie' => 'a=b']);
        self::assertSame(['welcome', null, 'welcome'], [$first->receive(), $first->receive(), $second->receive()]);
        $first->send('abc');
        self::assertSame(['cba', null], [$first->receive(), $second->receive()]);
        $second->send('all');
        self::assertSame(['to everybody', 'to everybody'], [$first->receive(), $second->receive()]);
        $app->publish('room', 'from the test');
        self::assertSame('from the test', $first->receive());
        $first->sendFrame(Codec::encode('x', Opcode::Ping, masked: true));
        self::assertSame(Opcode::Pong, $first->nextFrame()?->opcode);
        $first->close(reason: 'done');
        $second->leave();
        self::assertSame([[1000, 'done'], [1006, '']], $ended);
        $third = $app->webSocket('/chat/1', ['Cookie' => 'a=b']);
        $third->sendFrame(Codec::encode('not masked', Opcode::Text));
        self::assertFalse($third->isOpen());
        self::assertSame(1002, $third->closeCode());
    }

    public function testWaitsForWhatIsOutsideOfTheProcess(): void
    {
        $app = $this->testApplication(static function (Server $server): void {
            $server->get('/command', static fn(): Response => Response::text((string) shell_exec('sleep 0.2; printf done')));
            $server->get('/file', static fn(): Response => Response::text((string) strlen((string) file_get_contents(__FILE__))));
        });
        self::assertSame('done', $app->get('/command')->body);
        self::assertSame((string) filesize(__FILE__), $app->get('/file')->body);
    }

    public function testWhatATestHasIsItsOwn(): void
    {
        mt_srand(7);
        $expected = [mt_rand(), mt_rand()];
        mt_srand(7);
        $drawn = [mt_rand()];
        $_GET = ['of' => 'the test'];
        self::assertSame('of', strtok('of the test', ' '));
        ob_start();
        echo 'of the test';
        $app = $this->testApplication(static function (Server $server): void {
            $server->get('/', static function (): Response {
                $before = [$_GET, date_default_timezone_get()];
                date_default_timezone_set('Asia/Tokyo');
                $_GET = ['of' => 'the handler'];
                ob_start();
                echo 'of the handler';
                $text = ob_get_clean();
                return Response::json([$before, $text, ini_set('precision', '5')]);
            });
        });
        $zone = date_default_timezone_get();
        $precision = ini_get('precision');
        $answer = $app->get('/')->json();
        self::assertSame($answer, $app->get('/')->json(), 'the second request finds what the first one did');
        self::assertIsArray($answer);
        self::assertSame('of the handler', $answer[1]);
        self::assertSame([['of' => 'the test'], $zone, $precision], [$_GET, date_default_timezone_get(), ini_get('precision')]);
        self::assertSame('of the test', ob_get_clean());
        self::assertSame('the', strtok(' '), 'handlers leave the rest of the tokens');
        $drawn[] = mt_rand();
        self::assertSame($expected, $drawn);
        $app->stop();
        self::assertSame(['of' => 'the test'], $_GET);
        $_GET = [];
    }

    public function testMessagesComeToTheOneWorker(): void
    {
        $seen = new \ArrayObject();
        $app = $this->testApplication(static function (Server $server) use ($seen): void {
            $server->onMessage(static function (mixed $message, int $from) use ($seen): void {
                if ($message === 'fail') {
                    throw new \DomainException('a message that fails');
                }
                delay(1);
                $seen[] = [$message, $from];
            });
            $server->post('/send', static function (Request $request): Response {
                Worker::send(Worker::index(), $request->json());
                Worker::broadcast('all others');
                Worker::broadcast('all', self: true);
                return Response::noContent();
            });
            $server->post('/fail', static function (): Response {
                Worker::send(0, 'fail');
                Worker::send(1, 'nobody');
                return Response::noContent();
            });
        });
        self::assertSame(204, $app->post('/send', json: ['a' => 1])->status);
        self::assertSame([], $seen->getArrayCopy(), 'the clock stands still');
        $app->advance(3);
        self::assertSame([[['a' => 1], 0], ['all', 0]], $seen->getArrayCopy());
        self::assertSame(500, $app->post('/fail')->status);
        self::assertStringContainsString('there is no worker 1', (string) $app->takeException()?->getMessage());
        self::assertStringContainsString('a message that fails', $app->log());
    }

    public function testAWaitThatHoldsTheWorkerTakesItsTimeThoughTheClockStandsStill(): void
    {
        $app = $this->testApplication(static function (Server $server): void {
            $server->get('/', static function (): Response {
                $values = new \ArrayObject([2, 1]);
                $values->uasort(static function (int $a, int $b): int {
                    delay(0.01);
                    return $a <=> $b;
                });
                return Response::json(array_values($values->getArrayCopy()));
            });
        });
        self::assertSame([1, 2], $app->get('/')->json());
        self::assertStringContainsString('ArrayObject::uasort()', $app->log());
    }

    public function testJobsRunInTheProcessOfTheTest(): void
    {
        $double = new \ArrayObject();
        $app = $this->testApplication(static function (Server $server) use ($double): void {
            $jobs = $server->jobs(queue: 2, messageBytes: 1000);
            $jobs->add('join', static function (\ArrayObject $given, string $with) use ($double): \ArrayObject {
                $double[] = $with;
                $given[] = $with;
                return $given;
            });
            $jobs->add('fail', static fn() => throw new \DomainException('of the job'));
            $jobs->add('large', static fn(): string => str_repeat('x', 2000));
            $jobs->add('slow', static function (): string {
                delay(5);
                return 'slow';
            });
            $server->get('/join', static function () use ($jobs): Response {
                $given = new \ArrayObject(['a']);
                $joined = $jobs->run('join', $given, with: 'b');
                return Response::json([$given->getArrayCopy(), $joined->getArrayCopy()]);
            });
            $server->get('/run/{name}', static fn(Request $request): Response => Response::json($jobs->run((string) $request->route('name'))));
        });
        self::assertSame([['a'], ['a', 'b']], $app->get('/join')->json(), 'a job has a copy of what it is given');
        self::assertSame(['b'], $double->getArrayCopy(), 'it uses the objects of the test');
        foreach (['fail' => 'of the job', 'large' => 'messageBytes of jobs() is 1000'] as $name => $message) {
            self::assertSame(500, $app->get("/run/$name")->status);
            $exception = $app->takeException();
            self::assertInstanceOf(JobFailedException::class, $exception);
            self::assertStringContainsString($message, $exception->getMessage());
        }
        self::assertSame(500, $app->get('/run/none')->status);
        self::assertInstanceOf(MisuseError::class, $app->takeException());
        $slow = $app->send('GET', '/run/slow');
        $second = $app->send('GET', '/run/slow');
        self::assertSame(500, $app->get('/run/fail')->status);
        self::assertInstanceOf(BackpressureException::class, $app->takeException(), 'two have not ended');
        $app->advance(6);
        self::assertSame('slow', $slow->answer()->json());
        self::assertSame('slow', $second->answer()->json());
        $left = $app->send('GET', '/run/slow');
        $app->stop();
        $left->close();
        self::assertStringNotContainsString('exit() called', $app->log());
    }

    public function testOneAtATimeAndMany(): void
    {
        $app = $this->testApplication(static fn(Server $server) => $server->get('/', static fn(): Response => Response::text('first')));
        try {
            TestApplication::of(new Server());
            self::fail('two were open');
        } catch (MisuseError $error) {
            self::assertStringContainsString('stop', $error->getMessage());
        }
        self::assertSame('first', $app->get('/')->body);
        $app->stop();
        $app->stop();
        try {
            $app->get('/');
            self::fail('it was stopped');
        } catch (MisuseError) {
        }
        $unwound = 0;
        $rows = self::shared();
        for ($i = 0; $i < 200; $i++) {
            $app = $this->testApplication(static function (Server $server) use ($i, &$unwound): void {
                $server->get('/', static fn(): Response => Response::text("$i"));
                $server->get('/events', static fn(): Hold => Hold::sse('news'));
                $server->get('/waits', static function () use (&$unwound): Response {
                    try {
                        delay(1.0);
                    } finally {
                        $unwound++;
                    }
                    return Response::text('');
                });
            });
            self::assertSame("$i", $app->get('/')->body);
            self::assertFalse($app->open('GET', '/events', ['Last-Event-ID' => '1-1'])->eventWithin(0.0)['data'] ?? false, 'what another one published is gone');
            $app->publish('news', str_repeat('x', 10_000));
            $app->send('GET', '/waits');
        }
        $app->stop();
        self::assertSame(200, $unwound, 'handlers that wait are ended in order');
        self::assertLessThan($rows + 40, self::shared(), 'mappings of servers that were stopped are used again');
    }

    private static function shared(): int
    {
        return substr_count((string) file_get_contents('/proc/self/maps'), 'memfd:fermata');
    }

    /** @return array{int, string} */
    private static function brief(Answer $answer): array
    {
        return [$answer->status, $answer->body];
    }
}
