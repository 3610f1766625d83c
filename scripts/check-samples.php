<?php

/**
 * Runs the samples of the whole documentation, or of the given pages.
 *
 * The info string of a code block selects the check:
 *   ```php              Linted. A missing `<?php` is added.
 *   ```php server       Also started. The server must print its address.
 *   ```php script       Also run until it exits, while the server above it runs.
 *   ```console          The lines `$ command` run in one bash. The other lines are the expected output, in which `…`
 *                       matches any text within a line.
 *   ```console background   As above, but started in the background. Its output is read when the page's next server starts,
 *                       or at the end of the page. The output must begin with the lines shown.
 *   ```console first    Commands that a reader types before starting the next server.
 *   ```ini FILE         (or another language) Must be identical to this file of the repository.
 *
 * A server starts as server.php in an otherwise empty folder. The folder contains only files that the page created by
 * `console first`, and the only setting is the address. The server listens on a free port, with TLS if its code has an https
 * address. In commands and scripts, `127.0.0.1:8080` and `127.0.0.1:8443` are replaced by its address. The edge's addresses,
 * `127.0.0.1:7999` and `127.0.0.1:5561`, are replaced by ones with free ports. HOME is a temporary folder.
 */

declare(strict_types=1);

const START_SECONDS_MAX = 60.0;
const COMMAND_SECONDS_MAX = 60;
const BACKGROUND_SECONDS_MAX = 30.0;

/** A child process whose standard output and error go to files, so that it never blocks on a pipe. */
final class Child
{
    /** @var resource */
    private $process;
    private readonly string $output;

    /** @param list<string> $command @param array<string, string> $environment */
    public function __construct(array $command, string $folder, array $environment)
    {
        $this->output = tempnam(dirname($folder), 'output-');
        $file = ['file', $this->output, 'a'];
        $process = proc_open($command, [['file', '/dev/null', 'r'], $file, $file], $pipes, $folder, $environment + getenv());
        if ($process === false) {
            throw new RuntimeException('cannot start ' . $command[0]);
        }
        $this->process = $process;
    }

    public function output(): string
    {
        return (string) file_get_contents($this->output);
    }

    public function running(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    /** Waits until the condition holds or the process exits. Returns false if neither happens in time. */
    public function waitUntil(Closure $condition, float $secondsMax): bool
    {
        $deadline = microtime(true) + $secondsMax;
        while (!$condition($this->output())) {
            if (microtime(true) > $deadline || !$this->running()) {
                return $condition($this->output());
            }
            usleep(10_000);
        }
        return true;
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGTERM);
        $deadline = microtime(true) + START_SECONDS_MAX;
        while ($this->running()) {
            if (microtime(true) > $deadline) {
                proc_terminate($this->process, SIGKILL);
            }
            usleep(10_000);
        }
        proc_close($this->process);
    }
}

final class Samples
{
    public int $passed = 0;
    public int $failed = 0;
    private ?Child $server = null;
    private string $address = '';
    /** Working folder of the page's server and commands. */
    private string $folder;
    private int $folders = 0;
    private bool $prepared = false;
    /** @var array<string, string> edge addresses in the documentation, and their replacements in this run */
    private array $ports = [];
    /** @var list<array{string, string, Child}> page and line, expected output, process */
    private array $background = [];

    public function __construct(private readonly string $extension, private readonly string $top)
    {
        // Hold both sockets open while choosing ports, so that the ports differ.
        foreach (['127.0.0.1:7999', '127.0.0.1:5561'] as $address) {
            $held[] = $socket = stream_socket_server('tcp://127.0.0.1:0');
            $this->ports[$address] = stream_socket_get_name($socket, false);
        }
        array_map(fclose(...), $held);
        mkdir("$top/ini");
        file_put_contents("$top/ini/fermata.ini", "extension=$extension\n");
    }

