<?php

declare(strict_types=1);

namespace App\Http;

use Illuminate\Cookie\Middleware\{AddQueuedCookiesToResponse, EncryptCookies};
use Illuminate\Foundation\Http\Kernel as Base;
use Illuminate\Foundation\Http\Middleware\VerifyCsrfToken;
use Illuminate\Routing\Middleware\SubstituteBindings;
use Illuminate\Session\Middleware\StartSession;

final class Kernel extends Base
{
    protected $middlewareGroups = [
        'web' => [EncryptCookies::class, AddQueuedCookiesToResponse::class, StartSession::class, VerifyCsrfToken::class, SubstituteBindings::class],
    ];
}
