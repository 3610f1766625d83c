<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Internal\FrontController;
use Fermata\Laravel\Sandbox;
use Fermata\{Hold, Request, Response, Server};
use Illuminate\Container\Container;
use Illuminate\Foundation\Application;
use Illuminate\Http\Response as LaravelResponse;
use Laravel\Octane\Contracts\DispatchesTasks;
use Laravel\Octane\Events\{RequestReceived, RequestTerminated};
use Laravel\Octane\{RequestContext, Worker as OctaneWorker};

/**
 * Handles requests with Octane's worker and the listeners, services and limits of config/octane.php.
 *
 * Each request runs in a separate Fiber. The Fiber is suspended while the server sends the response, then Octane terminates the
 * request in it.
 *
 * @internal
 */
final class Worker
{
    private readonly OctaneWorker $worker;
    private readonly Client $client;

    /** PHP time limit of a request in seconds; 0: unlimited. */
    private readonly int $secondsMax;

    /** Sandbox of the current request. It is closed after the request. */
    private ?Sandbox $sandbox = null;

    public function __construct(string $basePath)
    {
        $_SERVER['LARAVEL_OCTANE'] ??= $_ENV['LARAVEL_OCTANE'] ??= '1';
        $this->client = new Client();
        $this->worker = new OctaneWorker(new Factory($basePath), $this->client);
        $this->worker->boot();
        // Register this listener after Octane's listeners, so that it resets the state that they leave behind.
        $this->application()->make('events')->listen(RequestReceived::class, function (RequestReceived $event): void {
            $this->sandbox = new Sandbox($event->app, $event->sandbox);
            $this->sandbox->prepare($event->request);
        });
        $this->secondsMax = (int) $this->application()->make('config')->get('octane.max_execution_time', 30);
    }

    public function application(): Application
    {
        return $this->worker->application();
    }

    /** Runs Octane::concurrently() and Octane::tick() in task processes; with 0 processes, tasks run in the request's worker. */
    public function addTasks(Server $server, int $processes): void
    {
        $application = $this->application();
        if ($processes === 0) {
            $application->instance(DispatchesTasks::class, new FiberTasks());
            return;
        }
        $worker = $this->worker;
        $jobs = $server->jobs($processes);
        $jobs->add('task', static fn(mixed $task): mixed => $worker->handleTask($task));
        $application->instance(DispatchesTasks::class, new ProcessTasks($jobs, $server));
        if ($application->make('config')->get('octane.tick', true)) {
            $jobs->add('tick', static fn() => $worker->handleTick());
            $server->every(1.0, static fn() => $jobs->run('tick'));
        }
    }

    /** Makes Octane dispatch its WorkerStopping event when a worker stops. */
    public function announceStop(): void
    {
        $main = getmypid();
        $worker = $this->worker;
        register_shutdown_function(static function () use ($main, $worker): void {
            if (getmypid() !== $main) {
                $worker->terminate();
            }
        });
    }

    public function handle(Request $native): Response|Hold
    {
        if ($this->secondsMax > 0) {
            set_time_limit($this->secondsMax);
        }
        $fiber = new \Fiber(function () use ($native): void {
            [$request, $context] = $this->client->marshalRequest(new RequestContext(['native' => $native]));
            $this->worker->handle($request, $context);
        });
        FrontController::afterwards(function () use ($fiber): void {
            if ($fiber->isSuspended()) {
                $fiber->resume();
            }
            $this->leave();
        });
        return $fiber->start();
    }

    private function leave(): void
    {
        $application = $this->application();
        $copy = Container::getInstance();
        if ($copy !== $application && $copy instanceof Application) {
            // exit() skipped Octane's own termination of the request.
            $copy->make('events')->dispatch(new RequestTerminated($application, $copy, $copy->make('request'), new LaravelResponse()));
        }
        $this->sandbox?->close();
        $this->sandbox = null;
    }
}
