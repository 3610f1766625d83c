<?php

declare(strict_types=1);

namespace Fermata\Revolt\Internal;

use Fermata\Sync\Queue;
use Revolt\EventLoop\Suspension;

/**
 * Suspends a handler or task of a server. Like every wait in Fermata, the wait ends early if the client disconnects, at a
 * timeout() around it, or on cancellation.
 *
 * @internal
 */
final class HandlerSuspension implements Suspension
{
    private readonly Queue $results;
    private bool $pending = false;

    /**
     * True after the wait has ended early. The next resume() or throw() is then ignored, because its caller cannot know that the
     * wait has ended.
     */
    private bool $abandoned = false;

    /** @param \Closure(bool): void $hold called with true when the wait starts and with false when it ends */
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
            // Discard the result of a late resume().
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
