<?php

declare(strict_types=1);

namespace Fermata\Development;

use Fermata\Internal\Routes;
use Fermata\{Channel, Context, Event, Hold, Poll, Request, Response, Server};

/**
 * Development features of `fermata dev`: pages that reload, error pages, and a line per request.
 *
 * If FERMATA_DEVELOPMENT is the path of this file, Server::run() loads the file, and calls the returned function before it binds
 * the addresses.
 */
final class Tool
{
    private const CHANNEL = 'fermata.development';
    private const EVENTS = '/.fermata/reload';
    private const DUMP_BYTES_MAX = 20_000;
    private const DUMPS_MAX = 50;
    /** Interval in seconds at which the state file is polled. */
    private const LOOK = 0.1;

    /** Context key of the values that a handler and its tasks passed to dump(). */
    private const DUMPS = 'fermata.development.dumps';

    /** Context key of the details that a framework reports about the request. */
    private const NOTES = 'fermata.development.notes';

    private string $state = '';
    private readonly string $place;
    private readonly bool $isColoured;
    private readonly string $generation;

    /** @param list<array{kind: string, method: string, path: string, handler: string}> $routes */
    public function __construct(private readonly array $routes)
    {
        $this->place = __DIR__;
        $this->isColoured = getenv('FERMATA_DEVELOPMENT_COLOURED') === '1';
        $this->generation = (string) getenv('FERMATA_DEVELOPMENT_GENERATION');
    }

