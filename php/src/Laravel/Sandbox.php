<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Contracts\Pipeline\Hub;
use Illuminate\Contracts\Routing\ResponseFactory;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Http\Kernel as HttpKernel;
use Illuminate\Http\Request;
use Illuminate\Pagination\PaginationState;
use Illuminate\Routing\{Route, Router, RoutingServiceProvider};
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\{NamespacedItemResolver, Str, ViewErrorBag};
use Illuminate\View\Factory;
use Symfony\Component\HttpFoundation\Response;

/**
 * A copy of the application for one request, as in laravel/octane. Services that the request resolves belong to the copy and are
 * released with it. Services resolved at boot are shared: they get the copy as their container and drop the state of the
 * previous request.
 *
 * @internal
 */
final class Sandbox
{
    /** Services that hold a reference to the container. */
    private const HOLDERS = [
        'router', 'view', 'validator', 'auth', 'db', 'cache', 'queue', 'mail.manager', 'filesystem', 'session', 'log',
        Gate::class, Hub::class, \Illuminate\Broadcasting\BroadcastManager::class, \Illuminate\Notifications\ChannelManager::class,
    ];

    private readonly Application $copy;

    /** Services of the copy that were resolved at boot, by name. @var array<string, mixed> */
    private array $made = [];

    private ?Kernel $kernel = null;

    /** Work after the response. Null if it is not determined yet. */
    private ?Termination $termination = null;

    /** Request of the base application before this request. It is restored at the end. */
    private ?Request $idle = null;

    /** Carbon's service providers by application. @var \WeakMap<Application, list<object>>|null */
    private static ?\WeakMap $carbon = null;

    /** True for rebinding callbacks that set the URL generator's request. @var \WeakMap<\Closure, bool>|null */
    private static ?\WeakMap $ofAddresses = null;

    /**
     * Name of the method that sets a service's container, by class. The name is '' if the class has no such method.
     *
     * @var array<class-string, string>
     */
    private static array $setters = [];

    private ?Request $request = null;

    /** @param Application|null $copy existing copy, made by laravel/octane; null: make one */
    public function __construct(private readonly Application $base, ?Application $copy = null)
    {
        $this->copy = $copy ?? clone $base;
    }

    public function handle(Request $request): Response
    {
        $this->adopt($request);
        if (!$this->kernel instanceof HttpKernel) {
            self::put($this->copy, 'request', $request);
        }
        // Laravel's own kernel binds the request in handle().
        return $this->kernel->handle($request);
    }

    /** Prepares the copy for a request that laravel/octane handles. */
    public function prepare(Request $request): void
    {
        $this->adopt($request);
        self::put($this->copy, 'request', $request);
    }

    private function adopt(Request $request): void
    {
        $this->request = $request;
        self::makeCurrent($this->copy);
        if (method_exists($this->copy, 'forgetScopedInstances')) {
            // Scoped instances resolved at boot do not belong to this request.
            $this->copy->forgetScopedInstances();
        }
        $this->made = self::instances($this->copy);
        $this->set('config', clone $this->made['config']);
        if (isset($this->made['view'])) {
            // Clone the factory, so that data shared with views in this request is released with the copy.
            $view = clone $this->made['view'];
            $view->share('__env', $view);
            $this->set('view', $view);
        }
        foreach (self::HOLDERS as $service) {
            $holder = $this->made[$service] ?? null;
            if ($holder === null && $this->copy->isAlias($service)) {
                $holder = $this->made[$this->copy->getAlias($service)] ?? null;
            }
            if ($holder !== null) {
                $this->give($service, $holder);
            }
        }
        $this->forget();
        $this->kernel = $this->made[Kernel::class] ?? $this->copy->make(Kernel::class);
        if (method_exists($this->kernel, 'setApplication')) {
            $this->kernel->setApplication($this->copy);
        }
        $request->enableHttpMethodParameterOverride();
        $this->giveRequest($request);
    }

    /** Returns true if the application may have work after the response. */
    public function hasTermination(Request $request): bool
    {
        if ($this->kernel === null) {
            return true;
        }
        $this->termination = Termination::of($this->kernel, $this->copy, $request);
        return !$this->termination->isEmpty($this->copy);
    }

