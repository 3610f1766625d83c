<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\{Hold, Response};
use Fermata\Exception\MisuseError;

/**
 * Converts headers of frameworks to those of a Response.
 *
 * @internal
 */
final class Headers
{
    /** Headers that frame the message. Only the server sends them. */
    private const FRAMING = ['connection' => 1, 'content-length' => 1, 'keep-alive' => 1, 'proxy-connection' => 1, 'te' => 1,
        'trailer' => 1, 'transfer-encoding' => 1, 'upgrade' => 1];

    /** The server's default reason phrases of frequent statuses. */
    private const REASONS = [200 => 'OK', 201 => 'Created', 202 => 'Accepted', 204 => 'No Content', 301 => 'Moved Permanently',
        302 => 'Found', 303 => 'See Other', 304 => 'Not Modified', 307 => 'Temporary Redirect', 308 => 'Permanent Redirect',
        400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found', 405 => 'Method Not Allowed',
        429 => 'Too Many Requests', 500 => 'Internal Server Error', 503 => 'Service Unavailable'];

    /**
     * Removes framing headers and converts values, which may be lists or numbers. Only the last Content-Type is kept.
     *
     * @param iterable<string|int, mixed> $headers values by name; names are case-insensitive
     * @return array<string, list<string>>
     */
    public static function of(iterable $headers): array
    {
        $kept = [];
        foreach ($headers as $name => $values) {
            $name = (string) $name;
            if (isset(self::FRAMING[strtolower($name)])) {
                continue;
            }
            foreach ((array) $values as $value) {
                if ($value !== null) {
                    $kept[$name][] = (string) $value;
                }
            }
        }
        return $kept;
    }

    /**
     * Sets headers of a response, each with all its values. Cookies are added. Other headers replace existing ones.
     *
     * @template T of Response|Hold
     * @param T $answer
     * @param array<string, list<string>> $headers
     * @param list<string> $except lower-case names of headers to skip
     * @return T
     */
    public static function onto(Response|Hold $answer, array $headers, array $except = []): Response|Hold
    {
        foreach ($headers as $name => $values) {
            $name = (string) $name;
            $lower = strtolower($name);
            if (in_array($lower, $except, true)) {
                continue;
            }
            foreach ($values as $index => $value) {
                $answer = $index === 0 && $lower !== 'set-cookie' ? $answer->withHeader($name, $value) : $answer->withAddedHeader($name, $value);
            }
        }
        return $answer;
    }

    /**
     * Sets the reason phrase of a framework's response if it differs from the default. For a phrase that HTTP does not allow, a
     * warning is raised and the default is sent, because no client may depend on the phrase.
     */
    public static function withReason(Response|Hold $answer, int $status, string $reason): Response|Hold
    {
        $isUsual = $reason === '' || $reason === (self::REASONS[$status] ?? '');
        if ($isUsual || !$answer instanceof Response) {
            return $answer;
        }
        try {
            return $answer->withStatus($status, $reason);
        } catch (MisuseError $error) {
            trigger_error("a response with status $status is sent with the usual reason phrase: {$error->getMessage()}", E_USER_WARNING);
            return $answer;
        }
    }

    /**
     * Adds the headers set by header(), setcookie() and sessions in this handler, except those that the framework sets too.
     *
     * @param array<string, list<string>> $headers headers of the framework's response
     * @return array<string, list<string>>
     */
    public static function withSent(array $headers): array
    {
        $lines = headers_list();
        if ($lines === []) {
            return $headers;
        }
        $known = array_change_key_case($headers);
        $sent = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $lower = strtolower($name);
            if ($lower === 'set-cookie' || !isset($known[$lower])) {
                $sent[$name][] = ltrim($value);
            }
        }
        foreach (self::of($sent) as $name => $values) {
            $headers[$name] = array_merge($headers[$name] ?? [], $values);
        }
        return $headers;
    }

    /**
     * Adds PHP's default Content-Type, HTML, if the headers contain none.
     *
     * @param array<string, list<string>> $headers
     * @return array<string, list<string>>
     */
    public static function typed(array $headers): array
    {
        $names = array_map(strtolower(...), array_map(strval(...), array_keys($headers)));
        return in_array('content-type', $names, true) ? $headers : $headers + ['Content-Type' => ['text/html; charset=UTF-8']];
    }
}