    public function page(string $path): void
    {
        $lines = file($path, FILE_IGNORE_NEW_LINES) ?: [];
        $kind = null;
        $this->prepared = false;
        $this->enterEmptyFolder();
        foreach ($lines as $index => $line) {
            if ($kind === null && preg_match('/^```(php|console)\b *(.*)$/', $line, $match)) {
                [$kind, $block, $start] = [trim("$match[1] $match[2]"), [], $index + 1];
            } elseif ($kind === null && preg_match('/^```\w+ (\S+)$/', $line, $match)) {
                [$kind, $block, $start] = ["file $match[1]", [], $index + 1];
            } elseif ($kind !== null && $line === '```') {
                $this->block($kind, implode("\n", $block), "$path:$start");
                $kind = null;
            } elseif ($kind !== null) {
                $block[] = $line;
            }
        }
        $this->endServer();
    }

    private function block(string $kind, string $text, string $place): void
    {
        if (str_starts_with($kind, 'file ')) {
            $this->file(substr($kind, 5), $text, $place);
            return;
        }
        match ($kind) {
            'php' => $this->lint($text, $place),
            'php server' => $this->lint($text, $place) && $this->startServer($text, $place),
            'php script' => $this->lint($text, $place) && $this->script($text, $place),
            'console' => ($this->server === null && $this->background === []) || $this->console($text, $place),
            'console background' => $this->startBackground($text, $place),
            'console first' => $this->prepare($text, $place),
            default => $this->fail($place, "unknown kind of sample: $kind"),
        };
    }

    private function file(string $path, string $text, string $place): bool
    {
        $is = is_file($path) ? rtrim((string) file_get_contents($path)) : null;
        return $is === rtrim($text) ? $this->pass() : $this->fail($place, $is === null ? "there is no $path" : "differs from $path");
    }

    private function enterEmptyFolder(): void
    {
        $this->folder = $this->top . '/' . ++$this->folders;
        mkdir($this->folder);
    }

    private function prepare(string $text, string $place): bool
    {
        $this->endServer();
        $this->enterEmptyFolder();
        $this->prepared = true;
        return $this->console($text, $place);
    }

    private function lint(string $code, string $place): bool
    {
        $file = "$this->top/sample.php";
        file_put_contents($file, str_starts_with($code, '<?php') ? $code : "<?php\n$code");
        exec(escapeshellarg(PHP_BINARY) . ' -n -l ' . escapeshellarg($file) . ' 2>&1', $output, $status);
        return $status === 0 ? $this->pass() : $this->fail($place, implode("\n", $output));
    }

    private function startServer(string $code, string $place): bool
    {
        $this->endServer();
        if (!$this->prepared) {
            $this->enterEmptyFolder();
        }
        $this->prepared = false;
        file_put_contents("$this->folder/server.php", strtr($code, $this->ports));
        $this->server = $this->php('server.php', [
            'FERMATA_LISTEN' => (str_contains($code, "'https://") ? 'https' : 'http') . '://127.0.0.1:0',
        ]);
        $listening = '~listening on https?://(127\.0\.0\.1:\d+)~';
        $this->server->waitUntil(static fn (string $output): bool => preg_match($listening, $output) === 1, START_SECONDS_MAX);
        if (preg_match($listening, $this->server->output(), $match) !== 1) {
            $output = $this->server->output();
            $this->server->stop();
            $this->server = null;
            return $this->fail($place, "the server did not start:\n$output");
        }
        $this->address = $match[1];
        return $this->pass();
    }

    private function endServer(): void
    {
        foreach ($this->background as [$place, $expected, $child]) {
            $begins = static fn (string $output): bool => self::matches($expected, $output, whole: false);
            $child->waitUntil($begins, BACKGROUND_SECONDS_MAX)
                ? $this->pass()
                : $this->fail($place, "expected to begin with:\n$expected\ngot:\n" . $child->output());
        }
        // Later commands are often clients of earlier ones, so stop none before all outputs are complete.
        foreach (array_reverse($this->background) as [, , $child]) {
            $child->stop();
        }
        $this->background = [];
        $this->server?->stop();
        $this->server = null;
    }

