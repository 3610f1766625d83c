<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Illuminate\Console\Command;

/** Serves the application: php artisan fermata:start */
final class StartCommand extends Command
{
    protected $signature = 'fermata:start
        {--host=127.0.0.1 : The address to listen on}
        {--port=8000 : The port}
        {--workers=auto : How many worker processes}
        {--max-requests=0 : Requests after which a worker is replaced; 0 = never}';

    protected $description = 'Serve the application with Fermata';

    public function handle(): int
    {
        $workers = $this->option('workers');
        // An application of its own: that of the console runs in the console.
        $server = new Server(
            $this->laravel->basePath(),
            getenv('FERMATA_LISTEN') ?: "http://{$this->option('host')}:{$this->option('port')}",
            $workers === 'auto' ? null : (int) $workers,
            requestsMax: (int) $this->option('max-requests'),
        );
        $server->run();
        return 0;
    }
}
