<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Symfony\Options;
use Fermata\Tests\Php;
use PHPUnit\Framework\TestCase;

/** Tests invalid numbers: a cast would turn "50M" into 50 and "never" into 0. */
final class OptionsTest extends TestCase
{
    /** @return iterable<string, array{array<string, mixed>, string}> */
    public static function wrong(): iterable
    {
        yield 'workers' => [['fermata' => ['workers' => 'many']], "fermata.workers is a number from 0 on, not 'many'"];
        yield 'bytes' => [['fermata' => ['body_bytes' => '50M']], "fermata.body_bytes is a number from 0 on, not '50M'"];
        yield 'uploads' => [['fermata' => ['upload_bytes' => -1]], "fermata.upload_bytes is a number from 0 on, not -1"];
        yield 'loops' => [['worker_loop_max' => 'never'], "worker_loop_max is a number from 0 on, not 'never'"];
        yield 'fraction' => [['worker_loop_max' => 1.5], 'worker_loop_max is a number from 0 on, not 1.5'];
        yield 'large' => [['worker_loop_max' => '99999999999999999999'], "worker_loop_max is a number from 0 on, not '99999999999999999999'"];
        yield 'no array' => [['fermata' => 'http://127.0.0.1:8080'], 'the runtime option fermata is an array'];
        yield 'port alone' => [['fermata' => ['listen' => 8080]], 'the runtime option fermata.listen is an address, or a list of them, not int'];
        yield 'no address' => [['fermata' => ['listen' => []]], 'the runtime option fermata.listen is an address, or a list of them, not an empty list'];
        yield 'folders' => [['fermata' => ['public' => ['public']]], 'the runtime option fermata.public is a folder, not array'];
        yield 'unknown' => [['fermata' => ['worker' => 1]], 'unknown runtime options of fermata: worker'];
    }

    /**
     * @dataProvider wrong
     * @param array<string, mixed> $options
     */
    public function testAWrongRuntimeOptionIsNamed(array $options, string $message): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage($message);
        Options::of($options);
    }

    public function testNumbersMayBeText(): void
    {
        $options = Options::of(['worker_loop_max' => '0500', 'fermata' => ['workers' => '2', 'body_bytes' => 50]]);
        self::assertSame([500, 2, 50], [$options->requestsMax, $options->workers, $options->bodyBytes]);
    }

    /** @return iterable<string, array{string, string}> an option of artisan fermata:start, and the error message */
    public static function wrongOfLaravel(): iterable
    {
        yield 'requests' => ['--max-requests=-5', "--max-requests is a number from 0 on, not '-5'"];
        yield 'workers' => ['--workers=x', "--workers, if not auto, is a number from 0 on, not 'x'"];
        yield 'port' => ['--port=99999', 'that is not a port from 0 to 65535'];
        yield 'host' => ['--host=192.0.2.1', 'this machine has no such address'];
    }

    /** @dataProvider wrongOfLaravel */
    public function testAnOptionOfArtisanIsNamedWithoutATrace(string $option, string $message): void
    {
        $folder = sys_get_temp_dir() . '/fermata-options-' . bin2hex(random_bytes(6));
        $artisan = __DIR__ . '/../../../examples/laravel/artisan';
        $command = [PHP_BINARY, '-dextension=' . getenv('FERMATA_EXTENSION'), ...Php::options(), $artisan, 'fermata:start', '--port=0', $option];
        try {
            exec('APP_VAR=' . escapeshellarg($folder) . ' ' . implode(' ', array_map(escapeshellarg(...), $command)) . ' 2>&1', $lines, $status);
        } finally {
            exec('rm -rf ' . escapeshellarg($folder));
        }
        $said = preg_replace('/\s+/', ' ', implode(' ', $lines));
        self::assertStringContainsString($message, $said);
        self::assertStringNotContainsString('stacktrace', $said);
        self::assertSame(1, $status);
    }
}
