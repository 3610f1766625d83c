<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Testing\TestServer;

/**
 * Tests that no user sees another user's data. Several users send random requests concurrently to two workers, with sessions,
 * exceptions, exit(), streams, and clients that disconnect at any time.
 *
 * FERMATA_ISOLATION_REQUESTS is the number of requests per application. A failure prints the seed for FERMATA_TEST_SEED.
 * With MEASURED or more requests the workers' memory is measured too: it must not grow in the second half of the requests. In
 * the first half caches fill, and the heap grows up to the threshold of PHP's cycle collector.
 */
final class IsolationTest extends ApplicationTestCase
{
    private const CLIENTS = 3;
    private const USERS = 4;
    private const MEASURED = 20_000;
    private const PARTS = 10;
    /** Maximum number of requests until both workers have handled one. */
    private const ASKED_MAX = 1000;
    /** Maximum relative growth of a worker's memory. A leak of 10 bytes per request exceeds it in 100,000 requests. */
    private const GROWTH_MAX = 0.01;

    /**
     * The last value is true if sessions are locked. Laravel does not lock them, so one of two concurrent updates may be lost.
     *
     * @return iterable<string, array{string, string, bool}>
     */
    public static function applications(): iterable
    {
        yield 'PSR-15' => ['Psr15', 'PHPSESSID', true];
        yield 'Symfony' => ['Symfony', 'PHPSESSID', true];
        yield 'Laravel' => ['Laravel', 'laravel_session', false];
        if (getenv('FERMATA_OCTANE')) {
            yield 'Octane' => ['Laravel', 'laravel_session', false, getenv('FERMATA_OCTANE')];
        }
    }

    /** @dataProvider applications */
    public function testUsersSeeOnlyTheirOwn(string $application, string $cookie, bool $isLocked, string $octane = ''): void
    {
        $server = $this->start("$application/app.php", ['FERMATA_WORKERS' => '2', 'FERMATA_OCTANE' => $octane]);
        $requests = (int) (getenv('FERMATA_ISOLATION_REQUESTS') ?: 900);
        $seed = (int) (getenv('FERMATA_TEST_SEED') ?: random_int(1, 1_000_000));
        $failures = [];
        $memory = [];
        $parts = $requests < self::MEASURED ? 1 : self::PARTS;
        for ($part = 0; $part < $parts; $part++) {
            array_push($failures, ...$this->useAtOnce($server, $cookie, $isLocked, intdiv($requests, $parts), $seed + $part * self::CLIENTS, "part$part"));
            $memory[] = self::memory($server);
        }
        self::assertSame('', implode("\n", array_filter($failures)) . (str_contains($server->log(), 'fatal') ? $server->log() : ''));
        if ($parts > 1) {
            foreach ($memory as $part => $workers) {
                fprintf(STDERR, "%s, %d requests: %s\n", $application, intdiv($requests, $parts) * ($part + 1), json_encode($workers));
            }
            self::assertStays($memory, $server);
        }
    }

    /** @param list<array<int, array{int, int}>> $memory memory of each worker after each part of the requests */
    private static function assertStays(array $memory, TestServer $server): void
    {
        $half = $memory[intdiv(self::PARTS, 2) - 1];
        $last = $memory[self::PARTS - 1];
        self::assertSame(array_keys($memory[0]), array_keys($last), "workers were replaced:\n" . substr($server->log(), -2000));
        foreach ($last as $worker => [$values, $bytes]) {
            self::assertLessThanOrEqual($half[$worker][0] * (1 + self::GROWTH_MAX), $values, "PHP's values in worker $worker have grown");
            self::assertLessThanOrEqual($half[$worker][1] * (1 + self::GROWTH_MAX), $bytes, "worker $worker has grown");
        }
    }

    /** @return list<string> the failure of each client; empty: none */
    private function useAtOnce(TestServer $server, string $cookie, bool $isLocked, int $requests, int $seed, string $part): array
    {
        $clients = [];
        for ($client = 0; $client < self::CLIENTS; $client++) {
            $report = "$part-$client";
            $process = $this->fork($report, function () use ($server, $cookie, $isLocked, $requests, $seed, $client): string {
                try {
                    $this->use($server, $cookie, $isLocked, intdiv($requests, self::CLIENTS), $seed + $client, "client$client");
                } catch (\Throwable $error) {
                    return "seed $seed: {$error->getMessage()}";
                }
                return '';
            });
            $clients[$process] = $report;
        }
        $failures = [];
        foreach ($clients as $process => $report) {
            pcntl_waitpid($process, $status);
            $failures[] = $this->report($report);
        }
        return $failures;
    }

