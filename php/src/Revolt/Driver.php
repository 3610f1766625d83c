<?php

declare(strict_types=1);

namespace Fermata\Revolt;

use Fermata\Exception\CancelledException;
use Fermata\Future;
use Fermata\Poll;
use Fermata\Revolt\Internal\HandlerSuspension;
use Revolt\EventLoop;
use Revolt\EventLoop\Internal\AbstractDriver;
use Revolt\EventLoop\Internal\DriverCallback;
use Revolt\EventLoop\Internal\SignalCallback;
use Revolt\EventLoop\Internal\StreamCallback;
use Revolt\EventLoop\Internal\StreamReadableCallback;
use Revolt\EventLoop\Internal\TimerCallback;
use Revolt\EventLoop\Internal\TimerQueue;
use Revolt\EventLoop\Suspension;
use Revolt\EventLoop\UncaughtThrowable;
use Revolt\EventLoop\UnsupportedFeatureException;

use function Fermata\async;
use function Fermata\await;
use function Fermata\delay;
use function Fermata\shield;

/**
 * Runs Revolt's event loop in a worker, so that handlers can use AMPHP and other libraries built on Revolt.
 *
 * Call `EventLoop::setDriver(new Fermata\Revolt\Driver())` before `Server::run()`. In a worker the loop is a separate task. It
 * starts with the first callback and ends when no referenced callback is left. While the loop waits, the worker serves requests.
 * A handler that suspends in a Suspension waits as in `Fermata\delay()`. Outside a server this is an ordinary Revolt driver.
 */
final class Driver extends AbstractDriver
{
    /** Interval of the timer that keeps the loop running while a handler is suspended and no callback is referenced. */
    private const KEEP_ALIVE_SECONDS = 86_400.0;

    /** Delay before the loop is restarted after an error that no callback caused. */
    private const RETRY_SECONDS = 1.0;

    private readonly Poll $poll;
    private readonly TimerQueue $timers;
    private readonly float $started;

    /** @var array<int, array<string, StreamCallback>> by resource id of the stream, then callback id */
    private array $readable = [];

    /** @var array<int, array<string, StreamCallback>> by resource id of the stream, then callback id */
    private array $writable = [];

    /** @var array<int, array<string, SignalCallback>> by signal number, then callback id */
    private array $signals = [];

    /** Task that runs the loop in a worker; null: the loop is not running. */
    private ?Future $task = null;

    /** True while the loop blocks in dispatch() and must be woken for changes. */
    private bool $waits = false;

    /** Number of suspended handlers. */
    private int $suspended = 0;
    /** Callback id of the timer that keeps the loop running. Null if the timer is not created yet. */
    private ?string $keepAlive = null;

    public static function isSupported(): bool
    {
        return \class_exists(Poll::class, false);
    }

    public function __construct()
    {
        parent::__construct();
        $this->poll = new Poll();
        $this->timers = new TimerQueue();
        $this->started = \hrtime(true) / 1e9;
    }

    /**
     * Runs the loop until no referenced callback is left. In a handler it waits for that while other handlers run.
     */
    #[\Override]
    public function run(): void
    {
        if ($this->isServed()) {
            $this->begin();
            await($this->task);
        } else {
            parent::run();
        }
    }

    #[\Override]
    public function stop(): void
    {
        parent::stop();
        $this->tell();
    }

    #[\Override]
    public function queue(\Closure $closure, mixed ...$args): void
    {
        parent::queue($closure, ...$args);
        $this->tell();
    }

    #[\Override]
    public function defer(\Closure $closure): string
    {
        return $this->told(parent::defer($closure));
    }

    #[\Override]
    public function delay(float $delay, \Closure $closure): string
    {
        return $this->told(parent::delay($delay, $closure));
    }

    #[\Override]
    public function repeat(float $interval, \Closure $closure): string
    {
        return $this->told(parent::repeat($interval, $closure));
    }

    #[\Override]
    public function onReadable(mixed $stream, \Closure $closure): string
    {
        return $this->told(parent::onReadable($stream, $closure));
    }

    #[\Override]
    public function onWritable($stream, \Closure $closure): string
    {
        return $this->told(parent::onWritable($stream, $closure));
    }

    #[\Override]
    public function onSignal(int $signal, \Closure $closure): string
    {
        if (\Fermata\Poll::inHandler() && $signal === \SIGTERM) {
            throw new UnsupportedFeatureException('SIGTERM stops a worker of the server; end what you do in a shutdown function');
        }
        return $this->told(parent::onSignal($signal, $closure));
    }

    #[\Override]
    public function enable(string $callbackId): string
    {
        return $this->told(parent::enable($callbackId));
    }

    #[\Override]
    public function disable(string $callbackId): string
    {
        // Wake the loop, because it ends if no callback is left.
        return $this->told(parent::disable($callbackId));
    }

    #[\Override]
    public function reference(string $callbackId): string
    {
        return $this->told(parent::reference($callbackId));
    }

    #[\Override]
    public function unreference(string $callbackId): string
    {
        return $this->told(parent::unreference($callbackId));
    }

    #[\Override]
    public function getSuspension(): Suspension
    {
        return $this->isServed() ? new HandlerSuspension($this->hold(...)) : parent::getSuspension();
    }

    #[\Override]
    public function getHandle(): Poll
    {
        return $this->poll;
    }

    #[\Override]
    protected function now(): float
    {
        return \hrtime(true) / 1e9 - $this->started;
    }

