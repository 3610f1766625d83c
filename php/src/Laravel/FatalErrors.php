<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\HandleExceptions;

/**
 * Shares Laravel's error handler between two applications in one process.
 *
 * `artisan fermata:start` boots the console application before the served one, and each boot registers a shutdown function that
 * logs fatal errors. To log a fatal error once, the second application receives the handler of the first.
 *
 * @internal
 */
final class FatalErrors
{
    /** Replaces HandleExceptions in the application. Call it before the application is bootstrapped. */
    public static function adopt(Application $application): void
    {
        $handler = self::current();
        if ($handler !== null && property_exists($handler, 'app')) {
            $application->instance(HandleExceptions::class, new self($handler));
        }
    }

    private function __construct(private readonly HandleExceptions $handler) {}

    /** Replaces HandleExceptions::bootstrap(). */
    public function bootstrap(Application $application): void
    {
        $set = \Closure::bind(static function (HandleExceptions $handler) use ($application): void {
            // The property is static since Laravel 9.
            (new \ReflectionProperty(HandleExceptions::class, 'app'))->isStatic() ? $handler::$app = $application : $handler->app = $application;
        }, null, HandleExceptions::class);
        $set($this->handler);
    }

    /** Returns PHP's current handler of uncaught exceptions. Returns null if it is not Laravel's. */
    private static function current(): ?HandleExceptions
    {
        $callable = set_exception_handler(null);
        restore_exception_handler();
        $object = match (true) {
            $callable instanceof \Closure => (new \ReflectionFunction($callable))->getClosureThis(),
            is_array($callable) => $callable[0],
            default => null,
        };
        return $object instanceof HandleExceptions ? $object : null;
    }
}
