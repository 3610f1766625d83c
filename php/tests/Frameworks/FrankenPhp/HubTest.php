<?php

declare(strict_types=1);

namespace Fermata\Tests\Frameworks\FrankenPhp;

use Fermata\FrankenPhp\{Hub, Worker};
use Fermata\Mercure;
use Fermata\Server;
use Fermata\Testing\TestServer;
use PHPUnit\Framework\TestCase;

/** Tests clients held by a server that also runs a FrankenPHP worker script. */
final class HubTest extends TestCase
{
    private const KEYS = [
        'MERCURE_PUBLISHER_JWT_KEY' => '!ChangeThisMercureHubJWTSecretKey!',
        'MERCURE_SUBSCRIBER_JWT_KEY' => '!ChangeThisMercureHubJWTSecretKey!',
    ];

    public function testTheEnvironmentMakesAHub(): void
    {
        $environment = self::KEYS + ['TEST_FOLDER' => sys_get_temp_dir(), 'MERCURE_EXTRA_DIRECTIVES' => "\n    anonymous\n    cors_origins http://localhost:8000\n"];
        $server = new TestServer(dirname(__DIR__, 3) . '/bin/fermata-frankenphp', $environment, [__DIR__ . '/worker.php']);
        $page = $server->open('GET', '/.well-known/mercure?topic=https://example.com/books/{id}', ['Origin' => 'http://localhost:8000']);
        $id = $server->get('/publish')->body;
        // Skip the position, an id without data.
        while (($event = $page->nextEvent()) !== null && $event['data'] === '');
        self::assertSame([$id, 'new title'], [$event['id'] ?? null, $event['data'] ?? null]);
        self::assertSame(401, $server->post('/.well-known/mercure', ['topic' => 'a', 'data' => 'b'])->status);
    }

    public function testAServerOfTheProgramHoldsClientsBesideTheScript(): void
    {
        $server = new TestServer(__DIR__ . '/held.php', ['TEST_FOLDER' => sys_get_temp_dir()]);
        $page = $server->open('GET', '/live');
        self::assertSame('once', $server->get('/')->body);
        $server->get('/publish');
        while (($event = $page->nextEvent()) !== null && $event['data'] === '');
        self::assertSame('new title', $event['data'] ?? null);
    }

    public function testWithoutAKeyThereIsNone(): void
    {
        self::assertNull(Hub::ofEnvironment([]));
        self::assertNull(Hub::ofEnvironment(['MERCURE_EXTRA_DIRECTIVES' => 'anonymous', 'MERCURE_PUBLISHER_JWT_KEY' => '']));
        self::assertInstanceOf(Mercure::class, Hub::ofEnvironment(['MERCURE_SUBSCRIBER_JWT_KEY' => 'a', 'MERCURE_SUBSCRIBER_JWT_ALG' => 'HS512']));
    }

    /** Parses the same text as a test of `fermata hub`. */
    public function testDirectivesAreReadAsTheHubReadsThem(): void
    {
        $text = (string) file_get_contents(dirname(__DIR__, 4) . '/tests/fixtures/mercure-directives.txt');
        $read = \Closure::bind(static fn(): array => Hub::directives($text, ['OTHER_ORIGIN' => 'https://d.example']), null, Hub::class)();
        self::assertSame([
            'cors_origins' => ['http://a.example', 'https://b.example'], 'anonymous' => [], 'subscriptions' => [],
            'publish_origins' => ['https://c.example', 'https://d.example'], 'cookie_name' => ['c'],
        ], $read);
    }

    /** @return iterable<array{array<string, string>, string}> */
    public static function wrong(): iterable
    {
        yield [['MERCURE_EXTRA_DIRECTIVES' => 'anonymus'], 'MERCURE_EXTRA_DIRECTIVES has anonymus'];
        yield [['MERCURE_PUBLISHER_JWT_ALG' => 'none'], 'MERCURE_PUBLISHER_JWT_ALG is none'];
    }

    /** @dataProvider wrong */
    public function testWhatCannotBeHadIsNamed(array $environment, string $text): void
    {
        $this->expectException(\ValueError::class);
        $this->expectExceptionMessage($text);
        Hub::ofEnvironment($environment + self::KEYS);
    }

    public function testAServerHasItsOwnAddressesAndWorkers(): void
    {
        $this->expectException(\ValueError::class);
        new Worker(__DIR__ . '/worker.php', workers: 2, server: new Server());
    }
}