    /** Terminates the request after the response was sent. */
    public function terminate(Request $request, Response $response): void
    {
        if ($this->kernel !== null) {
            $termination = $this->termination ?? Termination::of($this->kernel, $this->copy, $request);
            $termination->run($this->kernel, $this->copy, $request, $response);
        }
    }

    /** Cleans up after the request returned, threw or called exit(). */
    public function close(): void
    {
        try {
            $this->forgetRoute();
            $this->rollBack();
        } finally {
            $this->flush();
            $this->release();
        }
    }

    /** Breaks reference cycles, which would retain the request's objects until PHP's next cycle collection. */
    private function release(): void
    {
        static $unshare = null;
        $unshare ??= \Closure::bind(static function (Factory $view): void {
            $view->shared = [];
        }, null, Factory::class);
        if (($this->made['view'] ?? null) instanceof Factory) {
            $unshare($this->made['view']);
        }
        $this->made = [];
        $this->request = $this->kernel = $this->idle = null;
    }

    private function flush(): void
    {
        $this->copy->flush();
        if ($this->idle !== null) {
            self::put($this->base, 'request', $this->idle);
        }
        $engines = self::instances($this->base)['view.engine.resolver'] ?? null;
        if ($engines !== null && method_exists($engines, 'forget')) {
            $engines->forget('blade');
            $engines->forget('php');
        }
        self::makeCurrent($this->base);
    }

    /** Makes an application the global container, which facades and pagination use. */
    public static function makeCurrent(Application $application): void
    {
        self::put($application, 'app', $application);
        self::put($application, Container::class, $application);
        Container::setInstance($application);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($application);
        if (class_exists(PaginationState::class)) {
            PaginationState::resolveUsing($application);
        }
    }

    /** Binds the request in the base application, whose shared services resolve it, and gives the copy its own URL generator. */
    private function giveRequest(Request $request): void
    {
        $this->idle = self::instances($this->base)['request'] ?? null;
        self::put($this->base, 'request', $request);
        // Clone the URL generator, so that changes to it, such as forceRootUrl(), are released with the copy.
        $copy = $this->copy;
        $url = clone ($this->made['url'] ?? $copy->make('url'));
        $url->setSessionResolver(static fn() => $copy->bound('session') ? $copy->make('session') : null);
        $this->set('url', $url);
        // These services refer to the original URL generator, so resolve them again.
        $copy->forgetInstance('redirect');
        $copy->forgetInstance(ResponseFactory::class);
    }

    /** Drops the route's controller, which Laravel caches in the route for the life of the worker. */
    private function forgetRoute(): void
    {
        $router = self::instances($this->base)['router'] ?? $this->base->make('router');
        $current = $router->current();
        $own = $this->request?->route();
        foreach ($own === $current ? [$own] : [$current, $own] as $route) {
            if ($route instanceof Route && method_exists($route, 'flushController')) {
                $route->flushController();
            }
        }
        static $forget = null;
        $forget ??= \Closure::bind(static function (Router $router): void {
            $router->current = $router->currentRequest = null;
        }, null, Router::class);
        $forget($router);
    }

    /** Rolls back a transaction that the request left open. It would retain its locks and include the next request's queries. */
    private function rollBack(): void
    {
        // Fall back to the base application: Octane may have flushed the copy already.
        $databases = self::instances($this->copy)['db'] ?? self::instances($this->base)['db'] ?? null;
        foreach ($databases?->getConnections() ?? [] as $connection) {
            try {
                $connection->rollBack(0);
            } catch (\Throwable $error) {
                $connection->disconnect();
                $this->base->make(ExceptionHandler::class)->report($error);
            }
        }
    }

    private function give(string $service, object $holder): void
    {
        $setter = self::$setters[$holder::class] ??= match (true) {
            method_exists($holder, 'setApplication') => 'setApplication',
            method_exists($holder, 'setContainer') => 'setContainer',
            default => '',
        };
        if ($setter !== '') {
            $holder->$setter($this->copy);
        }
        if ($service === 'view') {
            $holder->share('app', $this->copy);
        }
    }