    /** Reports to the command that the script is loaded, and waits until the previous process has exited. */
    public function waitForTurn(): void
    {
        self::checkChanged();
        $command = stream_socket_client("unix://$this->place/tool");
        if ($command === false) {
            exit(0);
        }
        stream_set_timeout($command, 60);
        $report = [
            'routes' => $this->shownRoutes(),
            'files' => get_included_files(),
            // User and group of workers, to which the command grants access to its files.
            'user' => self::setting('user'),
            'group' => self::setting('group'),
        ];
        fwrite($command, json_encode($report, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
        if (fgets($command) !== "go\n") {
            exit(0);
        }
        fclose($command);
    }

    private static function setting(string $name): string
    {
        $given = (string) getenv('FERMATA_' . strtoupper($name));
        return $given === '' ? (string) ini_get("fermata.$name") : $given;
    }

    /**
     * Returns the routes. Includes a framework's routes only on request, because finding them is slow.
     *
     * @return list<array{kind: string, method: string, path: string, handler: string}>
     */
    private function shownRoutes(): array
    {
        $isShown = getenv('FERMATA_DEVELOPMENT_ROUTES') === '1' && class_exists(Routes::class, false);
        return $isShown ? Routes::with($this->routes) : $this->routes;
    }

    /**
     * Checks the syntax of changed files that are not loaded yet. A syntax error in them would otherwise only appear later, during
     * a request.
     */
    private static function checkChanged(): void
    {
        $read = array_flip(get_included_files());
        foreach (explode("\n", (string) getenv('FERMATA_DEVELOPMENT_CHANGED')) as $file) {
            if (isset($read[$file]) || !is_file($file) || !function_exists('token_get_all')) {
                continue;
            }
            try {
                token_get_all((string) file_get_contents($file), TOKEN_PARSE);
            } catch (\ParseError $error) {
                fwrite(STDERR, "PHP Parse error:  {$error->getMessage()} in $file on line {$error->getLine()}\n");
                exit(255);
            }
        }
    }

    private static ?self $attached = null;

    /** Returns the error page for code that handles exceptions before the server does, such as worker scripts. */
    public static function answerTo(\Throwable $error, Request $request): ?Response
    {
        return self::$attached?->page($error, $request);
    }

    public function attach(Server $server): void
    {
        self::$attached = $this;
        if (class_exists(Routes::class, false)) {
            Routes::$told = static function (string $route): void {
                $notes = Context::get(self::NOTES);
                if ($notes !== null && $route !== '') {
                    $notes['route'] = $route;
                }
            };
        }
        $script = (string) file_get_contents(__DIR__ . '/reload.js');
        $server->get(Page::SCRIPT, static fn(): Response => new Response(200, $script, [
            'Content-Type' => 'text/javascript; charset=utf-8',
            'Cache-Control' => 'no-store',
        ]));
        $server->get(self::EVENTS, fn(): Hold => Hold::sse(self::CHANNEL)->with(new Event($this->readState(), 'state')));
        $server->every(self::LOOK, $this->look(...));
        $server->use($this->around(...));
        try {
            $server->error($this->page(...));
        } catch (\Fermata\Exception\MisuseError) {
            // The script has its own error pages.
        }
    }

    /** Publishes changes of the state file to pages; runs in one worker. */
    private function look(): void
    {
        $state = $this->readState();
        if ($this->state !== '' && $state !== $this->state) {
            Channel::get(self::CHANNEL)->publish(new Event($state, 'state'));
        }
        $this->state = $state;
    }

    private function readState(): string
    {
        $state = json_decode((string) @file_get_contents("$this->place/state.json"), true);
        return json_encode(['generation' => $this->generation] + (is_array($state) ? $state : []), JSON_THROW_ON_ERROR);
    }

    private function around(Request $request, callable $next): mixed
    {
        $path = $request->path();
        if (str_starts_with($path, '/.fermata/')) {
            return $next($request);
        }
        $begun = hrtime(true);
        memory_reset_peak_usage();
        $dumps = new \ArrayObject();
        Context::set(self::DUMPS, $dumps);
        $notes = new \ArrayObject();
        Context::set(self::NOTES, $notes);
        $answer = null;
        // Runs after a response, an exception and exit().
        register_shutdown_function(function () use ($request, $begun, $notes, &$answer): void {
            $this->writeLine($request, $answer, (hrtime(true) - $begun) / 1e6, $notes['route'] ?? $this->routeOf($request));
        });
        $answer = $next($request);
        if ($answer instanceof Response) {
            $answer = $this->withScript($request, $answer, $dumps->getArrayCopy());
        }
        return $answer;
    }

    /** @param list<string> $dumps */
    private function withScript(Request $request, Response $answer, array $dumps): Response
    {
        $markup = $this->markup($request, $answer);
        if ($markup === null) {
            return $answer;
        }
        $panel = $dumps === [] ? '' : '<div style="margin:1em;font:13px monospace">' . Page::dumps($dumps) . '</div>';
        $tag = $panel . Page::script($request->headers());
        if ($tag === '') {
            return $answer;
        }
        $end = strripos($markup, '</body>');
        $markup = $end === false ? $markup . $tag : substr_replace($markup, $tag, $end, 0);
        $headers = array_filter(
            $answer->headers(),
            static fn(string|int $name): bool => !in_array(strtolower((string) $name), ['etag', 'last-modified'], true),
            ARRAY_FILTER_USE_KEY,
        );
        $types = array_filter($headers, static fn(string|int $name): bool => strtolower((string) $name) === 'content-type', ARRAY_FILTER_USE_KEY);
        return new Response($answer->status(), $markup, $headers + ($types === [] ? ['Content-Type' => 'text/html; charset=utf-8'] : []));
    }

    /** Returns the complete HTML page, or null if the response is not a page. */
    private function markup(Request $request, Response $answer): ?string
    {
        $type = (string) $answer->header('Content-Type');
        if ($answer->header('Content-Encoding') !== null || $request->method() === 'HEAD') {
            return null;
        }
        if ($answer->body() !== '') {
            return stripos($type, 'text/html') === 0 ? $answer->body() : null;
        }
        // The response of static() has no body here; read the file.
        $isPage = $answer->status() === 200 && $request->method() === 'GET' && ($type === '' || stripos($type, 'text/html') === 0);
        $file = $isPage ? $this->staticPage($request->path()) : null;
        return $file === null ? null : (string) file_get_contents($file);
    }

    private function staticPage(string $path): ?string
    {
        $path = rawurldecode($path);
        if (str_contains($path, '/.') || str_contains($path, "\0")) {
            return null;
        }
        $best = null;
        foreach ($this->routes as $route) {
            $prefix = rtrim($route['path'], '/');
            if ($route['kind'] !== 'static' || !str_starts_with("$path/", "$prefix/")) {
                continue;
            }
            $rest = substr($path, strlen($prefix));
            $file = $route['handler'] . $rest . (str_ends_with($rest, '/') || $rest === '' ? '/index.html' : '');
            if (preg_match('/\.html?$/D', $file) && is_file($file) && ($best === null || strlen($prefix) > $best[0])) {
                $best = [strlen($prefix), $file];
            }
        }
        return $best[1] ?? null;
    }

    private function writeLine(Request $request, mixed $answer, float $ms, string $route): void
    {
        $status = match (true) {
            $answer instanceof Response => $answer->status(),
            $answer instanceof Hold => 200,
            default => 500,
        };
        $of = $answer instanceof Hold ? "$route, held" : $route;
        fwrite(STDERR, Page::line($this->isColoured, $status, $request->method(), $request->target(), $ms, $of));
    }

    private function routeOf(Request $request): string
    {
        $best = null;
        foreach ($this->routes as $route) {
            $isMethod = $route['method'] === '' || $route['method'] === $request->method()
                || ($route['method'] === 'GET' && $request->method() === 'HEAD');
            if ($isMethod && preg_match(self::pattern($route), $request->path())) {
                // A literal segment precedes {name}, which precedes {name...}.
                $rank = strtr(preg_replace(['/\{[^}]*\.\.\.\}/', '/\{[^}]*\}/'], ["\x02", "\x01"], $route['path']), ['/' => "\0"]);
                $best = $best === null || strcmp($rank, $best[0]) < 0 || $best[2] === 'static' ? [$rank, $route['path'], $route['kind']] : $best;
            }
        }
        return $best[1] ?? 'no route';
    }

    /** @param array{kind: string, path: string} $route */
    private static function pattern(array $route): string
    {
        $text = preg_quote($route['path'], '~');
        $text = preg_replace(['~\\\\\{[^}]*?\\\\\.\\\\\.\\\\\.\\\\\}~', '~\\\\\{[^}]*?\\\\\}~'], ['.*', '[^/]+'], $text);
        return $route['kind'] === 'static' ? '~^' . rtrim($text, '/') . '(/|$)~D' : "~^$text$~D";
    }

    /** Returns the response for an exception of a handler. */
    private function page(\Throwable $error, Request $request): Response
    {
        $status = $error instanceof \Fermata\Exception\BadRequestException ? 400 : 500;
        if (!str_contains((string) $request->header('Accept'), 'text/html')) {
            return Response::text("$error\n", $status);
        }
        $dumps = Context::get(self::DUMPS);
        $line = $request->method() . ' ' . $request->target() . ' (' . $this->routeOf($request) . ')';
        $page = Page::of($error, $status, $dumps === null ? [] : $dumps->getArrayCopy(), $line, $request->headers());
        return new Response($status, $page, ['Content-Type' => 'text/html; charset=utf-8']);
    }

    public static function dump(mixed $value, string $place): void
    {
        $shown = $place . ': ' . Dump::of($value, self::DUMP_BYTES_MAX);
        $dumps = Poll::inHandler() ? Context::get(self::DUMPS) : null;
        if ($dumps !== null && count($dumps) < self::DUMPS_MAX) {
            $dumps[] = $shown;
        }
        fwrite(STDERR, "$shown\n");
    }
}

require __DIR__ . '/page.php';
require __DIR__ . '/value.php';

return static function (Server $server): void {
    $tool = new Tool($server->routes());
    if (!function_exists('dump')) {
        require __DIR__ . '/dump.php';
    }
    $tool->waitForTurn();
    $tool->attach($server);
};
