<?php

declare(strict_types=1);

namespace Fermata\Laravel\Octane;

use Fermata\Internal\{FrontController, HttpFoundation};
use Fermata\{Hold, Request, Response};
use Illuminate\Foundation\Application;
use Illuminate\Http\Request as LaravelRequest;
use Laravel\Octane\Contracts\StoppableClient;
use Laravel\Octane\{Octane, OctaneResponse, RequestContext};

/**
 * What Octane's worker knows of the server: where requests come from, and where its responses go.
 *
 * A response is handed over by suspending the Fiber that handles the request, so that it leaves before Octane terminates the
 * request. Files of the public folder never come here.
 *
 * @internal
 */
final class Client implements StoppableClient
{
    /** Buffers of output that were open when the request came. */
    private int $level = 0;

    /** @return array{LaravelRequest, RequestContext} */
    public function marshalRequest(RequestContext $context): array
    {
        $this->level = ob_get_level();
        $request = LaravelRequest::capture();
        $request->attributes->set('_fermata_request', $context->native);
        return [$request, $context];
    }

    public function respond(RequestContext $context, OctaneResponse $octaneResponse): void
    {
        // What was printed comes first, as PHP-FPM sends it; HttpFoundation takes it from the buffer.
        echo $octaneResponse->outputBuffer;
        self::hand(HttpFoundation::answer($context->native, $octaneResponse->response));
    }

    public function error(\Throwable $error, Application $application, LaravelRequest $request, RequestContext $context): void
    {
        while (ob_get_level() > $this->level && ob_end_clean()) {
        }
        FrontController::printed();
        $text = Octane::formatExceptionForClient($error, (bool) $application->make('config')->get('app.debug'));
        self::hand(new Response(500, $text, ['Content-Type' => 'text/plain; charset=UTF-8']));
    }

    /** The worker finishes what it has, and the master replaces it. */
    public function stop(): void
    {
        posix_kill(getmypid(), SIGTERM);
    }

    private static function hand(Response|Hold $answer): void
    {
        \Fiber::suspend($answer);
    }
}
