<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

use Fermata\Psr15\{Factories, Server};
use Fermata\Testing\TestApplication;
use PHPUnit\Framework\{SkippedTest, SkippedTestError};
use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};

/**
 * Runs each test inside a handler of the bridge with the handler's request. Superglobals, body and files belong to the request
 * only while its handler runs.
 */
trait InHandler
{
    /** The tested request. */
    private ServerRequestInterface $given;

    /** @return array{string, string, array<string, string>, string} method, target, headers and body of the client's request */
    abstract protected static function asked(): array;

    public function runBare(): void
    {
        $thrown = null;
        $bridge = new Server(function (ServerRequestInterface $request) use (&$thrown): ResponseInterface {
            $this->given = $request;
            $thrown = $this->failure();
            if ($thrown !== null && !$thrown instanceof SkippedTest && ($this->given = $this->own()) !== null && $this->failure() !== null) {
                $thrown = new SkippedTestError("a request that the library itself has made fails it too: {$thrown->getMessage()}");
            }
            return self::response();
        }, server: $server = new \Fermata\Server(limits: new \Fermata\Limits(handlers: 1)));
        (fn() => $this->front->register($server))->call($bridge);
        $application = TestApplication::of($server);
        try {
            [$method, $target, $headers, $body] = static::asked();
            $answer = $application->request($method, $target, $headers, $body);
            if ($thrown === null && $answer->status !== 204) {
                throw new \RuntimeException("the handler was not called: $answer->status $answer->body");
            }
        } finally {
            $application->stop();
        }
        if ($thrown !== null) {
            throw $thrown;
        }
    }

    private function failure(): ?\Throwable
    {
        try {
            parent::runBare();
            return null;
        } catch (\Throwable $error) {
            return $error;
        }
    }

    /** Returns the same request as an object of the library, to distinguish its failures from the bridge's; null: none. */
    protected function own(): ?ServerRequestInterface
    {
        return null;
    }

    private static function response(): ResponseInterface
    {
        $class = ['slim' => 'Slim\Psr7\Factory\ResponseFactory', 'laminas' => 'Laminas\Diactoros\ResponseFactory'][LIBRARY] ?? null;
        return ($class === null ? Factories::find()->requests : new $class())->createResponse(204);
    }
}
