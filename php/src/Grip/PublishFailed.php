<?php

declare(strict_types=1);

namespace Fermata\Grip;

/** An edge could not be reached, or has refused the item; the others have it. */
final class PublishFailed extends \RuntimeException
{
    /** @param array<string, string> $failures what went wrong, by address without its secrets */
    public function __construct(public readonly array $failures, ?\Throwable $previous = null)
    {
        $texts = array_map(fn (string $name, string $why) => "$name $why", array_keys($failures), $failures);
        parent::__construct(implode('; ', $texts), previous: $previous);
    }
}
