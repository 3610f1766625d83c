<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

use Fermata\Testing\TestServer;
use Fermata\Tests\Php;
use PHPUnit\Framework\TestCase;

/** Tests artisan fermata:reload with the example application. */
final class ReloadTest extends TestCase
{
    private const ARTISAN = __DIR__ . '/../../../../examples/laravel/artisan';

    public function testArtisanReloadsTheServer(): void
    {
        $folder = sys_get_temp_dir() . '/fermata-laravel-' . bin2hex(random_bytes(6));
        $options = Php::options();
        try {
            [$status, $printed] = self::reload($folder, $options);
            self::assertSame(1, $status, $printed);
            self::assertStringContainsString('No server', $printed);
            $server = new TestServer(self::ARTISAN, ['APP_VAR' => $folder], ['fermata:start', '--workers=1'], $options);
            [$status, $printed] = self::reload($folder, $options);
            self::assertSame(0, $status, $printed);
            self::assertStringContainsString("The server {$server->pid()}", $printed);
            for ($deadline = microtime(true) + 60; preg_match_all('~listening on (http://\S+)~', $server->log(), $found) < 2; usleep(5000)) {
                self::assertLessThan($deadline, microtime(true), "the server does not listen again:\n" . $server->log());
            }
            self::assertStringContainsString('<html', (string) file_get_contents($found[1][1]));
            // A second server that fails to listen must restore the file.
            [$status, $printed] = self::artisan($folder, $options, ['fermata:start', '--port=' . parse_url($found[1][1], PHP_URL_PORT)]);
            self::assertSame(1, $status, $printed);
            self::assertStringContainsString("The server {$server->pid()}", self::reload($folder, $options)[1]);
            for ($deadline = microtime(true) + 60; substr_count($server->log(), 'listening on ') < 3; usleep(5000)) {
                self::assertLessThan($deadline, microtime(true), "the server does not listen again:\n" . $server->log());
            }
            $server->stop();
            self::assertFileDoesNotExist("$folder/framework/fermata.pid");
        } finally {
            exec('rm -rf ' . escapeshellarg($folder));
        }
    }

    /** A stop (systemctl, a deployment) while the old server finishes its requests prevents the restart. */
    public function testAStopDuringAReloadWins(): void
    {
        $folder = sys_get_temp_dir() . '/fermata-laravel-' . bin2hex(random_bytes(6));
        $options = Php::options();
        try {
            $server = new TestServer(self::ARTISAN, ['APP_VAR' => $folder], ['fermata:start', '--workers=1'], $options);
            $pid = $server->pid();
            // An incomplete request delays the shutdown.
            $open = $server->open('GET', '/');
            $half = stream_socket_client('tcp://' . substr($server->url, strlen('http://')));
            fwrite($half, "POST /messages HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
            usleep(200_000);
            [$status, $printed] = self::reload($folder, $options);
            self::assertSame(0, $status, $printed);
            posix_kill($pid, SIGTERM);
            usleep(200_000);
            fclose($half);
            unset($open);
            for ($deadline = microtime(true) + 60; !str_contains($server->log(), 'stopped') && microtime(true) < $deadline; usleep(5000)) {
            }
            // Long enough for a restarted server to write the file.
            usleep(1_000_000);
            self::assertSame(1, preg_match_all('~listening on ~', $server->log()), $server->log());
            self::assertFileDoesNotExist("$folder/framework/fermata.pid");
        } finally {
            exec('rm -rf ' . escapeshellarg($folder));
        }
    }

    /**
     * @param list<string> $options
     * @return array{int, string}
     */
    private static function reload(string $folder, array $options): array
    {
        return self::artisan($folder, $options, ['fermata:reload']);
    }

    /**
     * @param list<string> $options
     * @param list<string> $arguments
     * @return array{int, string}
     */
    private static function artisan(string $folder, array $options, array $arguments): array
    {
        $extension = (string) getenv('FERMATA_EXTENSION');
        $command = [PHP_BINARY, ...$options, ...($extension === '' ? [] : ["-dextension=$extension"]), self::ARTISAN, ...$arguments];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes, null, ['APP_VAR' => $folder] + getenv());
        $printed = (string) stream_get_contents($pipes[1]);
        return [proc_close($process), $printed];
    }
}
