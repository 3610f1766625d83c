<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Auth\Access\Gate;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Contracts\Pipeline\Hub;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
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

    public function __construct(private readonly Application $base)
    {
        $this->copy = clone $base;
    }

    public function handle(Request $request): Response
    {
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
        $this->copy->instance('request', $request);
        return $kernel->handle($request);
    }

    /** After the answer. */
    public function terminate(Request $request, Response $response): void
    {
        $this->copy->make(Kernel::class)->terminate($request, $response);
        $route = $request->route();
        if ($route instanceof Route && method_exists($route, 'flushController')) {
            $route->flushController();
        }
    }

    /** The end of it, however the request has ended. */
    public function close(): void
    {
        $this->copy->flush();
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
        if ($copy->resolved('db')) {
            foreach ($copy->make('db')->getConnections() as $connection) {
                // A transaction that the request before has left open would take in this one.
                $connection->rollBack(0);
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
