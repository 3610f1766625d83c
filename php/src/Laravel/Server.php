<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\Internal\{FrontController, HttpFoundation, Routes};
use Fermata\{Hold, Request, Response};
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\{RegisterProviders, SetRequestForConsole};
use Illuminate\Http\Request as LaravelRequest;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;

/**
 * Serves a Laravel application: it is booted once, before the workers are forked, and each request gets a copy of it.
 *
 * `php artisan fermata:start` does this with a ServiceProvider; a program of its own is
 * `(new Fermata\Laravel\Server(__DIR__))->run();`
 */
final class Server
{
    private readonly Application $application;

    /** Octane's worker, where laravel/octane is installed. */
    private readonly ?Octane\Worker $octane;

    /** @var list<\Closure(\Fermata\Server): void> */
    private array $routes = [];

    /**
     * @param string $basePath the application's folder, with bootstrap/app.php
     * @param string|list<string>|null $listen
     * @param int $requestsMax after so many requests a worker is replaced; 0 = never
     * @param int $taskWorkers with laravel/octane: processes that Octane::concurrently() runs its tasks in; 0 = the worker itself
     * @param int|null $uploadBytes a larger file has the error UPLOAD_ERR_INI_SIZE, in place of a refusal of the request
     * @throws \RuntimeException when there is no application
     */
    public function __construct(
        private readonly string $basePath,
        private readonly string|array|null $listen = null,
        private readonly ?int $workers = null,
        private readonly ?int $bodyBytes = null,
        private readonly int $requestsMax = 0,
        private readonly int $taskWorkers = 0,
        private readonly ?int $uploadBytes = null,
    ) {
        // It serves, although PHP runs on a command line.
        $_ENV['APP_RUNNING_IN_CONSOLE'] = $_SERVER['APP_RUNNING_IN_CONSOLE'] = 'false';
        HttpFoundation::dumpToPages();
        // Laravel, which has chosen the terminal for its console already, leaves that as it is.
        $_SERVER['VAR_DUMPER_FORMAT'] ??= 'html';
        $this->octane = class_exists(\Laravel\Octane\Worker::class) ? new Octane\Worker($basePath) : null;
        $this->application = $this->octane?->application() ?? $this->boot();
        $this->disconnect();
    }

    /**
     * Adds routes of the server's own, such as WebSockets, before it runs.
     *
     * @param \Closure(\Fermata\Server): void $routes
     */
    public function routes(\Closure $routes): static
    {
        $this->routes[] = $routes;
        return $this;
    }

    public function run(): void
    {
        $server = FrontController::server($this->listen, $this->workers);
        $this->octane?->addTasks($server, $this->taskWorkers);
        foreach ($this->routes as $routes) {
            $routes($server);
        }
        Routes::$list = $this->applicationRoutes(...);
        $public = $this->basePath . '/public';
        $front = new FrontController(
            $this->octane === null ? $this->handle(...) : $this->octane->handle(...),
            is_dir($public) ? $public : null,
            bodyBytes: $this->bodyBytes,
            requestsMax: $this->requestsMax,
            linked: array_values($this->links()),
            uploadBytes: $this->uploadBytes,
        );
        $front->register($server);
        $this->octane?->announceStop();
        $server->run();
    }

    /** @return array<string, string> the folders that `artisan storage:link` links into public/, by link */
    private function links(): array
    {
        $default = [$this->basePath . '/public/storage' => $this->application->storagePath() . '/app/public'];
        return $this->application->make('config')->get('filesystems.links', $default) ?? $default;
    }

    /** @return list<array{kind: string, method: string, path: string, handler: string}> */
    private function applicationRoutes(): array
    {
        $routes = [];
        foreach ($this->application->make('router')->getRoutes()->getRoutes() as $route) {
            $routes[] = Routes::of($route->methods(), '/' . ltrim($route->uri(), '/'), $route->getActionName());
        }
        return array_merge(...$routes);
    }

    private function boot(): Application
    {
        $file = $this->basePath . '/bootstrap/app.php';
        $application = is_file($file) ? require $file : null;
        if (!$application instanceof Application) {
            throw new \RuntimeException("there is no application of Laravel in $file");
        }
        $kernel = $application->make(Kernel::class);
        $bootstrappers = (fn(): array => $this->bootstrappers())->call($kernel);
        // Providers may ask for the request before there is one.
        $at = array_search(RegisterProviders::class, $bootstrappers, true);
        array_splice($bootstrappers, $at === false ? count($bootstrappers) : $at, 0, [SetRequestForConsole::class]);
        $application->bootstrapWith($bootstrappers);
        $application->loadDeferredProviders();
        // Each request gets a copy of these two, which costs less than to build them.
        foreach (['url', 'view'] as $service) {
            if ($application->bound($service)) {
                $application->make($service);
            }
        }
        return $application;
    }

    /** What providers have opened while they booted would be one connection, shared by all workers. */
    private function disconnect(): void
    {
        if ($this->application->resolved('db')) {
            foreach ($this->application->make('db')->getConnections() as $connection) {
                $connection->disconnect();
            }
        }
        if ($this->application->resolved('redis')) {
            $redis = $this->application->make('redis');
            array_map($redis->purge(...), array_keys($redis->connections() ?? []));
        }
    }

    private function handle(Request $native): Response|Hold
    {
        $request = self::capture();
        $request->attributes->set('_fermata_request', $native);
        $sandbox = new Sandbox($this->application);
        $response = null;
        FrontController::afterwards(static function () use ($sandbox, $request, &$response): void {
            try {
                if ($response !== null) {
                    $sandbox->terminate($request, $response);
                }
            } finally {
                $sandbox->close();
            }
        });
        $handled = $sandbox->handle($request);
        if (Routes::$told !== null && ($route = $request->route()) !== null) {
            (Routes::$told)('/' . ltrim($route->uri(), '/'));
        }
        $answer = HttpFoundation::answer($native, $handled);
        $response = $handled;
        if (!$sandbox->hasTermination($request)) {
            FrontController::nothingFollows();
        }
        return $answer;
    }

    /** LaravelRequest::capture(), which makes a request of Symfony's first, and of that its own in two steps. */
    private static function capture(): LaravelRequest
    {
        static $isQueryInput = null;
        if ($isQueryInput === null) {
            $probe = LaravelRequest::createFromBase(SymfonyRequest::create('/?a=1'));
            // In some versions the input of GET is its query.
            $isQueryInput = $probe->request === $probe->query;
        }
        $request = HttpFoundation::withoutBody(LaravelRequest::class);
        if ($request === null) {
            return LaravelRequest::capture();
        }
        LaravelRequest::enableHttpMethodParameterOverride();
        if ($isQueryInput) {
            $request->request = $request->query;
        }
        return $request;
    }
}
