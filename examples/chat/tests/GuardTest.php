<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Guard;
use Chat\Problem;
use PHPUnit\Framework\TestCase;

final class GuardTest extends TestCase
{
    private const JSON = 'application/json';

    /** @dataProvider requests */
    public function testAdmits(?int $status, ?string $configured, ?string $type, ?string $origin, ?string $site, ?string $host): void
    {
        try {
            (new Guard($configured))->admit($type, $origin, $site, $host);
            self::assertNull($status);
        } catch (Problem $problem) {
            self::assertSame($status, $problem->status);
        }
    }

    public static function requests(): array
    {
        return [
            'the page' => [null, null, self::JSON, 'http://127.0.0.1:8000', 'same-origin', '127.0.0.1:8000'],
            'curl' => [null, null, 'Application/JSON; charset=utf-8', null, null, '127.0.0.1:8000'],
            'behind a proxy' => [null, 'https://chat.example.org', self::JSON, 'https://chat.example.org', 'same-origin', '127.0.0.1:8000'],
            'a form elsewhere' => [415, null, 'text/plain', 'https://evil.example', 'cross-site', '127.0.0.1:8000'],
            'no type' => [415, null, null, null, null, '127.0.0.1:8000'],
            'another site' => [403, null, self::JSON, 'https://evil.example', null, '127.0.0.1:8000'],
            'another port' => [403, null, self::JSON, 'http://127.0.0.1:9000', null, '127.0.0.1:8000'],
            'another sub-domain' => [403, null, self::JSON, null, 'same-site', 'chat.example.org'],
            'opaque origin' => [403, null, self::JSON, 'null', null, '127.0.0.1:8000'],
            'a host that looks similar' => [403, null, self::JSON, 'http://127.0.0.1:8000.evil.example', null, '127.0.0.1:8000'],
            'http where https is set' => [403, 'https://chat.example.org', self::JSON, 'http://chat.example.org', null, 'chat.example.org'],
        ];
    }
}
