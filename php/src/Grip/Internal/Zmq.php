<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

use Fermata\Grip\Address;

/**
 * Publishes to the ZeroMQ PULL socket of an edge, as a PUSH socket (ZMTP 3.0, mechanism NULL).
 *
 * PULL sockets send no acknowledgement. An item counts as published if the edge read all bytes before it closed the connection.
 *
 * @internal
 */
final class Zmq
{
    private const GREETING_BYTES = 64;
    private const MORE = 1;
    private const LONG = 2;
    private const COMMAND = 4;
    private const COMMAND_BYTES_MAX = 4096;

    /** @throws Failure */
    public static function publish(Address $address, string $json, Deadline $deadline): void
    {
        $connection = new Connection($address->zmq, $deadline);
        // ZMTP 3.0 greeting: signature, version, mechanism, as-server = 0, padding.
        $connection->write("\xff" . str_repeat("\0", 8) . "\x7f\x03\x00" . str_pad('NULL', 20, "\0") . str_repeat("\0", 32));
        $greeting = $connection->read(self::GREETING_BYTES);
        if ($greeting[0] !== "\xff" || $greeting[9] !== "\x7f" || ord($greeting[10]) < 3) {
            throw $connection->failure('does not speak ZeroMQ 4', mayHelp: false);
        }
        if (rtrim(substr($greeting, 12, 20), "\0") !== 'NULL') {
            throw $connection->failure('wants a security mechanism; only NULL is spoken here', mayHelp: false);
        }
        $property = fn (string $name, string $value) => chr(strlen($name)) . $name . pack('N', strlen($value)) . $value;
        $connection->write(self::frame(self::COMMAND, "\x05READY" . $property('Socket-Type', 'PUSH') . $property('Identity', '')));
        do {
            [$flags, $length] = self::head($connection);
            if ($length > self::COMMAND_BYTES_MAX || !($flags & self::COMMAND)) {
                throw $connection->failure('breaks the protocol of ZeroMQ', mayHelp: false);
            }
            $body = $length > 0 ? $connection->read($length) : '';
        } while (!str_starts_with($body, "\x05READY") && !str_starts_with($body, "\x05ERROR"));
        if (!str_starts_with($body, "\x05READY") || !str_contains($body, 'PULL')) {
            throw $connection->failure('is no PULL socket', mayHelp: false);
        }
        $connection->write(self::frame(0, "J$json"));
        $connection->finishWriting();
        while ($connection->readSome() !== '') {
        }
    }

    private static function frame(int $flags, string $body): string
    {
        $length = strlen($body);
        return ($length > 255 ? chr($flags | self::LONG) . pack('J', $length) : chr($flags) . chr($length)) . $body;
    }

    /** @return array{int, int} flags and length of the next frame */
    private static function head(Connection $connection): array
    {
        $flags = ord($connection->read(1));
        $length = $flags & self::LONG ? unpack('J', $connection->read(8))[1] : ord($connection->read(1));
        return [$flags & ~(self::LONG | self::MORE), $length < 0 ? PHP_INT_MAX : $length];
    }
}
