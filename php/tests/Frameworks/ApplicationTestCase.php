<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Testing\TestServer;
use Fermata\Tests\Php;
use PHPUnit\Framework\TestCase;

/** Tests that serve the application of each framework, with a folder for what it writes, to clients that are processes of their own. */
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
     * @param list<string> $options of PHP
     */
    protected function start(string $program, array $environment, array $options = []): TestServer
    {
        return new TestServer(__DIR__ . "/$program", $environment + [
            'TEST_FOLDER' => $this->folder, 'TEST_PSR7' => 'nyholm', 'APP_ENV' => 'prod', 'APP_DEBUG' => '0', 'FERMATA_OCTANE' => '',
            'APP_SERVICES_CACHE' => "$this->folder/cache/services.php", 'APP_PACKAGES_CACHE' => "$this->folder/cache/packages.php",
        ], options: [...Php::options(), ...$options]);
    }

    /**
     * A client of its own. What the callable returns, or the message of what it throws, is left in this file of the folder.
     *
     * @param callable(): string $use
     * @return int its process
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
        // Neither PHPUnit nor the server's owner is to end here.
        posix_kill(getmypid(), SIGKILL);
        exit;
    }

    /** What a client that has ended has left. */
    protected function report(string $report): string
    {
        return is_file("$this->folder/$report") ? (string) file_get_contents("$this->folder/$report") : 'the client has died';
    }
}
