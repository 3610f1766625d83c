<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Application;
use Chat\Doors;
use Chat\User;
use PHPUnit\Framework\TestCase;

final class DoorsTest extends TestCase
{
    public function testChannelsNeedARight(): void
    {
        $user = new User(7, 'Ada');
        foreach ([Application::CHANNEL, $user->channel()] as $channel) {
            self::assertStringStartsWith('chat.private-', $channel);
        }
        self::assertSame(['all', 'user.7'], Doors::namesFor($user));
    }

    public function testATokenIsSignedAndForOneUser(): void
    {
        $before = time();
        [$head, $claims, $signature] = explode('.', (new Doors('secret'))->tokenFor(new User(7, 'Ada')));
        $decode = static fn (string $text): string => base64_decode(strtr($text, '-_', '+/'), true);
        self::assertSame(hash_hmac('sha256', "$head.$claims", 'secret', true), $decode($signature));
        self::assertSame(['alg' => 'HS256', 'typ' => 'JWT'], json_decode($decode($head), true));
        $claims = json_decode($decode($claims), true);
        self::assertSame(['subscribe' => ['all', 'user.7']], $claims['mercure']);
        self::assertGreaterThanOrEqual($before + Doors::TOKEN_S, $claims['exp']);
    }
}
