<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

/**
 * The same application over laravel/octane, of a checkout that FERMATA_OCTANE names: 1.5.6 is the last for Debian's Laravel.
 */
class OctaneTest extends ServerTest
{
    protected const ENVIRONMENT = ['TEST_TASK_WORKERS' => '0'];

    public static function setUpBeforeClass(): void
    {
        $folder = getenv('FERMATA_OCTANE') ?: '';
        if ($folder === '') {
            self::markTestSkipped('not run: FERMATA_OCTANE names no checkout of laravel/octane');
        }
        if (!is_file("$folder/src/Worker.php")) {
            throw new \RuntimeException("$folder is no checkout of laravel/octane");
        }
        parent::setUpBeforeClass();
    }

    public static function tearDownAfterClass(): void
    {
        if (isset(self::$server)) {
            parent::tearDownAfterClass();
        }
    }

    public function testTasksRunAtTheSameTime(): void
    {
        $answer = self::$server->get('/concurrently')->json();
        self::assertSame(['a', 'b', 'late', 'own'], array_keys($answer));
        self::assertSame(['first', 'second', 'late'], array_map(static fn(string $result): string => strtok($result, ' '), array_values(array_slice($answer, 0, 3))));
        $this->assertRunsIn($answer['own'], explode(' ', $answer['a'])[1]);
    }

    protected function assertRunsIn(int $worker, string $process): void
    {
        self::assertSame((string) $worker, $process);
    }

    public function testTasksThatTakeTooLongAreFalse(): void
    {
        $answer = self::$server->get('/concurrently?wait=600&ms=5000')->json();
        self::assertFalse($answer['late']);
        self::assertStringStartsWith('second', (string) $answer['b']);
    }

    public function testWhatATaskThrowsIsThrown(): void
    {
        self::assertSame('DomainException: no such thing', self::$server->get('/concurrently/throw')->body);
    }

    public function testTheOwnTimeOfATaskEndsThatTaskAlone(): void
    {
        self::assertSame('its own time is over, and the others went on', self::$server->get('/concurrently/own-time')->body);
    }

    public function testDispatchedTasksRun(): void
    {
        $file = self::$server->get('/dispatch')->body;
        for ($deadline = microtime(true) + 60; @file_get_contents($file) !== 'done' && microtime(true) < $deadline; usleep(10_000)) {
        }
        self::assertSame('done', file_get_contents($file));
    }
}