    /**
     * Returns the memory of each worker in bytes: PHP's values after a cycle collection, and its anonymous memory.
     *
     * Pages shared with the master count too. Each becomes private at the first write, so private memory alone would grow without
     * an allocation.
     *
     * @return array<int, array{int, int}>
     */
    private static function memory(TestServer $server): array
    {
        $memory = [];
        $pid = $server->pid();
        $workers = array_map(intval(...), explode(' ', trim((string) file_get_contents("/proc/$pid/task/$pid/children"))));
        for ($left = self::ASKED_MAX; $left > 0 && array_diff($workers, array_keys($memory)) !== []; $left--) {
            [$worker, $used] = $server->get('/used')->json();
            preg_match('/^Anonymous: +(\d+) kB$/m', (string) file_get_contents("/proc/$worker/smaps_rollup"), $found);
            $memory[$worker] = [$used, (int) $found[1] * 1024];
        }
        ksort($memory);
        return $memory;
    }

    private function use(TestServer $server, string $cookie, bool $isLocked, int $requests, int $seed, string $client): void
    {
        mt_srand($seed);
        // Range of each user's session counter: a client that disconnects cannot determine whether its request was handled.
        $users = array_fill(0, self::USERS, ['id' => null, 'least' => 0, 'most' => 0]);
        for ($i = 0; $i < $requests; $i++) {
            $number = mt_rand(0, self::USERS - 1);
            $user = &$users[$number];
            $token = "$client-user$number";
            $end = ['', '', '', 'exit', 'throw', 'stream', 'leave', 'break'][mt_rand(0, 7)];
            if ($user['id'] === null && in_array($end, ['exit', 'leave', 'break', 'throw'], true)) {
                $end = '';
            }
            $query = "token=$token&end=" . ($end === 'break' ? 'stream' : $end) . "&number=$i";
            $headers = $user['id'] === null ? [] : ['Cookie' => "$cookie={$user['id']}"];
            $user['most']++;
            if ($end === 'leave') {
                $this->leave($server, "/secret?$query", $headers);
                continue;
            }
            $exchange = $server->open('GET', "/secret?$query", $headers);
            if ($end === 'break') {
                $exchange->close();
                continue;
            }
            $answer = $exchange->answer();
            $foreign = preg_match_all('/client\d-user\d/', $answer->body . json_encode($answer->headers), $found) ? array_diff($found[0], [$token]) : [];
            if ($foreign !== []) {
                throw new \RuntimeException("request $i of $token shows " . implode(', ', $foreign));
            }
            $user['id'] = $answer->cookies()[$cookie] ?? $user['id'];
            if ($end === 'exit' || $end === 'throw') {
                $status = $end === 'exit' ? 200 : 500;
                if ($answer->status !== $status) {
                    throw new \RuntimeException("request $i: $answer->status in place of $status: $answer->body");
                }
                continue;
            }
            if ($answer->status !== 200) {
                throw new \RuntimeException("request $i: $answer->status $answer->body\n" . substr($server->log(), -2000));
            }
            [$seen, $visits, $memory, $get, $queryString, $precision] = json_decode($answer->body, true, flags: JSON_THROW_ON_ERROR);
            $expected = [$token, null, $token, $query, '14'];
            if ([$seen, $memory, $get, $queryString, $precision] !== $expected) {
                throw new \RuntimeException("request $i: " . json_encode([$seen, $memory, $get, $queryString, $precision]) . ' in place of ' . json_encode($expected));
            }
            if ($visits < $user['least'] + 1 || $visits > $user['most']) {
                throw new \RuntimeException("request $i: $visits visits of $token, which has made {$user['least']} to {$user['most']}");
            }
            $user['least'] = $isLocked ? $visits : 0;
        }
    }

    /** @param array<string, string> $headers */
    private function leave(TestServer $server, string $target, array $headers): void
    {
        $stream = stream_socket_client('tcp://' . substr($server->url, strlen('http://')));
        $head = "GET $target HTTP/1.1\r\nHost: test\r\n";
        foreach ($headers as $name => $value) {
            $head .= "$name: $value\r\n";
        }
        // In one of four cases disconnect in the middle of the request.
        fwrite($stream, mt_rand(0, 3) === 0 ? substr($head, 0, mt_rand(1, strlen($head))) : "$head\r\n");
        if (mt_rand(0, 1) === 0) {
            usleep(mt_rand(0, 3000));
        }
        fclose($stream);
    }
}
