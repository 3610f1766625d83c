<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\Laravel;

/**
 * Tests the same application with laravel/octane, in a checkout named by FERMATA_OCTANE. Debian's Laravel supports up to 1.5.6.
 */
class OctaneTest extends ServerTest
{
    protected const ENVIRONMENT = ['TEST_TASK_WORKERS' => '0', 'FERMATA_WORKERS' => '2'];

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

    public function testATableIsThatOfSwoole(): void
    {
        $row = ['name' => 'Ada', 'votes' => 10, 'score' => 0.5];
        self::assertEquals([
            true, true, true, [10, 0.5], ['uuid' => $row], [$row, 'Ada', false, false, true, false], 1, true, false, 0, 3,
        ], self::$server->get('/table')->json());
        self::assertSame('Value [much too long for it...] is too large for [name] column.', self::$server->get('/table/too-long')->body);
        self::assertSame("there is no table unknown; config/octane.php declares it under 'tables'", self::$server->get('/table/unknown')->body);
    }

    public function testTasksCountInOneTable(): void
    {
        $before = self::$server->get('/table/tasks')->json()[0];
        self::assertSame([$before + 3], self::$server->get('/table/tasks')->json());
    }

    public function testTheCacheIsOneForAllWorkers(): void
    {
        self::$server->get('/cache/put?key=shared&value=there');
        $workers = [];
        for ($deadline = microtime(true) + 60; \count($workers) < 2 && microtime(true) < $deadline;) {
            [$value, $worker] = self::$server->get('/cache/get?key=shared')->json();
            self::assertSame(['value' => 'there'], $value);
            $workers[$worker] = true;
        }
        self::assertCount(2, $workers);
        self::$server->get('/cache/put?key=short&value=there&seconds=1');
        sleep(2);
        self::assertNull(self::$server->get('/cache/get?key=short')->json()[0]);
    }

    public function testTheCacheDoesWhatStoresDo(): void
    {
        self::assertSame([
            [1, 5, 4], ['made', 'made'], [true, ['a' => 1, 'b' => 2, 'none' => null]], true, 'gone', true, null,
        ], self::$server->get('/cache/all')->json());
    }

    public function testAFullCacheForgetsWhatHasExpired(): void
    {
        [$kept, $message] = self::$server->get('/cache/full')->json();
        self::assertSame(5, $kept);
        self::assertStringStartsWith('the table has all of its 8 rows', $message);
    }
}
