<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\{Channels, Request};
use Illuminate\Broadcasting\BroadcastManager;
use Illuminate\Support\ServiceProvider as Base;

/**
 * Registers the commands fermata:start and fermata:reload, the broadcasting driver `fermata`, the service Fermata\Channels, and
 * injects Fermata\Request into controllers.
 */
final class ServiceProvider extends Base
{
    public function register(): void
    {
        $this->app->singleton(Channels::class);
        $this->app->bind(Request::class, static fn($app) => $app['request']->attributes->get('_fermata_request'));
    }

    public function boot(): void
    {
        if ($this->app->bound(BroadcastManager::class)) {
            $this->app->make(BroadcastManager::class)->extend('fermata', static fn($app, array $config): Broadcaster => new Broadcaster($app->make(Channels::class), $config));
        }
        $this->commands([StartCommand::class, ReloadCommand::class]);
    }
}
