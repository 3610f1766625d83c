<?php

declare(strict_types=1);

namespace Fermata\Development;

/** Error page, request lines and dumps; shared by attach.php (scripts) and prepend.php (folders). */
final class Page
{
    public const SCRIPT = '/.fermata/reload.js';
    /** Lines of source shown before and after the line of the error. */
    private const AROUND = 6;
    private const STYLE = '<style>:root{color-scheme:light dark;--strong:#b00;--soft:#666;--code:#f4f4f4;--text:#222;--line:#fdd}'
        . '@media(prefers-color-scheme:dark){:root{--strong:#ff8a80;--soft:#aaa;--code:#242424;--text:#e6e6e6;--line:#5c2626}}'
        . 'body{margin:0;font:15px sans-serif}main{max-width:70em;margin:2em auto;padding:0 1em}h1{font-size:1.3em;color:var(--strong)}'
        . 'h1 small{color:var(--soft)}pre{background:var(--code);color:var(--text);padding:1em;overflow:auto}pre b{background:var(--line)}</style>';

    /** Headers with credentials; hidden, because other people may see the page, for example on a shared screen. */
    private const SECRET = ['cookie', 'authorization', 'proxy-authorization', 'x-csrf-token', 'x-xsrf-token', 'x-api-key', 'php-auth-pw'];

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
            $value = in_array(strtolower((string) $name), self::SECRET, true) ? '[not shown]' : implode(', ', (array) $values);
            $body .= $text("$name: $value\n");
        }
        return '<!doctype html><meta charset="utf-8"><title>Error ' . $status . '</title>' . self::STYLE
            . '<body><main id="fermata-error">' . $body . '</pre></main>' . self::script($headers) . '</body>';
    }

    /**
     * Returns the script tag for documents and frames, or an empty string for fetch(), whose page already contains the tag.
     *
     * @param array<string, string|list<string>> $headers of the request
     */
    public static function script(array $headers): string
    {
        $use = ((array) (array_change_key_case($headers)['sec-fetch-dest'] ?? 'document'))[0] ?? '';
        return in_array($use, ['document', 'iframe'], true) ? '<script src="' . self::SCRIPT . '" async></script>' : '';
    }

    /** Formats the terminal line of a request. */
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
