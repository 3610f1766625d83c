<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Illuminate\Foundation\Application;
use Illuminate\Foundation\Events\Terminating;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Routing\{Route, Router};
use Symfony\Component\HttpFoundation\Response;

/**
 * A faster version of Kernel::terminate() of Laravel 8 to 10. The original resolves the route's middleware again and builds each
 * object, although few of these have a method terminate(). This class builds only those objects that may have the method.
 *
 * @internal
 */
final class Termination
{
    /** Maximum number of cached routes. When it is reached, the cache is cleared. */
    private const ROUTES_MAX = 1000;

    /** True for kernel classes that do not override Laravel's termination. @var array<class-string, bool> */
    private static array $isLaravels = [];

    /**
     * Middleware classes in order, each with true if the class may have the method terminate(). The key is made from the route's
     * middleware names.
     *
     * @var array<string, list<array{string, bool}>>
     */
    private static array $routes = [];

    /** Router, its settings and the kernel's middleware for which `$routes` is valid. @var list<mixed> */
    private static array $settings = [];

    /** @param list<string>|null $classes middleware that may have terminate(); null: call Laravel's own termination */
    private function __construct(private readonly ?array $classes) {}

    public static function of(object $kernel, Application $application, Request $request): self
    {
        $isLaravels = self::$isLaravels[$kernel::class] ??= self::isLaravels($kernel);
        $middleware = $isLaravels && !$application->bound('middleware.disable') ? self::middleware($kernel, $request) : null;
        return new self($middleware === null ? null : self::toMake($application, $middleware));
    }

    /** Returns true if the application has no work after the response. */
    public function isEmpty(Application $application): bool
    {
        static $hasCallbacks = null;
        $hasCallbacks ??= \Closure::bind(static fn(Application $it): bool => $it->terminatingCallbacks !== [], null, Application::class);
        return $this->classes === [] && !$hasCallbacks($application);
    }

    public function run(object $kernel, Application $application, Request $request, Response $response): void
    {
        if ($this->classes === null) {
            $kernel->terminate($request, $response);
            return;
        }
        foreach ($this->classes as $class) {
            $instance = $application->make($class);
            if (method_exists($instance, 'terminate')) {
                $instance->terminate($request, $response);
            }
        }
        $application->terminate();
        static $end = null;
        $end ??= \Closure::bind(static function (Kernel $kernel): void {
            if (isset($kernel->requestStartedAt)) {
                $kernel->requestStartedAt = null;
            }
        }, null, Kernel::class);
        $end($kernel);
    }

    private static function isLaravels(object $kernel): bool
    {
        // Laravel 11 dispatches the event Terminating first.
        if (!$kernel instanceof Kernel || class_exists(Terminating::class) || !property_exists(Application::class, 'terminatingCallbacks')) {
            return false;
        }
        foreach (['terminate', 'terminateMiddleware', 'gatherRouteMiddleware', 'parseMiddleware'] as $method) {
            if (!method_exists($kernel, $method) || (new \ReflectionMethod($kernel, $method))->class !== Kernel::class) {
                return false;
            }
        }
        return true;
    }

    /** @return list<array{string, bool}>|null null if the middleware cannot be determined without Laravel */
    private static function middleware(Kernel $kernel, Request $request): ?array
    {
        static $read = null;
        $read ??= \Closure::bind(static fn(Kernel $kernel): array => [
            $kernel->router, $kernel->middleware, isset($kernel->requestLifecycleDurationHandlers) && $kernel->requestLifecycleDurationHandlers !== [],
        ], null, Kernel::class);
        [$router, $own, $isMeasured] = $read($kernel);
        $route = $request->route();
        if ($isMeasured || ($route !== null && !$route instanceof Route) || $router::class !== Router::class) {
            return null;
        }
        $settings = [$router, $router->getMiddleware(), $router->getMiddlewareGroups(), $router->middlewarePriority, $own];
        if ($settings !== self::$settings || count(self::$routes) >= self::ROUTES_MAX) {
            self::$settings = $settings;
            self::$routes = [];
        }
        $names = $route === null ? [] : [...$route->gatherMiddleware(), '', ...$route->excludedMiddleware()];
        foreach ($names as $name) {
            if (!is_string($name)) {
                return null;
            }
        }
        return self::$routes[implode("\n", $names)] ??= self::find($route === null ? $own : array_merge($router->gatherRouteMiddleware($route), $own));
    }

    /**
     * @param array<mixed> $middleware
     * @return list<array{string, bool}>
     */
    private static function find(array $middleware): array
    {
        $found = [];
        foreach ($middleware as $name) {
            if (is_string($name)) {
                $class = explode(':', $name, 2)[0];
                // A name that is not a class may be a container binding, so let the application resolve it.
                $found[] = [$class, !class_exists($class) || method_exists($class, 'terminate')];
            }
        }
        return $found;
    }

    /**
     * Returns the classes with the method, and those that the container builds from a binding. For the latter, only the instance
     * shows whether it has the method.
     *
     * @param list<array{string, bool}> $middleware
     * @return list<string>
     */
    private static function toMake(Application $application, array $middleware): array
    {
        static $read = null;
        $read ??= \Closure::bind(static function (Application $it, array $middleware): array {
            $classes = [];
            foreach ($middleware as [$class, $isTerminable]) {
                $isMade = isset($it->instances[$class]) && !isset($it->aliases[$class]);
                $mayHave = $isMade
                    ? method_exists($it->instances[$class], 'terminate')
                    : $isTerminable || isset($it->bindings[$class]) || isset($it->aliases[$class]) || isset($it->extenders[$class])
                        || isset($it->deferredServices[$class]);
                if ($mayHave) {
                    $classes[] = $class;
                }
            }
            return $classes;
        }, null, Application::class);
        return $read($application, $middleware);
    }
}
