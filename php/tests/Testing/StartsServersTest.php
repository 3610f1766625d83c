<?php

declare(strict_types=1);

namespace Fermata\Tests\Testing;

use Fermata\{Channel, Event, Hold, Request, Response, Server};
use Fermata\Exception\TimeoutException;
use Fermata\Testing\{Answer, StartsServers, TestServer};
use PHPUnit\Framework\{AssertionFailedError, TestCase};

use function Fermata\{delay, timeout};

/** Uses the trait like a user's test. */
final class StartsServersTest extends TestCase
{
    use StartsServers;

    public function testHeldClientsGetWhatIsPublished(): void
    {
        $server = $this->startServer(__DIR__ . '/server.php');
        $client = $this->assertHolds($server, '/events');
        $this->assertNoEvent($client);
        $id = $server->publish('news', 'first');
        $server->publish('news', new Event("two\nlines", 'named'));
        $server->request('POST', '/events', body: 'third');
        $first = $client->nextEvent();
        self::assertSame(['id' => $id, 'event' => 'message', 'data' => 'first'], $first);
        $this->assertNextEvent("two\nlines", $client, 'named');
        $this->assertNextEvent('third', $client, 'posted');
        $this->assertNoEvent($client);
        // A client that reconnects with an id receives the later events.
        $resumed = $this->assertHolds($server, '/events', ['Last-Event-ID' => $id]);
        $this->assertNextEvent("two\nlines", $resumed);
        self::assertTrue($client->isOpen());
        $server->stop();
        self::assertNull($client->nextEvent());
        self::assertFalse($client->isOpen());
    }

    public function testWhatIsNotHeldIsToldApart(): void
    {
        $server = $this->startServer(__DIR__ . '/server.php');
        self::assertSame('Hello', $this->assertDoesNotHold($server, '/')->body);
        $this->assertDoesNotHold($server, '/nothing', 404);
        foreach ([fn() => $this->assertHolds($server, '/'), fn() => $this->assertDoesNotHold($server, '/events')] as $wrong) {
            try {
                $wrong();
            } catch (AssertionFailedError) {
                continue;
            }
            self::fail('the assertion holds for what it must not');
        }
    }

    public function testServersEndWithTheirTest(): int
    {
        $pid = $this->startServer(__DIR__ . '/server.php')->pid();
        self::assertTrue(posix_kill($pid, 0));
        return $pid;
    }

    /** @depends testServersEndWithTheirTest */
    public function testTheServerOfTheTestBeforeHasEnded(int $pid): void
    {
        self::assertFalse(posix_kill($pid, 0));
    }

    public function testAFunctionDescribesAServer(): void
    {
        $greeting = new \ArrayObject(['Hello']);
        $server = $this->startServer(static function (Server $server) use ($greeting): void {
            $server->get('/{name}', static fn(Request $request): Response => Response::text($greeting[0] . ' ' . $request->route('name')));
            $server->get('/events', static fn(): Hold => Hold::sse('news'));
            $server->post('/events', static function (Request $request): Response {
                Channel::get('news')->publish(new Event($request->body()));
                return Response::accepted();
            });
        });
        self::assertSame('Hello Ada', $server->get('/Ada')->body);
        $greeting[0] = 'not seen by the server';
        self::assertSame('Hello Ada', $server->get('/Ada')->body);
        $client = $this->assertHolds($server, '/events');
        $server->request('POST', '/events', body: 'from a handler');
        $this->assertNextEvent('from a handler', $client);
        $server->publish('news', 'from outside');
        $this->assertNextEvent('from outside', $client);
        $pid = $server->pid();
        self::assertTrue(posix_kill($pid, 0));
        $server->stop();
        self::assertFalse(posix_kill($pid, 0));
    }

