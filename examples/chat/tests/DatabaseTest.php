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
}
