<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Testing\TestServer;
use Fermata\Tests\Php;
use PHPUnit\Framework\TestCase;

/** Base class of tests that serve an application of each framework to clients in separate processes. The folder is writable. */
abstract class ApplicationTestCase extends TestCase
{
    protected string $folder;

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/fermata-application-' . bin2hex(random_bytes(6));
        foreach (['sessions', 'views', 'cache', 'public'] as $name) {
            mkdir("$this->folder/$name", recursive: true);
        }
        touch("$this->folder/database.sqlite");
    }

    protected function tearDown(): void
    {
        exec('rm -rf ' . escapeshellarg($this->folder));
    }

    /**
     * @param array<string, string> $environment
     * @param list<string> $options options of PHP
     */
    protected function start(string $program, array $environment, array $options = []): TestServer
    {
        return new TestServer(__DIR__ . "/$program", $environment + [
            'TEST_FOLDER' => $this->folder, 'TEST_PSR7' => 'nyholm', 'APP_ENV' => 'prod', 'APP_DEBUG' => '0', 'FERMATA_OCTANE' => '',
            'APP_SERVICES_CACHE' => "$this->folder/cache/services.php", 'APP_PACKAGES_CACHE' => "$this->folder/cache/packages.php",
        ], options: [...Php::options(), ...$options]);
    }

    /**
     * Starts a client process. The callable's return value, or the message of its exception, is written to the report file.
     *
     * @param callable(): string $use
     * @return int process id
     */
    protected function fork(string $report, callable $use): int
    {
        $process = pcntl_fork();
        if ($process !== 0) {
            return $process;
        }
        try {
            $said = $use();
        } catch (\Throwable $error) {
            $said = $error->getMessage();
        }
        file_put_contents("$this->folder/$report", $said);
        // Kill the fork: PHPUnit and the destructor that stops the server must run in the parent only.
        posix_kill(getmypid(), SIGKILL);
        exit;
    }

    /** Returns the report of a client that has exited. */
    protected function report(string $report): string
    {
        return is_file("$this->folder/$report") ? (string) file_get_contents("$this->folder/$report") : 'the client has died';
    }
}
