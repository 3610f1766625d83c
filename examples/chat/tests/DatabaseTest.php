<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Database;

final class DatabaseTest extends DatabaseTestCase
{
    public function testTheFileIsItsOwnersAloneInAFolderOpenToAll(): void
    {
        if ($this->database->isPostgres()) {
            self::markTestSkipped('PostgreSQL keeps its own files.');
        }
        $mask = umask(0o022);
        $path = dirname($this->location()) . '/open.sqlite';
        chmod(dirname($path), 0o755);
        $database = new Database($path);
        $database->create();
        $database->close();

        self::assertSame(0o600, fileperms($path) & 0o777);
        self::assertSame(0o022, umask($mask), 'the mask is as it was');
    }

    public function testASecretIsMadeOnceForAll(): void
    {
        $secret = $this->database->secret('doors');

        self::assertGreaterThanOrEqual(64, strlen($secret));
        self::assertSame($secret, (new Database($this->location()))->secret('doors'));
        self::assertNotSame($secret, $this->database->secret('other'));
    }

    /** SQLite fails if two processes switch the same new file to WAL mode. */
    public function testServersMayBeginTogether(): void
    {
        if ($this->database->isPostgres()) {
            self::markTestSkipped('The tables are there already.');
        }
        $code = 'require $argv[1]; usleep((int) max(0, ($argv[3] - microtime(true)) * 1e6));'
            . ' (new Chat\Database($argv[2]))->create();';
        for ($round = 0; $round < 5; $round++) {
            $path = dirname($this->location()) . "/together-$round.sqlite";
            $arguments = [__DIR__ . '/../src/autoload.php', $path, (string) (microtime(true) + 0.15)];
            $running = [];
            for ($process = 0; $process < 8; $process++) {
                $running[] = proc_open([PHP_BINARY, '-r', $code, ...$arguments], [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
                $outputs[] = $pipes[1];
            }
            foreach ($running as $at => $process) {
                $said = stream_get_contents($outputs[$round * 8 + $at]);
                self::assertSame(0, proc_close($process), $said);
            }
        }
    }
}
