<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\{Hold, Limits, Poll, Request, Response, Server};

use function Fermata\shield;

/**
 * Routes all paths to the handler of a framework, as a web server does with index.php.
 *
 * Files of the public folder are sent without the framework. The handler is shielded from cancellation: like under PHP-FPM, it
 * runs to its end after the client disconnects, because frameworks do not expect to be interrupted.
 *
 * @internal
 */
final class FrontController
{
    /** Maximum duration of the work after a response that counts as short, in nanoseconds. */
    private const SHORT_NS = 500_000;
    /** Number of consecutive requests with short work after which responses may be sent after that work. */
    private const CAUTIOUS_REQUESTS = 100;

    private readonly ?string $public;

    /** @var list<string> folders outside the public folder that its symbolic links may lead to */
    private readonly array $linked;

    /** @var array<string, mixed> variables that are added to each request's $_SERVER */
    private readonly array $server;

    private int $handled = 0;

    /** Closure that calls the handler with `$next`. One closure serves all requests. */
    private readonly \Closure $shielded;
    private ?Request $next = null;

    /** Memory use in bytes above which the worker is replaced. -1 until the first request was handled. */
    private int $bytesMax = -1;
    private bool $hasBegun = false;

    /** Number of further requests whose response is sent before the work that follows it. It is reset when that work takes long. */
    private static int $cautious = self::CAUTIOUS_REQUESTS;

    /** Request in the superglobals. */
    private static ?Request $shown = null;

    /**
     * @param \Closure(Request): (Response|Hold) $handle
     * @param bool $globals true to fill the superglobals for the handler
     * @param list<string> $linked folders that symbolic links in the public folder may lead to
     * @param int|null $uploadBytes maximum size of an uploaded file; a larger one is in $_FILES with UPLOAD_ERR_INI_SIZE
     */
    public function __construct(
        private readonly \Closure $handle,
        ?string $public = null,
        private readonly bool $globals = true,
        private readonly ?int $bodyBytes = null,
        private readonly bool $streamBody = false,
        private readonly int $requestsMax = 0,
        array $linked = [],
        private readonly ?int $uploadBytes = null,
    ) {
        if ($requestsMax < 0) {
            throw new \ValueError('requestsMax is 0 or more');
        }
        $folder = $public === null ? false : realpath($public);
        if ($public !== null && ($folder === false || !is_dir($folder))) {
            throw new \ValueError("there is no folder $public, whose files are to be sent: name another as the public one, or none");
        }
        $this->public = $folder === false ? null : $folder;
        $this->linked = array_values(array_filter(array_map(realpath(...), $linked), is_string(...)));
        $this->server = self::serverVariables($this->public);
        $this->shielded = function (): Response|Hold {
            // Read the request before the handler can wait, because another handler then sets the property.
            $request = $this->next;
            $this->next = null;
            return ($this->handle)($request);
        };
        if ($globals) {
            require_once __DIR__ . '/functions.php';
        }
    }

    /** Returns a server for frameworks, whose workers handle one request at a time. */
    public static function server(string|array|null $listen = null, ?int $workers = null): Server
    {
        Extension::require();
        return new Server(listen: $listen, workers: $workers, limits: new Limits(handlers: 1));
    }

    public function register(Server $server): void
    {
        if ($this->globals) {
            // Libraries treat a script with these variables as a command-line script.
            unset($GLOBALS['argv'], $GLOBALS['argc']);
        }
        $handler = $this->handle(...);
        $server->any('/{path...}', $handler, bodyBytes: $this->bodyBytes, streamBody: $this->streamBody);
        $server->options('/{path...}', $handler, bodyBytes: $this->bodyBytes, streamBody: $this->streamBody);
        // `{path...}` does not match paths with %2F.
        $server->notFound($handler);
    }

    public function handle(Request $request): Response|Hold
    {
        if ($this->public !== null && ($file = $this->file($request)) !== null) {
            return $file;
        }
        if ($this->globals) {
            $request->fillGlobals($this->server, $this->uploadBytes);
            self::$shown = $request;
        }
        if (($this->requestsMax > 0 && ++$this->handled === $this->requestsMax) || (memory_get_usage(true) > $this->bytesMax && $this->hasOutgrown())) {
            // The worker finishes its requests and exits. The master then replaces it.
            posix_kill(getmypid(), SIGTERM);
        }
        if (!$this->globals) {
            return $this->handleBesideOthers($request);
        }
        try {
            $this->next = $request;
            return shield($this->shielded);
        } finally {
            self::$shown = null;
        }
    }

    /**
     * Handles a request without superglobals. Handlers may then run concurrently, and a separate buffer captures the output of each
     * handler.
     */
    private function handleBesideOthers(Request $request): Response|Hold
    {
        $turn = new Turn();
        ob_start();
        $level = ob_get_level();
        try {
            // Set the property directly before the call. The statements above may wait, and another handler could then overwrite
            // it.
            $this->next = $request;
            return shield($this->shielded);
        } finally {
            while (ob_get_level() >= $level && ob_end_flush()) {
            }
        }
    }

