<?php

declare(strict_types=1);

namespace Fermata\Tests\Grip;

use Fermata\Grip\Item;
use PHPUnit\Framework\TestCase;

final class ItemTest extends TestCase
{
    public function testAnEventHasAFormForEachTransport(): void
    {
        $item = Item::event("one\ntwo", name: 'message', id: '7', previousId: '6')->toArray('room');
        self::assertSame([
            'channel' => 'room',
            'formats' => [
                'http-stream' => ['content' => "id: 7\nevent: message\ndata: one\ndata: two\n\n"],
                'http-response' => ['body' => "one\ntwo"],
                'ws-message' => ['content' => "one\ntwo"],
            ],
            'id' => '7',
            'prev-id' => '6',
        ], $item);
    }

    public function testBytesThatAreNoTextTravelAsBase64(): void
    {
        $formats = (new Item(response: "\xff", headers: ['X-A' => '1'], message: "\0\xff"))->toArray('c')['formats'];
        self::assertSame(['body-bin' => '/w==', 'headers' => ['X-A' => '1']], $formats['http-response']);
        self::assertSame(['content-bin' => 'AP8='], $formats['ws-message']);
        self::assertArrayNotHasKey('http-stream', $formats);
    }

    public function testCloseEndsStreamsAndWebSockets(): void
    {
        $formats = Item::close()->toArray('c')['formats'];
        self::assertSame(['http-stream', 'ws-message'], array_keys($formats));
    }

    public function testAHintHasNoContent(): void
    {
        $formats = Item::hint()->toArray('c')['formats'];
        self::assertSame(['http-response' => ['action' => 'hint'], 'http-stream' => ['action' => 'hint']], $formats);
    }

    /** @dataProvider broken */
    public function testLinesCannotBeBroken(\Closure $make): void
    {
        $this->expectException(\ValueError::class);
        $make();
    }

    public static function broken(): iterable
    {
        yield 'name' => [fn () => Item::event('x', name: "a\ndata: b")];
        yield 'id' => [fn () => Item::event('x', id: "a\rb")];
        yield 'nothing' => [fn () => new Item()];
    }
}
