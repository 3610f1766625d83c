<?php

declare(strict_types=1);

namespace Fermata\FrankenPhp;

use Composer\Autoload\ClassLoader;
use Fermata\Development\Tool;
use Fermata\Internal\{Extension, FrontController, Headers};
use Fermata\{Hold, Request, Response, Runtime, Server};

/**
 * Runs an unmodified FrankenPHP worker script.
 *
 * The script runs in a Fiber. frankenphp_handle_request() suspends the Fiber until a request arrives, then calls the script's
 * handler. The script resumes after the response was sent. The master runs the script up to the first
 * frankenphp_handle_request() and then forks the workers, so they share connections that the script opened before. Each worker
 * handles one request at a time and puts it into the superglobals.
 */
final class Worker
{
    /** Values that resume the script's Fiber. */
    private const REQUEST = 'request', GO_ON = 'go on', STOP = 'stop';

    private static ?self $current = null;

    private \Fiber $script;
    private readonly string $file;
    /** True while a request is being handled and the handler has made no response yet. */
    private bool $isAsked = false;
    /** True if the worker stops: the script's loop is to end. */
    private bool $hasEnded = false;
    /** Exception that the handler threw. It is kept until the response for it is made. */
    private ?\Throwable $thrown = null;
    /** True while the script's handler runs. */
    private bool $isHandling = false;
    private ?Request $request = null;
    /** True if the script can be included again, which fails for a script that declares functions or classes. */
    private bool $canBeginAgain = false;
    /** @var array<string, mixed> $_SERVER at the start of the script */
    private array $serverAtStart = [];

    /**
     * @param string $file the worker script
     * @param string|null $public the folder whose files are sent without running the script; default: the script's folder
     * @param string|list<string>|null $listen addresses; null = from the settings
     * @param int|null $workers number of workers; null = from the settings
     * @param int $requestsMax number of requests after which a worker is replaced; 0 = never
     * @param Server|null $server the server that runs the script for every path without another route, for example to hold clients
     *        on those routes. Requires Limits(handlers: 1). Default: a new server, with a Mercure hub if the environment has
     *        keys for it
     * @throws \ValueError if the file does not exist, if $listen or $workers is passed together with $server, or if the
     *         environment requests an unsupported hub feature
     */
    public function __construct(
        string $file,
        private readonly ?string $public = null,
        private readonly string|array|null $listen = null,
        private readonly ?int $workers = null,
        private readonly int $requestsMax = 0,
        private readonly ?Server $server = null,
    ) {
        if ($server !== null && ($listen !== null || $workers !== null)) {
            throw new \ValueError('listen and workers are those of the server that is given');
        }
        $path = realpath($file);
        if ($path === false) {
            throw new \ValueError("there is no file $file");
        }
        $this->file = $path;
    }

    /** Serves until the server is stopped. */
    public function run(): void
    {
        if (self::$current !== null) {
            throw new \LogicException('a process runs one worker script');
        }
        Extension::require();
        self::$current = $this;
        Runtime::setSapiName('frankenphp');
        require_once __DIR__ . '/functions.php';
        // Load the class now, because the script may later set open_basedir or an autoloader that prevents loading.
        class_exists(Headers::class);
        $_SERVER['FRANKENPHP_WORKER'] = '1';
        // dump() and dd() write HTML, because their output goes to the client.
        $_SERVER['VAR_DUMPER_FORMAT'] ??= 'html';
        $_SERVER['argv'] = [];
        $_SERVER['argc'] = 0;
        // Libraries treat a script with these variables as a command-line script.
        unset($GLOBALS['argv'], $GLOBALS['argc']);
        $_ENV['APP_RUNNING_IN_CONSOLE'] ??= 'false';
        $_SERVER['SCRIPT_FILENAME'] = $this->file;
        $this->serverAtStart = $_SERVER;
        $before = self::declared();
        // Output before the first request belongs to no response.
        $this->begin();
        $this->canBeginAgain = $this->areLoadedOnce(array_diff_key(self::declared(), $before));
        if ($this->script->isTerminated()) {
            throw new \LogicException("$this->file has ended without a call of frankenphp_handle_request()");
        }
        $server = $this->server ?? $this->ownServer();
        (new FrontController($this->handle(...), $this->public ?? dirname($this->file), requestsMax: $this->requestsMax))->register($server);
        $main = getmypid();
        register_shutdown_function(function () use ($main): void {
            // The worker is stopping. Let frankenphp_handle_request() return false, so that the script's loop ends. Do not do this
            // in the master.
            if (getmypid() !== $main && !$this->script->isTerminated() && !$this->script->isRunning()) {
                $this->script->resume(self::STOP);
            }
        });
        $server->run();
    }

