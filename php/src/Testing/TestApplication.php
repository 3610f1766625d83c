<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\{Channel, Event, Server};

/**
 * A server in the test's process: no port, no other process, no waiting.
 *
 * Requests pass through the production code, and responses, events and frames are parsed from the bytes that a client would
 * receive. Handlers run during calls of this object's methods and use the test's objects, so a test double can be inspected
 * afterwards. The clock only advances with advance().
 *
 *     $app = TestApplication::of(function (Server $server): void {
 *         $server->get('/', fn (): Response => Response::text('Hello'));
 *     });
 *     assert($app->get('/')->body === 'Hello');
 *
 * A process can have one at a time; call stop() before creating the next. It is worker 0 and the only worker: messages to worker
 * 0 or to all workers reach Server::onMessage(). Jobs run in the test's process. To test a job that crashes, exits or times out,
 * use TestServer.
 */
final class TestApplication
{
    /** Maximum number of bytes that a client sends before the server reads them. */
    private const PIECE_BYTES = 65536;

    private readonly Engine $engine;

    private function __construct(public readonly Server $server, private readonly string $address, float $waitSeconds)
    {
        $this->engine = new Engine($server, $waitSeconds);
    }

    /**
     * @param Server|\Closure(Server): mixed $server a server with routes that was not run, or a function that adds routes to one
     * @param string $address client address, as in Request::ip()
     * @param float $waitSeconds maximum time that handlers wait for something outside this process, such as a database
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
     * Sends a request and returns the response.
     *
     * @param array<string, string|int|list<string>> $headers
     * @param mixed $json value that is sent as JSON instead of `$body`; null = none
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
     * Sends a request and reads the response's header section: for held clients, streams, and clients that disconnect early.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function open(string $method, string $target, array $headers = [], string $body = '', mixed $json = null): Exchange
    {
        return $this->send($method, $target, $headers, $body, $json)->open();
    }

    /**
     * Sends a request and runs its handler until the handler waits; call advance() to end a wait for time.
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
     * @throws Refused if the server refuses it; the exception contains the response
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
     * Publishes to a channel like a handler.
     *
     * @return string the id of the event
     */
    public function publish(string $channel, Event|string $event): string
    {
        $id = Channel::get($channel)->publish($event);
        $this->run();
        return $id;
    }

    /** Runs the server until it has no work left at the current time. All other methods do so too. */
    public function run(): void
    {
        $this->engine->run();
    }

    /**
     * Advances the clock. Sleeps, timeouts, timers, comments for held clients and connection limits expire in order as if the time
     * had passed, repeating ones repeatedly. PHP's time() and microtime() do not change.
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

    /** Returns the exception that a handler threw since the last request was sent. Returns null if there is none. */
    public function takeException(): ?\Throwable
    {
        return $this->engine->takeException();
    }

    /** Returns the server's log. */
    public function log(): string
    {
        return $this->engine->log();
    }

    /** Cancels waiting handlers and closes all connections. The log remains readable. */
    public function stop(): void
    {
        $this->engine->stop();
    }

    /** @return resource the client's end of a connection, non-blocking */
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
                    // The server has stopped reading, because it has responded, or because its handler reads the body later.
                    return;
                }
            }
        }
    }
}
