<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Exception\ConfigurationException;
use Fermata\Internal\{FrontController, HttpFoundation, Routes};
use Fermata\{Hold, Request, Response};
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\ErrorHandler\{BufferingLogger, ErrorHandler};
use Symfony\Component\EventDispatcher\EventDispatcherInterface;
use Symfony\Component\HttpFoundation\{Request as SymfonyRequest, Response as SymfonyResponse};
use Symfony\Component\HttpKernel\EventListener\StreamedResponseListener;
use Symfony\Component\HttpKernel\{HttpKernel, HttpKernelInterface, Kernel, KernelEvents, KernelInterface, TerminableInterface};
use Symfony\Component\Routing\RouterInterface;
use Symfony\Component\Runtime\RunnerInterface;

/**
 * Serves a kernel of Symfony until the server is stopped; Runtime makes it.
 *
 * The kernel is booted once, before the workers are forked. Each request is handled, sent, and then terminated; the services
 * are reset before the next begins.
 */
final class Runner implements RunnerInterface
{
    private HttpKernelInterface $kernel;

    /** Whose listeners have been prepared. */
    private ?ContainerInterface $container = null;

    /** Whose listeners are all that the kernel calls when it terminates; null where it may do something else. */
    private ?EventDispatcherInterface $terminating = null;

    /** Symfony's, where the application runs with it. */
    private ?ErrorHandler $errors = null;

    public function __construct(
        HttpKernelInterface $kernel,
        private readonly Options $options,
    ) {
        $this->kernel = $kernel;
    }

