<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\{Event, Publisher, Server};

/**
 * Runs an application's server in a separate process for tests: on a free port, with one worker, stopped by the destructor.
 *
 * A script runs the server; FERMATA_LISTEN in its environment overrides the script's addresses with a free port. Instead of a
 * script, a function may add routes to a server in a fork of the test's process. Its handlers use copies of the test's objects;
 * changes to them are not visible to the test.
 */
final class TestServer
{
    /** Base URL of the server: http://127.0.0.1:PORT */
    public readonly string $url;

    /** @var resource|null */
    private $process;

    /** Process id of a forked server; null: a script runs the server, or the fork was stopped. */
    private ?int $fork = null;

    /** Id of the process that created this object. Copies of the object in forks must not stop the server. */
    private readonly int $owner;
    private ?Publisher $publisher = null;
    private readonly string $folder;
    private readonly string $address;

    /**
     * @param string|\Closure(Server): mixed $program path of the script, or a function that adds routes to the server
     * @param array<string, string> $environment variables in addition to the test's environment
     * @param list<string> $arguments arguments of the script
     * @param list<string> $options options of the php command, such as "-dmemory_limit=64M"
     * @param float $timeout maximum seconds until the server listens, and of each read of a response
     * @throws \RuntimeException if the server does not listen in time; the message contains its log
     */
    public function __construct(
        string|\Closure $program,
        array $environment = [],
        array $arguments = [],
        array $options = [],
        private readonly float $timeout = 60.0,
    ) {
        if ($program instanceof \Closure && ($arguments !== [] || $options !== [])) {
            throw new \ValueError('arguments and options are those of a script; a function has neither');
        }
        $this->owner = (int) getmypid();
        $this->folder = sys_get_temp_dir() . '/fermata-test-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $environment += ['FERMATA_LISTEN' => 'http://127.0.0.1:0', 'FERMATA_WORKERS' => '1', 'FERMATA_CONTROL' => $this->control()];
        if ($environment['FERMATA_WORKERS'] === '1') {
            $environment += ['FERMATA_TEST_CLOCK' => 'on'];
        }
        if ($program instanceof \Closure) {
            $this->fork = $this->fork($program, $environment);
        } else {
            $this->process = $this->start([...$options, $program, ...$arguments], $environment);
        }
        $this->url = $this->waitForAddress();
        $this->address = substr($this->url, strlen('http://'));
    }

    public function __destruct()
    {
        if (getmypid() !== $this->owner) {
            return;
        }
        $this->stop();
        $this->removeFolder();
    }

    /**
     * Sends a request and returns the response.
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
     * Sends a request and reads the response's header section: for streams, and clients that disconnect early.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function open(string $method, string $target, array $headers = [], string $body = ''): Exchange
    {
        return $this->send($method, $target, $headers, $body)->open();
    }

    /**
     * Sends a request without reading the response, for handlers that wait.
     *
     * @param array<string, string|int|list<string>> $headers
     */
    public function send(string $method, string $target, array $headers = [], string $body = ''): Pending
    {
        return Pending::to("tcp://$this->address", $method, $target, $headers, $body, $this->timeout);
    }

    /**
     * Advances the server's clock. Sleeps, timeouts, timers, pings of held clients and connection limits expire as if the time had
     * passed. PHP's time() and microtime() do not change, and waits for other servers do not end.
     *
     * The clock advances in steps of one loop iteration each, so that repeating timers run as often as they would.
     *
     * @param float $seconds 0 or more
     * @param float $step seconds per step, from 0.001 to 60; use large steps to advance by hours
     * @throws \RuntimeException if the server's clock cannot be advanced: it must have one worker (FERMATA_WORKERS=1)
     */
    public function advance(float $seconds, float $step = 0.1): void
    {
        if (!($seconds >= 0.0 && $seconds < 1e9)) {
            throw new \ValueError('seconds has to be 0 or more, and less than 1,000,000,000');
        }
        if (!($step >= 0.001 && $step <= 60.0)) {
            throw new \ValueError('step has to be 0.001 to 60 seconds');
        }
        $step = (int) round($step * 1000);
        for ($left = (int) round($seconds * 1000); $left > 0; $left -= $step) {
            $this->setClockForward(min($left, $step));
        }
        // Run two more iterations. They are for the handlers that the last step resumed, and for those that these handlers resumed.
        $this->setClockForward(0);
        $this->setClockForward(0);
    }

    private function setClockForward(int $ms): void
    {
        $body = json_encode(['advance_ms' => $ms], JSON_THROW_ON_ERROR);
        $address = "unix://$this->folder/control";
        $answer = Pending::to($address, 'POST', '/clock', ['Host' => 'fermata'], $body, $this->timeout)->answer();
        if ($answer->status !== 200) {
            throw new \RuntimeException("the server's clock stays as it is: $answer->body");
        }
    }

    /**
     * Publishes to a channel from the test's process, which needs the extension.
     *
     * @param Event|string $event an event, or the data of an event without a name
     * @return string the id of the event
     */
    public function publish(string $channel, Event|string $event): string
    {
        $this->publisher ??= new Publisher($this->control());
        return $this->publisher->publish($channel, is_string($event) ? new Event($event) : $event);
    }

