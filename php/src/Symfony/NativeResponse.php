<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\{Hold, Response as ServerResponse};
use Symfony\Component\HttpFoundation\Response;

/**
 * An answer that the server itself makes: `new NativeResponse(Hold::sse('news'))` in a controller holds the client.
 *
 * It passes through listeners like any response. Headers and cookies that they set go with the answer; a Response of the
 * server's keeps its status.
 */
final class NativeResponse extends Response
{
    public function __construct(public readonly Hold|ServerResponse $answer)
    {
        parent::__construct(null, $answer instanceof ServerResponse ? $answer->status() : 200);
        // What a Response sets by itself is for pages.
        $this->headers->set('Cache-Control', 'no-store');
    }
}
