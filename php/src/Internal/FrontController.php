<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\{Hold, Limits, Poll, Request, Response, Server};

use function Fermata\shield;

/**
 * Puts one handler, that of a framework, in front of all paths, as a web server does with index.php.
 *
 * What is a file of the public folder is sent without the framework. The handler is shielded: PHP-FPM does not end code whose
 * client has left either, and frameworks do not expect it.
 *
 * @internal
 */
final class FrontController
{
    private const SHORT_NS = 500_000;
    private const CAUTIOUS_REQUESTS = 100;

    private readonly ?string $public;

    /** @var list<string> folders outside of it that links in it may lead to */
    private readonly array $linked;

    /** @var array<string, mixed> what each request's $_SERVER has besides */
    private readonly array $server;

    private int $handled = 0;

    /** Calls the handler with the next request: one closure for all of them. */
    private readonly \Closure $shielded;
    private ?Request $next = null;

    /** What PHP may keep of its requests until the worker is replaced; it is known when the first has been answered. */
    private int $bytesMax = -1;
    private bool $hasBegun = false;

    /** Requests whose answers leave before what follows them, because that took longer than it should, or is not known yet. */
    private static int $cautious = self::CAUTIOUS_REQUESTS;

    /** The request in the superglobals. */
    private static ?Request $shown = null;

    /**
     * @param \Closure(Request): (Response|Hold) $handle
     * @param bool $globals whether the handler finds its request in the superglobals
     * @param list<string> $linked folders that links in the public folder may lead to
     * @param int|null $uploadBytes a larger file is in $_FILES with UPLOAD_ERR_INI_SIZE
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
            // Taken at once, before another handler may have its turn.
            $request = $this->next;
            $this->next = null;
            return ($this->handle)($request);
        };
        if ($globals) {
            require_once __DIR__ . '/functions.php';
        }
    }

    /** A server for frameworks: one request at a time in each worker. */
    public static function server(string|array|null $listen = null, ?int $workers = null): Server
    {
        Extension::require();
        return new Server(listen: $listen, workers: $workers, limits: new Limits(handlers: 1));
    }

    public function register(Server $server): void
    {
        $handler = $this->handle(...);
        $server->any('/{path...}', $handler, bodyBytes: $this->bodyBytes, streamBody: $this->streamBody);
        $server->options('/{path...}', $handler, bodyBytes: $this->bodyBytes, streamBody: $this->streamBody);
        // Paths with %2F, which are no rest of a path.
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
            // The worker finishes what it has, and the master replaces it.
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

    /** Without superglobals there may be others, and nothing else keeps what the handler prints. */
    private function handleBesideOthers(Request $request): Response|Hold
    {
        $turn = new Turn();
        ob_start();
        $level = ob_get_level();
        try {
            // What was called before may have waited.
            $this->next = $request;
            return shield($this->shielded);
        } finally {
            while (ob_get_level() >= $level && ob_end_flush()) {
            }
        }
    }

    /**
     * Whether the requests before have left so much that one of the next would meet memory_limit, and its client a fatal error:
     * three quarters of what there was room for when the first had been answered. Many applications are made by that, and what
     * they are made of is left by no request; nor is what handlers under way use.
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
     * What the handler has printed so far, which is then its caller's to send: PHP-FPM puts it in front of the body. With
     * superglobals Response::relayed() does that by itself.
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
     * headers_send(), which FrankenPHP has and Symfony calls for its early hints: the `Link` lines that header() has been given
     * leave at once. Any other status is that of the answer, which leaves with its headers later.
     *
     * @return int 1 when they have left, 0 when nothing was to be sent, 3 when nothing could be
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

    /** @return array<string, mixed>|null the superglobal; null where the handler has none */
    public function serverNow(): ?array
    {
        return $this->globals ? $_SERVER : null;
    }

    /**
     * Calls this when the handler has ended, however: by an answer, an exception or exit(). The answer has left before, unless
     * nothingFollows() was called, and the next handler waits for it. After a fatal error it is not called: the worker ends.
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
     * The application has nothing to do when the answer has left, and what the bridge does then has been short for a while: the
     * answer leaves behind it, with those of other requests.
     */
    public static function nothingFollows(): void
    {
        if (self::$cautious === 0) {
            self::$shown?->deferAnswer();
        }
    }

    /** A file of the public folder, or of one linked there; null when there is none of that name. */
    private function file(Request $request): ?Response
    {
        $method = $request->method();
        if ($method !== 'GET' && $method !== 'HEAD') {
            return null;
        }
        $path = $request->path();
        $dot = strrpos($path, '.');
        // Names without a dot are pages, and programs are not sent.
        if ($dot === false || strpos($path, '/', $dot) !== false || stripos($path, '.php', $dot) !== false || str_contains($path, "\0")) {
            return null;
        }
        if (str_contains($path, '/.') || !is_file($this->public . $path)) {
            return null;
        }
        // The server follows no link that is absolute or leads out of its root.
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
        // Those of the process, which have what the environment and .env files say; not those of the command line.
        $own = ['argv', 'argc', 'PHP_SELF', 'PATH_TRANSLATED', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT'];
        $public ??= getcwd() ?: '/';
        // Each request gets a copy and sets these in place, where adding them would enlarge it.
        $later = ['GATEWAY_INTERFACE', 'SERVER_SOFTWARE', 'REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'REMOTE_ADDR', 'REMOTE_PORT',
            'SERVER_ADDR', 'SERVER_PORT', 'SERVER_PROTOCOL', 'SERVER_NAME', 'REQUEST_SCHEME', 'REQUEST_TIME', 'REQUEST_TIME_FLOAT'];
        return [
            'DOCUMENT_ROOT' => $public,
            'SCRIPT_FILENAME' => "$public/index.php",
            'SCRIPT_NAME' => '/index.php',
            'PHP_SELF' => '/index.php',
        ] + array_fill_keys($later, '') + array_diff_key($_SERVER, array_flip($own));
    }
}
