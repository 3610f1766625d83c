<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\{Channel, Event, Server};

/**
 * A server in the process of the test: no port, no other process, no waiting.
 *
 * Requests go through what serves them in production, and answers, events and frames are read from the bytes that a client
 * would get. Handlers run while the test asks for something, with the objects of the test: a double can be asked afterwards
 * what was done to it. The clock stands still until advance() sets it forward.
 *
 *     $app = TestApplication::of(function (Server $server): void {
 *         $server->get('/', fn (): Response => Response::text('Hello'));
 *     });
 *     assert($app->get('/')->body === 'Hello');
 *
 * There is one at a time in a process; stop() makes room for the next. It is the only worker, number 0: messages to it and to
 * all come to Server::onMessage(). Jobs run in the process of the test; one that is to crash, exit or take too long needs a
 * process of its own: see TestServer.
 */
final class TestApplication
{
    /** Bytes that a client sends at once before the server has read them. */
    private const PIECE_BYTES = 65536;

    private readonly Engine $engine;

    private function __construct(public readonly Server $server, private readonly string $address, float $waitSeconds)
    {
        $this->engine = new Engine($server, $waitSeconds);
    }

    /**
     * @param Server|\Closure(Server): mixed $server with its routes and not run, or what adds routes to one
     * @param string $address from which clients come, for Request::ip() and the like
     * @param float $waitSeconds how long handlers may wait for what is outside of this process, such as a database
     */
    public static function of(Server|\Closure $server, string $address = '127.0.0.1', float $waitSeconds = 10.0): self
    {
        if ($server instanceof \Closure) {
            $routes = $server;
            $server = new Server();
            $routes($server);
        }
        return new self($server, $address, $waitSeconds);
    }

    /**
     * Sends a request and reads its answer.
     *
     * @param array<string, string|int|list<string>> $headers
     * @param mixed $json what is sent as JSON in place of a body; null = nothing
     */
    public function request(string $method, string $target, array $headers = [], string $body = '', mixed $json = null): Answer
    {
        return $this->open($method, $target, $headers, $body, $json)->answer();
    }

    /** @param array<string, string|int|list<string>> $headers */
    public function get(string $target, array $headers = []): Answer
    {
        return $this->request('GET', $target, $headers);
    }

    /**
     * Posts a form, a body or JSON.
     *
     * @param array<string, mixed> $fields
     * @param array<string, string|int|list<string>> $headers
     */
    public function post(string $target, array $fields = [], array $headers = [], string $body = '', mixed $json = null): Answer
    {
        if ($fields !== []) {
            $body = http_build_query($fields);
            $headers += ['Content-Type' => 'application/x-www-form-urlencoded'];
        }
        return $this->request('POST', $target, $headers, $body, $json);
    }

    /**
     * @param array<string, string|int|list<string>> $headers
     */
    public function put(string $target, array $headers = [], string $body = '', mixed $json = null): Answer
    {
        return $this->request('PUT', $target, $headers, $body, $json);
    }

    /**
     * @param array<string, string|int|list<string>> $headers
     */
    public function patch(string $target, array $headers = [], string $body = '', mixed $json = null): Answer
    {
        return $this->request('PATCH', $target, $headers, $body, $json);
    }

    /** @param array<string, string|int|list<string>> $headers */
    public function delete(string $target, array $headers = []): Answer
    {
        return $this->request('DELETE', $target, $headers);
    }

    /**
     * Sends a request and reads the head of its answer: for held clients, streams, and clients that leave early.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function open(string $method, string $target, array $headers = [], string $body = '', mixed $json = null): Exchange
    {
        return $this->send($method, $target, $headers, $body, $json)->open();
    }

    /**
     * Sends a request and lets its handler run until it waits: for handlers that wait for a time, which advance() sets forward.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function send(string $method, string $target, array $headers = [], string $body = '', mixed $json = null): Pending
    {
        if ($json !== null) {
            $body = json_encode($json, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
            $headers += ['Content-Type' => 'application/json'];
        }
        $this->engine->takeException();
        $this->engine->takeHold();
        $stream = $this->connect();
        $this->write($stream, Pending::text($method, $target, $headers + ['Host' => 'localhost'], $body));
        $this->run();
        return new Pending($stream, $method, $this->run(...), $this->engine->takeHold(...));
    }

    /**
     * Opens a WebSocket.
     *
     * @param array<string, string|int|list<string>> $headers such as ['Origin' => 'http://localhost']
     * @param list<string> $protocols
     * @throws Refused when the server refuses it; the exception has the answer
     */
    public function webSocket(string $target, array $headers = [], array $protocols = []): TestSocket
    {
        $this->engine->takeException();
        $stream = $this->connect();
        $key = base64_encode(random_bytes(16));
        $headers += ['Host' => 'localhost', 'Connection' => 'Upgrade', 'Upgrade' => 'websocket', 'Sec-WebSocket-Version' => 13, 'Sec-WebSocket-Key' => $key];
        if ($protocols !== []) {
            $headers += ['Sec-WebSocket-Protocol' => implode(', ', $protocols)];
        }
        $this->write($stream, Pending::text('GET', $target, $headers, ''));
        $this->run();
        return new TestSocket($stream, $key, $this->run(...));
    }

    /**
     * Publishes to a channel, as a handler does.
     *
     * @return string the id of the event
     */
    public function publish(string $channel, Event|string $event): string
    {
        $id = Channel::get($channel)->publish($event);
        $this->run();
        return $id;
    }

    /** Runs the server until nothing is left to do at this time. Everything else here does so as well. */
    public function run(): void
    {
        $this->engine->run();
    }

    /**
     * Sets the clock forward: what waits for a time (sleep, timeouts, timers, comments for held clients, limits of connections)
     * goes on as if that time had passed, each when it is due and as often as it is. PHP's own time() and microtime() do not.
     *
     * @param float $seconds 0 or more
     */
    public function advance(float $seconds): void
    {
        if (!($seconds >= 0.0 && $seconds < 1e9)) {
            throw new \ValueError('seconds has to be 0 or more, and less than 1,000,000,000');
        }
        for ($left = (int) round($seconds * 1000); $left > 0;) {
            $left -= $this->engine->advance($left);
        }
        $this->engine->run();
    }

    /** What a handler has thrown since the last request was sent, for which its client was answered; null: nothing. */
    public function takeException(): ?\Throwable
    {
        return $this->engine->takeException();
    }

    /** What the server has logged so far. */
    public function log(): string
    {
        return $this->engine->log();
    }

    /** Ends handlers that wait and all connections. The log can still be read. */
    public function stop(): void
    {
        $this->engine->stop();
    }

    /** @return resource the client's end of a connection, which does not block */
    private function connect()
    {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if ($pair === false) {
            throw new \RuntimeException('no connection can be made');
        }
        stream_set_blocking($pair[0], false);
        $this->engine->connect($pair[1], $this->address);
        return $pair[0];
    }

    /** @param resource $stream */
    private function write($stream, string $bytes): void
    {
        for ($sent = 0; $sent < strlen($bytes); $sent += $taken) {
            $taken = (int) @fwrite($stream, substr($bytes, $sent, self::PIECE_BYTES));
            if ($taken === 0) {
                $this->run();
                $taken = (int) @fwrite($stream, substr($bytes, $sent, self::PIECE_BYTES));
                if ($taken === 0) {
                    // The server does not read on: it has answered, or its handler reads the body when it wants to.
                    return;
                }
            }
        }
    }
}
