<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Exception\TimeoutException;
use Fermata\{Jobs, Server};
use Laravel\Octane\Contracts\DispatchesTasks;
use Laravel\Octane\Exceptions\TaskExceptionResult;
use Laravel\SerializableClosure\SerializableClosure;

/**
 * Runs the tasks of Octane::concurrently() in separate processes. Each task gets a copy of the application, as in Octane's task
 * workers.
 *
 * @internal
 */
final class ProcessTasks implements DispatchesTasks
{
    public function __construct(private readonly Jobs $jobs, private readonly Server $server) {}

    /**
     * @param array<array-key, callable> $tasks
     * @return array<array-key, mixed>
     */
    public function resolve(array $tasks, int $waitMilliseconds = 3000): array
    {
        return Results::of($tasks, $waitMilliseconds, function (callable $task): mixed {
            try {
                return $this->jobs->run('task', self::portable($task));
            } catch (TimeoutException $error) {
                // Only this task timed out. The others continue.
                report($error);
                return TaskExceptionResult::from($error);
            }
        });
    }

    /** @param array<array-key, callable> $tasks */
    public function dispatch(array $tasks): void
    {
        $jobs = $this->jobs;
        foreach ($tasks as $task) {
            $task = self::portable($task);
            $this->server->defer(static fn() => $jobs->run('task', $task));
        }
    }

    private static function portable(callable $task): callable
    {
        return $task instanceof \Closure ? new SerializableClosure($task) : $task;
    }
}