    #[\Override]
    protected function activate(array $callbacks): void
    {
        foreach ($callbacks as $callback) {
            try {
                $this->activateOne($callback);
            } catch (\Throwable $unfit) {
                // Cancel the callback. Otherwise Revolt would retry the activation forever and never activate the others.
                if ($callback instanceof StreamCallback) {
                    $this->deactivate($callback);
                }
                $this->cancel($callback->id);
                parent::queue(fn () => $this->error($callback->closure, $unfit));
            }
        }
    }

    #[\Override]
    protected function deactivate(DriverCallback $callback): void
    {
        if ($callback instanceof TimerCallback) {
            $this->timers->remove($callback);
        } elseif ($callback instanceof StreamCallback) {
            $key = (int) $callback->stream;
            unset($this->readable[$key][$callback->id], $this->writable[$key][$callback->id]);
            if (\is_resource($callback->stream)) {
                $this->watch($callback->stream);
            } else {
                // The stream was closed, so stop watching it for all its callbacks.
                $this->poll->watch($callback->stream, false, false);
            }
        } elseif ($callback instanceof SignalCallback) {
            unset($this->signals[$callback->signal][$callback->id]);
            if (!$this->signals[$callback->signal]) {
                unset($this->signals[$callback->signal]);
                $this->poll->signal($callback->signal, false);
            }
        }
    }

    #[\Override]
    protected function dispatch(bool $blocking): void
    {
        $this->waits = $blocking;
        try {
            [$streams, $signals] = $this->poll->wait($blocking ? $this->untilTimer() : 0.0, background: true);
        } finally {
            $this->waits = false;
        }
        foreach ($streams as $key => $ready) {
            $this->enqueueAll($ready & 1 ? $this->readable[$key] ?? [] : []);
            $this->enqueueAll($ready & 2 ? $this->writable[$key] ?? [] : []);
        }
        $now = $this->now();
        while ($callback = $this->timers->extract($now)) {
            $this->enqueueCallback($callback);
        }
        foreach ($signals as $signal) {
            $this->enqueueAll($this->signals[$signal] ?? []);
        }
    }

    /** @param array<string, DriverCallback> $callbacks */
    private function enqueueAll(array $callbacks): void
    {
        foreach ($callbacks as $callback) {
            $this->enqueueCallback($callback);
        }
    }

    private function activateOne(DriverCallback $callback): void
    {
        if ($callback instanceof TimerCallback) {
            $this->timers->insert($callback);
        } elseif ($callback instanceof StreamReadableCallback) {
            $this->readable[(int) $callback->stream][$callback->id] = $callback;
            $this->watch($callback->stream);
        } elseif ($callback instanceof StreamCallback) {
            $this->writable[(int) $callback->stream][$callback->id] = $callback;
            $this->watch($callback->stream);
        } elseif ($callback instanceof SignalCallback) {
            $this->poll->signal($callback->signal, true);
            $this->signals[$callback->signal][$callback->id] = $callback;
        } else {
            throw new \Error('Unknown callback type: ' . $callback::class);
        }
    }

    /** Returns the seconds until the next timer. Returns null if there is no timer. */
    private function untilTimer(): ?float
    {
        $due = $this->timers->peek();
        return $due === null ? null : \max(0.0, $due - $this->now());
    }

    /** @param resource $stream */
    private function watch($stream): void
    {
        $key = (int) $stream;
        $reads = !empty($this->readable[$key]);
        $writes = !empty($this->writable[$key]);
        if (!$reads) {
            unset($this->readable[$key]);
        }
        if (!$writes) {
            unset($this->writable[$key]);
        }
        $this->poll->watch($stream, $reads, $writes);
    }

    /** Returns true in a handler or task of a server. The loop's own callbacks run in PHP Fibers and are excluded. */
    private function isServed(): bool
    {
        return Poll::inHandler() && \Fiber::getCurrent() === null;
    }

    /** @template T @param T $result @return T */
    private function told(mixed $result): mixed
    {
        $this->tell();
        return $result;
    }

    /** Wakes or starts the loop after a change. */
    private function tell(): void
    {
        if ($this->waits) {
            $this->poll->wake();
        } elseif ($this->task === null && Poll::inHandler()) {
            $this->begin();
        }
    }

    private function begin(): void
    {
        // Shield the loop, because it serves all handlers and must continue when this handler's client disconnects.
        $this->task ??= async(fn () => shield($this->serve(...)));
    }

    /** Runs the loop in a worker until no referenced callback is left. */
    private function serve(): void
    {
        try {
            try {
                parent::run();
                $this->task = null;
                return;
            } catch (CancelledException $ended) {
                throw $ended;
            } catch (\Throwable $uncaught) {
                // Outside a server the exception would end the script. Here a task that is not awaited logs it.
                async(static fn () => throw $uncaught);
            }
            if (!$uncaught instanceof UncaughtThrowable) {
                delay(self::RETRY_SECONDS);
            }
        } catch (CancelledException) {
            // The worker is stopping.
            $this->task = null;
            return;
        }
        $this->task = null;
        $this->begin();
    }

    /** Keeps the loop running while any handler is suspended, since a loop callback may have to resume the handler. */
    private function hold(bool $begins): void
    {
        $this->suspended += $begins ? 1 : -1;
        if ($begins && $this->suspended === 1) {
            $this->keepAlive ??= parent::repeat(self::KEEP_ALIVE_SECONDS, static function (): void {});
            $this->reference($this->keepAlive);
        } elseif (!$begins && $this->suspended === 0 && $this->keepAlive !== null) {
            $this->unreference($this->keepAlive);
        }
    }
}
