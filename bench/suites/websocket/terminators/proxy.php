<?php

/**
 * A TLS terminator in PHP, like the one in front of every server of seed 003: `php proxy.php PORT BACKEND CERTIFICATE KEY`.
 *
 * stream_select() supports descriptors up to 1023, so it serves about 500 clients.
 */

declare(strict_types=1);

const READ_BYTES = 65_536;
/** Maximum bytes queued for a side. Beyond it, the other side is not read. */
const QUEUE_BYTES_MAX = 1 << 20;

[, $port, $backend, $certificate, $key] = $argv;

$context = stream_context_create([
    'socket' => ['backlog' => 4096, 'tcp_nodelay' => true],
    'ssl' => ['local_cert' => $certificate, 'local_pk' => $key],
]);
$listener = stream_socket_server("tcp://127.0.0.1:$port", $code, $message, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
if ($listener === false) {
    fwrite(STDERR, "$message\n");
    exit(1);
}
stream_set_blocking($listener, false);

/** One side of a connection: its output queue, and the other side. */
final class Side
{
    public string $queue = '';
    public ?Side $other = null;

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream, public bool $shaking)
    {
    }
}

/** @var array<int, Side> $sides */
$sides = [];

$close = static function (Side $side) use (&$sides): void {
    foreach ([$side, $side->other] as $one) {
        if ($one !== null && isset($sides[(int) $one->stream])) {
            unset($sides[(int) $one->stream]);
            fclose($one->stream);
        }
    }
};

$flush = static function (Side $side) use ($close): void {
    while ($side->queue !== '') {
        $count = @fwrite($side->stream, $side->queue);
        if ($count === false) {
            $close($side);
            return;
        }
        if ($count === 0) {
            return;
        }
        $side->queue = substr($side->queue, $count);
    }
};

while (true) {
    $read = [$listener];
    $write = [];
    foreach ($sides as $side) {
        if ($side->shaking || strlen($side->other?->queue ?? '') < QUEUE_BYTES_MAX) {
            $read[] = $side->stream;
        }
        if ($side->queue !== '' && !$side->shaking) {
            $write[] = $side->stream;
        }
    }
    $except = null;
    if (@stream_select($read, $write, $except, null) === false) {
        continue;
    }
    foreach ($write as $stream) {
        if (isset($sides[(int) $stream])) {
            $flush($sides[(int) $stream]);
        }
    }
    foreach ($read as $stream) {
        if ($stream === $listener) {
            while (($accepted = @stream_socket_accept($listener, 0)) !== false) {
                stream_set_blocking($accepted, false);
                $sides[(int) $accepted] = new Side($accepted, true);
            }
            continue;
        }
        $side = $sides[(int) $stream] ?? null;
        if ($side === null) {
            continue;
        }
        if ($side->shaking) {
            $done = @stream_socket_enable_crypto($stream, true, STREAM_CRYPTO_METHOD_TLS_SERVER);
            if ($done === false) {
                $close($side);
                continue;
            }
            if ($done === 0) {
                continue;
            }
            $side->shaking = false;
            $upstream = @stream_socket_client("tcp://127.0.0.1:$backend", $code, $message, 5);
            if ($upstream === false) {
                $close($side);
                continue;
            }
            stream_set_blocking($upstream, false);
            stream_set_read_buffer($upstream, 0);
            $sides[(int) $upstream] = $side->other = new Side($upstream, false);
            $side->other->other = $side;
        }
        // stream_select() ignores bytes that OpenSSL has already decrypted, so read until no bytes are left.
        do {
            $bytes = @fread($stream, READ_BYTES);
            if ($bytes === false || $bytes === '') {
                break;
            }
            $side->other->queue .= $bytes;
        } while (strlen($side->other->queue) < QUEUE_BYTES_MAX);
        $ended = feof($stream);
        if ($side->other !== null && $side->other->queue !== '') {
            $flush($side->other);
        }
        if ($ended) {
            $close($side);
        }
    }
}
