<?php

declare(strict_types=1);

namespace Fermata\Development;

use Fermata\Internal\Routes;
use Fermata\{Channel, Context, Event, Hold, Poll, Request, Response, Server};

/**
 * What `fermata dev` adds to a server: pages that reload, pages for errors, a line for every request.
 *
 * Server::run() loads this file where FERMATA_DEVELOPMENT names it, and calls what it returns, before it binds.
 */
final class Tool
{
    private const CHANNEL = 'fermata.development';
    private const EVENTS = '/.fermata/reload';
    private const DUMP_BYTES_MAX = 20_000;
    private const DUMPS_MAX = 50;
    /** How often the state is looked at, in seconds. */
    private const LOOK = 0.1;

    /** What the handler and its tasks have dumped is in their Context, under this name. */
    private const DUMPS = 'fermata.development.dumps';

    /** What a framework tells of the request, in the same place. */
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

    /** Tells the command that the program has been read, and waits until the one before it has ended. */
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
            // Of workers, who have to read what the command writes for them.
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
     * With those of a framework, where they are to be shown: to find them takes it a while.
     *
     * @return list<array{kind: string, method: string, path: string, handler: string}>
     */
    private function shownRoutes(): array
    {
        $isShown = getenv('FERMATA_DEVELOPMENT_ROUTES') === '1' && class_exists(Routes::class, false);
        return $isShown ? Routes::with($this->routes) : $this->routes;
    }

    /** A class that only a request loads would fail there, when the program before this one is gone. */
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

    /** For whoever answers for a handler that has thrown before the server does, as for worker scripts. */
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
            // The program has pages of its own.
        }
    }

    /** In one worker: passes on what the command has written. */
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
        // Whatever ends the handler: an answer, an exception, exit().
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

    /** The whole page, if the answer is one. */
    private function markup(Request $request, Response $answer): ?string
    {
        $type = (string) $answer->header('Content-Type');
        if ($answer->header('Content-Encoding') !== null || $request->method() === 'HEAD') {
            return null;
        }
        if ($answer->body() !== '') {
            return stripos($type, 'text/html') === 0 ? $answer->body() : null;
        }
        // A page of static() has no bytes here.
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
                // A literal segment beats {name}, which beats {name...}.
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

    /** Answers for a handler that has thrown. */
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
        $shown = print_r($value, true);
        if (is_scalar($value) || $value === null) {
            $shown = var_export($value, true);
        }
        $shown = $place . ': ' . rtrim(substr($shown, 0, self::DUMP_BYTES_MAX));
        $dumps = Poll::inHandler() ? Context::get(self::DUMPS) : null;
        if ($dumps !== null && count($dumps) < self::DUMPS_MAX) {
            $dumps[] = $shown;
        }
        fwrite(STDERR, "$shown\n");
    }
}

require __DIR__ . '/page.php';

return static function (Server $server): void {
    $tool = new Tool($server->routes());
    if (!function_exists('dump')) {
        require __DIR__ . '/dump.php';
    }
    $tool->waitForTurn();
    $tool->attach($server);
};
