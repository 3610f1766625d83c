<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks;

use Fermata\Internal\HttpFoundation;
use PHPUnit\Framework\TestCase;
use Symfony\Component\HttpFoundation\Request;

/** @backupGlobals enabled */
final class HttpFoundationTest extends TestCase
{
    public static function setUpBeforeClass(): void
    {
        require_once 'Symfony/Component/HttpFoundation/autoload.php';
    }

    /** @return iterable<string, array{array<string, mixed>}> additional variables of $_SERVER */
    public static function withoutBody(): iterable
    {
        // withoutBody() caches the variable names of the first case for the later ones.
        yield 'all' => [['HTTP_COOKIE' => 'c=3', 'CONTENT_LENGTH' => '0', 'CONTENT_MD5' => 'x', 'PHP_AUTH_USER' => 'eve', 'PHP_AUTH_PW' => '', 'REDIRECT_HTTP_AUTHORIZATION' => 'x']];
        yield 'a page' => [['HTTP_HOST' => 'shop.example', 'HTTP_COOKIE' => 'c=3']];
        yield 'the head of a page' => [['REQUEST_METHOD' => 'HEAD', 'HTTP_ACCEPT' => 'text/html', 'HTTP_CACHE_CONTROL' => 'max-age=0']];
        yield 'a length' => [['CONTENT_LENGTH' => '0', 'CONTENT_MD5' => 'x', 'LATER' => 'a name that was not there before']];
        yield 'a user by PHP' => [['PHP_AUTH_USER' => 'ada', 'PHP_AUTH_PW' => 'secret']];
        yield 'a user by Apache' => [['REDIRECT_HTTP_AUTHORIZATION' => 'Bearer x']];
    }

    /**
     * @dataProvider withoutBody
     * @param array<string, mixed> $server
     */
    public function testARequestWithoutABodyIsAsSymfonyMakesIt(array $server): void
    {
        $this->show($server);
        $request = HttpFoundation::withoutBody(Request::class);
        self::assertNotNull($request);
        self::assertEquals(Request::createFromGlobals(), $request);
    }

    /** @return iterable<string, array{array<string, mixed>}> */
    public static function others(): iterable
    {
        yield 'a form' => [['REQUEST_METHOD' => 'POST']];
        yield 'a type' => [['CONTENT_TYPE' => 'application/json']];
        yield 'a type of no body' => [['HTTP_CONTENT_TYPE' => 'application/json']];
        yield 'a user' => [['HTTP_AUTHORIZATION' => 'Digest username="ada"']];
    }

    /**
     * @dataProvider others
     * @param array<string, mixed> $server
     */
    public function testOthersAreSymfonysToMake(array $server): void
    {
        $this->show($server);
        self::assertNull(HttpFoundation::withoutBody(Request::class));
    }

    /** Requests of an application with its own request factory come from that factory. */
    public function testAFactoryIsAsked(): void
    {
        $this->show([]);
        Request::setFactory(static fn(mixed ...$of): Request => new class (...$of) extends Request {});
        try {
            self::assertNull(HttpFoundation::withoutBody(Request::class));
        } finally {
            Request::setFactory(null);
        }
    }

    /** @param array<string, mixed> $server */
    private function show(array $server): void
    {
        $_SERVER = $server + ['REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/?a=1', 'QUERY_STRING' => 'a=1', 'HTTP_HOST' => 'test', 'PATH' => '/bin', 'SOME_HTTP_NAME' => 'x'];
        [$_GET, $_POST, $_COOKIE, $_FILES] = [['a' => '1'], [], ['c' => '3'], []];
    }
}
