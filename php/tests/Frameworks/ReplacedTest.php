<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Testing\{Exchange, TestServer};

/**
 * Tests the replacement of workers after a number of requests under load, or when the application retains too much memory. Every
 * request gets a response, on connections that stay open until a response announces the close. A held client that reconnects with
 * its event id misses no event.
 */
final class ReplacedTest extends ApplicationTestCase
{
    private const REQUESTS_MAX = 20;
    private const CLIENTS = 4;
    private const REQUESTS = 100;
    private const MEMORY_MIB = 64;

    /** @return iterable<string, array{string, string, array<string, string>}> script, path of its hold, environment */
    public static function applications(): iterable
    {
        $bound = ['TEST_REQUESTS_MAX' => (string) self::REQUESTS_MAX];
        yield 'PSR-15' => ['Psr15/app.php', '/hold', $bound];
        yield 'Symfony' => ['Symfony/app.php', '/held', $bound];
        yield 'Laravel' => ['Laravel/app.php', '/events', $bound];
        if (getenv('FERMATA_OCTANE')) {
            yield 'Octane' => ['Laravel/app.php', '/events', $bound + ['FERMATA_OCTANE' => getenv('FERMATA_OCTANE')]];
        }
        yield 'FrankenPHP' => ['FrankenPhp/bounded.php', '/held', $bound];
        yield 'FrankenPHP by the script' => ['FrankenPhp/bounded.php', '/held', ['MAX_REQUESTS' => (string) self::REQUESTS_MAX]];
    }

    /**
     * @dataProvider applications
     * @param array<string, string> $bound
     */
    public function testNothingIsLostWhenWorkersAreReplaced(string $program, string $held, array $bound): void
    {
        $server = $this->start($program, $bound + ['FERMATA_WORKERS' => '2']);
        $clients = array_map(fn(int $client): int => $this->fork("client$client", static fn(): string => json_encode(self::ask($server))), range(1, self::CLIENTS));
        $read = $published = [];
        $id = null;
        $exchange = $server->open('GET', $held);
        while ($clients !== [] || $read !== $published) {
            if ($clients !== []) {
                $published[] = (string) count($published);
                $server->publish('news', end($published));
            }
            $clients = array_filter($clients, static fn(int $client): bool => pcntl_waitpid($client, $status, WNOHANG) === 0);
            while (($event = $exchange->eventWithin($clients === [] ? 5.0 : 0.01)) !== null) {
                $read[] = $event['data'];
                if ($read === $published) {
                    break;
                }
            }
            if ($event === null && !$exchange->isOpen()) {
                // Like a browser, keep the previous id if the stream contained none.
                $id = $exchange->lastEventId() ?? $id;
                $exchange = $server->open('GET', $held, $id === null ? [] : ['Last-Event-ID' => $id]);
            } elseif ($event === null && $clients === []) {
                break;
            }
        }
        self::assertSame($published, $read, 'the held client has all events, each once');
        $workers = [];
        for ($client = 1; $client <= self::CLIENTS; $client++) {
            $report = $this->report("client$client");
            self::assertStringStartsWith('{', $report, "client $client: $report\n" . substr($server->log(), -3000));
            $workers += json_decode($report, true);
        }
        self::assertGreaterThan(4, count($workers), 'workers were replaced');
    }

    /**
     * @dataProvider applications
     * @param array<string, string> $bound
     */
    public function testAWorkerIsReplacedBeforeItsMemoryIsFull(string $program, string $held, array $bound): void
    {
        $octane = array_intersect_key($bound, ['FERMATA_OCTANE' => 1]);
        $server = $this->start($program, $octane + ['FERMATA_WORKERS' => '1'], ['-dmemory_limit=' . self::MEMORY_MIB . 'M']);
        $workers = [];
        for ($i = 0; $i < 2 * self::MEMORY_MIB; $i++) {
            $answer = $server->get('/used?keep=' . (1 << 20));
            self::assertSame(200, $answer->status, "request $i: $answer->body\n" . substr($server->log(), -2000));
            $workers[$answer->json()[0]] = true;
        }
        self::assertGreaterThanOrEqual(2, count($workers), $server->log());
        self::assertLessThan(self::MEMORY_MIB / 4, count($workers), 'no worker is replaced for what it began with');
        self::assertStringContainsString('the worker is replaced', $server->log());
    }

    public function testNoWorkerIsReplacedForWhatItsHandlersUseBesideEachOther(): void
    {
        $server = $this->start('Psr15/app.php', ['TEST_BESIDE' => 'on', 'TEST_GLOBALS' => 'off', 'FERMATA_WORKERS' => '1'], ['-dmemory_limit=' . self::MEMORY_MIB . 'M']);
        $workers = [];
        for ($i = 0; $i < 5; $i++) {
            $pending = array_map(static fn() => $server->send('GET', '/using?bytes=' . (5 << 20)), range(1, 11));
            foreach ($pending as $one) {
                $answer = $one->answer();
                self::assertSame(200, $answer->status, "$answer->body\n" . substr($server->log(), -2000));
                $workers[$answer->json()[0]] = true;
            }
        }
        self::assertCount(1, $workers, $server->log());
        self::assertStringNotContainsString('the worker is replaced', $server->log());
    }

    public function testNoWorkerIsReplacedForAnApplicationThatItsFirstRequestMakes(): void
    {
        $server = $this->start('Psr15/app.php', ['FERMATA_WORKERS' => '1'], ['-dmemory_limit=' . self::MEMORY_MIB . 'M']);
        $workers = [];
        for ($i = 0; $i < 10; $i++) {
            $workers[$server->get('/booting?bytes=' . (self::MEMORY_MIB * 13 / 16 << 20))->json()[0]] = true;
        }
        self::assertCount(1, $workers, $server->log());
    }

    /** @return array<int, true> the workers that responded, by process id */
    private static function ask(TestServer $server): array
    {
        $workers = [];
        $connection = null;
        for ($i = 0; $i < self::REQUESTS; $i++) {
            if ($connection === null) {
                $connection = stream_socket_client(str_replace('http://', 'tcp://', $server->url), timeout: 30.0);
                stream_set_timeout($connection, 30);
            }
            fwrite($connection, "GET /used HTTP/1.1\r\nHost: test\r\n\r\n");
            $answer = (new Exchange($connection, 'GET'))->answer();
            if ($answer->status !== 200) {
                throw new \RuntimeException("request $i: $answer->status $answer->body");
            }
            $workers[$answer->json()[0]] = true;
            if ($answer->header('Connection') === 'close') {
                $connection = null;
            }
        }
        return $workers;
    }
}
