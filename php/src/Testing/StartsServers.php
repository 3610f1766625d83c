<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\Server;

/**
 * Adds servers and assertions about held clients to a PHPUnit test case. Servers listen on free ports and stop after each test.
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
     * Starts a script, or a server whose routes a function adds; see TestServer. If the test fails, the server's log is printed.
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
     * Starts a server in the test's process, without a port. See TestApplication. Stops the previous server of the test.
     *
     * @param Server|\Closure(Server): mixed $server a server with routes that was not run, or a function that adds routes to one
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
     * Asserts that the response is an event stream whose client is held, and returns the client.
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
     * Asserts that a client is held on exactly these channels, with this user and resuming after this event; null = without a user,
     * without resuming.
     *
     * @param Exchange $client client of a TestApplication; holds of servers in other processes cannot be inspected
     * @param string|list<string> $channels in any order
     * @param ?int $keepAlive seconds that the handler set; null = from the settings
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

    /** Asserts that the client receives a complete response and is not held. */
    protected function assertDoesNotHold(TestServer|TestApplication $server, string $target, int $status = 200): Answer
    {
        $client = $server->open('GET', $target);
        static::assertSame($status, $client->status, "$target is answered:\n" . $server->log());
        static::assertStringStartsNotWith('text/event-stream', $client->headers['content-type'][0] ?? '', "$target answers no events");
        return $client->answer();
    }

    /** Asserts that the next event of a held client has this data, and this name if one is given. */
    protected function assertNextEvent(string $data, Exchange $client, ?string $name = null): void
    {
        $event = $client->nextEvent();
        static::assertNotNull($event, 'the stream has ended');
        static::assertSame($data, $event['data']);
        if ($name !== null) {
            static::assertSame($name, $event['event']);
        }
    }

    /** Asserts that a held client receives no event within the given time, which must exceed the application's own delays. */
    protected function assertNoEvent(Exchange $client, float $seconds = 0.2): void
    {
        $data = $client->eventWithin($seconds);
        static::assertNull($data, 'the client got an event: ' . json_encode($data));
    }
}
