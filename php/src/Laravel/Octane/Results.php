<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\TimeoutException;
use Laravel\Octane\Exceptions\{TaskExceptionResult, TaskTimeoutException};
use Laravel\Octane\Swoole\TaskResult;

use function Fermata\{all, timeout};

/**
 * Runs tasks concurrently and collects their results in the form that Octane specifies.
 *
 * @internal
 */
final class Results
{
    /**
     * @param array<array-key, callable> $tasks
     * @param \Closure(callable): mixed $run
     * @return array<array-key, mixed> results by the keys of the tasks; false for a task that timed out
     * @throws TaskTimeoutException if all tasks timed out
     * @throws \Laravel\Octane\Exceptions\TaskException if a task threw; the first exception
     */
    public static function of(array $tasks, int $waitMilliseconds, \Closure $run): array
    {
        $ended = [];
        $works = [];
        foreach ($tasks as $key => $task) {
            $works[] = static function () use ($key, $task, $run, &$ended): void {
                $ended[$key] = $run($task);
            };
        }
        try {
            timeout($waitMilliseconds / 1000, static fn(): array => all(...$works));
        } catch (TimeoutException) {
            if ($ended === []) {
                throw TaskTimeoutException::after($waitMilliseconds);
            }
        }
        $results = [];
        foreach ($tasks as $key => $_) {
            $result = \array_key_exists($key, $ended) ? $ended[$key] : false;
            if ($result instanceof TaskExceptionResult) {
                throw $result->getOriginal();
            }
            $results[$key] = $result instanceof TaskResult ? $result->result : $result;
        }
        return $results;
    }
}
