<?php

declare(strict_types=1);

namespace Fermata\Development;

/** The page of an error, and what else is told of a request by both ways to serve: attach.php and prepend.php. */
final class Page
{
    public const SCRIPT = '/.fermata/reload.js';
    /** Lines of source around the one that is shown. */
    private const AROUND = 6;
    private const STYLE = '<style>body{margin:0;font:15px sans-serif}main{max-width:70em;margin:2em auto;padding:0 1em}'
        . 'h1{font-size:1.3em;color:#b00}h1 small{color:#666}pre{background:#f4f4f4;color:#222;padding:1em;overflow:auto}pre b{background:#fdd}</style>';

    /**
     * @param int $status that the page has
     * @param list<string> $dumps
     * @param array<string, string|list<string>> $headers of the request
     */
    public static function of(\Throwable $error, int $status, array $dumps, string $request, array $headers): string
    {
        $text = self::escape(...);
        $body = '';
        for ($shown = $error; $shown !== null; $shown = $shown->getPrevious()) {
            $body .= '<h1><small>' . $text($shown::class) . '</small><br>' . $text($shown->getMessage()) . '</h1><p>'
                . $text($shown->getFile()) . ' : ' . $shown->getLine() . '</p>' . self::source($shown->getFile(), $shown->getLine())
                . '<details open><summary>Trace</summary><pre>' . $text($shown->getTraceAsString()) . '</pre></details>';
        }
        if ($dumps !== []) {
            $body .= '<h2>dump()</h2>' . self::dumps($dumps);
        }
        $body .= '<h2>Request</h2><pre>' . $text("$request\n");
        foreach ($headers as $name => $values) {
            $body .= $text("$name: " . implode(', ', (array) $values) . "\n");
        }
        return '<!doctype html><meta charset="utf-8"><title>Error ' . $status . '</title>' . self::STYLE
            . '<body><main id="fermata-error">' . $body . '</pre></main>' . self::script($headers) . '</body>';
    }

    /**
     * The tag of the script, where the answer is a page: what a script asks for becomes a part of one, which has it.
     *
     * @param array<string, string|list<string>> $headers of the request
     */
    public static function script(array $headers): string
    {
        $use = ((array) (array_change_key_case($headers)['sec-fetch-dest'] ?? 'document'))[0] ?? '';
        return in_array($use, ['document', 'iframe'], true) ? '<script src="' . self::SCRIPT . '" async></script>' : '';
    }

    /** The line of a request on the terminal. */
    public static function line(bool $isColoured, int $status, string $method, string $target, float $ms, string $of): string
    {
        $colour = [1 => '35', 2 => '32', 3 => '36', 4 => '33'][intdiv($status, 100)] ?? '31';
        [$begin, $end, $dim] = $isColoured ? ["\e[{$colour}m", "\e[0m", "\e[2m"] : ['', '', ''];
        return sprintf(
            "%s%s%s %s%d%s %-7s %-40s %8s %8s %s%s%s\n",
            $dim,
            date('H:i:s'),
            $end,
            $begin,
            $status,
            $end,
            $method,
            preg_replace('/[^\x20-\x7e\x80-\xff]/', '?', $target),
            $ms < 10 ? sprintf('%.2f ms', $ms) : sprintf('%.0f ms', $ms),
            sprintf('%.1f MB', memory_get_peak_usage() / 1e6),
            $dim,
            $of,
            $end,
        );
    }

    /** @param list<string> $dumps */
    public static function dumps(array $dumps): string
    {
        return implode('', array_map(static fn(string $dump): string => '<pre>' . self::escape($dump) . '</pre>', $dumps));
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

    private static function escape(string $text): string
    {
        return htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE);
    }
}
