<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\Server;

/**
 * For a test case of PHPUnit: real servers on free ports, which end with each test, and assertions about held clients.
 *
 *     final class ChatTest extends TestCase
 *     {
 *         use StartsServers;
 *
 *         public function testMessagesReachEverybody(): void
 *         {
 *             $server = $this->startServer(__DIR__ . '/../server.php');
 *             $client = $this->assertHolds($server, '/rooms/lobby/events');
 *             $server->publish('room.lobby', 'Hello');
 *             $this->assertNextEvent('Hello', $client);
 *         }
 *     }
 */
trait StartsServers
{
    /** @var list<TestServer> */
    private array $startedServers = [];
    private ?TestApplication $testedApplication = null;

    /**
     * Starts a program, or a server whose routes a function adds; see TestServer. The log of one whose test fails is shown.
     *
     * @param string|\Closure(Server): mixed $program
     * @param array<string, string> $environment
     * @param list<string> $arguments
     * @param list<string> $options
     */
    protected function startServer(string|\Closure $program, array $environment = [], array $arguments = [], array $options = []): TestServer
    {
        return $this->startedServers[] = new TestServer($program, $environment, $arguments, $options);
    }

    /**
     * A server in the process of the test, without a port; see TestApplication. The one that the test had before is stopped.
     *
     * @param Server|\Closure(Server): mixed $server with its routes and not run, or what adds routes to one
     */
    protected function testApplication(Server|\Closure $server): TestApplication
    {
        $this->testedApplication?->stop();
        return $this->testedApplication = TestApplication::of($server);
    }

    /**
     * @after
     * @internal called by PHPUnit
     */
    #[\PHPUnit\Framework\Attributes\After]
    public function stopStartedServers(): void
    {
        foreach ($this->startedServers as $server) {
            $server->stop();
        }
        $this->startedServers = [];
        $this->testedApplication?->stop();
        $this->testedApplication = null;
    }

    /**
     * That a request is answered with events and its client stays; the client is returned.
     *
     * @param array<string, string|int|list<string>> $headers such as ['Last-Event-ID' => $id]
     */
    protected function assertHolds(TestServer|TestApplication $server, string $target, array $headers = []): Exchange
    {
        $client = $server->open('GET', $target, $headers);
        static::assertSame(200, $client->status, "$target is answered:\n" . $server->log());
        static::assertStringStartsWith('text/event-stream', $client->headers['content-type'][0] ?? '', "$target answers events");
        static::assertTrue($client->isOpen(), "the client of $target is held");
        return $client;
    }

    /**
     * That a client is held in these channels and no others, as this user and after this event; null = by nobody, after none.
     *
     * @param Exchange $client of a TestApplication; what other servers do with a client cannot be seen from outside
     * @param string|list<string> $channels in any order
     * @param ?int $keepAlive seconds that the handler has asked for; null = it has left them to the settings
     */
    protected function assertHeld(Exchange $client, string|array $channels, ?string $user = null, ?string $since = null, ?int $keepAlive = null): void
    {
        static::assertNotNull($client->hold, 'the client is not held, or not by a TestApplication');
        static::assertEqualsCanonicalizing((array) $channels, $client->hold['channels'], 'the channels of the client');
        static::assertSame($user, $client->hold['user'], 'the user that the client counts as');
        static::assertSame($since, $client->hold['since'], 'the event after which the client goes on');
        static::assertSame($keepAlive, $client->hold['keepAlive'], 'seconds of silence before a comment');
        static::assertTrue($client->isOpen(), 'the client is held');
    }

    /** That a request is answered, and its client not held. */
    protected function assertDoesNotHold(TestServer|TestApplication $server, string $target, int $status = 200): Answer
    {
        $client = $server->open('GET', $target);
        static::assertSame($status, $client->status, "$target is answered:\n" . $server->log());
        static::assertStringStartsNotWith('text/event-stream', $client->headers['content-type'][0] ?? '', "$target answers no events");
        return $client->answer();
    }

    /** That the next event of a held client has this data, and this name where one is given. */
    protected function assertNextEvent(string $data, Exchange $client, ?string $name = null): void
    {
        $event = $client->nextEvent();
        static::assertNotNull($event, 'the stream has ended');
        static::assertSame($data, $event['data']);
        if ($name !== null) {
            static::assertSame($name, $event['event']);
        }
    }

    /** That a held client is sent nothing for a while; what waits for a time of the program's has to wait longer than that. */
    protected function assertNoEvent(Exchange $client, float $seconds = 0.2): void
    {
        $data = $client->eventWithin($seconds);
        static::assertNull($data, 'the client got an event: ' . json_encode($data));
    }
}
