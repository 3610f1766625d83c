<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\Internal\{Extension, FrontController, HttpFoundation, Routes};
use Fermata\{Hold, Request, Response, Runtime};
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\{RegisterProviders, SetRequestForConsole};
use Illuminate\Http\Request as LaravelRequest;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;

/**
 * Serves a Laravel application. It is booted once, before the workers are forked, and each request gets a copy of it.
 *
 * Start it with `php artisan fermata:start`, which ServiceProvider registers, or from a script:
 * `(new Fermata\Laravel\Server(__DIR__))->run();`
 */
final class Server
{
    private readonly Application $application;

    /** Octane's worker; null: laravel/octane is not installed. */
    private readonly ?Octane\Worker $octane;

    /** @var list<\Closure(\Fermata\Server): void> */
    private array $routes = [];

    /**
     * @param string $basePath the application's folder, which contains bootstrap/app.php
     * @param string|list<string>|null $listen
     * @param int $requestsMax number of requests after which a worker is replaced; 0 = never
     * @param int $taskWorkers with laravel/octane: number of processes for the tasks of Octane::concurrently(); 0 = run them in
     *        the request's worker
     * @param int|null $uploadBytes maximum size of an uploaded file; a larger file gets the error UPLOAD_ERR_INI_SIZE
     * @throws \RuntimeException if the folder contains no application
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
        Extension::require();
        // Do not use "cli", because Laravel and other libraries would assume a console.
        Runtime::setSapiName('frankenphp');
        $_ENV['APP_RUNNING_IN_CONSOLE'] = $_SERVER['APP_RUNNING_IN_CONSOLE'] = 'false';
        HttpFoundation::dumpToPages();
        // Also selects HTML for Laravel's own dump handler, which would otherwise write for a terminal.
        $_SERVER['VAR_DUMPER_FORMAT'] ??= 'html';
        $this->octane = class_exists(\Laravel\Octane\Worker::class) ? new Octane\Worker($basePath) : null;
        $this->application = $this->octane?->application() ?? $this->boot();
        $this->disconnect();
    }

    /**
     * Adds routes that the server handles without Laravel, such as WebSockets. Call it before run().
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
        $this->addEcho($server);
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

    /** Serves Laravel Echo if a connection of config/broadcasting.php has the driver `fermata` and a key. */
    private function addEcho(\Fermata\Server $server): void
    {
        foreach ($this->application->make('config')->get('broadcasting.connections') ?? [] as $connection) {
            $pusher = ($connection['driver'] ?? null) === 'fermata' ? Broadcaster::pusher($connection) : null;
            if ($pusher !== null) {
                $server->pusher($pusher);
            }
        }
    }

    /** @return array<string, string> target folders of the links in public/ that `artisan storage:link` creates, by link */
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
        FatalErrors::adopt($application);
        $kernel = $application->make(Kernel::class);
        $bootstrappers = (fn(): array => $this->bootstrappers())->call($kernel);
        // Bind a request first, because providers may resolve the request.
        $at = array_search(RegisterProviders::class, $bootstrappers, true);
        array_splice($bootstrappers, $at === false ? count($bootstrappers) : $at, 0, [SetRequestForConsole::class]);
        $application->bootstrapWith($bootstrappers);
        $application->loadDeferredProviders();
        // Resolve both services now, because cloning them for each request costs less than building them.
        foreach (['url', 'view'] as $service) {
            if ($application->bound($service)) {
                $application->make($service);
            }
        }
        return $application;
    }

    /** Closes connections that were opened during boot, because workers must not share them. */
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

    /** A faster version of LaravelRequest::capture(). The original builds a Symfony request and converts it in two steps. */
    private static function capture(): LaravelRequest
    {
        static $isQueryInput = null;
        if ($isQueryInput === null) {
            $probe = LaravelRequest::createFromBase(SymfonyRequest::create('/?a=1'));
            // In some Laravel versions a GET request's input bag is its query bag.
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
