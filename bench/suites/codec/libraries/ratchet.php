<?php

use Ratchet\RFC6455\Messaging\{CloseFrameChecker, Frame, MessageBuffer};

require getenv('BENCH_AUTOLOAD');

function measure(string $function, string $input, string $payload, int $calls): int
{
    $got = '';
    $buffer = new MessageBuffer(new CloseFrameChecker(), static function ($message) use (&$got): void {
        $got = $message->getPayload();
    });
    $function === 'decode' && $buffer->onData($input);
    $encoded = (new Frame($payload, true, Frame::OP_TEXT))->getContents();
    if (!str_ends_with($encoded, $payload) || $function === 'decode' && $got !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = (new Frame($input, true, Frame::OP_TEXT))->getContents();
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $buffer->onData($input);
        }
    }
    return hrtime(true) - $start;
}
