<?php

declare(strict_types=1);

namespace Fermata\Internal;

use Fermata\Runtime;

/**
 * A server that is run by a console's command, and what another command needs to have it start anew with new code.
 *
 * The application is loaded before the workers are forked, so new code takes a new program: the server ends in order, and its
 * master becomes, by exec(), the command that it was started with, under the same process id. A file names the master and when
 * it began, so that a process id that somebody else has by now is never signalled. A stop that comes meanwhile wins.
 *
 * @internal
 */
final class Reload
{
    /**
     * @param string|null $before what the file said of a server that runs: this one may not come to listen beside it
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

    /** Before the server runs, in the process that will be its master; null: it cannot be reloaded here. */
    public static function prepare(string $file): ?self
    {
        $pid = (int) getmypid();
        $began = self::began($pid);
        // Frameworks put what .env has into the environment; the new program reads that file again.
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
     * After the server has ended: does not return when it is to start anew.
     *
     * @throws \RuntimeException when the command cannot be run again
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
     * Asks the server that the file names to end and start anew.
     *
     * @return int|null the process id of its master; null when none runs
     */
    public static function ask(string $file): ?int
    {
        [$pid, $began] = self::read($file);
        if ($pid === null || self::began($pid) !== $began) {
            return null;
        }
        return posix_kill($pid, SIGUSR2) ? $pid : null;
    }

    /** When a process began, in ticks since the machine did; null: there is none. */
    private static function began(int $pid): ?string
    {
        $stat = @file_get_contents("/proc/$pid/stat");
        // The name of the program is in parentheses, and may have spaces.
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
