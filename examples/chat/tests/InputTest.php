<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Input;
use Chat\Problem;
use PHPUnit\Framework\TestCase;

final class InputTest extends TestCase
{
    /** @dataProvider names */
    public function testNameIsAccepted(string $typed, string $accepted): void
    {
        self::assertSame($accepted, Input::name($typed));
    }

    public static function names(): array
    {
        return [
            'plain' => ['mary', 'mary'],
            'markup is only text' => ['<script>alert(1)</script>', '<script>alert(1)</script>'],
            'spaces around and inside' => ["  Mary \u{00a0}  Ann ", 'Mary Ann'],
            'other scripts' => ['Николай 李', 'Николай 李'],
            'emoji' => ['🎼', '🎼'],
            'emoji with a variation selector' => ["\u{2764}\u{FE0F}", "\u{2764}\u{FE0F}"],
            'longest' => [str_repeat('ä', 32), str_repeat('ä', 32)],
        ];
    }

    /** @dataProvider badNames */
    public function testNameIsRefused(mixed $typed): void
    {
        $problem = $this->refusal(static fn () => Input::name($typed));
        self::assertSame([422, 'name'], [$problem->status, $problem->field]);
    }

    public static function badNames(): array
    {
        return [
            'missing' => [null],
            'not text' => [['mary']],
            'empty' => [''],
            'only spaces' => [" \u{2003}\t "],
            'too long' => [str_repeat('a', 33)],
            'not UTF-8' => ["mary\xff"],
            'control character' => ["ma\x07ry"],
            'line break inside' => ["ma\nry"],
            'zero width space' => ["ma\u{200b}ry"],
            'right-to-left override' => ["\u{202e}yram"],
            'letter drawn as nothing' => ["mary\u{115f}"],
            'mark drawn as nothing' => ["m\u{034f}ary"],
            'variation selector beyond emoji' => ["mary\u{e0100}"],
            'only a variation selector' => ["\u{fe0f}"],
            'reserved' => ['ALL'],
            'reserved too' => ['Everyone'],
            'reserved, with a variation selector' => ["all\u{fe0f}"],
        ];
    }

    public function testNamesThatDifferInCaseAreOneName(): void
    {
        self::assertSame(Input::nameKey('STRASSE'), Input::nameKey('straße'));
        self::assertSame(Input::nameKey('Mary'), Input::nameKey('mARY'));
        self::assertSame(Input::nameKey('Mary'), Input::nameKey("Mary\u{fe0f}"));
        self::assertNotSame(Input::nameKey('Mary'), Input::nameKey('Marie'));
    }

    /** @dataProvider badPasswords */
    public function testPasswordIsRefused(mixed $typed): void
    {
        self::assertSame('password', $this->refusal(static fn () => Input::password($typed))->field);
    }

    public static function badPasswords(): array
    {
        return [
            'missing' => [null],
            'too short' => ['1234567'],
            'more than bcrypt reads' => [str_repeat('a', 73)],
            'with NUL' => ["correct\0horse"],
            'not UTF-8' => ["correct horse\xff"],
        ];
    }

    public function testPasswordIsTakenAsTyped(): void
    {
        self::assertSame(' correct horse ', Input::password(' correct horse '));
    }

    public function testTextKeepsLinesAndMarkupAndLosesControlCharacters(): void
    {
        self::assertSame("a\n\tb <b>c</b>", Input::text("\r\na\r\n\tb\x00\x1b <b>c</b> \n\n"));
    }

    public function testTextIsBounded(): void
    {
        $longest = str_repeat('x', Input::TEXT_BYTES_MAX);
        self::assertSame($longest, Input::text($longest));
        self::assertSame('text', $this->refusal(static fn () => Input::text("x$longest"))->field);
        self::assertSame('text', $this->refusal(static fn () => Input::text(str_repeat('ä', Input::TEXT_BYTES_MAX / 2 + 1)))->field);
    }

    /** @dataProvider badTexts */
    public function testTextIsRefused(mixed $typed): void
    {
        self::assertSame('text', $this->refusal(static fn () => Input::text($typed))->field);
    }

    public static function badTexts(): array
    {
        return ['missing' => [null], 'empty' => [''], 'blank' => [" \n\u{00a0}"], 'only control characters' => ["\0\x01"], 'not UTF-8' => ["\xc3"]];
    }

    public function testKey(): void
    {
        self::assertSame('0a1b2c3d-x', Input::key('0a1b2c3d-x'));
        foreach ([null, 7, '', 'short', "0a1b2c3d\n", str_repeat('a', 65), 'has space '] as $bad) {
            self::assertSame('key', $this->refusal(static fn () => Input::key($bad))->field);
        }
    }

    public function testId(): void
    {
        self::assertNull(Input::id(null));
        self::assertSame(0, Input::id('0'));
        self::assertSame(120, Input::id('120'));
        foreach (['', '-1', '1e3', ' 1', "1\n", '9999999999999999999'] as $bad) {
            self::assertSame(400, $this->refusal(static fn () => Input::id($bad))->status);
        }
    }

    private function refusal(callable $work): Problem
    {
        try {
            $work();
        } catch (Problem $problem) {
            return $problem;
        }
        self::fail('A Problem should be thrown.');
    }
}
