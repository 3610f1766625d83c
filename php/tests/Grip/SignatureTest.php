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

    /** @dataProvider pairs */
    public function testKeysOfPemSignForTheirPublicOnes(string $private, string $public, string $token): void
    {
        $folder = __DIR__ . '/../../../crates/grip/tests/keys';
        $keys = [Signature::key("file:$folder/$private"), Signature::key("file:$folder/$public")];
        self::assertFalse(Signature::isSecret($keys[0]));
        // Sign repeatedly: only some ES256 signatures contain integers with leading zeros.
        for ($count = 0; $count < 50; ++$count) {
            $own = Signature::sign('edge', $keys[0]);
            self::assertTrue(Signature::isValid($own, $keys[1], 'edge'));
        }
        self::assertTrue(Signature::isValid($own, $keys[0]));
        self::assertFalse(Signature::isValid($own, 'secret'));
        self::assertFalse(Signature::isValid(Signature::sign('edge', 'secret'), $keys[1]));
        self::assertFalse(Signature::isValid(substr($own, 0, -4) . 'AAAA', $keys[1]));
        self::assertTrue(Signature::isValid(file_get_contents("$folder/$token"), $keys[1], 'pushpin'));
        $this->expectException(\ValueError::class);
        Signature::sign('edge', $keys[1]);
    }

    public static function pairs(): iterable
    {
        yield 'ES256' => ['ec-pkcs8.pem', 'ec-public.pem', 'es256.jwt'];
        yield 'RS256' => ['rsa-pkcs8.pem', 'rsa-public.pem', 'rs256.jwt'];
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
