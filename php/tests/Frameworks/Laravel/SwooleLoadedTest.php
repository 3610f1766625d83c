<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

use PHPUnit\Framework\TestCase;

/** Tests Octane's tables if Swoole defines the class `Swoole\Table`. */
final class SwooleLoadedTest extends TestCase
{
    public function testATableIsFermatasAndOneOfSwoole(): void
    {
        $command = [PHP_BINARY, '-d', 'extension=' . getenv('FERMATA_EXTENSION'), __DIR__ . '/swoole-loaded.php'];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
        self::assertIsResource($process);
        [$output, $errors] = [stream_get_contents($pipes[1]), stream_get_contents($pipes[2])];
        self::assertSame(0, proc_close($process), "$output$errors");
        $row = ['name' => 'Ada', 'votes' => 10, 'score' => -0.5];
        self::assertEquals([
            true, true, [10, -0.5], [['uuid', $row], ['uuid', $row]], ['Ada', false, true, false, 1, 3], true, [true, false, 0, false, false], 'b',
        ], json_decode($output, true), "$output$errors");
    }
}
