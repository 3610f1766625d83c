<?php

declare(strict_types=1);

use Amp\Websocket\Parser\{Rfc6455FrameCompiler, Rfc6455Parser, WebsocketFrameHandler, WebsocketFrameType};

require getenv('BENCH_AUTOLOAD');

final class Last implements WebsocketFrameHandler
{
    public string $data = '';

    public function handleFrame(WebsocketFrameType $frameType, string $data, bool $isFinal): void
    {
        $this->data = $data;
    }
}

function measure(string $function, string $input, string $payload, int $calls): int
{
    $last = new Last();
    $parser = new Rfc6455Parser($last, masked: false);
    $compiler = new Rfc6455FrameCompiler(masked: false);
    $function === 'decode' && $parser->push($input);
    $encoded = $compiler->compileFrame(WebsocketFrameType::Text, $payload, true);
    if (!str_ends_with($encoded, $payload) || $function === 'decode' && $last->data !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = $compiler->compileFrame(WebsocketFrameType::Text, $input, true);
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $parser->push($input);
        }
    }
    return hrtime(true) - $start;
}