    public function testTimePassesWhenTheTestSaysSo(): void
    {
        $server = $this->startServer(static function (Server $server): void {
            $ticks = 0;
            $server->every(60.0, static function () use (&$ticks): void {
                Channel::get('ticks')->publish((string) ++$ticks);
            });
            $server->get('/ticks', static fn(): Hold => Hold::sse('ticks'));
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
        });
        $began = microtime(true);
        $ticks = $this->assertHolds($server, '/ticks');
        // The clock also runs in real time, for seconds on a busy machine.
        $server->advance(30.0);
        $this->assertNoEvent($ticks, 0.05);
        $server->advance(211.0);
        foreach (['1', '2', '3', '4'] as $tick) {
            $this->assertNextEvent($tick, $ticks);
        }
        $this->assertNoEvent($ticks, 0.05);
        self::assertSame('an hour later', $this->answerAfter($server, '/later', 3600.0)->body);
        self::assertSame(504, $this->answerAfter($server, '/late', 31.0)->status);
        self::assertLessThan(600.0, microtime(true) - $began, 'time passed by the clock of the machine');
    }

    /** Returns the response of a handler that waits for the given time. */
    private function answerAfter(TestServer $server, string $target, float $seconds): Answer
    {
        $request = $server->send('GET', $target);
        $server->advance($seconds, step: 1.0);
        return $request->answer();
    }

    public function testAClockThatIsNotThereIsTold(): void
    {
        $server = $this->startServer(__DIR__ . '/server.php', ['FERMATA_WORKERS' => '2']);
        try {
            $server->advance(1.0);
            self::fail('the clock of two workers was set forward');
        } catch (\RuntimeException $error) {
            self::assertStringContainsString('test_clock', $error->getMessage());
        }
        foreach ([[-1.0, 0.1], [NAN, 0.1], [1.0, 0.0], [1.0, 61.0]] as [$seconds, $step]) {
            try {
                $server->advance($seconds, $step);
                self::fail("it has gone forward by $seconds in steps of $step");
            } catch (\ValueError) {
            }
        }
    }

    /** A file that PHP opens later gets the closed stream's descriptor. */
    public function testAFunctionDescribesAServerWhateverStandardStreamsAreClosed(): void
    {
        $file = (string) tempnam(sys_get_temp_dir(), 'fermata-test');
        file_put_contents($file, '<?php require $argv[1]; foreach (array_slice($argv, 2) as $name) { fclose(constant($name)); }'
            . ' $server = new Fermata\Testing\TestServer(function (Fermata\Server $server): void {'
            . ' $server->get("/", function () { echo "printed"; return Fermata\Response::text("hello"); }); }, timeout: 20.0);'
            . ' $answer = $server->get("/")->body; $server->stop(); $said = [$server->output(), str_contains($server->log(), "] stopped")];'
            . ' file_put_contents(__FILE__, json_encode([$answer, ...$said]));');
        $extension = (string) getenv('FERMATA_EXTENSION');
        $command = [PHP_BINARY, ...($extension === '' ? [] : ["-dextension=$extension"]), $file, __DIR__ . '/../autoload.php'];
        $text = (string) file_get_contents($file);
        foreach ([['STDIN'], ['STDOUT'], ['STDERR'], ['STDIN', 'STDOUT', 'STDERR'], []] as $closed) {
            file_put_contents($file, $text);
            $process = proc_open([...$command, ...$closed], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes);
            self::assertIsResource($process);
            $said = (string) stream_get_contents($pipes[1]);
            proc_close($process);
            self::assertSame('["hello","printed",true]', file_get_contents($file), implode(' ', $closed) . ": $said");
        }
        unlink($file);
    }

    public function testServersOfFunctionsLeaveWhatTheTestHasAlone(): void
    {
        $other = $this->startServer(__DIR__ . '/server.php');
        ob_start();
        echo 'of the test';
        $server = $this->startServer(static function (Server $server): void {
            $server->get('/', static function (): Response {
                exit('of the handler');
            });
            $server->get('/pid', static fn(): Response => Response::text((string) getmypid()));
        });
        $ended = $server->get('/pid')->body;
        self::assertSame(500, $server->get('/')->status);
        self::assertNotSame('', $ended);
        $server->stop();
        self::assertSame('of the test', ob_get_clean());
        self::assertStringNotContainsString('of the test', $server->output());
        self::assertSame('Hello', $other->get('/')->body);
    }

    public function testAFunctionThatThrowsIsTold(): void
    {
        try {
            $this->startServer(static fn() => throw new \LogicException('no such table'));
            self::fail('the server has started');
        } catch (\RuntimeException $error) {
            self::assertStringContainsString('no such table', $error->getMessage());
        }
    }
}