    /**
     * Returns true if the memory left behind by requests may soon exceed memory_limit and cause a fatal error. The threshold is
     * three quarters of the memory that was free after the first request, because many applications are built by that request.
     * While handlers are running, their memory cannot be distinguished from leaked memory, so the check is skipped.
     */
    private function hasOutgrown(): bool
    {
        if (!$this->hasBegun || Turn::underWay() > 0) {
            $this->hasBegun = true;
            return false;
        }
        gc_collect_cycles();
        gc_mem_caches();
        $limit = ini_parse_quantity((string) ini_get('memory_limit'));
        if ($this->bytesMax < 0) {
            $used = memory_get_usage(true);
            $this->bytesMax = $limit > $used ? $used + intdiv(($limit - $used) * 3, 4) : PHP_INT_MAX;
            return false;
        }
        if (memory_get_usage(true) <= $this->bytesMax) {
            return false;
        }
        $this->bytesMax = PHP_INT_MAX;
        error_log(sprintf('PHP keeps %d MiB of its memory_limit of %d MiB when its requests are over: the worker is replaced', memory_get_usage(true) >> 20, $limit >> 20));
        return true;
    }

    /**
     * Removes and returns the handler's output so far. The caller sends it before the body, as PHP-FPM does. With superglobals
     * Response::relayed() does this.
     */
    public static function printed(): string
    {
        if (self::$shown !== null) {
            return self::$shown->takeOutput();
        }
        if (ob_get_length() === 0 || ob_get_level() === 0) {
            return '';
        }
        $printed = (string) ob_get_contents();
        ob_clean();
        return $printed;
    }

    /**
     * Implements FrankenPHP's headers_send(), which Symfony calls for early hints. With a 1xx status the `Link` headers set so far
     * are sent immediately as an interim response. Any other status becomes the status of the response.
     *
     * @return int 1: early hints were sent; 0: there was nothing to send; 3: they could not be sent
     */
    public static function sendHeaders(int $status): int
    {
        if ($status < 100 || $status >= 200) {
            http_response_code($status);
            return 0;
        }
        $links = [];
        foreach (headers_list() as $line) {
            if (stripos($line, 'link:') === 0) {
                $links[] = trim(substr($line, 5));
            }
        }
        if ($links === []) {
            return 0;
        }
        return self::$shown?->earlyHints(['Link' => $links]) ? 1 : 3;
    }

    /** @return array<string, mixed> */
    public function serverOf(Request $request): array
    {
        return $this->serverNow() ?? $request->serverParams($this->server);
    }

    /** @return array<string, mixed>|null $_SERVER; null if the handler has no superglobals */
    public function serverNow(): ?array
    {
        return $this->globals ? $_SERVER : null;
    }

    /**
     * Calls `$work` after the handler returned, threw or called exit(). The response was sent before, unless nothingFollows() was
     * called. The next handler starts after `$work`. After a fatal error the worker exits without calling it.
     */
    public static function afterwards(\Closure $work): void
    {
        register_shutdown_function(static function () use ($work): void {
            if (!Poll::inHandler()) {
                return;
            }
            $since = hrtime(true);
            try {
                shield($work);
            } finally {
                self::$cautious = hrtime(true) - $since > self::SHORT_NS ? self::CAUTIOUS_REQUESTS : max(0, self::$cautious - 1);
            }
        });
    }

    /**
     * Reports that the application has no work after its response. If the bridge's own work was short in recent requests, the
     * response is sent after that work, in one write with the responses to other requests.
     */
    public static function nothingFollows(): void
    {
        if (self::$cautious === 0) {
            self::$shown?->deferAnswer();
        }
    }

    /** Returns a file of the public folder or of a linked folder. Returns null if there is no such file. */
    private function file(Request $request): ?Response
    {
        $method = $request->method();
        if ($method !== 'GET' && $method !== 'HEAD') {
            return null;
        }
        $path = $request->path();
        $dot = strrpos($path, '.');
        // Paths without a file extension are the framework's, and PHP scripts are never sent.
        if ($dot === false || strpos($path, '/', $dot) !== false || stripos($path, '.php', $dot) !== false || str_contains($path, "\0")) {
            return null;
        }
        if (str_contains($path, '/.') || !is_file($this->public . $path)) {
            return null;
        }
        // Resolve links here, because the server follows no link that is absolute or leaves its root.
        $real = (string) realpath($this->public . $path);
        foreach ([$this->public, ...$this->linked] as $root) {
            if (str_starts_with($real, "$root/")) {
                return Response::file(substr($real, strlen($root) + 1), root: $root);
            }
        }
        return null;
    }

    /** @return array<string, mixed> */
    private static function serverVariables(?string $public): array
    {
        // Keep the variables of the environment and of .env files, not those of the command line.
        $own = ['argv', 'argc', 'PHP_SELF', 'PATH_TRANSLATED', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT', 'DOCUMENT_URI'];
        $public ??= getcwd() ?: '/';
        // Reserve these keys, so that setting them in each request's copy does not enlarge the array.
        $later = ['GATEWAY_INTERFACE', 'SERVER_SOFTWARE', 'REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'REMOTE_ADDR', 'REMOTE_PORT',
            'SERVER_ADDR', 'SERVER_PORT', 'SERVER_PROTOCOL', 'SERVER_NAME', 'REQUEST_SCHEME', 'REQUEST_TIME', 'REQUEST_TIME_FLOAT'];
        return [
            'DOCUMENT_ROOT' => $public,
            'SCRIPT_FILENAME' => "$public/index.php",
            'SCRIPT_NAME' => '/index.php',
            'PHP_SELF' => '/index.php',
            'DOCUMENT_URI' => '/index.php',
        ] + array_fill_keys($later, '') + array_diff_key($_SERVER, array_flip($own));
    }
}
