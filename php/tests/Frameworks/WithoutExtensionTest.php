<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use PHPUnit\Framework\TestCase;

/** Tests the error message without the extension: each example is started as its documentation describes. */
final class WithoutExtensionTest extends TestCase
{
    /** @return iterable<string, array{string, list<string>, array<string, string>}> */
    public static function examples(): iterable
    {
        yield 'slim' => ['slim', ['server.php'], []];
        yield 'symfony' => ['symfony', ['public/index.php'], ['APP_RUNTIME' => 'Fermata\Symfony\Runtime', 'APP_ENV' => 'prod']];
        yield 'laravel' => ['laravel', ['artisan', 'fermata:start'], ['APP_ENV' => 'production']];
    }

    /**
     * @dataProvider examples
     * @param list<string> $arguments
     * @param array<string, string> $environment
     */
    public function testItIsNamedWithWhatToDo(string $example, array $arguments, array $environment): void
    {
        $place = sys_get_temp_dir() . '/fermata-without-' . bin2hex(random_bytes(6));
        mkdir($place);
        $command = [PHP_BINARY, '-d', 'error_reporting=8191', ...$arguments];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, dirname(__DIR__, 3) . "/examples/$example", [
            'PATH' => (string) getenv('PATH'), 'APP_VAR' => $place, ...$environment,
        ]);
        self::assertIsResource($process);
        // Console commands wrap their output.
        $output = preg_replace('/\s+/', ' ', stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]));
        proc_close($process);
        exec('rm -rf ' . escapeshellarg($place));
        self::assertStringContainsString('has not loaded the extension fermata', $output);
        self::assertStringContainsString('docs/install.md', $output);
    }
}