    /** Returns the server's log. */
    public function log(): string
    {
        return (string) file_get_contents("$this->folder/log");
    }

    /** Returns the application's output. */
    public function output(): string
    {
        return (string) file_get_contents("$this->folder/output");
    }

    /** Returns the process id of the server's master; 0: stopped. */
    public function pid(): int
    {
        return $this->fork ?? ($this->process === null ? 0 : proc_get_status($this->process)['pid']);
    }

    /** Stops the server gracefully. */
    public function stop(): void
    {
        if (getmypid() !== $this->owner || ($this->process === null && $this->fork === null)) {
            return;
        }
        $this->signal(SIGTERM);
        for ($deadline = microtime(true) + $this->timeout; $this->isRunning(); usleep(2000)) {
            if (microtime(true) > $deadline) {
                $this->signal(SIGKILL);
            }
        }
        if ($this->process !== null) {
            proc_close($this->process);
            $this->process = null;
        }
    }

    private function signal(int $number): void
    {
        if ($this->fork !== null) {
            posix_kill($this->fork, $number);
        } elseif ($this->process !== null) {
            proc_terminate($this->process, $number);
        }
    }

    private function isRunning(): bool
    {
        if ($this->fork === null) {
            return $this->process !== null && proc_get_status($this->process)['running'];
        }
        if (pcntl_waitpid($this->fork, $status, WNOHANG) !== 0) {
            $this->fork = null;
            return false;
        }
        return true;
    }

    /**
     * @param list<string> $command
     * @param array<string, string> $environment
     * @return resource
     */
    private function start(array $command, array $environment)
    {
        $process = proc_open(
            [PHP_BINARY, ...self::extension(), ...$command],
            [['file', '/dev/null', 'r'], ['file', "$this->folder/output", 'w'], ['file', "$this->folder/log", 'w']],
            $pipes,
            null,
            $environment + getenv(),
        );
        if ($process === false) {
            throw new \RuntimeException('PHP cannot be started');
        }
        return $process;
    }

    /**
     * @param \Closure(Server): mixed $routes
     * @param array<string, string> $environment
     */
    private function fork(\Closure $routes, array $environment): int
    {
        foreach (['fermata', 'pcntl', 'posix'] as $extension) {
            if (!extension_loaded($extension)) {
                throw new \RuntimeException("a server that a function describes needs the extension $extension in the PHP of the test");
            }
        }
        touch("$this->folder/output");
        touch("$this->folder/log");
        $pid = pcntl_fork();
        if ($pid === -1) {
            throw new \RuntimeException('no process can be made: ' . pcntl_strerror(pcntl_get_last_error()));
        }
        if ($pid > 0) {
            return $pid;
        }
        // Discard the copies of the test's output buffers, because the test prints them itself.
        while (ob_get_level() > 0 && ob_end_clean()) {
        }
        try {
            $streams = $this->redirect();
            foreach ($environment as $name => $value) {
                putenv("$name=$value");
            }
            $server = new Server();
            $routes($server);
            $server->run();
        } catch (\Throwable $error) {
            file_put_contents("$this->folder/log", "$error\n", FILE_APPEND);
        }
        // Kill this fork, because the test's shutdown functions and destructors must run only in the test's process.
        posix_kill((int) getmypid(), SIGKILL);
        exit(1);
    }

    /**
     * Redirects descriptors 1 and 2 to the output and log files. A new file gets the lowest free descriptor. So each standard
     * stream is closed directly before its file is opened, and a closed descriptor 0 is opened first.
     *
     * @return list<resource> the caller must retain these streams; freeing them closes the descriptors
     */
    private function redirect(): array
    {
        $streams = [];
        foreach (['/dev/null', "$this->folder/output", "$this->folder/log"] as $number => $file) {
            $isOpen = is_link("/proc/self/fd/$number");
            if ($isOpen && $number === 0) {
                continue;
            }
            $standard = ['STDIN', 'STDOUT', 'STDERR'][$number];
            if ($isOpen && defined($standard) && is_resource(constant($standard))) {
                fclose(constant($standard));
            }
            $streams[] = fopen($file, $number === 0 ? 'r' : 'a') ?: throw new \RuntimeException("$file cannot be opened");
            if (@readlink("/proc/self/fd/$number") !== realpath($file)) {
                throw new \RuntimeException("descriptor $number cannot be directed to $file: another file of the test has it");
            }
        }
        return $streams;
    }

    private function removeFolder(): void
    {
        array_map(unlink(...), glob("$this->folder/*") ?: []);
        @rmdir($this->folder);
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
            if (!$this->isRunning() || microtime(true) > $deadline) {
                $said = $this->log() . $this->output();
                $this->stop();
                $this->removeFolder();
                throw new \RuntimeException("the server does not listen: $said");
            }
        }
    }

    /**
     * Returns the php options that load the extension of FERMATA_EXTENSION, which the php.ini of the test may not load.
     *
     * @return list<string>
     */
    private static function extension(): array
    {
        $named = getenv('FERMATA_EXTENSION');
        return is_string($named) && $named !== '' ? ["-dextension=$named"] : [];
    }
}
