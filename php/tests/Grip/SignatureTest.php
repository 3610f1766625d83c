<?php

declare(strict_types=1);

namespace Fermata\Tests\Grip;

use Fermata\Grip\Signature;
use PHPUnit\Framework\TestCase;

final class SignatureTest extends TestCase
{
    public function testATokenIsKnownByItsKey(): void
    {
        $token = Signature::sign('pushpin', 'changeme');
        self::assertTrue(Signature::isValid($token, 'changeme'));
        self::assertTrue(Signature::isValid($token, Signature::key('base64:' . base64_encode('changeme')), 'pushpin'));
        self::assertFalse(Signature::isValid($token, 'changeme', 'another'));
        self::assertFalse(Signature::isValid($token, 'other'));
        self::assertFalse(Signature::isValid(substr($token, 0, -1), 'changeme'));
        self::assertFalse(Signature::isValid(Signature::sign('pushpin', 'changeme', -1), 'changeme'));
    }

    /** @dataProvider nonsense */
    public function testNonsenseIsNoToken(?string $token): void
    {
        self::assertFalse(Signature::isValid($token, ''));
    }

    public static function nonsense(): iterable
    {
        $part = fn (string $json) => rtrim(strtr(base64_encode($json), '+/', '-_'), '=');
        yield [null];
        yield [''];
        yield ['a.b.c'];
        yield 'no signature' => [$part('{"alg":"none"}') . '.' . $part('{"exp":99999999999}') . '.'];
        yield 'no end' => [$part('{"alg":"HS256"}') . '.' . $part('{"iss":"pushpin"}') . '.x'];
    }
}
