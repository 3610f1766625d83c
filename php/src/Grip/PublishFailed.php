<?php

declare(strict_types=1);

namespace Fermata\Grip;

/** Thrown if an address cannot be reached or refuses the item. The addresses that are not listed received the item. */
final class PublishFailed extends \RuntimeException
{
    /** @param array<string, string> $failures the cause for each failed address, keyed by the address without secrets */
    public function __construct(public readonly array $failures, ?\Throwable $previous = null)
    {
        $texts = array_map(fn (string $name, string $why) => "$name $why", array_keys($failures), $failures);
        parent::__construct(implode('; ', $texts), previous: $previous);
    }
}
