<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

use Fermata\Grip\Address;

/**
 * The HTTP control port of an edge.
 *
 * @internal
 */
final class Http
{
    private const SHOWN_BYTES_MAX = 500;

    /** @throws Failure */
    public static function publish(Address $address, string $json, Deadline $deadline): void
    {
        $authorization = $address->authorization();
        if ($authorization !== null && !$address->isTls && !$address->isLocal()) {
            $why = 'a password or token would go unencrypted; give an https:// address';
            throw new Failure($why, mayHelp: false, wasSent: false);
        }
        $scheme = $address->isTls ? 'tls' : 'tcp';
        $connection = new Connection("$scheme://{$address->authority()}", $deadline);
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
        $answer = $connection->read();
        if (preg_match('~^HTTP/1\.[01] (\d{3})\b~', $answer, $match) !== 1) {
            throw $connection->failure($answer === '' ? 'has closed the connection' : 'does not answer in HTTP');
        }
        $status = (int) $match[1];
        if ($status < 200 || $status > 299) {
            $text = trim(substr(explode("\r\n\r\n", $answer, 2)[1] ?? '', 0, self::SHOWN_BYTES_MAX));
            // Then it has not taken the item, and says so.
            $mayHelp = $status === 408 || $status === 429 || $status >= 500;
            throw new Failure("refuses with $status: $text", $mayHelp, wasSent: false);
        }
    }
}
