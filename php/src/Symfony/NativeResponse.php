<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\{Hold, Response as ServerResponse};
use Symfony\Component\HttpFoundation\Response;

/**
 * Wraps a response of the server: `new NativeResponse(Hold::sse('news'))` in a controller holds the client.
 *
 * It passes through listeners like any response. Headers and cookies that listeners set are sent. The status of the wrapped
 * response is sent, not that of this object.
 */
final class NativeResponse extends Response
{
    public function __construct(public readonly Hold|ServerResponse $answer)
    {
        parent::__construct(null, $answer instanceof ServerResponse ? $answer->status() : 200);
        // Replace Symfony's default, which is meant for pages.
        $this->headers->set('Cache-Control', 'no-store');
    }
}