    private function begin(): void
    {
        $this->script = new \Fiber(static function (string $file): void {
            require $file;
        });
        $this->script->start($this->file);
    }

    /** Starts the ended script again, for requests that the worker accepts before the master replaces it. */
    private function beginAgain(): void
    {
        if (!$this->canBeginAgain) {
            return;
        }
        $this->hasEnded = $this->isHandling = false;
        // Start the script without a request, and discard its output and headers.
        $ofRequest = [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, $_SERVER];
        [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, $_SERVER] = [[], [], [], [], [], $this->serverAtStart];
        ob_start();
        try {
            $this->begin();
        } finally {
            ob_end_clean();
            header_remove();
            http_response_code(200);
            [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, $_SERVER] = $ofRequest;
        }
    }

    /** @return array<string, list<class-string>> files that declare functions or classes, each with its classes */
    private static function declared(): array
    {
        $declared = [];
        foreach (get_defined_functions()['user'] as $name) {
            $declared[(string) (new \ReflectionFunction($name))->getFileName()] ??= [];
        }
        foreach ([...get_declared_classes(), ...get_declared_interfaces(), ...get_declared_traits()] as $name) {
            $class = new \ReflectionClass($name);
            // Anonymous classes may be declared repeatedly.
            if ($class->isUserDefined() && !$class->isAnonymous()) {
                $declared[(string) $class->getFileName()][] = $class->getName();
            }
        }
        return $declared;
    }

    /**
     * Returns true if Composer loads all of these files, since Composer loads each file once. The script may include other files
     * again with `require`.
     *
     * @param array<string, list<class-string>> $files with their classes
     */
    private function areLoadedOnce(array $files): bool
    {
        $loaders = class_exists(ClassLoader::class, false) ? ClassLoader::getRegisteredLoaders() : [];
        foreach ($files as $file => $classes) {
            if ($file === $this->file || !(self::isInside($file, [dirname(__DIR__), ...array_keys($loaders)]) || self::isFound($file, $classes, $loaders))) {
                return false;
            }
        }
        return true;
    }

    /** @param list<string> $folders */
    private static function isInside(string $file, array $folders): bool
    {
        foreach ($folders as $folder) {
            if (str_starts_with($file, $folder . DIRECTORY_SEPARATOR)) {
                return true;
            }
        }
        return false;
    }

    /**
     * @param list<class-string> $classes
     * @param array<string, ClassLoader> $loaders
     */
    private static function isFound(string $file, array $classes, array $loaders): bool
    {
        foreach ($classes as $class) {
            foreach ($loaders as $loader) {
                $found = $loader->findFile($class);
                if ($found !== false && realpath($found) === $file) {
                    return true;
                }
            }
        }
        return false;
    }

    private function ownServer(): Server
    {
        $server = FrontController::server($this->listen, $this->workers);
        $hub = Hub::ofEnvironment(getenv());
        if ($hub !== null) {
            $server->mercure($hub);
        }
        return $server;
    }

