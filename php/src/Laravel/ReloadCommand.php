<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\Internal\Reload;
use Illuminate\Console\Command;

/** Restarts the server of fermata:start with new code: php artisan fermata:reload */
final class ReloadCommand extends Command
{
    /** File in the storage folder that names the application's running server. */
    public const FILE = 'framework/fermata.pid';

    protected $signature = 'fermata:reload';

    protected $description = 'Start the server of fermata:start anew, with new code; its requests are finished first';

    public function handle(): int
    {
        $pid = Reload::ask($this->laravel->storagePath() . '/' . self::FILE);
        if ($pid === null) {
            $this->error('No server of fermata:start runs here that can be reloaded');
            return 1;
        }
        $this->info("The server $pid finishes its requests and restarts");
        return 0;
    }
}
