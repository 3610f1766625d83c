<?php

declare(strict_types=1);

namespace Fermata\Tests\Testing;

use Fermata\Event;
use Fermata\Testing\StartsServers;
use PHPUnit\Framework\{AssertionFailedError, TestCase};

/** What users' tests use, in a test of theirs. */
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
        // Who comes back with an id gets what came after it.
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
}
