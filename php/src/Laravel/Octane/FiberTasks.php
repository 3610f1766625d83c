<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\CancelledException;
use Laravel\Octane\Contracts\DispatchesTasks;
use Laravel\Octane\Exceptions\TaskExceptionResult;

/**
 * Runs the tasks of Octane::concurrently() in Fibers of the request's worker. Waits for databases or other servers overlap.
 *
 * @internal
 */
final class FiberTasks implements DispatchesTasks
{
    /**
     * @param array<array-key, callable> $tasks
     * @return array<array-key, mixed>
     */
    public function resolve(array $tasks, int $waitMilliseconds = 3000): array
    {
        return Results::of($tasks, $waitMilliseconds, static function (callable $task): mixed {
            try {
                return $task();
            } catch (CancelledException $error) {
                // resolve() no longer awaits the task.
                throw $error;
            } catch (\Throwable $error) {
                report($error);
                return TaskExceptionResult::from($error);
            }
        });
    }

    /** @param array<array-key, callable> $tasks */
    public function dispatch(array $tasks): void
    {
        try {
            $this->resolve($tasks);
        } catch (\Throwable) {
            // Exceptions are already reported, and dispatch() returns no result.
        }
    }
}
