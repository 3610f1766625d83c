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
use Illuminate\Http\Request;
use Illuminate\Pagination\PaginationState;
use Illuminate\Routing\Route;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\{NamespacedItemResolver, Str};
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

    /** What the application had before the request. */
    private ?Request $idle = null;

    private ?Request $request = null;

    /** @param Application|null $copy one that was made already, by laravel/octane */
    public function __construct(private readonly Application $base, ?Application $copy = null)
    {
        $this->copy = $copy ?? clone $base;
    }

    public function handle(Request $request): Response
    {
        $this->prepare($request);
        return $this->copy->make(Kernel::class)->handle($request);
    }

    /** Makes it the copy of this request. */
    public function prepare(Request $request): void
    {
        $this->request = $request;
        self::makeCurrent($this->copy);
        $this->copy->instance('config', clone $this->copy['config']);
        if ($this->copy->resolved('view')) {
            // What is shared with views in this request goes with it.
            $view = clone $this->copy->make('view');
            $view->share('__env', $view);
            $this->copy->instance('view', $view);
        }
        foreach (self::HOLDERS as $service) {
            $this->give($service);
        }
        $this->forget();
        $kernel = $this->copy->make(Kernel::class);
        if (method_exists($kernel, 'setApplication')) {
            $kernel->setApplication($this->copy);
        }
        $request->enableHttpMethodParameterOverride();
        $this->giveRequest($request);
    }

    /** After the answer. */
    public function terminate(Request $request, Response $response): void
    {
        $this->copy->make(Kernel::class)->terminate($request, $response);
    }

    /** The end of it, however the request has ended. */
    public function close(): void
    {
        try {
            $this->forgetRoute();
            $this->rollBack();
        } finally {
            $this->flush();
        }
    }

    private function flush(): void
    {
        $this->copy->flush();
        if ($this->idle !== null) {
            $this->base->instance('request', $this->idle);
        }
        if ($this->base->resolved('view.engine.resolver')) {
            $engines = $this->base->make('view.engine.resolver');
            if (method_exists($engines, 'forget')) {
                $engines->forget('blade');
                $engines->forget('php');
            }
        }
        self::makeCurrent($this->base);
    }

    public static function makeCurrent(Application $application): void
    {
        $application->instance('app', $application);
        $application->instance(Container::class, $application);
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
        // What this request sets, such as the root of its addresses, goes with it.
        $url = clone $this->copy->make('url');
        $url->setSessionResolver(fn() => $this->copy->bound('session') ? $this->copy->make('session') : null);
        $this->copy->instance('url', $url);
        // They have the one it was copied from.
        $this->copy->forgetInstance('redirect');
        $this->copy->forgetInstance(ResponseFactory::class);
        $this->idle = $this->base->bound('request') ? $this->base->make('request') : null;
        $this->base->instance('request', $request);
        $this->copy->instance('request', $request);
    }

    /** Routes live as long as the worker, and keep the controller that they have made. */
    private function forgetRoute(): void
    {
        $router = $this->base->make('router');
        $routes = [$router->current(), $this->request?->route()];
        foreach ($routes as $route) {
            if ($route instanceof Route && method_exists($route, 'flushController')) {
                $route->flushController();
            }
        }
        (function (): void {
            $this->current = $this->currentRequest = null;
        })->call($router);
    }

    /** A transaction that the request has left open would keep its locks, and take in the next request. */
    private function rollBack(): void
    {
        // What only the copy has resolved is gone when octane has emptied it.
        $application = $this->copy->resolved('db') ? $this->copy : $this->base;
        if (!$application->resolved('db')) {
            return;
        }
        foreach ($application->make('db')->getConnections() as $connection) {
            try {
                $connection->rollBack(0);
            } catch (\Throwable $error) {
                $connection->disconnect();
                $this->base->make(ExceptionHandler::class)->report($error);
            }
        }
    }

    private function give(string $service): void
    {
        if (!$this->copy->resolved($service)) {
            return;
        }
        $holder = $this->copy->make($service);
        foreach (['setApplication', 'setContainer'] as $method) {
            if (method_exists($holder, $method)) {
                $holder->$method($this->copy);
                break;
            }
        }
        if ($service === 'view') {
            $holder->share('app', $this->copy);
        }
    }

    private function forget(): void
    {
        $copy = $this->copy;
        $copy->forgetInstance('auth.driver');
        if ($copy->resolved('auth')) {
            $copy->make('auth')->forgetGuards();
        }
        if ($copy->resolved('session')) {
            $session = $copy->make('session')->driver();
            $session->flush();
            $session->regenerate();
        }
        if ($copy->resolved('cookie')) {
            $copy->make('cookie')->flushQueuedCookies();
        }
        if ($copy->resolved('view')) {
            $copy->make('view')->flushState();
            // Errors of the session before, which the middleware shares anew.
            $copy->make('view')->share('errors', new \Illuminate\Support\ViewErrorBag());
        }
        if ($copy->resolved('translator')) {
            $translator = $copy->make('translator');
            $translator->setLocale($copy['config']->get('app.locale'));
            $translator->setFallback($copy['config']->get('app.fallback_locale'));
            if ($translator instanceof NamespacedItemResolver && method_exists($translator, 'flushParsedKeys')) {
                $translator->flushParsedKeys();
            }
        }
        // Carbon's own provider would follow the locale of the application that was booted.
        foreach ($copy->getProviders(\Carbon\Laravel\ServiceProvider::class) as $provider) {
            if (method_exists($provider, 'setAppGetter')) {
                $provider->setAppGetter(Container::getInstance(...));
            }
            $provider->updateLocale();
        }
        // Callables of the server's own routes may have left a transaction too.
        $this->rollBack();
        if ($copy->resolved('db')) {
            foreach ($copy->make('db')->getConnections() as $connection) {
                $connection->flushQueryLog();
                if (method_exists($connection, 'forgetRecordModificationState')) {
                    $connection->forgetRecordModificationState();
                }
            }
        }
        if ($copy->resolved('cache') && $copy['config']->get('cache.stores.array') !== null) {
            $copy->make('cache')->store('array')->flush();
        }
        if ($copy->resolved('log')) {
            $log = $copy->make('log');
            if (method_exists($log, 'withoutContext') && $log->getChannels() !== []) {
                $log->withoutContext();
            }
        }
        if (method_exists(Str::class, 'flushCache')) {
            Str::flushCache();
        }
    }
}
