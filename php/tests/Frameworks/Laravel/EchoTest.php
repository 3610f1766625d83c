<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

use Fermata\Testing\TestServer;
use Fermata\Tests\Frameworks\ApplicationTestCase;

/** Tests Laravel's broadcasting with the built-in Pusher server and npm's laravel-echo and pusher-js. */
final class EchoTest extends ApplicationTestCase
{
    private const CLIENTS = __DIR__ . '/../../../../tests/pusher/clients';

    private function serve(): TestServer
    {
        return $this->start('Laravel/app.php', ['TEST_ECHO' => '1']);
    }

    /** @return array{Cookie: string} */
    private static function signIn(TestServer $server, string $user): array
    {
        return ['Cookie' => 'laravel_session=' . $server->get("/sign-in/$user")->cookies()['laravel_session']];
    }

    public function testChannelsAreSignedForThoseWhoMayListen(): void
    {
        $server = $this->serve();
        $ada = self::signIn($server, 'ada');
        $ask = static fn(string $channel, array $headers, string $socket = '12.34'): array => [
            ($answer = $server->post('/broadcasting/auth', ['socket_id' => $socket, 'channel_name' => $channel], $headers))->status,
            json_decode($answer->body, true),
        ];
        $auth = static fn(string $text): string => 'app-key:' . hash_hmac('sha256', $text, 'app-secret');
        self::assertSame([200, ['auth' => $auth('12.34:private-orders.ada')]], $ask('private-orders.ada', $ada));
        $data = '{"user_id":"ada","user_info":{"name":"ada"}}';
        self::assertSame([200, ['auth' => $auth("12.34:presence-room:$data"), 'channel_data' => $data]], $ask('presence-room', $ada));
        foreach ([['private-orders.bob', $ada], ['private-orders.ada', []], ['presence-room', []], ['private-none', $ada], ['orders', $ada],
            ['private-encrypted-orders.ada', $ada]] as [$channel, $headers]) {
            self::assertSame(403, $ask($channel, $headers)[0], $channel);
        }
        // An invalid socket id could turn the signed text into that of another subscription.
        foreach (['', '12', '12.34:presence-room', '12.34::user', "12.34\n"] as $socket) {
            self::assertSame(403, $ask('private-orders.ada', $ada, $socket)[0], $socket);
        }
    }

    public function testEchoReceivesBroadcastsOfItsChannels(): void
    {
        $folder = self::clients();
        $server = $this->serve();
        $command = ['node', __DIR__ . '/echo.mjs', $folder, $server->url, self::signIn($server, 'ada')['Cookie'], self::signIn($server, 'bob')['Cookie']];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
        $printed = (string) stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process), $printed . $server->log());
        self::assertSame("done\n", $printed);
    }

    /** Returns the folder with the installed npm packages of tests/pusher/clients. Skips the test if they cannot be installed. */
    private static function clients(): string
    {
        $folder = (getenv('CARGO_TARGET_DIR') ?: dirname(__DIR__, 4) . '/target') . '/clients/pusher-node';
        if (!is_dir($folder)) {
            mkdir($folder, recursive: true);
        }
        foreach (['package.json', 'package-lock.json'] as $name) {
            copy(self::CLIENTS . "/$name", "$folder/$name");
        }
        if (!is_file("$folder/node_modules/.package-lock.json")) {
            exec('cd ' . escapeshellarg($folder) . ' && npm ci --no-audit --no-fund --loglevel=error 2>&1', $lines, $status);
            if ($status !== 0) {
                getenv('CI') ? self::fail(implode("\n", $lines)) : self::markTestSkipped('npm cannot install laravel-echo: ' . implode(' ', $lines));
            }
        }
        return $folder;
    }
}
