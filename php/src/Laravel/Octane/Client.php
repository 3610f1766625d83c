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
 * Passes requests and responses between the server and Octane's worker.
 *
 * respond() suspends the request's Fiber with the response, so that the server sends it before Octane terminates the request.
 * FrontController sends files of the public folder before Octane is called.
 *
 * @internal
 */
final class Client implements StoppableClient
{
    /** Output buffer level at the start of the request. */
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
        // Print the captured output before the body, as under PHP-FPM. HttpFoundation reads it from the buffer.
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

    /** Replaces the worker after it has finished its requests. */
    public function stop(): void
    {
        posix_kill(getmypid(), SIGTERM);
    }

    private static function hand(Response|Hold $answer): void
    {
        \Fiber::suspend($answer);
    }
}
