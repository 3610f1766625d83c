<?php

declare(strict_types=1);

namespace Fermata\FrankenPhp;

use Composer\Autoload\ClassLoader;
use Fermata\Development\Tool;
use Fermata\Internal\{FrontController, Headers};
use Fermata\{Hold, Request, Response, Server};

/**
 * Runs a worker script of FrankenPHP as it is.
 *
 * The script is a fiber: frankenphp_handle_request() suspends it until there is a request, calls the script's handler, and lets
 * the script go on when the answer has left. It runs as far as the first such call before the workers are forked, so what it
 * opens until then is shared by them. One request at a time in each worker; each finds its request in the superglobals.
 */
final class Worker
{
    /** What the script is resumed for. */
    private const REQUEST = 'request', GO_ON = 'go on', STOP = 'stop';

    private static ?self $current = null;

    private \Fiber $script;
    private readonly string $file;
    /** A request is being handled, and nothing of it has been answered. */
    private bool $isAsked = false;
    private bool $hasEnded = false;
    /** By the handler, and not answered yet. */
    private ?\Throwable $thrown = null;
    /** The handler has not returned. */
    private bool $isHandling = false;
    private ?Request $request = null;
    /** Whether the script may be included once more: a function or class cannot be declared twice. */
    private bool $canBeginAgain = false;
    /** @var array<string, mixed> $_SERVER as the script finds it when it begins */
    private array $serverAtStart = [];

    /**
     * @param string $file the worker script
     * @param string|null $public the folder whose files are sent without the script; that of the script if nothing is said
     * @param string|list<string>|null $listen addresses; null = as the settings say
     * @param int|null $workers null = as the settings say
     * @param int $requestsMax requests after which a worker is replaced; 0 for none
     * @param Server|null $server the server to add the script to, for everything that its other routes do not take: it holds
     *        clients beside the script. It needs Limits(handlers: 1). Default: one with the hub of Mercure that the environment
     *        has keys for
     * @throws \ValueError when there is no such file, when $listen or $workers is beside a $server, which has its own, and when
     *         the environment asks for a hub that cannot be had
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
        self::$current = $this;
        require_once __DIR__ . '/functions.php';
        // What the script sets in a handler (open_basedir, its own autoloader) may keep it from being found there.
        class_exists(Headers::class);
        $_SERVER['FRANKENPHP_WORKER'] = '1';
        // What dump() and dd() show is for pages, too.
        $_SERVER['VAR_DUMPER_FORMAT'] ??= 'html';
        $_SERVER['argv'] = [];
        $_SERVER['argc'] = 0;
        $_ENV['APP_RUNNING_IN_CONSOLE'] ??= 'false';
        $_SERVER['SCRIPT_FILENAME'] = $this->file;
        $this->serverAtStart = $_SERVER;
        $before = self::declared();
        // What it prints before the first request is for nobody's page.
        $this->begin();
        $this->canBeginAgain = $this->areLoadedOnce(array_diff_key(self::declared(), $before));
        if ($this->script->isTerminated()) {
            throw new \LogicException("$this->file has ended without a call of frankenphp_handle_request()");
        }
        $server = $this->server ?? $this->ownServer();
        (new FrontController($this->handle(...), $this->public ?? dirname($this->file), requestsMax: $this->requestsMax))->register($server);
        $main = getmypid();
        register_shutdown_function(function () use ($main): void {
            // A worker ends: the script's loop does, too. The master has handled nothing.
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

    /** The script has ended, and the worker still has requests that have come before the master learned of it. */
    private function beginAgain(): void
    {
        if (!$this->canBeginAgain) {
            return;
        }
        $this->hasEnded = $this->isHandling = false;
        // A start has no request, and sends no headers.
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

    /** @return array<string, list<class-string>> the files that have declared something, each with its classes */
    private static function declared(): array
    {
        $declared = [];
        foreach (get_defined_functions()['user'] as $name) {
            $declared[(string) (new \ReflectionFunction($name))->getFileName()] ??= [];
        }
        foreach ([...get_declared_classes(), ...get_declared_interfaces(), ...get_declared_traits()] as $name) {
            $class = new \ReflectionClass($name);
            // One without a name may be declared many times.
            if ($class->isUserDefined() && !$class->isAnonymous()) {
                $declared[(string) $class->getFileName()][] = $class->getName();
            }
        }
        return $declared;
    }

    /**
     * Whether all of these files are Composer's to load, which loads each once. Of others it cannot be told whether the script
     * includes them again, with `require`, or not, with `require_once`.
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
            // Another worker takes its place.
            return new Response(503, "The worker is being replaced.\n", ['Retry-After' => '1']);
        }
        $this->request = $request;
        $this->isAsked = true;
        $_SERVER['FRANKENPHP_WORKER'] = '1';
        FrontController::afterwards($this->goOn(...));
        $this->script->resume(self::REQUEST);
        $answer = $this->answer();
        $thrown = $this->thrown;
        $this->thrown = null;
        // `fermata dev` has a page for it.
        return $thrown !== null && class_exists(Tool::class, false) ? Tool::answerTo($thrown, $request) ?? $answer : $answer;
    }

    /** What the handler has printed, and set by header(). */
    private function answer(): Response
    {
        $this->isAsked = false;
        return new Response((int) (http_response_code() ?: 200), FrontController::printed(), Headers::typed(Headers::withSent([])));
    }

    /** The answer has left: the rest of the script's loop, until it waits for the next request. */
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
            // The script has ended, by its own count of requests, by exit() or by what nobody has caught: the master replaces the
            // worker.
            if ($this->script->isTerminated() || $this->hasEnded) {
                posix_kill(getmypid(), SIGTERM);
            }
        }
    }

    /** frankenphp_handle_request() */
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
            // The client's next request may reach another worker before this one has gone on, and would find the session as it was.
            if (self::$current->isAsked && function_exists('session_status') && session_status() === PHP_SESSION_ACTIVE) {
                session_write_close();
            }
        } catch (\Throwable $error) {
            // The script may catch it; the client has its answer before.
            if (self::$current->isAsked && http_response_code() === 200) {
                http_response_code(500);
            }
            self::$current->thrown = self::$current->isAsked ? $error : null;
            throw $error;
        } finally {
            self::$current->isHandling = false;
            // What the handler has left open.
            while (ob_get_level() > $level && ob_end_flush()) {
            }
            if (self::$current->isAsked) {
                self::pause();
            }
        }
        return true;
    }

    /** frankenphp_finish_request(): the client gets what there is, and the handler goes on. */
    public static function finishRequest(): bool
    {
        if (self::$current === null || !self::$current->isAsked || \Fiber::getCurrent() !== self::$current->script) {
            return false;
        }
        self::pause();
        return true;
    }

    /** Lets handle() answer, until that has left. */
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
