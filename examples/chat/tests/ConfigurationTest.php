<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Configuration;
use PHPUnit\Framework\TestCase;

final class ConfigurationTest extends TestCase
{
    public function testDefaults(): void
    {
        $configuration = Configuration::fromEnvironment(['CHAT_DB' => ''], '/chat');
        self::assertSame('/chat/var/chat.sqlite', $configuration->database);
        self::assertSame(Configuration::KEEP_ALIVE_SECONDS, $configuration->keepAliveSeconds);
        self::assertNull($configuration->origin);
        self::assertFalse($configuration->isSecure());
    }

    public function testEnvironment(): void
    {
        $configuration = Configuration::fromEnvironment(
            ['CHAT_DB' => 'pgsql:dbname=chat', 'CHAT_ORIGIN' => 'https://chat.example.org/', 'CHAT_KEEP_ALIVE' => '3'],
            '/chat',
        );
        self::assertSame(['pgsql:dbname=chat', 'https://chat.example.org', 3], [$configuration->database, $configuration->origin, $configuration->keepAliveSeconds]);
        self::assertTrue($configuration->isSecure());
    }

    /** @dataProvider mistakes */
    public function testMistakesAreNamed(string $name, string $value): void
    {
        $this->expectExceptionMessage($name);
        Configuration::fromEnvironment([$name => $value], '/chat');
    }

    public static function mistakes(): array
    {
        return [
            ['CHAT_ORIGIN', 'chat.example.org'],
            ['CHAT_ORIGIN', 'https://chat.example.org/chat'],
            ['CHAT_KEEP_ALIVE', '0'],
            ['CHAT_KEEP_ALIVE', 'often'],
        ];
    }
}
