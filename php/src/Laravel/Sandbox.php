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
 * One request's copy of the application, as laravel/octane makes it: what the request resolves is in the copy and goes with
 * it; what was resolved when the application was booted is given the copy, and forgets the request before.
 *
 * @internal
 */
final class Sandbox
{
    /** Services that resolve others, by what tells them where from. */
    private const HOLDERS = [
        'router', 'view', 'validator', 'auth', 'db', 'cache', 'queue', 'mail.manager', 'filesystem', 'session', 'log',
        Gate::class, Hub::class, \Illuminate\Broadcasting\BroadcastManager::class, \Illuminate\Notifications\ChannelManager::class,
    ];

    private readonly Application $copy;

    /** What the application made while it booted, and the copy has with it, by name. @var array<string, mixed> */
    private array $made = [];

    private ?Kernel $kernel = null;

    /** What the application does after the answer, where that is known. */
    private ?Termination $termination = null;

    /** What the application had before the request. */
    private ?Request $idle = null;

    /** Carbon's providers, by the application that has them. @var \WeakMap<Application, list<object>>|null */
    private static ?\WeakMap $carbon = null;

    /** Whether it sets the request of the addresses, by who waits for one. @var \WeakMap<\Closure, bool>|null */
    private static ?\WeakMap $ofAddresses = null;

    /** Which method of a holder is told the container, by class; '' where there is none. @var array<class-string, string> */
    private static array $setters = [];

    private ?Request $request = null;

    /** @param Application|null $copy one that was made already, by laravel/octane */
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
        // Laravel's own puts the request in the copy first of all.
        return $this->kernel->handle($request);
    }

    /** Makes it the copy of this request. */
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
            // Those that were resolved at the boot are not of this request.
            $this->copy->forgetScopedInstances();
        }
        $this->made = self::instances($this->copy);
        $this->set('config', clone $this->made['config']);
        if (isset($this->made['view'])) {
            // What is shared with views in this request goes with it.
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

    /** Whether the application may have something to do after the answer. */
    public function hasTermination(Request $request): bool
    {
        if ($this->kernel === null) {
            return true;
        }
        $this->termination = Termination::of($this->kernel, $this->copy, $request);
        return !$this->termination->isEmpty($this->copy);
    }

    /** After the answer. */
    public function terminate(Request $request, Response $response): void
    {
        if ($this->kernel !== null) {
            $termination = $this->termination ?? Termination::of($this->kernel, $this->copy, $request);
            $termination->run($this->kernel, $this->copy, $request, $response);
        }
    }

    /** The end of it, however the request has ended. */
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

    /** What refers to itself stays until PHP looks for cycles, and with it all that the request had. */
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

    /** Services of the application that ask it for the request, or for addresses, get those of this one too. */
    private function giveRequest(Request $request): void
    {
        $this->idle = self::instances($this->base)['request'] ?? null;
        self::put($this->base, 'request', $request);
        // What this request sets, such as the root of its addresses, goes with it.
        $copy = $this->copy;
        $url = clone ($this->made['url'] ?? $copy->make('url'));
        $url->setSessionResolver(static fn() => $copy->bound('session') ? $copy->make('session') : null);
        $this->set('url', $url);
        // They have the one it was copied from.
        $copy->forgetInstance('redirect');
        $copy->forgetInstance(ResponseFactory::class);
    }

    /** Routes live as long as the worker, and keep the controller that they have made. */
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

    /** A transaction that the request has left open would keep its locks, and take in the next request. */
    private function rollBack(): void
    {
        // What only the copy has resolved is gone when octane has emptied it.
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

    /** Gives the copy a service of its own. */
    private function set(string $service, object $instance): void
    {
        self::put($this->copy, $service, $instance);
        $this->made[$service] = $instance;
    }

    /**
     * What a container keeps, by name. To ask it for one of them costs as much as to build a small service.
     *
     * @return array<string, mixed>
     */
    private static function instances(Container $container): array
    {
        static $instances = null;
        $instances ??= \Closure::bind(static fn(Container $container): array => $container->instances, null, Container::class);
        return $instances($container);
    }

    /** As instance() of the container, which asks itself for the service before it tells those who wait for another of it. */
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

    /** Whether it is Laravel's own, which asks the container for `url` and sets its request. */
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
            // Errors of the session before, which the middleware shares anew.
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
        // Carbon's own provider would follow the locale of the application that was booted.
        self::$carbon ??= new \WeakMap();
        foreach (self::$carbon[$this->base] ??= array_values($this->base->getProviders(\Carbon\Laravel\ServiceProvider::class)) as $provider) {
            if (method_exists($provider, 'setAppGetter')) {
                $provider->setAppGetter(Container::getInstance(...));
            }
            $provider->updateLocale();
        }
        // Callables of the server's own routes may have left a transaction too.
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
