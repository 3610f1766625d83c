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
    private const SCRIPT = '/.fermata/reload.js';
    private const EVENTS = '/.fermata/reload';
    /** Lines of source around the one that is shown. */
    private const AROUND = 6;
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
        fwrite($command, json_encode(['routes' => $this->shownRoutes(), 'files' => get_included_files()], JSON_THROW_ON_ERROR) . "\n");
        if (fgets($command) !== "go\n") {
            exit(0);
        }
        fclose($command);
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
        $server->get(self::SCRIPT, static fn(): Response => new Response(200, self::script(), [
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
        $panel = $dumps === [] ? '' : '<div style="margin:1em;font:13px monospace">' . self::shownDumps($dumps) . '</div>';
        $tag = $panel . '<script src="' . self::SCRIPT . '" async></script>';
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
        $colour = match (intdiv($status, 100)) {
            1 => '35',
            2 => '32',
            3 => '36',
            4 => '33',
            default => '31',
        };
        [$begin, $end, $dim] = $this->isColoured ? ["\e[{$colour}m", "\e[0m", "\e[2m"] : ['', '', ''];
        $target = preg_replace('/[^\x20-\x7e\x80-\xff]/', '?', $request->target());
        fwrite(STDERR, sprintf(
            "%s%s%s %s%d%s %-7s %-40s %8s %8s %s%s%s\n",
            $dim,
            date('H:i:s'),
            $end,
            $begin,
            $status,
            $end,
            $request->method(),
            $target,
            $ms < 10 ? sprintf('%.2f ms', $ms) : sprintf('%.0f ms', $ms),
            sprintf('%.1f MB', memory_get_peak_usage() / 1e6),
            $dim,
            $answer instanceof Hold ? "$route, held" : $route,
            $end,
        ));
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
        $text = self::escape(...);
        $body = '';
        for ($shown = $error; $shown !== null; $shown = $shown->getPrevious()) {
            $body .= '<h1><small>' . $text($shown::class) . '</small><br>' . $text($shown->getMessage()) . '</h1><p>'
                . $text($shown->getFile()) . ' : ' . $shown->getLine() . '</p>' . self::source($shown->getFile(), $shown->getLine())
                . '<details open><summary>Trace</summary><pre>' . $text($shown->getTraceAsString()) . '</pre></details>';
        }
        $dumps = Context::get(self::DUMPS);
        if ($dumps !== null && count($dumps) > 0) {
            $body .= '<h2>dump()</h2>' . self::shownDumps($dumps->getArrayCopy());
        }
        $body .= '<h2>Request</h2><pre>' . $text($request->method() . ' ' . $request->target() . ' (' . $this->routeOf($request) . ")\n");
        foreach ($request->headers() as $name => $values) {
            $body .= $text("$name: " . implode(', ', (array) $values) . "\n");
        }
        return new Response($status, self::document('Error ' . $status, $body), ['Content-Type' => 'text/html; charset=utf-8']);
    }

    private static function document(string $title, string $body): string
    {
        return '<!doctype html><meta charset="utf-8"><title>' . self::escape($title) . '</title>' . self::STYLE
            . '<body><main id="fermata-error">' . $body . '</main><script src="' . self::SCRIPT . '" async></script></body>';
    }

    private static function source(string $file, int $line): string
    {
        $lines = @file($file, FILE_IGNORE_NEW_LINES);
        if ($lines === false) {
            return '';
        }
        $shown = '';
        for ($number = max(1, $line - self::AROUND); $number <= min(count($lines), $line + self::AROUND); $number++) {
            $text = sprintf("%5d  %s\n", $number, self::escape($lines[$number - 1]));
            $shown .= $number === $line ? "<b>$text</b>" : $text;
        }
        return "<pre>$shown</pre>";
    }

    /** @param list<string> $dumps */
    private static function shownDumps(array $dumps): string
    {
        return implode('', array_map(static fn(string $dump): string => '<pre>' . self::escape($dump) . '</pre>', $dumps));
    }

    private static function escape(string $text): string
    {
        return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE);
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

    private const STYLE = '<style>body{margin:0;font:15px sans-serif}main{max-width:70em;margin:2em auto;padding:0 1em}'
        . 'h1{font-size:1.3em;color:#b00}h1 small{color:#666}pre{background:#f4f4f4;color:#222;padding:1em;overflow:auto}pre b{background:#fdd}</style>';

    private static function script(): string
    {
        return <<<'JS'
            (() => {
                const RETRY_MS_MIN = 20, RETRY_MS_MAX = 500;
                let generation, pages, box, pause = RETRY_MS_MIN;
                const show = (failure) => {
                    box?.remove();
                    box = undefined;
                    if (!failure) {
                        return;
                    }
                    box = document.createElement('div');
                    box.id = 'fermata-failure';
                    box.style.cssText = 'position:fixed;inset:auto 0 0 0;max-height:60vh;overflow:auto;z-index:2147483647;background:#fff;'
                        + 'color:#222;border-top:4px solid #b00;padding:1em;font:14px monospace;white-space:pre-wrap';
                    const title = document.createElement('b');
                    title.textContent = failure.message + (failure.file ? '\n' + failure.file + ' : ' + failure.line : '') + '\n\n';
                    box.append(title);
                    for (const [number, text] of failure.source) {
                        const line = document.createElement('div');
                        line.textContent = String(number).padStart(5) + '  ' + text;
                        line.style.background = number === failure.line ? '#fdd' : '';
                        box.append(line);
                    }
                    document.body.append(box);
                };
                const listen = () => {
                    const events = new EventSource('/.fermata/reload');
                    events.addEventListener('state', (event) => {
                        const state = JSON.parse(event.data);
                        if ((generation ?? state.generation) !== state.generation || (pages ?? state.pages) !== state.pages) {
                            events.close();
                            location.reload();
                            return;
                        }
                        ({ generation, pages } = state);
                        pause = RETRY_MS_MIN;
                        show(state.failure);
                    });
                    events.addEventListener('error', () => {
                        // Browsers give up some failures; the server is back soon.
                        events.close();
                        setTimeout(listen, pause);
                        pause = Math.min(pause * 1.2, RETRY_MS_MAX);
                    });
                };
                listen();
            })();
            JS;
    }
}

return static function (Server $server): void {
    $tool = new Tool($server->routes());
    if (!function_exists('dump')) {
        require __DIR__ . '/dump.php';
    }
    $tool->waitForTurn();
    $tool->attach($server);
};
