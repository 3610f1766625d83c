<?php

declare(strict_types=1);

namespace Fermata\Revolt\Internal;

use Fermata\Sync\Queue;
use Revolt\EventLoop\Suspension;

/**
 * What suspends a handler or task of a server: it waits as in all of Fermata's waits, so its client, a timeout() around it and
 * a cancellation end it.
 *
 * @internal
 */
final class HandlerSuspension implements Suspension
{
    private readonly Queue $results;
    private bool $pending = false;

    /** Its wait was ended by something else, which whoever is to resume it cannot know. */
    private bool $abandoned = false;

    /** @param \Closure(bool): void $hold told when the wait begins and ends */
    public function __construct(private readonly \Closure $hold)
    {
        $this->results = new Queue();
    }

    public function resume(mixed $value = null): void
    {
        $this->end([$value, null]);
    }

    public function throw(\Throwable $throwable): void
    {
        $this->end([null, $throwable]);
    }

    public function suspend(): mixed
    {
        if ($this->pending) {
            throw new \Error('Must call resume() or throw() before calling suspend() again');
        }
        $this->pending = true;
        ($this->hold)(true);
        try {
            [$value, $thrown] = $this->results->pop();
        } catch (\Throwable $ended) {
            $this->abandoned = $this->pending;
            throw $ended;
        } finally {
            $this->pending = false;
            // Of a resume() that has come too late.
            $this->results->tryPop();
            ($this->hold)(false);
        }
        return $thrown ? throw $thrown : $value;
    }

    /** @param array{mixed, ?\Throwable} $result */
    private function end(array $result): void
    {
        if (!$this->pending && $this->abandoned) {
            $this->abandoned = false;
            return;
        }
        if (!$this->pending) {
            throw new \Error('Must call suspend() before calling resume() or throw()');
        }
        $this->pending = false;
        $this->results->tryPush($result);
    }
}
