<?php

/**
 * Measures the cost of Hook::Sqlite for a query that need not wait, and the cost of moving a query to a thread for comparison.
 *
 *   php -d extension=build/fermata.so bench/sqlite.php
 *
 * Each figure is the minimum of many rounds, so other load has little effect. The round trip to a thread is measured by fsync()
 * of a file in memory under Hook::Files, which always runs in a thread.
 */

declare(strict_types=1);

use Fermata\{Hook, Log, LogLevel, Runtime, Server};

const ROUNDS = 40;

/** @param callable(int): mixed $work */
function nanoseconds(int $times, callable $work): int
{
    $best = PHP_INT_MAX;
    for ($round = 0; $round < ROUNDS; $round++) {
        $begin = hrtime(true);
        for ($i = 0; $i < $times; $i++) {
            $work($i);
        }
        $best = min($best, intdiv(hrtime(true) - $begin, $times));
    }
    return $best;
}

/** @return array<string, int> */
function measure(string $folder): array
{
    $pdo = new PDO("sqlite:$folder/bench.db");
    $pdo->exec('PRAGMA journal_mode=wal; PRAGMA synchronous=normal; CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, a TEXT); DELETE FROM t');
    $pdo->exec('INSERT INTO t (a) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 10000) SELECT hex(randomblob(50)) FROM c');
    $select = $pdo->prepare('SELECT a FROM t WHERE id = ?');
    $insert = $pdo->prepare('INSERT INTO t (a) VALUES (?)');
    $file = fopen("$folder/memory", 'w');
    return [
        'prepared SELECT by key' => nanoseconds(1000, function (int $i) use ($select) { $select->execute([$i % 10000 + 1]); $select->fetchColumn(); }),
        'query() by key' => nanoseconds(1000, fn (int $i) => $pdo->query('SELECT a FROM t WHERE id = ' . ($i % 10000 + 1))->fetchColumn()),
        '1,000 rows' => nanoseconds(4, fn () => $pdo->query('SELECT a FROM t LIMIT 1000')->fetchAll()),
        'INSERT, a transaction each' => nanoseconds(200, fn () => $insert->execute(['x'])),
        'fsync() in memory' => nanoseconds(200, fn () => fsync($file)),
    ];
}

if (($folder = getenv('BENCH_FOLDER')) === false) {
    $folder = (is_dir('/dev/shm') ? '/dev/shm' : sys_get_temp_dir()) . '/fermata-bench-' . getmypid();
    mkdir($folder);
    $runs = [];
    foreach (['without', 'with', 'without', 'with'] as $mode) {
        $extension = (string) realpath(getenv('FERMATA_EXTENSION') ?: __DIR__ . '/../build/fermata.so');
        $process = proc_open([PHP_BINARY, '-d', "extension=$extension", __FILE__], [1 => ['pipe', 'w'], 2 => STDERR], $pipes, null, ['BENCH_FOLDER' => $folder, 'BENCH_HOOKS' => $mode] + getenv());
        foreach (json_decode((string) stream_get_contents($pipes[1]), true) as $what => $cost) {
            $runs[$what][$mode] = min($cost, $runs[$what][$mode] ?? PHP_INT_MAX);
        }
        proc_close($process);
    }
    array_map(unlink(...), glob("$folder/*"));
    rmdir($folder);
    printf("%-28s %10s %10s\n", 'nanoseconds', 'without', 'with hooks');
    foreach ($runs as $what => $cost) {
        printf("%-28s %10d %10d\n", $what, $cost['without'], $cost['with']);
    }
    exit;
}

if (getenv('BENCH_HOOKS') === 'with') {
    Runtime::hook(Hook::Sqlite, Hook::Files);
}
$server = new Server(listen: 'http://127.0.0.1:0', workers: 1, log: new Log(level: LogLevel::Error));
$master = getmypid();
$server->every(0.01, function () use ($folder, $master) {
    static $result = null;
    if ($result === null) {
        $result = measure($folder);
        echo json_encode($result);
        posix_kill($master, SIGTERM);
    }
});
$server->run();
