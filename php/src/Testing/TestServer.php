<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\{Event, Publisher};

/**
 * A server of an application in a process of its own, for tests: on a free port, with one worker, stopped with the object.
 *
 * The script is the program that runs the server; FERMATA_LISTEN in its environment has it listen on a free port, so its
 * addresses need no change.
 */
final class TestServer
{
    /** Where it answers: http://127.0.0.1:PORT */
    public readonly string $url;

    /** @var resource|null */
    private $process;
    private ?Publisher $publisher = null;
    private readonly string $folder;
    private readonly string $address;

    /**
     * @param string $script path of the program
     * @param array<string, string> $environment besides that of the test
     * @param list<string> $arguments of the program
     * @param list<string> $options of the php command, such as "-dmemory_limit=64M"
     * @param float $timeout seconds until it has to listen, and that any read of an answer may take
     * @throws \RuntimeException when it does not listen in time; the message has its log
     */
    public function __construct(
        string $script,
        array $environment = [],
        array $arguments = [],
        array $options = [],
        private readonly float $timeout = 60.0,
    ) {
        $this->folder = sys_get_temp_dir() . '/fermata-test-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $process = proc_open(
            [PHP_BINARY, ...self::extension(), ...$options, $script, ...$arguments],
            [['file', '/dev/null', 'r'], ['file', "$this->folder/output", 'w'], ['file', "$this->folder/log", 'w']],
            $pipes,
            null,
            $environment + ['FERMATA_LISTEN' => 'http://127.0.0.1:0', 'FERMATA_WORKERS' => '1', 'FERMATA_CONTROL' => $this->control()] + getenv(),
        );
        if ($process === false) {
            throw new \RuntimeException('PHP cannot be started');
        }
        $this->process = $process;
        $this->url = $this->waitForAddress();
        $this->address = substr($this->url, strlen('http://'));
    }

    public function __destruct()
    {
        $this->stop();
        array_map(unlink(...), glob("$this->folder/*") ?: []);
        @rmdir($this->folder);
    }

    /**
     * Sends a request and reads its answer.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function request(string $method, string $target, array $headers = [], string $body = ''): Answer
    {
        return $this->open($method, $target, $headers, $body)->answer();
    }

    /** @param array<string, string|int|list<string>> $headers */
    public function get(string $target, array $headers = []): Answer
    {
        return $this->request('GET', $target, $headers);
    }

    /**
     * Posts a form.
     *
     * @param array<string, mixed> $fields
     * @param array<string, string|int|list<string>> $headers
     */
    public function post(string $target, array $fields = [], array $headers = []): Answer
    {
        return $this->request('POST', $target, $headers + ['Content-Type' => 'application/x-www-form-urlencoded'], http_build_query($fields));
    }

    /**
     * Sends a request and reads the head of its answer: for streams, and clients that leave early.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function open(string $method, string $target, array $headers = [], string $body = ''): Exchange
    {
        return new Exchange($this->address, $method, $target, $headers, $body, $this->timeout);
    }

    /**
     * Publishes to a channel, from outside of the server; the test itself needs the extension for that.
     *
     * @param Event|string $event the data stands for an event without a name
     * @return string the id of the event
     */
    public function publish(string $channel, Event|string $event): string
    {
        $this->publisher ??= new Publisher($this->control());
        return $this->publisher->publish($channel, is_string($event) ? new Event($event) : $event);
    }

    /** What the server has logged so far. */
    public function log(): string
    {
        return (string) file_get_contents("$this->folder/log");
    }

    /** What the application has printed so far. */
    public function output(): string
    {
        return (string) file_get_contents("$this->folder/output");
    }

    /** The process id of its master. */
    public function pid(): int
    {
        return $this->process === null ? 0 : proc_get_status($this->process)['pid'];
    }

    /** Ends it in order. */
    public function stop(): void
    {
        if ($this->process === null) {
            return;
        }
        proc_terminate($this->process);
        for ($deadline = microtime(true) + $this->timeout; proc_get_status($this->process)['running']; usleep(2000)) {
            if (microtime(true) > $deadline) {
                proc_terminate($this->process, 9);
            }
        }
        proc_close($this->process);
        $this->process = null;
    }

    private function control(): string
    {
        return "unix:$this->folder/control";
    }

    private function waitForAddress(): string
    {
        for ($deadline = microtime(true) + $this->timeout;; usleep(2000)) {
            if (preg_match('~listening on (http://[0-9.]+:\d+)~', $this->log(), $found)) {
                return $found[1];
            }
            if ($this->process === null || !proc_get_status($this->process)['running'] || microtime(true) > $deadline) {
                $said = $this->log() . $this->output();
                $this->stop();
                throw new \RuntimeException("the server does not listen: $said");
            }
        }
    }

    /**
     * The test may have been started with the extension named on its command line.
     *
     * @return list<string>
     */
    private static function extension(): array
    {
        $named = getenv('FERMATA_EXTENSION');
        return is_string($named) && $named !== '' ? ["-dextension=$named"] : [];
    }
}