    /** Replaces a service in the copy only. */
    private function set(string $service, object $instance): void
    {
        self::put($this->copy, $service, $instance);
        $this->made[$service] = $instance;
    }

    /**
     * Returns the resolved instances of a container by name. Reading the array avoids make(), which costs as much as building a
     * small service.
     *
     * @return array<string, mixed>
     */
    private static function instances(Container $container): array
    {
        static $instances = null;
        $instances ??= \Closure::bind(static fn(Container $container): array => $container->instances, null, Container::class);
        return $instances($container);
    }

    /**
     * A faster version of Container::instance(). The original resolves the service again before it calls the rebinding callbacks.
     */
    private static function put(Container $container, string $service, object $instance): void
    {
        static $put = null;
        $put ??= \Closure::bind(static function (Container $container, string $service, object $instance): array {
            if (isset($container->aliases[$service])) {
                $container->instance($service, $instance);
                return [];
            }
            $isBound = isset($container->instances[$service]) || isset($container->bindings[$service]);
            $container->instances[$service] = $instance;
            return $isBound ? $container->reboundCallbacks[$service] ?? [] : [];
        }, null, Container::class);
        foreach ($put($container, $service, $instance) as $waiting) {
            $url = $service === 'request' && self::isOfAddresses($waiting) ? self::instances($container)['url'] ?? null : null;
            $url === null ? $waiting($container, $instance) : $url->setRequest($instance);
        }
    }

    /** Returns true for Laravel's own rebinding callback, which only sets the request of `url`. */
    private static function isOfAddresses(mixed $waiting): bool
    {
        self::$ofAddresses ??= new \WeakMap();
        return $waiting instanceof \Closure
            && (self::$ofAddresses[$waiting] ??= (new \ReflectionFunction($waiting))->getClosureScopeClass()?->name === RoutingServiceProvider::class);
    }

    private function forget(): void
    {
        $made = $this->made;
        if (isset($made['auth.driver'])) {
            $this->copy->forgetInstance('auth.driver');
        }
        if (isset($made['auth'])) {
            $made['auth']->forgetGuards();
        }
        if (isset($made['session'])) {
            $session = $made['session']->driver();
            $session->flush();
            $session->regenerate();
        }
        if (isset($made['cookie'])) {
            $made['cookie']->flushQueuedCookies();
        }
        if (isset($made['view'])) {
            $made['view']->flushState();
            // Drop the errors of the previous session. The middleware shares the errors of the current session.
            $made['view']->share('errors', new ViewErrorBag());
        }
        if (isset($made['translator'])) {
            $translator = $made['translator'];
            $translator->setLocale($made['config']->get('app.locale'));
            $translator->setFallback($made['config']->get('app.fallback_locale'));
            if ($translator instanceof NamespacedItemResolver && method_exists($translator, 'flushParsedKeys')) {
                $translator->flushParsedKeys();
            }
        }
        // By default Carbon's provider reads the locale of the base application.
        self::$carbon ??= new \WeakMap();
        foreach (self::$carbon[$this->base] ??= array_values($this->base->getProviders(\Carbon\Laravel\ServiceProvider::class)) as $provider) {
            if (method_exists($provider, 'setAppGetter')) {
                $provider->setAppGetter(Container::getInstance(...));
            }
            $provider->updateLocale();
        }
        // Handlers of the server's own routes may have left a transaction open too.
        $this->rollBack();
        if (isset($made['db'])) {
            foreach ($made['db']->getConnections() as $connection) {
                $connection->flushQueryLog();
                if (method_exists($connection, 'forgetRecordModificationState')) {
                    $connection->forgetRecordModificationState();
                }
            }
        }
        if (isset($made['cache']) && $made['config']->get('cache.stores.array') !== null) {
            $made['cache']->store('array')->flush();
        }
        if (isset($made['log'])) {
            $log = $made['log'];
            if (method_exists($log, 'withoutContext') && $log->getChannels() !== []) {
                $log->withoutContext();
            }
        }
        if (method_exists(Str::class, 'flushCache')) {
            Str::flushCache();
        }
    }
}
