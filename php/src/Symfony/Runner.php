<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Exception\{ConfigurationException, FermataException};
use Fermata\Internal\{Extension, FrontController, HttpFoundation, Routes};
use Fermata\{Hold, Request, Response};
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\ErrorHandler\ErrorRenderer\HtmlErrorRenderer;
use Symfony\Component\ErrorHandler\{BufferingLogger, ErrorHandler};
use Symfony\Component\EventDispatcher\EventDispatcherInterface;
use Symfony\Component\HttpFoundation\{Request as SymfonyRequest, Response as SymfonyResponse};
use Symfony\Component\HttpKernel\EventListener\StreamedResponseListener;
use Symfony\Component\HttpKernel\{HttpKernel, HttpKernelInterface, Kernel, KernelEvents, KernelInterface, TerminableInterface};
use Symfony\Component\Routing\RouterInterface;
use Symfony\Component\Runtime\RunnerInterface;

/**
 * Serves a Symfony kernel until the server is stopped. Runtime creates it.
 *
 * The kernel is booted once, before the workers are forked. For each request the kernel handles it, the server sends the
 * response, and the kernel terminates the request. Services are reset before the next request.
 */
final class Runner implements RunnerInterface
{
    private HttpKernelInterface $kernel;

    /** Container for which prepare() ran. Null if it has not run yet. */
    private ?ContainerInterface $container = null;

    /** Dispatcher of the kernel's terminate event. Null if terminate() may do more than dispatch that event. */
    private ?EventDispatcherInterface $terminating = null;

    /** Symfony's error handler; null: not installed. */
    private ?ErrorHandler $errors = null;

    public function __construct(
        HttpKernelInterface $kernel,
        private readonly Options $options,
    ) {
        $this->kernel = $kernel;
    }

    public function run(): int
    {
        Extension::require();
        // Do not use "cli", because libraries would write for a terminal instead of a page.
        \Fermata\Runtime::setSapiName('frankenphp');
        $_SERVER['APP_RUNTIME_MODE'] ??= $_ENV['APP_RUNTIME_MODE'] ?? 'web=1&worker=1';
        HttpFoundation::dumpToPages();
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
        }
        $this->errors = self::errorHandler();
        try {
            $this->serve();
        } catch (ConfigurationException $error) {
            // Print only the message, because Symfony would add one stack trace, or two in development.
            file_put_contents('php://stderr', "fermata: {$error->getMessage()}\n");
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
        $hasEscaped = false;
        try {
            $handled = $this->kernel->handle($request);
        } catch (\Throwable $error) {
            [$handled, $hasEscaped] = $this->pageOf($error, $request);
        } finally {
            if ($dumps !== null) {
                $dumps->hasReturned = true;
            }
        }
        if (Routes::$told !== null) {
            (Routes::$told)((string) $request->attributes->get('_route'));
        }
        $answer = HttpFoundation::answer($native, $handled);
        if ($hasEscaped) {
            return $answer;
        }
        $response = $handled;
        if ($this->terminating !== null && !$this->terminating->hasListeners(KernelEvents::TERMINATE)) {
            FrontController::nothingFollows();
        }
        return $answer;
    }

    /**
     * Returns the error page for an exception that the kernel threw, because no listener set a response. Under PHP-FPM Symfony's
     * handler of uncaught exceptions sends this page.
     *
     * Before Symfony 7, unless `handle_all_throwables` is set, the kernel does not catch an Error such as TypeError. Symfony's
     * handler then passes it to the kernel's listeners, which have already seen every Exception.
     *
     * @return array{SymfonyResponse, bool} the page; true if the exception ended the kernel's handling of the request
     */
    private function pageOf(\Throwable $error, SymfonyRequest $request): array
    {
        if ($error instanceof FermataException) {
            // The client disconnected, or its request is malformed.
            throw $error;
        }
        if ($error instanceof \Error) {
            try {
                $page = $this->handledBy($error, $request);
                if ($page !== null) {
                    return [$page, false];
                }
            } catch (\Throwable $error) {
                // Continue with the exception that a listener threw, or with the same error.
            }
        }
        if (!class_exists(HtmlErrorRenderer::class)) {
            throw $error;
        }
        error_log('Uncaught ' . $error);
        $isDebug = $this->kernel instanceof KernelInterface && $this->kernel->isDebug();
        $page = (new HtmlErrorRenderer($isDebug))->render($error);
        return [new SymfonyResponse($page->getAsString(), $page->getStatusCode(), $page->getHeaders()), true];
    }

    /** Returns the response of the kernel's listeners; null if the kernel is not Symfony's HttpKernel. */
    private function handledBy(\Error $error, SymfonyRequest $request): ?SymfonyResponse
    {
        $inner = $this->kernel instanceof KernelInterface ? $this->kernel->getContainer()->get('http_kernel') : null;
        if (!$inner instanceof HttpKernel || !method_exists(HttpKernel::class, 'handleThrowable')) {
            return null;
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
        // Before 6.1 this listener prints a streamed response itself, before handle() returns.
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
            // After exit() or an exception, the kernel still counts the request as active and would never reset its services.
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
            // Reset the services now, so that an idle worker retains no state of this request.
            $this->kernel->boot();
        }
    }

    /**
     * Rolls back Doctrine transactions that the request left open. Otherwise a commit in the next request would only end a nested
     * transaction.
     */
    private function rollBack(): void
    {
        $services = $this->container?->hasParameter('doctrine.connections') ? $this->container->getParameter('doctrine.connections') : [];
        foreach ($services as $service) {
            $connection = $this->container->initialized($service) ? $this->container->get($service) : null;
            if (!$connection?->isTransactionActive()) {
                continue;
            }
            if (!$connection->isAutoCommit()) {
                // With `auto_commit: false` a transaction is always open, because ending one starts the next.
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
     * Writes messages without a logger, such as deprecations in production, to PHP's log. Symfony buffers them with their traces
     * until the process ends.
     */
    private function writeKeptLogs(): void
    {
        $logger = $this->errors === null ? null : self::keptBy($this->errors);
        if ($logger !== null && ($kept = $logger->cleanLogs()) !== []) {
            // BufferingLogger writes the messages in its destructor.
            $writer = new BufferingLogger();
            foreach ($kept as $log) {
                $writer->log(...$log);
            }
        }
    }

    /**
     * Returns Symfony's error handler. PHP returns the current handler only when another handler is set. So this method sets
     * another one and then restores the current one.
     */
    private static function errorHandler(): ?ErrorHandler
    {
        $handler = set_error_handler(null);
        restore_error_handler();
        return is_array($handler) && $handler[0] instanceof ErrorHandler ? $handler[0] : null;
    }

    /**
     * Returns the logger that buffers messages when no other logger is set. Returns null if there is none. Reads the private
     * property, because the public method is slow.
     */
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
