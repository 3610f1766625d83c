<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

/**
 * Why an address has not taken an item, and whether another try can help.
 *
 * @internal
 */
final class Failure extends \RuntimeException
{
    /** @param bool $wasSent whether the item may have arrived nevertheless */
    public function __construct(string $message, public readonly bool $mayHelp, public readonly bool $wasSent)
    {
        parent::__construct($message);
    }
}
