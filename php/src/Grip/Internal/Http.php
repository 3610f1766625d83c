<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

use Fermata\Grip\Address;

/**
 * Publishes to the HTTP control port of an edge.
 *
 * @internal
 */
final class Http
{
    private const SHOWN_BYTES_MAX = 500;
    private const ANSWER_BYTES_MAX = 65536;
    /** Response statuses that mean that the item was not processed. */
    private const NOT_TAKEN = [408, 429, 503];

    /** @throws Failure */
    public static function publish(Address $address, string $json, Deadline $deadline): void
    {
        $authorization = $address->authorization();
        if ($authorization !== null && !$address->isTls && !$address->isLocal()) {
            $why = 'a password or token would go unencrypted; give an https:// address';
            throw new Failure($why, mayHelp: false, wasSent: false);
        }
        $scheme = $address->isTls ? 'tls' : 'tcp';
        $url = $address->socket === null ? "$scheme://{$address->authority()}" : "unix://$address->socket";
        $connection = new Connection($url, $deadline);
        $connection->write(implode("\r\n", [
            "POST {$address->path}/publish/ HTTP/1.1",
            "Host: {$address->authority()}",
            ...($authorization === null ? [] : ["Authorization: $authorization"]),
            'Content-Type: application/json',
            'Content-Length: ' . strlen($json),
            'Connection: close',
            '',
            $json,
        ]));
        $answer = self::read($connection);
        if (preg_match('~^HTTP/1\.[01] (\d{3})\b~', $answer, $match) !== 1) {
            throw $connection->failure($answer === '' ? 'has closed the connection' : 'does not answer in HTTP');
        }
        $status = (int) $match[1];
        if ($status < 200 || $status > 299) {
            $text = trim(substr(explode("\r\n\r\n", $answer, 2)[1] ?? '', 0, self::SHOWN_BYTES_MAX));
            $isNotTaken = in_array($status, self::NOT_TAKEN, true);
            // Other 5xx statuses may come from a proxy. The edge may then have accepted the item, although its response was lost.
            $wasSent = !$isNotTaken && $status >= 500;
            throw new Failure("refuses with $status: $text", mayHelp: $isNotTaken || $wasSent, wasSent: $wasSent);
        }
    }

    /**
     * Reads up to the end of the response. Does not read to the end of the connection, because some servers close it much later.
     */
    private static function read(Connection $connection): string
    {
        $answer = '';
        do {
            $piece = $connection->readSome();
            $answer .= $piece;
        } while ($piece !== '' && strlen($answer) < self::ANSWER_BYTES_MAX && !self::isWhole($answer));
        return $answer;
    }

    private static function isWhole(string &$answer): bool
    {
        $end = strpos($answer, "\r\n\r\n");
        if ($end === false || preg_match('~^HTTP/1\.[01] (\d{3})\b~', $answer, $match) !== 1) {
            return false;
        }
        if ($match[1][0] === '1') {
            // Skip an interim (1xx) response; the final response follows.
            $answer = substr($answer, $end + 4);
            return self::isWhole($answer);
        }
        $head = substr($answer, 0, $end + 2);
        return match (true) {
            $match[1] === '204' => true,
            preg_match('~^Content-Length:[ \t]*(\d+)[ \t]*\r$~mi', $head, $length) === 1
                => strlen($answer) - $end - 4 >= (int) $length[1],
            default => preg_match('~^Transfer-Encoding:~mi', $head) === 1 && str_ends_with($answer, "\r\n0\r\n\r\n"),
        };
    }
}
