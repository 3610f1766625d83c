<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

/**
 * Thrown if an item cannot be published to an address.
 *
 * @internal
 */
final class Failure extends \RuntimeException
{
    /**
     * @param bool $mayHelp true if another attempt can succeed
     * @param bool $wasSent true if the item may have arrived
     */
    public function __construct(string $message, public readonly bool $mayHelp, public readonly bool $wasSent)
    {
        parent::__construct($message);
    }
}