    private function script(string $code, string $place): bool
    {
        file_put_contents("$this->folder/script.php", str_replace(['127.0.0.1:8080', '127.0.0.1:8443'], $this->address, $code));
        $child = $this->php('script.php', []);
        if (!$child->waitUntil(static fn (): bool => !$child->running(), COMMAND_SECONDS_MAX)) {
            $child->stop();
            return $this->fail($place, 'the script did not end');
        }
        $output = $child->output();
        return str_contains($output, 'Fatal error') ? $this->fail($place, $output) : $this->pass();
    }

    private function console(string $text, string $place): bool
    {
        [$commands, $expected] = $this->split($text);
        $child = $this->bash($commands);
        $child->waitUntil(static fn (): bool => !$child->running(), COMMAND_SECONDS_MAX + 1.0);
        $output = $child->output();
        $child->stop();
        return self::matches($expected, $output, whole: true)
            ? $this->pass()
            : $this->fail($place, "expected:\n$expected\ngot:\n$output");
    }

    private function startBackground(string $text, string $place): bool
    {
        [$commands, $expected] = $this->split($text);
        $this->background[] = [$place, $expected, $this->bash($commands)];
        // The next sample connects to this process, but no output shows when the process is ready. So wait.
        usleep(500_000);
        return true;
    }

    /** @return array{string, string} the commands and their expected output */
    private function split(string $text): array
    {
        $commands = $expected = [];
        foreach (explode("\n", $text) as $line) {
            str_starts_with($line, '$ ') ? $commands[] = substr($line, 2) : $expected[] = $line;
        }
        $commands = str_replace(['127.0.0.1:8080', '127.0.0.1:8443'], $this->address, implode("\n", $commands));
        return [strtr($commands, $this->ports), trim(implode("\n", $expected))];
    }

    private static function matches(string $expected, string $output, bool $whole): bool
    {
        $lines = array_map(rtrim(...), explode("\n", $output));
        $pattern = str_replace('…', '[^\n]*', preg_quote($expected, '~'));
        return preg_match("~^$pattern" . ($whole ? '$~Du' : '~u'), trim(implode("\n", $lines))) === 1;
    }

    private function bash(string $commands): Child
    {
        // With exec, a single command replaces bash. A signal to the process then stops the command.
        $limit = COMMAND_SECONDS_MAX . 's';
        return new Child(['timeout', $limit, 'bash', '-c', $commands], $this->folder, [
            'GRIP_URL' => "http://{$this->ports['127.0.0.1:5561']}",
        ] + $this->environment());
    }

    /** @param array<string, string> $environment */
    private function php(string $file, array $environment): Child
    {
        return new Child([PHP_BINARY, $file], $this->folder, $environment + $this->environment());
    }

    /** @return array<string, string> */
    private function environment(): array
    {
        // The command is in the same folder as the extension.
        return [
            'HOME' => $this->top,
            // Every PHP process that a sample starts loads the extension, as after an installation.
            'PHP_INI_SCAN_DIR' => ":$this->top/ini",
            'PATH' => dirname($this->extension) . ':' . getenv('PATH'),
            'GRIP_URL' => '',
        ];
    }

    private function pass(): bool
    {
        $this->passed++;
        return true;
    }

    private function fail(string $place, string $why): bool
    {
        $this->failed++;
        fwrite(STDERR, "$place: $why\n");
        return false;
    }
}

$root = dirname(__DIR__);
$folder = sys_get_temp_dir() . '/fermata-samples-' . getmypid();
mkdir($folder);
register_shutdown_function(static fn () => exec('rm -rf ' . escapeshellarg($folder)));

chdir($root);
$samples = new Samples(getenv('FERMATA_EXTENSION') ?: "$root/build/fermata.so", $folder);
foreach (array_slice($argv, 1) ?: ['README.md', ...glob('docs/*.md'), ...glob('docs/reference/*.md')] as $page) {
    $samples->page($page);
}
echo "$samples->passed passed, $samples->failed failed\n";
exit($samples->failed === 0 ? 0 : 1);
