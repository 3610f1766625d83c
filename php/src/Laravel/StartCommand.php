<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\Exception\ConfigurationException;
use Fermata\Internal\{Extension, Number, Reload};
use Illuminate\Console\Command;
use Symfony\Component\Process\ExecutableFinder;

/** Serves the application: php artisan fermata:start, with the options of octane:start */
final class StartCommand extends Command
{
    protected $signature = 'fermata:start
        {--host=127.0.0.1 : The address to listen on}
        {--port=8000 : The port}
        {--workers=auto : How many worker processes}
        {--task-workers=auto : With Octane: how many processes for its tasks; 0 = they run in the worker that asks}
        {--max-requests=0 : Requests after which a worker is replaced; 0 = never}
        {--watch : Start anew when files of the application change, by `fermata dev`}
        {--poll : Look at the files again and again while watching, for mounted folders}
        {--log-level= : Log from this level on: debug, info, warning, error}';

    protected $description = 'Serve the application with Fermata';

    public function handle(): int
    {
        try {
            return $this->start();
        } catch (ConfigurationException | \InvalidArgumentException $error) {
            // Print only the message, because Laravel would add a stack trace.
            $this->error($error->getMessage());
            return 1;
        }
    }

    private function start(): int
    {
        $level = $this->option('log-level');
        if ($level !== null) {
            putenv("FERMATA_LOG_LEVEL=$level");
        }
        $listen = getenv('FERMATA_LISTEN') ?: "http://{$this->option('host')}:{$this->option('port')}";
        if ($this->option('watch')) {
            return $this->watch($listen);
        }
        if (!extension_loaded('fermata')) {
            $this->error(Extension::missing());
            return 1;
        }
        // The server boots a second application, because the current one is configured for the console.
        $server = new Server(
            $this->laravel->basePath(),
            $listen,
            $this->count('workers'),
            requestsMax: Number::of('--max-requests', $this->option('max-requests')),
            taskWorkers: $this->count('task-workers') ?? 1,
        );
        $reload = Reload::prepare($this->laravel->storagePath() . '/' . ReloadCommand::FILE);
        try {
            $server->run();
        } finally {
            $reload?->finish();
        }
        return 0;
    }

    /** Returns the number in an option; null: auto. */
    private function count(string $option): ?int
    {
        $count = $this->option($option);
        return $count === 'auto' ? null : Number::of("--$option, if not auto,", $count);
    }

    /** Replaces this process with `fermata dev`, which runs this command without --watch. */
    private function watch(string $listen): int
    {
        $command = (new ExecutableFinder())->find('fermata');
        if ($command === null || !function_exists('pcntl_exec')) {
            $this->error($command === null ? 'There is no command fermata in PATH, which watches' : 'PHP has no pcntl, which --watch needs');
            return 1;
        }
        $workers = $this->count('workers');
        pcntl_exec($command, [
            'dev', '--php', PHP_BINARY, '--listen', $listen, '--watch', $this->laravel->basePath(), ...($this->option('poll') ? ['--poll'] : []), ...($workers === null ? [] : ['--workers', (string) $workers]),
            $this->laravel->basePath('artisan'), '--', 'fermata:start', "--task-workers={$this->option('task-workers')}", "--max-requests={$this->option('max-requests')}",
        ]);
        $this->error("$command cannot be run");
        return 1;
    }
}
