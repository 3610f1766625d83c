<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\{Hold, Response};
use Fermata\Exception\MisuseError;

/**
 * Headers as frameworks give them, made such that a Response takes them.
 *
 * @internal
 */
final class Headers
{
    /** They frame the message, and are the server's to send. */
    private const FRAMING = ['connection' => 1, 'content-length' => 1, 'keep-alive' => 1, 'proxy-connection' => 1, 'te' => 1,
        'trailer' => 1, 'transfer-encoding' => 1, 'upgrade' => 1];

    /** Phrases that are the server's own, of what is answered often. */
    private const REASONS = [200 => 'OK', 201 => 'Created', 202 => 'Accepted', 204 => 'No Content', 301 => 'Moved Permanently',
        302 => 'Found', 303 => 'See Other', 304 => 'Not Modified', 307 => 'Temporary Redirect', 308 => 'Permanent Redirect',
        400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found', 405 => 'Method Not Allowed',
        429 => 'Too Many Requests', 500 => 'Internal Server Error', 503 => 'Service Unavailable'];

    /**
     * Leaves out what frames the message; a value may be a list, of numbers too. Of a Content-Type the last counts.
     *
     * @param iterable<string|int, mixed> $headers by name, in any case
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
     * Sets headers of an answer, each with all its values. Cookies join those that it has; other headers replace its own.
     *
     * @template T of Response|Hold
     * @param T $answer
     * @param array<string, list<string>> $headers
     * @param list<string> $except names that are the answer's own, in lower case
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
     * Gives an answer the reason phrase that a framework's response has, where that is not the usual one. Frameworks take any
     * text there; of one that cannot be sent the answer has the usual phrase, since no client may depend on it.
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
     * What header(), setcookie() and a session have set in this handler, where the framework has not set the same.
     *
     * @param array<string, list<string>> $headers of the framework's response
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
     * A page of PHP is HTML if it does not say otherwise.
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
