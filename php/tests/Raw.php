<?php

declare(strict_types=1);

namespace Fermata\Tests;

use Fermata\Testing\TestServer;

/** Sends raw bytes, for requests that current clients do not send, and reads the response until the server closes. */
final class Raw
{
    /** @param string $address socket address; default: the server's */
    public static function ask(TestServer $server, string $bytes, ?string $address = null): string
    {
        $socket = stream_socket_client($address ?? str_replace('http://', 'tcp://', $server->url), $code, $message, 10.0);
        stream_set_timeout($socket, 10);
        fwrite($socket, $bytes);
        $answer = (string) stream_get_contents($socket);
        if (stream_get_meta_data($socket)['timed_out']) {
            throw new \RuntimeException("the server did not end its answer: $answer");
        }
        return $answer;
    }
}
