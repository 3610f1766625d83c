<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\CancelledException;
use Laravel\Octane\Contracts\DispatchesTasks;
use Laravel\Octane\Exceptions\TaskExceptionResult;

/**
 * Octane::concurrently() in the worker of the request: tasks that wait, for a database or another server, wait together.
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
                // It is no longer awaited.
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
            // It was reported, and nobody asks for results.
        }
    }
}
