<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

/** Tests Octane's tasks in separate processes. */
final class OctaneTasksTest extends OctaneTest
{
    protected const ENVIRONMENT = ['TEST_TASK_WORKERS' => '3', 'FERMATA_WORKERS' => '2'];

    protected function assertRunsIn(int $worker, string $process): void
    {
        self::assertNotSame((string) $worker, $process);
    }

    public function testTicksComeInOneProcess(): void
    {
        for ($deadline = microtime(true) + 60; self::$server->get('/ticks')->body === '' && microtime(true) < $deadline; usleep(50_000)) {
        }
        self::assertStringStartsWith('.', self::$server->get('/ticks')->body);
    }

    public function testAnIntervalIsMadeAnew(): void
    {
        $seen = [];
        for ($deadline = microtime(true) + 60; \count($seen) < 2 && microtime(true) < $deadline; usleep(50_000)) {
            $seen[self::$server->get('/cache/interval')->json()[0]] = true;
        }
        self::assertCount(2, $seen);
    }
}
