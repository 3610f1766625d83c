<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\{FrontController, HttpFoundation};
use Fermata\{Hold, Request, Response};
use Symfony\Component\ErrorHandler\{BufferingLogger, ErrorHandler};
use Symfony\Component\EventDispatcher\EventDispatcherInterface;
use Symfony\Component\HttpFoundation\Request as SymfonyRequest;
use Symfony\Component\HttpKernel\EventListener\StreamedResponseListener;
use Symfony\Component\HttpKernel\{HttpKernelInterface, KernelEvents, KernelInterface, TerminableInterface};
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
    private ?object $container = null;

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
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
        }
        $this->errors = self::errorHandler();
        $server = FrontController::server($this->options->listen, $this->options->workers);
        $this->addRoutes($server);
        $front = new FrontController(
            $this->handle(...),
            $this->options->public,
            bodyBytes: $this->options->bodyBytes,
            requestsMax: $this->options->requestsMax,
            uploadBytes: $this->options->uploadBytes,
        );
        $front->register($server);
        $server->run();
        return 0;
    }

    private function addRoutes(\Fermata\Server $server): void
    {
        $container = $this->kernel instanceof KernelInterface ? $this->kernel->getContainer() : null;
        if ($container?->has(ServerRoutes::class)) {
            $container->get(ServerRoutes::class)->addTo($server);
        }
    }

    private function handle(Request $native): Response|Hold
    {
        $request = SymfonyRequest::createFromGlobals();
        $request->attributes->set('_fermata_request', $native);
        $response = null;
        if ($this->kernel instanceof KernelInterface) {
            $this->kernel->boot();
            $this->prepare($this->kernel);
        }
        FrontController::afterwards(function () use ($request, &$response): void {
            $this->finish($request, $response);
        });
        $handled = $this->kernel->handle($request);
        $answer = HttpFoundation::answer($native, $handled);
        $response = $handled;
        return $answer;
    }

    /** Before 6.1 Symfony prints a streamed response itself, before its end has come through. */
    private function prepare(KernelInterface $kernel): void
    {
        $container = $kernel->getContainer();
        if ($container === $this->container) {
            return;
        }
        $this->container = $container;
        $dispatcher = $container->has('event_dispatcher') ? $container->get('event_dispatcher') : null;
        if (!$dispatcher instanceof EventDispatcherInterface || !class_exists(StreamedResponseListener::class)) {
            return;
        }
        foreach ($dispatcher->getListeners(KernelEvents::RESPONSE) as $listener) {
            if (is_array($listener) && $listener[0] instanceof StreamedResponseListener) {
                $dispatcher->removeListener(KernelEvents::RESPONSE, $listener);
            }
        }
    }

    private function finish(SymfonyRequest $request, ?\Symfony\Component\HttpFoundation\Response $response): void
    {
        $this->writeKeptLogs();
        if ($response === null) {
            // exit(), or an exception: the kernel still counts the request, and would never reset its services.
            if ($this->kernel instanceof KernelInterface) {
                $this->kernel = clone $this->kernel;
            }
            return;
        }
        if ($this->kernel instanceof TerminableInterface) {
            $this->kernel->terminate($request, $response);
        }
        if ($this->kernel instanceof KernelInterface) {
            // Resets the services, so that nothing of this request is there while none runs.
            $this->kernel->boot();
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
