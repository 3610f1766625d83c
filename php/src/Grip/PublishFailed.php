<?php

declare(strict_types=1);

namespace Fermata\Grip;

/** An edge could not be reached, or has refused the item; the others have it. */
final class PublishFailed extends \RuntimeException
{
}
