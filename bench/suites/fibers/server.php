<?php

declare(strict_types=1);

// `php server.php PORT plain|waiting|timer FOLDER`: server for `python3 -m bench fibers`.
//
// `plain` uses no runtime features. `waiting` enables all hooks, and handlers wait on request. `timer` also has an every().

use Fermata\{File, Hook, Request, Response, Runtime, Server};
use Fermata\File\WriteMode;
use Fermata\Sync\Mutex;
use function Fermata\{all, async, await, delay};

[, $port, $variant, $folder] = $argv;
if ($variant !== 'plain') {
    Runtime::hook(...Hook::cases());
}
$server = new Server("http://127.0.0.1:$port", workers: 1);
$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));

// Fills the pool of reusable fibers.
$server->get('/used', static function (): Response {
    all(...array_fill(0, 4, static fn () => delay(0.001)));
    return Response::json(['status' => 'OK']);
});

// Returns the mean processor time, in nanoseconds, of `count` waits in sequence.
$each = static function (int $count, callable $wait): float {
    $used = static function (): int {
        $usage = getrusage();
        return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1_000_000
            + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
    };
    $before = $used();
    $wait($count);
    return ($used() - $before) * 1000 / $count;
};
$waits = [
    'delay' => static function (int $count): void {
        for ($i = 0; $i < $count; $i++) {
            delay(0);
        }
    },
    'await' => static function (int $count): void {
        $one = static fn () => 1;
        for ($i = 0; $i < $count; $i++) {
            await(async($one));
        }
    },
    // Two tasks alternate: each lock() suspends, and each unlock() wakes the other task.
    'mutex' => static function (int $count): void {
        $mutex = new Mutex();
        $half = static function () use ($mutex, $count): void {
            for ($i = 0; $i < $count / 2; $i++) {
                $mutex->lock();
                delay(0);
                $mutex->unlock();
            }
        };
        all($half, $half);
    },
    'file' => static function (int $count) use ($folder): void {
        File::write("$folder/small", 'a small file');
        for ($i = 0; $i < $count; $i++) {
            File::read("$folder/small");
        }
    },
];
$server->get('/each/{wait}/{count}', static function (Request $request) use ($each, $waits): Response {
    return Response::text((string) $each((int) $request->route('count'), $waits[$request->route('wait')]));
});

// Returns the growth of PHP's and of the process's memory, in bytes, over `count` waits.
$server->get('/flat/{wait}/{count}', static function (Request $request) use ($waits): Response {
    $wait = $waits[$request->route('wait')];
    $memory = static function (): array {
        preg_match('/^RssAnon:\s+(\d+)/m', file_get_contents('/proc/self/status'), $found);
        return [memory_get_usage(), 1024 * (int) $found[1]];
    };
    $wait(1000);
    $before = $memory();
    $wait((int) $request->route('count'));
    $after = $memory();
    return Response::json(['php' => $after[0] - $before[0], 'process' => $after[1] - $before[1]]);
});

$server->get('/slow/file/{name}', static fn (Request $request): Response
    => Response::text((string) strlen(File::read("$folder/" . basename($request->route('name'))))));
$server->get('/slow/hook/{name}', static fn (Request $request): Response
    => Response::text((string) strlen(file_get_contents("$folder/" . basename($request->route('name'))))));
$server->get('/slow/write/{name}', static fn (Request $request): Response
    => Response::text((string) File::write("$folder/" . basename($request->route('name')), str_repeat('x', 1 << 20), WriteMode::Atomic, sync: true)));
$server->get('/slow/query/{ms}', static function (Request $request): Response {
    $database = new PDO('mysql:unix_socket=' . getenv('BENCH_MYSQL'), 'root', '');
    return Response::text((string) $database->query('SELECT SLEEP(' . (int) $request->route('ms') / 1000 . ')')->fetchColumn());
});

// Uses processor time, like an application between its waits.
$compute = static function (float $ms): void {
    for ($end = hrtime(true) + $ms * 1e6; hrtime(true) < $end;);
};
$server->get('/crowd/compute', static function () use ($compute): Response {
    $compute(2);
    return Response::text('computed');
});
$server->get('/crowd/brief', static function () use ($compute): Response {
    $compute(0.4);
    return Response::text('computed');
});
$server->get('/crowd/wait', static function () use ($compute): Response {
    for ($i = 0; $i < 4; $i++) {
        $compute(0.5);
        delay(0.02);
    }
    return Response::text('waited');
});
$server->get('/crowd/process', static function (): Response {
    $process = proc_open(['/bin/true'], [], $pipes);
    return Response::text((string) proc_close($process));
});

// Waits for another server, which takes 20 ms, with the stream functions that client libraries use.
$server->get('/upstream', static function (): Response {
    delay(0.02);
    return Response::text('upstream');
});
$upstream = (int) getenv('BENCH_UPSTREAM');
$server->get('/crowd/curl', static function () use ($upstream): Response {
    $curl = curl_init("http://127.0.0.1:$upstream/upstream");
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    return Response::text(curl_exec($curl));
});
$server->get('/crowd/socket', static function () use ($upstream): Response {
    $socket = stream_socket_client("tcp://127.0.0.1:$upstream");
    fwrite($socket, "GET /upstream HTTP/1.1\r\nHost: 127.0.0.1:$upstream\r\nConnection: close\r\n\r\n");
    return Response::text(explode("\r\n\r\n", stream_get_contents($socket), 2)[1]);
});
$server->get('/crowd/query', static function (): Response {
    $database = new PDO('mysql:unix_socket=' . getenv('BENCH_MYSQL'), 'root', '');
    return Response::text((string) $database->query('SELECT SLEEP(0.02)')->fetchColumn());
});

if ($variant === 'timer') {
    $server->every(3600, static fn () => null);
}
$server->run();
