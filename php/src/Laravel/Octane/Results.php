<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\TimeoutException;
use Laravel\Octane\Exceptions\{TaskExceptionResult, TaskTimeoutException};
use Laravel\Octane\Swoole\TaskResult;

use function Fermata\{all, timeout};

/**
 * What tasks that run at the same time return, as Octane promises it.
 *
 * @internal
 */
final class Results
{
    /**
     * @param array<array-key, callable> $tasks
     * @param \Closure(callable): mixed $run
     * @return array<array-key, mixed> by the keys of the tasks; false for one that has not ended in time
     * @throws TaskTimeoutException when none has
     * @throws \Laravel\Octane\Exceptions\TaskException what the first of those has thrown that have
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
