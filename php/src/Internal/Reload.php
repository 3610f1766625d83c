<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\Runtime;

/**
 * Restarts a server with new code: one console command runs the server, another one requests its restart.
 *
 * The application is loaded before the workers are forked, so new code requires a new process image. The server shuts down
 * gracefully, then its master executes its original command again with exec(), under the same process id. A file contains the
 * master's process id and start time, so that a reused process id is never signalled. A stop during the shutdown prevents the
 * restart.
 *
 * @internal
 */
final class Reload
{
    /**
     * @param string|null $before previous content of the file if it names a running server; restored if this server fails to listen
     * @param list<string> $command
     * @param array<string, string> $environment
     */
    private function __construct(
        private readonly string $file,
        private readonly ?string $before,
        private readonly int $pid,
        private readonly array $command,
        private readonly array $environment,
    ) {}

    /** Writes the file. Call it in the future master, before the server runs. Returns null if a reload is not possible here. */
    public static function prepare(string $file): ?self
    {
        $pid = (int) getmypid();
        $began = self::began($pid);
        // Read the original environment, without the .env variables that frameworks add: the restarted server reads .env again.
        $environment = @file_get_contents('/proc/self/environ');
        $command = @file_get_contents('/proc/self/cmdline');
        if ($began === null || $environment === false || $command === false || !function_exists('pcntl_exec') || getenv('LISTEN_PID') === (string) $pid) {
            return null;
        }
        [$other, $otherBegan] = self::read($file);
        $before = $other !== null && $other !== $pid && self::began($other) === $otherBegan ? "$other $otherBegan" : null;
        $folder = dirname($file);
        if ((!is_dir($folder) && !@mkdir($folder, recursive: true)) || !self::write($file, "$pid $began")) {
            return null;
        }
        $variables = [];
        foreach (explode("\0", rtrim($environment, "\0")) as $line) {
            [$name, $value] = explode('=', $line, 2) + [1 => ''];
            $variables[$name] = $value;
        }
        return new self($file, $before, $pid, array_slice(explode("\0", substr($command, 0, -1)), 1), $variables);
    }

    /**
     * Call it after the server stopped. Does not return if a restart was requested.
     *
     * @throws \RuntimeException if the command cannot be executed again
     */
    public function finish(): void
    {
        [$pid] = self::read($this->file);
        if ($pid === $this->pid && ($this->before === null || !self::write($this->file, $this->before))) {
            @unlink($this->file);
        }
        if (Runtime::isToRestart()) {
            pcntl_exec(PHP_BINARY, $this->command, $this->environment);
            throw new \RuntimeException('the server cannot start anew: ' . pcntl_strerror(pcntl_get_last_error()));
        }
    }

    /**
     * Requests a restart of the server that the file names.
     *
     * @return int|null process id of the server's master; null if no server runs
     */
    public static function ask(string $file): ?int
    {
        [$pid, $began] = self::read($file);
        if ($pid === null || self::began($pid) !== $began) {
            return null;
        }
        return posix_kill($pid, SIGUSR2) ? $pid : null;
    }

    /** Returns the start time of a process in clock ticks since boot. Returns null if there is no such process. */
    private static function began(int $pid): ?string
    {
        $stat = @file_get_contents("/proc/$pid/stat");
        // Skip the process name, which is in parentheses and may contain spaces.
        return $stat === false ? null : explode(' ', substr($stat, (int) strrpos($stat, ')') + 2))[19] ?? null;
    }

    /** @return array{?int, ?string} */
    private static function read(string $file): array
    {
        $text = @file_get_contents($file);
        if ($text === false || !preg_match('/^([1-9]\d*) (\d+)$/D', $text, $found)) {
            return [null, null];
        }
        return [(int) $found[1], $found[2]];
    }

    private static function write(string $file, string $text): bool
    {
        $new = "$file." . getmypid();
        return @file_put_contents($new, $text) !== false && @rename($new, $file);
    }
}