    private function handle(Request $request): Response|Hold
    {
        if ($this->script->isTerminated()) {
            $this->beginAgain();
        }
        if ($this->script->isTerminated()) {
            // No other worker can take over the request. See Runtime::replaceWorker().
            return new Response(503, "The worker is being replaced.\n", ['Retry-After' => '1']);
        }
        $this->request = $request;
        $this->isAsked = true;
        FrontController::afterwards($this->goOn(...));
        $this->script->resume(self::REQUEST);
        $answer = $this->answer();
        $thrown = $this->thrown;
        $this->thrown = null;
        // `fermata dev` shows an error page.
        return $thrown !== null && class_exists(Tool::class, false) ? Tool::answerTo($thrown, $request) ?? $answer : $answer;
    }

    /** Returns the handler's output and its header() lines as a response. */
    private function answer(): Response
    {
        $this->isAsked = false;
        return Response::relayed(0, '', []);
    }

    /** Called after the response was sent. Resumes the script until it waits for the next request. */
    private function goOn(): void
    {
        $this->request = null;
        try {
            while (!$this->script->isTerminated() && !$this->hasEnded) {
                if ($this->script->resume(self::GO_ON) === self::REQUEST) {
                    return;
                }
            }
        } finally {
            // The script has ended because of its request limit, exit() or an uncaught exception. The master replaces the worker.
            if ($this->script->isTerminated() && !$this->canBeginAgain) {
                Runtime::replaceWorker();
            } elseif ($this->script->isTerminated() || $this->hasEnded) {
                posix_kill(getmypid(), SIGTERM);
            }
        }
    }

    /** Implements frankenphp_handle_request(). */
    public static function handleRequest(callable $handler): bool
    {
        if (self::$current === null || \Fiber::getCurrent() !== self::$current->script) {
            throw new \RuntimeException('frankenphp_handle_request() is called by a worker script, in no fiber of its own');
        }
        if (self::$current->isHandling) {
            throw new \RuntimeException('frankenphp_handle_request() is called by the script, and not by the handler of a request');
        }
        if (\Fiber::suspend(self::REQUEST) !== self::REQUEST) {
            return false;
        }
        self::$current->isHandling = true;
        $level = ob_get_level();
        try {
            $handler();
            // Save the session before the response is sent: the client's next request may reach another worker immediately.
            if (self::$current->isAsked && function_exists('session_status') && session_status() === PHP_SESSION_ACTIVE) {
                session_write_close();
            }
        } catch (\Throwable $error) {
            // The response is sent before the script can catch the exception.
            if (self::$current->isAsked && http_response_code() === 200) {
                http_response_code(500);
            }
            self::$current->thrown = self::$current->isAsked ? $error : null;
            throw $error;
        } finally {
            self::$current->isHandling = false;
            // Flush output buffers that the handler left open.
            while (ob_get_level() > $level && ob_end_flush()) {
            }
            if (self::$current->isAsked) {
                self::pause();
            }
        }
        return true;
    }

    /** Implements frankenphp_finish_request(): sends the response, after which the handler continues. */
    public static function finishRequest(): bool
    {
        if (self::$current === null || !self::$current->isAsked || \Fiber::getCurrent() !== self::$current->script) {
            return false;
        }
        self::pause();
        return true;
    }

    /** Suspends the script while handle() returns the response and the server sends it. */
    private static function pause(): void
    {
        if (\Fiber::suspend(self::GO_ON) === self::STOP) {
            self::$current->hasEnded = true;
        }
    }

    /** @return array<string, string> */
    public static function requestHeaders(): array
    {
        $headers = [];
        foreach (self::$current?->request?->headers() ?? [] as $name => $values) {
            $headers[ucwords((string) $name, '-')] = implode(', ', (array) $values);
        }
        return $headers;
    }

    /** @return array<string, string> */
    public static function responseHeaders(): array
    {
        $headers = [];
        foreach (headers_list() as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[$name] = isset($headers[$name]) ? $headers[$name] . ', ' . ltrim($value) : ltrim($value);
        }
        return $headers;
    }
}