    public function run(): int
    {
        // A page is made of what Symfony would otherwise show to a terminal, since PHP runs on a command line.
        $_SERVER['APP_RUNTIME_MODE'] ??= $_ENV['APP_RUNTIME_MODE'] ?? 'web=1&worker=1';
        HttpFoundation::dumpToPages();
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
        }
        $this->errors = self::errorHandler();
        try {
            $this->serve();
        } catch (ConfigurationException $error) {
            // Symfony would show its trace, and two of them in development.
            fwrite(STDERR, "fermata: {$error->getMessage()}\n");
            return 1;
        }
        return 0;
    }

    private function serve(): void
    {
        $server = FrontController::server($this->options->listen, $this->options->workers);
        $this->addRoutes($server);
        Routes::$list = $this->routes(...);
        $front = new FrontController(
            $this->handle(...),
            $this->options->public,
            bodyBytes: $this->options->bodyBytes,
            requestsMax: $this->options->requestsMax,
            uploadBytes: $this->options->uploadBytes,
        );
        $front->register($server);
        $server->run();
    }

    private function addRoutes(\Fermata\Server $server): void
    {
        $container = $this->kernel instanceof KernelInterface ? $this->kernel->getContainer() : null;
        if ($container?->has(ServerRoutes::class)) {
            $container->get(ServerRoutes::class)->addTo($server);
        }
    }

    /** @return list<array{kind: string, method: string, path: string, handler: string}> */
    private function routes(): array
    {
        $container = $this->kernel instanceof KernelInterface ? $this->kernel->getContainer() : null;
        $router = $container?->has('router') ? $container->get('router') : null;
        $routes = [];
        foreach ($router instanceof RouterInterface ? $router->getRouteCollection()->all() : [] as $name => $route) {
            $controller = $route->getDefault('_controller');
            $handler = is_array($controller) && is_string($controller[0] ?? null) ? implode('::', $controller) : $controller;
            $routes[] = Routes::of($route->getMethods(), $route->getPath(), is_string($handler) ? "$name: $handler" : (string) $name);
        }
        return array_merge(...$routes);
    }

    private function handle(Request $native): Response|Hold
    {
        $request = HttpFoundation::withoutBody(SymfonyRequest::class) ?? SymfonyRequest::createFromGlobals();
        $request->attributes->set('_fermata_request', $native);
        $response = null;
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
            $this->prepare($this->kernel);
        }
        FrontController::afterwards(function () use ($request, &$response): void {
            $this->finish($request, $response);
        });
        $dumps = $this->container !== null && $this->kernel->isDebug() ? new KeptDumps($this->container) : null;
        try {
            $handled = $this->kernel->handle($request);
        } catch (\Error $error) {
            $handled = $this->pageOf($error, $request);
        } finally {
            if ($dumps !== null) {
                $dumps->hasReturned = true;
            }
        }
        if (Routes::$told !== null) {
            (Routes::$told)((string) $request->attributes->get('_route'));
        }
        $answer = HttpFoundation::answer($native, $handled);
        $response = $handled;
        if ($this->terminating !== null && !$this->terminating->hasListeners(KernelEvents::TERMINATE)) {
            FrontController::nothingFollows();
        }
        return $answer;
    }

    /**
     * Before Symfony 7, and unless `handle_all_throwables` is set, a kernel leaves errors such as a TypeError to the handler of
     * uncaught ones, which shows their page. Here that is the server, which does not know it.
     */
    private function pageOf(\Error $error, SymfonyRequest $request): SymfonyResponse
    {
        $inner = $this->kernel instanceof KernelInterface ? $this->kernel->getContainer()->get('http_kernel') : null;
        if (!$inner instanceof HttpKernel || !method_exists(HttpKernel::class, 'handleThrowable')) {
            throw $error;
        }
        $handle = \Closure::bind(static function (HttpKernel $kernel) use ($error, $request): SymfonyResponse {
            $kernel->requestStack->push($request);
            try {
                return $kernel->handleThrowable($error, $request, HttpKernelInterface::MAIN_REQUEST);
            } finally {
                $kernel->requestStack->pop();
            }
        }, null, HttpKernel::class);
        return $handle($inner);
    }

    private function prepare(KernelInterface $kernel): void
    {
        $container = $kernel->getContainer();
        if ($container === $this->container) {
            return;
        }
        $this->container = $container;
        $dispatcher = $container->has('event_dispatcher') ? $container->get('event_dispatcher') : null;
        $isSymfonys = $kernel instanceof Kernel && (new \ReflectionMethod($kernel, 'terminate'))->class === Kernel::class
            && !$container->has('http_cache') && $container->get('http_kernel')::class === HttpKernel::class;
        $this->terminating = $isSymfonys && $dispatcher instanceof EventDispatcherInterface ? $dispatcher : null;
        // Before 6.1 Symfony prints a streamed response itself, before its end has come through.
        if (!$dispatcher instanceof EventDispatcherInterface || !class_exists(StreamedResponseListener::class)) {
            return;
        }
        foreach ($dispatcher->getListeners(KernelEvents::RESPONSE) as $listener) {
            if (is_array($listener) && $listener[0] instanceof StreamedResponseListener) {
                $dispatcher->removeListener(KernelEvents::RESPONSE, $listener);
            }
        }
    }

    private function finish(SymfonyRequest $request, ?SymfonyResponse $response): void
    {
        $this->writeKeptLogs();
        if ($response === null) {
            $this->rollBack();
            // exit(), or an exception: the kernel still counts the request, and would never reset its services.
            if ($this->kernel instanceof KernelInterface) {
                $this->kernel = clone $this->kernel;
            }
            return;
        }
        try {
            if ($this->kernel instanceof TerminableInterface) {
                $this->kernel->terminate($request, $response);
            }
        } finally {
            $this->rollBack();
        }
        if ($this->kernel instanceof KernelInterface) {
            // Resets the services, so that nothing of this request is there while none runs.
            $this->kernel->boot();
        }
    }

    /** Of Doctrine: a transaction that the request has left open would take in the next one, whose commit is none then. */
    private function rollBack(): void
    {
        $services = $this->container?->hasParameter('doctrine.connections') ? $this->container->getParameter('doctrine.connections') : [];
        foreach ($services as $service) {
            $connection = $this->container->initialized($service) ? $this->container->get($service) : null;
            if (!$connection?->isTransactionActive()) {
                continue;
            }
            if (!$connection->isAutoCommit()) {
                // With `auto_commit: false` one is always open, and the end of another begins the next.
                $connection->close();
                continue;
            }
            error_log("a request has left a transaction of $service open, which is rolled back");
            try {
                for ($level = $connection->getTransactionNestingLevel(); $level > 0; $level--) {
                    $connection->rollBack();
                }
            } catch (\Throwable $error) {
                error_log("$service is closed: {$error->getMessage()}");
                $connection->close();
            }
        }
    }

    /**
     * Writes what no logger has taken, such as deprecations in production, to PHP's log: Symfony keeps it with its trace until the
     * process ends, which it takes for the end of the request.
     */
    private function writeKeptLogs(): void
    {
        $logger = $this->errors === null ? null : self::keptBy($this->errors);
        if ($logger !== null && ($kept = $logger->cleanLogs()) !== []) {
            // It writes them when it goes.
            $writer = new BufferingLogger();
            foreach ($kept as $log) {
                $writer->log(...$log);
            }
        }
    }

    /** To find it once is to set another and to put it back once. */
    private static function errorHandler(): ?ErrorHandler
    {
        $handler = set_error_handler(null);
        restore_error_handler();
        return is_array($handler) && $handler[0] instanceof ErrorHandler ? $handler[0] : null;
    }

    /** Its logger until it has been given one; it tells it only with those of all levels, which are many. */
    private static function keptBy(ErrorHandler $errors): ?BufferingLogger
    {
        static $read = null;
        $read ??= property_exists(ErrorHandler::class, 'bootstrappingLogger')
            ? \Closure::bind(static fn(ErrorHandler $errors): mixed => $errors->bootstrappingLogger, null, ErrorHandler::class)
            : static function (ErrorHandler $errors): ?BufferingLogger {
                foreach ($errors->setLoggers([]) as [$logger]) {
                    if ($logger instanceof BufferingLogger) {
                        return $logger;
                    }
                }
                return null;
            };
        $kept = $read($errors);
        return $kept instanceof BufferingLogger ? $kept : null;
    }
}
